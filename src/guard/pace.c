/* SPDX-License-Identifier: Apache-2.0
 * pace.c: the token bucket for recovered work. It is full at the start, so that the few jobs of an
 * ordinary crash go at once. A flood goes at a rate that grows by half with every batch that
 * succeeded, and is halved by one that failed or was slow. The rate has a floor, so recovery in a
 * slow database never stops.
 */
#include "guard/pace.h"

#include <assert.h>

#define GROWTH 1.5
#define SHRINK 0.5
#define MOST_TIMES 20   /* the highest rate, as a multiple of the first */
#define FLOOR_SHARE 0.1 /* and shrinks to at least this share of it */
#define FLOOR_PER_S 1.0 /* but not below this, unless the first was */
#define BURST 100       /* default */
#define SLOW_US 2000    /* per job */
#define BATCH_LEAST 25  /* a transaction costs at least the time of this many jobs */
#define US_PER_SECOND 1e6

static double lesser(double a, double b)
{
	return a < b ? a : b;
}

static double pace_greater(double a, double b)
{
	return a > b ? a : b;
}

static double floor_of(const struct pace_rules *r)
{
	return lesser(r->per_s, pace_greater(FLOOR_PER_S, r->per_s * FLOOR_SHARE));
}

void pace_init(struct pace *p, const struct pace_rules *rules)
{
	assert(rules->per_s >= 0 && rules->most_per_s >= 0);
	*p = (struct pace){.rules = *rules, .rate = rules->per_s};
	struct pace_rules *r = &p->rules;
	r->burst = r->burst > 0 ? r->burst : BURST;
	r->slow_us = r->slow_us > 0 ? r->slow_us : SLOW_US;
	r->most_per_s =
		r->most_per_s > 0 ? pace_greater(r->most_per_s, r->per_s) : r->per_s * MOST_TIMES;
	p->tokens = (double)r->burst;
}

/*
 * The bucket holds at least one second's worth, so that a caller that comes once a second gets the
 * whole rate.
 */
static double pace_room(const struct pace *p)
{
	return pace_greater((double)p->rules.burst, p->rate);
}

/* The tokens at this moment. A clock that went back adds none. */
static double tokens_at(const struct pace *p, int64_t now_us)
{
	double s = p->begun && now_us > p->at_us ? (double)(now_us - p->at_us) / US_PER_SECOND : 0;
	return lesser(pace_room(p), p->tokens + s * p->rate);
}

int64_t pace_take(struct pace *p, int64_t want, int64_t now_us)
{
	assert(want >= 0);
	p->tokens = tokens_at(p, now_us);
	p->at_us = now_us;
	p->begun = true;
	if (p->paused)
		return 0;
	if (p->rules.per_s <= 0)
		return want;
	int64_t given = (int64_t)lesser((double)want, p->tokens);
	p->tokens -= (double)given;
	assert(given >= 0 && given <= want && p->tokens >= 0);
	return given;
}

void pace_give_back(struct pace *p, int64_t n)
{
	assert(n >= 0);
	p->tokens = lesser(pace_room(p), p->tokens + (double)n);
}

void pace_batch(struct pace *p, int64_t jobs, int64_t took_us, bool failed)
{
	const struct pace_rules *r = &p->rules;
	int64_t counted = jobs > BATCH_LEAST ? jobs : BATCH_LEAST;
	assert(jobs >= 0);
	if (!failed && jobs == 0)
		return;
	if (failed || took_us > counted * r->slow_us)
		p->rate = pace_greater(floor_of(r), p->rate * SHRINK);
	else
		p->rate = lesser(r->most_per_s, p->rate * GROWTH);
}

int64_t pace_eta_us(const struct pace *p, int64_t n, int64_t now_us)
{
	assert(n >= 0);
	if (p->paused)
		return -1;
	double short_of = (double)n - tokens_at(p, now_us);
	if (p->rules.per_s <= 0 || short_of <= 0)
		return 0;
	/* Rounded up: at that moment they can go. */
	return (int64_t)(short_of / p->rate * US_PER_SECOND) + 1;
}

void pace_pause(struct pace *p, bool paused)
{
	p->paused = paused;
}
