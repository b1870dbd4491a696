/* SPDX-License-Identifier: Apache-2.0
 * postgres_error.h: errors of PostgreSQL as failures.
 */
#ifndef STORE_POSTGRES_ERROR_H
#define STORE_POSTGRES_ERROR_H

#include "store/postgres.h"

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
