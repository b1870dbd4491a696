/* SPDX-License-Identifier: Apache-2.0 */
/* attendance.c: see attendance.h. */
#include "life/attendance.h"

#include "store/dialect.h"

defib_err attendance_read(struct store *s, int64_t ended_us, int64_t limit, struct arena *a,
                          struct attendant **out, int *n, struct failure *f)
{
	static const char sql[] =
		"SELECT w.id, w.name, w.state, w.expires_at < {now}, e.first < w.id, w.serves, "
		"w.info::text, w.holding, {us w.renewed_at} FROM defib.worker w JOIN (SELECT name, min(id) "
		"AS first FROM defib.worker GROUP BY name) AS e ON e.name = w.name WHERE w.state = 'alive' "
		"OR w.ended_at > {now} - {span $1::float8} ORDER BY w.id DESC LIMIT $2";
	struct store_param params[] = {P_INT(ended_us), P_INT(limit)};
	struct store_rows rows;
	bool there = false;
	*n = 0;
	/* A registry with the column in which workers describe themselves. */
	defib_err err = dialect_own_column(s, "worker", "info", &there, f);
	if (!err && there)
		err = dialect_exec(s, sql, params, 2, a, &rows, f);
	if (err || !there)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct attendant, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct attendant){
			.id = row_int(&rows, i, 0, 0),
			.name = row_text(&rows, i, 1),
			.alive = row_text(&rows, i, 2)[0] == 'a',
			.dead = row_text(&rows, i, 2)[0] == 'd',
			.expired = row_bool(&rows, i, 3),
			.again = row_bool(&rows, i, 4),
			.serves = row_text(&rows, i, 5),
			.info = row_text(&rows, i, 6),
			.holding = row_int(&rows, i, 7, 0),
			.renewed_us = row_int(&rows, i, 8, 0),
		};
	return DEFIB_OK;
}
