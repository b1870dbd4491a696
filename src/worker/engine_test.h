/* SPDX-License-Identifier: Apache-2.0
 * engine_test.h: an engine under test: events go in with injected time, its actions are recorded,
 * and the test completes its turns.
 */
#ifndef WORKER_ENGINE_TEST_H
#define WORKER_ENGINE_TEST_H

#include "base/test.h"
#include "base/text.h"
#include "worker/engine.h"

#define SECOND 1000000
#define MILLI 1000
#define SELF 7 /* our incarnation */

struct rig {
	struct engine *e;
	int64_t now;
	double chance;
	struct turn *turn;      /* under way */
	struct buf progress;    /* actions since the last check */
	struct job *runs[2048]; /* started, and not ended */
	int nruns;
	struct job *spool; /* of the last ACTION_SPOOL */
};

static inline const char *action_name(enum engine_action_kind kind)
{
	static const char *const names[] = {
		[ACTION_START] = "start",         [ACTION_STOP] = "stop",
		[ACTION_TURN] = "turn",           [ACTION_SPOOL] = "spool",
		[ACTION_SETTLED] = "settled",     [ACTION_REFUSED] = "refused",
		[ACTION_FORGOTTEN] = "forgotten", [ACTION_GIVEN_UP] = "given up",
		[ACTION_STRAY] = "stray",         [ACTION_FAILED] = "failed",
		[ACTION_NO_BEAT] = "no beat",     [ACTION_BREAKER] = "breaker",
		[ACTION_RETURN] = "return",
	};
	return names[kind];
}

static inline void rig_note(struct rig *r, const struct engine_action *a)
{
	buf_addf(&r->progress, "%s%s", r->progress.len ? ", " : "", action_name(a->kind));
	for (const struct job *j = a->job; j; j = a->kind == ACTION_SPOOL ? j->queued : NULL)
		buf_addf(&r->progress, " %s", j->claim.key);
	if (a->kind == ACTION_BREAKER)
		buf_add(&r->progress, a->yes ? " opens" : " closes");
	if (a->kind == ACTION_NO_BEAT)
		buf_addf(&r->progress, " %lld%s", (long long)a->count, a->yes ? "" : ", given up");
	if (a->kind == ACTION_START)
		r->runs[r->nruns++] = a->job;
	if (a->kind == ACTION_SPOOL)
		r->spool = a->job;
	if (a->kind == ACTION_TURN) {
		assert_null(r->turn);
		r->turn = a->turn;
	}
}

static inline void rig_step(struct rig *r, struct engine_event ev)
{
	struct engine_action a;
	ev.chance = r->chance;
	engine_step(r->e, &ev, r->now);
	while (engine_next(r->e, &a))
		rig_note(r, &a);
}

static inline void rig_tell(struct rig *r, enum engine_event_kind kind)
{
	rig_step(r, (struct engine_event){.kind = kind});
}

static inline void rig_after(struct rig *r, int64_t us)
{
	r->now += us;
	rig_tell(r, EVENT_TICK);
}

static inline void rig_life(struct rig *r, int64_t worker, enum lease_contact contact)
{
	rig_step(r, (struct engine_event){.kind = EVENT_LIFE, .worker = worker, .contact = contact});
}

static inline struct rig rig_with(struct engine_options o)
{
	struct rig r = {.now = 100 * SECOND};
	r.e = engine_new(&o, r.now);
	rig_life(&r, SELF, CONTACT_GOOD);
	return r;
}

/* One pool of so many slots that polls every second; its first turn is under way. */
static inline struct rig rig_open(int64_t slots)
{
	struct engine_pool pool = {.concurrency = slots, .poll_ms = 1000};
	return rig_with((struct engine_options){.pools = &pool, .npools = 1, .grace_ms = 5000});
}

static inline void rig_close(struct rig *r)
{
	buf_release(&r->progress);
	engine_free(r->e);
}

/* The actions, once. */
#define assert_said(r, text)                                                                       \
	do {                                                                                           \
		assert_string_equal(buf_text(&(r)->progress), text);                                       \
		(r)->progress.len = 0;                                                                     \
		buf_add(&(r)->progress, "");                                                               \
	} while (0)

static inline void rig_forget(struct rig *r)
{
	buf_release(&r->progress);
}

static inline struct turn_part *rig_part(struct rig *r, int pool)
{
	assert_non_null(r->turn);
	for (int i = 0; i < r->turn->nparts; i++)
		if (r->turn->parts[i].pool == pool)
			return &r->turn->parts[i];
	return NULL;
}

/* Jobs for the claim of a part: letters, each a key. */
static inline void rig_give(struct rig *r, int pool, const char *keys)
{
	struct turn_part *p = rig_part(r, pool);
	assert_non_null(p);
	assert_true((int64_t)strlen(keys) <= p->room);
	p->nclaims = (int)strlen(keys);
	p->claims = ARENA_ARRAY(&r->turn->arena, struct claimed, p->nclaims + 1);
	for (int i = 0; i < p->nclaims; i++)
		p->claims[i] =
			(struct claimed){.key = arena_strndup(&r->turn->arena, keys + i, 1), .epoch = 1};
}

/* Keys and epochs, as what the database says that we have or that was cancelled. */
static inline struct settlement *rig_keys(struct rig *r, const char *keys, int *n)
{
	struct settlement *all = ARENA_ARRAY(&r->turn->arena, struct settlement, strlen(keys) + 1);
	*n = (int)strlen(keys);
	for (int i = 0; i < *n; i++)
		all[i] =
			(struct settlement){.key = arena_strndup(&r->turn->arena, keys + i, 1), .epoch = 1};
	return all;
}

/* The turn is complete as it is; ends are accepted unless set otherwise. */
static inline void rig_answer(struct rig *r)
{
	struct turn *t = r->turn;
	assert_non_null(t);
	r->turn = NULL;
	rig_step(r, (struct engine_event){.kind = EVENT_TURN, .turn = t});
}

static inline void rig_accept(struct rig *r)
{
	for (int i = 0; i < r->turn->nparts; i++)
		for (int k = 0; k < r->turn->parts[i].nends; k++)
			r->turn->parts[i].ends[k].accepted = true;
	rig_answer(r);
}

static inline void rig_fail(struct rig *r, defib_err err, bool away)
{
	for (int i = 0; i < r->turn->nparts; i++) {
		struct turn_part *p = &r->turn->parts[i];
		p->err = p->f.code = err;
		p->away = away;
		if (p->nbeats > 0)
			p->beat_err = err;
	}
	rig_answer(r);
}

/* The turn under way claims these, for pool 0. */
static inline void rig_claim(struct rig *r, const char *keys)
{
	rig_give(r, 0, keys);
	rig_accept(r);
}

static inline struct job *rig_take(struct rig *r, char key)
{
	for (int i = 0; i < r->nruns; i++) {
		struct job *j = r->runs[i];
		if (j->claim.key[0] != key)
			continue;
		r->runs[i] = r->runs[--r->nruns];
		return j;
	}
	fail_msg("%c does not run", key);
	return NULL;
}

/* Jobs, by their letters, end together. */
static inline void rig_end_as(struct rig *r, const char *keys, enum settle_as as)
{
	struct job *first = NULL, **tail = &first;
	for (; *keys; keys++) {
		struct job *j = rig_take(r, *keys);
		j->as = as;
		j->queued = NULL;
		*tail = j;
		tail = &j->queued;
	}
	rig_step(r, (struct engine_event){.kind = EVENT_ENDED, .job = first});
}

static inline void rig_end(struct rig *r, const char *keys)
{
	rig_end_as(r, keys, SETTLE_DONE);
}

static inline void rig_spooled(struct rig *r, bool kept)
{
	struct job *j = r->spool;
	r->spool = NULL;
	rig_step(r, (struct engine_event){.kind = EVENT_SPOOLED, .job = j, .yes = kept});
}

#endif
