/* SPDX-License-Identifier: Apache-2.0
 * sweeps.c: a worker's sweeper, as worker/sweeper.c: jobs of dead workers, jobs without an owner,
 * and the watched table. It has a thread and a session of its own, and its statements may be slow.
 */
#include "sim.h"

#define TRIES 2 /* of a step whose session was lost */

static bool is_old(void)
{
	return old(OLD_sweeps_on_life_session) || old(OLD_sweeps_before_renewals);
}

bool sweep_blocks_life(const struct process *p)
{
	if (old(OLD_sweeps_before_renewals))
		return p->sweep_step != SWEEP_IDLE || p->nsweeps > 0;
	return old(OLD_sweeps_on_life_session) && p->threads[THREAD_SWEEP].call;
}

/* Sweeps that wait are one; dead workers come first. */
void sweep_add(struct sim *s, struct process *p, struct sweep task)
{
	int n = p->nsweeps, at = n;
	while (task.dead && at > 0 && !p->sweeps[at - 1].dead)
		at--;
	if (!task.dead && n > 0 && !p->sweeps[n - 1].dead) {
		struct sweep *last = &p->sweeps[n - 1];
		last->queue |= task.queue;
		last->tables |= task.tables;
		last->dead_only = task.dead_only;
	} else if (n < (int)(sizeof p->sweeps / sizeof *p->sweeps)) {
		memmove(p->sweeps + at + 1, p->sweeps + at, sizeof *p->sweeps * (size_t)(n - at));
		p->sweeps[at] = task;
		p->nsweeps++;
	}
	process_poke(s, p, THREAD_SWEEP);
}

/* ---- steps ---- */

static void send(struct sim *s, struct process *p, struct call *c)
{
	if (old(OLD_sweeps_on_life_session)) {
		int64_t shared = p->threads[THREAD_LIFE].backend;
		session_set(s, p, THREAD_LIFE, 0);
		session_set(s, p, THREAD_SWEEP, shared);
	}
	call_send(s, c);
}

/* The life uses what is left of its session, and is not told if that is another one. */
static void give_session_back(struct sim *s, struct process *p)
{
	int64_t shared = p->threads[THREAD_SWEEP].backend;
	if (!old(OLD_sweeps_on_life_session))
		return;
	session_set(s, p, THREAD_SWEEP, 0);
	session_set(s, p, THREAD_LIFE, shared);
	if (shared)
		p->opened[THREAD_LIFE] = shared;
}

/* Without an answer to CALL_HEAR nothing is recovered: the watch may be paused. */
static bool is_swept(struct sim *s, const struct process *p)
{
	const struct sweep *t = &p->sweep;
	if (!s->sweeps || (!t->dead && !t->tables))
		return false;
	s->marks[MARK_sweep_paused] |= p->paused;
	s->marks[MARK_sweep_led] |= !t->dead && p->led;
	return !p->paused && (t->dead || !p->led);
}

/* The statement of the current step, or of the next one that has any; false: the task is over. */
static bool step(struct sim *s, struct process *p)
{
	const struct sweep *t = &p->sweep;
	if (p->sweep_step == SWEEP_HEAR && !s->sweeps)
		p->sweep_step = SWEEP_QUEUE;
	if (p->sweep_step == SWEEP_QUEUE && !t->dead && !t->queue)
		p->sweep_step = SWEEP_LOOK;
	if (p->sweep_step == SWEEP_LOOK && !is_swept(s, p))
		return false;
	if (p->sweep_step == SWEEP_LOOK)
		p->absence.tick_us = 0; /* between passes it was not stopped */
	struct call *c = call_begin(s, p, THREAD_SWEEP,
	                            p->sweep_step == SWEEP_HEAR    ? CALL_HEAR
	                            : p->sweep_step == SWEEP_QUEUE ? CALL_RECOVER
	                                                           : CALL_LOOK);
	c->dead = t->dead;
	c->mass = t->mass;
	send(s, p, c);
	return true;
}

static void end_task(struct sim *s, struct process *p)
{
	s->marks[MARK_slow_sweep] |= s->now - p->sweep_us > s->lease_ms * 1000;
	p->sweep_step = SWEEP_IDLE;
}

static void begin_task(struct sim *s, struct process *p)
{
	p->sweep = p->sweeps[0];
	p->nsweeps--;
	memmove(p->sweeps, p->sweeps + 1, sizeof *p->sweeps * (size_t)p->nsweeps);
	if (p->away)
		absence_begins(&p->absence, "the worker was away from the database");
	p->away = false;
	p->sweep_step = SWEEP_HEAR;
	p->sweep_tries = 0;
	p->sweep_us = s->now;
}

void sweep_go(struct sim *s, struct process *p)
{
	if (p->threads[THREAD_SWEEP].call || (is_old() && p->threads[THREAD_LIFE].call))
		return;
	while (p->sweep_step != SWEEP_IDLE || p->nsweeps > 0) {
		if (p->sweep_step == SWEEP_IDLE)
			begin_task(s, p);
		if (step(s, p))
			return;
		end_task(s, p);
	}
}

/* ---- answers ---- */

/* What was read is judged; true: there is something to write. */
static bool looked(struct sim *s, struct process *p, const struct call *c)
{
	bool silent = pass_begin(s, p, c);
	struct call *next = call_begin(s, p, THREAD_SWEEP, CALL_APPLY);
	pass_judge(s, p, c, silent, next);
	if (next->nseen == 0) {
		p->threads[THREAD_SWEEP].call = NULL;
		free(next);
		return false;
	}
	p->sweep_step = SWEEP_APPLY;
	send(s, p, next);
	return true;
}

static void heard(struct sim *s, struct process *p, const struct call *c)
{
	if (!p->asked)
		absence_server_started(&p->absence, c->started_us);
	p->asked = true;
	pass_hear(s, p, c);
	p->sweep_step = SWEEP_QUEUE;
}

void sweep_answered(struct sim *s, struct process *p, const struct call *c)
{
	bool again = c->failed && c->lost && c->kind != CALL_APPLY && p->sweep_tries++ < TRIES;
	give_session_back(s, p);
	s->marks[MARK_sweep_reopened] |= again;
	if (c->failed && !again && c->kind == CALL_LOOK)
		absence_begins(&p->absence, "cannot query the database");
	if (c->kind == CALL_APPLY)
		pass_applied(p, c);
	if (c->kind == CALL_HEAR && !c->failed)
		heard(s, p, c);
	else if (c->kind == CALL_RECOVER && !again)
		p->sweep_step = SWEEP_LOOK;
	else if (c->kind == CALL_LOOK && !c->failed && looked(s, p, c))
		return;
	else if (!again)
		end_task(s, p);
	/* On the session of a life, renewals go in between; a lost one is replaced at once. */
	if (again || !old(OLD_sweeps_on_life_session))
		sweep_go(s, p);
	if (is_old() && !sweep_blocks_life(p))
		process_poke(s, p, THREAD_LIFE);
}
