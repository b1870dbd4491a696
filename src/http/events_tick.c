/*
 * events_tick.c: what is told by the clock: watches that changed, a beat for those who
 * hear nothing, the end of those who take nothing.
 *
 * Watches are read from the overview, so a second between two looks is what keeps a watch
 * from being told more often.
 */
#include "base/clock.h"
#include "base/text.h"
#include "http/events_inside.h"
#include "http/json_watch.h"
#include "watch/builtin.h"

#include <stdlib.h>

static struct override_watch *override_of(struct events *e, const struct overview_watch *w)
{
	for (int i = 0; i < e->ntold; i++)
		if (text_eq(e->told[i].name, w->name) && text_eq(e->told[i].database, w->database))
			return &e->told[i];
	e->told = mem_grow(e->told, sizeof *e->told * (size_t)(e->ntold + 1));
	e->told[e->ntold] = (struct override_watch){mem_strdup(w->database), mem_strdup(w->name), NULL};
	return &e->told[e->ntold++];
}

static const struct database *database_of(const struct settings *s, const char *name)
{
	for (int i = 0; i < s->ndatabases; i++)
		if (text_eq(s->databases[i].name, name))
			return &s->databases[i];
	return NULL;
}

/* The built-in queue's stands in no file and never changes. */
static const struct watch *watch_of(struct events *e, const struct settings *s, const char *name,
                                    const struct database *d)
{
	const struct watch *w = settings_watch(s, name);
	if (w || !text_eq(name, BUILTIN_NAME))
		return w;
	if (!e->builtin[d->engine])
		e->builtin[d->engine] = builtin_watch(d->engine, &e->keep);
	return e->builtin[d->engine];
}

/* What GET /api/v1/watches says of it; false: the configuration has it no longer. */
static bool say(struct events *e, const struct settings *s, const struct overview_watch *w,
                struct buf *out)
{
	const struct database *d = database_of(s, w->database);
	const struct watch *watch = d ? watch_of(e, s, w->name, d) : NULL;
	if (!watch)
		return false;
	watch_json(&(struct watch_view){.watch = watch,
	                                .database = d,
	                                .builtin = watch == e->builtin[d->engine],
	                                .overview = w,
	                                .now_ms = clock_boot_ms(),
	                                .started_ms = e->started_ms},
	           out);
	buf_add(out, "}");
	return true;
}

/* A watch as it is now, and whether that is news. */
struct shown_watch {
	const char *name, *json;
	bool changed;
};

static struct shown_watch *look(struct events *e, const struct settings *s, struct arena *a, int *n)
{
	struct overview_view view;
	struct buf json = BUF_INIT;
	overview_read(e->overview, a, &view);
	struct shown_watch *all = ARENA_ARRAY(a, struct shown_watch, view.nwatches + 1);
	*n = 0;
	for (int i = 0; i < view.nwatches; i++) {
		buf_clear(&json);
		if (!say(e, s, &view.watches[i], &json))
			continue;
		struct override_watch *told = override_of(e, &view.watches[i]);
		bool changed = !text_eq(told->json, buf_text(&json));
		all[(*n)++] =
			(struct shown_watch){view.watches[i].name, arena_strdup(a, buf_text(&json)), changed};
		if (changed) {
			free(told->json);
			told->json = mem_strdup(buf_text(&json));
		}
	}
	buf_release(&json);
	return all;
}

static void tell(struct listener *l, int64_t setup, const struct shown_watch *watches, int n,
                 int64_t now)
{
	bool all = l->stream.watches_due;
	/* A reload may have taken his token away, or what he may see: he must come again. */
	if (l->setup < setup)
		l->stream.over = true;
	l->stream.watches_due = false;
	for (int i = 0; i < n; i++)
		if (all || watches[i].changed)
			event_stream_watch(&l->stream, watches[i].name, watches[i].json, now);
	event_stream_tick(&l->stream, now);
	listener_wake(l);
}

void events_tick(struct events *e)
{
	struct arena a = ARENA_INIT;
	struct live_settings *setup = live_settings_hold(e->setups);
	int n = 0;
	const struct shown_watch *watches = look(e, &setup->settings, &a, &n);
	int64_t number = setup->number;
	live_settings_drop(e->setups, setup);
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&e->lock);
	for (struct listener *l = e->first; l; l = l->next)
		tell(l, number, watches, n, now);
	pthread_mutex_unlock(&e->lock);
	arena_release(&a);
}

void events_tick_release(struct events *e)
{
	for (int i = 0; i < e->ntold; i++) {
		free(e->told[i].database);
		free(e->told[i].name);
		free(e->told[i].json);
	}
	free(e->told);
	arena_release(&e->keep);
}
