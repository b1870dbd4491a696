/* SPDX-License-Identifier: Apache-2.0
 * claim_sql.h: the trigger by which a table tells who takes its rows.
 *
 * Queues that others wrote seldom say which process has a job. The database
 * knows: it was a session. When a row starts to run, the trigger writes down
 * that session's name (application_name) and pid beside our other tables.
 */
#ifndef WATCH_CLAIM_SQL_H
#define WATCH_CLAIM_SQL_H

#include "watch/bind.h"

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
