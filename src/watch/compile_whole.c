/* SPDX-License-Identifier: Apache-2.0
 * compile_whole.c: a remedy as one statement that locks the rows, reads the judged facts again,
 * writes unchanged rows, and passes what the ledger keeps to the enclosing statement.
 *
 * Only if the row alone decides everything: no trigger, lease or other table is involved. A locked
 * row is read in its current version, however old the statement's snapshot; other tables are not.
 * If anything differs from the decision, the single statements are used.
 */

#include "watch/compile_whole.h"

#include "store/sql.h"
#include "watch/compile.h"

#include "store/dialect.h"
#include "watch/compile_write.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

static const struct {
	const char *name, *type;
} columns[WHOLE_COLUMNS] = {
	[WHOLE_AT] = {"defib_at", "bigint"},
	[WHOLE_JOB] = {"defib_job", "text"},
	[WHOLE_RULE] = {"defib_rule", "text"},
	[WHOLE_OWNER] = {"defib_was_owner", "text"},
	[WHOLE_KIND] = {"defib_was_kind", "text"},
	[WHOLE_ATTEMPTS] = {"defib_was_attempts", "bigint"},
	[WHOLE_MAX_ATTEMPTS] = {"defib_was_max", "bigint"},
	[WHOLE_EPOCH] = {"defib_was_epoch", "bigint"},
	[WHOLE_STATE] = {"defib_was_state", "text"},
	[WHOLE_PROGRESS] = {"defib_was_progress", "text"},
#define X(id, name, ...)                                                                           \
	[WHOLE_SIGN + SIGN_##id] = {"defib_was_" #name, "bigint"},                                     \
				  [WHOLE_OWN + SIGN_##id] = {"defib_was_" #name "_own", "bigint"},
	SIGN_LIST(X)
#undef X
		[WHOLE_WHEN] = {"defib_was_when", "bigint"},
};

/* The fact that a column is compared with; false: the watch has no such fact. */
static bool fact(const struct binding *b, int column, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct sql_text *const texts[WHOLE_COLUMNS] = {
		[WHOLE_OWNER] = &w->owner,       [WHOLE_KIND] = &w->kind,
		[WHOLE_ATTEMPTS] = &w->attempts, [WHOLE_MAX_ATTEMPTS] = &w->max_attempts,
		[WHOLE_EPOCH] = &w->epoch,
	};
	if (column >= WHOLE_SIGN && column < WHOLE_SIGN + SIGN_COUNT) {
		enum sign s = (enum sign)(column - WHOLE_SIGN);
		if (watch_sign(w, s)->text)
			sql_time_us(b, b->sign_time[s], watch_sign(w, s)->text, out);
	} else if (column >= WHOLE_OWN && column < WHOLE_OWN + SIGN_COUNT) {
		if (b->own[column - WHOLE_OWN])
			buf_add(out, b->own[column - WHOLE_OWN]);
	} else if (column == WHOLE_STATE || column == WHOLE_PROGRESS) {
		const char *text = column == WHOLE_STATE ? b->state : b->progress;
		buf_add(out, text ? text : "");
	} else if (column == WHOLE_WHEN) {
		for (int i = 0; i < w->nrules; i++)
			if (w->rules[i].when.text)
				buf_addf(out, "%sCASE WHEN (%s) THEN %lld ELSE 0 END", out->len ? " + " : "",
				         w->rules[i].when.text, 1LL << i);
	} else if (texts[column] && texts[column]->text) {
		buf_addf(out, "(%s)::%s", texts[column]->text, columns[column].type);
	}
	return out->len > 0;
}

static bool has_column(const struct binding *b, int column)
{
	AUTO_BUF ignored = BUF_INIT;
	return column < WHOLE_OWNER || fact(b, column, &ignored);
}

void whole_relation(const struct binding *b, const struct write_sql *w, struct relation *r)
{
	write_relation(b, w, r);
	r->brief = true;
	for (int i = 0; i < r->ncols; i++)
		if (text_eq(r->types[i], "jsonb"))
			r->types[i] = RELATION_JSON;
	for (int i = 0; i < WHOLE_COLUMNS; i++)
		if (w->facts[i])
			relation_column(r, columns[i].name, columns[i].type);
}

/*
 * The jobs that no other transaction has locked and that are as judged, with what the ledger keeps
 * of their rows. OFFSET 0 keeps the condition out of the lookup by key: a planner whose statistics
 * know no running row would read all of them by their own index and join each with the whole list.
 */
static void still_so(const struct binding *b, const struct watch_sql *q, const struct write_sql *w,
                     struct buf *sql)
{
	AUTO_RELATION r = {0};
	AUTO_BUF is = BUF_INIT;
	buf_add(sql, "SELECT defib_r.*, ");
	kept_columns(b, q, sql);
	buf_add(sql, " AS defib_before");
	buf_add(sql, "\nFROM (");
	whole_relation(b, w, &r);
	relation_select(&r, 1, sql);
	buf_add(sql, ") AS defib_r\nCROSS JOIN LATERAL (SELECT t.*");
	from_table(b, sql);
	buf_add(sql, " WHERE ");
	join_keys(b, "defib_r", sql);
	buf_addf(sql, " OFFSET 0 FOR NO KEY UPDATE OF t SKIP LOCKED) AS t\nWHERE (%s)",
	         b->watch->running.text);
	for (int i = WHOLE_OWNER; i < WHOLE_COLUMNS; i++) {
		buf_clear(&is);
		if (w->facts[i] && fact(b, i, &is))
			buf_addf(sql, "\n  AND (%s) IS NOT DISTINCT FROM defib_r.%s", buf_text(&is),
			         columns[i].name);
	}
}

/* Acts that end a run by an UPDATE and nothing else. */
static bool whole_fits(const struct binding *b, const struct watch_sql *q, int act)
{
	bool ends = act_has(act, ACT_ALONE) && !watch_act_is_stored(b->watch, act);
	return ends && q->nwrites[act] == 1 && q->writes[act][0].tells && q->nbefore > 0;
}

static struct write_sql *compile_whole(const struct binding *b, const struct watch_sql *q,
                                       const struct write_sql *single, struct arena *a)
{
	struct write_sql *w = ARENA_NEW(a, struct write_sql);
	struct buf sql = BUF_INIT;
	int ncols = b->watch->key.n;
	*w = *single;
	w->uses[STUCK_VERDICT] = w->uses[STUCK_REASON] = w->uses[STUCK_EVIDENCE] = true;
	for (int i = 0; i < WRITE_COLUMNS; i++)
		ncols += w->uses[i];
	for (int i = 0; i < WHOLE_COLUMNS; i++)
		ncols += w->facts[i] = has_column(b, i);
	if (ncols > RELATION_COLUMNS_MAX)
		return NULL;
	buf_add(&sql, "UPDATE ");
	sql_table(&sql, b->watch->table);
	buf_addf(&sql, " AS t\nSET %s\nFROM (", single->set);
	still_so(b, q, w, &sql);
	buf_add(&sql, ") AS defib_s\nWHERE ");
	join_keys(b, "defib_s", &sql);
	buf_addf(&sql,
	         "\nRETURNING defib_s.defib_at, defib_s.defib_job, defib_s.defib_verdict, "
	         "defib_s.defib_rule, defib_s.defib_reason, defib_s.defib_evidence, "
	         "defib_s.defib_before, %s AS defib_epoch, (%s) IS TRUE AS defib_running, ",
	         w->facts[WHOLE_EPOCH] ? "defib_s.defib_was_epoch" : "NULL::bigint",
	         b->watch->running.text);
	kept_columns(b, q, &sql);
	buf_add(&sql, " AS defib_after");
	w->sql = buf_to_arena(&sql, a);
	return w;
}

/* Whether `running` or a judged fact has a sub-select: also one that lock_signs need not lock. */
static bool reads_others(const struct binding *b)
{
	AUTO_BUF texts = BUF_INIT;
	buf_add(&texts, b->watch->running.text);
	for (int i = WHOLE_OWNER; i < WHOLE_COLUMNS; i++) {
		AUTO_BUF one = BUF_INIT;
		if (fact(b, i, &one))
			buf_addf(&texts, "\n%s", buf_text(&one));
	}
	return sql_names(buf_text(&texts), b->engine, "select");
}

void compile_wholes(const struct binding *b, struct arena *a, struct watch_sql *out)
{
	/* Which values of a row repeat a masked one is found out here, not by the database. */
	bool alone = b->nmasked == 0 && b->key_indexed && !b->triggers && !b->leases &&
	             !b->owner_alive && !b->watch->stays_running && !out->lock_signs &&
	             !out->lock_leases && !out->free_leases;
	if (!dialect_of(b->engine)->returning_is_whole || !alone || reads_others(b))
		return;
	for (int act = 0; act < ACT_COUNT; act++)
		if (whole_fits(b, out, act))
			out->whole[act] = compile_whole(b, out, &out->writes[act][0], a);
}

/* ---- times that cannot be read ---- */

const char *compile_unreadable(const struct binding *b, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT, any = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	for (int sign = 0; sign < SIGN_COUNT; sign++) {
		const char *expr = watch_sign(b->watch, (enum sign)sign)->text;
		AUTO_BUF one = BUF_INIT;
		bool can =
			expr && sql_time_unreadable(b, b->sign_time[sign], b->sign_type[sign], expr, &one);
		if (can)
			buf_addf(&sql, ", CASE WHEN %s THEN (%s)%s END", buf_text(&one), expr,
			         dialect_of(b->engine)->as_text);
		else
			buf_add(&sql, ", NULL");
		if (can)
			buf_addf(&any, "%s(%s)", any.len ? " OR " : "", buf_text(&one));
	}
	from_table(b, &sql);
	buf_addf(&sql, "\nWHERE (%s)\n  AND (%s)\nLIMIT %d", b->watch->running.text, buf_text(&any),
	         UNREADABLE_MAX);
	const char *text = any.len ? arena_strdup(a, buf_text(&sql)) : NULL;
	return text;
}
