/* SPDX-License-Identifier: Apache-2.0
 * spooling.h: what goes into the spools of a worker (spools.h) and how it is drained.
 *
 * If the database is unavailable, the result waits, and later results of the same source wait
 * behind it. If the database answers but refuses the result (a constraint, a revoked privilege, a
 * missing table), the result is set aside, so that it delays no other, and is offered again every
 * minute, and as soon as its source has accepted another.
 */
#ifndef WORKER_SPOOLING_H
#define WORKER_SPOOLING_H

#include "worker/spools.h"
#include "worker/worker_state.h"

/* Ends of one incarnation, whose claims came from one database. */
struct spooled_ends {
	const char *database; /* as in struct spool_result */
	int64_t worker;
	struct settlement *ends;
	const struct failure **why;
	int n;
	bool again; /* they were refused before, and set aside */
};

/*
 * Record ends. why[i] NULL: it was processed (ends[i].accepted); else what went wrong,
 * store_unavailable() or permanent.
 */
typedef void (*settle_fn)(void *ctx, const struct spooled_ends *o, struct arena *a);

/*
 * Offer what waits in the spool of a source, in order, until the database is unavailable; then what
 * is set aside, if it is due. Returns how many were processed.
 */
int64_t spooling_drain(struct spools *s, const char *source, int64_t now_ms, settle_fn settle,
                       void *ctx);
/*
 * After a failover: `has` is everything that this worker has according to the database. Its ends
 * that are set aside and belong to no such claim are dropped: that claim was lost, and a later one
 * may have its epoch.
 */
void spooling_forget(struct spools *s, const char *source, int64_t worker,
                     const struct settlement *has, int nhas);
/* A source has accepted ends: it may now accept what it refused before. */
void spooling_taken(struct spools *s, const char *source);
/*
 * Store ends of one source that could not be recorded, as why[i] says; why[i] NULL: not needed.
 * kept[i]: it is on disk now. *f says why the others are not.
 */
void spooling_keep(struct spools *s, const char *source, const struct spool_result *all,
                   const struct failure *const *why, int n, bool *kept, struct failure *f);

/* ---- the spools of a running worker ---- */

MUST_CHECK defib_err turns_spool_open(struct worker *w, struct failure *f);
void turns_spool_news(const struct worker *w, struct spool_news *out);
/* Is the end of this claim stored? Then its job is not lost. */
bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch);
/* Report to the engine how much waits in each spool. */
void turns_spool_tell(struct worker *w, int64_t now_us);
/*
 * Offer what waits for the sources of `pool` and of others with the same jobs, oldest first, and
 * what was set aside when it is due. Returns how much still waits.
 */
int64_t turns_spool_drain(struct worker *w, int pool);
/* After a failover: drop set-aside ends of the claimer that do not belong to jobs it has. */
void turns_spool_forget(struct worker *w, const struct turn_part *p);
/* Whether it is time to offer what was set aside again. */
bool turns_spool_due(const struct worker *w, int pool);
/* A pool's source has accepted ends: it may now accept what it refused before. */
void turns_spool_taken(struct worker *w, int pool);
/*
 * Store the ends of `j` and those linked to it, which belong to one source; kept[i] says which were
 * stored.
 */
void turns_spool_keep(struct worker *w, struct job *j, const struct failure *why, bool *kept,
                      struct failure *f);

#endif
