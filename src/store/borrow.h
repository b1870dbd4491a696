/* SPDX-License-Identifier: Apache-2.0
 * borrow.h: a session that somebody else owns and has a transaction open on,
 * behind the store's interface, so that the same statements run inside it.
 *
 * Plain calls on the caller's handle: his settings, his time limits. Nothing
 * begins, commits or rolls back here; after a failure only the caller's
 * rollback is left. store_close() gives it back as it was.
 */
#ifndef STORE_BORROW_H
#define STORE_BORROW_H

#include "store/store.h"

struct pg_conn; /* libpq's PGconn */
struct sqlite3;

/* DEFIB_USAGE when no transaction is open on it. */
MUST_CHECK defib_err postgres_borrow(struct pg_conn *conn, struct store **out, struct failure *f);
MUST_CHECK defib_err sqlite_borrow(struct sqlite3 *db, struct store **out, struct failure *f);

#endif
