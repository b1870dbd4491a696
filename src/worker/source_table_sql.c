/*
 * source_table_sql.c: the work part of a watch as statements.
 *
 * The user's SQL stands unqualified beside the row `t`. Tables of ours are
 * therefore never joined to it: they appear in sub-selects, with every column
 * qualified, or as relations whose columns begin with defib_.
 */
#include "worker/source_table_sql.h"

#include "base/text.h"
#include "watch/compile_write.h"
#include "watch/lease_sql.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

#include <assert.h>

/* In the leases' own time. */
static const char *const now[] = {
	[STORE_POSTGRES] = "clock_timestamp()",
	[STORE_SQLITE] = SQLITE_NOW_MS,
};

static bool postgres(const struct binding *b)
{
	return b->engine == STORE_POSTGRES;
}

static const char *finish(struct buf *sql, struct arena *a)
{
	const char *text = arena_strdup(a, buf_text(sql));
	buf_release(sql);
	return text;
}

static void parameter(const struct binding *b, int n, struct buf *out)
{
	buf_addf(out, postgres(b) ? "$%d::bigint" : "?%d", n);
}

/* "<alias>.watch = 'name'" */
static void of_watch(const struct binding *b, const char *alias, struct buf *out)
{
	buf_addf(out, "%s.watch = ", alias);
	sql_literal(out, b->watch->name);
}

void given_relation(enum store_engine engine, struct relation *r)
{
	relation_init(r, engine);
	relation_column(r, "pos", "bigint");
	relation_column(r, "job", "text");
	relation_column(r, "epoch", "bigint");
}

void ended_relation(enum store_engine engine, struct relation *r)
{
	relation_init(r, engine);
	relation_column(r, "job", "text");
	relation_column(r, "settled", "bigint");
	relation_column(r, "attempts", "bigint");
	relation_column(r, "pause_ms", "bigint");
}

/* (SELECT … ) AS g, with parameters from `first` on */
static void from_given(const struct binding *b, int first, struct buf *out)
{
	struct relation r;
	given_relation(b->engine, &r);
	buf_add(out, " FROM (");
	relation_select(&r, first, out);
	buf_add(out, ") AS g");
	relation_release(&r);
}

/* ---- claim ---- */

/* Rows that may be claimed: ready, of the kind, not leased by a living worker, not waiting. */
static void claimable(const struct binding *b, const char *kind, struct buf *out)
{
	const struct watch *w = b->watch;
	buf_add(out, "\nFROM ");
	sql_table(out, w->table);
	buf_addf(out, " AS t\nWHERE (%s)", w->work.ready.text);
	if (kind) {
		buf_addf(out, "\n  AND (%s)%s = ", w->kind.text, postgres(b) ? "::text" : "");
		sql_literal(out, kind);
	}
	buf_addf(out,
	         "\n  AND NOT EXISTS (SELECT 1 FROM %s AS defib_l LEFT JOIN %s AS defib_w ON "
	         "defib_w.id = defib_l.owner\n    WHERE ",
	         lease_table[b->engine], worker_table[b->engine]);
	of_watch(b, "defib_l", out);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_addf(out, " AND (defib_w.state = 'alive' OR defib_l.run_at > %s))", now[b->engine]);
	/* Where retries are ours to count, a job that only ever killed its worker stays for a person.
	 */
	if (w->backoff.given && w->max_attempts.text && !w->attempts.text) {
		buf_addf(out, "\n  AND ((%s) > coalesce((SELECT defib_l.attempts FROM %s AS defib_l WHERE ",
		         w->max_attempts.text, lease_table[b->engine]);
		of_watch(b, "defib_l", out);
		buf_add(out, " AND defib_l.job = ");
		sql_job_text(b, JOB_OF_ROW, out);
		buf_add(out, "), 0)) IS NOT FALSE");
	}
}

static const char *compile_peek(const struct binding *b, const char *kind, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT 1");
	claimable(b, kind, &sql);
	buf_add(&sql, "\nLIMIT 1");
	return finish(&sql, a);
}

static const char *compile_pick(const struct binding *b, const char *kind, struct arena *a)
{
	const struct work *work = &b->watch->work;
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	claimable(b, kind, &sql);
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
	parameter(b, 1, &sql);
	if (postgres(b))
		buf_add(&sql, "\nFOR NO KEY UPDATE OF t SKIP LOCKED");
	return finish(&sql, a);
}

/*
 * The row is locked by then, so nobody else takes the same lease at once. Only
 * a worker that was declared dead can be settling it; if the two deadlock, the
 * database ends one of them and it is tried again.
 */
static const char *compile_take(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	relation_init(&r, b->engine);
	relation_column(&r, "job", "text");
	buf_addf(&sql, "INSERT INTO %s AS l (watch, job, epoch, owner, claimed_at, attempts)\nSELECT ",
	         lease_table[b->engine]);
	sql_literal(&sql, b->watch->name);
	buf_add(&sql, ", u.job, 1, ");
	parameter(b, 1, &sql);
	buf_addf(&sql, ", %s, 1 FROM (", now[b->engine]);
	relation_select(&r, 2, &sql);
	buf_addf(&sql,
	         ") AS u WHERE true\nON CONFLICT (watch, job) DO UPDATE SET owner = excluded.owner, "
	         "epoch = l.epoch + 1, claimed_at = excluded.claimed_at, attempts = l.attempts + 1, "
	         "run_at = NULL\nWHERE l.owner IS NULL OR NOT EXISTS (SELECT 1 FROM %s AS w WHERE "
	         "w.id = l.owner AND w.state = 'alive')\nRETURNING job, epoch, attempts",
	         worker_table[b->engine]);
	relation_release(&r);
	return finish(&sql, a);
}

static const char *compile_live(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "SELECT w.name, %s FROM %s AS w WHERE w.state = 'alive' AND w.id = ",
	         sql_now_us(b->engine), worker_table[b->engine]);
	parameter(b, 1, &sql);
	return finish(&sql, a);
}

/* ---- what a row says ---- */

/* One assignment of the cancel list, `status = 'cancelling'`, as a comparison. */
static void same_as(const struct binding *b, const struct sql_token *from, const char *equals,
                    const char *end, struct buf *out)
{
	buf_add(out, out->len ? " AND (" : "(");
	buf_addn(out, from->text, (size_t)(equals - from->text));
	buf_add(out, postgres(b) ? ") IS NOT DISTINCT FROM (" : ") IS (");
	buf_addn(out, equals + 1, (size_t)(end - equals - 1));
	buf_add(out, ")");
}

/*
 * A row was asked to stop when writing the cancel list would change nothing.
 * Values that differ each time, such as :now, say nothing about that.
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

static bool masked(const struct watch *w, const char *column)
{
	for (int i = 0; i < w->mask.n; i++)
		if (text_eq(w->mask.items[i], column))
			return true;
	return false;
}

/* The row as a JSON object, without the columns that are never shown. */
static void payload(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	bool first = true;
	if (postgres(b)) {
		buf_add(out, "(to_jsonb(t.*)");
		for (int i = 0; i < w->mask.n; i++) {
			buf_add(out, " - ");
			sql_literal(out, w->mask.items[i]);
		}
		buf_add(out, ")::text");
		return;
	}
	/* json_object() takes no more than 63 columns. */
	buf_add(out, "'{'");
	for (int i = 0; i < b->ncolumns; i++) {
		struct buf name = BUF_INIT, column = BUF_INIT;
		if (masked(w, b->columns[i].name))
			continue;
		buf_add(&name, first ? "" : ",");
		buf_add_json(&name, b->columns[i].name);
		buf_add(&name, ":");
		sql_ident(&column, b->columns[i].name);
		buf_add(out, " || ");
		sql_literal(out, buf_text(&name));
		buf_addf(out, " || json_quote(CASE typeof(t.%s) WHEN 'blob' THEN hex(t.%s) ELSE t.%s END)",
		         buf_text(&column), buf_text(&column), buf_text(&column));
		buf_release(&name);
		buf_release(&column);
		first = false;
	}
	buf_add(out, " || '}'");
}

static void value(const struct binding *b, const struct sql_text *sql, const char *type,
                  struct buf *out)
{
	if (!sql->text)
		buf_add(out, ",\n  NULL");
	else
		buf_addf(out, ",\n  (%s)%s%s", sql->text, postgres(b) ? "::" : "", postgres(b) ? type : "");
}

static void from_keys(const struct binding *b, struct buf *out)
{
	struct relation r;
	keys_relation(b, &r);
	buf_add(out, "\nFROM ");
	sql_table(out, b->watch->table);
	buf_add(out, " AS t JOIN (");
	relation_select(&r, 1, out);
	buf_add(out, ") AS defib_s ON ");
	join_keys(b, "defib_s", out);
	relation_release(&r);
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
	buf_addf(&sql, ",\n  (%s) IS TRUE,\n  (%s) IS TRUE,\n  %s", w->running.text,
	         cancel.len ? buf_text(&cancel) : "false", sql_now_us(b->engine));
	if (with_payload) {
		buf_add(&sql, ",\n  ");
		payload(b, &sql);
	}
	from_keys(b, &sql);
	buf_release(&cancel);
	return finish(&sql, a);
}

static const char *compile_lock_rows(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT 1");
	from_keys(b, &sql);
	buf_add(&sql, "\nFOR NO KEY UPDATE OF t");
	return finish(&sql, a);
}

/* ---- settle ---- */

static const char *compile_lock_leases(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT g.pos, l.attempts, w.name");
	from_given(b, 2, &sql);
	buf_addf(&sql, "\nJOIN %s AS l ON ", lease_table[b->engine]);
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job AND l.epoch = g.epoch AND l.owner = ");
	parameter(b, 1, &sql);
	buf_addf(&sql, "\nLEFT JOIN %s AS w ON w.id = l.owner%s", worker_table[b->engine],
	         postgres(b) ? "\nFOR UPDATE OF l" : "");
	return finish(&sql, a);
}

static const char *compile_repeated(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT g.pos");
	from_given(b, 2, &sql);
	buf_addf(&sql, "\nJOIN %s AS l ON ", lease_table[b->engine]);
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job AND l.settled_epoch = g.epoch AND l.settled_by = ");
	parameter(b, 1, &sql);
	return finish(&sql, a);
}

static const char *compile_now_held(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT g.pos, l.epoch, l.owner");
	from_given(b, 1, &sql);
	buf_addf(&sql, "\nLEFT JOIN %s AS l ON ", lease_table[b->engine]);
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job");
	return finish(&sql, a);
}

static const char *compile_end_leases(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	ended_relation(b->engine, &r);
	buf_addf(
		&sql,
		"UPDATE %s AS l SET owner = NULL, attempts = g.attempts,\n  run_at = %s + g.pause_ms%s,\n"
		"  settled_by = CASE WHEN g.settled IS NULL THEN l.settled_by ELSE ",
		lease_table[b->engine], now[b->engine], postgres(b) ? " * interval '1 millisecond'" : "");
	parameter(b, 1, &sql);
	buf_add(&sql, " END, settled_epoch = coalesce(g.settled, l.settled_epoch)\nFROM (");
	relation_select(&r, 2, &sql);
	buf_add(&sql, ") AS g WHERE ");
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job");
	relation_release(&r);
	return finish(&sql, a);
}

/* ---- the rest ---- */

static const char *compile_owned(const struct binding *b, const char *more, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "SELECT l.job, l.epoch FROM %s AS l WHERE ", lease_table[b->engine]);
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.owner = ");
	parameter(b, 1, &sql);
	buf_add(&sql, more);
	return finish(&sql, a);
}

/* A key column from the job's text, so that the table's own index on the key can serve. */
static void key_of_job(const struct binding *b, int k, struct buf *out)
{
	bool only = b->watch->key.n == 1;
	if (postgres(b) && only)
		buf_addf(out, "defib_l.defib_job::%s", b->key_type[k]);
	else if (postgres(b))
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
		"AS defib_epoch FROM %s AS l WHERE ",
		lease_table[b->engine]);
	of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.owner = ");
	parameter(b, 1, &sql);
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
	return finish(&sql, a);
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

static defib_err compile_lists(const struct binding *b, struct arena *a, struct table_sql *out,
                               struct failure *f)
{
	const struct watch_sql none = {0};
	defib_err err = DEFIB_OK;
	for (int i = 0; i < LIST_NONE && !err; i++) {
		const struct sql_text *set = list_text(b->watch, (enum work_list)i);
		if (set->text)
			err = compile_set(b, &none, set, a, &out->lists[i], f);
	}
	return err;
}

/* Every statement with SQL of the user's is prepared now: bad SQL shows before a job is taken. */
static defib_err prepare(const struct table_sql *q, struct store *s, struct arena *a,
                         struct failure *f)
{
	static const char *const options[] = {
#define X(id, member, option) option,
		WORK_LISTS(X)
#undef X
	};
	const struct watch *w = q->binding.watch;
	struct {
		const char *option, *sql;
		struct cfg_mark at;
	} all[4 + LIST_NONE] = {
		{"work.ready", q->peek, w->work.ready.at},
		{"work.priority and work.order", q->pick, w->work.ready.at},
		{"cancel", q->cancelling, w->actions[ACT_CANCEL].set.at},
		{"mask", q->claimed, w->at},
	};
	for (int i = 0; i < LIST_NONE; i++) {
		all[4 + i].option = options[i];
		all[4 + i].sql = q->lists[i].sql;
		all[4 + i].at = list_text(w, (enum work_list)i)->at;
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct store_column *cols;
		struct buf place = BUF_INIT;
		int ncols;
		if (!all[i].sql || !store_describe(s, all[i].sql, a, &cols, &ncols, f))
			continue;
		cfg_mark_text(all[i].at, &place);
		fail_prefix(f, "watch %s, %s (%s)", w->name, all[i].option, buf_text(&place));
		buf_release(&place);
		if (f->code == DEFIB_BAD_SQL || f->code == DEFIB_DATABASE)
			f->code = DEFIB_CONFIG;
		return f->code;
	}
	return DEFIB_OK;
}

static defib_err fits(const struct watch *w, const char *kind, const struct table_sql *q,
                      const struct store *s, struct failure *f)
{
	if (!w->work.given)
		return fail(f, DEFIB_CONFIG, "watch %s has no work: part", w->name);
	if (kind && !w->kind.text)
		return fail(f, DEFIB_CONFIG, "watch %s has no kind: to tell \"%s\" by", w->name, kind);
	if (!q->binding.leases) {
		fail(f, DEFIB_CONFIG, "watch %s: database %s does not have defib's tables", w->name,
		     s->name);
		fail_next(f, "create them with: defib init");
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
		err = fits(w, kind, out, s, f);
	if (!err)
		err = compile_lists(b, a, out, f);
	if (err)
		return err;
	out->live = compile_live(b, a);
	out->peek = compile_peek(b, kind, a);
	out->pick = compile_pick(b, kind, a);
	out->take = compile_take(b, a);
	out->claimed = compile_facts(b, true, a);
	out->facts = compile_facts(b, false, a);
	out->lock_rows = postgres(b) ? compile_lock_rows(b, a) : NULL;
	out->lock_leases = compile_lock_leases(b, a);
	out->repeated = compile_repeated(b, a);
	out->end_leases = compile_end_leases(b, a);
	out->now_held = compile_now_held(b, a);
	out->owned = compile_owned(b, "", a);
	out->holds = compile_owned(
		b, postgres(b) ? " AND l.job = $2 AND l.epoch = $3" : " AND l.job = ?2 AND l.epoch = ?3",
		a);
	out->cancelling = compile_cancelling(b, a);
	return prepare(out, s, a, f);
}
