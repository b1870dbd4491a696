/* SPDX-License-Identifier: Apache-2.0
 * lives.c: the thread of a worker's life. What worker/life_thread.c does with a thread and a
 * session is done here with events.
 */
#include "sim.h"

static void life_tell_it(struct sim *s, struct process *p, const struct life_event *e)
{
	bool held = silence_holds(&p->life.silence);
	enum lease_contact before = life_contact(&p->life, boot_ms(s, p));
	int64_t outages = p->life.outages;
	life_tell(&p->life, e, boot_ms(s, p));
	p->away = p->away || p->life.outages != outages; /* sweeper_doubt() */
	s->marks[MARK_brake] |= !held && silence_holds(&p->life.silence);
	s->marks[MARK_brake_over] |= held && !silence_holds(&p->life.silence);
	if (before != life_contact(&p->life, boot_ms(s, p)))
		process_poke(s, p, THREAD_TURN);
}

static void watch_fellows(struct sim *s, struct process *p)
{
	struct incarnation who[2 * PART_SIDE];
	int64_t before[2 * PART_SIDE];
	int nbefore = p->nwatched;
	memcpy(before, p->watched, sizeof before);
	p->nwatched = part_fellows(&p->life.part, p->watched, who);
	for (int i = 0; i < p->nwatched; i++) {
		bool known = false;
		p->watched_pid[i] = (int)who[i].pid;
		for (int k = 0; k < nbefore; k++)
			known = known || before[k] == p->watched[i];
		if (!known && !process_of_pid(s, p->watched_pid[i]))
			process_exit_seen(s, p, p->watched[i], false);
	}
}

void process_exit_seen(struct sim *s, struct process *p, int64_t id, bool seen)
{
	if (p->nexits < 64) {
		p->exits[p->nexits].id = id;
		p->exits[p->nexits++].seen = seen;
	}
	process_poke(s, p, THREAD_LIFE);
}

static void sweep(struct sim *s, struct process *p, const struct life_action *a)
{
	bool tables = a->tables && part_sweeps(&p->life.part, &p->life.silence, s->watch.name);
	if (a->queue || tables)
		sweep_add(s, p,
		          (struct sweep){.queue = a->queue, .tables = tables, .dead_only = a->dead_only});
}

/* Actions that need no database. */
static bool life_here(struct sim *s, struct process *p, const struct life_action *a)
{
	switch (a->what) {
	case LIFE_RETURN:
		say(s, "process %d: worker %lld was declared dead", index_of(s, p), (long long)p->worker);
		s->marks[MARK_declared] = true;
		p->worker = 0;
		p->returns = true;
		process_poke(s, p, THREAD_TURN);
		return true;
	case LIFE_FELLOWS:
		watch_fellows(s, p);
		return true;
	case LIFE_RECOVER:
		sweep_add(s, p, (struct sweep){.dead = a->worker, .mass = a->mass});
		return true;
	case LIFE_SWEEP:
		sweep(s, p, a);
		return true;
	case LIFE_COMPARE:
		s->marks[MARK_compare] = true;
		s->compares++;
		p->compare = true;
		process_poke(s, p, THREAD_TURN);
		return true;
	default:
		return false;
	}
}

static void life_take_news(struct sim *s, struct process *p)
{
	life_tell_it(s, p, &(struct life_event){.what = LIFE_TIME});
	if (p->newcomer)
		life_tell_it(s, p, &(struct life_event){.what = LIFE_NEWCOMER});
	if (p->session_ended)
		life_tell_it(s, p, &(struct life_event){.what = LIFE_ENDED});
	p->newcomer = p->session_ended = false;
	for (int i = 0; i < p->nexits && life_has_room(&p->life); i++)
		life_tell_it(s, p,
		             &(struct life_event){
						 .what = LIFE_EXIT, .id = p->exits[i].id, .seen = p->exits[i].seen});
	p->nexits = 0;
}

void life_go(struct sim *s, struct process *p)
{
	struct thread *t = &p->threads[THREAD_LIFE];
	while (!t->call) {
		if (sweep_blocks_life(p))
			sweep_go(s, p);
		if (sweep_blocks_life(p))
			return;
		struct life_action a = life_next(&p->life, boot_ms(s, p));
		if (a.what == LIFE_WAIT) {
			process_wake_in(s, p, THREAD_LIFE, a.wait_ms * 1000);
			if (old(OLD_sweeps_on_life_session))
				sweep_go(s, p);
			return;
		} else if (life_here(s, p, &a)) {
			life_tell_it(s, p, &(struct life_event){.what = LIFE_DONE});
		} else {
			struct call *c = call_begin(s, p, THREAD_LIFE, CALL_LIFE);
			c->action = a;
			c->worker = p->life.worker;
			if (a.what == LIFE_REGISTER) /* incarnation_self(): each has its own nonce */
				p->who = who_of(p->host, p->pid, p->nonce = ++s->serial);
			c->nonce = p->nonce;
			c->holding = p->engine ? engine_holding(p->engine) : 0;
			call_send(s, c);
		}
	}
}

void life_answered(struct sim *s, struct process *p, const struct call *c, bool opened)
{
	if (opened)
		life_tell_it(s, p, &(struct life_event){.what = LIFE_OPENED, .locks = s->locks});
	struct life_event e = {.what = c->failed ? LIFE_FAILED : LIFE_DONE,
	                       .yes = c->yes,
	                       .refused = c->refused,
	                       .owned = c->owned,
	                       .holding = c->holding,
	                       .rows = c->rows,
	                       .nonces = c->ids,
	                       .n = c->n};
	bool registered = c->action.what == LIFE_REGISTER && !c->failed;
	bool locked = c->action.what == LIFE_LOCK && c->yes && !c->failed;
	p->unlucky += c->unlucky;
	if (p->former && (locked || boot_ms(s, p) >= lease_ends_ms(&p->life.lease))) {
		backend_end(s, p->former, false);
		p->former = 0;
	}
	if (registered) {
		e.worker = p->worker = c->worker;
		e.who = &p->who;
		s->marks[MARK_returned] |= p->returns;
		say(s, "process %d is worker %lld", index_of(s, p), (long long)c->worker);
	}
	if (c->failed || c->action.what == LIFE_RENEW || c->action.what == LIFE_LOCK)
		say(s, "process %d: life action %d %s%s, %s", index_of(s, p), (int)c->action.what,
		    c->failed ? "failed" : "done", c->lost ? ", session lost" : "", c->yes ? "yes" : "no");
	life_tell_it(s, p, &e);
	if (c->failed && !p->threads[THREAD_LIFE].backend)
		life_tell_it(s, p, &(struct life_event){.what = LIFE_ENDED});
	if (registered) {
		life_tell_it(s, p, &(struct life_event){.what = LIFE_STARTED});
		process_poke(s, p, THREAD_TURN);
	}
	life_go(s, p);
}

void life_wake(struct sim *s, struct process *p)
{
	if (sweep_blocks_life(p) && p->threads[THREAD_SWEEP].call)
		return;
	life_take_news(s, p);
	life_go(s, p);
}
