/* SPDX-License-Identifier: Apache-2.0
 * doubt.c: which outage excuses a silence, and until when.
 *
 * A silence has a deadline: alive + limit. An outage matters to it if it began before the deadline
 * (otherwise the job was already stuck) and ended less than min(limit, quiet) before it (otherwise
 * there was enough time to be heard). From the end of the first outage that matters, that much
 * clean time must pass; later outages only stop the clock. So the total postponement is at most the
 * time of the outages plus one quiet window.
 *
 * Only 32 outages are kept. To add another, two neighbours are merged into one that covers both:
 * what was excused stays excused. The gap between them is clean time that a silence which began
 * there no longer gets credit for; the pair with the smallest such loss, relative to the clean time
 * since, is merged. If the loss were above three times that for every pair, clean time would grow
 * fourfold with every second slot: 4^15 over the ring, gaps of 1 ms beside gaps of days. Hence at
 * least a quarter of all clean time counts, and a link that keeps breaking postpones a verdict by
 * the outages and at most four quiet windows.
 */
#include "guard/doubt.h"

#include <assert.h>
#include <stddef.h>

static int64_t doubt_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/*
 * The part of [from, to] within the outage; clean time inside counts only if the whole outage does.
 */
static int64_t outage_within(const struct outage *o, int64_t from_us, int64_t to_us)
{
	int64_t begin_us = most(o->begin_us, from_us), end_us = doubt_least(o->end_us, to_us);
	bool whole = begin_us == o->begin_us && end_us == o->end_us;
	if (begin_us >= end_us)
		return 0;
	return end_us - begin_us - (whole ? o->clean_us : 0);
}

int64_t doubt_clean_us(const struct doubt *d, int64_t from_us, int64_t to_us)
{
	int64_t clean_us = to_us - from_us;
	for (int i = d->n - 1; i >= 0 && d->outages[i].end_us > from_us; i--)
		clean_us -= outage_within(&d->outages[i], from_us, to_us);
	return most(clean_us, 0);
}

/* Merge two neighbours. */
static void cover(struct doubt *d, int i)
{
	assert(i >= 0 && i + 1 < d->n);
	struct outage *a = &d->outages[i], *b = a + 1;
	assert(a->end_us <= b->begin_us);
	b->clean_us += a->clean_us + (b->begin_us - a->end_us);
	b->begin_us = a->begin_us;
	d->n--;
	memmove(a, b, sizeof *a * (size_t)(d->n - i));
}

/* The pair whose merge loses the least clean time: see above. */
static int cheapest_pair(const struct doubt *d)
{
	int best = 0;
	double best_cost = 0;
	int64_t newest_us = d->outages[d->n - 1].end_us;
	for (int i = 0; i + 1 < d->n; i++) {
		const struct outage *a = &d->outages[i], *b = a + 1;
		int64_t lost_us = a->clean_us + b->clean_us + (b->begin_us - a->end_us);
		int64_t since_us = doubt_clean_us(d, b->end_us, newest_us);
		double cost = (double)lost_us / ((double)since_us + 1);
		if (i == 0 || cost < best_cost) {
			best = i;
			best_cost = cost;
		}
	}
	return best;
}

/* The clock went back: outages ahead of it are set to this moment, and are over. */
static void turn_back(struct doubt *d, int64_t now_us)
{
	int64_t begin_us = now_us;
	const char *cause = NULL;
	int n = d->n;
	while (d->n > 0 && d->outages[d->n - 1].end_us > now_us) {
		begin_us = doubt_least(begin_us, d->outages[--d->n].begin_us);
		cause = cause ? cause : d->outages[d->n].cause;
	}
	if (d->n < n)
		d->outages[d->n++] = (struct outage){begin_us, now_us, 0, cause};
	d->well_us = now_us;
}

void doubt_well(struct doubt *d, int64_t now_us)
{
	if (now_us < d->well_us)
		turn_back(d, now_us);
	d->well_us = now_us;
}

void doubt_outage(struct doubt *d, int64_t now_us, const char *cause)
{
	assert(cause != NULL);
	if (now_us < d->well_us) {
		/* After the clock was set back, its beginning is unknown: it covers everything before. */
		d->n = 0;
		d->well_us = 0;
	}
	struct outage *last = d->n ? &d->outages[d->n - 1] : NULL;
	d->total++;
	if (last && last->end_us >= d->well_us) {
		/* All was never well in between: the same outage continues. */
		last->end_us = now_us;
		last->cause = cause;
	} else {
		if (d->n == DOUBT_OUTAGES)
			cover(d, cheapest_pair(d));
		d->outages[d->n++] = (struct outage){d->well_us, now_us, 0, cause};
	}
	d->well_us = now_us;
	assert(d->n <= DOUBT_OUTAGES);
}

bool doubt_excuses(const struct doubt *d, int64_t alive_us, int64_t limit_us, int64_t quiet_us,
                   int64_t now_us, int64_t *until_us, const char **cause)
{
	int64_t deadline_us = alive_us + limit_us, needed_us = doubt_least(limit_us, quiet_us);
	assert(limit_us >= 0 && quiet_us >= 0);
	for (int i = 0; i < d->n; i++) {
		const struct outage *o = &d->outages[i];
		if (o->end_us <= deadline_us - needed_us)
			continue;
		if (o->begin_us >= deadline_us)
			return false;
		int64_t clean_us = doubt_clean_us(d, o->end_us, now_us);
		if (clean_us >= needed_us)
			return false;
		if (until_us)
			*until_us = most(deadline_us, now_us + needed_us - clean_us);
		if (cause)
			*cause = o->cause;
		return true;
	}
	return false;
}

/* ---- absence ---- */

#define TICK_US 3000000 /* a loop must tick at least this often */
#define LATE_US 2000000 /* a loop that continues this much too late was stopped */
#define JUMP_US 5000000 /* clocks that differ by more than this have jumped */

int64_t absence_jump_us(const struct clocks *last, const struct clocks *now)
{
	/* Both clocks should have advanced equally. */
	int64_t drift = (now->database_us - last->database_us) - (now->own_us - last->own_us);
	return drift > JUMP_US || drift < -JUMP_US ? drift : 0;
}

bool absence_stopped(int64_t due_us, int64_t now_us)
{
	return now_us - due_us > LATE_US;
}

void absence_tick(struct absence *v, int64_t boot_us)
{
	if (v->tick_us && absence_stopped(v->tick_us + TICK_US, boot_us))
		absence_begins(v, "this process was stopped or suspended");
	v->tick_us = boot_us;
}

void absence_server_started(struct absence *v, int64_t start_us)
{
	if (!v->opened && start_us > 0)
		doubt_outage(&v->doubt, start_us, "the server was started");
}

void absence_begins(struct absence *v, const char *cause)
{
	if (!v->cause)
		v->cause = cause;
}

void absence_state(struct absence *v, int64_t states)
{
	v->rewound = v->rewound || (v->opened && states != v->states);
	v->states = states;
}

/* Which heartbeats were lost is not known: silence of any length may be one of these. */
static void rewind_doubt(struct absence *v)
{
	v->doubt.n = 0;
	v->doubt.well_us = 0;
	v->cause = "the server failed over, or its file was replaced";
	v->rewound = false;
}

void absence_read(struct absence *v, int64_t opened, int64_t now_us, int64_t boot_us)
{
	struct clocks now = {boot_us, now_us};
	int64_t jump_us = v->opened ? absence_jump_us(&v->clocks, &now) : 0;
	absence_tick(v, boot_us);
	if (v->opened && opened != v->opened)
		absence_begins(v, "the session was lost");
	/* Set back: convert the last reading to the new clock. */
	if (jump_us < 0)
		doubt_well(&v->doubt, now_us - (boot_us - v->clocks.own_us));
	if (jump_us)
		absence_begins(v, "the database's clock jumped");
	if (v->rewound)
		rewind_doubt(v);
	if (v->cause)
		doubt_outage(&v->doubt, now_us, v->cause);
	else
		doubt_well(&v->doubt, now_us);
	v->cause = NULL;
	v->opened = opened;
	v->clocks = now;
}
