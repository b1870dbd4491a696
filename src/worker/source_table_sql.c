/* SPDX-License-Identifier: Apache-2.0
 * source_table_sql.c: the work part of a watch as statements.
 *
 * The user's SQL is unqualified, next to the row `t`. So our tables are never joined to it: they
 * appear in sub-selects, with every column qualified, or as relations whose columns begin with
 * defib_.
 */

#include "worker/source_table_sql.h"

#include "embedded.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/compile_write.h"
#include "watch/facts.h"
#include "watch/lease_sql.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

#include <assert.h>

const char *const work_list_options[LIST_NONE] = {
#define X(id, member, option) option,
	WORK_LISTS(X)
#undef X
};

/* The prefix of our tables. */
static const char *table_sql_own(const struct binding *b)
{
	return dialect_of(b->engine)->own;
}

static const char *sql_finish(struct buf *sql, struct arena *a)
{
	const char *text = arena_strdup(a, buf_text(sql));
	buf_release(sql);
	return text;
}

/* "<alias>.watch = 'name'" */
static void sql_of_watch(const struct binding *b, const char *alias, struct buf *out)
{
	buf_addf(out, "%s.watch = ", alias);
	sql_literal(out, b->watch->name);
}

static bool typed(const struct binding *b)
{
	return dialect_of(b->engine)->has_types;
}

/*
 * A further column of a SELECT. Where the user's expressions order the rows, each needs a name of
 * ours: see key_list().
 */
static void value(const struct binding *b, const struct sql_text *sql, const char *type,
                  struct buf *out)
{
	if (!sql->text)
		buf_add(out, ",\n  NULL");
	else
		buf_addf(out, ",\n  (%s)%s%s", sql->text, typed(b) ? "::" : "", typed(b) ? type : "");
}

/* ---- claim ---- */

/* Ready rows go before rows to be undone: a row may be both. */
static void side(const struct work *work, bool undoing, struct buf *out)
{
	if (undoing)
		buf_addf(out, "(%s) AND (%s) IS NOT TRUE", work->rollback_ready.text, work->ready.text);
	else
		buf_addf(out, "(%s)", work->chosen.text ? work->chosen.text : work->ready.text);
}

/* The owner and the sign of life of a row, as a hold stores them. */
static void owner_sign_columns(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	enum sign s = watch_first_sign(w);
	value(b, &w->owner, "text", out);
	buf_add(out, " AS defib_owner,\n  ");
	if (watch_sign(w, s)->text)
		sql_time_us(b, b->sign_time[s], watch_sign(w, s)->text, out);
	else
		buf_add(out, dialect_of(b->engine)->has_types ? "NULL::bigint" : "NULL");
	buf_add(out, " AS defib_sign_us");
}

/* A job that is held because its finished steps are unknown waits for an operator. */
static void not_held(const struct binding *b, struct buf *out)
{
	/* A ready row does not run, so its hold is in force in either way of holding. */
	static const struct hold_sql names = {
		.hold = "defib_h", .owner = "defib_n.defib_owner", .sign_us = "defib_n.defib_sign_us"};
	buf_add(out, "\n  AND NOT EXISTS (SELECT 1 FROM (SELECT 1");
	owner_sign_columns(b, out);
	buf_addf(out, ") AS defib_n, %shold AS defib_h WHERE ", table_sql_own(b));
	sql_of_watch(b, "defib_h", out);
	buf_add(out, " AND defib_h.cause = '" HOLD_STEPS "' AND defib_h.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, "\n    AND ");
	hold_in_force_sql(dialect_of(b->engine), &names, out);
	buf_add(out, ")");
}

/* Rows that may be claimed: of this side and kind, not leased by a live worker, not waiting. */
static void claimable(const struct binding *b, const char *kind, bool undoing, struct buf *out)
{
	const struct watch *w = b->watch;
	buf_add(out, "\nFROM ");
	sql_table(out, w->table);
	buf_add(out, " AS t\nWHERE ");
	side(&w->work, undoing, out);
	if (kind) {
		buf_addf(out, "\n  AND (%s)%s = ", w->kind.text, dialect_of(b->engine)->as_text);
		sql_literal(out, kind);
	}
	buf_addf(
		out,
		"\n  AND NOT EXISTS (SELECT 1 FROM %slease AS defib_l LEFT JOIN %sworker AS defib_w ON "
		"defib_w.id = defib_l.owner\n    WHERE ",
		table_sql_own(b), table_sql_own(b));
	sql_of_watch(b, "defib_l", out);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_addf(out, " AND (defib_w.state = 'alive' OR defib_l.run_at > %s))",
	         dialect_text(dialect_of(b->engine), "now"));
	if (w->work.workflows.n)
		not_held(b, out);
	/*
	 * If only the lease counts the attempts, a job that only ever killed its worker is left to an
	 * operator, as a scan shows it: it is still running. One that a remedy made ready was decided
	 * about, and a rollback that was begun is not left half done.
	 */
	if (w->max_attempts.text && !w->attempts.text && !undoing) {
		buf_addf(out,
		         "\n  AND ((%s) IS NOT TRUE OR ((%s) > coalesce((SELECT defib_l.attempts FROM "
		         "%slease AS defib_l WHERE ",
		         w->running.text, w->max_attempts.text, table_sql_own(b));
		sql_of_watch(b, "defib_l", out);
		buf_add(out, " AND defib_l.job = ");
		sql_job_text(b, JOB_OF_ROW, out);
		buf_add(out, "), 0)) IS NOT FALSE)");
	}
}

static const char *compile_peek(const struct binding *b, const char *kind, bool undoing,
                                struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT 1");
	claimable(b, kind, undoing, &sql);
	buf_add(&sql, "\nLIMIT 1");
	return sql_finish(&sql, a);
}

/* In the order of enum pick_column, after the kind: what identifies the steps of a workflow. */
static void picked_facts(const struct binding *b, struct buf *out)
{
	if (!b->watch->work.workflows.n) {
		buf_add(out, ", NULL, NULL, NULL, NULL");
		return;
	}
	buf_add(out, ",\n  ");
	sql_steps_done(b, out);
	buf_addf(out, " AS defib_steps_done,\n  EXISTS (SELECT 1 FROM %slease AS defib_l WHERE ",
	         table_sql_own(b));
	sql_of_watch(b, "defib_l", out);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, ") AS defib_leased");
	owner_sign_columns(b, out);
}

static const char *compile_pick(const struct binding *b, const char *kind, bool undoing,
                                struct arena *a)
{
	const struct work *work = &b->watch->work;
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	value(b, &b->watch->kind, "text", &sql);
	buf_add(&sql, " AS defib_kind");
	picked_facts(b, &sql);
	claimable(b, kind, undoing, &sql);
	buf_add(&sql, "\nORDER BY ");
	if (work->priority.text)
		buf_addf(&sql, "(%s) DESC NULLS LAST, ", work->priority.text);
	if (work->order.text)
		buf_addf(&sql, "%s, ", work->order.text);
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(&sql, k ? ", t." : "t.");
		sql_ident(&sql, b->watch->key.items[k]);
	}
	buf_add(&sql, "\nLIMIT ");
	parameter(b, 1, "bigint", &sql);
	if (dialect_of(b->engine)->has_row_locks)
		buf_add(&sql, "\nFOR NO KEY UPDATE OF t SKIP LOCKED");
	return sql_finish(&sql, a);
}

/* ---- the current row ---- */

/* One assignment of the cancel list, `status = 'cancelling'`, as a comparison. */
static void same_as(const struct binding *b, const struct sql_token *from, const char *equals,
                    const char *end, struct buf *out)
{
	buf_add(out, out->len ? " AND (" : "(");
	buf_addn(out, from->text, (size_t)(equals - from->text));
	buf_addf(out, ")%s(", dialect_of(b->engine)->same);
	buf_addn(out, equals + 1, (size_t)(end - equals - 1));
	buf_add(out, ")");
}

/*
 * A row was asked to stop if writing the cancel list would change nothing. Values that differ each
 * time, such as :now, are not compared.
 */
static void cancel_condition(const struct binding *b, struct buf *out)
{
	struct sql_lexer lx;
	struct sql_token t, from = {SQL_END, NULL, 0};
	const char *equals = NULL;
	bool varies = false;
	int depth = 0;
	if (!b->watch->actions[ACT_CANCEL].set.text)
		return;
	sql_lexer_init(&lx, b->watch->actions[ACT_CANCEL].set.text, b->engine);
	do {
		t = sql_next(&lx);
		bool punct = t.type == SQL_PUNCT;
		depth += punct && *t.text == '(' ? 1 : punct && *t.text == ')' ? -1 : 0;
		if (t.type == SQL_END || (punct && *t.text == ',' && depth == 0 && equals)) {
			if (equals && !varies)
				same_as(b, &from, equals, t.text, out);
			from.text = equals = NULL;
			varies = false;
		} else if (!from.text && t.type != SQL_SPACE) {
			from = t;
		} else if (!equals && depth == 0 && punct && *t.text == '=') {
			equals = t.text;
		}
		varies = varies || t.type == SQL_PARAM;
	} while (t.type != SQL_END);
}

/* The whole row as a JSON object: masks are for logs and viewers, the work needs its columns. */
static void payload(const struct binding *b, struct buf *out)
{
	const char *whole = dialect_of(b->engine)->row_json;
	if (whole) {
		buf_add(out, whole);
		return;
	}
	/* json_object() accepts no more than 63 columns. */
	buf_add(out, "'{'");
	for (int i = 0; i < b->ncolumns; i++) {
		AUTO_BUF name = BUF_INIT, column = BUF_INIT;
		buf_add(&name, i ? "," : "");
		buf_add_json(&name, b->columns[i].name);
		buf_add(&name, ":");
		sql_ident(&column, b->columns[i].name);
		buf_add(out, " || ");
		sql_literal(out, buf_text(&name));
		buf_addf(out, " || json_quote(CASE typeof(t.%s) WHEN 'blob' THEN hex(t.%s) ELSE t.%s END)",
		         buf_text(&column), buf_text(&column), buf_text(&column));
	}
	buf_add(out, " || '}'");
}

/* In the order of enum work_column. */
static const char *compile_facts(const struct binding *b, bool with_payload, struct arena *a)
{
	const struct watch *w = b->watch;
	struct buf sql = BUF_INIT, cancel = BUF_INIT;
	cancel_condition(b, &cancel);
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	value(b, &w->kind, "text", &sql);
	value(b, &w->attempts, "bigint", &sql);
	value(b, &w->max_attempts, "bigint", &sql);
	buf_addf(&sql, ",\n  (%s) IS TRUE,\n  (%s) IS TRUE,\n  (%s) IS TRUE,\n  (%s) IS TRUE,\n  %s",
	         w->running.text, cancel.len ? buf_text(&cancel) : "false",
	         w->work.rollback_ready.text ? w->work.rollback_ready.text : "false",
	         w->work.ready.text, sql_now_us(b->engine));
	if (with_payload) {
		buf_add(&sql, ",\n  ");
		payload(b, &sql);
	}
	from_keys(b, &sql);
	buf_release(&cancel);
	return sql_finish(&sql, a);
}

static const char *compile_lock_rows(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT 1");
	from_keys(b, &sql);
	buf_add(&sql, "\nFOR NO KEY UPDATE OF t");
	return sql_finish(&sql, a);
}

/* ---- the rest ---- */

/* A key column from the job's text, so that the table's own index on the key can be used. */
static void key_of_job(const struct binding *b, int k, struct buf *out)
{
	bool only = b->watch->key.n == 1;
	if (typed(b) && only)
		buf_addf(out, "defib_l.defib_job::%s", b->key_type[k]);
	else if (typed(b))
		buf_addf(out, "(defib_l.defib_job::json ->> %d)::%s", k, b->key_type[k]);
	else if (only)
		buf_add(out, "defib_l.defib_job");
	else
		buf_addf(out, "json_extract(defib_l.defib_job, '$[%d]')", k);
}

static const char *compile_cancelling(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT, cancel = BUF_INIT;
	cancel_condition(b, &cancel);
	if (cancel.len == 0)
		return NULL;
	buf_addf(
		&sql,
		"SELECT defib_l.defib_job, defib_l.defib_epoch FROM (SELECT l.job AS defib_job, l.epoch "
		"AS defib_epoch FROM %slease AS l WHERE ",
		table_sql_own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.owner = ");
	parameter(b, 1, "bigint", &sql);
	buf_add(&sql, ") AS defib_l\nJOIN ");
	sql_table(&sql, b->watch->table);
	buf_add(&sql, " AS t ON ");
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(&sql, k ? " AND t." : "t.");
		sql_ident(&sql, b->watch->key.items[k]);
		buf_add(&sql, " = ");
		key_of_job(b, k, &sql);
	}
	buf_addf(&sql, "\nWHERE %s", buf_text(&cancel));
	buf_release(&cancel);
	return sql_finish(&sql, a);
}

static const struct sql_text *list_text(const struct watch *w, enum work_list list)
{
	const struct sql_text *const texts[] = {
#define X(id, member, option) &w->work.member,
		WORK_LISTS(X)
#undef X
	};
	assert(list < LIST_NONE);
	return texts[list];
}

static bool uses_error(const char *assignment, enum store_engine engine)
{
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, assignment, engine);
	while ((t = sql_next(&lx)).type != SQL_END)
		if (t.type == SQL_PARAM && t.len == strlen(":error") && text_starts(t.text, ":error"))
			return true;
	return false;
}

/* Whether a SET list assigns this column with `:error`. */
static bool writes_error(const char *set, enum store_engine engine, const char *wanted)
{
	AUTO_ARENA a = ARENA_INIT;
	const char *column, *text;
	while (set && sql_next_assignment(&set, engine, &a, &column, &text))
		if (column && strcasecmp(column, wanted) == 0 && uses_error(text, engine))
			return true;
	return false;
}

/* The assignments of a SET list that `keep` accepts are added to another. */
static void add_assignments(const struct binding *b, const struct sql_text *from,
                            bool (*keep)(const struct binding *, const char *, const char *),
                            struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	const char *set = from->text, *column, *text;
	while (set && sql_next_assignment(&set, b->engine, &a, &column, &text))
		if (keep(b, column, text))
			buf_addf(out, "%s%s", out->len ? ",\n" : "", text);
}

/* What counts attempts would take this one back, and a last error would be cleared. */
static bool kept_of_release(const struct binding *b, const char *column, const char *text)
{
	const struct watch *w = b->watch;
	(void)text;
	return !column || (!(w->attempts.text && sql_names(w->attempts.text, b->engine, column)) &&
	                   !writes_error(w->work.failed.text, b->engine, column));
}

static bool kept_of_failed(const struct binding *b, const char *column, const char *text)
{
	return column && uses_error(text, b->engine);
}

/* The SET list of a failed attempt that is followed by another: it counts, and its error stays. */
static struct sql_text retry_list(const struct binding *b, struct arena *a)
{
	const struct work *work = &b->watch->work;
	const struct sql_text *release = watch_worker_releases_by(b->watch);
	AUTO_BUF set = BUF_INIT;
	if (work->retry.text)
		return work->retry;
	add_assignments(b, release, kept_of_release, &set);
	add_assignments(b, &work->failed, kept_of_failed, &set);
	return (struct sql_text){.text = set.len ? arena_strdup(a, buf_text(&set)) : NULL,
	                         .at = release->text ? release->at : work->failed.at};
}

/* Whether a claim writes what the watch reads the attempts from. */
static bool counts_runs(const struct binding *b, struct arena *a)
{
	const struct watch *w = b->watch;
	const char **targets;
	struct failure f = {0};
	int n = 0;
	if (!w->attempts.text || !w->work.claim.text ||
	    sql_set_targets(w->work.claim.text, b->engine, a, &targets, &n, &f))
		return false;
	for (int i = 0; i < n; i++)
		if (sql_names(w->attempts.text, b->engine, targets[i]))
			return true;
	return false;
}

static defib_err compile_lists(const struct binding *b, struct arena *a, struct table_sql *out,
                               struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < LIST_NONE && !err; i++) {
		const struct sql_text set = i == LIST_RETRY     ? retry_list(b, a)
		                            : i == LIST_RELEASE ? *watch_worker_releases_by(b->watch)
		                                                : *list_text(b->watch, (enum work_list)i);
		if (set.text)
			err = compile_set(b, &set, a, &out->lists[i], f);
	}
	out->counts_runs = counts_runs(b, a);
	return err;
}

static int compile_statements(const struct binding *b, const struct sql_list *list, struct arena *a,
                              struct write_sql **out)
{
	*out = ARENA_ARRAY(a, struct write_sql, list->n);
	for (int i = 0; i < list->n; i++)
		compile_work(b, &list->items[i], a, &(*out)[i]);
	return list->n;
}

/* A statement with the user's SQL; NULL is none. */
static defib_err prepare_one(const struct table_sql *q, struct store *s, const char *option,
                             const char *sql, struct cfg_mark at, struct arena *a,
                             struct failure *f)
{
	struct store_column *cols;
	AUTO_BUF place = BUF_INIT;
	int ncols;
	if (!sql || !store_describe(s, sql, a, &cols, &ncols, f))
		return DEFIB_OK;
	cfg_mark_text(at, &place);
	fail_prefix(f, "watch %s, %s (%s)", q->binding.watch->name, option, buf_text(&place));
	if (store_blames_sql(f->code) || f->code == DEFIB_DATABASE)
		f->code = DEFIB_CONFIG;
	return f->code;
}

/* All of them are prepared before a job is claimed: invalid SQL is reported at once. */
static defib_err table_sql_prepare(const struct table_sql *q, struct store *s, struct arena *a,
                                   struct failure *f)
{
	const struct watch *w = q->binding.watch;
	const struct work *k = &w->work;
	const struct {
		const char *option, *sql;
		struct cfg_mark at;
	} all[] = {
		{"work.ready", q->peek[false], k->ready.at},
		{"work.priority and work.order", q->pick[false], k->ready.at},
		{"work.rollback_ready", q->peek[true], k->rollback_ready.at},
		{"cancel", q->cancelling, w->actions[ACT_CANCEL].set.at},
		{"table", q->claimed, w->at},
	};
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof all / sizeof *all && !err; i++)
		err = prepare_one(q, s, all[i].option, all[i].sql, all[i].at, a, f);
	for (int i = 0; i < LIST_NONE && !err; i++)
		err = prepare_one(q, s, work_list_options[i], q->lists[i].sql,
		                  list_text(w, (enum work_list)i)->at, a, f);
	for (int i = 0; i < q->nbeat && !err; i++)
		err = prepare_one(q, s, "work.beat", q->beat[i].sql, k->beat.items[i].at, a, f);
	for (int i = 0; i < q->nafter && !err; i++)
		err = prepare_one(q, s, "work.after", q->after[i].sql, k->after.items[i].at, a, f);
	return err;
}

static defib_err table_sql_fits(const struct watch *w, const char *kind, const struct table_sql *q,
                                const struct store *s, struct failure *f)
{
	if (!w->work.given)
		return fail(f, DEFIB_CONFIG, "watch %s has no work: section", w->name);
	if (kind && !w->kind.text)
		return fail(f, DEFIB_CONFIG, "watch %s has no kind: to tell \"%s\" by", w->name, kind);
	if (!q->binding.leases) {
		fail(f, DEFIB_CONFIG, "watch %s: database %s does not have defib's tables", w->name,
		     s->name);
		fail_advise(f, ADVISE_CREATE_LEASES, NULL);
		return DEFIB_CONFIG;
	}
	return DEFIB_OK;
}

defib_err table_sql_compile(const struct watch *w, const char *kind, struct store *s,
                            struct arena *a, struct table_sql *out, struct failure *f)
{
	const struct binding *b = &out->binding;
	*out = (struct table_sql){0};
	defib_err err = watch_bind(w, s, a, &out->binding, f);
	if (!err)
		err = table_sql_fits(w, kind, out, s, f);
	if (!err)
		err = compile_lists(b, a, out, f);
	if (err)
		return err;
	own_statements_compile(b, a, out);
	int sides = w->work.rollback_ready.text ? 2 : 1;
	for (int undoing = 0; undoing < sides; undoing++) {
		out->peek[undoing] = compile_peek(b, kind, undoing, a);
		out->pick[undoing] = compile_pick(b, kind, undoing, a);
	}
	out->claimed = compile_facts(b, true, a);
	out->facts = compile_facts(b, false, a);
	out->lock_rows = dialect_of(b->engine)->has_row_locks ? compile_lock_rows(b, a) : NULL;
	out->cancelling = compile_cancelling(b, a);
	out->nbeat = compile_statements(b, &w->work.beat, a, &out->beat);
	out->nafter = compile_statements(b, &w->work.after, a, &out->after);
	return table_sql_prepare(out, s, a, f);
}

/*
 * ---- defib's own tables ----
 *
 * Leases, workers, and the steps of workflows with the attempts at them.
 */

void own_relation(enum own_rows of, enum store_engine engine, struct relation *r)
{
	/* Alternating names and types. */
	static const char *const columns[][15] = {
		[ROWS_GIVEN] = {"pos", "bigint", "job", "text", "epoch", "bigint"},
		[ROWS_JOBS] = {"job", "text"},
		[ROWS_RUNS] = {"job", "text", "step", "text", "position", "bigint", "epoch", "bigint",
	                   "output", "jsonb"},
		[ROWS_UNDOS] = {"job", "text", "step", "text", "state", "text", "error", "text", "epoch",
	                    "bigint", "ran", "bigint"},
		[ROWS_ATTEMPTS] = {"job", "text", "step", "text", "position", "bigint", "epoch", "bigint",
	                       "undo", "bigint", "outcome", "text", "error", "text"},
		[ROWS_ENDED] = {"job", "text", "settled", "bigint", "attempts", "bigint", "pause_ms",
	                    "bigint"},
	};
	relation_make(r, engine, columns[of]);
}

static const struct own_statement {
	size_t member; /* of struct table_sql */
	enum own_rows rows;
	const char *sql;
	const char *lock; /* added if rows can be locked; or NULL */
} own_statements[] = {
#define M(name) offsetof(struct table_sql, name)
	{M(live), ROWS_NONE, sql_leases_live, NULL},
	{M(take), ROWS_JOBS, sql_leases_take, NULL},
	{M(lock_leases), ROWS_GIVEN, sql_leases_given, "\nFOR UPDATE OF l"},
	{M(beat_leases), ROWS_GIVEN, sql_leases_given, "\nFOR UPDATE OF l SKIP LOCKED"},
	{M(repeated), ROWS_GIVEN, sql_leases_repeated, NULL},
	{M(now_held), ROWS_GIVEN, sql_leases_now_held, NULL},
	{M(end_leases), ROWS_ENDED, sql_leases_end, NULL},
	{M(owned), ROWS_NONE, sql_leases_owned, NULL},
	{M(holds), ROWS_NONE, sql_leases_holds, NULL},
	{M(steps), ROWS_JOBS, sql_leases_steps, NULL},
	{M(record_runs), ROWS_RUNS, sql_leases_record_runs, NULL},
	{M(keep_runs), ROWS_UNDOS, sql_leases_keep_runs, NULL},
	{M(record_undos), ROWS_UNDOS, sql_leases_record_undos, NULL},
	{M(record_attempts), ROWS_ATTEMPTS, sql_leases_record_attempts, NULL},
	{M(drop_attempts), ROWS_ATTEMPTS, sql_leases_drop_attempts, NULL},
#undef M
};

static const char *compile_own(const struct binding *b, const struct own_statement *s,
                               struct arena *a)
{
	AUTO_BUF sql = BUF_INIT, watch = BUF_INIT, rows = BUF_INIT;
	AUTO_RELATION r = {0};
	own_relation(s->rows, b->engine, &r);
	sql_literal(&watch, b->watch->name);
	if (s->rows != ROWS_NONE)
		relation_select(&r, strstr(s->sql, "$1") ? 2 : 1, &rows);
	const struct sql_piece pieces[] = {{"watch", buf_text(&watch)}, {"rows", buf_text(&rows)}, {0}};
	sql_fill(&sql, s->sql, pieces);
	if (s->lock && dialect_of(b->engine)->has_row_locks)
		buf_add(&sql, s->lock);
	return dialect_sql(dialect_of(b->engine), a, buf_text(&sql));
}

void own_statements_compile(const struct binding *b, struct arena *a, struct table_sql *out)
{
	for (size_t i = 0; i < sizeof own_statements / sizeof *own_statements; i++)
		*(const char **)((char *)out + own_statements[i].member) =
			compile_own(b, &own_statements[i], a);
}
