/* SPDX-License-Identifier: Apache-2.0 */
#include "life/life.h"

#include <assert.h>

#define LOCKS_MS 20     /* how often a reader reads the locks while there are remote workers */
#define LEAD_MS 1000    /* how often candidates try to become a reader */
#define GRACE_MS 250    /* how long a lock may be missing before its worker is considered dead */
#define QUIET_MS 10000  /* after an outage of our own, no worker is reported because of its lock */
#define GAP_MS 2000     /* a longer gap between readings of locks is an outage */
#define OPEN_MS 20      /* pause before a lost session is reopened, then twice that, … */
#define OWN_LOCK_MS 100 /* how often we try to get our own lock while an old session has it */
#define LEFT_MS                                                                                    \
	15000 /* how often the first worker checks for jobs without an owner, notified or not */
#define PASS_MS 600000      /* how often it scans the built-in queue, whatever the check says */
#define SWEEP_MS 5000       /* how often other tables are swept */
#define WHOLE_A_WORKER 1000 /* ms between looks at the whole list, per registered worker */
#define LOOKS_SOON 10       /* looks within a lease if a worker is late */
#define LATE 300            /* thousandths of a lease with an unchanged stamp: look soon */
#define SUSPECT 400         /* … and at the whole list, not only at neighbours */

void life_init(struct life *l, const struct life_rules *rules)
{
	/* One scan at the start: it loads what later recoveries need to know about the tables. */
	*l = (struct life){.rules = *rules, .starting = true, .look_whole = true, .found = true};
	silence_init(&l->silence, rules->lease.lease_ms, rules->brake_ms);
	part_init(&l->part);
	locks_init(&l->locks, &(struct locks_rules){GRACE_MS, QUIET_MS, GAP_MS, 2 * LOCKS_MS});
}

void life_release(struct life *l)
{
	silence_release(&l->silence);
	part_release(&l->part);
	locks_release(&l->locks);
}

bool life_has_room(const struct life *l)
{
	return l->nends < LIFE_PENDING;
}

enum lease_contact life_contact(const struct life *l, int64_t now_ms)
{
	/* Nothing can be lost before the first registration. */
	if (!l->worker)
		return l->lease.taken ? CONTACT_TAKEN : CONTACT_GOOD;
	return lease_contact(&l->lease, now_ms);
}

/* ---- events ---- */

/*
 * We could not read, or not write: no worker is declared dead for what we did not see, nor for a
 * lock that disappeared before. A seen exit remains valid.
 */
static void outage(struct life *l, int64_t now_ms)
{
	int exits = 0;
	for (int i = 0; i < l->nends; i++)
		if (l->ends[i].exit)
			l->ends[exits++] = l->ends[i];
	l->nends = exits;
	silence_outage(&l->silence);
	locks_outage(&l->locks, now_ms);
	l->outages++;
}

/* A failed renewal is repeated when it is due: what we see meanwhile is no reason to hurry. */
static void renew_soon(struct life *l, int64_t now_ms)
{
	if (!l->lease.failed)
		lease_renew_soon(&l->lease, now_ms);
}

static void registered(struct life *l, const struct life_event *e, int64_t now_ms)
{
	l->worker = e->worker;
	lease_init(&l->lease, &l->rules.lease, l->doing_ms);
	part_self(&l->part, e->worker, e->who);
	silence_outage(&l->silence);
	silence_renewed(&l->silence, l->doing_ms);
	l->locked = false;
	l->lock_ms = l->look_ms = now_ms;
	l->look_whole = true;
}

static void renewed(struct life *l, const struct life_event *e, int64_t now_ms)
{
	if (e->refused) {
		lease_renew_answer(&l->lease, RENEW_REFUSED, now_ms);
		l->returning = true;
		return;
	}
	if (l->lease.failed > 0)
		outage(l, now_ms);
	silence_renewed(&l->silence, l->lease.sent_ms);
	lease_renew_answer(&l->lease, RENEWED, now_ms);
	l->judging = true;
	l->judge_at = 0;
	/* Claims and settlements under way make the counts differ briefly, but not for two beats. */
	l->mismatches = e->owned > e->holding ? l->mismatches + 1 : 0;
	if (l->mismatches < 2)
		return;
	l->mismatches = 0;
	l->compare = true;
}

/* If the database's clock jumped, live workers are heard again at once. */
static void compare_clocks(struct life *l, int64_t now_us, int64_t now_ms)
{
	struct clocks now = {now_ms * 1000, now_us};
	if (l->clocks.database_us && absence_jump_us(&l->clocks, &now)) {
		outage(l, now_ms);
		renew_soon(l, now_ms);
	}
	l->clocks = now;
}

static void set_remote(struct life *l)
{
	int64_t *ids = mem_alloc(sizeof *ids * (size_t)(l->part.n + 1));
	locks_set(&l->locks, ids, part_remote(&l->part, ids));
	free(ids);
}

static void life_plan_look(struct life *l, int64_t now_ms)
{
	int64_t lease_ms = l->rules.lease.lease_ms;
	int64_t longest = silence_longest(&l->silence, l->worker);
	int64_t soon_ms = lease_ms / LOOKS_SOON;
	l->look_whole = longest >= SUSPECT || now_ms >= l->whole_ms;
	l->look_ms = now_ms + l->rules.look_ms;
	if (longest >= LATE && soon_ms < l->rules.look_ms)
		l->look_ms = now_ms + soon_ms;
}

static void looked(struct life *l, const struct life_event *e, int64_t now_ms)
{
	int64_t lease_ms = l->rules.lease.lease_ms, spread_ms = e->n * WHOLE_A_WORKER;
	if (e->n > 0)
		compare_clocks(l, e->rows[0].now_us, now_ms);
	struct part_seen seen = part_look(&l->part, e->rows, e->n, l->doing.whole);
	silence_look(&l->silence, e->rows, e->n, seen.whole, now_ms);
	if (l->doing.whole)
		l->whole_ms = now_ms + (spread_ms > lease_ms ? spread_ms : lease_ms);
	life_plan_look(l, now_ms);
	if (seen.missed) {
		l->look_whole = true;
		l->look_ms = now_ms;
	}
	if (silence_wants_proof(&l->silence, l->worker))
		renew_soon(l, now_ms);
	l->judging = l->set_fellows = true;
	l->judge_at = 0;
	l->left = l->left || seen.gone > 0;
	l->died = l->died || seen.gone > 0;
	set_remote(l);
}

static void locks_read(struct life *l, const struct life_event *e, int64_t now_ms)
{
	struct locks_gone *gone = mem_alloc(sizeof *gone * (size_t)(l->locks.n + 1));
	int n = locks_reading(&l->locks, e->nonces, e->n, now_ms, gone);
	l->leads = e->yes;
	l->locks_ms = now_ms + (l->leads ? LOCKS_MS : LEAD_MS);
	for (int i = 0; i < n && life_has_room(l); i++)
		l->ends[l->nends++] = (struct life_end){.id = gone[i].id, .at_ms = gone[i].since_ms};
	free(gone);
	/* Sessions also end because a server accepts no writes: our own renewal tests that. */
	if (locks_last_gone_ms(&l->locks) > l->silence.renewed_ms)
		renew_soon(l, now_ms);
}

/*
 * Many deaths at once are a host or a power supply, not the fault of any job: they do not count
 * against crash budgets. A worker that registered after the first of them died of something else.
 */
static bool note_death(struct life *l, int64_t id, int64_t now_ms)
{
	if (!l->group_ms || now_ms - l->group_ms >= MASS_MS) {
		l->group_highest = l->part.highest > id ? l->part.highest : id;
		for (int i = 0; i < MASS_DEATHS; i++)
			l->deaths_ms[i] = 0;
	}
	if (id > l->group_highest)
		return false;
	int64_t *oldest = &l->deaths_ms[l->deaths++ % MASS_DEATHS];
	bool mass = *oldest && now_ms - *oldest < MASS_MS;
	l->group_ms = *oldest = now_ms;
	return mass;
}

static void drop_end(struct life *l, int64_t id)
{
	for (int i = l->nends - 1; i >= 0; i--)
		if (l->ends[i].id == id)
			l->ends[i] = l->ends[--l->nends];
}

static void declared(struct life *l, bool won, int64_t now_ms)
{
	int64_t id = l->doing.worker;
	bool asked = l->doing.death.stamp_us || l->doing.death.unheard_ms;
	drop_end(l, id);
	l->look_ms = now_ms;
	if (won) {
		l->recover = true;
		l->dead = id;
		l->mass = note_death(l, id, now_ms);
	}
	/*
	 * A worker that was heard from meanwhile is alive; otherwise it has left, and may have left
	 * jobs behind.
	 */
	if (!won && asked)
		return;
	l->left = l->left || !won;
	l->died = l->died || !won;
	part_forget(&l->part, id);
	l->set_fellows = true;
	set_remote(l);
}

static void done(struct life *l, const struct life_event *e, int64_t now_ms)
{
	switch (l->doing.what) {
	case LIFE_REGISTER:
		registered(l, e, now_ms);
		break;
	case LIFE_LOCK:
		l->locked = e->yes;
		/*
		 * A session of another version has it: when it disappears, a renewal proves that we are
		 * alive.
		 */
		if (!e->yes)
			renew_soon(l, now_ms);
		break;
	case LIFE_RENEW:
		renewed(l, e, now_ms);
		break;
	case LIFE_RETURN:
		l->worker = 0;
		l->register_ms = now_ms;
		break;
	case LIFE_LOOK:
		looked(l, e, now_ms);
		break;
	case LIFE_LOCKS:
		locks_read(l, e, now_ms);
		break;
	case LIFE_DECLARE:
		declared(l, e->yes, now_ms);
		break;
	case LIFE_LEFT:
		l->found = l->found || e->yes;
		break;
	default:
		break;
	}
}

static void life_failed(struct life *l, int64_t now_ms)
{
	int64_t retry_ms = l->rules.lease.retry_ms;
	switch (l->doing.what) {
	case LIFE_REGISTER:
		l->register_ms = now_ms + retry_ms;
		break;
	case LIFE_RENEW:
		lease_renew_answer(&l->lease, RENEW_FAILED, now_ms);
		outage(l, now_ms);
		break;
	case LIFE_LOOK:
	case LIFE_LOCKS:
		outage(l, now_ms);
		break;
	case LIFE_DECLARE:
		l->tell_ms = now_ms + retry_ms;
		break;
	case LIFE_OPEN:
		l->open_ms = now_ms + l->open_wait_ms;
		l->open_wait_ms = 2 * l->open_wait_ms < retry_ms ? 2 * l->open_wait_ms : retry_ms;
		break;
	default:
		break;
	}
}

/* The reader of our lock gives us a short grace: a new session must be open before it ends. */
static void ended(struct life *l, int64_t now_ms)
{
	outage(l, now_ms);
	if (l->closed)
		return;
	l->closed = true;
	l->open_ms = now_ms;
	l->open_wait_ms = OPEN_MS;
}

/*
 * The old session may linger in the server with our lock. When it ends, the lock disappears, and
 * only a later renewal proves that we are alive: so we renew at once, and with every try for the
 * lock.
 */
static void opened(struct life *l, bool locks, int64_t now_ms)
{
	/* The first session was not a loss. */
	if (l->clocks.database_us)
		outage(l, now_ms);
	l->closed = false;
	l->can_lock = locks;
	l->locked = l->leads = false;
	l->lock_ms = now_ms;
	if (l->worker)
		lease_renew_soon(&l->lease, now_ms);
}

/* During a stop that is shorter, but longer than a beat, others may be silent for a short lease. */
static bool was_stopped(const struct life *l, int64_t now_ms)
{
	return l->until_ms && (absence_stopped(l->until_ms * 1000, now_ms * 1000) ||
	                       now_ms - l->until_ms > l->rules.lease.beat_ms);
}

void life_tell(struct life *l, const struct life_event *e, int64_t now_ms)
{
	if (was_stopped(l, now_ms))
		outage(l, now_ms);
	l->until_ms = now_ms;
	switch (e->what) {
	case LIFE_DONE:
		done(l, e, now_ms);
		break;
	case LIFE_FAILED:
		life_failed(l, now_ms);
		break;
	case LIFE_OPENED:
		opened(l, e->locks, now_ms);
		break;
	case LIFE_ENDED:
		ended(l, now_ms);
		break;
	case LIFE_EXIT:
		assert(life_has_room(l));
		l->ends[l->nends++] =
			(struct life_end){.id = e->id, .at_ms = now_ms, .exit = true, .seen = e->seen};
		break;
	case LIFE_NEWCOMER:
		l->look_ms = now_ms;
		break;
	case LIFE_DEATH:
		l->look_ms = now_ms;
		l->look_whole = true;
		break;
	case LIFE_STARTED:
		l->starting = false;
		break;
	case LIFE_TIME:
		break;
	}
	if (e->what == LIFE_DONE || e->what == LIFE_FAILED)
		l->doing = (struct life_action){.what = LIFE_WAIT};
}

/* ---- actions ---- */

static struct life_action life_begin(struct life *l, struct life_action a, int64_t now_ms)
{
	l->doing = a;
	l->doing_ms = now_ms;
	l->until_ms = now_ms;
	return a;
}

#define DO(...) life_begin(l, (struct life_action){__VA_ARGS__}, now_ms)

/* Our own life first; LIFE_WAIT if there is nothing to do. */
static struct life_action own_life(struct life *l, int64_t now_ms)
{
	if (l->returning) {
		l->returning = false;
		return DO(.what = LIFE_RETURN);
	}
	if (!l->worker && now_ms >= l->register_ms)
		return DO(.what = LIFE_REGISTER);
	if (l->worker && l->closed && now_ms >= l->open_ms)
		return DO(.what = LIFE_OPEN);
	/* A renewal proves life, a lock does not. */
	if (l->worker && lease_renew_due(&l->lease, now_ms))
		return DO(.what = LIFE_RENEW);
	if (l->worker && !l->locked && now_ms >= l->lock_ms) {
		l->lock_ms = now_ms + OWN_LOCK_MS;
		return DO(.what = LIFE_LOCK);
	}
	return (struct life_action){.what = LIFE_WAIT};
}

/*
 * A missing lock is evidence only if the server accepted a write after it disappeared: otherwise
 * its worker could not have renewed. Moves one that can be declared to the end.
 */
static bool has_end(struct life *l)
{
	for (int i = l->nends - 1; i >= 0; i--) {
		struct life_end x = l->ends[i];
		if (!x.exit && l->silence.renewed_ms < x.at_ms)
			continue;
		l->ends[i] = l->ends[l->nends - 1];
		l->ends[l->nends - 1] = x;
		return true;
	}
	return false;
}

/* An exit is seen only once; if the database could not be written then, it is written later. */
static struct life_action declare_end(struct life *l, int64_t now_ms)
{
	const struct life_end *x = &l->ends[l->nends - 1];
	struct death d = {.cause = "session gone"};
	if (x->exit) {
		d.cause = "exit seen";
		d.ago_us = x->seen ? (now_ms - x->at_ms) * 1000 : ENDED_UNSEEN;
	} else {
		d.unheard_ms = now_ms - x->at_ms;
		d.clock_us = l->clocks.database_us + (now_ms * 1000 - l->clocks.own_us);
	}
	return DO(.what = LIFE_DECLARE, .worker = x->id, .death = d);
}

static bool next_convicted(struct life *l, int64_t *id, int64_t *stamp_us)
{
	while (l->judge_at < l->silence.n) {
		*id = l->silence.members[l->judge_at++].id;
		if (*id != l->worker && silence_convicts(&l->silence, *id, stamp_us))
			return true;
	}
	l->judging = false;
	return false;
}

/* If there are workers on other hosts: the frequent readers and the candidates. */
static bool reads_locks(const struct life *l)
{
	return l->can_lock && l->locks.n > 0 && (l->leads || part_reads_locks(&l->part));
}

static struct life_action others(struct life *l, int64_t now_ms)
{
	int64_t id, stamp_us;
	if (l->recover) {
		l->recover = false;
		return DO(.what = LIFE_RECOVER, .worker = l->dead, .mass = l->mass);
	}
	if (now_ms >= l->tell_ms && has_end(l))
		return declare_end(l, now_ms);
	if (l->compare) {
		l->compare = false;
		return DO(.what = LIFE_COMPARE);
	}
	if (now_ms >= l->look_ms) {
		l->look_ms = now_ms + l->rules.look_ms;
		return DO(.what = LIFE_LOOK, .whole = l->look_whole);
	}
	if (l->set_fellows) {
		l->set_fellows = false;
		return DO(.what = LIFE_FELLOWS);
	}
	if (l->judging && next_convicted(l, &id, &stamp_us))
		return DO(.what = LIFE_DECLARE, .worker = id,
		          .death = {.cause = "silent", .stamp_us = stamp_us});
	if (reads_locks(l) && now_ms >= l->locks_ms) {
		l->locks_ms = now_ms + LEAD_MS;
		return DO(.what = LIFE_LOCKS);
	}
	return (struct life_action){.what = LIFE_WAIT};
}

static struct life_action jobs(struct life *l, int64_t now_ms)
{
	bool first = part_sweeps(&l->part, &l->silence, NULL);
	if (l->left || (first && now_ms >= l->left_ms)) {
		l->left = false;
		l->left_ms = now_ms + LEFT_MS;
		return DO(.what = LIFE_LEFT);
	}
	if (l->pass_ms == 0)
		l->pass_ms = now_ms + PASS_MS;
	bool queue = l->found || (first && now_ms >= l->pass_ms);
	/* Whoever declared it dead may not know the watches that it worked on. */
	bool died = l->died && l->rules.tables, due = queue || now_ms >= l->sweep_ms;
	l->died = false;
	if (!due && !died)
		return (struct life_action){.what = LIFE_WAIT};
	if (queue)
		l->pass_ms = now_ms + PASS_MS;
	if (due)
		l->sweep_ms = now_ms + SWEEP_MS;
	l->found = false;
	return DO(.what = LIFE_SWEEP, .queue = queue, .tables = l->rules.tables, .died = died,
	          .upkeep = first, .dead_only = !due || silence_holds(&l->silence));
}

static int64_t life_wait_ms(struct life *l, int64_t now_ms)
{
	int64_t until = now_ms + l->rules.lease.beat_ms;
	bool lives = l->worker && !l->starting;
	const int64_t events[] = {
		l->worker ? now_ms + lease_wait_ms(&l->lease, now_ms) : l->register_ms,
		l->worker && l->closed ? l->open_ms : until,
		l->worker && !l->locked ? l->lock_ms : until,
		lives ? l->look_ms : until,
		lives ? l->sweep_ms : until,
		lives && has_end(l) ? l->tell_ms : until,
		lives && reads_locks(l) ? l->locks_ms : until,
	};
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		until = events[i] < until ? events[i] : until;
	return until > now_ms ? until - now_ms : 0;
}

struct life_action life_next(struct life *l, int64_t now_ms)
{
	struct life_action a = own_life(l, now_ms);
	bool lives = l->worker && !l->starting;
	if (a.what == LIFE_WAIT && lives)
		a = others(l, now_ms);
	if (a.what == LIFE_WAIT && lives)
		a = jobs(l, now_ms);
	if (a.what == LIFE_WAIT) {
		a.wait_ms = life_wait_ms(l, now_ms);
		l->until_ms = now_ms + a.wait_ms;
	}
	return a;
}

struct life_action life_step(struct life *l, const struct life_event *e, int64_t now_ms)
{
	life_tell(l, e, now_ms);
	return life_next(l, now_ms);
}
