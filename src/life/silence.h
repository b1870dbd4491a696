/*
 * silence.h: whose silence is taken for death. A worker whose lease has run out is
 * usually gone; but when most of those who were seen beating fall silent at once,
 * the likelier cause lies between them and the database, and the one that is left
 * must not condemn them all. Then nobody is convicted by silence until they
 * return, their end is seen, or a ceiling is over.
 *
 * Leases of those who fell silent at the same moment end one after the other, within a
 * beat. So that the first to end is not condemned before the rest are seen to be
 * missing, a worker counts as silent here when half of its lease has passed: who
 * beats renews after a third. Condemned is nobody before the end.
 *
 * A database that has hardly been up itself heard nobody: while somebody is excused by
 * that (registry.h), silence proves nothing either, however old the leases are.
 *
 * The brake is the daemon's (life/brake.h): more than two, and at least 55 % of
 * those that beat, within one lease; each silence is held once at most. Pure but
 * for the log: rosters and time are handed in.
 */
#ifndef LIFE_SILENCE_H
#define LIFE_SILENCE_H

#include "life/brake.h"
#include "life/registry.h"

#define SILENCE_CEILING_MS 600000

struct silence {
	struct brake brake;
	struct brake_rules rules;
	bool excused; /* somebody is, in the last roster */
};

/* `ceiling_ms` 0: the usual one; below 0: no brake. */
void silence_init(struct silence *s, int64_t lease_ms, int64_t ceiling_ms);
void silence_release(struct silence *s);
/* All that are registered as alive, ourselves too; says in the log when the brake takes hold or
 * lets go. */
void silence_step(struct silence *s, const struct registered *all, int n, int64_t boot_us);
/* Is it to be declared dead for its silence? */
bool silence_convicts(const struct silence *s, const struct registered *r);
/* Silence proves nothing at the moment. */
bool silence_holds(const struct silence *s);

#endif
