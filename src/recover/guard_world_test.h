/* SPDX-License-Identifier: Apache-2.0
 * guard_world_test.h: a world on a virtual clock for the properties of the guard: workers that
 * beat, die, stall and return; a database that goes down and whose clock is set; a daemon that is
 * stopped. The daemon is the real one as far as it is pure: absence, judge and guard.
 *
 * A live worker beats once per beat interval in which the database is up: if its beat failed, it
 * tries again as soon as the database answers. True time is our own clock; the database's is
 * `ahead_us` ahead of it.
 */
#ifndef RECOVER_GUARD_WORLD_TEST_H
#define RECOVER_GUARD_WORLD_TEST_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/test.h"
#include "guard/doubt.h"
#include "guard/guard.h"
#include "recover/decide.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define S US_PER_S
#define EPOCH_US (INT64_C(1767323045) * S) /* the database's clock at true time 0 */
#define MEN_MOST 1000
#define JOBS_MOST 2000
#define EVENTS_MOST 8192
#define LEAST_STEP_US S /* the daemon does not pass more often */

enum man_state { WELL, STALLED, GONE };
struct man {
	char name[16];
	enum man_state state;
	bool known_dead; /* its end was seen */
	bool pending;    /* it is alive, but the database was down when it last tried */
	bool seen_fresh; /* by a census of the daemon */
	int64_t phase_us, beat_us, sign_us; /* beat: true time of the last; sign: as written */
	int64_t held_us, held_beat_us;      /* since when the brake holds it, and for which silence */
	int running;                        /* jobs it still has */
};

struct job {
	char name[16];
	int man;
	bool running;
	int64_t let_us; /* true time at which it was let through; 0: not yet */
};

enum event_kind { DIE, DIE_SEEN, STALL, RETURN, DOWN, UP, PAUSE, STEP };
struct event {
	int64_t t_us;
	int order;
	enum event_kind kind;
	int64_t arg; /* the man, the length of a pause, the step */
};

struct world {
	uint64_t seed, dice;
	struct watch watch;
	int64_t interval_us; /* at which workers beat, also if the watch does not say so */
	int64_t t_us, up_us, ahead_us, end_us;
	bool up;
	struct man men[MEN_MOST];
	struct job jobs[JOBS_MOST];
	int nmen, njobs;
	struct event events[EVENTS_MOST];
	int nevents, at;
	/* the daemon */
	struct guard *guard;
	struct absence absence;
	int64_t next_us, every_us, tick_us, opened, first_us;
	bool session_lost, paused;
	struct outage outages[EVENTS_MOST]; /* all that it knew of */
	int noutages;
	int64_t passes, confirmed, let, paid;
	int64_t braking_since_us, brakes, failing_percent;
	/* what to expect */
	bool stepped, stepped_back;
};

#define EXPECT(w, what, text)                                                                      \
	do {                                                                                           \
		if (!(what))                                                                               \
			fail_msg("DEFIB_SEED=%" PRIu64 " at %.3f s: %s", (w)->seed, (double)(w)->t_us / 1e6,   \
			         text);                                                                        \
	} while (0)

/* splitmix64 */
static inline uint64_t roll(struct world *w)
{
	uint64_t z = (w->dice += UINT64_C(0x9E3779B97F4A7C15));
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* from..to, both included */
static inline int64_t between(struct world *w, int64_t from, int64_t to)
{
	return from + (int64_t)(roll(w) % (uint64_t)(to - from + 1));
}

static inline bool chance(struct world *w, int percent)
{
	return between(w, 0, 99) < percent;
}

static inline int64_t database_us(const struct world *w)
{
	return EPOCH_US + w->t_us + w->ahead_us;
}

static inline void world_event(struct world *w, int64_t t_us, enum event_kind kind, int64_t arg)
{
	assert_true(w->nevents < EVENTS_MOST);
	w->events[w->nevents] = (struct event){t_us, w->nevents, kind, arg};
	w->nevents++;
}

/* A beating watch of ordinary values; beat, limit, every may be changed before world_begin(). */
static inline struct world *world_new(uint64_t seed, int nmen, int njobs)
{
	struct world *w = mem_alloc(sizeof *w);
	assert_true(nmen > 0 && nmen <= MEN_MOST && njobs >= 0 && njobs <= JOBS_MOST);
	w->seed = seed;
	w->dice = seed * UINT64_C(0x2545F4914F6CDD1D) + 1;
	w->nmen = nmen;
	w->njobs = njobs;
	w->watch.alive_at.text = "alive_at";
	w->watch.owner.text = "owner";
	w->watch.beat_us = w->interval_us = 10 * S;
	w->watch.stuck_after = (struct threshold){.given = true, .standard_us = 60 * S};
	w->watch.guard = (struct guard_limits){.brake_share = 0.55,
	                                       .brake_owners = 2,
	                                       .brake_ceiling_us = 600 * S,
	                                       .pace_per_s = 50,
	                                       .pace_burst = 100};
	w->every_us = 10 * S;
	return w;
}

static inline void world_free(struct world *w)
{
	guard_free(w->guard);
	free(w);
}

static inline int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->t_us != y->t_us)
		return x->t_us < y->t_us ? -1 : 1;
	return x->order - y->order;
}

static inline void world_begin(struct world *w)
{
	w->up = true;
	w->opened = 1;
	w->guard = guard_new(&w->watch);
	for (int i = 0; i < w->nmen; i++) {
		struct man *m = &w->men[i];
		(void)snprintf(m->name, sizeof m->name, "man-%d", i);
		m->phase_us = between(w, 0, w->interval_us - 1) - w->interval_us;
		m->beat_us = m->phase_us;
		m->sign_us = EPOCH_US + m->phase_us;
	}
	for (int i = 0; i < w->njobs; i++) {
		w->jobs[i] = (struct job){.man = i % w->nmen, .running = true};
		(void)snprintf(w->jobs[i].name, sizeof w->jobs[i].name, "job-%d", i);
		w->men[i % w->nmen].running++;
	}
	qsort(w->events, (size_t)w->nevents, sizeof *w->events, by_time);
	w->next_us = between(w, 0, w->every_us);
}

static inline void beat_now(struct world *w, struct man *m)
{
	m->pending = !w->up;
	m->phase_us = w->up_us;
	if (!w->up)
		return;
	m->beat_us = w->t_us;
	m->sign_us = database_us(w);
}

/* Only beats happen until t: the last one of each is visible. */
static inline void world_advance(struct world *w, int64_t t_us)
{
	int64_t before_us = w->up_us;
	assert_true(t_us >= w->t_us);
	if (w->up)
		w->up_us += t_us - w->t_us;
	w->t_us = t_us;
	for (int i = 0; w->up && i < w->nmen; i++) {
		struct man *m = &w->men[i];
		int64_t since_us = (w->up_us - m->phase_us) % w->interval_us;
		if (m->state != WELL || w->up_us - since_us <= before_us)
			continue;
		m->beat_us = t_us - since_us;
		m->sign_us = EPOCH_US + m->beat_us + w->ahead_us;
	}
}

static inline void set_up_or_down(struct world *w, bool up)
{
	w->up = up;
	w->session_lost |= !up;
	for (int i = 0; up && i < w->nmen; i++)
		if (w->men[i].state == WELL && w->men[i].pending)
			beat_now(w, &w->men[i]);
}

static inline void set_state(struct world *w, struct man *m, enum event_kind kind)
{
	if (m->state == GONE)
		return;
	m->state = kind == RETURN ? WELL : kind == STALL ? STALLED : GONE;
	m->known_dead = kind == DIE_SEEN;
	if (kind == RETURN)
		beat_now(w, m);
}

static inline void world_happens(struct world *w, const struct event *e)
{
	switch (e->kind) {
	case DIE:
	case DIE_SEEN:
	case STALL:
	case RETURN:
		set_state(w, &w->men[e->arg], e->kind);
		break;
	case DOWN:
	case UP:
		set_up_or_down(w, e->kind == UP);
		break;
	case PAUSE:
		if (w->next_us < w->t_us + e->arg)
			w->next_us = w->t_us + e->arg;
		w->paused = true;
		break;
	case STEP:
		w->ahead_us += e->arg;
		w->stepped = true;
		w->stepped_back |= e->arg < 0;
		break;
	}
}

#endif
