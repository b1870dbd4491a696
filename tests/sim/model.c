/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: what each statement does to the database, as in the SQL (sql/, life/registry.c). */
#include "sim.h"

int64_t server_us(const struct sim *s)
{
	int64_t us = s->now + s->clock_us + 1700000000 * SECOND;
	return s->store == KEEP_MODEL ? us : sqlite_clock_us(us);
}

struct incarnation who_of(int host, int pid, int64_t nonce)
{
	struct incarnation who = {.pid_ns = 1, .pid = pid, .start = (uint64_t)pid};
	(void)snprintf(who.host, sizeof who.host, "h%d", host);
	(void)snprintf(who.boot_id, sizeof who.boot_id, "00000000-0000-0000-0000-%012d", host);
	(void)snprintf(who.nonce, sizeof who.nonce, "%016llx", (unsigned long long)nonce);
	return who;
}

/* ---- the list of workers ---- */

struct member *member_of(struct sim *s, int64_t id)
{
	for (int i = s->db.nworkers - 1; i >= 0; i--)
		if (s->db.workers[i].id == id)
			return &s->db.workers[i];
	return NULL;
}

bool is_alive(struct sim *s, int64_t id)
{
	const struct member *m = member_of(s, id);
	return m && m->alive;
}

static void do_register(struct sim *s, struct call *c)
{
	if (s->db.nworkers >= IDS) {
		c->failed = true;
		return;
	}
	c->worker = ++s->db.ids + IDS_A_TIMELINE * (s->timeline - 1);
	s->db.workers[s->db.nworkers++] = (struct member){.alive = true,
	                                                  .id = c->worker,
	                                                  .host = c->host,
	                                                  .pid = c->pid,
	                                                  .nonce = c->nonce,
	                                                  .stamp_us = server_us(s)};
	for (int i = 0; i < s->nprocesses; i++)
		after(s, about(s, s->latency_us), EV_NEWCOMER, i);
}

static void do_renew(struct sim *s, struct call *c)
{
	struct member *m = member_of(s, c->worker);
	c->refused = !m || !m->alive || m->pid != c->pid || m->nonce != c->nonce;
	if (c->refused)
		return;
	m->stamp_us = server_us(s);
	for (int i = 0; i < JOBS; i++)
		c->owned += s->db.jobs[i].state == ROW_RUNNING && s->db.jobs[i].owner == c->worker;
	struct process *p = process_of_pid(s, c->pid);
	if (p) {
		p->unable_us = p->unlucky = 0;
		p->unable_since = p->unable_since ? s->now : 0;
	}
}

static void do_look(struct sim *s, struct call *c)
{
	const struct member *alive[IDS];
	int n = 0, before = 0, after = 0; /* ourselves: a failover may have lost us */
	for (int i = 0; i < s->db.nworkers && n < ROWS; i++)
		if (s->db.workers[i].alive) {
			before += s->db.workers[i].id < c->worker;
			after += s->db.workers[i].id <= c->worker;
			alive[n++] = &s->db.workers[i];
		}
	for (int i = 0; i < n; i++) {
		const struct member *m = alive[i];
		if (!c->action.whole && i >= PART_SIDE && i < n - PART_SIDE &&
		    (i < before - PART_SIDE || i >= after + PART_SIDE))
			continue;
		c->rows[c->n++] =
			(struct registered){.id = m->id,
		                        .who = who_of(m->host, m->pid, m->nonce),
		                        .expired = m->stamp_us + s->lease_ms * 1000 < server_us(s),
		                        .lease_us = s->lease_ms * 1000,
		                        .stamp_us = m->stamp_us,
		                        .now_us = server_us(s),
		                        .serves = s->sweeps ? "queue\nwatched" : "queue"};
	}
}

/* Shared: a lingering session does not block others. */
static void do_lock(struct sim *s, struct call *c)
{
	bool lingers = false;
	for (int64_t i = 1; i < s->nbackends; i++)
		lingers =
			lingers || (i != c->backend && s->backends[i].open && s->backends[i].lock == c->worker);
	s->marks[MARK_lingered] |= lingers;
	if (!lingers || !old(OLD_lock_tried_once))
		s->backends[c->backend].lock = c->worker;
	c->yes = true;
}

static void do_locks(struct sim *s, struct call *c)
{
	int leaders = 0;
	for (int64_t i = 1; i < s->nbackends; i++) {
		const struct backend *b = &s->backends[i];
		leaders += b->open && b->leads;
		if (b->open && b->lock && c->n < ROWS)
			c->ids[c->n++] = b->lock;
	}
	struct backend *own = &s->backends[c->backend];
	own->leads = own->leads || leaders < 2;
	c->yes = own->leads;
}

static void do_declare(struct sim *s, struct call *c)
{
	const struct death *d = &c->action.death;
	struct member *m = member_of(s, c->action.worker);
	struct clocks expected = {0, d->clock_us}, is = {0, server_us(s)};
	bool unheard = m && m->stamp_us < server_us(s) - d->unheard_ms * 1000 &&
	               m->stamp_us < d->clock_us - d->unheard_ms * 1000;
	c->yes = m && m->alive && (!d->stamp_us || d->stamp_us == m->stamp_us) &&
	         (!d->unheard_ms || unheard || old(OLD_lock_against_the_renewed)) &&
	         (!d->clock_us || !absence_jump_us(&expected, &is));
	if (!c->yes)
		return;
	m->alive = false;
	say(s, "process %d declares worker %lld dead: %s", c->process, (long long)c->action.worker,
	    d->cause);
	check_declared(s, m, d);
}

static bool in_dead_hands(struct sim *s, const struct row *r)
{
	return r->state == ROW_RUNNING && !is_alive(s, r->owner);
}

static void do_left(struct sim *s, struct call *c)
{
	for (int i = 0; i < JOBS; i++)
		c->yes = c->yes || in_dead_hands(s, &s->db.jobs[i]);
}

static void do_life(struct sim *s, struct call *c)
{
	switch (c->action.what) {
	case LIFE_REGISTER:
		do_register(s, c);
		break;
	case LIFE_RENEW:
		do_renew(s, c);
		break;
	case LIFE_LOCK:
		do_lock(s, c);
		break;
	case LIFE_LOOK:
		do_look(s, c);
		break;
	case LIFE_LOCKS:
		do_locks(s, c);
		break;
	case LIFE_DECLARE:
		do_declare(s, c);
		break;
	case LIFE_LEFT:
		do_left(s, c);
		break;
	default:
		break;
	}
}

/* ---- jobs ---- */

/* For an end that was not written: whether the job is in the state that only this end leaves. */
static bool is_repeated(const struct row *row, const struct end *e)
{
	bool cancelled = row->state == ROW_FINAL && row->cancel;
	if (row->epoch != e->epoch)
		return false;
	if (e->as == SETTLE_DONE)
		return row->state == ROW_FINAL && !row->cancel;
	if (e->as == SETTLE_RELEASED || e->as == SETTLE_STOPPED)
		return (row->state == ROW_READY || cancelled) && row->cause != CAUSE_LOST;
	return (cancelled && row->cause != CAUSE_LOST) ||
	       (row->state == ROW_READY && row->cause == CAUSE_ERROR);
}

/* Whether it is accepted. A repeated settlement that was accepted before is accepted again, but not
 * that of a worker that a fail-over lost: its job may have run as another one since. */
static bool job_settle(struct sim *s, const struct end *e)
{
	struct row *row = &s->db.jobs[e->job];
	bool kept = e->as == SETTLE_RELEASED || e->as == SETTLE_STOPPED;
	if (row->state != ROW_RUNNING || row->owner != e->worker || row->epoch != e->epoch) {
		bool again = member_of(s, e->worker) && is_repeated(row, e);
		s->marks[again ? MARK_again : MARK_stale] = true;
		return again;
	}
	say(s, "worker %lld records job %d, epoch %lld, as %s", (long long)e->worker, e->job,
	    (long long)e->epoch, settle_names[e->as]);
	check_settled(s, e);
	s->marks[MARK_cancelled] |= e->as == SETTLE_STOPPED && row->cancel;
	row->last_epoch = e->epoch;
	row->owner = 0;
	row->attempts -= kept;
	row->cancel = row->cancel && e->as != SETTLE_DONE;
	row->state = e->as == SETTLE_DONE || row->cancel ? ROW_FINAL : ROW_READY;
	if (!kept)
		row->cause = e->as == SETTLE_DONE ? CAUSE_NONE : CAUSE_ERROR;
	return true;
}

static struct row *first_ready(struct sim *s, int pool)
{
	struct row *first = NULL;
	for (int i = pool; i < JOBS; i += POOLS) {
		struct row *row = &s->db.jobs[i];
		if (row->state == ROW_READY && (!first || row->id < first->id))
			first = row;
	}
	return first;
}

static void do_claim(struct sim *s, struct call *c)
{
	struct row *row;
	while (c->nclaims < c->room && (row = first_ready(s, c->pool)) != NULL) {
		int i = (int)(row - s->db.jobs);
		row->state = ROW_RUNNING;
		row->owner = c->claimer;
		row->epoch++;
		row->attempts++;
		c->claims[c->nclaims++] = (struct end){
			.job = i, .epoch = row->epoch, .alone = row->crashes > 1 && row->cause == CAUSE_LOST};
		say(s, "worker %lld claims job %d, epoch %lld", (long long)c->claimer, i,
		    (long long)row->epoch);
		check_claimed(s, i, c->claimer, c->pid, row->epoch);
	}
}

static int name_jobs(const struct sim *s, const struct call *c, bool cancelled, struct end *out)
{
	int n = 0;
	for (int i = 0; i < JOBS; i++) {
		const struct row *row = &s->db.jobs[i];
		if (row->state == ROW_RUNNING && row->owner == c->claimer && i % POOLS == c->pool &&
		    (row->cancel || !cancelled))
			out[n++] = (struct end){.job = i, .epoch = row->epoch};
	}
	return n;
}

static void settle_all(struct sim *s, struct end *ends, int n, bool aside)
{
	for (int i = 0; i < n; i++) {
		if (ends[i].aside != aside)
			continue;
		ends[i].refused = s->refuses[ends[i].job];
		if (ends[i].refused)
			s->marks[MARK_refused] = true;
		else
			ends[i].accepted = job_settle(s, &ends[i]);
	}
}

/* SQLite: whether the worker is alive is checked only if there may be something to claim. */
static bool is_asked(struct sim *s, const struct call *c)
{
	bool writes = false;
	for (int i = 0; i < c->nends; i++)
		writes = writes || (!c->undrained && !c->ends[i].refused);
	return c->room > 0 && (writes || first_ready(s, c->pool));
}

/* The spool waits only for the server: an end that the server refuses is set aside. */
static void do_part(struct sim *s, struct call *c)
{
	c->undrained =
		c->drain && c->nspool > 0 &&
		(odds(s, FAULT_error) || (old(OLD_refused_end_waits) && s->refuses[c->spool[0].job]));
	if (c->drain && !c->undrained)
		settle_all(s, c->spool, c->nspool, false);
	/* Earlier ends wait in the spool; so must these. */
	if (!c->undrained)
		settle_all(s, c->ends, c->nends, false);
	if (!c->claimer)
		return;
	c->gone = !is_alive(s, c->claimer) && (s->store == KEEP_MODEL || is_asked(s, c));
	if (c->gone && s->store == KEEP_MODEL)
		return;
	if (c->cancels)
		c->ncancelling = name_jobs(s, c, true, c->cancelling);
	if (c->compares)
		c->nhas = name_jobs(s, c, false, c->has);
	if (!c->gone)
		do_claim(s, c);
}

/* As the sweeper does: only jobs of dead workers. */
static void do_recover(struct sim *s, struct call *c)
{
	for (int i = 0; i < JOBS; i++) {
		struct row *row = &s->db.jobs[i];
		if (!in_dead_hands(s, row) || (c->dead && row->owner != c->dead))
			continue;
		say(s, "process %d recovers job %d of worker %lld", c->process, i, (long long)row->owner);
		row->state = row->cancel ? ROW_FINAL : ROW_READY;
		row->owner = 0;
		row->cause = CAUSE_LOST;
		row->crashes++;
		s->marks[MARK_recovered] = true;
		for (int k = 0; k < s->nprocesses; k++)
			after(s, about(s, s->latency_us), EV_WORK, k);
	}
}

bool is_same_end(const struct tables *a, const struct tables *b)
{
	bool same = a->nworkers == b->nworkers;
	for (int i = 0; i < JOBS && same; i++) {
		const struct row *x = &a->jobs[i], *y = &b->jobs[i];
		same = x->state == y->state && x->id == y->id && x->owner == y->owner &&
		       x->epoch == y->epoch && x->attempts == y->attempts && x->crashes == y->crashes &&
		       x->cause == y->cause && x->cancel == y->cancel;
	}
	for (int i = 0; i < a->nworkers && same; i++) {
		const struct member *x = &a->workers[i], *y = &b->workers[i];
		same = x->id == y->id && x->alive == y->alive && x->stamp_us == y->stamp_us;
	}
	return same;
}

/* ---- statements outside the sessions of workers ---- */

/* A waiting job ends at once; a running one is asked to stop. */
void model_cancel(struct sim *s, int job)
{
	struct row *row = &s->db.jobs[job];
	if (row->state == ROW_READY)
		row->state = ROW_FINAL;
	else if (row->state != ROW_RUNNING)
		return;
	row->cancel = true;
}

void model_enqueue(struct sim *s, int job)
{
	struct row *row = &s->db.jobs[job];
	/* An id is drawn even if the key is taken; the key is free again when its job has ended. */
	if (row->state != ROW_FINAL)
		s->db.job_ids++;
	if (row->state == ROW_NONE)
		*row = (struct row){.state = ROW_READY, .id = s->db.job_ids};
}

void model_leave(struct sim *s, const struct process *p)
{
	struct member *m = member_of(s, p->worker);
	if (!m || m->pid != p->pid || m->nonce != p->nonce)
		return;
	say(s, "worker %lld leaves", (long long)p->worker);
	m->alive = false;
}

static bool writes(const struct call *c)
{
	if (c->kind != CALL_LIFE)
		return c->kind != CALL_LOOK && c->kind != CALL_HEAR;
	return c->action.what == LIFE_REGISTER || c->action.what == LIFE_RENEW ||
	       c->action.what == LIFE_DECLARE;
}

void model_execute(struct sim *s, struct call *c)
{
	c->done = true;
	bool only_reads = s->backends[c->backend].only_reads;
	if (writes(c) && (s->now < s->readonly_until || only_reads)) {
		c->failed = c->readonly = true;
		s->marks[MARK_opened_read_only] |= s->now >= s->readonly_until;
		s->marks[MARK_read_only] = true;
		return;
	}
	if (c->kind != CALL_LIFE && c->kind < CALL_HEAR && s->now < s->rights_until) {
		c->failed = c->denied = true;
		s->marks[MARK_rights] = true;
		return;
	}
	if (c->thread == THREAD_TURN && !old(OLD_lock_on_one_session)) /* hold_lock() of turns.c */
		s->backends[c->backend].lock = c->worker;
	if (c->kind == CALL_LIFE)
		do_life(s, c);
	else if (c->kind == CALL_PART)
		do_part(s, c);
	else if (c->kind == CALL_ASIDE)
		settle_all(s, c->spool, c->nspool, true);
	else if (c->kind == CALL_RECOVER)
		do_recover(s, c);
	else
		watched_execute(s, c);
}
