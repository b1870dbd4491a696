/* SPDX-License-Identifier: Apache-2.0
 * wake.h: wakes idle workers when there are new jobs, without polling delay. Polling remains the
 * guarantee: a wake-up may be lost and is never required.
 *
 * PostgreSQL: NOTIFY, sent outside the enqueueing transaction. SQLite: a file beside the database
 * that is touched after the commit and watched with inotify (the write-ahead log itself changes
 * before the commit is visible).
 */
#ifndef WORKER_WAKE_H
#define WORKER_WAKE_H

#include "store/store.h"

/* Send: after the commit, on a session without a transaction. Failures are ignored. */
void wake_send(struct store *s, const char *url);

/* The statement that sends it on PostgreSQL, for store_exec_then(). */
extern const char wake_statement[];

struct wake;
/* Receive: `url` names the database. */
struct wake *wake_open(const char *url);
void wake_close(struct wake *w); /* NULL is allowed */
/* A session was (re)opened: listen on it. Does nothing on SQLite or behind a pooler. */
void wake_listen(struct wake *w, struct store *s);
/* A descriptor to wait for; -1: only polling. May change when the session does. */
int wake_fd(struct wake *w, struct store *s);
/* Consume what arrived; true if it was a wake-up. */
bool wake_taken(struct wake *w, struct store *s);

#endif
