/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/heartbeats.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>

#define REST_MS 10000 /* after a look that found no registry, or that was refused */
#define UNSEEN 0      /* in place of a beat */

/* A ring buffer of instants, by the database's clock in microseconds. */
struct worker_beats {
	int64_t worker;
	int64_t seen_ms; /* the last look that found it */
	int64_t at[BEATS_KEPT];
	int next, n;
};

struct database_beats {
	char *database;
	int64_t looked_ms; /* the last look; 0: none */
	int64_t clock_us;  /* add to our clock (CLOCK_BOOTTIME) to get the database's clock */
	struct worker_beats **workers;
	int n;
};

struct heartbeats {
	pthread_mutex_t lock;
	struct database_beats *databases;
	int n;
};

struct heartbeats *heartbeats_new(void)
{
	struct heartbeats *b = mem_alloc(sizeof *b);
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

static void database_release(struct database_beats *w)
{
	for (int i = 0; i < w->n; i++)
		free(w->workers[i]);
	free(w->workers);
	free(w->database);
}

void heartbeats_free(struct heartbeats *b)
{
	for (int i = 0; i < b->n; i++)
		database_release(&b->databases[i]);
	free(b->databases);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static struct database_beats *database_named(struct heartbeats *b, const char *database)
{
	for (int i = 0; i < b->n; i++)
		if (text_eq(b->databases[i].database, database))
			return &b->databases[i];
	return NULL;
}

static struct database_beats *heartbeats_database_of(struct heartbeats *b, const char *database)
{
	struct database_beats *w = database_named(b, database);
	if (w)
		return w;
	b->databases = mem_grow(b->databases, sizeof *b->databases * (size_t)(b->n + 1));
	b->databases[b->n] = (struct database_beats){.database = mem_strdup(database)};
	return &b->databases[b->n++];
}

void heartbeats_forget(struct heartbeats *b, const char *database)
{
	pthread_mutex_lock(&b->lock);
	struct database_beats *w = database_named(b, database);
	if (w) {
		database_release(w);
		*w = b->databases[--b->n];
	}
	pthread_mutex_unlock(&b->lock);
}

/* ---- observations ---- */

static struct worker_beats *worker_named(const struct database_beats *w, int64_t worker)
{
	for (int i = 0; i < w->n; i++)
		if (w->workers[i]->worker == worker)
			return w->workers[i];
	return NULL;
}

static struct worker_beats *worker_of(struct database_beats *w, int64_t worker)
{
	struct worker_beats *p = worker_named(w, worker);
	if (p || w->n == BEATS_WORKERS_MAX)
		return p;
	w->workers = mem_grow(w->workers, sizeof(struct worker_beats *) * (size_t)(w->n + 1));
	p = w->workers[w->n++] = mem_alloc(sizeof *p);
	p->worker = worker;
	return p;
}

static void forget_old(struct database_beats *w, int64_t now_ms)
{
	for (int i = 0; i < w->n; i++) {
		if (now_ms - w->workers[i]->seen_ms <= BEATS_MEMORY_MS)
			continue;
		free(w->workers[i]);
		w->workers[i--] = w->workers[--w->n];
	}
}

static int64_t newest(const struct worker_beats *p)
{
	return p->n ? p->at[(p->next + BEATS_KEPT - 1) % BEATS_KEPT] : UNSEEN;
}

static void push(struct worker_beats *p, int64_t at_us)
{
	p->at[p->next] = at_us;
	p->next = (p->next + 1) % BEATS_KEPT;
	p->n += p->n < BEATS_KEPT;
}

void heartbeats_note(struct heartbeats *b, const char *database, const struct roster_beat *rows,
                     int n, int64_t now_ms, int64_t now_us)
{
	pthread_mutex_lock(&b->lock);
	struct database_beats *w = heartbeats_database_of(b, database);
	bool blind = now_ms - w->looked_ms > BEATS_BLIND_MS;
	w->looked_ms = now_ms;
	w->clock_us = now_us - now_ms * 1000;
	forget_old(w, now_ms);
	for (int i = 0; i < n; i++) {
		struct worker_beats *p = worker_of(w, rows[i].worker);
		if (!p)
			continue;
		p->seen_ms = now_ms;
		if (rows[i].renewed_us == newest(p))
			continue;
		if (blind && p->n)
			push(p, UNSEEN);
		push(p, rows[i].renewed_us);
	}
	pthread_mutex_unlock(&b->lock);
}

defib_err heartbeats_look(struct heartbeats *b, struct store *s, const char *database,
                          int64_t *due_ms, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct roster_beat *rows = NULL;
	int64_t now_us = 0;
	int n = 0;
	bool there = false;
	if (!b || clock_boot_ms() < *due_ms)
		return DEFIB_OK;
	defib_err err = roster_beats(s, BEATS_WORKERS_MAX, &a, &there, &rows, &n, &now_us, f);
	if (!err && there)
		heartbeats_note(b, database, rows, n, clock_boot_ms(), now_us);
	if (err && err != DEFIB_CONNECTION)
		log_event(LOG_DEBUG, "heartbeats of workers could not be read",
		          LOG_STR("database", database), LOG_STR("because", f->what));
	*due_ms = clock_boot_ms() + (err || !there ? REST_MS : BEATS_MS);
	if (err == DEFIB_CONNECTION)
		return err;
	fail_clear(f);
	return DEFIB_OK;
}

/* ---- as JSON ---- */

static void beats_json(const struct worker_beats *p, int64_t now_us, struct buf *out)
{
	for (int i = 0; i < p->n; i++) {
		int64_t at = p->at[(p->next + BEATS_KEPT - p->n + i) % BEATS_KEPT];
		buf_add(out, i ? "," : "");
		if (at == UNSEEN)
			buf_add(out, "null");
		else
			buf_addf(out, "%.1f", now_us > at ? (double)(now_us - at) / 1e6 : 0.0);
	}
}

void heartbeats_json(struct heartbeats *b, const char *database, int64_t worker, int64_t now_ms,
                     struct buf *out)
{
	buf_add(out, "[");
	pthread_mutex_lock(&b->lock);
	const struct database_beats *w = database_named(b, database);
	const struct worker_beats *p = w ? worker_named(w, worker) : NULL;
	if (p)
		beats_json(p, now_ms * 1000 + w->clock_us, out);
	pthread_mutex_unlock(&b->lock);
	buf_add(out, "]");
}
