/* SPDX-License-Identifier: Apache-2.0 */
/* postgres_borrow.c: see borrow.h. */
#include "store/borrow.h"
#include "store/postgres.h"
#include "store/postgres_error.h"

struct lent {
	struct store base;
	PGconn *conn;
};

static defib_err answer(const struct lent *l, const PGresult *res, struct failure *f)
{
	ExecStatusType status = PQresultStatus(res);
	struct buf why = BUF_INIT;

	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
		return DEFIB_OK;
	}
	if (res && PQstatus(l->conn) == CONNECTION_OK) {
		return pg_result_failure(res, f);
	}
	pg_one_line(&why, PQerrorMessage(l->conn));
	fail(f, DEFIB_CONNECTION, "the connection was lost: %s", buf_text(&why));
	buf_release(&why);
	return DEFIB_CONNECTION;
}

static defib_err lent_exec(struct store *s, const char *sql, const struct store_param *params,
                           int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	const struct lent *l = (const struct lent *)s;
	struct pg_values v = pg_values_of(params, nparams);
	PGresult *res = PQexecParams(l->conn, sql, nparams, NULL, v.texts, NULL, NULL, 0);
	defib_err err = answer(l, res, f);

	if (!err && rows) {
		pg_copy_rows(res, a, rows);
	}
	PQclear(res);
	pg_values_release(&v);
	return err;
}

static void lent_close(struct store *s)
{
	free(s);
}

defib_err postgres_borrow(struct pg_conn *conn, struct store **out, struct failure *f)
{
	static const struct store_ops ops = {.exec = lent_exec, .close = lent_close};

	*out = NULL;
	if (!conn || PQtransactionStatus(conn) != PQTRANS_INTRANS) {
		fail(f, DEFIB_USAGE, "the connection has no open transaction");
		fail_next(f, "BEGIN before, COMMIT after");
		return DEFIB_USAGE;
	}
	struct lent *l = mem_alloc(sizeof(*l));
	l->base = (struct store){
		.ops = &ops,
		.engine = STORE_POSTGRES,
		.name = "the caller's session",
		.server_version = PQserverVersion(conn),
		.in_tx = true,
	};
	l->conn = conn;
	*out = &l->base;
	return DEFIB_OK;
}
