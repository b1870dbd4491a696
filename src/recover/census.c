/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/census.h"

#include "ledger/counts.h"
#include "recover/look.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lease_sql.h"
#include "watch/timesql.h"

/* The newest sign counts: a worker that beats for one of its jobs is alive. */
static void owners_sql(const struct binding *b, struct buf *sql)
{
	const struct watch *w = b->watch;
	enum sign sign = w->alive_at.text ? SIGN_ALIVE : SIGN_EXPIRES;
	buf_addf(sql, "SELECT defib_o, max(defib_s), max(defib_d) FROM (SELECT (%s)%s AS defib_o, ",
	         w->owner.text, dialect_of(b->engine)->as_text);
	sql_time_us(b, b->sign_time[sign], watch_sign(w, sign)->text, sql);
	buf_addf(sql, " AS defib_s, CASE WHEN (%s) IS FALSE THEN 1 ELSE 0 END AS defib_d",
	         b->owner_alive ? b->owner_alive : "NULL");
	from_table(b, sql);
	buf_addf(sql,
	         "\nWHERE (%s) LIMIT %d) AS defib_c\nWHERE defib_o IS NOT NULL AND defib_s IS NOT "
	         "NULL GROUP BY defib_o",
	         w->running.text, CENSUS_ROWS_MAX);
}

void census_compile(const struct watch_sql *q, struct arena *a, struct census_sql *out)
{
	const struct binding *b = q->binding;
	const struct watch *w = b->watch;
	AUTO_BUF sql = BUF_INIT;
	*out = (struct census_sql){0};
	if (w->owner.text && w->beat_us && !w->guard.off && (w->alive_at.text || w->expires_at.text)) {
		owners_sql(b, &sql);
		out->owners = arena_strdup(a, buf_text(&sql));
	}
}

defib_err census_server_start(struct store *s, int64_t *start_us, struct failure *f)
{
	*start_us = 0;
	if (!store_dialect(s)->ask.server_start)
		return DEFIB_OK;
	return look_number(s, store_dialect(s)->ask.server_start, start_us, f);
}

defib_err census_now(struct store *s, int64_t *now_us, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql, "SELECT %s", sql_now_us(s->engine));
	return look_number(s, buf_text(&sql), now_us, f);
}

defib_err census_read(struct store *s, const struct census_sql *sql, struct arena *a,
                      struct census *out, struct failure *f)
{
#define M(member) ROW_MEMBER(struct census_row, member)
	static const struct row_member members[] = {M(owner), M(sign_us), M(dead)};
#undef M
	struct store_rows rows;
	*out = (struct census){0};
	defib_err err = census_now(s, &out->now_us, f);
	if (err || !sql->owners)
		return err;
	err = store_read(s, sql->owners, NULL, 0, a, &rows, f);
	out->rows = ROWS_READ(&rows, members, struct census_row, a, &out->n);
	return err;
}

/* A yes/no query about the watch's table; no if the engine has none. */
static defib_err ask_of_table(struct store *s, const char *sql, const struct watch *w, bool *yes,
                              struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF table = BUF_INIT;
	struct store_rows rows;
	*yes = false;
	sql_table(&table, w->table);
	struct store_param name = P_TEXT(buf_text(&table));
	if (!sql)
		return DEFIB_OK;
	defib_err err = store_read(s, sql, &name, 1, &a, &rows, f);
	*yes = row_bool(&rows, 0, 0);
	return err;
}

defib_err census_barred(struct store *s, const struct watch *w, bool *barred, struct failure *f)
{
	return ask_of_table(s, store_dialect(s)->ask.writes_barred, w, barred, f);
}

/* ---- a watch that sees no running row ---- */

#define ROW_WITHIN_MS 1000 /* a table full of dead rows may take long to read */

defib_err row_security(struct store *s, const struct watch *w, bool *on, struct failure *f)
{
	return ask_of_table(s, store_dialect(s)->ask.row_security, w, on, f);
}

static bool has_rows(struct store *s, const struct watch *w)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sql = BUF_INIT;
	struct failure ignored = {0};
	struct store_rows rows;
	bool any = false;
	buf_add(&sql, "SELECT 1 FROM ");
	sql_table(&sql, w->table);
	buf_add(&sql, " LIMIT 1");
	if (store_begin_within(s, ROW_WITHIN_MS, &ignored) == DEFIB_OK) {
		any = store_exec(s, buf_text(&sql), NULL, 0, &a, &rows, &ignored) == DEFIB_OK &&
		      rows.nrows > 0;
		store_rollback(s);
	}
	return any;
}

void unseen_look(struct store *s, const struct watch *w, struct unseen *out)
{
	struct failure ignored = {0};
	*out = (struct unseen){.empty = true};
	if (ledger_has_watch(s, w->name, &out->recorded, &ignored))
		out->recorded = false;
	if (!s->lost)
		out->empty = !has_rows(s, w);
	if (s->lost || row_security(s, w, &out->secured, &ignored))
		out->secured = false;
}

bool unseen_never(const struct unseen *u)
{
	return !u->recorded && (!u->empty || u->secured);
}
