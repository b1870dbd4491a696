/* SPDX-License-Identifier: Apache-2.0
 * postgres_error.h: what PostgreSQL says, as our failures.
 */
#ifndef STORE_POSTGRES_ERROR_H
#define STORE_POSTGRES_ERROR_H

#include "base/buf.h"
#include "base/fail.h"

#include <libpq-fe.h>

/* The class of an SQLSTATE; DEFIB_DATABASE for what the table does not name, NULL too. */
defib_err pg_class(const char *sqlstate);
/* Runs of white space and control characters become one space; none at the ends. */
void pg_one_line(struct buf *out, const char *text);
/* The primary message, one line, with its hint as what to do next. */
defib_err pg_result_failure(const PGresult *res, struct failure *f);
/* The server ended the session with this answer. */
bool pg_result_ends_session(const PGresult *res);
/*
 * libpq's text on a connection attempt that failed, reported with
 * PQERRORS_VERBOSE so that it carries the SQLSTATE: that gives the class and
 * is cut from the text. What libpq advises on lines of its own goes to `next`.
 */
defib_err pg_connect_failure(const char *name, const char *message, const char *password,
                             struct failure *f);
/* libpq's complaint about a URL, without what it quotes: that may hold the password. */
void pg_unquoted(struct buf *out, const char *message);

#endif
