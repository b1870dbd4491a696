/* SPDX-License-Identifier: Apache-2.0
 * attendance.h: the workers of a database as they describe themselves, for metrics and display:
 * those that are alive, and those that ended recently.
 */
#ifndef LIFE_ATTENDANCE_H
#define LIFE_ATTENDANCE_H

#include "store/store.h"

struct attendant {
	int64_t id;
	const char *name;
	bool alive;         /* by its state … */
	bool expired;       /* … but its lease has expired */
	bool dead;          /* declared dead; if neither alive nor dead: it left */
	bool again;         /* there was an earlier worker of this name */
	const char *serves; /* names of watches, one per line; NULL: not known */
	const char *info;   /* JSON object from its last renewal; NULL: none */
	int64_t holding;    /* jobs that it is running */
	int64_t renewed_us; /* the database's clock */
};

/*
 * Newest first, at most `limit`; ended workers only within `ended_us`. None if there is no
 * registry, or if it is too old to hold this information.
 */
MUST_CHECK defib_err attendance_read(struct store *s, int64_t ended_us, int64_t limit,
                                     struct arena *a, struct attendant **out, int *n,
                                     struct failure *f);

#endif
