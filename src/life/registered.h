/* SPDX-License-Identifier: Apache-2.0
 * registered.h: a worker as its row in the registry says, and what is said of its end. What
 * decides about life sees these, and no database.
 */
#ifndef LIFE_REGISTERED_H
#define LIFE_REGISTERED_H

#include "life/incarnation.h"

struct registered {
	int64_t id;
	struct incarnation who;
	bool expired; /* its lease has run out, by the database's clock */
	/*
	 * The database itself has not been up for as long as the worker would need to
	 * be heard again: that its lease has run out says nothing.
	 */
	bool excused;
	int64_t lease_us; /* its length */
	int64_t stamp_us; /* of its last renewal: another one says that it lives, whatever the clock */
	int64_t now_us;   /* the database's clock */
	const char *serves; /* names of watches, one a line; NULL: not known */
};

#define ENDED_UNSEEN (-1)
/* Why one is taken for dead, and what must still hold when its row is locked. */
struct death {
	const char *cause;
	int64_t stamp_us;   /* only if that is still its last renewal; 0: not asked */
	int64_t unheard_ms; /* only if it has not renewed for so long before this call; 0: not asked */
	int64_t clock_us;   /* … before this time, which its clock must show about; 0: not asked */
	int64_t ago_us; /* how long ago it ended; ENDED_UNSEEN: after its last renewal, at some time */
};

/* Whether a name stands in the lines of `serves`; NULL, not known, may be anything. */
bool serves_watch(const char *serves, const char *watch);

#endif
