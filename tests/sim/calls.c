/* SPDX-License-Identifier: Apache-2.0
 * calls.c: statements in transit. A statement reaches its backend after a while, or never; it is
 * executed or fails; its reply reaches the client, is lost or comes after the client's deadline. A
 * call without a session opens one first.
 */
#include "sim.h"

#define CALL_US (7 * SECOND)         /* the deadline of a call, except for the life thread's */
#define KEEPALIVE_US (5 * SECOND)    /* how long a server needs to notice that packets vanish */
#define SLOW 15                      /* how much slower a slow server is */
#define WRITABLE_AGAIN_US (250 * MS) /* WRITABLE_AGAIN_MS of store/store.c */

bool reachable(const struct sim *s, const struct process *p)
{
	return s->now >= s->cut_until[p->host];
}

static int64_t latency(struct sim *s)
{
	int64_t us = about(s, s->latency_us);
	return s->now < s->slow_until ? us * SLOW : us;
}

struct call *call_begin(struct sim *s, struct process *p, enum thread_name t, enum call_kind kind)
{
	struct call *c = mem_grow(NULL, sizeof *c);
	memset(c, 0, offsetof(struct call, rows));
	c->serial = ++s->serial;
	c->process = (int)(p - s->processes);
	c->pid = p->pid;
	c->host = p->host;
	c->thread = t;
	c->kind = kind;
	c->worker = p->worker;
	p->threads[t].call = c;
	return c;
}

static int64_t deadline(const struct sim *s, const struct call *c)
{
	struct lease_rules rules = lease_rules_of(s->lease_ms);
	if (c->thread != THREAD_LIFE)
		return CALL_US;
	return lease_call_ms(&rules) * (c->backend ? 1000 : 3000);
}

/* The server drops a client that is gone; its locks linger until then. */
static void end_later(struct sim *s, int64_t backend, const struct process *p)
{
	int64_t us = about(s, s->linger_us);
	after(s, reachable(s, p) ? us : us + KEEPALIVE_US, EV_BACKEND, -1)->number = backend;
}

static void hang(struct sim *s, struct process *p, const struct call *c, bool hangs)
{
	if (c->thread != THREAD_LIFE && p->kind != IS_FOREIGN)
		return;
	p->hung = hangs;
	note_unable(s, p);
}

void session_set(struct sim *s, struct process *p, enum thread_name t, int64_t backend)
{
	struct thread *x = &p->threads[t];
	if (x->backend == backend)
		return;
	if (x->number)
		number_close(p, x->number);
	x->number = 0;
	x->backend = backend;
	x->opened_us = s->now;
	if (backend)
		x->number = number_open(s, p, t == THREAD_TURN ? NUMBER_TURNS : NUMBER_SESSION);
	x->only_reads = backend && s->backends[backend].only_reads;
}

/* session_ready() of store/store.c; others than ours replace such a session at once. */
static void make_ready(struct sim *s, struct process *p, enum thread_name t)
{
	const struct thread *x = &p->threads[t];
	bool due = p->kind == IS_FOREIGN || s->now - x->opened_us >= WRITABLE_AGAIN_US;
	if (!x->backend || !x->only_reads || !due || old(OLD_read_only_session_kept))
		return;
	/* leave_former() of worker/life_thread.c */
	if (t == THREAD_LIFE && p->kind == IS_WORKER && !p->former)
		p->former = x->backend;
	else
		backend_end(s, x->backend, false);
	session_set(s, p, t, 0);
}

/* Send a call that is filled in. */
void call_send(struct sim *s, struct call *c)
{
	struct process *p = &s->processes[c->process];
	bool arrives = reachable(s, p) && s->now >= s->down_until;
	make_ready(s, p, c->thread);
	c->backend = p->threads[c->thread].backend;
	struct event *ev = after(s, deadline(s, c), EV_DEADLINE, c->process);
	ev->number = c->serial;
	ev->thread = c->thread;
	/* One that stalls takes no more clients than it has. */
	bool stalled = s->now < s->stalled_until && !c->backend;
	if ((s->now < s->down_until || stalled) && reachable(s, p)) { /* refused at once */
		c->failed = c->lost = true;
		after(s, latency(s), EV_REPLY, c->process)->call = c;
		return;
	}
	/* It may vanish: only the deadline ends it. */
	bool late = odds(s, FAULT_late);
	if (late || !arrives)
		hang(s, p, c, true);
	/*
	 * A batch of writes waits for those before it, a declaration of death for its worker's row; in
	 * half of the runs, as it may be too late then to be wrong.
	 */
	bool declares = c->kind == CALL_LIFE && c->action.what == LIFE_DECLARE && s->seed % 2;
	int64_t wait_us = c->kind == CALL_APPLY || declares ? about(s, 200 * MS) : 0;
	if (c->thread == THREAD_SWEEP && p->kind == IS_WORKER && s->sweep_us)
		wait_us += about(s, s->sweep_us);
	if (arrives && (!late || roll(s, 4) > 0))
		after(s,
		      latency(s) * (c->backend ? 1 : 3) + wait_us +
		          (late ? about(s, 2 * deadline(s, c)) : 0),
		      EV_EXECUTE, c->process)
			->call = c;
}

static int64_t backend_new(struct sim *s, const struct call *c)
{
	if (s->nbackends >= s->cap_backends) {
		s->cap_backends = s->cap_backends ? 2 * s->cap_backends : 256;
		s->backends = mem_grow(s->backends, sizeof *s->backends * (size_t)s->cap_backends);
	}
	s->backends[s->nbackends] = (struct backend){.open = true,
	                                             .process = c->process,
	                                             .timeline = s->timeline,
	                                             .only_reads = s->now < s->readonly_until};
	return s->nbackends++;
}

static bool abandoned(const struct sim *s, const struct call *c)
{
	const struct process *p = &s->processes[c->process];
	return !p->exists || p->pid != c->pid || p->threads[c->thread].call != c;
}

static void open_session(struct sim *s, struct call *c)
{
	c->unlucky = odds(s, FAULT_error);
	if (s->now < s->down_until || c->unlucky) {
		c->failed = c->lost = true;
		return;
	}
	c->backend = backend_new(s, c);
}

static void execute(struct sim *s, struct call *c)
{
	if (!c->backend)
		open_session(s, c);
	else if (!s->backends[c->backend].open || s->now < s->down_until)
		c->failed = c->lost = true;
	/* As turns_ready() does: nothing is done there before the engine knows of the failover. */
	const struct process *p = &s->processes[c->process];
	if (c->thread == THREAD_TURN && (p->failed_over || (p->timeline && p->timeline != s->timeline)))
		c->failed = c->done = true;
	if (c->failed)
		return;
	if (odds(s, FAULT_error)) {
		c->failed = c->unlucky = true;
		c->lost = roll(s, 2);
		return;
	}
	(s->store == KEEP_SQLITE ? sqlite_execute : model_execute)(s, c);
}

static void mark_lost(struct sim *s, const struct call *c)
{
	s->marks[MARK_lost_claims] |= c->nclaims > 0;
	s->marks[MARK_lost_ends] |= c->nends > 0;
	s->marks[MARK_lost_id] |= c->kind == CALL_LIFE && c->action.what == LIFE_REGISTER;
	s->marks[MARK_lost_death] |= c->kind == CALL_LIFE && c->action.what == LIFE_DECLARE && c->yes;
}

void call_execute(struct sim *s, struct call *c)
{
	bool left = abandoned(s, c);
	if (s->now < s->stalled_until) {
		after(s, s->stalled_until - s->now + (int64_t)roll(s, 2000), EV_EXECUTE, c->process)->call =
			c;
		return;
	}
	if (left && (!c->backend || !s->backends[c->backend].open)) {
		free(c);
		return;
	}
	if (left)
		s->marks[MARK_late] = true;
	execute(s, c);
	if (left) {
		free(c);
		return;
	}
	struct process *p = &s->processes[c->process];
	if (c->lost && c->backend)
		backend_end(s, c->backend, false);
	/* The reply vanishes: the thread's call is freed at its deadline. */
	bool lost = odds(s, FAULT_lost_reply);
	if ((lost || !reachable(s, p)) && !c->failed)
		mark_lost(s, c);
	if (!reachable(s, p) || (lost && roll(s, 4) == 0)) {
		hang(s, p, c, true);
		return;
	}
	if (lost) /* a reset, which the client sees */
		c->failed = c->lost = c->unknown = true;
	after(s, latency(s), EV_REPLY, c->process)->call = c;
}

static void finish(struct sim *s, struct process *p, struct call *c)
{
	struct thread *t = &p->threads[c->thread];
	t->call = NULL;
	hang(s, p, c, false);
	if (c->lost) {
		/* The client drops it; the server may not have noticed. */
		if (t->backend && s->backends[t->backend].open)
			end_later(s, t->backend, p);
		session_set(s, p, c->thread, 0);
	} else {
		session_set(s, p, c->thread, c->backend);
	}
	process_answered(s, p, c);
	free(c);
}

void call_reply(struct sim *s, struct call *c)
{
	struct process *p = &s->processes[c->process];
	if (p->threads[c->thread].call != c) { /* its deadline came first */
		free(c);
		return;
	}
	/* A session that ended while the reply was on its way: it is noticed next. */
	if (!c->lost && c->backend && !s->backends[c->backend].open)
		after(s, 1, EV_NOTICE, c->process)->thread = c->thread;
	finish(s, p, c);
}

/* The client gives it up. A statement in transit is still executed; its event frees it. */
static void give_up(struct sim *s, struct process *p, struct thread *t)
{
	struct call *c = t->call;
	for (int i = 0; i < s->nheap && c == t->call; i++)
		if (s->heap[i].call == c) {
			c = mem_alloc(sizeof *c);
			*c = *t->call;
		}
	t->call = c;
	c->failed = c->lost = c->unknown = true;
	finish(s, p, c);
}

void call_deadline(struct sim *s, int64_t serial, struct process *p, int thread)
{
	struct thread *t = &p->threads[thread];
	if (t->call && t->call->serial == serial)
		give_up(s, p, t);
}

void call_reset(struct sim *s, struct process *p, int thread)
{
	struct thread *t = &p->threads[thread];
	if (t->call && t->call->backend && !s->backends[t->call->backend].open)
		give_up(s, p, t);
}

/*
 * The client learns of it when it checks its socket. While its host is cut off, the server's last
 * packet is repeated after twice the time each, so it arrives at most that much later.
 */
static void notice(struct sim *s, struct process *p, int thread)
{
	int64_t us = about(s, s->latency_us);
	if (!reachable(s, p)) {
		us += 2 * (s->cut_until[p->host] - s->now);
		p->told_us = s->now + us > p->told_us ? s->now + us : p->told_us;
	}
	after(s, us, EV_NOTICE, index_of(s, p))->thread = thread;
}

void backend_end(struct sim *s, int64_t id, bool noticed)
{
	struct backend *b = &s->backends[id];
	if (!b->open)
		return;
	b->open = false;
	say(s, "backend %lld of process %d ends, lock %lld", (long long)id, b->process,
	    (long long)b->lock);
	struct process *p = &s->processes[b->process];
	if (!noticed || !p->exists)
		return;
	for (int i = 0; i < THREADS; i++)
		if (p->threads[i].backend == id ||
		    (p->threads[i].call && p->threads[i].call->backend == id))
			notice(s, p, i);
}

void backends_end(struct sim *s)
{
	for (int64_t i = 1; i < s->nbackends; i++)
		backend_end(s, i, true);
}
