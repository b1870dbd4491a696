/* SPDX-License-Identifier: Apache-2.0
 * silence.h: whose silence is taken for death. One rule: we ourselves have read the same stamp
 * of its last renewal for a whole lease of it, by our own clock, and could write all that time:
 * our own renewal succeeded after we first read it, and none failed since. So
 *
 *  - a worker that has just started, or was away, convicts nobody until a living worker has had
 *    the time to renew, however old its stamp is;
 *  - the database's clock may jump as it likes: it is never asked;
 *  - a database that is busy, full or read-only for us was so for them.
 *
 * When most of those who were seen beating fall silent at once, the likelier cause lies between
 * them and the database, and the one that is left must not condemn them all. Then nobody is
 * convicted by silence until they return, their end is seen, or a ceiling is over.
 *
 * Leases of those who fell silent at the same moment end one after the other, within a
 * beat. So that the first to end is not condemned before the rest are seen to be
 * missing, a worker counts as silent here when half of its lease has passed: who
 * beats renews after a third. And nobody is condemned before we have looked at all, not only at
 * our neighbours, for half of that lease.
 *
 * The brake is the daemon's (guard/brake.h): more than two, and at least 55 % of
 * those that beat, within one lease; each silence is held once at most. Only those whom we saw
 * beating count: their stamp changed, or their lease had not run out when we first read it. A
 * hundred that died before we came are a backlog, not an event. An outage of our own makes us
 * look anew, but does not make old silences one event with new ones. Pure: what was read and
 * time are handed in.
 */
#ifndef LIFE_SILENCE_H
#define LIFE_SILENCE_H

#include "guard/brake.h"
#include "life/registered.h"

#define SILENCE_CEILING_MS 600000

struct heard {
	int64_t id, stamp_us, lease_ms;
	int64_t since_ms, read_ms; /* our own clock when we first and last read this stamp … */
	bool away;                 /* … but for an outage since: the next reading is the first */
	bool beats;                /* we saw it beating */
	bool late;                 /* half of its lease passed without another stamp: since … */
	int64_t fell_ms;           /* … then, whatever outages followed */
};

struct silence {
	struct brake brake;
	struct brake_rules rules;
	struct heard *heard; /* by id */
	int n, cap;
	int64_t renewed_ms; /* when our own renewal that succeeded last was sent */
	int64_t whole_ms;   /* since when every look was at all; 0: the last one was not */
};

/* `ceiling_ms` 0: the usual one; below 0: no brake. */
void silence_init(struct silence *s, int64_t lease_ms, int64_t ceiling_ms);
void silence_release(struct silence *s);
/* We could not see, or not write: what was seen before proves nothing. */
void silence_outage(struct silence *s);
/* Our own renewal, sent then, was answered. */
void silence_renewed(struct silence *s, int64_t sent_ms);
/* What was read, by id; `whole`: all that are registered as alive. */
void silence_look(struct silence *s, const struct registered *rows, int n, bool whole,
                  int64_t now_ms);
/* For how long its stamp was the same, in thousandths of its lease; 0: not known. */
int64_t silence_share(const struct silence *s, int64_t id);
/* The longest for which anybody's stamp but our own was the same, in such shares. */
int64_t silence_longest(const struct silence *s, int64_t self);
/* Is it to be declared dead for its silence? Then *stamp_us is what it must still have. */
bool silence_convicts(const struct silence *s, int64_t id, int64_t *stamp_us);
/* Somebody would be convicted, were our own last renewal not too old to prove anything. */
bool silence_wants_proof(const struct silence *s, int64_t self);
/* Silence proves nothing at the moment. */
bool silence_holds(const struct silence *s);

#endif
