/* SPDX-License-Identifier: Apache-2.0
 * process.c: a worker's process, and its thread of turns. What worker/worker_turns.c does with a
 * thread and a session is done here with events: it reports events, carries out the actions of the
 * engine, and sleeps. A thread that waits for a reply does nothing else.
 */
#include "sim.h"

#include "store/store.h"

#define SLEEP_MOST_US SECOND
#define REOPEN_US (250 * MS)
#define SOON_US 100 /* how long a thread needs to wake up */

static void turn_go(struct sim *s, struct process *p);

int index_of(const struct sim *s, const struct process *p)
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

/* Whenever the thread is awake, it reads what its session has received. */
static void hear_announced(struct sim *s, struct process *p)
{
	if (p->unheard_us && p->unheard_us >= p->asleep_us)
		check_heard(s, p);
	p->woken = p->woken || p->unheard_us;
	p->unheard_us = 0;
	p->asleep_us = INT64_MAX;
}

void process_announced(struct sim *s, struct process *p)
{
	const struct thread *t = &p->threads[THREAD_TURN];
	if (t->backend && s->backends[t->backend].open && !number_is_heard(p, t->number)) {
		p->unheard_us = p->unheard_us ? p->unheard_us : s->now;
		return;
	}
	p->woken = true;
	process_poke(s, p, THREAD_TURN);
}

static void tell_all(struct sim *s, struct process *p)
{
	tell_life(s, p);
	hear_announced(s, p);
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
	p->asleep_us = s->now;
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
		if (old(OLD_kept_ends_compared) || !spool_has(p, c, &c->has[i]))
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
	if (c->readonly) /* a reason to open another session: session_ready() of store/store.c */
		p->threads[c->thread].only_reads = true;
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
		sweep_answered(s, p, c);
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
	if (thread == THREAD_TURN && p->kind == IS_WORKER && !number_is_heard(p, t->number))
		return;
	session_set(s, p, (enum thread_name)thread, 0);
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
	if (p->kind == IS_DAEMON)
		daemon_go(s, p);
	else if (p->kind == IS_FOREIGN)
		foreign_go(s, p);
	else if (ev->thread == THREAD_LIFE)
		life_wake(s, p);
	else if (ev->thread == THREAD_TURN)
		turn_go(s, p);
	else if (ev->thread == THREAD_RUNS)
		runs_stop_expired(s, p);
	else
		sweep_go(s, p);
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
	struct life_rules rules = {.lease = lease_rules_of(s->lease_ms),
	                           .look_ms = 1000,
	                           .brake_ms = s->brake_ms,
	                           .tables = s->sweeps};
	life_init(&p->life, &rules);
	pass_init(s, p);
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
	if (p->kind != IS_FOREIGN)
		pass_release(p);
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
