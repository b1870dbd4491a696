/* SPDX-License-Identifier: Apache-2.0
 * attendance.h: the workers of a database as they say of themselves, for those who only
 * look: metrics and people. Those that are alive, and those whose end is not long ago.
 */
#ifndef LIFE_ATTENDANCE_H
#define LIFE_ATTENDANCE_H

#include "store/store.h"

struct attendant {
	int64_t id;
	const char *name;
	bool alive;         /* by its state … */
	bool expired;       /* … but its lease has run out */
	bool dead;          /* declared so; neither: it left */
	bool again;         /* there was a worker of this name before */
	const char *serves; /* names of watches, one a line; NULL: not known */
	const char *info;   /* JSON object, as of its last renewal; NULL: it said nothing */
	int64_t holding;    /* jobs that it has in hand */
	int64_t renewed_us; /* the database's clock */
};

/*
 * Newest first, `limit` at most; of those that ended, only within `ended_us`. None where there
 * is no registry, or one that is older than what workers say.
 */
MUST_CHECK defib_err attendance_read(struct store *s, int64_t ended_us, int64_t limit,
                                     struct arena *a, struct attendant **out, int *n,
                                     struct failure *f);

#endif
