/* SPDX-License-Identifier: Apache-2.0
 * retention.h: removes old rows from defib's own tables, in small steps.
 *
 * One table of rules says what is removed, by which age, and by which index. A step is one short
 * transaction of at most RETENTION_STEP rows; locked rows are skipped. Jobs that run, wait or are
 * held are never touched. Ids are never reused, and epochs of leases continue above the highest
 * that was removed. A round is claimed in the database (defib.kept), so that only one of all
 * daemons and workers does it.
 */
#ifndef LEDGER_RETENTION_H
#define LEDGER_RETENTION_H

#include "ledger/ledger.h"
#include "watch/settings.h"

#define RETENTION_STEP 1000

/* X(enum, name, help) */
#define RETENTION_RULES(X)                                                                         \
	X(DONE, "done", "done jobs")                                                                   \
	X(FAILED, "failed", "failed jobs")                                                             \
	X(LEASES, "leases", "leases of other tables")                                                  \
	X(STEPS, "steps", "steps of other tables")                                                     \
	X(ATTEMPTS, "attempts", "attempts at steps of other tables")                                   \
	X(WORKERS, "workers", "ended workers")                                                         \
	X(PROGRAMS, "programs", "ended programs")                                                      \
	X(TOKENS, "tokens", "tokens of spooled jobs")                                                  \
	X(MESSAGES, "messages", "old messages")                                                        \
	X(ACTS, "acts", "ended background acts")                                                       \
	X(LEARNED, "learned", "learned run times")                                                     \
	X(SEEN, "seen", "values of jobs that nobody looks at any more")                                \
	X(LEDGER, "ledger", "entries of the ledger")

enum retention_rule {
#define X(id, name, help) RETAIN_##id,
	RETENTION_RULES(X)
#undef X
		RETENTION_COUNT
};
extern const char *const retention_names[], *const retention_words[];

struct retention_round {
	bool claimed; /* this process did it; false: not due, or another does it */
	bool more;    /* the budget ended before all old rows were removed */
	int64_t removed[RETENTION_COUNT];
};
/*
 * A round, if it is due; `force`: even if not. Runs for about `budget_ms`. If there are
 * no tables and the role may not create them, it does nothing, which is not a failure.
 */
MUST_CHECK defib_err retention_round(struct store *s, const struct retention *p, const char *actor,
                                     bool force, int64_t budget_ms, struct retention_round *out,
                                     struct failure *f);
/*
 * The same from a loop: runs when due, and only as long as the loop can spare. Failures are logged
 * here; the owner of the session notices if it is lost.
 */
struct retention_tick {
	int64_t due_ms; /* CLOCK_BOOTTIME */
	bool logged;    /* the failure was logged */
};
bool retention_due(const struct retention_tick *t, const struct retention *p);
void retention_turn(struct retention_tick *t, struct session *session, const struct retention *p,
                    const char *actor);
/* How many rows would be removed now, by rule, at most RETENTION_SEEN_MAX. */
#define RETENTION_SEEN_MAX 1000000
MUST_CHECK defib_err retention_look(struct store *s, const struct retention *p,
                                    int64_t old[RETENTION_COUNT], struct failure *f);

/* Results of the last rounds; rows is -1 if unknown. */
struct retention_count {
	int64_t removed, rows, oldest_us; /* oldest_us: its age; -1: there is none */
};
struct retention_state {
	bool known;     /* there was a round */
	int64_t ago_us; /* since the last one */
	struct retention_count counts[RETENTION_COUNT];
};
MUST_CHECK defib_err retention_read(struct store *s, struct retention_state *out,
                                    struct failure *f);

/* ---- the ledger ---- */

/*
 * Retention: the only way in which entries leave the ledger.
 *
 * The removed entries are a prefix in the order of ids, so that the rest has no gaps, and they end
 * with a whole statement, so that the chain of seals stays intact (seal.h). The removal is itself
 * recorded, one entry per part. On PostgreSQL only defib.ledger_prune() can do it, a function of
 * the ledger's owner, whatever is granted on the table.
 */

#endif
