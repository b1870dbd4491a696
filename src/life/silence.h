/* SPDX-License-Identifier: Apache-2.0
 * silence.h: decides whose silence counts as death. There is one rule: we ourselves read the same
 * stamp of its last renewal for one whole lease of that worker, by our own clock, and could write
 * all that time: our own renewal succeeded after the first such reading, and none failed since. So
 *
 * - a worker that just started, or was away, declares no worker dead until a live worker has
 *   had the time to renew, however old its stamp is;
 * - jumps of the database's clock do not matter: it is never used;
 * - a database that was busy, full or read-only for others was so for us: our renewal failed too.
 *
 * If most of the workers that were seen beating fall silent at once, the likelier cause is between
 * them and the database, and the remaining one must not declare them all dead. Then no worker is
 * declared dead for silence until they return, their end is seen, or a ceiling is reached.
 *
 * The leases of workers that fell silent at the same moment expire one after the other, within one
 * beat. So that the first is not declared dead before the rest are seen to be missing, a worker
 * counts as silent here after half of its lease: a live worker renews after a third. And no worker
 * is declared dead before we have read the whole list, not only our neighbours, for half of that
 * lease.
 *
 * The brake is the daemon's (guard/brake.h): more than two, and at least 55 % of those that beat,
 * within one lease; each silence is held at most once. Only workers that we saw beating count:
 * their stamp changed, or their lease had not expired when we first read it. A hundred that died
 * before we started are a backlog, not an event. After an outage of our own we observe from the
 * start again, but old silences do not become one event with new ones. Pure: readings and time are
 * parameters.
 */
#ifndef LIFE_SILENCE_H
#define LIFE_SILENCE_H

#include "guard/brake.h"
#include "life/incarnation.h"

#define SILENCE_CEILING_MS 600000

struct silence_member {
	int64_t id, stamp_us, lease_ms;
	int64_t since_ms, read_ms; /* our own clock when we first and last read this stamp … */
	bool away;       /* … except that after an outage the next reading counts as the first */
	bool beats;      /* we saw it beating */
	bool late;       /* half of its lease passed without a new stamp: since … */
	int64_t fell_ms; /* … then, regardless of later outages */
};

struct silence {
	struct brake brake;
	struct brake_rules rules;
	struct silence_member *members; /* sorted by id */
	int n, cap;
	int64_t renewed_ms; /* when our own last successful renewal was sent */
	int64_t whole_ms;   /* since when every look was at the whole list; 0: the last one was not */
};

/* `ceiling_ms` 0: the default; below 0: no brake. */
/*
 * The index of an id in an array of structs that begin with their ids (int64_t) and are sorted by
 * them, or where it would be inserted.
 */
int place_by_id(const void *rows, size_t size, int n, int64_t id);

void silence_init(struct silence *s, int64_t lease_ms, int64_t ceiling_ms);
void silence_release(struct silence *s);
/* We could not read, or not write: earlier readings prove nothing. */
void silence_outage(struct silence *s);
/* Our own renewal, sent at that time, succeeded. */
void silence_renewed(struct silence *s, int64_t sent_ms);
/* What was read, sorted by id; `whole`: all workers that are registered as alive. */
void silence_look(struct silence *s, const struct registered *rows, int n, bool whole,
                  int64_t now_ms);
/* How long its stamp has been the same, in thousandths of its lease; 0: not known. */
int64_t silence_share(const struct silence *s, int64_t id);
/* The longest time for which any stamp but our own has been the same, in the same unit. */
int64_t silence_longest(const struct silence *s, int64_t self);
/*
 * Whether to declare it dead for its silence. If so, *stamp_us is the stamp that it must still
 * have.
 */
bool silence_convicts(const struct silence *s, int64_t id, int64_t *stamp_us);
/* A worker would be declared dead if our own last renewal were not too old to prove anything. */
bool silence_wants_proof(const struct silence *s, int64_t self);
/* Silence proves nothing at the moment (the brake holds). */
bool silence_holds(const struct silence *s);

#endif
