/* SPDX-License-Identifier: Apache-2.0
 * compile.c: the statements that read: look, lock, reread.
 *
 * Our own names in these statements start with defib_, because the user's SQL is next to them,
 * unqualified, and must not refer to a column of ours by accident.
 */
#include "watch/compile.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/compile_whole.h"
#include "watch/compile_write.h"
#include "watch/lease_sql.h"
#include "watch/lexer.h"
#include "watch/limit_sql.h"
#include "watch/timesql.h"
#include "watch/waiting_sql.h"

/* Which rows are candidates, one condition per reason. */
struct conditions {
	struct buf sql;
	int n;
};

static void condition(struct conditions *c, const char *text)
{
	buf_addf(&c->sql, "%s(%s)", c->n++ ? "\n    OR " : "", text);
}

/* A worker that is known to be alive is neither lost nor silent; it can be overdue. */
static void not_alive(const struct binding *b, struct buf *sql)
{
	if (b->owner_alive)
		buf_addf(sql, " AND (%s) IS NOT TRUE", b->owner_alive);
}

static void sign_condition(const struct binding *b, enum sign sign, struct conditions *c)
{
	const struct watch *w = b->watch;
	const struct threshold *t = watch_limit(w, sign);
	const char *expr = watch_sign(w, sign)->text;
	bool by_row = t->states.n || b->own[sign];
	AUTO_BUF sql = BUF_INIT;
	/*
	 * The smallest threshold first, without wrapping: an index can use this part. A row's own
	 * time-out may be smaller than any that the watch names.
	 */
	if (!b->own[sign]) {
		sql_time_comparable(b, b->sign_time[sign], expr, &sql);
		buf_add(&sql, " < ");
		sql_time_cutoff(b, b->sign_time[sign], t, NULL, &sql);
	}
	if (by_row) {
		buf_addf(&sql, "%s%s - ", sql.len ? " AND " : "", sql_now_us(b->engine));
		sql_time_us(b, b->sign_time[sign], expr, &sql);
		buf_add(&sql, " > ");
		sql_limit_us(w, sign, &(struct limit_sql){b->state, w->kind.text, b->own[sign]}, &sql);
	} else if (t->n) {
		buf_add(&sql, " AND ");
		sql_time_comparable(b, b->sign_time[sign], expr, &sql);
		buf_add(&sql, " < ");
		sql_time_cutoff(b, b->sign_time[sign], t, w->kind.text, &sql);
	}
	if (sign_kinds[sign].refuted)
		not_alive(b, &sql);
	condition(c, buf_text(&sql));
}

static void candidate_conditions(const struct binding *b, struct conditions *c)
{
	const struct watch *w = b->watch;
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (watch_sign(w, (enum sign)sign)->text && (sign_kinds[sign].states != SIGN_STATES_ALONE ||
		                                             watch_limit(w, (enum sign)sign)->states.n))
			sign_condition(b, (enum sign)sign, c);
	AUTO_BUF sql = BUF_INIT;
	if (w->missing == MISSING_ORPHAN) {
		buf_addf(&sql, "(%s) IS NULL", watch_sign(w, watch_first_sign(w))->text);
		not_alive(b, &sql);
		condition(c, buf_text(&sql));
	}
	if (b->owner_alive) {
		buf_clear(&sql);
		buf_addf(&sql, "(%s) IS FALSE", b->owner_alive);
		condition(c, buf_text(&sql));
	}
}

/* The only sign that orders the rows, or SIGN_COUNT if there are several. */
static enum sign only_sign(const struct binding *b)
{
	const struct watch *w = b->watch;
	enum sign found = SIGN_COUNT;
	int n = 0;
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (watch_sign(w, (enum sign)sign)->text) {
			found = (enum sign)sign;
			n++;
		}
	return n == 1 && w->missing == MISSING_ALIVE && !b->owner_alive ? found : SIGN_COUNT;
}

/*
 * Rows come oldest first and pages continue after a position, so each page is read once, whatever
 * happened to earlier rows.
 */
static void compile_position(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	enum sign only = only_sign(b);
	if (only != SIGN_COUNT) {
		sql_time_comparable(b, b->sign_time[only], watch_sign(w, only)->text, out);
		return;
	}
	buf_addf(out, "%s(", dialect_of(b->engine)->least);
	for (int sign = 0; sign < SIGN_COUNT; sign++) {
		if (!watch_sign(w, (enum sign)sign)->text)
			continue;
		buf_add(out, "coalesce(");
		sql_time_us(b, b->sign_time[sign], watch_sign(w, (enum sign)sign)->text, out);
		buf_add(out, ", 9223372036854775807), ");
	}
	buf_add(out, "9223372036854775807)");
}

static const char *position_type(const struct binding *b)
{
	enum sign only = only_sign(b);
	return only == SIGN_COUNT ? "bigint"
	                          : sql_time_comparable_type(b->sign_time[only], b->sign_type[only]);
}

/* A column without a type does not convert text to a number: there, keys are compared as text. */
void key_column(const struct binding *b, int k, struct buf *out)
{
	bool untyped = !dialect_of(b->engine)->has_types && b->key_type[k][0] == '\0';
	buf_add(out, untyped ? "CAST(t." : "t.");
	sql_ident(out, b->watch->key.items[k]);
	buf_add(out, untyped ? " AS TEXT)" : "");
}

/*
 * Each with a name of ours: an output column called like the table's, `id::text`, would hide that
 * one from the user's expressions in ORDER BY, and sort as text.
 */
void key_list(const struct binding *b, const char *alias, struct buf *out)
{
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_addf(out, "%s%s", k ? ", " : "", alias);
		sql_ident(out, b->watch->key.items[k]);
		buf_addf(out, "%s AS defib_key%d", dialect_of(b->engine)->as_text, k + 1);
	}
}

/* An optional expression of the watch, as a column with a unique name. */
static void optional(const struct binding *b, const char *name, const struct sql_text *sql,
                     const char *as, struct buf *out)
{
	if (!sql->text)
		buf_add(out, ",\n  NULL");
	else if (dialect_of(b->engine)->has_types)
		buf_addf(out, ",\n  (%s)::%s", sql->text, as);
	else if (as[0] == 't')
		buf_addf(out, ",\n  (%s)", sql->text);
	else
		buf_addf(out, ",\n  CAST((%s) AS INTEGER)", sql->text);
	buf_addf(out, " AS defib_%s", name);
}

void text_column(const struct binding *b, const struct sql_text *sql, struct buf *out)
{
	if (sql->text)
		dialect_cast(dialect_of(b->engine), out, sql->text, "text");
	else
		buf_add(out, "NULL");
}

/* Longer values are not recognised in free text, where only a part of them would be. */
#define MASKED_BYTES_MAX 1000

static void masked_columns(const struct binding *b, struct buf *out)
{
	for (int i = 0; i < b->nmasked; i++) {
		AUTO_BUF column = BUF_INIT, text = BUF_INIT;
		buf_add(&column, "t.");
		sql_ident(&column, b->masked[i]);
		dialect_cast(dialect_of(b->engine), &text, buf_text(&column), "text");
		buf_addf(out, ",\n  CASE WHEN length(%s) <= %d THEN %s END", buf_text(&text),
		         MASKED_BYTES_MAX, buf_text(&text));
	}
}

/* What is judged of rows that wait; NULL where the watch does not say. */
static void waiting_facts(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	if (!w->waiting.text)
		return;
	buf_addf(out, ",\n  (%s) IS TRUE AS defib_waiting,\n  ", w->waiting.text);
	if (w->due_at.text)
		sql_time_us(b, b->sign_time[TIME_DUE], w->due_at.text, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_due_us,\n  ");
	if (w->last_run_at.text)
		sql_time_us(b, b->sign_time[TIME_LAST_RUN], w->last_run_at.text, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_last_run_us");
}

/* Everything that judge and decide use, in the order of struct fact_columns. */
void fact_list(const struct binding *b, const struct watch_sql *q, bool reread, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct sql_text alive = {.text = b->owner_alive};
	const struct sql_text epoch = {.text = w->epoch.text ? w->epoch.text : b->lease_epoch};
	key_list(b, "t.", out);
	optional(b, "owner", &w->owner, "text", out);
	optional(b, "owner_alive", &alive, "text", out);
	optional(b, "kind", &w->kind, "text", out);
	optional(b, "attempts", &w->attempts, "bigint", out);
	optional(b, "max_attempts", &w->max_attempts, "bigint", out);
	optional(b, "epoch", &epoch, "bigint", out);
	for (int sign = 0; sign < SIGN_COUNT; sign++) {
		const struct sql_text *sql = watch_sign(w, (enum sign)sign);
		buf_add(out, ",\n  ");
		if (sql->text)
			sql_time_us(b, b->sign_time[sign], sql->text, out);
		else
			buf_add(out, "NULL");
		buf_addf(out, " AS defib_%s_us", sign_kinds[sign].name);
	}
	if (b->state)
		buf_addf(out, ",\n  %s AS defib_state", b->state);
	if (b->progress)
		buf_addf(out, ",\n  %s AS defib_progress", b->progress);
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (b->own[sign])
			buf_addf(out, ",\n  %s AS defib_%s_own_us", b->own[sign], sign_kinds[sign].name);
	waiting_facts(b, out);
	buf_addf(out, ",\n  %s AS defib_lost_us", b->lost_us ? b->lost_us : "NULL");
	buf_addf(out, ",\n  %s AS defib_now_us,\n  (%s) IS TRUE AS defib_running,\n  (",
	         sql_now_us(b->engine), w->running.text);
	compile_position(b, out);
	buf_addf(out, ")%s AS defib_position", dialect_of(b->engine)->as_text);
	for (int i = 0; i < w->nrules; i++) {
		if (w->rules[i].when.text)
			buf_addf(out, ",\n  (%s) IS TRUE", w->rules[i].when.text);
		else
			buf_add(out, ",\n  NULL");
		buf_addf(out, " AS defib_when_%d", i + 1);
	}
	for (int i = 0; i < w->show.n; i++) {
		buf_add(out, ",\n  t.");
		sql_ident(out, w->show.items[i]);
		buf_add(out, dialect_of(b->engine)->as_text);
	}
	masked_columns(b, out);
	sql_steps_fact(b, reread, out);
	if (reread && w->late_when.text && w->actions[ACT_THEN].form != ACTION_NONE)
		buf_addf(out, "(%s) IS TRUE AS defib_late,\n  ", w->late_when.text);
	else
		buf_add(out, "NULL AS defib_late,\n  ");
	if (reread)
		kept_columns(b, q, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_before");
}

static struct fact_columns fact_layout(const struct binding *b)
{
	const struct watch *w = b->watch;
	struct fact_columns c = {.key = 0, .owner = w->key.n};
	c.owner_alive = c.owner + 1;
	c.kind = c.owner + 2;
	c.attempts = c.owner + 3;
	c.max_attempts = c.owner + 4;
	c.epoch = c.owner + 5;
	c.sign = c.owner + 6;
	int at = c.sign + SIGN_COUNT;
	c.state = b->state ? at++ : -1;
	c.progress = b->progress ? at++ : -1;
	for (int s = 0; s < SIGN_COUNT; s++)
		c.own[s] = b->own[s] ? at++ : -1;
	c.waiting = w->waiting.text ? at++ : -1;
	c.due = w->waiting.text ? at++ : -1;
	c.last_run = w->waiting.text ? at++ : -1;
	c.lost = at;
	c.now = c.lost + 1;
	c.running = c.now + 1;
	c.position = c.now + 2;
	c.when = c.now + 3;
	c.show = c.when + w->nrules;
	c.masked = c.show + w->show.n;
	c.steps_done = c.masked + b->nmasked;
	c.late = c.steps_done + 1;
	c.before = c.late + 1;
	c.count = c.before + 1;
	return c;
}

void from_table(const struct binding *b, struct buf *out)
{
	buf_add(out, "\nFROM ");
	sql_table(out, b->watch->table);
	buf_add(out, " AS t");
}

void parameter(const struct binding *b, int number, const char *type, struct buf *out)
{
	const struct dialect *d = dialect_of(b->engine);
	buf_addf(out, "%c%d", d->mark, number);
	if (d->has_types)
		buf_addf(out, "::%s", type);
}

static void order_list(const struct binding *b, struct buf *out)
{
	compile_position(b, out);
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(out, ", ");
		key_column(b, k, out);
	}
}

/* (position, key…) > ($2, $3…) */
static void behind_position(const struct binding *b, struct buf *out)
{
	buf_add(out, "\n  AND (");
	order_list(b, out);
	buf_add(out, ") > (");
	if (dialect_of(b->engine)->has_types)
		parameter(b, 2, position_type(b), out);
	else
		buf_add(out, "CAST(?2 AS NUMERIC)");
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(out, ", ");
		parameter(b, 3 + k, b->key_type[k], out);
	}
	buf_add(out, ")");
}

enum look_form { LOOK_FIRST, LOOK_NEXT, LOOK_OWNER };

void stuck_condition(const struct binding *b, struct buf *out)
{
	struct conditions c = {BUF_INIT, 0};
	candidate_conditions(b, &c);
	if (c.n == 0)
		condition(&c, "false");
	/* A single condition has no parentheses of its own, for readability. */
	buf_addf(out, "(%s)\n  AND %s%s%s", b->watch->running.text, c.n > 1 ? "(" : "",
	         buf_text(&c.sql), c.n > 1 ? ")" : "");
	buf_release(&c.sql);
}

static const char *compile_look(const struct binding *b, const struct watch_sql *q,
                                enum look_form form, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	fact_list(b, q, false, &sql);
	from_table(b, &sql);
	buf_add(&sql, "\nWHERE ");
	stuck_condition(b, &sql);
	if (form == LOOK_NEXT)
		behind_position(b, &sql);
	if (form == LOOK_OWNER)
		buf_addf(&sql, "\n  AND (%s) = %c2", b->watch->owner.text, dialect_of(b->engine)->mark);
	buf_add(&sql, "\nORDER BY ");
	order_list(b, &sql);
	buf_add(&sql, "\nLIMIT ");
	parameter(b, 1, "bigint", &sql);
	return buf_to_arena(&sql, a);
}

static const char *compile_look_seen(const struct binding *b, const struct watch_sql *q,
                                     struct arena *a)
{
	const struct state_limits *states = &b->watch->overdue_after.states;
	struct buf sql = BUF_INIT;
	if (!watch_remembers_any(b->watch))
		return NULL;
	buf_add(&sql, "SELECT ");
	fact_list(b, q, false, &sql);
	from_table(b, &sql);
	buf_addf(&sql, "\nWHERE (%s)\n  AND (false", b->watch->running.text);
	if (b->progress)
		buf_addf(&sql, " OR (%s) IS NOT NULL", b->watch->progress.text);
	for (int i = 0; watch_remembers(b->watch, SIGN_STATE) && i < states->n; i++) {
		buf_addf(&sql, " OR %s = ", b->state);
		sql_literal(&sql, states->values[i]);
	}
	buf_add(&sql, ")\nORDER BY ");
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(&sql, k ? ", " : "");
		key_column(b, k, &sql);
	}
	buf_add(&sql, "\nLIMIT ");
	parameter(b, 1, "bigint", &sql);
	return buf_to_arena(&sql, a);
}

void where_key(const struct binding *b, struct buf *out)
{
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(out, k ? " AND " : "\nWHERE ");
		key_column(b, k, out);
		buf_add(out, " = ");
		parameter(b, 1 + k, b->key_type[k], out);
	}
}

static const char *compile_look_one(const struct binding *b, const struct watch_sql *q,
                                    struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	fact_list(b, q, true, &sql);
	from_table(b, &sql);
	where_key(b, &sql);
	return buf_to_arena(&sql, a);
}

static const char *compile_count(const struct binding *b, bool stuck, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT count(*) FROM (SELECT 1");
	from_table(b, &sql);
	buf_add(&sql, "\nWHERE ");
	if (stuck)
		stuck_condition(b, &sql);
	else
		buf_addf(&sql, "(%s)", b->watch->running.text);
	buf_addf(&sql, "\nLIMIT %d) AS defib_counted", ROWS_COUNT_MAX);
	return buf_to_arena(&sql, a);
}

void keys_relation(const struct binding *b, struct relation *r)
{
	static const char *const names[WATCH_KEYS_MAX] = {"defib_k1", "defib_k2", "defib_k3",
	                                                  "defib_k4"};
	relation_init(r, b->engine);
	for (int k = 0; k < b->watch->key.n; k++)
		relation_column(r, names[k], dialect_of(b->engine)->has_types ? b->key_type[k] : "text");
}

void join_keys(const struct binding *b, const char *relation, struct buf *out)
{
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(out, k ? " AND " : "");
		key_column(b, k, out);
		buf_addf(out, " = %s.defib_k%d", relation, k + 1);
	}
}

void from_keys(const struct binding *b, struct buf *out)
{
	AUTO_RELATION r = {0};
	keys_relation(b, &r);
	from_table(b, out);
	buf_add(out, "\nJOIN (");
	relation_select(&r, 1, out);
	buf_add(out, ") AS defib_s ON ");
	join_keys(b, "defib_s", out);
}

static const char *compile_lock(const struct binding *b, const char *taken, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	from_keys(b, &sql);
	buf_addf(&sql, "\nFOR NO KEY UPDATE OF t %s", taken);
	return buf_to_arena(&sql, a);
}

/* ---- rows of other tables that decide ---- */

/*
 * What decides about a job may be in another table. Those rows are locked too, so that none can
 * change between the second reading and the commit; one that is being written now shows as busy.
 */
struct locked_rows {
	struct buf sql, seen; /* the columns; the rows that have one */
	int n;
};

static void busy_column(struct locked_rows *l, const char *rows, const char *lock)
{
	AUTO_BUF mark = BUF_INIT;
	buf_addf(&mark, "\n%s\n", rows);
	if (strstr(buf_text(&l->seen), buf_text(&mark)))
		return;
	buf_add(&l->seen, buf_text(&mark));
	buf_addf(&l->sql,
	         ",\n  (SELECT count(*) FROM (%s) AS defib_a) <> (SELECT count(*) FROM (%s %s SKIP "
	         "LOCKED) AS defib_b)",
	         rows, rows, lock);
	l->n++;
}

/* The catalogs of the server are not written by anybody's job. */
static bool reads_catalog(const struct binding *b, const char *rows)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, rows, b->engine);
	for (struct sql_token t = sql_next(&lx); t.type != SQL_END; t = sql_next(&lx))
		if (t.type == SQL_WORD && t.len > 3 && strncasecmp(t.text, "pg_", 3) == 0)
			return true;
	return false;
}

/* The rows that an expression reads in other tables; false: a lock cannot name them. */
static bool lock_rows_of(const struct binding *b, const char *expr, struct locked_rows *l)
{
	AUTO_BUF rows = BUF_INIT;
	bool apart, all = true;
	while (expr && sql_next_subselect(&expr, b->engine, &rows, &apart)) {
		if (rows.len == 0 || reads_catalog(b, buf_text(&rows)))
			continue;
		if (apart)
			all = false;
		else
			busy_column(l, buf_text(&rows), "FOR SHARE");
	}
	return all;
}

int watch_states(const struct watch *w, struct state_sql out[STATES_MAX])
{
	int n = 0;
	out[n++] = (struct state_sql){"running", w->running.text};
	out[n++] = (struct state_sql){"waiting", w->waiting.text};
	out[n++] = (struct state_sql){"attempts", w->attempts.text};
	out[n++] = (struct state_sql){"epoch", w->epoch.text};
	out[n++] = (struct state_sql){"state", watch_uses_state(w) ? w->state.text : NULL};
	out[n++] = (struct state_sql){"end_when", w->end_when.text};
	out[n++] = (struct state_sql){"cancel_when", w->cancel_when.text};
	for (int i = 0; i < w->nrules; i++)
		out[n++] = (struct state_sql){"remedies.when", w->rules[i].when.text};
	return n;
}

static void lock_states(const struct binding *b, struct watch_sql *q, struct locked_rows *l)
{
	struct state_sql all[STATES_MAX];
	int n = watch_states(b->watch, all);
	for (int i = 0; i < n; i++)
		if (!lock_rows_of(b, all[i].text, l) && !q->unlockable)
			q->unlockable = all[i].option;
}

static void lock_life(const struct binding *b, struct locked_rows *l)
{
	const struct watch *w = b->watch;
	const struct sql_text none = {0};
	const struct sql_text *const all[] = {&w->owner,
	                                      &w->owner_alive,
	                                      &w->stuck_after.own,
	                                      &w->overdue_after.own,
	                                      &w->stalled_after.own,
	                                      watch_remembers(w, SIGN_PROGRESS) ? &w->progress : &none,
	                                      &w->due_at,
	                                      &w->last_run_at,
#define X(id, name, option, ...) &w->option,
	                                      SIGN_LIST(X)
#undef X
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		(void)lock_rows_of(b, all[i]->text, l);
}

static void compile_lock_leases(const struct binding *b, struct locked_rows *l)
{
	for (int of = 0; b->leases && of < LEASE_ROWS; of++) {
		AUTO_BUF rows = BUF_INIT;
		sql_lease_row(b, (enum lease_row)of, &rows);
		busy_column(l, buf_text(&rows), "FOR NO KEY UPDATE");
	}
}

/* The lock of the jobs themselves with those columns; NULL: there are none. */
static const char *lock_with(const struct binding *b, struct locked_rows *l, struct arena *a)
{
	struct buf sql = BUF_INIT;
	if (l->n > 0) {
		buf_add(&sql, "SELECT ");
		key_list(b, "t.", &sql);
		buf_add(&sql, buf_text(&l->sql));
		from_keys(b, &sql);
		buf_add(&sql, "\nFOR NO KEY UPDATE OF t SKIP LOCKED");
	}
	buf_release(&l->sql);
	buf_release(&l->seen);
	return l->n > 0 ? buf_to_arena(&sql, a) : NULL;
}

static void compile_locks(const struct binding *b, struct arena *a, struct watch_sql *out)
{
	struct locked_rows signs = {BUF_INIT, BUF_INIT, 0}, states = signs, leases = signs;
	lock_states(b, out, &signs);
	lock_life(b, &signs);
	compile_lock_leases(b, &signs);
	out->nbusy = signs.n;
	out->lock_signs = lock_with(b, &signs, a);
	lock_states(b, out, &states);
	bool any = states.n > 0;
	compile_lock_leases(b, &states);
	out->nbusy_states = any ? states.n : 0;
	const char *sql = lock_with(b, &states, a);
	out->lock_states = any ? sql : NULL;
	compile_lock_leases(b, &leases);
	out->lock_leases = lock_with(b, &leases, a);
}

/* A recovered job has no owner: a late result of its worker will be refused. */
static const char *compile_free_leases(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	if (!b->leases)
		return NULL;
	sql_free_leases(b, &sql);
	return buf_to_arena(&sql, a);
}

static const char *compile_reread(const struct binding *b, const struct watch_sql *q,
                                  struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	fact_list(b, q, true, &sql);
	from_keys(b, &sql);
	return buf_to_arena(&sql, a);
}

/* Which transaction holds a row that we skipped: the one in its xmax. */
static const char *compile_blockers(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	buf_add(&sql,
	        ", defib_l.pid, extract(epoch FROM clock_timestamp() - defib_a.xact_start)::bigint");
	from_keys(b, &sql);
	buf_add(&sql,
	        "\nJOIN pg_locks AS defib_l ON defib_l.locktype = 'transactionid' AND defib_l.granted"
	        " AND defib_l.transactionid = t.xmax"
	        "\nLEFT JOIN pg_stat_activity AS defib_a ON defib_a.pid = defib_l.pid");
	return buf_to_arena(&sql, a);
}

defib_err watch_compile(const struct binding *b, struct arena *a, struct watch_sql *out,
                        struct failure *f)
{
	*out = (struct watch_sql){.binding = b, .cols = fact_layout(b)};
	defib_err err = compile_writes(b, a, out, f);
	if (err)
		return err;
	out->look_first = compile_look(b, out, LOOK_FIRST, a);
	out->look_next = compile_look(b, out, LOOK_NEXT, a);
	if (b->watch->owner.text)
		out->look_owner = compile_look(b, out, LOOK_OWNER, a);
	out->look_seen = compile_look_seen(b, out, a);
	out->look_one = compile_look_one(b, out, a);
	compile_waiting(b, a, out);
	out->count_running = compile_count(b, false, a);
	out->count_stuck = compile_count(b, true, a);
	out->reread = compile_reread(b, out, a);
	out->free_leases = compile_free_leases(b, a);
	if (dialect_of(b->engine)->has_row_locks) {
		out->lock = compile_lock(b, "SKIP LOCKED", a);
		out->lock_now = compile_lock(b, "NOWAIT", a);
		compile_locks(b, a, out);
		out->blockers = compile_blockers(b, a);
		compile_wholes(b, a, out);
	}
	return DEFIB_OK;
}

/* A user's expression over t, for a context without t: an index. */
static void without_alias(const struct binding *b, const char *text, struct buf *out)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, text, b->engine);
	for (struct sql_token k = sql_next(&lx); k.type != SQL_END; k = sql_next(&lx))
		if (sql_is_word(k, "t") && *lx.at == '.')
			sql_next(&lx);
		else
			buf_addn(out, k.text, k.len);
}

/* Whether it can be indexed: no other table, no clock, no time plus an interval, no whole row. */
static bool indexable(const struct binding *b, const char *text)
{
	static const char *const unfit[] = {"select", "now", "interval", "make_interval"};
	struct sql_lexer lx;
	bool yes = true;
	sql_lexer_init(&lx, text, b->engine);
	for (struct sql_token k = sql_next(&lx); yes && k.type != SQL_END; k = sql_next(&lx)) {
		for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++)
			yes = yes && !sql_is_word(k, unfit[i]);
		yes = yes && !(k.type == SQL_WORD && k.len == 1 && *k.text == 't' && *lx.at != '.');
	}
	return yes;
}

static bool compile_is_column(const struct binding *b, const char *expr)
{
	for (int i = 0; i < b->ncolumns; i++)
		if (strcasecmp(b->columns[i].name, expr) == 0)
			return true;
	return false;
}

/* The sign as the first column of an index, if possible; else nothing. */
static bool index_sign(const struct binding *b, struct buf *out)
{
	enum sign only = only_sign(b);
	AUTO_BUF expr = BUF_INIT;
	bool typed = dialect_of(b->engine)->has_time_types;
	if (only == SIGN_COUNT || !indexable(b, watch_sign(b->watch, only)->text))
		return false;
	without_alias(b, watch_sign(b->watch, only)->text, &expr);
	if (typed && compile_is_column(b, buf_text(&expr)))
		buf_addf(out, "%s, ", buf_text(&expr));
	/* Text as a time depends on the session's settings, so it cannot be indexed. */
	else if (!typed || b->sign_time[only] != TIME_TYPE_TEXT) {
		sql_time_comparable(b, b->sign_time[only], buf_text(&expr), out);
		buf_add(out, ", ");
	} else {
		return false;
	}
	return true;
}

bool watch_index(const struct binding *b, bool concurrently, struct buf *out)
{
	const struct watch *w = b->watch;
	bool named = dialect_of(b->engine)->names_indexes;
	buf_add(out, named          ? "CREATE INDEX "
	             : concurrently ? "CREATE INDEX CONCURRENTLY ON "
	                            : "CREATE INDEX ON ");
	if (named) {
		AUTO_BUF name = BUF_INIT;
		buf_addf(&name, "defib_%s", w->name);
		sql_ident(out, buf_text(&name));
		buf_add(out, " ON ");
	}
	sql_table(out, w->table);
	buf_add(out, " (");
	bool narrows = index_sign(b, out);
	for (int k = 0; k < w->key.n; k++) {
		buf_add(out, k ? ", " : "");
		sql_ident(out, w->key.items[k]);
	}
	buf_add(out, ")");
	if (!indexable(b, w->running.text))
		return narrows;
	buf_add(out, " WHERE ");
	without_alias(b, w->running.text, out);
	return true;
}
