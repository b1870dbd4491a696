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

#include "base/text.h"
#include "worker/source.h"
#include "worker/spool.h"

/* ---- results ---- */

/*
 * Results in a spool, known by their claims, so that none is kept twice. In the
 * list of what was set aside a record is the reason, a new line, and the result as it was.
 */

/* The end of a job, as JSON: whoever finds it can offer it, fenced like any other. */
struct spool_result {
	const char *source; /* its name */
	int64_t worker;     /* the incarnation that claimed the job */
	const char *token;  /* as its program saw it; NULL: it saw none */
	struct settlement end;
};

void spool_result_encode(const struct spool_result *r, struct buf *out);
/*
 * False: it cannot be understood. What could be is in *out then: its source "" or more, its key ""
 * or more. Texts are in the arena.
 */
bool spool_result_decode(const char *bytes, size_t n, struct arena *a, struct spool_result *out);
/* Which end of which job it is: the same for every record of the same claim. */
uint64_t spool_result_id(int64_t worker, const char *key, int64_t epoch);

/* ---- results in a spool ---- */

#define SPOOL_WHY_MOST 400 /* bytes of a reason */

struct spool_list {
	bool aside;
	struct spool *spool; /* NULL: not opened, nothing in it */
	uint64_t *ids;       /* spool_result_id() of its records, in their order: from `first` on */
	int first, n, cap;
};

struct spools_record {
	struct spool_result result;
	bool whole;      /* false: its bytes are no result that this version understands */
	const char *why; /* it was set aside; NULL: it was not */
	struct spool_record raw;
};

/* *source (to be freed) is filled where it is NULL and a record says it. */
MUST_CHECK defib_err list_open(struct spool_list *l, const char *path, char **source,
                               struct failure *f);
void list_close(struct spool_list *l);
int64_t list_count(const struct spool_list *l);
int64_t list_bytes(const struct spool_list *l);
/* Is one of this claim in it, behind so many of the oldest? */
bool list_has(const struct spool_list *l, int from, uint64_t id);
/* A result as a record of the list, in the arena; `why` where it is set aside. */
struct spool_record list_record(const struct spool_list *l, const char *why, const char *bytes,
                                size_t n, struct arena *a);
MUST_CHECK defib_err list_append(struct spool_list *l, const struct spool_record *all,
                                 const uint64_t *ids, int n, struct failure *f);
int list_peek(struct spool_list *l, struct spools_record *out, int most, struct arena *a);
/* The bytes of its result, without the reason. */
const char *list_result(const struct spool_list *l, const struct spool_record *r, size_t *n);
MUST_CHECK defib_err list_take(struct spool_list *l, const struct spools_record *all, int n,
                               struct failure *f);
/* Of the oldest, those that are in `other` too, behind place `from`: a crash left them in both. */
MUST_CHECK defib_err list_drop_repeated(struct spool_list *l, const struct spool_list *other,
                                        int from, struct failure *f);
/* The reason of the first, "" where there is none. */
void list_why(struct spool_list *l, char out[SPOOL_WHY_MOST + 1]);

/* ---- the spools of a worker ---- */

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

/* ---- keeping and draining ---- */

/*
 * What goes into the spools of a worker (spools.h) and how it comes out again.
 *
 * The database is away: the result waits, and what ends after it in the same source waits behind
 * it. The database answers and refuses (a constraint, a right that was revoked, a table that is
 * gone): the result is set aside, so that it stands before no other, and is offered again every
 * minute, and as soon as its source has taken another.
 */

/*
 * Record ends of one incarnation. why[i] NULL: it was answered (ends[i].accepted); else what went
 * wrong, store_unavailable() or for good.
 */
typedef void (*settle_fn)(void *ctx, int64_t worker, struct settlement *ends,
                          const struct failure **why, int n, struct arena *a);

/*
 * Offer what waits in the spool of a source, in order, until the database is away; then what is
 * set aside, where its time has come. How many were answered.
 */
int64_t spooling_drain(struct spools *s, const char *source, int64_t now_ms, settle_fn settle,
                       void *ctx);
/*
 * After a fail-over: `has` is all that this worker has by the database. Its ends that are set aside
 * and are of no such claim are dropped: that claim was lost, and a later one may have its epoch.
 */
void spooling_forget(struct spools *s, const char *source, int64_t worker,
                     const struct settlement *has, int nhas);
/* A source has taken ends: what it refused may be welcome now. */
void spooling_taken(struct spools *s, const char *source);
/*
 * Keep ends of one source that could not be recorded, as why[i] says; why[i] NULL: it needs no
 * keeping. kept[i]: on the disk now. *f says of the others why they are not.
 */
void spooling_keep(struct spools *s, const char *source, const struct spool_result *all,
                   const struct failure *const *why, int n, bool *kept, struct failure *f);

#endif
