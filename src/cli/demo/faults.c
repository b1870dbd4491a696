/* SPDX-License-Identifier: Apache-2.0
 * demo/faults.c: what befalls the crew, and when: a table, in thousandths of the run.
 */
#include "cli/demo/demo.h"
#include "store/dialect.h"

#include <unistd.h>

#define FREEZE_TRIES 10
#define FREEZE_APART_US 30000

static bool kill_one(struct demo *d)
{
	struct demo_member *m = demo_somebody(d, DEMO_WORKER);
	if (!m)
		return false;
	pid_t pid = m->pid;
	demo_kill(d, m);
	demo_print(d, COLOR_RED, "kill -9 %s (pid %d), in the middle of its jobs", demo_label(m->name),
	           (int)pid);
	return true;
}

static bool kill_two(struct demo *d)
{
	return kill_one(d) && kill_one(d);
}

static bool kill_pages(struct demo *d)
{
	struct demo_member *m = demo_somebody(d, DEMO_PAGES);
	if (!m)
		return false;
	demo_kill(d, m);
	demo_print(d, COLOR_RED, "kill -9 %s, a page worker that knows nothing of defib",
	           demo_label(m->name));
	return true;
}

/* Whether somebody can write; a file has one lock for all. */
static bool can_write(struct demo *d)
{
	struct store *s = NULL;
	struct store_options o = {.url = d->url, .name = "demo", .lock_ms = 300};
	bool can = !dialect_of(d->engine)->one_writer ||
	           (store_open(&o, &s, NULL) == DEFIB_OK && store_begin(s, TX_WRITE, NULL) == DEFIB_OK);
	store_close(s);
	return can;
}

/*
 * Who is frozen inside a transaction keeps SQLite's only lock, and all others wait with him:
 * another moment is tried then. On PostgreSQL he keeps his own rows only.
 */
static bool freeze_one(struct demo *d)
{
	struct demo_member *m = demo_somebody(d, DEMO_WORKER);
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
	demo_print(d, COLOR_RED, "%s is frozen (SIGSTOP): it exists but is silent",
	           demo_label(m->name));
	return true;
}

/* All three sessions of one worker. */
static bool cut_sessions(struct demo *d)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store_rows rows;
	struct demo_member *m = demo_somebody(d, DEMO_WORKER);
	struct store_param name = P_TEXT(m ? m->name : "");
	defib_err err = m ? demo_ask(d,
	                             "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
	                             "application_name = $1 AND pid <> pg_backend_pid()",
	                             &name, 1, &a, &rows, &f)
	                  : DEFIB_NOT_FOUND;
	bool done = !err && rows.nrows > 0;
	if (done) {
		d->cut++;
		demo_print(d, COLOR_RED, "%s loses its %d connections to the database", demo_label(m->name),
		           rows.nrows);
	}
	arena_release(&a);
	return done;
}

/* A file has no connections to cut: what it has is one lock, and somebody may sit on it. */
static bool hold_lock(struct demo *d, int64_t now)
{
	struct failure f = {0};
	struct store_options o = {.url = d->url, .name = "demo"};
	if (store_open(&o, &d->lock, &f) || store_begin(d->lock, TX_WRITE, &f)) {
		store_close(d->lock);
		d->lock = NULL;
		return false;
	}
	d->cut++;
	d->unlock_ms = now + d->lease_ms / 2;
	demo_print(d, COLOR_RED, "the database is locked: nobody can write for %.1f s",
	           (double)d->lease_ms / 2000.0);
	return true;
}

static bool cut(struct demo *d)
{
	return !dialect_of(d->engine)->one_writer ? cut_sessions(d) : hold_lock(d, clock_boot_ms());
}

static bool poison(struct demo *d)
{
	struct failure f = {0};
	if (demo_poison(d, &f))
		return false;
	demo_print(d, COLOR_RED, "job %lld is poison: it kills the worker that runs it",
	           (long long)d->poison);
	return true;
}

static const struct {
	int permille;
	bool also_short; /* a short run has fewer: a job that meets three of them is held */
	bool (*befall)(struct demo *d); /* false: not now, there was nobody */
} faults[] = {
	{60, true, kill_one},   {110, true, poison},     {180, true, kill_pages},
	{220, false, kill_one}, {290, true, freeze_one}, {380, true, kill_two},
	{470, true, cut},       {560, true, kill_one},   {600, true, kill_pages},
	{650, false, kill_one},
};

#define FAULTS ((int)(sizeof faults / sizeof *faults))

/* Not before it was given up, unless that takes too long: a server that has just come up doubts. */
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
			demo_print(d, COLOR_YELLOW,
			           "%s continues (SIGCONT), and believes that it still has its jobs",
			           demo_label(m->name));
		}
	}
}

void demo_faults_tick(struct demo *d, int64_t now)
{
	thaw_due(d, now);
	if (d->unlock_ms && now >= d->unlock_ms) {
		store_close(d->lock);
		d->lock = NULL;
		d->unlock_ms = 0;
		demo_print(d, COLOR_YELLOW, "the lock on the database is released");
	}
	/* Nothing else while it is locked: it would be ours to wait for. */
	if (d->unlock_ms || d->next_fault == FAULTS)
		return;
	if (now - d->begun_ms < d->seconds * faults[d->next_fault].permille)
		return;
	bool left_out = !faults[d->next_fault].also_short && d->seconds < DEMO_SHORT_S;
	if (left_out || faults[d->next_fault].befall(d))
		d->next_fault++;
}

bool demo_faults_over(const struct demo *d)
{
	for (int i = 0; i < DEMO_MEMBERS; i++)
		if (d->members[i].frozen_ms)
			return false;
	return d->next_fault == FAULTS && !d->unlock_ms;
}
