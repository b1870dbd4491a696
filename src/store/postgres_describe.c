/* SPDX-License-Identifier: Apache-2.0
 * postgres_describe.c: the columns that a statement would return.
 *
 * The server parses it as an unnamed prepared statement and tells type
 * numbers; one query on pg_type turns them into names. For a column of a
 * domain the server itself tells the type that the domain stands on.
 */
#include "base/clock.h"
#include "store/postgres.h"
#include "store/relation.h"

#include <assert.h>

static const char types_sql[] =
	"SELECT pg_catalog.format_type(c.type, c.mod), t.typname"
	" FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS c(type, mod, place)"
	" JOIN pg_catalog.pg_type t ON t.oid = c.type ORDER BY c.place";

/* Names from the description itself; numbers of types into two arrays. */
static void read_columns(const PGresult *res, struct arena *a, struct store_column *cols,
                         struct relation *types)
{
	relation_init(types, STORE_POSTGRES);
	relation_column(types, "type", "oid");
	relation_column(types, "mod", "int4");
	for (int i = 0; i < PQnfields(res); i++) {
		cols[i].name = arena_strdup(a, PQfname(res, i));
		relation_int(types, PQftype(res, i));
		relation_int(types, PQfmod(res, i));
		relation_end_row(types);
	}
}

static defib_err name_types(struct pg *p, const struct pg_call *call, struct relation *types,
                            struct arena *a, struct store_column *cols, struct failure *f)
{
	struct store_param params[2];
	PGresult *res = NULL;

	relation_params(types, params);
	const char *values[] = {params[0].text, params[1].text};
	int sent = PQsendQueryParams(p->conn, types_sql, 2, NULL, values, NULL, NULL, 0);
	defib_err err = pg_finish(p, call, sent, &res, f);
	if (!err) {
		assert(PQntuples(res) == types->nrows);
		for (int i = 0; i < PQntuples(res); i++) {
			cols[i].type = arena_strdup(a, PQgetvalue(res, i, 0));
			cols[i].base = arena_strdup(a, PQgetvalue(res, i, 1));
		}
	}
	PQclear(res);
	return err;
}

static defib_err describe(struct pg *p, const struct pg_call *call, const char *sql,
                          struct arena *a, struct store_column **cols, int *ncols,
                          struct failure *f)
{
	PGresult *res = NULL;
	struct relation types;
	defib_err err = pg_finish(p, call, PQsendPrepare(p->conn, "", sql, 0, NULL), &res, f);

	PQclear(res);
	if (!err) {
		err = pg_finish(p, call, PQsendDescribePrepared(p->conn, ""), &res, f);
	}
	if (err) {
		return err;
	}
	*ncols = PQnfields(res);
	*cols = ARENA_ARRAY(a, struct store_column, *ncols);
	read_columns(res, a, *cols, &types);
	PQclear(res);
	err = name_types(p, call, &types, a, *cols, f);
	relation_release(&types);
	return err;
}

defib_err pg_describe(struct store *s, const char *sql, struct arena *a, struct store_column **cols,
                      int *ncols, struct failure *f)
{
	struct pg *p = (struct pg *)s;
	struct pg_call call = {.deadline_ms = clock_boot_ms() + p->call_ms};

	/* A pooler may give each step another backend, unless a transaction binds them together. */
	if (!s->pooled || s->in_tx) {
		return describe(p, &call, sql, a, cols, ncols, f);
	}
	defib_err err = s->ops->begin(s, TX_READ, f);
	if (!err) {
		err = describe(p, &call, sql, a, cols, ncols, f);
		s->ops->rollback(s);
	}
	return err;
}
