/* SPDX-License-Identifier: Apache-2.0
 * brake.h: if most owners that beat fall silent at once, the cause is probably between them and us.
 * Their jobs are not recovered until the owners return (the last of them within a quiet window),
 * their end is known, or a ceiling is reached. Pure: the census and the time are parameters.
 *
 * Only owners that we saw beating count. Each silence (an owner and its last sign) is held at most
 * once, for at most one ceiling, so the brake never latches, even if owners come and go.
 */
#ifndef GUARD_BRAKE_H
#define GUARD_BRAKE_H

#include "base/mem.h"
#include "guard/doubt.h"

/* One owner in the census: the newest sign of life among its running rows. */
struct census_row {
	const char *owner;
	int64_t sign_us;
	bool dead; /* its end is known */
};

struct brake_rules {
	bool on;
	double share;     /* smallest share of the beating owners */
	int64_t owners;   /* more than this many */
	int64_t limit_us; /* silent after this time; they fell silent within the same time */
	int64_t quiet_us, ceiling_us;
};

struct brake_owner {
	const char *name;
	int64_t sign_us;
	bool beat; /* we saw it beating */
	bool fresh, silent;
	bool held;     /* part of the present mass */
	bool was_held; /* for this silence, even if a clock or doubt hides the silence now */
	bool released; /* this silence was held before */
};

struct brake {
	struct arena arenas[2]; /* of this census and the previous one */
	int at;
	struct brake_owner *owners; /* sorted by name */
	int n;
	bool engaged;
	int64_t since_us, since_boot_us; /* engaged */
	int64_t calm_boot_us;            /* since when most are back; 0: they are not */
	int64_t newest_us;               /* newest sign of the held owners */
	int64_t silent, beating;
	int64_t engagements;
	const char *ended;
};

/* A new census. */
void brake_step(struct brake *b, const struct brake_rules *r, const struct doubt *d, int64_t now_us,
                int64_t boot_us, const struct census_row *census, int n);
/* Whether this owner's silence is held (NULL: no owner). */
bool brake_holds(const struct brake *b, const char *owner);
void brake_clear(struct brake *b);

#endif
