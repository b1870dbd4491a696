/* SPDX-License-Identifier: Apache-2.0
 * engine_walk_test.h: the world of a random walk: a small model of a database that loses requests
 * and replies, refuses rows, becomes unavailable, declares workers dead and fails over to a copy
 * that is behind; and the state of each engine's driver.
 */
#ifndef WORKER_ENGINE_WALK_TEST_H
#define WORKER_ENGINE_WALK_TEST_H

#include "base/test.h"
#include "base/text.h"
#include "worker/engine.h"

#include <stdlib.h>

#define JOBS 14
#define POOLS 3
#define ENGINES 2
#define IDS 256
#define SPOOL_MOST 512
#define SECOND 1000000

enum state { READY, RUNNING, OVER };

struct row {
	enum state state;
	int64_t owner, epoch;
	int64_t last_owner, last_epoch; /* of the end that was accepted last */
	enum settle_as last_as;
	bool cancel;
};

struct database {
	struct row jobs[JOBS];
	bool alive[IDS];
};

struct record {
	int job;
	int64_t worker, epoch;
	enum settle_as as;
};

struct runner {
	struct engine *e;
	int64_t worker;
	enum lease_contact contact;
	struct turn *turn;
	bool executed;
	bool timeline, told[POOLS]; /* there was a failover; it was reported, and not compared yet */
	struct job *runs[64];
	int64_t begun[64]; /* in which timeline */
	int nruns;
	struct job *waits[64]; /* started, and not begun: there is no place for them */
	int nwaits;
	struct record spool[SPOOL_MOST];
	int nspool;
	int64_t concurrency[POOLS], ahead[POOLS];
	int64_t compare_us;
};

struct world {
	unsigned seed;
	uint64_t random;
	int64_t now, ids, timeline;
	struct database db, copy;
	bool away, healed;
	bool refuses[JOBS];
	struct runner runners[ENGINES];
};

#define check(w, holds, what)                                                                      \
	do {                                                                                           \
		if (!(holds))                                                                              \
			fail_msg("seed %u at %lld: %s", (w)->seed, (long long)(w)->now, what);                 \
	} while (0)

static inline uint64_t roll(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 11) % n;
}

/* With a chance of one in n, while things may go wrong. */
static inline bool fault(struct world *w, uint64_t n)
{
	return !w->healed && roll(w, n) == 0;
}

static inline int number(const char *key)
{
	return (int)strtol(key, NULL, 10);
}

/* Pools 0 and 1 have the same jobs, distinguished by kind; pool 2 has others. */
static inline int pool_of(int job)
{
	return job % POOLS;
}

static inline bool in_family(int job, int pool)
{
	return (pool == 2) == (pool_of(job) == 2);
}

/* ---- the database ---- */

static inline void declare_dead(struct world *w, int64_t id)
{
	w->db.alive[id] = false;
	for (int i = 0; i < JOBS; i++)
		if (w->db.jobs[i].state == RUNNING && w->db.jobs[i].owner == id)
			w->db.jobs[i].state = READY;
}

/* Whether it is accepted; a repeated settlement that was accepted before is accepted again. */
static inline bool settle(struct world *w, int job, int64_t worker, int64_t epoch,
                          enum settle_as as)
{
	struct row *row = &w->db.jobs[job];
	if (row->last_owner == worker && row->last_epoch == epoch) {
		check(w, row->last_as == as, "one run was told to have ended in two ways");
		return true;
	}
	if (row->state != RUNNING || row->owner != worker || row->epoch != epoch)
		return false;
	row->last_owner = worker;
	row->last_epoch = epoch;
	row->last_as = as;
	row->state = as == SETTLE_DONE || (as == SETTLE_STOPPED && row->cancel) ? OVER : READY;
	return true;
}

static inline void drain(struct world *w, struct runner *r, struct turn_part *p)
{
	int left = 0;
	for (int i = 0; i < r->nspool; i++) {
		const struct record *one = &r->spool[i];
		if (in_family(one->job, p->pool) && !w->refuses[one->job])
			settle(w, one->job, one->worker, one->epoch, one->as);
		else
			r->spool[left++] = *one;
	}
	p->spooled = 0;
	r->nspool = left;
	for (int i = 0; i < left; i++)
		p->spooled += in_family(r->spool[i].job, p->pool);
}

static inline void do_ends(struct world *w, struct turn_part *p, struct arena *a)
{
	static const struct failure refused = {.code = DEFIB_CONSTRAINT, .what = "refused"};
	static const struct failure behind = {.code = DEFIB_CONNECTION, .what = "behind"};
	p->why = ARENA_ARRAY(a, const struct failure *, p->nends + 1);
	for (int i = 0; i < p->nends; i++) {
		struct settlement *end = &p->ends[i];
		int job = number(end->key);
		if (p->drain && p->spooled > 0)
			p->why[i] = &behind;
		else if (w->refuses[job])
			p->why[i] = &refused;
		else
			end->accepted = settle(w, job, p->worker, end->epoch, end->as);
	}
}

static inline void do_claim(struct world *w, struct turn_part *p, struct arena *a)
{
	p->claims = ARENA_ARRAY(a, struct claimed, p->room + 1);
	for (int i = 0; i < JOBS && p->nclaims < p->room; i++) {
		struct row *row = &w->db.jobs[i];
		if (row->state != READY || pool_of(i) != p->pool)
			continue;
		row->state = RUNNING;
		row->owner = p->claimer;
		row->epoch = (row->epoch % 1000 + 1) + w->timeline * 1000;
		p->claims[p->nclaims++] = (struct claimed){
			.key = arena_printf(a, "%d", i), .epoch = row->epoch, .alone = roll(w, 12) == 0};
	}
}

static inline bool is_kept(const struct runner *r, int job, const struct row *row)
{
	for (int i = 0; i < r->nspool; i++)
		if (r->spool[i].job == job && r->spool[i].worker == row->owner &&
		    r->spool[i].epoch == row->epoch)
			return true;
	return false;
}

static inline struct settlement *named(struct world *w, const struct runner *r,
                                       const struct turn_part *p, bool cancelled, struct arena *a,
                                       int *n)
{
	struct settlement *all = ARENA_ARRAY(a, struct settlement, JOBS);
	for (int i = 0; i < JOBS; i++) {
		const struct row *row = &w->db.jobs[i];
		if (row->state == RUNNING && row->owner == p->claimer && in_family(i, p->pool) &&
		    (cancelled ? row->cancel : !is_kept(r, i, row)))
			all[(*n)++] = (struct settlement){.key = arena_printf(a, "%d", i), .epoch = row->epoch};
	}
	return all;
}

static inline void lose(struct turn_part *p, defib_err err)
{
	p->err = p->f.code = err;
	p->beat_err = p->nbeats > 0 ? err : DEFIB_OK;
	p->away = true;
}

/* All of a part, or nothing of it; and its reply may be lost. */
static inline void do_part(struct world *w, struct runner *r, struct turn_part *p, struct arena *a)
{
	if (w->away || fault(w, 12)) {
		lose(p, fault(w, 2) ? DEFIB_TIMEOUT : DEFIB_CONNECTION);
		return;
	}
	if (p->drain)
		drain(w, r, p);
	do_ends(w, p, a);
	p->gone = p->claimer && !w->db.alive[p->claimer];
	if (p->claimer && !p->gone) {
		do_claim(w, p, a);
		if (p->cancels)
			p->cancelling = named(w, r, p, true, a, &p->ncancelling);
		if (p->compares)
			p->has = named(w, r, p, false, a, &p->nhas);
	}
	for (int i = 0; i < p->nbeats; i++) {
		const struct row *row = &w->db.jobs[number(p->beats[i].key)];
		p->beats[i].lost = row->owner != p->claimer || row->epoch != p->beats[i].epoch;
	}
	if (!fault(w, 12))
		return;
	p->why = NULL;
	p->gone = false;
	p->nclaims = p->ncancelling = p->nhas = 0;
	lose(p, DEFIB_UNKNOWN_OUTCOME);
}

/* The standby that takes over lacks the last few changes. */
static inline void fail_over(struct world *w)
{
	w->db = w->copy;
	w->timeline++;
	for (int i = 0; i < ENGINES; i++)
		w->runners[i].timeline = true;
}

#endif
