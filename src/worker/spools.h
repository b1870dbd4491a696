/* SPDX-License-Identifier: Apache-2.0
 * spools.h: what a worker could not record, one spool per source, so that no table delays the
 * results of another.
 *
 *   FOLDER/lock                  held while it is open: two workers of one name cannot share it
 *   FOLDER/sources/NAME/         a spool (spool.h): results that wait for the database, in order
 *   FOLDER/sources/NAME/aside/   another: results that the database refused, each with the reason
 *
 * Results that are set aside are as durable as the rest, delay no other result, and are offered
 * again from time to time by the owner of the directory. Results of a source that this worker no
 * longer serves stay where they are. The single spool of earlier versions (FOLDER/spool) is split
 * at open.
 *
 * Not thread-safe. Nothing here waits for anything but the disk.
 */
#ifndef WORKER_SPOOLS_H
#define WORKER_SPOOLS_H

#include "worker/source.h"
#include "worker/spool.h"

/* ---- results ---- */

/*
 * Results in a spool, identified by their claims, so that none is stored twice. In the list of
 * results set aside, a record is the reason, a newline, and the original result.
 */

/* The end of a job, as JSON. Any process that finds it can submit it, fenced like any other. */
struct spool_result {
	const char *source; /* its name */
	int64_t worker;     /* the incarnation that claimed the job */
	const char *token;  /* as its program got it; NULL: it got none */
	struct settlement end;
};

void spool_result_encode(const struct spool_result *r, struct buf *out);
/*
 * False: it cannot be understood. *out then has what could be read: its source and key, or "".
 * Texts are in the arena.
 */
bool spool_result_decode(const char *bytes, size_t n, struct arena *a, struct spool_result *out);
/* Identifies the end of one claim: the same for every record of that claim. */
uint64_t spool_result_id(int64_t worker, const char *key, int64_t epoch);

/* ---- results in a spool ---- */

#define SPOOL_WHY_MOST 400 /* bytes of a reason */

struct spool_list {
	bool aside;
	struct spool *spool; /* NULL: not opened, empty */
	uint64_t *ids;       /* spool_result_id() of its records, in order, starting at `first` */
	int first, n, cap;
};

struct spools_record {
	struct spool_result result;
	bool whole;      /* false: this version cannot read its bytes as a result */
	const char *why; /* why it was set aside; NULL: it was not */
	struct spool_record raw;
};

/* *source (the caller frees it) is filled if it is NULL and a record names it. */
MUST_CHECK defib_err list_open(struct spool_list *l, const char *path, char **source,
                               struct failure *f);
void list_close(struct spool_list *l);
int64_t list_count(const struct spool_list *l);
int64_t list_bytes(const struct spool_list *l);
/* Does it contain a record of this claim, after the `from` oldest? */
bool list_has(const struct spool_list *l, int from, uint64_t id);
/* A result as a record of the list, in the arena; `why` if it is set aside. */
struct spool_record list_record(const struct spool_list *l, const char *why, const char *bytes,
                                size_t n, struct arena *a);
MUST_CHECK defib_err list_append(struct spool_list *l, const struct spool_record *all,
                                 const uint64_t *ids, int n, struct failure *f);
int list_peek(struct spool_list *l, struct spools_record *out, int most, struct arena *a);
/* The bytes of its result, without the reason. */
const char *list_result(const struct spool_list *l, const struct spool_record *r, size_t *n);
MUST_CHECK defib_err list_take(struct spool_list *l, const struct spools_record *all, int n,
                               struct failure *f);
/*
 * Remove those of the oldest that are also in `other`, from position `from` on: a crash left them
 * in both.
 */
MUST_CHECK defib_err list_drop_repeated(struct spool_list *l, const struct spool_list *other,
                                        int from, struct failure *f);
/* The reason of the first, "" if there is none. */
void list_why(struct spool_list *l, char out[SPOOL_WHY_MOST + 1]);

/* ---- the spools of a worker ---- */

struct spools;

enum spools_list { SPOOLS_WAITING, SPOOLS_ASIDE };

/* `max_bytes` for all sources together; 0: 64 MiB. DEFIB_REFUSED: another process owns it. */
MUST_CHECK defib_err spools_open(const char *folder, int64_t max_bytes, struct spools **out,
                                 struct failure *f);
void spools_close(struct spools *s); /* NULL is allowed */
/* Open what a source needs now: when a result must be stored, no descriptors may be left. */
MUST_CHECK defib_err spools_ready(struct spools *s, const char *source, struct failure *f);

/* All or none, with one sync. `why` NULL: they wait; else they are set aside for that reason. */
MUST_CHECK defib_err spools_append_many(struct spools *s, const char *source,
                                        const struct spool_result *all, int n, const char *why,
                                        struct failure *f);
/* The oldest ones, in order; texts are in the arena. */
int spools_peek_many(struct spools *s, const char *source, enum spools_list list,
                     struct spools_record *out, int most, struct arena *a);
/*
 * The first `n` of the last peek are finished: recorded if refused[i] (or `refused`) is NULL, else
 * set aside for that reason, after those already there. A crash in between repeats nothing.
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
struct spools_retry *spools_retry(const struct spools *s, const char *source); /* NULL: no spool */

struct spools_totals {
	int64_t waiting, bytes; /* bytes include what is set aside */
	int64_t set_aside;
	const char *why,
		*why_source; /* of the first one set aside; NULL: none. Valid until the next change */
};
void spools_totals(const struct spools *s, struct spools_totals *out);
/* The i-th source that has records, in no order; NULL: no more. */
const char *spools_source(const struct spools *s, int i);

/* ---- storing and draining ---- */

/*
 * What goes into the spools of a worker (spools.h) and how it is drained.
 *
 * If the database is unavailable, the result waits, and later results of the same source wait
 * behind it. If the database answers but refuses the result (a constraint, a revoked privilege, a
 * missing table), the result is set aside, so that it delays no other, and is offered again every
 * minute, and as soon as its source has accepted another.
 */

/*
 * Record ends of one incarnation. why[i] NULL: it was processed (ends[i].accepted); else what went
 * wrong, store_unavailable() or permanent.
 */
typedef void (*settle_fn)(void *ctx, int64_t worker, struct settlement *ends,
                          const struct failure **why, int n, struct arena *a);

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

#endif
