/* SPDX-License-Identifier: Apache-2.0
 * lease_sql.h: the leases that defib's own workers hold on rows of a user's table, as SQL over that
 * table.
 *
 * A lease names its job by a text (look.h's job_text). If a watch has a `work` section and the
 * database has the lease tables, the lease takes precedence over the age of the row.
 */
#ifndef WATCH_LEASE_SQL_H
#define WATCH_LEASE_SQL_H

#include "store/dialect.h"
#include "watch/bind.h"

/* Whether the database has these tables and the role may read them. */
MUST_CHECK defib_err leases_there(struct store *s, bool *there, struct failure *f);

enum job_of { JOB_OF_ROW, JOB_OF_RELATION };
/* The job's text from the key columns of the row `t`, or of the relation `defib_s`. */
void sql_job_text(const struct binding *b, enum job_of of, struct buf *out);
/* The same for the row `t`, without using casts that belong to foreign key types. */
void sql_job_text_of(const struct binding *b, const bool *foreign, struct buf *out);
/*
 * Is the row's worker alive, according to the watch; empty if the watch does not say. A row without
 * an owner has no worker that could be dead: the result is null, whatever the expression returns
 * (EXISTS never returns null).
 */
void sql_owner_alive(const struct watch *w, struct buf *out);
/*
 * Is the row's worker alive: according to its lease, else to the watch (b->owner_alive), else null.
 * A worker that fell silent and was not declared dead is unknown.
 */
void sql_lease_alive(const struct binding *b, struct buf *out);
/* The epoch of the row's lease, null if it has none. */
void sql_lease_epoch(const struct binding *b, struct buf *out);
/* Microseconds: when the worker of the row's lease ended, or else when it last renewed. */
void sql_lease_lost(const struct binding *b, struct buf *out);
/* A sub-select on the row's lease, or on the worker that holds it. */
enum lease_row { LEASE_ROW, LEASE_WORKER_ROW, LEASE_ROWS };
void sql_lease_row(const struct binding *b, enum lease_row of, struct buf *out);
/* Free the leases of a relation of keys. */
void sql_free_leases(const struct binding *b, struct buf *out);

/* ---- claims ---- */

/*
 * The trigger that records which session claims a row of a table. Queues of other projects seldom
 * record which process has a job, but the database knows the session. When a row starts to run, the
 * trigger records that session's name (application_name) and pid in a table of ours.
 */

/*
 * Facts about the table when it is attached. The trigger's function belongs to the table's owner,
 * so it never reads user data with more privileges than the owner has.
 */
struct claim_table {
	const char *schema, *name, *owner;
	bool is_ours;                 /* the session's user is the owner */
	const char *path;             /* the trusted schemas of search_path, quoted; may be empty */
	bool foreign[WATCH_KEYS_MAX]; /* the type of this key column is not built in */
};

/*
 * Two functions, as pg_proc has them, and the trigger. The trigger's function reads the row with
 * the privileges of the table's owner, whose types and functions it may call. The writer takes two
 * texts; only it can write to our table, and only for its one watch.
 */
void claim_function_name(const struct watch *w, struct buf *out);
void claim_writer_name(const struct watch *w, struct buf *out);
void claim_trigger_name(const struct watch *w, struct buf *out);
/* PostgreSQL would truncate a longer name, which could then collide with another watch's. */
bool claim_name_fits(const struct watch *w);
/*
 * The bodies. If anything fails in them, the claim still succeeds, and a claim that is not recorded
 * is judged by age, as before. The block that catches errors only reads, so it never takes a
 * transaction id, and a transaction with many claims does not overflow the cache of
 * subtransactions. The write comes after a check that it is possible.
 */
void claim_function_body(const struct binding *b, const struct claim_table *t, struct buf *out);
void claim_writer_body(const struct watch *w, struct buf *out);
/* CREATE OR REPLACE FUNCTION …, with owner and privileges; statements, each with its ';'. */
void claim_functions(const struct binding *b, const struct claim_table *t, struct buf *out);
/*
 * Create CLAIM_TRIAL, a function of the table's owner for this session, which plans what the
 * trigger's function reads of a row: it fails if names are not found or may not be used.
 */
#define CLAIM_TRIAL "pg_temp.defib_trial()"
void claim_trial(const struct binding *b, const struct claim_table *t, struct buf *out);
/* CREATE TRIGGER …, DROP TRIGGER IF EXISTS …, DROP FUNCTION IF EXISTS … */
void claim_trigger(const struct binding *b, struct buf *out);
void claim_drop_trigger(const struct watch *w, const char *table, struct buf *out);
void claim_drop_functions(const struct watch *w, struct buf *out);

#endif
