/* roster.c: see roster.h. */
#include "life/roster.h"

/* A database that `defib init` has not brought up to date lacks the newest column. */
#define COLUMNS_PG                                                                                 \
	"id, name, state, incarnation, state = 'alive' AND expires_at < clock_timestamp(), "           \
	"(extract(epoch FROM started_at) * 1000000)::bigint, "                                         \
	"(extract(epoch FROM renewed_at) * 1000000)::bigint, "                                         \
	"(extract(epoch FROM expires_at) * 1000000)::bigint, lease_ms, "                               \
	"(extract(epoch FROM ended_at) * 1000000)::bigint, cause, holding, serves, "                   \
	"to_jsonb(w) ->> 'info'"
#define COLUMNS_LITE                                                                               \
	"id, name, state, incarnation, state = 'alive' AND expires_at < " SQLITE_NOW_MS                \
	", started_at * 1000, renewed_at * 1000, expires_at * 1000, lease_ms, ended_at * 1000, "       \
	"cause, holding, serves, "
#define OF_WHOM(id, mark)                                                                          \
	" WHERE " id " IN (0, id) ORDER BY CASE state WHEN 'alive' THEN 0 ELSE 1 END, "                \
	"CASE state WHEN 'alive' THEN id END, ended_at DESC, id DESC LIMIT " mark "2"

enum column {
	ID,
	NAME,
	STATE,
	INCARNATION,
	EXPIRED,
	STARTED,
	RENEWED,
	EXPIRES,
	LEASE,
	ENDED,
	CAUSE,
	HOLDING,
	SERVES,
	INFO
};

static void take_row(const struct store_rows *rows, int i, struct roster_row *out)
{
	*out = (struct roster_row){
		.id = row_int(rows, i, ID, 0),
		.name = row_text(rows, i, NAME),
		.state = row_text(rows, i, STATE),
		.expired = row_bool(rows, i, EXPIRED),
		.started_us = row_int(rows, i, STARTED, 0),
		.renewed_us = row_int(rows, i, RENEWED, 0),
		.expires_us = row_int(rows, i, EXPIRES, 0),
		.lease_us = row_int(rows, i, LEASE, 0) * 1000,
		.has_ended = row_text(rows, i, ENDED) != NULL,
		.ended_us = row_int(rows, i, ENDED, 0),
		.cause = row_text(rows, i, CAUSE),
		.holding = row_int(rows, i, HOLDING, 0),
		.serves = row_text(rows, i, SERVES),
		.info = row_text(rows, i, INFO),
	};
	out->known = incarnation_parse(row_text(rows, i, INCARNATION), &out->who);
}

defib_err roster_read(struct store *s, int64_t id, int64_t limit, struct arena *a,
                      struct roster_row **out, int *n, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT " COLUMNS_PG " FROM defib.worker w" OF_WHOM("$1::bigint", "$"),
		[STORE_SQLITE] = "SELECT " COLUMNS_LITE "info FROM defib_worker" OF_WHOM("?1", "?"),
	};
	struct store_param params[] = {P_INT(id), P_INT(limit)};
	struct store_rows rows;
	defib_err err = store_exec(s, sql[s->engine], params, 2, a, &rows, f);
	if (err == DEFIB_BAD_SQL && s->engine == STORE_SQLITE)
		err = store_exec(s, "SELECT " COLUMNS_LITE "NULL FROM defib_worker" OF_WHOM("?1", "?"),
		                 params, 2, a, &rows, f);
	*n = err ? 0 : rows.nrows;
	*out = ARENA_ARRAY(a, struct roster_row, *n + 1);
	for (int i = 0; i < *n; i++)
		take_row(&rows, i, &(*out)[i]);
	return err;
}

defib_err roster_jobs(struct store *s, int64_t id, int64_t limit, struct arena *a,
                      struct roster_job **out, int *n, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] =
			"(SELECT NULL, id::text FROM defib.job WHERE owner = $1 ORDER BY id LIMIT $2) UNION "
			"ALL "
			"(SELECT watch, job FROM defib.lease WHERE owner = $1 ORDER BY watch, job LIMIT $2) "
			"LIMIT $2",
		[STORE_SQLITE] = "SELECT NULL, CAST(id AS TEXT) FROM defib_job WHERE owner = ?1 UNION ALL "
						 "SELECT watch, job FROM defib_lease WHERE owner = ?1 LIMIT ?2",
	};
	struct store_param params[] = {P_INT(id), P_INT(limit)};
	struct store_rows rows;
	defib_err err = store_exec(s, sql[s->engine], params, 2, a, &rows, f);
	*n = err ? 0 : rows.nrows;
	*out = ARENA_ARRAY(a, struct roster_job, *n + 1);
	for (int i = 0; i < *n; i++)
		(*out)[i] = (struct roster_job){row_text(&rows, i, 0), row_text(&rows, i, 1)};
	return err;
}

static defib_err registry_there(struct store *s, struct arena *a, bool *there, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT to_regclass('defib.worker') IS NOT NULL",
		[STORE_SQLITE] = "SELECT count(*) FROM sqlite_master WHERE name = 'defib_worker'",
	};
	struct store_rows rows;
	defib_err err = store_exec(s, sql[s->engine], NULL, 0, a, &rows, f);
	*there = !err && row_bool(&rows, 0, 0);
	return err;
}

/* The clock comes with a row of its own, so that it is told where nobody lives too. */
defib_err roster_beats(struct store *s, int64_t limit, struct arena *a, bool *there,
                       struct roster_beat **out, int *n, int64_t *now_us, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] =
			"SELECT 0 AS id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint UNION ALL "
			"(SELECT id, (extract(epoch FROM renewed_at) * 1000000)::bigint FROM defib.worker "
			"WHERE state = 'alive' ORDER BY id LIMIT $1) ORDER BY id",
		[STORE_SQLITE] = "SELECT 0 AS id, " SQLITE_NOW_MS " * 1000 UNION ALL SELECT * FROM (SELECT "
						 "id, renewed_at * 1000 FROM defib_worker WHERE state = 'alive' "
						 "ORDER BY id LIMIT ?1) ORDER BY id",
	};
	struct store_param params[] = {P_INT(limit)};
	struct store_rows rows;
	*n = 0;
	defib_err err = registry_there(s, a, there, f);
	if (err || !*there)
		return err;
	err = store_exec(s, sql[s->engine], params, 1, a, &rows, f);
	if (err)
		return err;
	*now_us = row_int(&rows, 0, 1, 0);
	*n = rows.nrows - 1;
	*out = ARENA_ARRAY(a, struct roster_beat, rows.nrows);
	for (int i = 0; i < *n; i++)
		(*out)[i] = (struct roster_beat){row_int(&rows, i + 1, 0, 0), row_int(&rows, i + 1, 1, 0)};
	return DEFIB_OK;
}
