/* SPDX-License-Identifier: Apache-2.0
 * process.c: a worker's process. What worker/life_thread.c and worker/worker_turns.c do with
 * threads and sessions is done here with events: they report events, carry out the actions of
 * engine and life, and sleep. A thread that waits for a reply does nothing else.
 */
#include "sim.h"

#include "store/store.h"

#define SLEEP_MOST_US SECOND
#define REOPEN_US (250 * MS)
#define SOON_US 100 /* how long a thread needs to wake up */

static void life_go(struct sim *s, struct process *p);
static void turn_go(struct sim *s, struct process *p);
static void sweep_go(struct sim *s, struct process *p);

static int index_of(const struct sim *s, const struct process *p)
{
	return (int)(p - s->processes);
}

void process_wake_in(struct sim *s, struct process *p, enum thread_name t, int64_t us)
{
	struct event *ev = after(s, us, EV_WAKE, index_of(s, p));
	ev->thread = t;
	ev->number = ++p->threads[t].wake;
}

void process_poke(struct sim *s, struct process *p, enum thread_name t)
{
	if (!p->threads[t].call)
		process_wake_in(s, p, t, SOON_US);
}

struct process *process_of_pid(struct sim *s, int pid)
{
	for (int i = 0; i < ALL; i++)
		if (s->processes[i].exists && s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

/* ---- the life thread ---- */

static void life_tell_it(struct sim *s, struct process *p, const struct life_event *e)
{
	bool held = silence_holds(&p->life.silence);
	enum lease_contact before = life_contact(&p->life, boot_ms(s, p));
	life_tell(&p->life, e, boot_ms(s, p));
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

static void recover(struct sim *s, struct process *p, int64_t dead, bool mass)
{
	if (p->nrecoveries < 64) {
		p->recoveries[p->nrecoveries].dead = dead;
		p->recoveries[p->nrecoveries++].mass = mass;
	}
	process_poke(s, p, THREAD_SWEEP);
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
		recover(s, p, a->worker, a->mass);
		return true;
	case LIFE_SWEEP:
		if (a->queue)
			recover(s, p, 0, false);
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

static void life_go(struct sim *s, struct process *p)
{
	struct thread *t = &p->threads[THREAD_LIFE];
	while (!t->call) {
		struct life_action a = life_next(&p->life, boot_ms(s, p));
		if (a.what == LIFE_WAIT) {
			process_wake_in(s, p, THREAD_LIFE, a.wait_ms * 1000);
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

static void life_answered(struct sim *s, struct process *p, const struct call *c, bool opened)
{
	if (opened)
		life_tell_it(s, p, &(struct life_event){.what = LIFE_OPENED, .locks = s->locks});
	struct life_event e = {.what = c->failed ? LIFE_FAILED : LIFE_DONE,
	                       .yes = c->yes,
	                       .refused = c->refused,
	                       .owned = c->owned,
	                       .holding = c->holding,
	                       .rows = c->rows,
	                       .ids = c->ids,
	                       .n = c->n};
	bool registered = c->action.what == LIFE_REGISTER && !c->failed;
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

/* ---- the turn thread ---- */

void process_step(struct sim *s, struct process *p, struct engine_event ev)
{
	ev.chance = (double)roll(s, 1000) / 1000;
	engine_step(p->engine, &ev, boot_us(s, p));
}

static void tell_life(struct sim *s, struct process *p)
{
	enum lease_contact contact = life_contact(&p->life, boot_ms(s, p));
	if (p->worker == p->told_worker && contact == p->told_contact)
		return;
	p->told_worker = p->worker;
	p->told_contact = contact;
	process_step(
		s, p, (struct engine_event){.kind = EVENT_LIFE, .worker = p->worker, .contact = contact});
}

static void tell_all(struct sim *s, struct process *p)
{
	tell_life(s, p);
	if (p->compare)
		process_step(s, p, (struct engine_event){.kind = EVENT_COMPARE});
	if (p->woken)
		process_step(s, p, (struct engine_event){.kind = EVENT_WOKEN});
	if (p->stop)
		process_step(s, p, (struct engine_event){.kind = EVENT_STOP});
	if (p->able > 0)
		process_step(s, p, (struct engine_event){.kind = EVENT_LACKS});
	for (; p->lacking > 0; p->lacking--)
		process_step(s, p, (struct engine_event){.kind = EVENT_LACKS, .yes = true});
	p->able = 0;
	p->compare = p->woken = p->stop = false;
	for (int i = 0; i < p->nended; i++) {
		p->ended[i]->queued = NULL;
		process_step(s, p, (struct engine_event){.kind = EVENT_ENDED, .job = p->ended[i]});
	}
	p->nended = 0;
	if (p->failed_over) {
		say(s, "process %d hears of the failover", index_of(s, p));
		process_step(s, p, (struct engine_event){.kind = EVENT_TIMELINE});
	}
	p->failed_over = false;
	process_step(s, p, (struct engine_event){.kind = EVENT_TICK});
}

static void send_part(struct sim *s, struct process *p)
{
	const struct turn_part *part = &p->turn->parts[p->part];
	struct call *c = call_begin(s, p, THREAD_TURN, CALL_PART);
	check_asked(s, p, part);
	c->part = p->part;
	c->pool = part->pool;
	c->claimer = part->claimer;
	c->room = part->room;
	c->drain = part->drain;
	c->cancels = part->cancels;
	c->compares = part->compares;
	spool_add(p, c);
	for (int i = 0; i < part->nends && i < SPOOL_MOST; i++)
		c->ends[c->nends++] = (struct end){.job = job_of(part->ends[i].key),
		                                   .pid = p->pid,
		                                   .worker = part->worker,
		                                   .epoch = part->ends[i].epoch,
		                                   .as = part->ends[i].as};
	call_send(s, c);
}

static void give_up(struct sim *s, const struct job *j)
{
	struct truth *t = truth_of(s, job_of(j->claim.key), j->worker, 0, j->claim.epoch);
	s->marks[MARK_given_up] = true;
	if (t)
		t->given_up = true;
}

static void do_action(struct sim *s, struct process *p, const struct engine_action *a)
{
	switch (a->kind) {
	case ACTION_START:
		run_start(s, p, a->job);
		break;
	case ACTION_STOP:
		s->marks[MARK_expired] |= a->job->lost && p->told_contact == CONTACT_EXPIRED;
		run_stop(s, p, a->job);
		break;
	case ACTION_RETURN:
		runs_return(s, p, a->pool);
		break;
	case ACTION_TURN:
		p->turn = a->turn;
		break;
	case ACTION_SPOOL:
		spool_keep(s, p, a->job, a->why);
		break;
	case ACTION_GIVEN_UP:
		give_up(s, a->job);
		break;
	case ACTION_STRAY:
		s->marks[MARK_stray] = true;
		break;
	default:
		break;
	}
}

/* Stopped: it leaves the list, if it can, and ends. */
static void leave(struct sim *s, struct process *p)
{
	check_left(s, p);
	if (reachable(s, p) && s->now >= s->down_until && s->now >= s->readonly_until) {
		model_leave(s, p);
		sqlite_leave(s, p);
	}
	s->marks[MARK_left] = true;
	process_end(s, index_of(s, p));
	after(s, about(s, SECOND), EV_RESTART, index_of(s, p));
}

static void turn_go(struct sim *s, struct process *p)
{
	struct thread *t = &p->threads[THREAD_TURN];
	struct engine_action a;
	if (t->call)
		return;
	tell_all(s, p);
	while (engine_next(p->engine, &a))
		do_action(s, p, &a);
	if (engine_finished(p->engine)) {
		leave(s, p);
		return;
	}
	if (p->turn && p->turn->nparts > 0) {
		p->part = 0;
		send_part(s, p);
		return;
	}
	if (p->turn) { /* progress alone */
		struct turn *turn = p->turn;
		p->turn = NULL;
		process_step(s, p, (struct engine_event){.kind = EVENT_TURN, .turn = turn});
		process_wake_in(s, p, THREAD_TURN, SOON_US);
		return;
	}
	if (spool_due(s, p)) {
		spool_offer(s, p);
		return;
	}
	if (!t->backend) {
		process_wake_in(s, p, THREAD_TURN, REOPEN_US);
		return;
	}
	int64_t us = engine_wait_us(p->engine, boot_us(s, p));
	process_wake_in(s, p, THREAD_TURN,
	                us > SLEEP_MOST_US ? SLEEP_MOST_US
	                : us < SOON_US     ? SOON_US
	                                   : us);
}

static struct settlement *named(struct turn *t, const struct end *ends, int n)
{
	struct settlement *out = ARENA_ARRAY(&t->arena, struct settlement, n + 1);
	for (int i = 0; i < n; i++)
		out[i] = (struct settlement){.key = arena_printf(&t->arena, "%d", ends[i].job),
		                             .epoch = ends[i].epoch};
	return out;
}

static void part_failed(struct sim *s, struct process *p, const struct call *c,
                        struct turn_part *part)
{
	part->err = c->denied     ? DEFIB_PERMISSION
	            : c->readonly ? DEFIB_READ_ONLY
	            : c->unknown  ? DEFIB_UNKNOWN_OUTCOME
	                          : DEFIB_CONNECTION;
	part->f.code = part->err;
	part->away = store_unavailable(part->err);
	if (c->denied && c->drain)
		spool_answered(s, p, c);
}

static void take_has(struct sim *s, struct process *p, const struct call *c, struct turn_part *part)
{
	struct end left[JOBS];
	if (part->timeline && !c->gone)
		spool_forget(s, p, c);
	for (int i = 0; i < c->nhas; i++)
		if (!spool_has(p, c, &c->has[i]))
			left[part->nhas++] = c->has[i];
	part->has = named(p->turn, left, part->nhas);
}

static void take_part(struct sim *s, struct process *p, const struct call *c)
{
	static const struct failure refused = {.code = DEFIB_CONSTRAINT, .what = "refused"};
	static const struct failure waits = {.code = DEFIB_CONNECTION, .what = "others wait"};
	struct turn *t = p->turn;
	struct turn_part *part = &t->parts[c->part];
	if (c->failed) {
		part_failed(s, p, c, part);
		return;
	}
	part->why = ARENA_ARRAY(&t->arena, const struct failure *, part->nends + 1);
	for (int i = 0; i < part->nends; i++) {
		part->ends[i].accepted = c->ends[i].accepted;
		part->why[i] = c->undrained ? &waits : c->ends[i].refused ? &refused : NULL;
	}
	part->gone = c->gone;
	part->claims = ARENA_ARRAY(&t->arena, struct claimed, c->nclaims + 1);
	for (int i = 0; i < c->nclaims; i++)
		part->claims[part->nclaims++] =
			(struct claimed){.key = arena_printf(&t->arena, "%d", c->claims[i].job),
		                     .epoch = c->claims[i].epoch,
		                     .alone = c->claims[i].alone,
		                     .timeline = s->timeline};
	part->cancelling = named(t, c->cancelling, c->ncancelling);
	part->ncancelling = c->ncancelling;
	if (c->drain && !c->undrained)
		spool_answered(s, p, c);
	take_has(s, p, c, part);
	part->spooled = spool_waiting(p, c->pool);
	if (part->nends > 0 && p->aside_taken)
		p->aside_us = 0;
}

static void part_answered(struct sim *s, struct process *p, const struct call *c)
{
	say(s, "process %d: part of pool %d %s%s%s%s, %d ends, %d claims", index_of(s, p), c->pool,
	    c->failed ? "failed" : "done", c->drain ? ", drains" : "", c->compares ? ", compares" : "",
	    c->gone ? ", gone" : "", c->nends, c->nclaims);
	take_part(s, p, c);
	if (++p->part < p->turn->nparts) {
		send_part(s, p);
		return;
	}
	struct turn *turn = p->turn;
	p->turn = NULL;
	tell_life(s, p);
	process_step(s, p, (struct engine_event){.kind = EVENT_TURN, .turn = turn});
	turn_go(s, p);
}

/* ---- the sweeper ---- */

static void sweep_go(struct sim *s, struct process *p)
{
	if (p->threads[THREAD_SWEEP].call || p->nrecoveries == 0)
		return;
	struct call *c = call_begin(s, p, THREAD_SWEEP, CALL_RECOVER);
	c->dead = p->recoveries[0].dead;
	c->mass = p->recoveries[0].mass;
	p->nrecoveries--;
	memmove(p->recoveries, p->recoveries + 1, sizeof *p->recoveries * (size_t)p->nrecoveries);
	call_send(s, c);
}

/* ---- events ---- */

static void note_opened(struct sim *s, struct process *p, const struct call *c)
{
	if (c->thread != THREAD_TURN)
		return;
	int64_t timeline = s->backends[c->backend].timeline;
	if (p->timeline && p->timeline != timeline)
		p->failed_over = true;
	p->timeline = timeline;
}

void process_answered(struct sim *s, struct process *p, const struct call *c)
{
	/* The session was open before the statement was sent, whatever its result. */
	bool opened = c->backend && c->done && p->opened[c->thread] != c->backend;
	if (opened) {
		p->opened[c->thread] = c->backend;
		note_opened(s, p, c);
	}
	if (c->readonly) { /* a reason to open another session */
		if (s->backends[c->backend].open)
			backend_end(s, c->backend, false);
		p->threads[c->thread].backend = 0;
	}
	if (p->kind == IS_DAEMON)
		daemon_answered(s, p, c);
	else if (p->kind == IS_FOREIGN)
		foreign_answered(s, p, c);
	else if (c->thread == THREAD_LIFE)
		life_answered(s, p, c, opened);
	else if (c->kind == CALL_PART)
		part_answered(s, p, c);
	else if (c->kind == CALL_ASIDE && !(c->failed && !c->denied))
		spool_answered(s, p, c), turn_go(s, p);
	else if (c->thread == THREAD_SWEEP)
		sweep_go(s, p);
	else
		turn_go(s, p);
}

void process_notice(struct sim *s, struct process *p, int thread)
{
	struct thread *t = &p->threads[thread];
	if (t->call)
		call_reset(s, p, thread);
	if (t->call || !t->backend || s->backends[t->backend].open)
		return;
	t->backend = 0;
	if (thread == THREAD_LIFE)
		p->session_ended = true;
	process_poke(s, p, (enum thread_name)thread);
}

void process_wake(struct sim *s, const struct event *ev)
{
	struct process *p = &s->processes[ev->process];
	struct thread *t = &p->threads[ev->thread];
	if (t->wake != ev->number || t->call)
		return;
	if (p->kind == IS_DAEMON) {
		daemon_go(s, p);
	} else if (p->kind == IS_FOREIGN) {
		foreign_go(s, p);
	} else if (ev->thread == THREAD_LIFE) {
		life_take_news(s, p);
		life_go(s, p);
	} else if (ev->thread == THREAD_TURN) {
		turn_go(s, p);
	} else if (ev->thread == THREAD_RUNS) {
		runs_stop_expired(s, p);
	} else {
		sweep_go(s, p);
	}
}

void process_begin(struct sim *s, int i)
{
	struct process *p = &s->processes[i];
	struct process old = *p;
	memset(p, 0, sizeof *p);
	p->exists = true;
	p->kind = i < PROCESSES ? IS_WORKER : i < PROCESSES + DAEMONS ? IS_DAEMON : IS_FOREIGN;
	p->host = old.host;
	p->pid = (int)++s->pids;
	p->row = -1;
	if (p->kind == IS_DAEMON)
		daemon_begin(s, p);
	else if (p->kind == IS_FOREIGN)
		foreign_go(s, p);
	if (p->kind != IS_WORKER)
		return;
	memcpy(p->spool, old.spool, sizeof p->spool);
	p->nspool = old.nspool;
	struct life_rules rules = {
		.lease = lease_rules_of(s->lease_ms), .look_ms = 1000, .brake_ms = s->brake_ms};
	life_init(&p->life, &rules);
	struct engine_options o = {.pools = run_pools, .npools = POOLS, .grace_ms = 1000};
	p->engine = engine_new(&o, boot_us(s, p));
	p->told_contact = CONTACT_TAKEN;
	spool_tell(s, p);
	say(s, "process %d starts on host %d, pid %d", i, p->host, p->pid);
	note_unable(s, p);
	life_go(s, p);
	process_wake_in(s, p, THREAD_TURN, SOON_US);
}

static bool on_its_way(const struct sim *s, const struct call *c)
{
	for (int i = 0; i < s->nheap; i++)
		if (s->heap[i].call == c)
			return true;
	return false;
}

/* kill -9: its jobs end with it, its sessions when the server notices. */
void process_end(struct sim *s, int i)
{
	struct process *p = &s->processes[i];
	int64_t id = p->life.worker;
	p->exists = false;
	for (int t = 0; t < THREADS; t++) {
		if (p->threads[t].call && !on_its_way(s, p->threads[t].call))
			free(p->threads[t].call);
		p->threads[t].call = NULL;
	}
	for (int64_t b = 1; b < s->nbackends; b++)
		if (s->backends[b].open && s->backends[b].process == i)
			after(s, about(s, reachable(s, p) ? s->latency_us : 5 * SECOND), EV_BACKEND, -1)
				->number = b;
	if (p->kind == IS_DAEMON)
		daemon_end(p);
	if (p->kind != IS_WORKER)
		return;
	/* A job belongs to its runner: the engine frees the rest of the jobs in hand. */
	engine_free(p->engine);
	life_release(&p->life);
	for (int k = 0; k < s->nprocesses; k++)
		for (int n = 0; s->processes[k].exists && n < s->processes[k].nwatched; n++)
			if (s->processes[k].watched[n] == id && s->processes[k].watched_pid[n] == p->pid)
				after(s, 100, EV_EXIT, k)->number = id;
}
