/* SPDX-License-Identifier: Apache-2.0
 * demo/acts.c: the acts of the story: what happens to the processes and when (a table, in
 * thousandths of the run), and what the ledger shows about each.
 *
 * An act is over when everything that its row expects was seen, or when its patience ends.
 */
#include "cli/demo/acts.h"

#include "cli/demo/crew.h"
#include "cli/demo/demo.h"
#include "cli/demo/place.h"
#include "cli/demo/story.h"
#include "store/dialect.h"

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#define FREEZE_TRIES 10
#define FREEZE_APART_US 30000
#define QUIET_MS 600 /* without a further entry, an act has all of its own */

/* Signs by which an act is seen to have ended. */
enum { SEES_JOBS = 1, SEES_PAGES = 2, SEES_HELD = 4, SEES_BACK = 8 };

/* ---- causes ---- */

static void add_victim(struct demo_act *a, const struct demo_member *m)
{
	if (a->npids == DEMO_VICTIMS)
		return;
	size_t n = strlen(a->who);
	snprintf(a->who + n, sizeof a->who - n, "%s%s", n ? " " : "", demo_label(m->name));
	a->pids[a->npids++] = m->pid;
}

static bool kill_some(struct demo *d, struct demo_act *a, enum demo_role role, int n)
{
	for (int i = 0; i < n; i++) {
		struct demo_member *m = demo_member_at_work(d, role);
		if (!m)
			return i > 0;
		add_victim(a, m);
		demo_event(d, COLOR_RED, "kill -9 %s (pid %d), in the middle of its work",
		           demo_label(m->name), (int)m->pid);
		demo_kill(d, m);
	}
	return true;
}

static bool kill_worker(struct demo *d, struct demo_act *a)
{
	return kill_some(d, a, DEMO_WORKER, 1);
}

static bool kill_workers(struct demo *d, struct demo_act *a)
{
	return demo_alive(d, DEMO_WORKER) > 2 && kill_some(d, a, DEMO_WORKER, 2);
}

/*
 * Whether each page worker has a page in hand, whichever is killed: one that starts or waits loses
 * nothing. Near the end there are fewer pages than workers, and then not.
 */
static bool pages_in_hand(struct demo *d)
{
	AUTO_ARENA arena = ARENA_INIT;
	struct failure f = {0};
	struct store_rows rows;
	const char *sql =
		arena_printf(&arena, "SELECT count(*) FROM %s WHERE status = 'Processing'", d->pages);
	if (d->pages_done == d->npages)
		return true;
	return demo_ask(d, sql, NULL, 0, &arena, &rows, &f) == DEFIB_OK &&
	       row_int(&rows, 0, 0, 0) >= demo_alive(d, DEMO_PAGES);
}

/* They are stopped while we look, so that none ends its page before one of them is killed. */
static bool kill_pages(struct demo *d, struct demo_act *a)
{
	demo_signal_all(d, DEMO_PAGES, SIGSTOP);
	bool killed = pages_in_hand(d) && kill_some(d, a, DEMO_PAGES, 1);
	demo_signal_all(d, DEMO_PAGES, SIGCONT);
	return killed;
}

static bool kill_both(struct demo *d, struct demo_act *a)
{
	if (!demo_alive(d, DEMO_PAGES) || !demo_alive(d, DEMO_WORKER) || !kill_pages(d, a))
		return false;
	if (d->pages_done == d->npages)
		a->seen |= SEES_PAGES; /* there was none to lose any more */
	return kill_some(d, a, DEMO_WORKER, 1);
}

static bool poison(struct demo *d, struct demo_act *a)
{
	struct failure f = {0};
	(void)a; /* its workers are added as they end */
	if (demo_poison(d, &f))
		return false;
	demo_event(d, COLOR_RED, "job %lld is poison: it kills the worker that runs it",
	           (long long)d->poison);
	return true;
}

/* Whether a write is possible; a file has one lock for all. */
static bool can_write(struct demo *d)
{
	AUTO_STORE s = NULL;
	struct store_options o = {.url = d->url, .name = "demo", .lock_ms = 300};
	return !dialect_of(d->engine)->one_writer ||
	       (store_open(&o, &s, NULL) == DEFIB_OK && store_begin(s, TX_WRITE, NULL) == DEFIB_OK);
}

/*
 * A worker that is frozen inside a transaction keeps SQLite's only lock, and all others wait for
 * it: then try another moment. On PostgreSQL it keeps only its own rows.
 */
static bool freeze_one(struct demo *d, struct demo_act *a)
{
	struct demo_member *m = demo_member_at_work(d, DEMO_WORKER);
	for (int tries = 0; m; tries++) {
		demo_freeze(m);
		if (can_write(d) || tries == FREEZE_TRIES)
			break;
		demo_thaw(m);
		usleep(FREEZE_APART_US);
	}
	if (!m)
		return false;
	d->frozen++;
	add_victim(a, m);
	demo_event(d, COLOR_RED, "%s is frozen (SIGSTOP): it exists but is silent",
	           demo_label(m->name));
	return true;
}

/* All three sessions of one worker. */
static bool cut_sessions(struct demo *d, struct demo_act *a)
{
	AUTO_ARENA arena = ARENA_INIT;
	struct failure f = {0};
	struct store_rows rows;
	struct demo_member *m = demo_member_at_work(d, DEMO_WORKER);
	struct store_param name = P_TEXT(m ? m->name : "");
	defib_err err = m ? demo_ask(d,
	                             "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
	                             "application_name = $1 AND pid <> pg_backend_pid()",
	                             &name, 1, &arena, &rows, &f)
	                  : DEFIB_NOT_FOUND;
	bool done = !err && rows.nrows > 0;
	if (done) {
		d->cut++;
		add_victim(a, m);
		demo_event(d, COLOR_RED, "%s loses its %d connections to the database", demo_label(m->name),
		           rows.nrows);
	}
	return done;
}

/* A file has no connections to cut; it has one lock, which a process may hold too long. */
static bool demo_acts_hold_lock(struct demo *d, struct demo_act *a)
{
	struct failure f = {0};
	struct store_options o = {.url = d->url, .name = "demo"};
	if (store_open(&o, &d->lock, &f) || store_begin(d->lock, TX_WRITE, &f)) {
		store_close(d->lock);
		d->lock = NULL;
		return false;
	}
	d->cut++;
	d->unlock_ms = clock_boot_ms() + d->lease_ms / 2;
	snprintf(a->who, sizeof a->who, "all");
	demo_event(d, COLOR_RED, "the database is locked: no session can write for %.1f s",
	           (double)d->lease_ms / 2000.0);
	return true;
}

static bool demo_acts_cut(struct demo *d, struct demo_act *a)
{
	return dialect_of(d->engine)->one_writer ? demo_acts_hold_lock(d, a) : cut_sessions(d, a);
}

/* ---- the table ---- */

static const struct act_row {
	int permille;
	const char *title, *title_of_file; /* the second for a database with one lock; NULL: the same */
	bool (*cause)(struct demo *d, struct demo_act *a); /* false: not possible now */
	unsigned expects;
	int leases;       /* its patience */
	bool takes_rest;  /* what is recovered from workers that no act names */
	const char *none; /* what is said if nothing was recovered */
} acts[DEMO_ACTS] = {
	{60, "kill -9 a worker", NULL, kill_worker, SEES_JOBS, 2, false, "it had no job"},
	{130, "run a job that kills its worker", NULL, poison, SEES_JOBS | SEES_HELD, 20, true,
     "it was not run"},
	{230, "kill -9 a worker without defib", NULL, kill_pages, SEES_PAGES, 4, false,
     "it had no page"},
	{330, "freeze a worker, wake it later", NULL, freeze_one, SEES_JOBS | SEES_BACK, 6, false,
     "it had no job"},
	{450, "kill -9 two workers at once", NULL, kill_workers, SEES_JOBS, 2, false,
     "they had no job"},
	{540, "cut a worker's connections", "lock the database for a while", demo_acts_cut, 0, 1, true,
     "no worker was declared dead"},
	{640, "kill -9 one worker of each kind", NULL, kill_both, SEES_JOBS | SEES_PAGES, 4, false,
     "they had no job"},
};

const char *demo_act_title(const struct demo *d, int act)
{
	const struct act_row *row = &acts[act];
	bool file = d->db ? dialect_of(d->engine)->one_writer : true;
	return file && row->title_of_file ? row->title_of_file : row->title;
}

static void demo_acts_add_count(struct buf *out, int64_t n, const char *what, int64_t took_us)
{
	buf_addf(out, "%lld %s%s", (long long)n, what, n == 1 ? "" : "s");
	if (took_us >= 0) {
		buf_add(out, " after ");
		duration_text(took_us, out);
	}
}

void demo_act_outcome(const struct demo *d, int act, struct buf *recovered, struct buf *more)
{
	const struct demo_act *a = &d->acts[act];
	if (a->jobs)
		demo_acts_add_count(recovered, a->jobs, "job", a->took_us);
	else if (a->pages)
		demo_acts_add_count(recovered, a->pages, "page", a->pages_took_us);
	else if (a->over)
		buf_add(recovered, "nothing");
	if (a->over && !a->jobs && !a->pages)
		buf_add(more, acts[act].none);
	if (a->jobs && a->pages)
		demo_acts_add_count(more, a->pages, "page", a->pages_took_us);
	if (a->seen & SEES_HELD)
		buf_addf(more, "job %lld is held", (long long)d->poison);
	if (a->late)
		buf_addf(more, "%lld late result%s refused", (long long)a->late, a->late == 1 ? "" : "s");
	else if (a->seen & SEES_BACK)
		buf_add(more, "it came back, fenced");
}

/* ---- what the ledger shows ---- */

static bool is_open(const struct demo_act *a)
{
	return a->begun_ms && !a->over;
}

static bool names(const struct demo_act *a, pid_t pid)
{
	for (int i = 0; i < a->npids; i++)
		if (a->pids[i] == pid)
			return true;
	return false;
}

static struct demo_act *act_with(struct demo *d, bool (*cause)(struct demo *, struct demo_act *))
{
	for (int i = 0; i < DEMO_ACTS; i++)
		if (acts[i].cause == cause)
			return &d->acts[i];
	assert(false);
	return NULL;
}

/* The act that caused the end of a worker; NULL: none that is under way. */
static struct demo_act *act_of(struct demo *d, pid_t pid, int64_t job)
{
	struct demo_act *rest = NULL;
	if (job && job == d->poison)
		return act_with(d, poison);
	for (int i = 0; i < DEMO_ACTS; i++) {
		struct demo_act *a = &d->acts[i];
		if (pid && names(a, pid))
			return a;
		if (is_open(a) && acts[i].takes_rest && !rest)
			rest = a;
	}
	return rest;
}

static void see(struct demo_act *a, unsigned sign)
{
	a->seen |= sign;
	a->changed_ms = clock_boot_ms();
}

void demo_act_recovered(struct demo *d, pid_t pid, int64_t job, int64_t took_us)
{
	struct demo_act *a = act_of(d, pid, job);
	if (!a || a->over)
		return; /* its line was told: what comes later is in the totals */
	a->jobs++;
	a->took_us = took_us > a->took_us ? took_us : a->took_us;
	see(a, SEES_JOBS);
}

void demo_act_page(struct demo *d, int64_t took_us)
{
	for (int i = 0; i < DEMO_ACTS; i++) {
		struct demo_act *a = &d->acts[i];
		if (!is_open(a) || !(acts[i].expects & SEES_PAGES))
			continue;
		a->pages++;
		a->pages_took_us = took_us > a->pages_took_us ? took_us : a->pages_took_us;
		see(a, SEES_PAGES);
		return;
	}
}

void demo_act_held(struct demo *d)
{
	see(act_with(d, poison), SEES_HELD);
}

void demo_act_back(struct demo *d, bool late)
{
	struct demo_act *a = act_with(d, freeze_one);
	if (!is_open(a))
		return;
	a->late += late;
	see(a, SEES_BACK);
}

void demo_act_victim(struct demo *d, const struct demo_member *m)
{
	add_victim(act_with(d, poison), m);
}

/* ---- time ---- */

/*
 * Not before its jobs were recovered, unless that takes too long: after a server's start, doubt
 * delays it.
 */
static bool may_thaw(const struct demo *d, const struct demo_member *m, int64_t now)
{
	int64_t leases = m->given_up ? 3 : 6;
	return m->frozen_ms && now > m->frozen_ms + d->lease_ms * leases / 2;
}

static void thaw_due(struct demo *d, int64_t now)
{
	for (int i = 0; i < DEMO_MEMBERS; i++) {
		struct demo_member *m = &d->members[i];
		if (may_thaw(d, m, now)) {
			demo_thaw(m);
			demo_event(d, COLOR_YELLOW,
			           "%s continues (SIGCONT), and believes that it still has its jobs",
			           demo_label(m->name));
		}
	}
}

static void unlock_due(struct demo *d, int64_t now)
{
	if (!d->unlock_ms || now < d->unlock_ms)
		return;
	store_close(d->lock);
	d->lock = NULL;
	d->unlock_ms = 0;
	demo_event(d, COLOR_YELLOW, "the lock on the database is released");
}

static void end_acts(struct demo *d, int64_t now)
{
	for (int i = 0; i < DEMO_ACTS; i++) {
		struct demo_act *a = &d->acts[i];
		bool complete = acts[i].expects && (a->seen & acts[i].expects) == acts[i].expects;
		if (!is_open(a) || now < a->changed_ms + QUIET_MS)
			continue;
		if (complete || now > a->begun_ms + acts[i].leases * d->lease_ms) {
			a->over = true;
			demo_act_over(d, i);
		}
	}
}

void demo_acts_tick(struct demo *d, int64_t now)
{
	int act = d->next_act;
	thaw_due(d, now);
	unlock_due(d, now);
	/* Nothing else while it is locked: we would have to wait for it. */
	if (d->unlock_ms)
		return;
	end_acts(d, now);
	if (act == DEMO_ACTS || now - d->begun_ms < d->seconds * acts[act].permille)
		return;
	struct demo_act *a = &d->acts[act];
	a->took_us = a->pages_took_us = -1;
	if (acts[act].cause(d, a)) {
		a->begun_ms = a->changed_ms = now;
		d->next_act++;
	}
}

bool demo_acts_over(const struct demo *d)
{
	for (int i = 0; i < DEMO_MEMBERS; i++)
		if (d->members[i].frozen_ms)
			return false;
	for (int i = 0; i < DEMO_ACTS; i++)
		if (!d->acts[i].over)
			return false;
	return !d->unlock_ms;
}
