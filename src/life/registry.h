/*
 * registry.h: workers as rows: registering, renewing, leaving, and declaring
 * dead. A row is one incarnation and is never used again, so its id stands
 * for the incarnation in every later write.
 */
#ifndef LIFE_REGISTRY_H
#define LIFE_REGISTRY_H

#include "life/incarnation.h"
#include "store/store.h"

/* Class of the advisory locks that life sessions hold (two-number form: class, worker id). */
#define REGISTRY_LOCK_CLASS 1684366954
/* Two fixed locks (class, 0 or 1) for the two that read all others. */
#define REGISTRY_LEADER_LOCK 1684366955

struct registered {
	int64_t id;
	struct incarnation who;
	bool expired; /* its lease has run out, by the database's clock */
	/*
	 * The database itself has not been up for as long as the worker would need to
	 * be heard again: that its lease has run out says nothing.
	 */
	bool excused;
	int64_t lease_us;           /* its length */
	int64_t expires_us, now_us; /* the database's clock */
	const char *serves;         /* names of watches, one a line; NULL: not known */
};

MUST_CHECK defib_err registry_register(struct store *s, const char *name,
                                       const struct incarnation *who, int64_t lease_ms,
                                       const char *serves, int64_t *id, struct failure *f);
/*
 * Renew. DEFIB_LEASE_LOST when the worker was declared dead. *owned is how
 * many jobs of the built-in queue the database says it has. `info` is what the worker
 * says of itself, a JSON object; NULL leaves what it said last.
 */
MUST_CHECK defib_err registry_renew(struct store *s, int64_t id, int64_t holding, const char *info,
                                    int64_t *owned, struct failure *f);
/* A clean exit; jobs that it still has can be recovered at once. */
MUST_CHECK defib_err registry_leave(struct store *s, int64_t id, struct failure *f);
/* All that are alive, ourselves too. */
MUST_CHECK defib_err registry_alive(struct store *s, struct arena *a, struct registered **out,
                                    int *n, struct failure *f);
#define ENDED_UNSEEN (-1)
/* Why one is taken for dead, and what must still hold when its row is locked. */
struct death {
	const char *cause;
	bool if_expired;    /* only if its lease has run out */
	int64_t unheard_ms; /* only if it has not renewed for so long before this call; 0: not asked */
	int64_t ago_us; /* how long ago it ended; ENDED_UNSEEN: after its last renewal, at some time */
};
/* Declare one dead. *won is false when it was not alive any more, or was heard of. */
MUST_CHECK defib_err registry_declare_dead(struct store *s, int64_t id, const struct death *death,
                                           bool *won, struct failure *f);
/* PostgreSQL: take the advisory lock that shows our life session; true on SQLite. */
MUST_CHECK defib_err registry_hold_lock(struct store *s, int64_t id, bool *held, struct failure *f);
/* PostgreSQL: try to become one of the two that read locks; false on SQLite. */
MUST_CHECK defib_err registry_try_lead(struct store *s, bool *leads, struct failure *f);
/* PostgreSQL: ids whose lock is held. */
MUST_CHECK defib_err registry_locks_held(struct store *s, struct arena *a, int64_t **ids, int *n,
                                         struct failure *f);

#endif
