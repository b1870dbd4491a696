/* SPDX-License-Identifier: Apache-2.0
 * suspects.h: jobs that were seen silent once, until a second look. Pure memory:
 * who is convicted is the guard's to say.
 *
 * A pass copies whom it sees again from the known to the next; whoever is not
 * seen in a whole pass is gone. The number is bounded; who finds no room is
 * judged without a memory of ours, see guard.c.
 */
#ifndef GUARD_SUSPECTS_H
#define GUARD_SUSPECTS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define SUSPECTS_MOST 100000

struct suspect {
	const char *job, *owner;
	int64_t sign_us;
	int64_t seen_us, seen_boot_us; /* first: the database's clock and our own */
	bool convicted;                /* by a second look */
	bool passed;                   /* was let through: it is not missed */
	bool met;                      /* in this pass */
};

struct suspects {
	struct arena arenas[2]; /* texts of the known and of the next */
	int at;                 /* whose are the known's */
	struct suspect *known;  /* by job */
	struct suspect *next;   /* in this pass */
	int nknown, nnext, cap_known, cap_next;
	bool open;
	const char **gone;
	int cap_gone;
};

/* A pass begins. One that was begun before and never ended loses nobody. */
void suspects_begin(struct suspects *s);
/* This job is silent: its entry, new if it has another owner or sign now; NULL: no room. */
struct suspect *suspects_see(struct suspects *s, const char *job, const char *owner,
                             int64_t sign_us, int64_t now_us, int64_t boot_us);
/* The pass saw all there is: those it did not meet are gone. Texts live until the next begin. */
void suspects_end(struct suspects *s, const char *const **gone, int *ngone);
void suspects_clear(struct suspects *s);

#endif
