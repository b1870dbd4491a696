/* attendance.c: see attendance.h. */
#include "life/attendance.h"

#define NOW_MS SQLITE_NOW_MS

/* Whether there is a registry, and one in which workers say something of themselves. */
static defib_err registry_there(struct store *s, bool *there, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM pg_attribute WHERE attname = 'info' AND "
						   "attrelid = to_regclass('defib.worker') AND NOT attisdropped",
		[STORE_SQLITE] = "SELECT count(*) FROM pragma_table_info('defib_worker') "
						 "WHERE name = 'info'",
	};
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_exec(s, sql[s->engine], NULL, 0, &a, &rows, f);
	*there = !err && row_int(&rows, 0, 0, 0) > 0;
	arena_release(&a);
	return err;
}

defib_err attendance_read(struct store *s, int64_t ended_us, int64_t limit, struct arena *a,
                          struct attendant **out, int *n, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] =
			"SELECT w.id, w.name, w.state, w.expires_at < clock_timestamp(), e.first < w.id, "
			"w.serves, w.info::text, w.holding, (extract(epoch FROM w.renewed_at) * "
			"1000000)::bigint FROM defib.worker w JOIN (SELECT name, min(id) AS first FROM "
			"defib.worker GROUP BY name) AS e ON e.name = w.name WHERE w.state = 'alive' OR "
			"w.ended_at > clock_timestamp() - $1::float8 * interval '1 microsecond' "
			"ORDER BY w.id DESC LIMIT $2",
		[STORE_SQLITE] =
			"SELECT w.id, w.name, w.state, w.expires_at < " NOW_MS ", e.first < w.id, w.serves, "
			"w.info, w.holding, w.renewed_at * 1000 FROM defib_worker w JOIN (SELECT name, "
			"min(id) AS first FROM defib_worker GROUP BY name) AS e ON e.name = w.name "
			"WHERE w.state = 'alive' OR w.ended_at > " NOW_MS " - ?1 / 1000 "
			"ORDER BY w.id DESC LIMIT ?2",
	};
	struct store_param params[] = {P_INT(ended_us), P_INT(limit)};
	struct store_rows rows;
	bool there = false;
	*n = 0;
	defib_err err = registry_there(s, &there, f);
	if (!err && there)
		err = store_exec(s, sql[s->engine], params, 2, a, &rows, f);
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
