/* SPDX-License-Identifier: Apache-2.0
 * source_table.h: a user's own table as a source of jobs, configured by the `work` part of its
 * watch.
 *
 * The user's rows contain what the user's SET lists write and nothing else. The worker of a job,
 * the time of its claim and the number of its claims are in defib's own lease table, one row per
 * job, claimed by INSERT … ON CONFLICT.
 *
 * Which list is written when a job ends:
 *   done                            done
 *   failed, crashed, permanent      failed
 *   timed_out                       timed_out, else failed
 *   released, stopped               release
 *   anything but done, of a row
 *   that `cancel` was written to    failed, with the error "cancelled" if it has none
 *   retry; or failed, timed_out and
 *   crashed where a backoff and
 *   max_attempts are given and
 *   attempts are left               release; else failed where a claim changed the row
 * A list that is not given changes only the lease.
 *
 * Jobs of a workflow run one step per claim. A finished step that is not the last writes `step`
 * (else release); other ends as above. Rows that match `rollback_ready` are claimed to be undone:
 * nothing is written to them until everything is undone, and then `rolled_back`.
 */
#ifndef WORKER_SOURCE_TABLE_H
#define WORKER_SOURCE_TABLE_H

#include "recover/look.h"
#include "watch/watch.h"
#include "worker/source.h"

/*
 * Bind and compile with a session on the table's database; `kind` NULL: all kinds. The watch must
 * outlive the source. DEFIB_CONFIG names the option that does not fit.
 */
MUST_CHECK defib_err source_table(const struct watch *w, const char *kind, struct store *s,
                                  struct source **out, struct failure *f);

/*
 * A few jobs of the table, named individually (source_chosen.c): each is offered once, in the given
 * order, and claimed, leased and settled like any other. Only once, because a job that fails and is
 * released must not be claimed again by the same emergency run. Running jobs are offered too,
 * unless their worker is known to be alive: an operator asked for them.
 */
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
