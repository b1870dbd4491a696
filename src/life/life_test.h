/* SPDX-License-Identifier: Apache-2.0
 * life_test.h: a model of a database that replaces the driver of a life: actions are counted, and
 * time passes as the test says.
 */
#ifndef LIFE_LIFE_TEST_H
#define LIFE_LIFE_TEST_H

#include "life/life.h"

#include "base/test.h"

#include <string.h>

#define MANY 1000
#define LEASE_MS 15000
#define SELF 4

/* Workers 1…n, of which SELF is ours; live ones renew every third of their lease. */
struct world {
	struct life life;
	struct registered rows[MANY];
	bool beats[MANY], gone[MANY];
	int n;
	int64_t now_ms, clock_us; /* ours; the database's is that plus clock_us */
	int64_t self;             /* 0: not registered yet */
	bool writes, reads;       /* can we? */
	bool closed;              /* no worker is registered */
	bool lock_taken;          /* by an old session of ours */
	bool leads;               /* a lock to read often is free */
	bool locked[MANY];        /* whose locks are held */
	bool dead_self;           /* we were declared dead */
	int64_t owned, holding;   /* our jobs */
	bool left;
	int done[LIFE_SWEEP + 1];
	int64_t rows_read;
	int64_t dead[MANY];
	const char *causes[MANY];
	struct death last_death;
	int ndead;
	bool mass[MANY];
	int nmass;
	struct life_action last_sweep;
};

static inline struct incarnation who_of(int64_t id, bool far)
{
	struct incarnation who = {.pid = (pid_t)(1000 + id), .pid_ns = 1, .start = 1};
	snprintf(who.host, sizeof who.host, far ? "far" : "here");
	snprintf(who.boot_id, sizeof who.boot_id, far ? "b2" : "b1");
	return who;
}

static inline void enter(struct world *w, int64_t id, bool far)
{
	w->rows[id - 1] = (struct registered){.id = id,
	                                      .who = who_of(id, far),
	                                      .lease_us = LEASE_MS * 1000,
	                                      .stamp_us = w->now_ms * 1000 + w->clock_us,
	                                      .serves = "queue"};
	w->beats[id - 1] = true;
	w->locked[id - 1] = far;
	w->n = w->n < id ? (int)id : w->n;
}

static inline void begin(struct world *w, int n)
{
	*w = (struct world){
		.now_ms = 1000000, .clock_us = 1800000000000000, .writes = true, .reads = true};
	struct life_rules rules = {.lease = lease_rules_of(LEASE_MS), .look_ms = 5000};
	life_init(&w->life, &rules);
	for (int64_t id = 1; id <= n; id++)
		if (id != SELF)
			enter(w, id, false);
	w->n = n > SELF ? n : SELF;
	w->gone[SELF - 1] = true; /* until we register */
}

static inline void tell(struct world *w, const struct life_event *e)
{
	life_tell(&w->life, e, w->now_ms);
}

static inline bool alive(const struct world *w, int64_t id)
{
	return w->rows[id - 1].id && !w->gone[id - 1];
}

/* What registry_alive() or registry_near() would read. */
static inline int read_list(struct world *w, bool whole, struct registered *out)
{
	struct registered all[MANY];
	int n = 0, self = 0, kept = 0;
	for (int i = 0; i < w->n; i++) {
		if (!alive(w, i + 1))
			continue;
		self = w->rows[i].id == w->self ? n : self;
		all[n] = w->rows[i];
		all[n++].now_us = w->now_ms * 1000 + w->clock_us;
	}
	for (int i = 0; i < n; i++)
		if (whole || i < PART_SIDE || i >= n - PART_SIDE ||
		    (i >= self - PART_SIDE && i <= self + PART_SIDE))
			out[kept++] = all[i];
	w->rows_read += kept;
	return kept;
}

static inline void renew_row(struct world *w, int64_t id)
{
	w->rows[id - 1].stamp_us = w->now_ms * 1000 + w->clock_us;
}

static inline struct life_event declared(struct world *w, const struct life_action *a)
{
	const struct registered *r = &w->rows[a->worker - 1];
	bool same = a->death.stamp_us == 0 || a->death.stamp_us == r->stamp_us;
	int64_t now_us = w->now_ms * 1000 + w->clock_us;
	bool unheard = a->death.unheard_ms == 0 || now_us - r->stamp_us > a->death.unheard_ms * 1000;
	same = same && (a->death.clock_us == 0 || a->death.clock_us == now_us);
	struct life_event e = {.what = LIFE_DONE, .yes = alive(w, a->worker) && same && unheard};
	if (e.yes) {
		w->causes[w->ndead] = a->death.cause;
		w->last_death = a->death;
		w->dead[w->ndead++] = a->worker;
		w->gone[a->worker - 1] = true;
	}
	return e;
}

/* Actions that need the database, and their results. */
static inline struct life_event answer(struct world *w, const struct life_action *a,
                                       struct registered *rows, int64_t *ids)
{
	struct life_event e = {.what = LIFE_DONE};
	static struct incarnation self;
	switch (a->what) {
	case LIFE_REGISTER:
		e.worker = w->self = w->self ? w->n + 1 : SELF;
		self = who_of(w->self, false);
		enter(w, w->self, false);
		w->gone[w->self - 1] = w->beats[w->self - 1] = w->dead_self = false;
		e.who = &self;
		break;
	case LIFE_LOCK:
		e.yes = !w->lock_taken;
		break;
	case LIFE_RENEW:
		e.refused = w->dead_self;
		e.owned = w->owned;
		e.holding = w->holding;
		if (!e.refused)
			renew_row(w, w->self);
		break;
	case LIFE_LOOK:
		e.rows = rows;
		e.n = read_list(w, a->whole, rows);
		break;
	case LIFE_LOCKS:
		e.nonces = ids;
		for (int i = 0; i < w->n; i++)
			if (w->locked[i])
				ids[e.n++] = i + 1;
		e.yes = w->leads;
		break;
	case LIFE_DECLARE:
		return declared(w, a);
	case LIFE_LEFT:
		e.yes = w->left;
		break;
	case LIFE_RECOVER:
		w->mass[w->nmass++] = a->mass;
		break;
	case LIFE_SWEEP:
		w->last_sweep = *a;
		break;
	default:
		break;
	}
	return e;
}

static inline bool can(const struct world *w, enum life_do what)
{
	static const bool writes[LIFE_SWEEP + 1] = {
		[LIFE_REGISTER] = true, [LIFE_RENEW] = true, [LIFE_DECLARE] = true};
	static const bool here[LIFE_SWEEP + 1] = {[LIFE_RETURN] = true,
	                                          [LIFE_FELLOWS] = true,
	                                          [LIFE_COMPARE] = true,
	                                          [LIFE_RECOVER] = true,
	                                          [LIFE_SWEEP] = true};
	if (what == LIFE_REGISTER && w->closed)
		return false;
	return here[what] || (w->reads && (w->writes || !writes[what]));
}

/* Live workers renew when it is time. */
static inline void beat(struct world *w)
{
	for (int i = 0; i < w->n; i++) {
		int64_t age_us = w->now_ms * 1000 + w->clock_us - w->rows[i].stamp_us;
		bool due = age_us >= LEASE_MS * 1000 / 3 || age_us < 0;
		if (w->beats[i] && due && w->writes && i + 1 != w->self)
			renew_row(w, i + 1);
	}
}

/* As the driver would, for this long. */
static inline void run(struct world *w, int64_t ms)
{
	int64_t end = w->now_ms + ms;
	int steps = 0;
	for (;;) {
		struct registered rows[MANY];
		int64_t ids[MANY];
		struct life_action a = life_next(&w->life, w->now_ms);
		assert_true(steps++ < 100000);
		if (a.what == LIFE_WAIT) {
			int64_t wait = a.wait_ms < end - w->now_ms ? a.wait_ms : end - w->now_ms;
			if (w->now_ms >= end)
				return;
			for (int64_t left = wait; left > 0; left -= 100) {
				w->now_ms += left < 100 ? left : 100;
				beat(w);
			}
			tell(w, &(struct life_event){.what = LIFE_TIME});
			continue;
		}
		bool ok = can(w, a.what);
		w->done[a.what] += ok;
		struct life_event e = {.what = LIFE_FAILED};
		if (ok)
			e = answer(w, &a, rows, ids);
		tell(w, &e);
	}
}

static inline void live(struct world *w, int n)
{
	begin(w, n);
	tell(w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	run(w, 0);
	tell(w, &(struct life_event){.what = LIFE_STARTED});
	run(w, 2 * LEASE_MS);
	assert_int_equal(w->ndead, 0);
	memset(w->done, 0, sizeof w->done);
	w->rows_read = 0;
}

static inline void ends(struct world *w, int64_t id)
{
	w->beats[id - 1] = false;
	tell(w, &(struct life_event){.what = LIFE_EXIT, .id = id, .seen = true});
}

#endif
