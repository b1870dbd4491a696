/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: the clients, and the threads that run while there are any. See events.h. */
#include "http/events.h"

#include "base/clock.h"
#include "base/condition.h"
#include "http/api_values.h"
#include "http/api_watches.h"
#include "http/ledger_tail.h"
#include "ledger/events.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#define TICK_MS 1000

/* ---- once a second: watches that changed, beats, clients that are stuck ---- */

static struct sent_watch *sent_of(struct events *e, const struct overview_watch *w)
{
	for (int i = 0; i < e->nsent; i++)
		if (text_eq(e->sent[i].name, w->name) && text_eq(e->sent[i].database, w->database))
			return &e->sent[i];
	e->sent = mem_grow(e->sent, sizeof *e->sent * (size_t)(e->nsent + 1));
	e->sent[e->nsent] = (struct sent_watch){mem_strdup(w->database), mem_strdup(w->name), NULL};
	return &e->sent[e->nsent++];
}

static const struct database *events_database_of(const struct settings *s, const char *name)
{
	for (int i = 0; i < s->ndatabases; i++)
		if (text_eq(s->databases[i].name, name))
			return &s->databases[i];
	return NULL;
}

/* The built-in queue is in no file and never changes. */
static const struct watch *events_watch_of(struct events *e, const struct settings *s,
                                           const char *name, const struct database *d)
{
	const struct watch *w = settings_watch(s, name);
	if (w || !text_eq(name, BUILTIN_NAME))
		return w;
	if (!e->builtin[d->engine])
		e->builtin[d->engine] = builtin_watch(d->engine, &e->keep);
	return e->builtin[d->engine];
}

/* What GET /api/v1/watches returns for it; false: the configuration no longer has it. */
static bool say(struct events *e, const struct settings *s, const struct overview_watch *w,
                struct buf *out)
{
	const struct database *d = events_database_of(s, w->database);
	const struct watch *watch = d ? events_watch_of(e, s, w->name, d) : NULL;
	if (!watch)
		return false;
	const struct viewer v = {.role = ROLE_VIEWER};
	record_json(&watch_record,
	            &(struct watch_view){.watch = watch,
	                                 .database = d,
	                                 .builtin = watch == e->builtin[d->engine],
	                                 .overview = w,
	                                 .now_ms = clock_boot_ms(),
	                                 .started_ms = e->started_ms},
	            &v, out);
	return true;
}

/* The current state of a watch, and whether it changed. */
struct shown_watch {
	const char *name, *json;
	bool changed;
};

static struct shown_watch *events_look(struct events *e, const struct settings *s, struct arena *a,
                                       int *n)
{
	struct overview_view view;
	AUTO_BUF json = BUF_INIT;
	overview_read(e->overview, a, &view);
	struct shown_watch *all = ARENA_ARRAY(a, struct shown_watch, view.nwatches + 1);
	*n = 0;
	for (int i = 0; i < view.nwatches; i++) {
		buf_clear(&json);
		if (!say(e, s, &view.watches[i], &json))
			continue;
		struct sent_watch *sent = sent_of(e, &view.watches[i]);
		bool changed = !text_eq(sent->json, buf_text(&json));
		all[(*n)++] =
			(struct shown_watch){view.watches[i].name, arena_strdup(a, buf_text(&json)), changed};
		if (changed) {
			free(sent->json);
			sent->json = mem_strdup(buf_text(&json));
		}
	}
	return all;
}

static void events_tell(struct listener *l, int64_t setup, const struct shown_watch *watches, int n,
                        int64_t now)
{
	bool all = l->stream.watches_due;
	/* A reload may have removed the client's token or its privileges: it must reconnect. */
	if (l->setup < setup)
		l->stream.over = true;
	l->stream.watches_due = false;
	for (int i = 0; i < n; i++)
		if (all || watches[i].changed)
			event_stream_watch(&l->stream, watches[i].name, watches[i].json, now);
	event_stream_tick(&l->stream, now);
	listener_wake(l);
}

static void events_tick(struct events *e)
{
	AUTO_ARENA a = ARENA_INIT;
	struct live_settings *setup = live_settings_hold(e->setups);
	int n = 0;
	const struct shown_watch *watches = events_look(e, &setup->settings, &a, &n);
	int64_t number = setup->number;
	live_settings_drop(e->setups, setup);
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next)
		events_tell(l, number, watches, n, now);
	pthread_mutex_unlock(&e->lock);
}

static void events_tick_release(struct events *e)
{
	for (int i = 0; i < e->nsent; i++) {
		free(e->sent[i].database);
		free(e->sent[i].name);
		free(e->sent[i].json);
	}
	free(e->sent);
	arena_release(&e->keep);
}

/* ---- life ---- */

struct events *events_new(struct live_settings_box *setups, struct overview *overview)
{
	struct events *e = mem_alloc(sizeof *e);
	e->setups = setups;
	e->overview = overview;
	e->started_ms = clock_boot_ms();
	pthread_mutex_init(&e->lock, NULL);
	condition_init(&e->changed);
	return e;
}

void events_free(struct events *e)
{
	pthread_mutex_lock(&e->lock);
	assert(!e->first);
	e->stop = true;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	if (e->ticking)
		pthread_join(e->ticker, NULL);
	for (int i = 0; i < e->ntailers; i++)
		tailer_end(e->tailers[i]);
	free(e->tailers);
	for (int i = 0; i < e->nowners; i++)
		free(e->owners[i].actor);
	free(e->owners);
	events_tick_release(e);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

int events_listeners(struct events *e)
{
	pthread_mutex_lock(&e->lock);
	int n = e->n;
	pthread_mutex_unlock(&e->lock);
	return n;
}

void events_wait(struct events *e, int64_t ms)
{
	struct timespec until = condition_limit(ms);
	if (ms > 0)
		pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

void listener_wake(struct listener *l)
{
	if (l->http && (l->stream.over || event_stream_waits(&l->stream)))
		http_stream_wake(l->http);
}

/* ---- threads ---- */

/* With the lock held: one for each database of the configuration, including new ones. */
static void start_tailers(struct events *e)
{
	struct live_settings *setup = live_settings_hold(e->setups);
	const struct settings *s = &setup->settings;
	for (int i = 0; i < s->ndatabases; i++) {
		int k = 0;
		while (k < e->ntailers && !text_eq(tailer_database(e->tailers[k]), s->databases[i].name))
			k++;
		if (k < e->ntailers)
			continue;
		e->tailers = mem_grow(e->tailers, sizeof *e->tailers * (size_t)(e->ntailers + 1));
		e->tailers[e->ntailers++] = tailer_start(e, s->databases[i].name);
	}
	live_settings_drop(e->setups, setup);
}

static void *events_tick_once(void *arg)
{
	struct events *e = arg;
	pthread_mutex_lock(&e->lock);
	while (!e->stop) {
		if (!e->first) {
			pthread_cond_wait(&e->changed, &e->lock);
			continue;
		}
		start_tailers(e);
		pthread_mutex_unlock(&e->lock);
		events_tick(e);
		pthread_mutex_lock(&e->lock);
		int64_t until = clock_boot_ms() + TICK_MS;
		while (!e->stop && clock_boot_ms() < until)
			events_wait(e, until - clock_boot_ms());
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* With the lock held; tokens are few, and a row stays for the next stream. */
static struct stream_owner *owner_of(struct events *e, const char *actor)
{
	for (int i = 0; i < e->nowners; i++)
		if (text_eq(e->owners[i].actor, actor))
			return &e->owners[i];
	e->owners = mem_grow(e->owners, sizeof *e->owners * (size_t)(e->nowners + 1));
	e->owners[e->nowners] = (struct stream_owner){mem_strdup(actor), 0};
	return &e->owners[e->nowners++];
}

void events_join(struct events *e, struct listener *l)
{
	pthread_mutex_lock(&e->lock);
	l->next = e->first;
	e->first = l;
	if (!e->ticking)
		pthread_create(&e->ticker, NULL, events_tick_once, e);
	e->ticking = true;
	start_tailers(e);
	listener_wake(l);
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void events_leave(struct events *e, struct listener *l)
{
	pthread_mutex_lock(&e->lock);
	struct listener **at = &e->first;
	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	e->n--;
	if (l->actor)
		owner_of(e, l->actor)->n--;
	pthread_mutex_unlock(&e->lock);
	event_stream_release(&l->stream);
	free(l->actor);
	free(l);
}

/* ---- the route ---- */

static ssize_t events_pull(void *ctx, char *to, size_t max)
{
	struct listener *l = ctx;
	struct events *e = l->events;
	pthread_mutex_lock(&e->lock);
	bool full = !event_stream_has_room(&l->stream);
	ssize_t n = event_stream_take(&l->stream, to, max, clock_boot_ms());
	if (full && event_stream_has_room(&l->stream))
		pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	return n;
}

static void events_gone(void *ctx)
{
	struct listener *l = ctx;
	events_leave(l->events, l);
}

/* The header, or the parameter for clients that cannot set one. */
static bool events_read_cursor(struct api_call *c, struct ledger_cursor *out)
{
	const char *text = c->request->last_event_id;
	if (!text)
		text = api_query(c, "last_event_id");
	if (ledger_cursor_parse(out, text ? text : ""))
		return true;
	return api_problem(
		c, 400,
		"Last-Event-ID must be the id of an event, such as main=123@3fa85f64, not \"%.80s\"", text);
}

/* Half of all connections stay free for calls: streams must not keep operators from acting. */
static int streams_max(const struct api_call *c)
{
	int64_t half = settings_http(&c->setup->settings)->max_connections / 2;
	return half < EVENT_STREAMS_MAX ? (int)half : EVENT_STREAMS_MAX;
}

/* Without tokens every caller is the same one. */
static int events_share_of(const struct api_call *c, int max)
{
	int share = max / EVENT_STREAMS_SHARE;
	if (settings_http(&c->setup->settings)->ntokens == 0)
		return max;
	return share > 0 ? share : 1;
}

static bool events_take_place(struct api_call *c, struct events *e)
{
	int max = streams_max(c), share = events_share_of(c, max);
	pthread_mutex_lock(&e->lock);
	struct stream_owner *own = owner_of(e, c->actor);
	bool room = e->n < max, fair = own->n < share;
	e->n += room && fair;
	own->n += room && fair;
	pthread_mutex_unlock(&e->lock);
	if (room && fair)
		return true;
	api_header(c, "Retry-After", "10");
	if (!room)
		return api_problem(c, 503, "%d streams are open, which is the limit; close one", max);
	return api_problem(c, 503,
	                   "%d streams of this token are open, which is its share; close one, or use a "
	                   "token of your own",
	                   share);
}

static void listen_to_events(struct api_call *c)
{
	static const struct http_stream_ops ops = {events_pull, events_gone};
	struct events *e = c->api->events;
	const char *event = api_query(c, "event");
	struct ledger_cursor cursor;
	if (!api_event_known(c, event) || !events_read_cursor(c, &cursor))
		return;
	if (!events_take_place(c, e)) {
		ledger_cursor_release(&cursor);
		return;
	}
	struct listener *l = mem_alloc(sizeof *l);
	l->events = e;
	l->setup = c->setup->number;
	l->actor = mem_strdup(c->actor);
	event_stream_init(&l->stream, &cursor, api_query(c, "watch"), event, clock_boot_ms());
	l->stream.form = c->role >= ROLE_OPERATOR ? EVENT_WHOLE : EVENT_VIEWED;
	l->http = http_stream(c, "text/event-stream", &ops, l);
	if (l->http)
		events_join(e, l);
	else
		events_leave(e, l);
}

const struct api_route api_event_routes[] = {
	API_GET("/events", ROLE_VIEWER, API_MEMORY, "watch event last_event_id",
            "entries of the ledger as they are added: server-sent events", listen_to_events),
	{.method = NULL},
};
