/* SPDX-License-Identifier: Apache-2.0
 * postgres_wire.h: waits for the server, never longer than allowed.
 */
#ifndef STORE_POSTGRES_WIRE_H
#define STORE_POSTGRES_WIRE_H

#include "store/postgres.h"

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

#endif
