/* SPDX-License-Identifier: Apache-2.0
 * source_table.h: a user's own table as a source of jobs, by the `work` part
 * of its watch.
 *
 * The user's rows keep what the user's SET lists say and nothing else. Who has
 * a job, since when and for the how many-th time stands in defib's own lease
 * table beside it, one row per job, claimed by INSERT … ON CONFLICT.
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
 * Jobs of a workflow run one step a claim. A step that was done, with more to
 * come, writes `step` (else release); other ends as above. Rows that match
 * `rollback_ready` are claimed to be undone: nothing is written to them until
 * all is, and then `rolled_back`.
 */
#ifndef WORKER_SOURCE_TABLE_H
#define WORKER_SOURCE_TABLE_H

#include "recover/look.h"
#include "watch/watch.h"
#include "worker/source.h"

/*
 * Bind and compile with a session of the table's database; `kind` NULL: all
 * kinds. The watch must outlive the source. DEFIB_CONFIG names the option that
 * does not fit.
 */
MUST_CHECK defib_err source_table(const struct watch *w, const char *kind, struct store *s,
                                  struct source **out, struct failure *f);

/*
 * A few jobs of the table, named one by one (source_chosen.c): each is offered once, in the order
 * given, and claimed, leased and settled like any other. Offered once: a job that fails and goes
 * back must not be taken again by the same emergency run. Jobs that run are offered too, unless
 * their worker is known to live: a person said so.
 */
struct chosen_options {
	const struct watch *watch; /* outlives the source, as the jobs do */
	const struct aged *jobs;
	int n;
	/* It could not be claimed. Called by the thread that claims. */
	void (*not_claimed)(void *ctx, const char *job);
	/* It was settled, took_ms after its claim. Called by the thread that settles. */
	void (*ended)(void *ctx, const struct settlement *end, int64_t took_ms);
	void *ctx;
};

MUST_CHECK defib_err source_chosen(const struct chosen_options *o, struct store *s,
                                   struct source **out, struct failure *f);

#endif
