/*
 * claim_sql.h: the trigger by which a table tells who takes its rows.
 *
 * Queues that others wrote seldom say which process has a job. The database
 * knows: it was a session. When a row starts to run, the trigger writes down
 * that session's name (application_name) and pid beside our other tables.
 */
#ifndef WATCH_CLAIM_SQL_H
#define WATCH_CLAIM_SQL_H

#include "watch/bind.h"

/* Its function, as the database has it in pg_proc, and its trigger. */
void claim_function_name(const struct watch *w, struct buf *out);
void claim_trigger_name(const struct watch *w, struct buf *out);
/* A longer name would be cut, and could then be another watch's. */
bool claim_name_fits(const struct watch *w);
/*
 * The body of the function. Whatever goes wrong in it, the claim goes on: it
 * runs in a subtransaction, and a claim that is not written down is judged by
 * age, as before.
 */
void claim_function_body(const struct binding *b, struct buf *out);
/* CREATE OR REPLACE FUNCTION …; `search_path` is what unqualified names in the watch mean. */
void claim_function(const struct binding *b, const char *search_path, struct buf *out);
/* CREATE TRIGGER …, DROP TRIGGER IF EXISTS …, DROP FUNCTION IF EXISTS … */
void claim_trigger(const struct binding *b, struct buf *out);
void claim_drop_trigger(const struct watch *w, const char *table, struct buf *out);
void claim_drop_function(const struct watch *w, struct buf *out);

#endif
