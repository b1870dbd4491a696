/* SPDX-License-Identifier: Apache-2.0
 * ledger_tail.c: the ledger of one database, read for all clients.
 *
 * A round reads the highest id and serves pages up to it: first to the clients that are furthest
 * ahead, which are nearly always all of them, then from the place of the one that is furthest
 * behind. Ids are committed in order, so no lower id appears later. Between rounds it waits half a
 * second; without clients it has no session.
 */
#include "http/ledger_tail.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/events.h"
#include "view/ledger.h"

#include <stdlib.h>

#define POLL_MS 500
#define AGAIN_MS 1000 /* between tries while a database is unavailable */
#define GONE_MS 5000  /* between checks whether it is in the configuration again */
#define PAGE 500
#define PAGES_MAX 20 /* per round, until the highest id is read again */

struct tailer {
	struct events *events;
	pthread_t thread;
	char *name, *url;
	struct session session;
	bool exists; /* there is a ledger */
	bool away;
};

/* ---- a page ---- */

struct tail_page {
	struct arena arena;
	struct event_entry *entries;
	int n;
	int64_t after, end;
};

/* The place where the next page begins: the furthest ahead, or the furthest behind; -1: none. */
static int64_t next_place(struct tailer *t, int64_t top, bool furthest, bool forms[EVENT_SIGHTS])
{
	struct events *e = t->events;
	int64_t place = -1;
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next) {
		const struct ledger_place *p = ledger_cursor_at(&l->stream.cursor, t->name);
		forms[l->stream.form] = true;
		if (!p || p->id < 0 || p->id >= top || !event_stream_has_room(&l->stream))
			continue;
		if (place < 0 || (furthest ? p->id > place : p->id < place))
			place = p->id;
	}
	pthread_mutex_unlock(&e->lock);
	return place;
}

static const char *render(struct tail_page *p, const struct settings *s, enum event_form form,
                          const struct ledger_row *row, const char *database)
{
	static const enum role roles[] = {[EVENT_WHOLE] = ROLE_ADMIN, [EVENT_VIEWED] = ROLE_VIEWER};
	AUTO_BUF json = BUF_INIT;
	const struct watch *w = row->watch ? settings_watch(s, row->watch) : NULL;
	const struct viewer v = {
		.watch = viewer_watch(w, &settings_http(s)->mask, roles[form], &p->arena),
		.database = database,
		.role = roles[form],
	};
	record_json(&entry_record, row, &v, &json);
	return arena_strdup(&p->arena, buf_text(&json));
}

static defib_err ledger_tail_read_page(struct tailer *t, const struct live_settings *setup,
                                       int64_t top, const bool forms[EVENT_SIGHTS],
                                       struct tail_page *p, struct failure *f)
{
	struct ledger_filter filter = {.after_id = p->after, .up_to_id = top, .limit = PAGE};
	struct ledger_row *rows = NULL;
	defib_err err = ledger_read(t->session.store, &filter, &p->arena, &rows, &p->n, f);
	if (err)
		return err;
	p->end = p->n == PAGE ? rows[PAGE - 1].id : top;
	p->entries = ARENA_ARRAY(&p->arena, struct event_entry, p->n + 1);
	for (int i = 0; i < p->n; i++) {
		p->entries[i] = (struct event_entry){rows[i].id, rows[i].watch, rows[i].event, {NULL}};
		for (int k = 0; k < EVENT_SIGHTS; k++)
			if (forms[k])
				p->entries[i].json[k] =
					render(p, &setup->settings, (enum event_form)k, &rows[i], t->name);
	}
	return DEFIB_OK;
}

static void hand_out(struct tailer *t, const struct tail_page *p, const bool forms[EVENT_SIGHTS])
{
	struct events *e = t->events;
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next) {
		/* A client that arrived since then gets it from the next page. */
		if (!forms[l->stream.form])
			continue;
		event_stream_entries(&l->stream, t->name, p->after, p->end, p->entries, p->n, now);
		listener_wake(l);
	}
	pthread_mutex_unlock(&e->lock);
}

/* ---- a round ---- */

/* The database as currently configured; false: it is not. */
static bool ledger_tail_configured(struct tailer *t, const struct live_settings *setup)
{
	const struct settings *s = &setup->settings;
	int i = 0;
	while (i < s->ndatabases && !text_eq(s->databases[i].name, t->name))
		i++;
	if (i == s->ndatabases)
		return false;
	if (!text_eq(t->url, s->databases[i].url)) {
		session_close(&t->session);
		free(t->url);
		t->url = mem_strdup(s->databases[i].url);
		t->session.options =
			(struct store_options){.url = t->url, .name = t->name, .read_only = true};
		t->exists = false;
	}
	return true;
}

static defib_err ledger_tail_look(struct tailer *t, int64_t *top, char of[LEDGER_OF_SIZE],
                                  struct failure *f)
{
	defib_err err = session_ready(&t->session, f);
	if (!err && !t->exists)
		err = ledger_exists(t->session.store, &t->exists, f);
	if (!err && t->exists)
		err = ledger_end(t->session.store, top, of, f);
	t->exists = t->exists && !err;
	return err;
}

static void tell_seen(struct tailer *t, const char *of, int64_t top)
{
	struct events *e = t->events;
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next) {
		event_stream_seen(&l->stream, t->name, of, top, now);
		listener_wake(l);
	}
	pthread_mutex_unlock(&e->lock);
}

static void tell_away(struct tailer *t, const char *why)
{
	struct events *e = t->events;
	int64_t now = clock_boot_ms();
	if (!t->away)
		log_event(LOG_WARN, "live events: a ledger cannot be read", LOG_STR("database", t->name),
		          LOG_STR("because", why));
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next) {
		event_stream_away(&l->stream, t->name, why, now);
		listener_wake(l);
	}
	pthread_mutex_unlock(&e->lock);
}

/* Pages up to `top`; true when there may be more to do at once. */
static defib_err serve_pages(struct tailer *t, const struct live_settings *setup, int64_t top,
                             bool *more, struct failure *f)
{
	defib_err err = DEFIB_OK;
	*more = true;
	for (int i = 0; !err && *more && i < PAGES_MAX; i++) {
		bool forms[EVENT_SIGHTS] = {false};
		struct tail_page p = {.arena = ARENA_INIT, .after = next_place(t, top, i == 0, forms)};
		*more = p.after >= 0;
		if (*more)
			err = ledger_tail_read_page(t, setup, top, forms, &p, f);
		if (*more && !err)
			hand_out(t, &p, forms);
		arena_release(&p.arena);
	}
	return err;
}

/* Returns how long until the next one. */
static int64_t ledger_tail_go_round(struct tailer *t)
{
	struct live_settings *setup = live_settings_hold(t->events->setups);
	struct failure f = {0};
	int64_t top = 0, wait_ms = GONE_MS;
	char of[LEDGER_OF_SIZE] = "";
	bool more = false;
	if (ledger_tail_configured(t, setup)) {
		defib_err err = ledger_tail_look(t, &top, of, &f);
		if (!err)
			tell_seen(t, of, top);
		if (!err)
			err = serve_pages(t, setup, top, &more, &f);
		if (err)
			tell_away(t, f.what);
		t->away = err != DEFIB_OK;
		wait_ms = err ? AGAIN_MS : more ? 0 : POLL_MS;
	} else {
		tell_away(t, "it is no longer in the configuration");
		t->away = true;
		session_close(&t->session);
	}
	live_settings_drop(t->events->setups, setup);
	return wait_ms;
}

/*
 * With the lock held. While the database is unavailable, a new client does not make it be queried
 * more often.
 */
static void ledger_tail_rest(struct tailer *t, int64_t ms)
{
	int64_t until = clock_boot_ms() + ms;
	do
		events_wait(t->events, until - clock_boot_ms());
	while (t->away && !t->events->stop && clock_boot_ms() < until);
}

static void *ledger_tail_run(void *arg)
{
	struct tailer *t = arg;
	struct events *e = t->events;
	pthread_mutex_lock(&e->lock);
	while (!e->stop) {
		bool wanted = e->first != NULL;
		pthread_mutex_unlock(&e->lock);
		int64_t wait_ms = wanted ? ledger_tail_go_round(t) : 0;
		if (!wanted)
			session_close(&t->session);
		pthread_mutex_lock(&e->lock);
		if (wanted && wait_ms > 0 && !e->stop)
			ledger_tail_rest(t, wait_ms);
		while (!wanted && !e->first && !e->stop)
			pthread_cond_wait(&e->changed, &e->lock);
	}
	pthread_mutex_unlock(&e->lock);
	session_close(&t->session);
	return NULL;
}

struct tailer *tailer_start(struct events *e, const char *database)
{
	struct tailer *t = mem_alloc(sizeof *t);
	t->events = e;
	t->name = mem_strdup(database);
	t->session.open = store_open;
	pthread_create(&t->thread, NULL, ledger_tail_run, t);
	return t;
}

const char *tailer_database(const struct tailer *t)
{
	return t->name;
}

void tailer_end(struct tailer *t)
{
	pthread_join(t->thread, NULL);
	free(t->name);
	free(t->url);
	free(t);
}
