/* SPDX-License-Identifier: Apache-2.0
 * queue.h: enqueues and cancels jobs of the built-in queue.
 */
#ifndef WORKER_QUEUE_H
#define WORKER_QUEUE_H

#include "recover/bound.h"
#include "recover/candidate.h"
#include "worker/source.h"

struct enqueue {
	const char *queue, *kind;
	const char *payload; /* JSON or NULL */
	int64_t delay_ms, priority;
	int64_t max_attempts;   /* 0: 5 */
	int64_t timeout_ms;     /* 0: none */
	const char *unique_key; /* NULL: none */
	const char *tags;       /* JSON array of texts, or NULL */
};

/*
 * Enqueue jobs in a transaction of its own, or in the caller's if one is open. ids (n) gets their
 * ids; for a unique key that is already waiting or running, the id of that job. On success each has
 * one. Wake workers with wake_send() after the commit.
 */
MUST_CHECK defib_err enqueue_jobs(struct store *s, const struct enqueue *jobs, int n, int64_t *ids,
                                  struct failure *f);
/*
 * The same outside a transaction, followed by wake_send(): in one round trip if the engine can do
 * that.
 */
MUST_CHECK defib_err enqueue_and_wake(struct store *s, const char *url, const struct enqueue *jobs,
                                      int n, int64_t *ids, struct failure *f);
/*
 * Cancel a waiting job or ask a running one to stop, in the caller's transaction if one is open.
 * *state is its new state, "" if it was over.
 */
MUST_CHECK defib_err cancel_job(struct store *s, int64_t id, char state[16], struct failure *f);

/* ---- by an operator, with an entry in the ledger ---- */

struct queue_cancel {
	struct session *session;
	const struct bound *bound; /* of the built-in queue */
	const char *actor, *reason, *batch;
	bool dry_run;
};

/* RECOVERED, MISSING, or REFUSED: it is over, or already ending. Texts live in the arena. */
MUST_CHECK defib_err queue_cancel(const struct queue_cancel *q, const char *job, struct arena *a,
                                  struct candidate *out, struct failure *f);

/* ---- statements of the engine ---- */

/*
 * queue_statements.c finds the statements of sql/ENGINE_turn.sql by name and compiles them once. On
 * engines with functions they call those of sql/postgres_queue.sql.
 */

/* Cancels a job if there is one; returns its new state. */
MUST_CHECK defib_err queue_statements_cancel(struct store *s, int64_t id, struct arena *a,
                                             struct store_rows *rows, struct failure *f);
/* Jobs that are due become ready. */
MUST_CHECK defib_err queue_statements_promote(struct store *s, int64_t most, struct failure *f);
MUST_CHECK defib_err queue_statements_progress(struct store *s, int64_t worker, const char *key,
                                               int64_t epoch, const char *step, const char *text,
                                               bool *accepted, struct failure *f);

/* On engines without functions, the same is done job by job. */

/* In a transaction of its own, or in the caller's. `kinds` is a JSON array; NULL: all. */
MUST_CHECK defib_err queue_statements_claim(struct store *s, const char *queue, const char *kinds,
                                            int64_t worker, int64_t n, struct arena *a,
                                            struct store_rows *rows, struct failure *f);
/* Inside a transaction. */
MUST_CHECK defib_err queue_statements_settle(struct store *s, int64_t worker,
                                             struct settlement *all, int n, struct arena *a,
                                             struct failure *f);
/* Inside a transaction: the new job, or the existing one with its unique key. */
MUST_CHECK defib_err queue_statements_enqueue(struct store *s, const struct enqueue *j,
                                              struct arena *a, int64_t *id, struct failure *f);

/* ---- waking workers ---- */

/*
 * Wakes idle workers when there are new jobs, without polling delay. Polling remains the guarantee:
 * a wake-up may be lost and is never required.
 *
 * PostgreSQL: NOTIFY, sent outside the enqueueing transaction. SQLite: a file beside the database
 * that is touched after the commit and watched with inotify (the write-ahead log itself changes
 * before the commit is visible).
 */

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
