/* SPDX-License-Identifier: Apache-2.0
 * source_chosen.h: a few jobs of a user's table, named individually: each is offered once, in the
 * given order, and claimed, leased and settled like any other. Only once, because a job that fails
 * and is released must not be claimed again by the same emergency run. Running jobs are offered
 * too, unless their worker is known to be alive: an operator asked for them.
 */
#ifndef WORKER_SOURCE_CHOSEN_H
#define WORKER_SOURCE_CHOSEN_H

#include "worker/source.h"

struct aged;
struct chosen_options {
	const struct watch *watch; /* outlives the source, as do the jobs */
	const struct aged *jobs;
	int n;
	/* A job could not be claimed. Called by the thread that claims. */
	void (*not_claimed)(void *ctx, const char *job);
	/* A job was settled, took_ms after its claim. Called by the thread that settles. */
	void (*ended)(void *ctx, const struct settlement *end, int64_t took_ms);
	void *ctx;
};

MUST_CHECK defib_err source_chosen(const struct chosen_options *o, struct store *s,
                                   struct source **out, struct failure *f);

#endif
