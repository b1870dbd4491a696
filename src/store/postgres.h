/* SPDX-License-Identifier: Apache-2.0
 * postgres.h: what the files of the PostgreSQL engine share.
 *
 * postgres.c          the operations: statements, transactions, values and rows
 * postgres_connect.c  hosts, TLS, session settings, finding a pooler; a caller's connection
 * postgres_wire.c     waiting for libpq up to a deadline; what a lost session means
 * postgres_error.c    classes and texts
 */
#ifndef STORE_POSTGRES_H
#define STORE_POSTGRES_H

#include "store/store.h"

#include <libpq-fe.h>

struct pg {
	struct store base;
	PGconn *conn;        /* NULL once the session is lost */
	PGconn *unanswering; /* lost, because it did not answer: open only for its locks */
	int64_t call_ms, statement_ms, lock_ms;
	bool read_only;
	bool plan_once, keeps_locks;
	bool replicates;    /* the role's default is that triggers do not run; ours must */
	enum store_tx mode; /* of the open transaction */
	struct prepared_set statements;
	char *name;
	char *own_path; /* the schemas of the role's search path, as an array */
	char *path;     /* the search path of our statements: those in which no other role can create */
};

/* One call to the server, or several that share a deadline. */
struct pg_call {
	int64_t deadline_ms; /* on CLOCK_BOOTTIME */
	bool effect;         /* if the reply is lost, the statement may still have taken effect */
};

/* Parameters as libpq takes them: all text, numbers written out. */
struct pg_values {
	const char **texts;
	char (*digits)[24];
};
struct pg_values pg_values_of(const struct store_param *params, int n);
void pg_values_release(struct pg_values *v);
void pg_copy_rows(const PGresult *res, struct arena *a, struct store_rows *rows);

/* ---- PostgreSQL's errors as our failures ---- */

#endif
