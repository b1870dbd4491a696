/* SPDX-License-Identifier: Apache-2.0
 * retention.h: removing what is over from defib's own tables, in small steps.
 *
 * One table of rules says what is removed, by which age, and by which index. A
 * step is one short transaction of at most RETENTION_STEP rows; rows that
 * somebody has locked are passed by. What runs, waits or is held is never
 * touched; ids are never given again, and epochs of leases go on above the
 * highest that was removed. A round is claimed in the database (defib.kept):
 * of all daemons and workers one does it.
 */
#ifndef LEDGER_RETENTION_H
#define LEDGER_RETENTION_H

#include "ledger/ledger.h"
#include "store/store.h"
#include "watch/settings.h"

#define RETENTION_STEP 1000

/* X(enum, name, help) */
#define RETENTION_RULES(X)                                                                         \
	X(DONE, "done", "done jobs")                                                                   \
	X(FAILED, "failed", "failed jobs")                                                             \
	X(LEASES, "leases", "leases of other tables")                                                  \
	X(STEPS, "steps", "steps of other tables")                                                     \
	X(WORKERS, "workers", "ended workers")                                                         \
	X(PROGRAMS, "programs", "ended programs")                                                      \
	X(TOKENS, "tokens", "tokens of spooled jobs")                                                  \
	X(MESSAGES, "messages", "old messages")                                                        \
	X(LEARNED, "learned", "learned run times")                                                     \
	X(LEDGER, "ledger", "entries of the ledger")

enum retention_rule {
#define X(id, name, help) RETAIN_##id,
	RETENTION_RULES(X)
#undef X
		RETENTION_COUNT
};
extern const char *const retention_names[], *const retention_words[];

struct retention_round {
	bool claimed; /* it was ours to do; false: not due, or another does it */
	bool more;    /* the budget ended before what is old did */
	int64_t removed[RETENTION_COUNT];
};
/*
 * A round, if it is due; `force`: whether it is or not. Goes on for about `budget_ms`. Where the
 * tables are outdated and the role may not upgrade them, it does nothing, and that is no failure.
 */
MUST_CHECK defib_err retention_round(struct store *s, const struct retention *p, const char *actor,
                                     bool force, int64_t budget_ms, struct retention_round *out,
                                     struct failure *f);
/*
 * The same by itself, in a loop: when it is due, and no longer than a loop can spare. Failures are
 * logged here; a lost session is noticed by its owner.
 */
struct retention_tick {
	int64_t due_ms; /* CLOCK_BOOTTIME */
	bool told;      /* that it fails */
};
bool retention_due(const struct retention_tick *t, const struct retention *p);
void retention_turn(struct retention_tick *t, struct session *session, const struct retention *p,
                    const char *actor);
/* How many rows would be removed now, by rule, RETENTION_SEEN_MAX at most. */
#define RETENTION_SEEN_MAX 1000000
MUST_CHECK defib_err retention_look(struct store *s, const struct retention *p,
                                    int64_t old[RETENTION_COUNT], struct failure *f);

/* What is known since the last rounds; rows is -1 where it is not. */
struct retention_kept {
	int64_t removed, rows, oldest_us; /* oldest_us: its age; -1: there is none */
};
struct retention_state {
	bool known;     /* there was a round */
	int64_t ago_us; /* since the last one */
	struct retention_kept kept[RETENTION_COUNT];
};
MUST_CHECK defib_err retention_read(struct store *s, struct retention_state *out,
                                    struct failure *f);

/* ---- the ledger ---- */

/*
 * Retention: the one way in which entries leave the ledger.
 *
 * What is removed is a prefix of the ledger in the order of its ids, so that
 * what is left has no holes, and ends with a whole statement, so that the chain
 * of seals stays (seal.h). That it was removed is itself an entry, one a part. On
 * PostgreSQL a function of the ledger's owner does it, defib.ledger_prune():
 * nobody else can, whatever may be granted on the table.
 */

struct prune_plan {
	int64_t count;      /* entries that are older */
	int64_t last_id;    /* the youngest of them */
	const char *cutoff; /* ISO, UTC, by the database's clock */
};

/* Only the cutoff of a plan, for who removes without counting first. */
MUST_CHECK defib_err prune_cutoff(struct store *s, int64_t older_us, struct arena *a,
                                  struct prune_plan *out, struct failure *f);
/* What is older than this; changes nothing. */
MUST_CHECK defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a,
                                struct prune_plan *out, struct failure *f);
/*
 * Remove the next part, at most `limit` entries (but a whole statement), in a transaction of its
 * own, and leave its PRUNED entry. *over is set when there was nothing: somebody else prunes too,
 * or what is left was written by one statement with what must stay.
 */
MUST_CHECK defib_err prune_part(struct store *s, const struct prune_plan *plan,
                                const struct ledger_context *ctx, int64_t limit, int64_t *removed,
                                bool *over, struct failure *f);

#endif
