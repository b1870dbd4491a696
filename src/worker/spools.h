/* SPDX-License-Identifier: Apache-2.0
 * spools.h: what a worker could not record, one spool a source, so that no table keeps the results
 * of another waiting.
 *
 *   FOLDER/lock                  held while it is open: two workers of one name cannot share it
 *   FOLDER/sources/NAME/         a spool (spool.h): results that wait for the database, in order
 *   FOLDER/sources/NAME/aside/   another: results that the database refused, each with the reason
 *
 * What is set aside is as durable as the rest, stands in nobody's way and is offered again from
 * time to time by whoever owns the folder. Results of a source that this worker no longer serves
 * stay where they are. The single spool of earlier versions (FOLDER/spool) is split at the open.
 *
 * Not for several threads at once. Nothing here waits for anything but the disk.
 */
#ifndef WORKER_SPOOLS_H
#define WORKER_SPOOLS_H

#include "worker/spool_results.h"

struct spools;

enum spools_list { SPOOLS_WAITING, SPOOLS_ASIDE };

/* `max_bytes` for all sources together; 0: 64 MiB. DEFIB_REFUSED: another process owns it. */
MUST_CHECK defib_err spools_open(const char *folder, int64_t max_bytes, struct spools **out,
                                 struct failure *f);
void spools_close(struct spools *s); /* NULL is allowed */
/* Open what a source needs now: when a result must be kept there may be no descriptors left. */
MUST_CHECK defib_err spools_ready(struct spools *s, const char *source, struct failure *f);

/* All or none, with one sync. `why` NULL: they wait; else they are set aside for that reason. */
MUST_CHECK defib_err spools_append_many(struct spools *s, const char *source,
                                        const struct spool_result *all, int n, const char *why,
                                        struct failure *f);
/* The oldest ones, in order; texts are in the arena. */
int spools_peek_many(struct spools *s, const char *source, enum spools_list list,
                     struct spools_record *out, int most, struct arena *a);
/*
 * The first `n` of the last peek are done with: recorded where refused[i] is NULL (or `refused`
 * is), else set aside for that reason, behind all that are. A crash in between repeats nothing.
 */
MUST_CHECK defib_err spools_take_many(struct spools *s, const char *source, enum spools_list list,
                                      const struct spools_record *all, int n,
                                      const char *const *refused, struct failure *f);

/* Is the end of this claim kept here? Then the job is not forgotten, whatever the hand says. */
bool spools_holds(const struct spools *s, const char *source, int64_t worker, const char *key,
                  int64_t epoch);
int64_t spools_waiting(const struct spools *s, const char *source);
int64_t spools_aside(const struct spools *s, const char *source);
/* When what is set aside is to be offered again: the caller's to keep, zero at the open. */
struct spools_retry {
	int64_t at_ms;
	bool when_taken; /* its source refused all, not single rows: when it takes any, try again */
};
struct spools_retry *spools_retry(const struct spools *s, const char *source); /* NULL: no spool */

struct spools_totals {
	int64_t waiting, bytes; /* the bytes also of what is set aside */
	int64_t set_aside;
	const char *why, *why_source; /* of the first that is; NULL: none. Until the next change */
};
void spools_totals(const struct spools *s, struct spools_totals *out);
/* The i-th source that has something, in no order; NULL: there are no more. */
const char *spools_source(const struct spools *s, int i);

#endif
