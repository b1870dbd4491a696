/* SPDX-License-Identifier: Apache-2.0
 * registry.h: workers as rows: registering, renewing, leaving, and declaring
 * dead. A row is one incarnation and is never used again, so its id stands
 * for the incarnation in every later write.
 */
#ifndef LIFE_REGISTRY_H
#define LIFE_REGISTRY_H

#include "life/registered.h"
#include "store/store.h"

/* Class of the advisory locks that life sessions hold (two-number form: class, worker id). */
#define REGISTRY_LOCK_CLASS 1684366954
/* Two fixed locks (class, 0 or 1) for the two that read all others. */
#define REGISTRY_LEADER_LOCK 1684366955

MUST_CHECK defib_err registry_register(struct store *s, const char *name,
                                       const struct incarnation *who, int64_t lease_ms,
                                       const char *serves, int64_t *id, struct failure *f);
/*
 * Renew. DEFIB_LEASE_LOST when the worker was declared dead, or the id is another incarnation's:
 * a fail-over that lost the last commits gives an id again that was given before. `who` NULL: the
 * caller knows by other means whose id it is. *owned is how many jobs of the built-in queue the
 * database says it has. `info` is what the worker says of itself, a JSON object; NULL leaves what
 * it said last.
 */
MUST_CHECK defib_err registry_renew(struct store *s, int64_t id, const struct incarnation *who,
                                    int64_t holding, const char *info, int64_t *owned,
                                    struct failure *f);
/* A clean exit; jobs that it still has can be recovered at once. Another's id is left as it is. */
MUST_CHECK defib_err registry_leave(struct store *s, int64_t id, const struct incarnation *who,
                                    struct failure *f);
/* All that are alive, ourselves too, by id. */
MUST_CHECK defib_err registry_alive(struct store *s, struct arena *a, struct registered **out,
                                    int *n, struct failure *f);
/*
 * Of those that are alive the `side` before and after `self`, the first and the last `side`, and
 * itself, by id: as many rows however many there are.
 */
MUST_CHECK defib_err registry_near(struct store *s, int64_t self, int side, struct arena *a,
                                   struct registered **out, int *n, struct failure *f);
/* PostgreSQL: hear of every registration from now on; nothing on SQLite or behind a pooler. */
MUST_CHECK defib_err registry_listen(struct store *s, struct failure *f);
/* Declare one dead. *won is false when it was not alive any more, or was heard of. */
MUST_CHECK defib_err registry_declare_dead(struct store *s, int64_t id, const struct death *death,
                                           bool *won, struct failure *f);
/*
 * PostgreSQL: hold the advisory lock of this worker with this session too; true on SQLite. It is
 * shared: a worker's sessions hold it together, so that it is gone when all of them are, and a
 * session that lingers in the server keeps it from no other.
 */
MUST_CHECK defib_err registry_hold_lock(struct store *s, int64_t id, bool *held, struct failure *f);
/*
 * PostgreSQL: ids whose lock is held. *leads: we are one of the two that read them often; where
 * it is false, it is tried for.
 */
MUST_CHECK defib_err registry_locks_held(struct store *s, struct arena *a, int64_t **ids, int *n,
                                         bool *leads, struct failure *f);
/* Whether a job of the built-in queue is in the hands of one who is not alive, or of nobody. */
MUST_CHECK defib_err registry_left_jobs(struct store *s, bool *any, struct failure *f);

#endif
