/* SPDX-License-Identifier: Apache-2.0
 * postgres_connect.h: opens a connection to a server that may write.
 */
#ifndef STORE_POSTGRES_CONNECT_H
#define STORE_POSTGRES_CONNECT_H

#include "store/postgres.h"

/* Connect and make the session ready, all within `connect_ms`. */
MUST_CHECK defib_err pg_connect(struct pg *p, const char *url, int64_t connect_ms,
                                struct failure *f);
/* The settings under which all our statements run; `scope` is "SET" or "SET LOCAL". */
void pg_settings(const struct pg *p, const char *scope, struct buf *out);

/* The user that a PostgreSQL URL or PGUSER names, as the server knows it; "" for none. */
void store_user(const char *url, struct buf *out);
void postgres_target(const char *url, struct buf *out);
/* DEFIB_USAGE when no transaction is open on it. */
MUST_CHECK defib_err postgres_borrow(struct pg_conn *conn, struct store **out, struct failure *f);

#endif
