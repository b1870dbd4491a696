/* SPDX-License-Identifier: Apache-2.0 */
#include "life/leader.h"

#include "embedded.h"
#include "store/dialect.h"
#include "store/relation.h"
#include "store/sql.h"

static void asked_relation(struct relation *r, enum store_engine engine, const char *holder,
                           const char *const *watches, int n)
{
	relation_init(r, engine);
	relation_column(r, "watch", "text");
	relation_column(r, "holder", "text");
	relation_column(r, "lease_ms", "bigint");
	for (int i = 0; i < n; i++) {
		relation_text(r, watches[i]);
		relation_text(r, holder);
		relation_int(r, LEADER_LEASE_MS);
		relation_end_row(r);
	}
}

defib_err leader_ask(struct store *s, const char *holder, const char *const *watches, int n,
                     bool *leads, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sql = BUF_INIT, rows_sql = BUF_INIT;
	struct store_rows rows;
	AUTO_RELATION r = {0};
	asked_relation(&r, s->engine, holder, watches, n);
	relation_select(&r, 1, &rows_sql);
	const struct sql_piece pieces[] = {{"rows", buf_text(&rows_sql)}, {0}};
	sql_fill(&sql, sql_life_lead, pieces);
	relation_params(&r, params);
	defib_err err =
		dialect_write_alone(s, buf_text(&sql), params, relation_nparams(&r), &a, &rows, f);
	for (int i = 0; i < n; i++) {
		leads[i] = false;
		for (int k = 0; !err && k < rows.nrows && !leads[i]; k++)
			leads[i] = text_eq(row_text(&rows, k, 0), watches[i]);
	}
	return err;
}

/* An expired leader cannot renew: another daemon may have asked meanwhile. */
defib_err leader_renew(struct store *s, const char *holder, const char *watch, int64_t *held,
                       struct failure *f)
{
	struct store_param params[] = {P_TEXT(holder), P_TEXT(watch), P_INT(LEADER_LEASE_MS)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	*held = 0;
	/* On engines with a single writer all are asked for at once, which is one write too. */
	if (store_dialect(s)->one_writer)
		return DEFIB_OK;
	defib_err err = dialect_exec(
		s,
		"UPDATE defib.leader SET expires_at = {now} + {span_ms $3::bigint} WHERE holder = $1 AND "
		"watch = $2 AND expires_at >= {now} "
		"RETURNING (SELECT count(*) FROM defib.leader WHERE holder = $1)",
		params, 3, &a, &rows, f);
	*held = row_int(&rows, 0, 0, 0);
	return err;
}

defib_err leader_leave(struct store *s, const char *holder, struct failure *f)
{
	struct store_param param = P_TEXT(holder);
	return dialect_write(s, "DELETE FROM defib.leader WHERE holder = $1", &param, 1, NULL, NULL, f);
}

defib_err leader_leave_watch(struct store *s, const char *holder, const char *watch,
                             struct failure *f)
{
	struct store_param params[] = {P_TEXT(holder), P_TEXT(watch)};
	return dialect_write(s, "DELETE FROM defib.leader WHERE holder = $1 AND watch = $2", params, 2,
	                     NULL, NULL, f);
}

defib_err leader_read(struct store *s, struct arena *a, struct leader_row **out, int *n,
                      struct failure *f)
{
#define M(member) ROW_MEMBER(struct leader_row, member)
	static const struct row_member members[] = {M(watch),  M(holder), M(since_us),
	                                            M(led_us), M(leads),  M(expires_us)};
#undef M
	struct store_rows rows;
	defib_err err = dialect_exec(
		s,
		"SELECT watch, holder, {us since}, {us {now}} - {us since}, expires_at > {now}, {us "
		"expires_at} "
		"FROM (SELECT watch, holder, since, max(expires_at) OVER (PARTITION BY holder) AS "
		"expires_at FROM defib.leader) AS l ORDER BY watch",
		NULL, 0, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct leader_row, a, n);
	return err;
}
