/* SPDX-License-Identifier: Apache-2.0
 * jobs.h: many jobs at once: finds a job by its text in a list, to merge the results of two
 * statements; and, for the files of this room, statements over lists of jobs.
 */
#ifndef LEDGER_JOBS_H
#define LEDGER_JOBS_H

#include "ledger/ledger.h"
#include "store/dialect.h"
#include "store/relation.h"

/* The jobs of an array of structs, as a list: JOBS_OF(facts, job, n, a). */
#define JOBS_OF(all, member, n, a) jobs_of((n) > 0 ? &(all)->member : NULL, sizeof *(all), (n), (a))
const char **jobs_of(const char *const *first, size_t size, int n, struct arena *a);

struct job_index {
	const char *const *jobs;
	int *slots; /* open hash of positions; -1 is empty */
	unsigned mask;
};

/* `jobs` must outlive the index. Duplicates keep the first. */
void job_index_init(struct job_index *x, const char *const *jobs, int n, struct arena *a);
/* Position of a job, or -1. */
int job_index_find(const struct job_index *x, const char *job);

/* ---- statements over many jobs, for the files of this room only ---- */

/*
 * Ids are drawn under this lock: a row of ours, because any role that can connect could keep an
 * advisory lock. In a statement of its own, and as an expression.
 */
#define LEDGER_LOCK "SELECT true FROM defib.ledger_order FOR UPDATE"
#define LEDGER_LOCKED "coalesce((" LEDGER_LOCK "), false)"
#define LEDGER_TRY_LOCK LEDGER_LOCK " SKIP LOCKED" /* no row: another one has it */

/* Take it for this transaction. An engine with one writer needs no lock. */
MUST_CHECK defib_err ledger_lock(struct store *s, struct arena *a, struct failure *f);

/* The columns of an entry with the alias `l`, in one order. */
#define LEDGER_ROW_COLUMNS                                                                         \
	"l.id, {iso l.at}, l.batch, l.watch, l.job, l.event, l.actor, l.verdict, l.rule, l.reason, "   \
	"l.evidence, l.before, l.after, l.epoch"
struct ledger_row *rows_decode(const struct store_rows *rows, struct arena *a, int *n);

/* A relation u(watch, job). */
void jobs_relation(struct relation *r, enum store_engine engine, const char *watch,
                   const char *const *jobs, int n);
/*
 * Run `head`, the relation as a SELECT, and `tail`, translated; the `more` parameters follow the
 * relation's own.
 */
MUST_CHECK defib_err run_over(struct store *s, struct relation *r, const char *head,
                              const char *tail, const struct store_param *more, int nmore,
                              struct arena *a, struct store_rows *rows, struct failure *f);
/* Delete these jobs' rows from a table with (watch, job). */
MUST_CHECK defib_err drop_jobs(struct store *s, const char *table, const char *watch,
                               const char *const *jobs, int n, struct arena *a, struct failure *f);

#endif
