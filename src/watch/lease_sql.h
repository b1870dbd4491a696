/* SPDX-License-Identifier: Apache-2.0
 * lease_sql.h: the leases that defib's own workers hold beside a user's table,
 * as SQL over that table.
 *
 * A lease names its job by a text (look.h's job_text). Where a watch has a
 * `work` part and the database has the tables, what the lease says about the
 * worker goes before what the row's age says.
 */
#ifndef WATCH_LEASE_SQL_H
#define WATCH_LEASE_SQL_H

#include "store/dialect.h"
#include "watch/bind.h"

/* The highest epoch of leases that were removed; to be translated. */
#define LEASE_FLOOR                                                                                \
	"coalesce((SELECT CAST(m.value AS bigint) FROM defib.meta m WHERE m.name = 'lease_floor'), 0)"

/* Whether the database has these tables, and the role may read them. */
MUST_CHECK defib_err leases_there(struct store *s, bool *there, struct failure *f);

enum job_of { JOB_OF_ROW, JOB_OF_RELATION };
/* The job's text from the key columns of the row `t`, or of the relation `defib_s`. */
void sql_job_text(const struct binding *b, enum job_of of, struct buf *out);
/* The same of the row `t`, where key columns of foreign types are read by no cast of theirs. */
void sql_job_text_of(const struct binding *b, const bool *foreign, struct buf *out);
/*
 * Is the row's worker alive, as the watch says; nothing where it does not say. A row without
 * an owner has no worker that could be dead: null, whatever the expression answers (EXISTS
 * never answers null).
 */
void sql_owner_alive(const struct watch *w, struct buf *out);
/*
 * Is the row's worker alive: what its lease says, else what the
 * watch says (b->owner_alive), else null. A worker that fell silent and was not declared dead
 * is not known either way.
 */
void sql_lease_alive(const struct binding *b, struct buf *out);
/* The epoch of the row's lease, null where it has none. */
void sql_lease_epoch(const struct binding *b, struct buf *out);
/* Microseconds: when the worker of the row's lease ended, else when it last renewed. */
void sql_lease_lost(const struct binding *b, struct buf *out);
/* A sub-select on the row's lease, or on the worker that has it. */
enum lease_row { LEASE_ROW, LEASE_WORKER_ROW, LEASE_ROWS };
void sql_lease_row(const struct binding *b, enum lease_row of, struct buf *out);
/* Free the leases of a relation of keys. */
void sql_free_leases(const struct binding *b, struct buf *out);

/* ---- claims ---- */

/*
 * The trigger that records who claims the rows of a table. Queues of other projects seldom say
 * which process has a job, but the database knows the session. When a row starts to run, the
 * trigger records that session's name (application_name) and pid beside our other tables.
 */

/*
 * What is known of the table at the moment of attaching. Nothing of the user's is ever read with
 * more rights than the table's owner has: the trigger's function is the owner's.
 */
struct claim_table {
	const char *schema, *name, *owner;
	const char *path;             /* the trusted schemas of search_path, quoted; may be empty */
	bool foreign[WATCH_KEYS_MAX]; /* the type of this key column is not built in */
};

/*
 * Two functions, as the database has them in pg_proc, and the trigger. The trigger's function
 * reads the row with the rights of the table's owner, whose types and functions it may meet; the
 * writer takes two texts, and only it can write to our table, for its one watch.
 */
void claim_function_name(const struct watch *w, struct buf *out);
void claim_writer_name(const struct watch *w, struct buf *out);
void claim_trigger_name(const struct watch *w, struct buf *out);
/* A longer name would be cut, and could then be another watch's. */
bool claim_name_fits(const struct watch *w);
/*
 * The bodies. Whatever goes wrong in them, the claim goes on, and a claim that is not written
 * down is judged by age, as before. What may fail is only read, so that the block that catches
 * it never takes a transaction id: a transaction of many claims does not overflow the cache of
 * subtransactions. What is written can be written: that is asked first.
 */
void claim_function_body(const struct binding *b, const struct claim_table *t, struct buf *out);
void claim_writer_body(const struct watch *w, struct buf *out);
/* CREATE OR REPLACE FUNCTION …, and who may call and owns them; statements, each with its ';'. */
void claim_functions(const struct binding *b, const struct claim_table *t, struct buf *out);
/* What the function reads of a row, asked of the table: fails where the path is not enough. */
void claim_trial(const struct binding *b, const struct claim_table *t, struct buf *out);
/* CREATE TRIGGER …, DROP TRIGGER IF EXISTS …, DROP FUNCTION IF EXISTS … */
void claim_trigger(const struct binding *b, struct buf *out);
void claim_drop_trigger(const struct watch *w, const char *table, struct buf *out);
void claim_drop_functions(const struct watch *w, struct buf *out);

#endif
