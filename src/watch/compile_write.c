/* SPDX-License-Identifier: Apache-2.0
 * compile_write.c: remedies as statements.
 *
 * A SET list becomes one UPDATE from a relation of the jobs; a call becomes a SELECT from it; the
 * user's own statements see the same jobs as `stuck`. All of them take their values from that
 * relation, one column per parameter.
 */

#include "watch/compile_write.h"

#include "store/sql.h"
#include "watch/compile.h"

#include "store/dialect.h"
#include "watch/compile_whole.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

/* In the order of enum stuck_column; `us` columns are rendered as the watch's time. */
static const struct {
	const char *name, *raw, *type;
	bool us;
} stuck_columns[WRITE_COLUMNS] = {
	[STUCK_OWNER] = {"owner", "defib_owner", "text", false},
	[STUCK_KIND] = {"kind", "defib_kind", "text", false},
	[STUCK_ATTEMPT] = {"attempt", "defib_attempt", "bigint", false},
	[STUCK_ALIVE_AT] = {"alive_at", "defib_alive_us", "bigint", true},
	[STUCK_VERDICT] = {"verdict", "defib_verdict", "text", false},
	[STUCK_REASON] = {"reason", "defib_reason", "text", false},
	[STUCK_RETRY_AT] = {"retry_at", "defib_retry_us", "bigint", true},
	[STUCK_EVIDENCE] = {"evidence", "defib_evidence", "jsonb", false},
	[STUCK_NOW] = {"now", "defib_now_us", "bigint", true},
	[STUCK_STEP] = {"step", "defib_step", "text", false},
	[WORK_WORKER] = {"worker", "defib_worker", "text", false},
	[WORK_ERROR] = {"error", "defib_error", "text", false},
	[WORK_RESULT] = {"result", "defib_result", "jsonb", false},
	[WORK_EPOCH] = {"epoch", "defib_epoch", "bigint", false},
	[WORK_METADATA] = {"metadata", "defib_metadata", "jsonb", false},
	[UNDO_BEFORE] = {NULL, "defib_undo", "jsonb", false},
};

void write_relation(const struct binding *b, const struct write_sql *w, struct relation *r)
{
	keys_relation(b, r);
	for (int i = 0; i < WRITE_COLUMNS; i++)
		if (w->uses[i])
			relation_column(r, stuck_columns[i].raw, stuck_columns[i].type);
}

void write_values(const bool *uses, const struct write_value *values, int n, struct relation *r)
{
	for (int i = 0; i < n; i++) {
		if (!uses[i])
			continue;
		if (values[i].number)
			relation_int(r, values[i].value);
		else
			relation_text(r, values[i].text);
	}
}

/* What a parameter refers to: a key column or a value of the relation defib_s. */
struct resolver {
	const struct binding *binding;
	struct write_sql *write;
	const char *column; /* the target column; NULL: none, or several */
};

static bool resolve(void *ctx, const char *name, struct buf *out)
{
	struct resolver *r = ctx;
	const struct watch *w = r->binding->watch;
	for (int k = 0; k < w->key.n; k++)
		if (text_eq(w->key.items[k], name)) {
			buf_addf(out, "defib_s.defib_k%d", k + 1);
			return true;
		}
	if (text_starts(name, "result.")) {
		r->write->uses[WORK_RESULT] = true;
		buf_addf(out, "(defib_s.%s ->> ", stuck_columns[WORK_RESULT].raw);
		sql_literal(out, name + strlen("result."));
		buf_add(out, ")");
		return true;
	}
	for (int i = 0; i < WRITE_COLUMNS; i++) {
		if (!stuck_columns[i].name || !text_eq(stuck_columns[i].name, name))
			continue;
		char column[64];
		snprintf(column, sizeof column, "defib_s.%s", stuck_columns[i].raw);
		r->write->uses[i] = true;
		buf_add(out, "(");
		if (stuck_columns[i].us)
			sql_time_value_for(r->binding, r->column, column, out);
		else
			buf_add(out, column);
		buf_add(out, ")");
		return true;
	}
	return false;
}

static void from_relation(const struct binding *b, const struct write_sql *w, struct buf *out)
{
	AUTO_RELATION r = {0};
	write_relation(b, w, &r);
	buf_add(out, "\nFROM (");
	relation_select(&r, 1, out);
	buf_add(out, ") AS defib_s");
}

/* What a claim changes, besides the state that `running` checks, as a number. */
struct claim_fact {
	const char *name; /* in the ledger */
	const char *text; /* NULL: the watch does not define it */
	enum sign sign;   /* SIGN_COUNT: no time */
};
#define CLAIM_FACTS (2 + SIGN_COUNT)

static void claim_facts(const struct binding *b, struct claim_fact out[CLAIM_FACTS])
{
	static const char *const signs[SIGN_COUNT] = {
#define X(id, name, option, ...) ":" #option,
		SIGN_LIST(X)
#undef X
	};
	const struct watch *w = b->watch;
	out[0] = (struct claim_fact){":attempt", w->attempts.text, SIGN_COUNT};
	out[1] =
		(struct claim_fact){":epoch", w->epoch.text ? w->epoch.text : b->lease_epoch, SIGN_COUNT};
	for (int s = 0; s < SIGN_COUNT; s++)
		out[2 + s] = (struct claim_fact){signs[s], watch_sign(w, (enum sign)s)->text, (enum sign)s};
	/* Facts in the row's own columns are kept through these; an epoch is also compared as such. */
	for (int i = 0; i < CLAIM_FACTS; i++)
		if (i != 1 && out[i].text && !sql_names(out[i].text, b->engine, "select"))
			out[i].text = NULL;
	/* Without a lease yet, or without the lease table, the first claim is still to come. */
	if (!w->epoch.text && w->work.given && !b->leases)
		out[1].text = "0";
}

static void kept_fact(const struct binding *b, const struct claim_fact *fact, struct buf *out)
{
	buf_addf(out, ", '%s', ", fact->name);
	if (fact->sign != SIGN_COUNT)
		sql_time_us(b, b->sign_time[fact->sign], fact->text, out);
	else if (b->lease_epoch == fact->text)
		buf_addf(out, "coalesce(%s, 0)", fact->text);
	else
		dialect_cast(dialect_of(b->engine), out, fact->text, "bigint");
}

void kept_columns(const struct binding *b, const struct watch_sql *q, struct buf *out)
{
	const struct dialect *d = dialect_of(b->engine);
	struct claim_fact facts[CLAIM_FACTS];
	if (q->nbefore == 0) {
		buf_add(out, "NULL");
		return;
	}
	buf_addf(out, "%s(", d->json_object);
	for (int i = 0; i < q->nbefore + q->nnamed; i++) {
		const char *column = i < q->nbefore ? q->before[i] : q->named[i - q->nbefore];
		AUTO_BUF value = BUF_INIT;
		buf_add(out, i ? ", " : "");
		sql_literal(out, column);
		buf_add(&value, "t.");
		sql_ident(&value, column);
		/*
		 * Columns that are never restored only need to be compared: masked values by a hash, bytes
		 * in hex.
		 */
		if (d->has_hash && i >= q->nbefore && watch_hides(b->watch, column))
			buf_addf(out, ", encode(sha256(convert_to(%s::text, 'UTF8')), 'hex')",
			         buf_text(&value));
		else if (d->json_takes_bytes || i < q->nbefore)
			buf_addf(out, ", %s", buf_text(&value));
		else
			buf_addf(out, ", CASE typeof(%s) WHEN 'blob' THEN hex(%s) ELSE %s END",
			         buf_text(&value), buf_text(&value), buf_text(&value));
	}
	claim_facts(b, facts);
	for (int i = 0; i < CLAIM_FACTS; i++)
		if (facts[i].text)
			kept_fact(b, &facts[i], out);
	buf_add(out, ")");
}

/*
 * The new keys: an unknown one reveals a write that changed a key. Not every engine allows the
 * alias in RETURNING, or anything but the table there.
 */
static void returning(const struct binding *b, struct buf *sql)
{
	buf_add(sql, "\nRETURNING ");
	key_list(b, dialect_of(b->engine)->returning_is_whole ? "t." : "", sql);
}

/*
 * A second reading costs as much as the first; it is not needed if an UPDATE can return everything.
 */
static void returning_left(const struct binding *b, const struct watch_sql *q, struct buf *sql)
{
	returning(b, sql);
	buf_add(sql, ", ");
	kept_columns(b, q, sql);
	buf_addf(sql, ", (%s) IS TRUE", b->watch->running.text);
}

/*
 * Each value in the form of its own column. Within an expression of numbers or texts, such as
 * to_timestamp(:now), a time has the watch's own form.
 */
static defib_err render_set(struct resolver *r, const char *set, struct arena *a, struct buf *out,
                            struct failure *f)
{
	const char *text, *at = set;
	enum time_type time = r->binding->time;
	bool stamps = time == TIME_TYPE_TIMESTAMPTZ || time == TIME_TYPE_UTC;
	defib_err err = sql_check(set, r->binding->engine, f);
	while (!err && sql_next_assignment(&at, r->binding->engine, a, &r->column, &text)) {
		buf_add(out, out->len ? "," : "");
		enum time_type form = time;
		bool number = r->column && column_time(r->binding, r->column, &form) &&
		              (form == TIME_TYPE_EPOCH || form == TIME_TYPE_EPOCH_MS);
		if ((!stamps || number) && !sql_assigns_parameter(text))
			r->column = NULL;
		err = sql_render(text, r->binding->engine, resolve, r, out, f);
	}
	r->column = NULL;
	return err;
}

/* `only`: a condition that must hold for the row when it is written; NULL: none. */
static defib_err compile_update(const struct binding *b, const struct watch_sql *q,
                                const struct sql_text *set, const char *only, struct arena *a,
                                struct write_sql *out, struct failure *f)
{
	struct resolver r = {b, out, NULL};
	AUTO_BUF list = BUF_INIT, sql = BUF_INIT;
	defib_err err = render_set(&r, set->text, a, &list, f);
	if (!err) {
		buf_add(&sql, "UPDATE ");
		sql_table(&sql, b->watch->table);
		buf_addf(&sql, " AS t\nSET %s", buf_text(&list));
		from_relation(b, out, &sql);
		buf_add(&sql, "\nWHERE ");
		join_keys(b, "defib_s", &sql);
		if (only)
			buf_addf(&sql, " AND (%s)", only);
		out->returns = true;
		out->set = arena_strdup(a, buf_text(&list));
		out->tells = q && dialect_of(b->engine)->returning_is_whole;
		if (out->tells)
			returning_left(b, q, &sql);
		else
			returning(b, &sql);
		out->sql = arena_strdup(a, buf_text(&sql));
	}
	return err;
}

defib_err compile_set(const struct binding *b, const struct sql_text *set, struct arena *a,
                      struct write_sql *out, struct failure *f)
{
	return compile_update(b, NULL, set, NULL, a, out, f);
}

static defib_err compile_call(const struct binding *b, const struct sql_text *call, struct arena *a,
                              struct write_sql *out, struct failure *f)
{
	struct resolver r = {b, out, NULL};
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	defib_err err = sql_render(call->text, b->engine, resolve, &r, &sql, f);
	if (!err) {
		from_relation(b, out, &sql);
		out->sql = arena_strdup(a, buf_text(&sql));
	}
	return err;
}

static bool is_key(const struct watch *w, const char *name)
{
	for (int k = 0; k < w->key.n; k++)
		if (text_eq(w->key.items[k], name))
			return true;
	return false;
}

/* <name> AS (…): the jobs, with the documented column names. */
static void jobs_clause(const struct binding *b, const char *name, const struct write_sql *w,
                        struct buf *out)
{
	const struct watch *watch = b->watch;
	buf_addf(out, "%s AS (SELECT ", name);
	for (int k = 0; k < watch->key.n; k++) {
		buf_addf(out, "%sdefib_k%d AS ", k ? ", " : "", k + 1);
		sql_ident(out, watch->key.items[k]);
	}
	for (int i = 0; i < WRITE_COLUMNS; i++) {
		/* A key column of the same name wins: the user's statement joins by it. */
		if (!w->uses[i] || is_key(watch, stuck_columns[i].name))
			continue;
		buf_add(out, ", ");
		if (stuck_columns[i].us)
			sql_time_value(b, stuck_columns[i].raw, out);
		else
			buf_add(out, stuck_columns[i].raw);
		buf_addf(out, " AS %s", stuck_columns[i].name);
	}
	from_relation(b, w, out);
	buf_add(out, ")");
}

/* Move past a keyword and the space or comments before it, if it comes next. */
static bool skip_word(const char **at, const char *word, enum store_engine engine)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, *at, engine);
	struct sql_token t = sql_next(&lx);
	if (t.type == SQL_SPACE)
		t = sql_next(&lx);
	bool found = sql_is_word(t, word);
	if (found)
		*at = lx.at;
	return found;
}

/* A user's statement with the jobs prepended, even if it has a WITH of its own. */
static void compile_over(const struct binding *b, const char *name,
                         const struct sql_text *statement, struct arena *a, struct write_sql *out)
{
	struct buf sql = BUF_INIT;
	const char *rest = statement->text;
	bool with = skip_word(&rest, "WITH", b->engine);
	bool recursive = with && skip_word(&rest, "RECURSIVE", b->engine);
	buf_addf(&sql, "WITH %s", recursive ? "RECURSIVE " : "");
	jobs_clause(b, name, out, &sql);
	buf_addf(&sql, "%s %s", with ? "," : "\n", rest);
	out->sql = buf_to_arena(&sql, a);
}

static void compile_statement(const struct binding *b, const struct sql_text *statement,
                              struct arena *a, struct write_sql *out)
{
	for (int i = 0; i < STUCK_COUNT; i++)
		out->uses[i] = true;
	compile_over(b, "stuck", statement, a, out);
}

void compile_work(const struct binding *b, const struct sql_text *statement, struct arena *a,
                  struct write_sql *out)
{
	static const int columns[] = {STUCK_ATTEMPT, STUCK_NOW,  STUCK_STEP,
	                              WORK_WORKER,   WORK_EPOCH, WORK_METADATA};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		out->uses[columns[i]] = true;
	compile_over(b, "work", statement, a, out);
}

/* The table's name of a column: as written, or as unquoted names fold; NULL: no such column. */
static const char *compile_write_column_named(const struct binding *b, const char *name)
{
	for (int i = 0; i < b->ncolumns; i++)
		if (strcmp(b->columns[i].name, name) == 0)
			return b->columns[i].name;
	for (int i = 0; i < b->ncolumns; i++)
		if (strcasecmp(b->columns[i].name, name) == 0)
			return b->columns[i].name;
	return NULL;
}

static bool is_before(const struct watch_sql *q, const char *column)
{
	for (int i = 0; i < q->nbefore; i++)
		if (text_eq(q->before[i], column))
			return true;
	return false;
}

/* A row whose key is changed has another identity afterwards. */
static defib_err refuse_key(int act, const char *column, struct failure *f)
{
	fail(f, DEFIB_CONFIG, "%s writes %s, a column of the key", act_name(act), column);
	fail_next(f, "use key columns that no remedy changes, such as key: id");
	return DEFIB_CONFIG;
}

/* The columns that any SET list of the watch writes: the ledger keeps their previous values. */
static defib_err collect_before(const struct binding *b, struct arena *a, struct watch_sql *out,
                                struct failure *f)
{
	const struct watch *w = b->watch;
	out->before = ARENA_ARRAY(a, const char *, b->ncolumns);
	for (int r = 0; r < ACT_COUNT; r++) {
		const char **names;
		int n;
		if (w->actions[r].form != ACTION_SET)
			continue;
		defib_err err = sql_set_targets(w->actions[r].set.text, b->engine, a, &names, &n, f);
		if (err)
			return err;
		for (int i = 0; i < n; i++) {
			/* Names that are not columns are left for the database to refuse. */
			const char *column = compile_write_column_named(b, names[i]);
			if (column && is_key(w, column))
				return refuse_key(r, column, f);
			if (column && !is_before(out, column))
				out->before[out->nbefore++] = column;
		}
	}
	return DEFIB_OK;
}

/* Whether an expression that reveals a claim names the column. */
static bool names_claim(const struct binding *b, const char *column)
{
	const struct watch *w = b->watch;
	const struct sql_text *const all[] = {&w->running, &w->owner,  &w->attempts,
	                                      &w->waiting, &w->due_at,
#define X(id, name, option, ...) &w->option,
	                                      SIGN_LIST(X)
#undef X
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->text && sql_names(all[i]->text, b->engine, column))
			return true;
	return false;
}

static void collect_named(const struct binding *b, struct arena *a, struct watch_sql *out)
{
	out->named = ARENA_ARRAY(a, const char *, b->ncolumns);
	for (int i = 0; i < b->ncolumns; i++) {
		const char *column = b->columns[i].name;
		/* Without a hash, masked columns are not compared. */
		bool kept = dialect_of(b->engine)->has_hash || !watch_hides(b->watch, column);
		if (kept && !is_before(out, column) && !is_key(b->watch, column) && names_claim(b, column))
			out->named[out->nnamed++] = column;
	}
}

/* Defaults for acts that the watch does not define: a held job is released by the requeue list. */
static const struct action *action_for(const struct watch *w, int act)
{
	return &w->actions[act == ACT_RELEASE ? watch_releases_by(w) : act];
}

/* The condition for rows to which an operator may do it; NULL: all. */
static const char *act_when(const struct watch *w, int act)
{
	return act == ACT_END ? w->end_when.text : act == ACT_CANCEL ? w->cancel_when.text : NULL;
}

static defib_err compile_act(const struct binding *b, int act, struct arena *a,
                             struct watch_sql *out, struct failure *f)
{
	const struct watch *w = b->watch;
	const struct action *action = action_for(w, act);
	defib_err err = DEFIB_OK;
	int n = 0;
	struct write_sql *writes = ARENA_ARRAY(a, struct write_sql, 1 + action->n + w->also.n);
	/* Of two concurrent requests to end a job, one writes. */
	const char *only = act_when(w, act);
	if (action->form == ACTION_SET)
		err = compile_update(b, out, &action->set, only, a, &writes[n++], f);
	else if (action->form == ACTION_CALL)
		err = compile_call(b, &action->set, a, &writes[n++], f);
	for (int i = 0; i < action->n; i++)
		compile_statement(b, &action->sql[i], a, &writes[n++]);
	/* An act that only defib's own table records changes nothing in the user's. */
	for (int i = 0; i < w->also.n && watch_also(w, act); i++)
		compile_statement(b, &w->also.items[i], a, &writes[n++]);
	out->writes[act] = writes;
	out->nwrites[act] = n;
	return err;
}

/* Restore what the ledger kept: each column in its type in the table. */
static void compile_undo(const struct binding *b, struct arena *a, struct watch_sql *out)
{
	struct write_sql *w = ARENA_NEW(a, struct write_sql);
	struct buf sql = BUF_INIT;
	if (out->nbefore == 0)
		return;
	w->uses[UNDO_BEFORE] = true;
	buf_add(&sql, "UPDATE ");
	sql_table(&sql, b->watch->table);
	buf_add(&sql, " AS t\nSET ");
	for (int i = 0; i < out->nbefore; i++) {
		buf_add(&sql, i ? ", " : "");
		sql_ident(&sql, out->before[i]);
		buf_add(&sql, " = ");
		dialect_of(b->engine)->undo_column(&sql, out->before[i]);
	}
	from_relation(b, w, &sql);
	buf_add(&sql, "\nWHERE ");
	join_keys(b, "defib_s", &sql);
	returning(b, &sql);
	w->returns = true;
	w->sql = buf_to_arena(&sql, a);
	out->writes[ACT_UNDO] = w;
	out->nwrites[ACT_UNDO] = 1;
}

/* Whether the act may be done to a row, and the row's state; a row past that needs no write. */
static void compile_may(const struct binding *b, int act, struct arena *a, struct watch_sql *out)
{
	const char *when = act_when(b->watch, act);
	struct buf sql = BUF_INIT;
	if (!when || b->watch->actions[act].form == ACTION_NONE)
		return;
	buf_addf(&sql, "SELECT (%s) IS TRUE, ", when);
	if (b->watch->state.text)
		dialect_cast(dialect_of(b->engine), &sql, b->watch->state.text, "text");
	else
		buf_add(&sql, "NULL");
	from_table(b, &sql);
	where_key(b, &sql);
	out->may[act] = buf_to_arena(&sql, a);
}

defib_err compile_writes(const struct binding *b, struct arena *a, struct watch_sql *out,
                         struct failure *f)
{
	defib_err err = collect_before(b, a, out, f);
	if (!err)
		collect_named(b, a, out);
	for (int act = 0; act < ACT_COUNT && !err; act++)
		err = compile_act(b, act, a, out, f);
	if (!err)
		compile_undo(b, a, out);
	for (int act = 0; act < ACT_COUNT && !err; act++)
		compile_may(b, act, a, out);
	out->unreadable = compile_unreadable(b, a);
	if (err)
		fail_prefix(f, "watch %s", b->watch->name);
	return err;
}

bool act_writes_beyond(const struct watch_sql *q, int act)
{
	bool beyond = q->nwrites[act] > 0 && q->binding->triggers;
	for (int i = 0; i < q->nwrites[act] && !beyond; i++)
		beyond = !q->writes[act][i].returns;
	return beyond;
}

bool watch_writes_beyond(const struct watch_sql *q)
{
	bool beyond = false;
	for (int act = 0; act < REMEDY_COUNT && !beyond; act++)
		beyond = act_writes_beyond(q, act);
	return beyond;
}

static const struct sql_text *write_source(const struct watch *w, int act, int i)
{
	const struct action *action = action_for(w, act);
	int own = action->form == ACTION_SQL ? action->n : 1;
	if (i >= own)
		return &w->also.items[i - own];
	return action->form == ACTION_SQL ? &action->sql[i] : &action->set;
}

/*
 * With RETURNING, SQLite accepts an UPDATE of a view that cannot be updated: it writes nothing and
 * returns the rows as if it had. Without RETURNING, it reports the error.
 */
static defib_err refuse_view(const struct watch_sql *q, struct store *s, struct arena *a,
                             struct failure *f)
{
	const struct watch *w = q->binding->watch;
	AUTO_BUF sql = BUF_INIT;
	struct store_column *cols;
	int ncols;
	if (store_dialect(s)->returning_is_whole)
		return DEFIB_OK;
	buf_add(&sql, "UPDATE ");
	sql_table(&sql, w->table);
	buf_add(&sql, " SET ");
	sql_ident(&sql, w->key.items[0]);
	buf_add(&sql, " = NULL");
	return store_describe(s, buf_text(&sql), a, &cols, &ncols, f);
}

/*
 * Both contain every expression of the watch, in the form in which it is read and compared. A
 * failure that is not about their text is left to whoever runs them.
 */
static defib_err prepare_reads(const struct watch_sql *q, struct store *s, struct arena *a,
                               struct failure *f)
{
	const char *const reads[] = {q->look_first, q->reread};
	struct store_column *cols;
	int ncols;
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
		defib_err err = store_describe(s, reads[i], a, &cols, &ncols, f);
		if (err && !store_blames_sql(err))
			return err;
		if (!err)
			continue;
		fail_prefix(f, "watch %s", q->binding->watch->name);
		if (!f->next[0] && !f->advice)
			fail_next(f, "check the types of its expressions, and time_type:");
		return f->code = DEFIB_CONFIG;
	}
	return DEFIB_OK;
}

defib_err watch_prepare(const struct watch_sql *q, struct store *s, struct arena *a,
                        struct failure *f)
{
	struct store_column *cols;
	int ncols;
	defib_err bad = prepare_reads(q, s, a, f);
	if (bad)
		return bad;
	for (int act = 0; act < ACT_COUNT; act++)
		for (int i = 0; i < q->nwrites[act]; i++) {
			defib_err err = store_describe(s, q->writes[act][i].sql, a, &cols, &ncols, f);
			if (!err && q->writes[act][i].returns)
				err = refuse_view(q, s, a, f);
			if (!err)
				continue;
			AUTO_BUF place = BUF_INIT;
			cfg_mark_text(write_source(q->binding->watch, act, i)->at, &place);
			fail_prefix(f, "watch %s, %s (%s)", q->binding->watch->name, act_name(act),
			            buf_text(&place));
			/* Nothing was run: the database refused the user's text. */
			if (store_blames_sql(err) || err == DEFIB_DATABASE)
				f->code = DEFIB_CONFIG;
			return f->code;
		}
	return DEFIB_OK;
}
