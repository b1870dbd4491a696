/* SPDX-License-Identifier: Apache-2.0
 * registered.h: a worker as its row in the registry describes it, and how its end is described.
 * Decisions about life use these structs and no database.
 */
#ifndef LIFE_REGISTERED_H
#define LIFE_REGISTERED_H

#include "life/incarnation.h"

struct registered {
	int64_t id;
	struct incarnation who;
	bool expired; /* its lease has expired, by the database's clock */
	/*
	 * The database itself has not been up long enough for the worker to renew: its expired lease
	 * proves nothing.
	 */
	bool excused;
	int64_t lease_us; /* its length */
	int64_t stamp_us; /* of its last renewal: a different one proves that it is alive, whatever the
	                     clock says */
	int64_t now_us;   /* the database's clock */
	const char *serves; /* names of watches, one per line; NULL: not known */
};

#define ENDED_UNSEEN (-1)
/* Why a worker is considered dead, and what must still hold when its row is locked. */
struct death {
	const char *cause;
	int64_t stamp_us; /* only if this is still its last renewal; 0: not required */
	int64_t
		unheard_ms; /* only if it has not renewed for this long before this call; 0: not required */
	int64_t
		clock_us; /* … before this time, which its clock must show approximately; 0: not required */
	int64_t ago_us; /* how long ago it ended; ENDED_UNSEEN: some time after its last renewal */
};

/* Whether a name is in the lines of `serves`; NULL (not known) matches any. */
bool serves_watch(const char *serves, const char *watch);

#endif
