/*
 * tables.h: the names of the ledger room's tables, and statements over many
 * jobs at once. For the files of this room only.
 */
#ifndef LEDGER_TABLES_H
#define LEDGER_TABLES_H

#include "store/relation.h"

extern const char *const ledger_table[], *const hold_table[], *const retry_table[]; /* by engine */

/* Ids are drawn under this lock (PostgreSQL); any fixed pair of numbers will do. */
#define LEDGER_LOCK_CALL "pg_advisory_xact_lock(1684366953, 1)"
#define LEDGER_LOCK "SELECT " LEDGER_LOCK_CALL

/* How a parameter is written: "$" or "?", before its number. */
char param_mark(enum store_engine engine);
/* A time column as ISO text in UTC, "2026-01-02T03:04:05.123Z". */
void add_iso(struct buf *out, enum store_engine engine, const char *column);
/* Now less a number of microseconds, in the form of the ledger's `at`. */
void add_ago(struct buf *out, enum store_engine engine, int param);

/* A relation u(watch, job). */
void jobs_relation(struct relation *r, enum store_engine engine, const char *watch,
                   const char *const *jobs, int n);
/* Run head, the relation as a SELECT, and tail; `more` parameters follow the relation's own. */
MUST_CHECK defib_err run_over(struct store *s, struct relation *r, const char *head,
                              const char *tail, const struct store_param *more, int nmore,
                              struct arena *a, struct store_rows *rows, struct failure *f);
/* Delete these jobs' rows of a table with (watch, job). */
MUST_CHECK defib_err drop_jobs(struct store *s, const char *table, const char *watch,
                               const char *const *jobs, int n, struct arena *a, struct failure *f);

#endif
