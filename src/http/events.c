/* events.c: who listens, and the threads that run while somebody does. See events.h. */
#include "ledger/events.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/events_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#define TICK_MS 1000

struct events *events_new(struct live_settings_box *setups, struct overview *overview)
{
	struct events *e = mem_alloc(sizeof *e);
	pthread_condattr_t attr;
	e->setups = setups;
	e->overview = overview;
	e->started_ms = clock_boot_ms();
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->changed, &attr);
	pthread_condattr_destroy(&attr);
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
	struct timespec until;
	if (ms <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

void listener_wake(struct listener *l)
{
	if (l->http && (l->stream.over || event_stream_waits(&l->stream)))
		http_stream_wake(l->http);
}

/* ---- threads ---- */

/* With the lock held: one for each database of the configuration, also of a newer one. */
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

static void *tick(void *arg)
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

void events_join(struct events *e, struct listener *l)
{
	pthread_mutex_lock(&e->lock);
	l->next = e->first;
	e->first = l;
	if (!e->ticking)
		pthread_create(&e->ticker, NULL, tick, e);
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
	pthread_mutex_unlock(&e->lock);
	event_stream_release(&l->stream);
	free(l);
}

/* ---- the route ---- */

static ssize_t pull(void *ctx, char *to, size_t max)
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

static void gone(void *ctx)
{
	struct listener *l = ctx;
	events_leave(l->events, l);
}

/* The header, or for who cannot set one the parameter. */
static bool read_cursor(struct api_call *c, struct ledger_cursor *out)
{
	const char *text = c->request->last_event_id;
	if (!text)
		text = api_query(c, "last_event_id");
	if (ledger_cursor_parse(out, text ? text : ""))
		return true;
	return api_problem(
		c, 400, "Last-Event-ID is the id of an event, such as main=123; not \"%.80s\"", text);
}

static bool check_event(struct api_call *c, const char *event)
{
	const char *near = NULL;
	if (!event || event_known(event, &near))
		return true;
	return api_problem(c, 400, "there is no event \"%.80s\"%s%s%s", event,
	                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Half of all connections stay for calls: who only listens keeps nobody from acting. */
static int streams_max(const struct api_call *c)
{
	int64_t half = c->setup->settings.http.max_connections / 2;
	return half < EVENT_STREAMS_MAX ? (int)half : EVENT_STREAMS_MAX;
}

static bool take_place(struct api_call *c, struct events *e)
{
	int max = streams_max(c);
	pthread_mutex_lock(&e->lock);
	bool room = e->n < max;
	e->n += room;
	pthread_mutex_unlock(&e->lock);
	if (room)
		return true;
	api_header(c, "Retry-After", "10");
	return api_problem(c, 503, "%d streams are open and there may be no more; close one", max);
}

static void listen_to_events(struct api_call *c)
{
	static const struct http_stream_ops ops = {pull, gone};
	static const char *const takes[] = {"watch", "event", "last_event_id", NULL};
	struct events *e = c->api->events;
	const char *event = api_query(c, "event");
	struct ledger_cursor cursor;
	if (!api_query_takes(c, takes) || !check_event(c, event) || !read_cursor(c, &cursor))
		return;
	if (!take_place(c, e)) {
		ledger_cursor_release(&cursor);
		return;
	}
	struct listener *l = mem_alloc(sizeof *l);
	l->events = e;
	l->setup = c->setup->number;
	event_stream_init(&l->stream, &cursor, api_query(c, "watch"), event, clock_boot_ms());
	l->stream.sight = c->role >= ROLE_OPERATOR ? EVENT_WHOLE : EVENT_VIEWED;
	l->http = http_stream(c, "text/event-stream", &ops, l);
	if (l->http)
		events_join(e, l);
	else
		events_leave(e, l);
}

const struct api_route api_event_routes[] = {
	{"GET", "/events", ROLE_VIEWER, API_MEMORY, false, false,
     "what happens, as it happens: server-sent events", listen_to_events},
	{.method = NULL},
};
