/* SPDX-License-Identifier: Apache-2.0
 * spooling.h: what goes into the spools of a worker (spools.h) and how it comes out again.
 *
 * The database is away: the result waits, and what ends after it in the same source waits behind
 * it. The database answers and refuses (a constraint, a right that was revoked, a table that is
 * gone): the result is set aside, so that it stands before no other, and is offered again every
 * minute, and as soon as its source has taken another.
 */
#ifndef WORKER_SPOOLING_H
#define WORKER_SPOOLING_H

#include "worker/spools.h"

/*
 * Record ends of one incarnation. why[i] NULL: it was answered (ends[i].accepted); else what went
 * wrong, store_away() or for good.
 */
typedef void (*settle_fn)(void *ctx, int64_t worker, struct settlement *ends,
                          const struct failure **why, int n, struct arena *a);

/*
 * Offer what waits in the spool of a source, in order, until the database is away; then what is
 * set aside, where its time has come. How many were answered.
 */
int64_t spooling_drain(struct spools *s, const char *source, int64_t now_ms, settle_fn settle,
                       void *ctx);
/* A source has taken ends: what it refused may be welcome now. */
void spooling_taken(struct spools *s, const char *source);
/*
 * Keep ends of one source that could not be recorded, as why[i] says; why[i] NULL: it needs no
 * keeping. kept[i]: on the disk now. *f says of the others why they are not.
 */
void spooling_keep(struct spools *s, const char *source, const struct spool_result *all,
                   const struct failure *const *why, int n, bool *kept, struct failure *f);

#endif
