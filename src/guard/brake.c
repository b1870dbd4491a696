/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/brake.h"

#include <assert.h>

#define ROUNDING 1e-9 /* 55 % of 20 is 11, whatever 0.55 is in binary */

static int brake_by_name(const void *a, const void *b)
{
	return strcmp(((const struct brake_owner *)a)->name, ((const struct brake_owner *)b)->name);
}

static struct brake_owner *brake_find(const struct brake *b, const char *name)
{
	struct brake_owner key = {.name = name};
	if (!name || b->n == 0)
		return NULL;
	return bsearch(&key, b->owners, (size_t)b->n, sizeof key, brake_by_name);
}

/* Silence that our own absence excuses does not count yet: doubt holds those jobs. */
static bool brake_is_silent(const struct brake_rules *r, const struct doubt *d, int64_t now_us,
                            const struct census_row *row)
{
	return !row->dead && now_us - row->sign_us > r->limit_us &&
	       !doubt_excuses(d, row->sign_us, r->limit_us, r->quiet_us, now_us, NULL, NULL);
}

/* The current state of an owner, with what we remember of it. */
static struct brake_owner brake_owner_now(const struct brake *b, const struct brake_rules *r,
                                          const struct doubt *d, int64_t now_us,
                                          const struct census_row *row)
{
	const struct brake_owner *old = brake_find(b, row->owner);
	bool same = old && old->sign_us == row->sign_us;
	/* A clock that was set back, or doubt, may hide a silence. Only a new sign ends it. */
	bool still = same && old->was_held && !old->released && !row->dead;
	bool fresh = !still && now_us - row->sign_us <= r->limit_us;
	return (struct brake_owner){
		.sign_us = row->sign_us,
		.beat = fresh || (old && old->beat),
		.fresh = fresh && !row->dead,
		.silent = still || brake_is_silent(r, d, now_us, row),
		.was_held = same && old->was_held,
		.released = same && old->released,
	};
}

/* Idle owners leave the census, and our memory with it. */
static void take_census(struct brake *b, const struct brake_rules *r, const struct doubt *d,
                        int64_t now_us, const struct census_row *census, int n)
{
	struct arena *a = &b->arenas[1 - b->at];
	arena_clear(a);
	struct brake_owner *owners = ARENA_ARRAY(a, struct brake_owner, n > 0 ? n : 1);
	int known = 0;
	for (int i = 0; i < n; i++) {
		if (!census[i].owner)
			continue;
		owners[known] = brake_owner_now(b, r, d, now_us, &census[i]);
		owners[known++].name = arena_strdup(a, census[i].owner);
	}
	qsort(owners, (size_t)known, sizeof *owners, brake_by_name);
	b->owners = owners;
	b->n = known;
	b->at = 1 - b->at;
}

static bool fell(const struct brake_owner *o)
{
	return o->beat && o->silent && !o->released;
}

/*
 * Owners that fell silent within one window of the newest are one event. While it lasts, owners
 * that fall silent later belong to it as well.
 */
static void brake_gather(struct brake *b, const struct brake_rules *r)
{
	if (!b->engaged) {
		b->newest_us = INT64_MIN;
		for (int i = 0; i < b->n; i++)
			if (fell(&b->owners[i]) && b->owners[i].sign_us > b->newest_us)
				b->newest_us = b->owners[i].sign_us;
	}
	b->silent = b->beating = 0;
	for (int i = 0; i < b->n; i++) {
		struct brake_owner *o = &b->owners[i];
		o->held = fell(o) && o->sign_us >= b->newest_us - r->limit_us;
		b->silent += o->held;
		b->beating += o->fresh;
	}
}

static bool is_mass(const struct brake *b, const struct brake_rules *r)
{
	return b->silent > r->owners &&
	       (double)b->silent + ROUNDING >= r->share * (double)(b->silent + b->beating);
}

/* An owner that does not beat again is not held again for this silence. */
static void brake_release(struct brake *b, const char *ended)
{
	for (int i = 0; i < b->n; i++) {
		struct brake_owner *o = &b->owners[i];
		o->released |= o->was_held;
		o->held = false;
	}
	if (b->engaged)
		b->ended = ended;
	b->engaged = false;
}

static void hold(struct brake *b, int64_t now_us, int64_t boot_us)
{
	for (int i = 0; i < b->n; i++)
		b->owners[i].was_held |= b->owners[i].held;
	if (b->engaged)
		return;
	b->engaged = true;
	b->since_us = now_us;
	b->since_boot_us = boot_us;
	b->calm_boot_us = 0;
	b->engagements++;
}

/*
 * The first owners that return show that the connection works again; the others may be slightly
 * behind, and have one quiet window for it.
 */
static bool awaits_the_rest(struct brake *b, const struct brake_rules *r, int64_t boot_us)
{
	if (!b->engaged || b->silent == 0)
		return false;
	if (!b->calm_boot_us)
		b->calm_boot_us = boot_us;
	return boot_us - b->calm_boot_us < r->quiet_us && boot_us - b->since_boot_us < r->ceiling_us;
}

void brake_step(struct brake *b, const struct brake_rules *r, const struct doubt *d, int64_t now_us,
                int64_t boot_us, const struct census_row *census, int n)
{
	int64_t was_silent = b->engaged ? b->silent : 0, ended = 0;
	assert(n == 0 || census != NULL);
	for (int i = 0; i < n; i++) {
		const struct brake_owner *old = brake_find(b, census[i].owner);
		ended += old && old->held && census[i].dead;
	}
	take_census(b, r, d, now_us, census, r->on ? n : 0);
	brake_gather(b, r);
	bool mass = is_mass(b, r), seen = ended * 2 > was_silent - b->silent;
	if (mass)
		b->calm_boot_us = 0;
	if (!mass && (seen || !awaits_the_rest(b, r, boot_us)))
		brake_release(b, seen ? "evidence" : "returned");
	else if (b->engaged && boot_us - b->since_boot_us >= r->ceiling_us)
		brake_release(b, "ceiling");
	else
		hold(b, now_us, boot_us);
}

bool brake_holds(const struct brake *b, const char *owner)
{
	const struct brake_owner *o = b->engaged ? brake_find(b, owner) : NULL;
	return o && o->held;
}

void brake_clear(struct brake *b)
{
	arena_release(&b->arenas[0]);
	arena_release(&b->arenas[1]);
	*b = (struct brake){0};
}
