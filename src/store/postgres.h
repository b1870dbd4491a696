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

/*
 * Whether other roles can create in the schema `n` (pg_namespace), as in postgres_connect.c. $user
 * may be any schema of the role's name.
 */
#define PG_SCHEMA_IS_OPEN                                                                          \
	"EXISTS (SELECT 1 FROM aclexplode(n.nspacl) AS x LEFT JOIN pg_roles r ON r.oid = x.grantee "   \
	"WHERE x.privilege_type = 'CREATE' AND x.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE "    \
	"AND r.rolname IS DISTINCT FROM current_user AND x.grantee <> (SELECT d.datdba FROM "          \
	"pg_database d WHERE d.datname = current_database())) "                                        \
	"OR n.nspname = current_user AND EXISTS (SELECT 1 FROM pg_roles r WHERE r.oid = n.nspowner "   \
	"AND NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> (SELECT d.datdba FROM "         \
	"pg_database d WHERE d.datname = current_database()))"

struct pg {
	struct store base;
	PGconn *conn; /* NULL once the session is lost */
	PGconn *kept; /* lost, because it did not answer: open only for its locks */
	int64_t call_ms, statement_ms, lock_ms;
	bool read_only;
	bool plan_once, keeps_locks;
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

/* False when the deadline passed first. */
bool pg_wait(PGconn *conn, short events, int64_t deadline_ms);
/*
 * Wait for the result of what a PQsend… function queued. `sent` is that function's return value. On
 * success *out is the last result, which the caller clears. On failure *out is NULL, and the
 * session may be lost.
 */
MUST_CHECK defib_err pg_finish(struct pg *p, const struct pg_call *call, int sent, PGresult **out,
                               struct failure *f);
/*
 * The same for two statements in a pipeline, each followed by a sync. The result is the first
 * statement's; a failure of the second matters only if the session is lost.
 */
MUST_CHECK defib_err pg_finish_both(struct pg *p, const struct pg_call *call, int sent,
                                    PGresult **out, struct failure *f);
/* pg_finish() of a simple query whose result does not matter. */
MUST_CHECK defib_err pg_simple(struct pg *p, const struct pg_call *call, const char *sql,
                               struct failure *f);
/* Close the socket without notifying the server; the session is lost. */
void pg_drop(struct pg *p);

/* Connect and make the session ready, all within `connect_ms`. */
MUST_CHECK defib_err pg_connect(struct pg *p, const char *url, int64_t connect_ms,
                                struct failure *f);
/* The settings under which all our statements run; `scope` is "SET" or "SET LOCAL". */
void pg_settings(const struct pg *p, const char *scope, struct buf *out);

/* Parameters as libpq takes them: all text, numbers written out. */
struct pg_values {
	const char **texts;
	char (*digits)[24];
};
struct pg_values pg_values_of(const struct store_param *params, int n);
void pg_values_release(struct pg_values *v);
void pg_copy_rows(const PGresult *res, struct arena *a, struct store_rows *rows);

/* ---- PostgreSQL's errors as our failures ---- */

/* The class of an SQLSTATE; DEFIB_DATABASE for NULL and for codes that the table does not list. */
defib_err pg_class(const char *sqlstate);
/* Runs of white space and control characters become one space; none at the ends. */
void pg_one_line(struct buf *out, const char *text);
/* The primary message, one line, with its hint as what to do next. */
defib_err pg_result_failure(const PGresult *res, struct failure *f);
/* The server ended the session with this answer. */
bool pg_result_ends_session(const PGresult *res);
/*
 * libpq's text on a failed connection attempt, with PQERRORS_VERBOSE so that it carries the
 * SQLSTATE. The SQLSTATE gives the class and is cut from the text. Advice that libpq puts on lines
 * of its own goes to `next`.
 */
defib_err pg_connect_failure(const char *name, const char *message, const char *password,
                             struct failure *f);
/* libpq's complaint about a URL, without quoted parts, which may hold the password. */
void pg_unquoted(struct buf *out, const char *message);

#endif
