/* SPDX-License-Identifier: Apache-2.0 */
#include "life/roster.h"

#include "store/dialect.h"

/* The columns that `row_members` names, but for the last one, and the incarnation behind it. */
#define COLUMNS                                                                                    \
	"w.id, w.name, w.state, w.state = 'alive' AND w.expires_at < {now}, {us w.started_at}, {us "   \
	"w.renewed_at}, {us w.expires_at}, CAST(w.lease_ms AS bigint) * 1000, {us w.ended_at}, "       \
	"w.cause, w.holding, w.serves, w.info"

#define M(member) ROW_MEMBER(struct roster_row, member)
static const struct row_member row_members[] = {
	M(id),         M(name),       M(state),
	M(expired),    M(started_us), M(renewed_us),
	M(expires_us), M(lease_us),   ROW_GIVEN(struct roster_row, has_ended),
	M(ended_us),   M(cause),      M(holding),
	M(serves),     M(info),       M(again)};
#undef M

static defib_err roster_read_rows(struct store *s, const char *sql, int64_t first, int64_t limit,
                                  struct arena *a, struct roster_row **out, int *n,
                                  struct failure *f)
{
	struct store_param params[] = {P_INT(first), P_INT(limit)};
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, params, 2, a, &rows, f);
	*out = ROWS_READ(&rows, row_members, struct roster_row, a, n);
	for (int i = 0; i < *n; i++)
		(*out)[i].known = incarnation_parse(row_text(&rows, i, rows.ncols - 1), &(*out)[i].who);
	return err;
}

defib_err roster_read(struct store *s, int64_t id, int64_t limit, struct arena *a,
                      struct roster_row **out, int *n, struct failure *f)
{
	static const char sql[] =
		"SELECT " COLUMNS
		", NULL, w.incarnation FROM defib.worker w WHERE $1::bigint IN (0, w.id) ORDER BY CASE "
		"w.state WHEN 'alive' THEN 0 ELSE 1 END, CASE w.state WHEN 'alive' THEN w.id "
		"END, w.ended_at DESC, w.id DESC LIMIT $2";
	*n = 0;
	return roster_read_rows(s, sql, id, limit, a, out, n, f);
}

defib_err roster_recent(struct store *s, int64_t ended_us, int64_t limit, struct arena *a,
                        struct roster_row **out, int *n, struct failure *f)
{
	static const char sql[] =
		"SELECT " COLUMNS ", e.first < w.id, w.incarnation FROM defib.worker w JOIN "
		"(SELECT name, min(id) AS first "
		"FROM defib.worker GROUP BY name) AS e ON e.name = w.name WHERE w.state = 'alive' OR "
		"w.ended_at > {now} - {span $1::float8} ORDER BY w.id DESC LIMIT $2";
	bool there = false;
	*n = 0;
	defib_err err = dialect_own_table(s, "worker", &there, f);
	return err || !there ? err : roster_read_rows(s, sql, ended_us, limit, a, out, n, f);
}

defib_err roster_jobs(struct store *s, int64_t id, int64_t limit, struct arena *a,
                      struct roster_job **out, int *n, struct failure *f)
{
	static const struct row_member members[] = {ROW_MEMBER(struct roster_job, watch),
	                                            ROW_MEMBER(struct roster_job, job)};
	struct store_param params[] = {P_INT(id), P_INT(limit)};
	struct store_rows rows;
	defib_err err =
		dialect_exec(s,
	                 "SELECT * FROM (SELECT NULL, CAST(id AS text) FROM defib.job WHERE owner = $1 "
	                 "ORDER BY id LIMIT $2) AS j UNION ALL SELECT * FROM (SELECT watch, job FROM "
	                 "defib.lease WHERE owner = $1 ORDER BY watch, job LIMIT $2) AS l LIMIT $2",
	                 params, 2, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct roster_job, a, n);
	return err;
}

/* The clock comes with a row of its own, so that it is returned even if no worker is alive. */
defib_err roster_beats(struct store *s, int64_t limit, struct arena *a, bool *there,
                       struct roster_beat **out, int *n, int64_t *now_us, struct failure *f)
{
	struct store_param params[] = {P_INT(limit)};
	struct store_rows rows;
	*n = 0;
	defib_err err = dialect_own_table(s, "worker", there, f);
	if (err || !*there)
		return err;
	err = dialect_exec(s,
	                   "SELECT 0 AS id, {us {now}} UNION ALL SELECT * FROM (SELECT id, {us "
	                   "renewed_at} FROM defib.worker WHERE state = 'alive' ORDER BY id LIMIT $1) "
	                   "AS w ORDER BY id",
	                   params, 1, a, &rows, f);
	if (err)
		return err;
	*now_us = row_int(&rows, 0, 1, 0);
	*n = rows.nrows - 1;
	*out = ARENA_ARRAY(a, struct roster_beat, rows.nrows);
	for (int i = 0; i < *n; i++)
		(*out)[i] = (struct roster_beat){row_int(&rows, i + 1, 0, 0), row_int(&rows, i + 1, 1, 0)};
	return DEFIB_OK;
}
