/* SPDX-License-Identifier: Apache-2.0
 * registry.h: workers as rows: registering, renewing, leaving, and declaring dead. A row is one
 * incarnation and is never reused. Its id contains a nonce (worker_nonce()), so it identifies the
 * incarnation in every later write, also where the numbers began again: in another database, or in
 * this one after a restore.
 */
#ifndef LIFE_REGISTRY_H
#define LIFE_REGISTRY_H

#include "life/incarnation.h"
#include "store/store.h"

/* Class of the advisory locks that life sessions hold (two-number form: class, the
 * worker's nonce). */
#define REGISTRY_LOCK_CLASS 1684366954
/* Two fixed locks (class, 0 or 1) for the two workers that read all others. */
#define REGISTRY_LEADER_LOCK 1684366955

MUST_CHECK defib_err registry_register(struct store *s, const char *name,
                                       const struct incarnation *who, int64_t lease_ms,
                                       const char *serves, int64_t *id, struct failure *f);
/*
 * Renew. DEFIB_LEASE_LOST if the worker was declared dead, or if the id belongs to another
 * incarnation: after a failover that lost the last commits, ids are assigned again. `who` NULL: the
 * caller knows by other means whose id it is. *owned is how many jobs of the built-in queue the
 * database says it has. `info` is the worker's description of itself, a JSON object; NULL keeps the
 * last one.
 */
MUST_CHECK defib_err registry_renew(struct store *s, int64_t id, const struct incarnation *who,
                                    int64_t holding, const char *info, int64_t *owned,
                                    struct failure *f);
/*
 * A clean exit; jobs that it still has can be recovered at once. The row of another incarnation is
 * left alone.
 */
MUST_CHECK defib_err registry_leave(struct store *s, int64_t id, const struct incarnation *who,
                                    struct failure *f);
/* All live workers, including ourselves, sorted by id. */
MUST_CHECK defib_err registry_alive(struct store *s, struct arena *a, struct registered **out,
                                    int *n, struct failure *f);
/*
 * Of the live workers, the `side` before and after `self`, the first and the last `side`, and
 * itself, sorted by id: the number of rows does not depend on how many there are.
 */
MUST_CHECK defib_err registry_near(struct store *s, int64_t self, int side, struct arena *a,
                                   struct registered **out, int *n, struct failure *f);
/*
 * PostgreSQL: receive a notification for every registration from now on; no effect on SQLite or
 * behind a pooler.
 */
MUST_CHECK defib_err registry_listen(struct store *s, struct failure *f);
/* PostgreSQL: let those recover its jobs who can; they hear it as a notification with a payload. */
void registry_announce_death(struct store *s);
/* Declare a worker dead. *won is false if it was no longer alive, or was heard from. */
MUST_CHECK defib_err registry_declare_dead(struct store *s, int64_t id, const struct death *death,
                                           bool *won, struct failure *f);
/*
 * PostgreSQL: hold the advisory lock of this worker with this session too; true on SQLite. The lock
 * is shared: all sessions of a worker hold it, so it disappears when all of them are gone, and a
 * session that lingers in the server does not block the others.
 */
MUST_CHECK defib_err registry_hold_lock(struct store *s, int64_t id, bool *held, struct failure *f);
/*
 * PostgreSQL: nonces of workers whose lock is held. *leads: we are one of the two that read them
 * often; if false, the call tries to become one.
 */
MUST_CHECK defib_err registry_locks_held(struct store *s, struct arena *a, int64_t **nonces, int *n,
                                         bool *leads, struct failure *f);
/*
 * The id of the database, which `init` drew: what is stored outside of it names it. "" if it has
 * none. The text is in the arena.
 */
MUST_CHECK defib_err registry_database(struct store *s, struct arena *a, const char **id,
                                       struct failure *f);
/* Whether a job of the built-in queue belongs to a worker that is not alive, or to none. */
MUST_CHECK defib_err registry_left_jobs(struct store *s, bool *any, struct failure *f);

#endif
