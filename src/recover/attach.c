/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/attach.h"

#include "embedded.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "life/programs.h"
#include "store/sql.h"

#include <assert.h>

const char *const attached_texts[] = {
#define X(id, sentence) sentence,
	ATTACHED_LIST(X)
#undef X
};

static const char *script(void)
{
	const char *text = embedded_text("sql/postgres_attach.sql");
	assert(text != NULL);
	return text;
}

/* The name that `add` writes. */
static const char *attach_name_of(void (*add)(const struct watch *, struct buf *),
                                  const struct watch *w, struct arena *a)
{
	AUTO_BUF text = BUF_INIT;
	add(w, &text);
	return arena_strdup(a, buf_text(&text));
}

static const char *table_name(const struct watch *w, struct arena *a)
{
	AUTO_BUF text = BUF_INIT;
	sql_table(&text, w->table);
	return arena_strdup(a, buf_text(&text));
}

/* ---- the table ---- */

defib_err attach_table(struct store *s, const struct binding *b, struct arena *a,
                       struct claim_table *out, struct failure *f)
{
	struct store_rows rows;
	const struct watch *w = b->watch;
	struct store_param table = P_TEXT(table_name(w, a));
	assert(dialect_of(b->engine)->can_attach);
	*out = (struct claim_table){0};
	defib_err err = store_exec(s, sql_postgres_attach_state_watched_table, &table, 1, a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_CONFIG, "there is no table %s", w->table), DEFIB_CONFIG;
	if (err)
		return err;
	out->schema = row_text(&rows, 0, 0);
	out->name = row_text(&rows, 0, 1);
	out->owner = row_text(&rows, 0, 2);
	out->is_ours = row_bool(&rows, 0, 3);
	out->path = row_text(&rows, 0, 4);
	err = store_exec(s, sql_postgres_attach_state_foreign_columns, &table, 1, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		for (int k = 0; k < w->key.n; k++)
			out->foreign[k] = out->foreign[k] || text_eq(row_text(&rows, i, 0), w->key.items[k]);
	return err;
}

/* ---- the current state ---- */

static bool attach_is_stale(const struct binding *b, const struct claim_table *t,
                            const struct store_rows *rows)
{
	AUTO_BUF function = BUF_INIT, writer = BUF_INIT;
	claim_function_body(b, t, &function);
	claim_writer_body(b->watch, &writer);
	return !text_eq(row_text(rows, 0, 3), buf_text(&function)) ||
	       !text_eq(row_text(rows, 0, 4), buf_text(&writer));
}

defib_err attach_state(struct store *s, const struct binding *b, enum attached *out,
                       struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct claim_table table;
	const struct watch *w = b->watch;
	struct store_param params[] = {P_TEXT(attach_name_of(claim_function_name, w, &a)),
	                               P_TEXT(table_name(w, &a)),
	                               P_TEXT(attach_name_of(claim_trigger_name, w, &a)),
	                               P_TEXT(attach_name_of(claim_writer_name, w, &a))};
	*out = ATTACHED_NOT;
	defib_err err = attach_table(s, b, &a, &table, f);
	if (!err)
		err = store_exec(s, sql_postgres_attach_state_state, params, 4, &a, &rows, f);
	if (!err && rows.nrows > 0)
		*out = !row_bool(&rows, 0, 2)                ? ATTACHED_UNSAFE
		       : !row_bool(&rows, 0, 1)              ? ATTACHED_BARE
		       : text_eq(row_text(&rows, 0, 0), "D") ? ATTACHED_OFF
		       : attach_is_stale(b, &table, &rows)   ? ATTACHED_STALE
		                                             : ATTACHED_FRESH;
	return err;
}

/* ---- attach ---- */

defib_err attach_refusal(const struct watch *w, enum store_engine engine, struct failure *f)
{
	if (!dialect_of(engine)->can_attach) {
		fail(f, DEFIB_REFUSED,
		     "watch %s is in an SQLite database, which has no sessions to tell programs apart",
		     w->name);
		fail_advise(f, ADVISE_OWN_WORKERS, NULL);
		return DEFIB_REFUSED;
	}
	if (claim_name_fits(w))
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED, "the name of watch %s is too long for a trigger", w->name);
	fail_next(f, "give the watch a name of at most 49 bytes");
	return DEFIB_REFUSED;
}

void attach_print(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	AUTO_BUF table = BUF_INIT;
	sql_table(&table, b->watch->table);
	buf_addf(out,
	         "-- Records which session takes the rows of %s. Running this again changes "
	         "nothing.\nBEGIN;\n%s\n",
	         b->watch->table, script());
	claim_functions(b, t, out);
	buf_add(out, "SET LOCAL lock_timeout = '500ms';\n");
	claim_drop_trigger(b->watch, buf_text(&table), out);
	buf_add(out, ";\n");
	claim_trigger(b, out);
	buf_add(out, ";\nCOMMIT;\n");
}

/* Run the statements that `add` writes. */
static defib_err attach_run(struct store *s, struct buf *sql, struct arena *a, struct failure *f)
{
	defib_err err = store_exec(s, buf_text(sql), NULL, 0, a, NULL, f);
	buf_release(sql);
	return err;
}

/* Only if they are missing: a role that may use our schema need not be allowed to create one. */
static defib_err need_tables(struct store *s, struct failure *f)
{
	bool claims = false, programs = false;
	defib_err err = schema_has(s, "claimed_by", &claims, f);
	if (!err)
		err = schema_has(s, "program", &programs, f);
	if (!err && !(claims && programs))
		err = schema_run(s, script(), f);
	if (err == DEFIB_PERMISSION)
		fail_next(f, "attach as a role that may create the schema defib and owns the table");
	return err;
}

/* If the watch's table changed, the trigger on the old table would otherwise stay forever. */
static defib_err drop_elsewhere(struct store *s, const struct watch *w, bool everywhere,
                                struct arena *a, bool *any, struct failure *f)
{
	struct store_param params[] = {P_TEXT(attach_name_of(claim_trigger_name, w, a)),
	                               P_TEXT(attach_name_of(claim_function_name, w, a)),
	                               P_TEXT(everywhere ? "" : table_name(w, a))};
	struct store_rows rows;
	/* Triggers of partitions are dropped with their parent's. */
	defib_err err = store_exec(
		s,
		"SELECT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
		"JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'defib' "
		"WHERE t.tgname = $1 AND p.proname = $2 AND t.tgparentid = 0 AND "
		"($3 = '' OR t.tgrelid IS DISTINCT FROM to_regclass($3))",
		params, 3, a, &rows, f);
	*any = !err && rows.nrows > 0;
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct buf sql = BUF_INIT;
		claim_drop_trigger(w, row_text(&rows, i, 0), &sql);
		err = attach_run(s, &sql, a, f);
	}
	return err;
}

/*
 * CREATE TRIGGER on a partitioned table loads the keys of its partitions, and so folds functions of
 * expressions in them, with our rights. Until it is created, no other table may take this one's
 * name.
 */
static defib_err need_plain_partitions(struct store *s, const struct claim_table *t,
                                       const char *table, struct arena *a, struct failure *f)
{
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(table), P_TEXT(t->owner)};
	struct buf lock = BUF_INIT;
	if (t->is_ours)
		return DEFIB_OK;
	buf_addf(&lock, "LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE", table);
	defib_err err = schema_run(s, "LOCK TABLE pg_catalog.pg_namespace IN SHARE MODE", f);
	if (err)
		buf_release(&lock);
	else
		err = attach_run(s, &lock, a, f);
	if (!err)
		err = store_exec(s,
		                 "SELECT c.relowner = to_regrole(quote_ident($2)) AND NOT EXISTS (SELECT 1 "
		                 "FROM pg_partition_tree(c.oid) AS part JOIN pg_partitioned_table p ON "
		                 "p.partrelid = part.relid WHERE p.partexprs IS NOT NULL) "
		                 "FROM pg_class c WHERE c.oid = to_regclass($1)",
		                 params, 2, a, &rows, f);
	if (err || row_bool(&rows, 0, 0))
		return err;
	fail(f, DEFIB_REFUSED,
	     "table %s is partitioned by an expression, whose functions would run "
	     "with your rights",
	     table);
	fail_next(f, "attach as role %s, which owns the table", t->owner);
	return DEFIB_REFUSED;
}

static defib_err make_trigger(struct store *s, const struct binding *b, const struct claim_table *t,
                              enum attached was, struct arena *a, struct failure *f)
{
	struct buf sql = BUF_INIT;
	defib_err err = DEFIB_OK;
	bool any;
	err = drop_elsewhere(s, b->watch, was == ATTACHED_OFF, a, &any, f);
	if (err || (was != ATTACHED_NOT && was != ATTACHED_OFF))
		return err;
	err = need_plain_partitions(s, t, table_name(b->watch, a), a, f);
	if (err)
		return err;
	claim_trigger(b, &sql);
	err = attach_run(s, &sql, a, f);
	if (err == DEFIB_PERMISSION)
		fail_next(f, "attach as the table's owner or as a superuser");
	return err;
}

/*
 * Default privileges may have granted our functions to other roles, which REVOKE … FROM PUBLIC does
 * not remove.
 */
static defib_err revoke_others(struct store *s, const struct watch *w, struct arena *a,
                               struct failure *f)
{
	struct store_param params[] = {P_TEXT(attach_name_of(claim_function_name, w, a)),
	                               P_TEXT(attach_name_of(claim_writer_name, w, a)),
	                               P_TEXT(table_name(w, a))};
	struct store_rows rows;
	defib_err err = store_exec(
		s,
		"SELECT DISTINCT p.oid::regprocedure::text, x.grantee::regrole::text "
		"FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) AS x "
		"WHERE p.pronamespace = 'defib'::regnamespace AND p.proname IN ($1, $2) AND x.grantee <> 0 "
		"AND x.grantee NOT IN (p.proowner, (SELECT c.relowner FROM pg_class c WHERE c.oid = "
		"to_regclass($3)))",
		params, 3, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct buf sql = BUF_INIT;
		buf_addf(&sql, "REVOKE ALL ON FUNCTION %s FROM %s", row_text(&rows, i, 0),
		         row_text(&rows, i, 1));
		err = attach_run(s, &sql, a, f);
	}
	return err;
}

/* Functions that must belong to the table's owner: only the owner and superusers can set that. */
static defib_err run_as_owner(struct store *s, const struct claim_table *t, const struct buf *sql,
                              struct failure *f)
{
	defib_err err = schema_run(s, buf_text(sql), f);
	if (err == DEFIB_PERMISSION)
		fail_next(f, "attach as a superuser, or as role %s if it owns the table and schema defib",
		          t->owner);
	return err;
}

static defib_err make_functions(struct store *s, const struct binding *b,
                                const struct claim_table *t, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	claim_functions(b, t, &sql);
	return run_as_owner(s, t, &sql, f);
}

static defib_err attach_in_transaction(struct store *s, const struct binding *b, struct arena *a,
                                       struct failure *f)
{
	enum attached was = ATTACHED_NOT;
	struct claim_table table;
	/* Two concurrent runs would conflict. */
	defib_err err = schema_lock(s, f);
	if (!err)
		err = attach_state(s, b, &was, f);
	if (!err)
		err = attach_table(s, b, a, &table, f);
	if (!err)
		err = need_tables(s, f);
	if (!err)
		err = make_functions(s, b, &table, f);
	if (!err)
		err = revoke_others(s, b->watch, a, f);
	return err ? err : make_trigger(s, b, &table, was, a, f);
}

/*
 * Planning runs code of the table's owner: functions of index expressions are folded, and EXPLAIN
 * checks privileges. So it is done by a function of the owner's, inside which the role cannot be
 * changed; in a transaction that is rolled back, because triggers that are deferred to its end run
 * as the session's user before PostgreSQL 18; and in a session of its own, because prepared
 * statements survive a rollback and could have the names of ours.
 */
static defib_err attach_in_trial(struct store *s, const struct binding *b,
                                 const struct claim_table *t, struct arena *a, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	claim_trial(b, t, &sql);
	defib_err err = run_as_owner(s, t, &sql, f);
	if (err == DEFIB_PERMISSION)
		return err;
	if (!err)
		err = store_exec(s, "SELECT " CLAIM_TRIAL, NULL, 0, a, NULL, f);
	if (!err || store_unavailable(err))
		return err;
	fail_prefix(f, "watch %s", b->watch->name);
	fail_next(f, "the trigger reads a row as the table's owner, and finds unqualified names only "
	             "in schemas where no other role can create objects: qualify them in the watch");
	return err;
}

defib_err attach_try(const struct store_options *o, const struct binding *b, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_STORE s = NULL;
	struct claim_table table;
	defib_err err = store_open(o, &s, f);
	if (!err)
		err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = attach_table(s, b, &a, &table, f);
	if (!err)
		err = attach_in_trial(s, b, &table, &a, f);
	store_rollback(s);
	return err;
}

static void say_busy(const char *table, struct failure *f)
{
	fail(f, DEFIB_LOCKED, "table %s is busy: it could not be locked within half a second", table);
	fail_next(f, "nothing was changed; run it again at a quieter moment");
}

defib_err attach_make(struct store *s, const struct binding *b, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err) {
		err = attach_in_transaction(s, b, &a, f);
		err = store_end(s, err, f);
	}
	if (err == DEFIB_LOCKED || err == DEFIB_CONSTRAINT) /* or another run created our schema */
		say_busy(b->watch->table, f);
	return err == DEFIB_CONSTRAINT ? DEFIB_LOCKED : err;
}

/* ---- detach ---- */

void detach_print(const struct watch *w, struct buf *out)
{
	AUTO_BUF table = BUF_INIT;
	sql_table(&table, w->table);
	buf_add(out, "BEGIN;\nSET LOCAL lock_timeout = '500ms';\n");
	claim_drop_trigger(w, buf_text(&table), out);
	buf_add(out, ";\n");
	claim_drop_functions(w, out);
	buf_add(out, ";\nDELETE FROM defib.claimed_by WHERE watch = ");
	sql_literal(out, w->name);
	buf_add(out, ";\nDELETE FROM defib.program WHERE watch = ");
	sql_literal(out, w->name);
	buf_add(out, ";\n-- and with the last attached watch the two tables\nCOMMIT;\n");
}

static defib_err drop_function(struct store *s, const struct watch *w, struct arena *a, bool *was,
                               struct failure *f)
{
	struct store_param name = P_TEXT(attach_name_of(claim_function_name, w, a));
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	defib_err err = store_exec(s,
	                           "SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = "
	                           "p.pronamespace WHERE n.nspname = 'defib' AND p.proname = $1",
	                           &name, 1, a, &rows, f);
	*was = !err && rows.nrows > 0;
	if (err || !*was)
		return err;
	claim_drop_functions(w, &sql);
	return attach_run(s, &sql, a, f);
}

static defib_err drop_rows(struct store *s, const struct watch *w, struct arena *a, int64_t *n,
                           struct failure *f)
{
	struct store_param watch = P_TEXT(w->name);
	struct store_rows rows;
	defib_err err =
		store_exec(s, "DELETE FROM defib.claimed_by WHERE watch = $1", &watch, 1, a, &rows, f);
	*n = err ? 0 : rows.affected;
	if (!err)
		err = store_exec(s, "DELETE FROM defib.program WHERE watch = $1", &watch, 1, a, NULL, f);
	return err;
}

/* Is any watch still attached, and does our schema contain anything else? */
static defib_err drop_tables(struct store *s, struct arena *a, struct detached *out,
                             struct failure *f)
{
	struct store_rows rows;
	defib_err err = store_exec(s,
	                           "SELECT EXISTS (SELECT 1 FROM pg_proc p JOIN pg_trigger t ON "
	                           "t.tgfoid = p.oid WHERE p.pronamespace = 'defib'::regnamespace "
	                           "AND p.proname LIKE 'claimed\\_%')",
	                           NULL, 0, a, &rows, f);
	if (err || row_bool(&rows, 0, 0))
		return err;
	err = schema_run(s,
	                 "DROP TABLE defib.claimed_by; DROP TABLE defib.program; DROP FUNCTION "
	                 "IF EXISTS defib.program_ordered()",
	                 f);
	out->tables = !err;
	if (!err)
		err = store_exec(s,
		                 "SELECT NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.refobjid = "
		                 "'defib'::regnamespace AND d.refclassid = 'pg_namespace'::regclass)",
		                 NULL, 0, a, &rows, f);
	out->schema = !err && row_bool(&rows, 0, 0);
	return out->schema ? schema_run(s, "DROP SCHEMA defib", f) : err;
}

static defib_err remove_all(struct store *s, const struct watch *w, struct arena *a,
                            struct detached *out, struct failure *f)
{
	bool tables = false;
	defib_err err = schema_has(s, "claimed_by", &tables, f);
	if (!err)
		err = drop_elsewhere(s, w, true, a, &out->trigger, f);
	if (!err)
		err = drop_function(s, w, a, &out->function, f);
	if (!err && tables)
		err = drop_rows(s, w, a, &out->claims, f);
	if (!err && tables)
		err = drop_tables(s, a, out, f);
	return err;
}

defib_err attach_remove(struct store *s, const struct watch *w, struct detached *out,
                        struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	*out = (struct detached){0};
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err) {
		err = schema_refuse_shared(s, f);
		err = err ? err : remove_all(s, w, &a, out, f);
		err = store_end(s, err, f);
	}
	if (err == DEFIB_LOCKED)
		say_busy(w->table ? w->table : w->name, f);
	return err;
}

/* ---- what is attached ---- */

/* Which of our two tables exist and may be read: other roles only read. */
static defib_err tables_readable(struct store *s, struct arena *a, bool *claims, bool *programs,
                                 struct failure *f)
{
	struct store_rows rows;
	*claims = *programs = false;
	if (!store_dialect(s)->can_attach)
		return DEFIB_OK;
	defib_err err =
		store_exec(s,
	               "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
	               "WHERE n.nspname = 'defib' AND c.relname IN ('claimed_by', 'program') AND "
	               "has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')",
	               NULL, 0, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		*claims = *claims || text_eq(row_text(&rows, i, 0), "claimed_by");
		*programs = *programs || text_eq(row_text(&rows, i, 0), "program");
	}
	return err;
}

static defib_err count_programs(struct store *s, struct arena *a, struct attachment *all, int n,
                                struct failure *f)
{
	struct program *running = NULL;
	int nrunning = 0;
	defib_err err = programs_running(s, a, &running, &nrunning, f);
	for (int i = 0; !err && i < nrunning; i++)
		for (int k = 0; k < n; k++)
			all[k].programs += text_eq(all[k].watch, running[i].watch);
	return err;
}

defib_err attachments_read(struct store *s, struct arena *a, struct attachment **out, int *n,
                           struct failure *f)
{
	static const struct row_member members[] = {ROW_MEMBER(struct attachment, watch),
	                                            ROW_MEMBER(struct attachment, disabled)};
	struct store_rows rows;
	bool claims, programs;
	*n = 0;
	*out = NULL;
	if (!store_dialect(s)->can_attach)
		return DEFIB_OK;
	/* The function's name is "claimed_" followed by the watch's name. */
	defib_err err =
		store_exec(s,
	               "SELECT substr(p.proname, 9), bool_and(t.tgenabled = 'D') FROM pg_proc p "
	               "JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'defib' "
	               "JOIN pg_trigger t ON t.tgfoid = p.oid AND t.tgname = 'defib_' || p.proname "
	               "AND t.tgparentid = 0 WHERE p.proname LIKE 'claimed\\_%' GROUP BY 1 ORDER BY 1",
	               NULL, 0, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	*out = ROWS_READ(&rows, members, struct attachment, a, n);
	err = tables_readable(s, a, &claims, &programs, f);
	return err || !programs ? err : count_programs(s, a, *out, *n, f);
}

/* ---- one job ---- */

/* The program that the session belongs to. */
static defib_err claim_program(struct store *s, const struct watch *w, struct arena *a,
                               struct claim *out, struct failure *f)
{
	struct store_param params[] = {P_TEXT(out->application), P_TEXT(w->name)};
	struct store_rows rows;
	struct incarnation leader;
	defib_err err = store_exec(s,
	                           "SELECT command, leader FROM defib.program "
	                           "WHERE application = $1 AND watch = $2",
	                           params, 2, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	out->program = row_text(&rows, 0, 0);
	if (incarnation_parse(row_text(&rows, 0, 1), &leader))
		out->host = arena_strdup(a, leader.host);
	return DEFIB_OK;
}

defib_err claim_of(struct store *s, const struct watch *w, const char *job, struct arena *a,
                   struct claim *out, bool *there, struct failure *f)
{
	struct store_param params[] = {P_TEXT(w->name), P_TEXT(job)};
	struct store_rows rows;
	bool claims, programs;
	*there = false;
	defib_err err = tables_readable(s, a, &claims, &programs, f);
	if (err || !claims)
		return err;
	err = store_exec(s,
	                 "SELECT application, pid, (extract(epoch FROM at) * 1000000)::bigint "
	                 "FROM defib.claimed_by WHERE watch = $1 AND job = $2",
	                 params, 2, a, &rows, f);
	*there = !err && rows.nrows > 0;
	if (!*there)
		return err;
	*out = (struct claim){.application = row_text(&rows, 0, 0),
	                      .pid = row_int(&rows, 0, 1, 0),
	                      .at_us = row_int(&rows, 0, 2, 0)};
	return programs ? claim_program(s, w, a, out, f) : DEFIB_OK;
}
