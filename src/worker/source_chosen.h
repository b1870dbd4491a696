/* SPDX-License-Identifier: Apache-2.0
 * source_chosen.h: a few jobs of a user's table, named one by one, as a source:
 * each is offered once, in the order given, and claimed, leased and settled
 * like any other.
 *
 * Offered once: a job that fails and goes back must not be taken again by the
 * same emergency run. Jobs that run are offered too, unless their worker is
 * known to live: a person said so.
 */
#ifndef WORKER_SOURCE_CHOSEN_H
#define WORKER_SOURCE_CHOSEN_H

#include "recover/aged.h"
#include "worker/source.h"

struct chosen_options {
	const struct watch *watch; /* outlives the source, as the jobs do */
	const struct aged *jobs;
	int n;
	/* It could not be claimed. Called by the thread that claims. */
	void (*left)(void *ctx, const char *job);
	/* It was settled, took_ms after its claim. Called by the thread that settles. */
	void (*ended)(void *ctx, const struct settlement *end, int64_t took_ms);
	void *ctx;
};

MUST_CHECK defib_err source_chosen(const struct chosen_options *o, struct store *s,
                                   struct source **out, struct failure *f);

#endif
