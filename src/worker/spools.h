/* SPDX-License-Identifier: Apache-2.0
 * spools.h: what a worker could not record, in one spool (store/spool.h) with a lane per source, so
 * that no table delays the results of another. In a lane, results wait in order; beside them are
 * those that the database refused, each with the reason.
 *
 * Results that are set aside are as durable as the rest, delay no other result, and are offered
 * again from time to time by the owner of the directory. Results of a source that this worker no
 * longer serves stay where they are. A record names the database that its claim came from, by the
 * id that `init` drew there, and the incarnation that claimed it: it is offered to no other.
 *
 * Not thread-safe. Nothing here waits for anything but the disk.
 */
#ifndef WORKER_SPOOLS_H
#define WORKER_SPOOLS_H

#include "store/spool.h"
#include "worker/spool_results.h"

struct spools_record {
	struct spool_result result;
	bool whole;      /* false: it was changed on disk, or is no result */
	const char *why; /* why it was set aside; NULL: it was not */
	struct spool_record raw;
};

struct spools;

enum spools_list { SPOOLS_WAITING, SPOOLS_ASIDE };

/* `max_bytes` for all sources together; 0: 64 MiB. DEFIB_REFUSED: another process owns it. */
MUST_CHECK defib_err spools_open(const char *folder, int64_t max_bytes, struct spools **out,
                                 struct failure *f);
void spools_close(struct spools *s); /* NULL is allowed */
/* All or none, with one sync. `why` NULL: they wait; else they are set aside for that reason. */
MUST_CHECK defib_err spools_append_many(struct spools *s, const char *source,
                                        const struct spool_result *all, int n, const char *why,
                                        struct failure *f);
/* The oldest ones, in order; texts are in the arena. */
int spools_peek_many(struct spools *s, const char *source, enum spools_list list,
                     struct spools_record *out, int most, struct arena *a);
/*
 * These are finished: recorded if refused[i] (or `refused`) is NULL, else set aside for that
 * reason, after those already there. All or none, with one sync.
 */
MUST_CHECK defib_err spools_take_many(struct spools *s, const char *source, enum spools_list list,
                                      const struct spools_record *all, int n,
                                      const char *const *refused, struct failure *f);

/* Is the end of this claim stored here? Then the job is not lost, even if it is not in hand. */
bool spools_holds(const struct spools *s, const char *source, int64_t worker, const char *key,
                  int64_t epoch);
int64_t spools_waiting(const struct spools *s, const char *source);
int64_t spools_aside(const struct spools *s, const char *source);
/* When to offer results that were set aside again: kept for the caller, zero at open. */
struct spools_retry {
	int64_t at_ms;
	bool when_taken; /* its source refused everything, not single rows: try again once it accepts
	                    any */
};
struct spools_retry *spools_retry(struct spools *s, const char *source);

struct spools_totals {
	int64_t waiting, bytes; /* bytes include what is set aside */
	int64_t set_aside;
	const char *why,
		*why_source; /* of the first one set aside; NULL: none. Valid until the next change */
};
void spools_totals(const struct spools *s, struct spools_totals *out);
/* The i-th source that has records, in no order; NULL: no more. */
const char *spools_source(const struct spools *s, int i);

#endif
