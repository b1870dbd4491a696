/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include "base/log.h"
#include "daemon/database_loop.h"
#include "daemon/heartbeats.h"

/* Only one thread changes the list; others, which answer probes, read it. */
struct daemon {
	struct daemon_options options;
	pthread_mutex_t lock;
	struct database_loop **loops;
	int n;
};

static void daemon_add(struct daemon *d, struct live_settings *setup,
                       const struct database *database)
{
	struct database_loop *s = database_loop_start(&d->options, setup, database);
	pthread_mutex_lock(&d->lock);
	d->loops = mem_grow(d->loops, sizeof(struct database_loop *) * (size_t)(d->n + 1));
	d->loops[d->n++] = s;
	pthread_mutex_unlock(&d->lock);
}

/* One of that name, even if it is about to end: the overview has one row for both. */
static struct database_loop *database_loop_named(const struct daemon *d, const char *name)
{
	for (int i = 0; i < d->n; i++)
		if (text_eq(d->loops[i]->name, name))
			return d->loops[i];
	return NULL;
}

struct daemon *daemon_start(const struct daemon_options *o)
{
	struct daemon *d = mem_alloc(sizeof *d);
	d->options = *o;
	pthread_mutex_init(&d->lock, NULL);
	daemon_reload(d);
	return d;
}

static bool still_wanted(const struct settings *all, const struct database_loop *s)
{
	for (int i = 0; i < all->ndatabases; i++)
		if (database_loop_serves(s, &all->databases[i]))
			return true;
	return false;
}

void daemon_reload(struct daemon *d)
{
	struct live_settings *setup = live_settings_hold(d->options.setups);
	const struct settings *all = &setup->settings;
	for (int i = 0; i < d->n; i++)
		if (still_wanted(all, d->loops[i]))
			database_loop_poke(d->loops[i]);
		else
			database_loop_ask_stop(d->loops[i]);
	for (int i = 0; i < all->ndatabases; i++)
		if (!database_loop_named(d, all->databases[i].name))
			daemon_add(d, setup, &all->databases[i]);
	live_settings_drop(d->options.setups, setup);
}

void daemon_tidy(struct daemon *d)
{
	int had = d->n;
	for (int i = 0; i < d->n; i++) {
		struct database_loop *s = d->loops[i];
		if (!atomic_load(&s->ended))
			continue;
		pthread_mutex_lock(&d->lock);
		d->loops[i--] = d->loops[--d->n];
		pthread_mutex_unlock(&d->lock);
		log_event(LOG_INFO, "a database is no longer watched", LOG_STR("database", s->name));
		overview_drop_database(d->options.overview, s->name);
		if (d->options.beats)
			heartbeats_forget(d->options.beats, s->name);
		database_loop_end(s);
	}
	/* A loop whose URL changed has waited for the old one to end. */
	if (d->n < had)
		daemon_reload(d);
}

int64_t daemon_idle_ms(struct daemon *d)
{
	int64_t now = clock_boot_ms(), idle = 0;
	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < d->n; i++) {
		int64_t since = now - atomic_load(&d->loops[i]->round_ms);
		if (!atomic_load(&d->loops[i]->ended) && since > idle)
			idle = since;
	}
	pthread_mutex_unlock(&d->lock);
	return idle;
}

void daemon_stop(struct daemon *d)
{
	for (int i = 0; i < d->n; i++)
		database_loop_ask_stop(d->loops[i]);
	for (int i = 0; i < d->n; i++)
		database_loop_end(d->loops[i]);
	pthread_mutex_destroy(&d->lock);
	free(d->loops);
	free(d);
}

/* ---- the overview ---- */

/* Each row owns its texts, which are in its arena. */
struct database_row {
	struct overview_database d;
	struct arena texts;
};
struct watch_row {
	struct overview_watch w;
	struct arena texts;
};

struct overview {
	pthread_mutex_t lock;
	struct database_row *databases;
	struct watch_row *watches;
	int ndatabases, nwatches;
};

struct overview *overview_new(void)
{
	struct overview *b = mem_alloc(sizeof *b);
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

void overview_free(struct overview *b)
{
	for (int i = 0; i < b->ndatabases; i++)
		arena_release(&b->databases[i].texts);
	for (int i = 0; i < b->nwatches; i++)
		arena_release(&b->watches[i].texts);
	free(b->databases);
	free(b->watches);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static int database_at(const struct overview *b, const char *name)
{
	int i = 0;
	while (i < b->ndatabases && !text_eq(b->databases[i].d.name, name))
		i++;
	return i;
}

/* Two databases may have a watch of the same name: the built-in queue's. */
static int watch_at(const struct overview *b, const char *database, const char *name)
{
	int i = 0;
	while (i < b->nwatches &&
	       !(text_eq(b->watches[i].w.name, name) && text_eq(b->watches[i].w.database, database)))
		i++;
	return i;
}

static const char *daemon_copy(struct arena *a, const char *text)
{
	return text ? arena_strdup(a, text) : NULL;
}

static struct overview_database copy_database(const struct overview_database *d, struct arena *a)
{
	struct overview_database own = *d;
	own.name = daemon_copy(a, d->name);
	own.error = daemon_copy(a, d->error);
	return own;
}

static struct overview_watch copy_watch(const struct overview_watch *w, struct arena *a)
{
	struct overview_watch own = *w;
	own.name = daemon_copy(a, w->name);
	own.database = daemon_copy(a, w->database);
	own.info = daemon_copy(a, w->info);
	own.failed = daemon_copy(a, w->failed);
	return own;
}

void overview_put_database(struct overview *b, const struct overview_database *d)
{
	struct database_row row = {.texts = ARENA_INIT};
	row.d = copy_database(d, &row.texts);
	pthread_mutex_lock(&b->lock);
	int i = database_at(b, d->name);
	if (i == b->ndatabases)
		b->databases = mem_grow(b->databases, sizeof row * (size_t)++b->ndatabases);
	else
		arena_release(&b->databases[i].texts);
	b->databases[i] = row;
	pthread_mutex_unlock(&b->lock);
}

void overview_put_watch(struct overview *b, const struct overview_watch *w)
{
	struct watch_row row = {.texts = ARENA_INIT};
	row.w = copy_watch(w, &row.texts);
	pthread_mutex_lock(&b->lock);
	int i = watch_at(b, w->database, w->name);
	if (i == b->nwatches) {
		b->watches = mem_grow(b->watches, sizeof row * (size_t)++b->nwatches);
	} else {
		row.w.firing = b->watches[i].w.firing;
		arena_release(&b->watches[i].texts);
	}
	b->watches[i] = row;
	pthread_mutex_unlock(&b->lock);
}

void overview_put_firing(struct overview *b, const char *database, const char *name, int firing)
{
	pthread_mutex_lock(&b->lock);
	int i = watch_at(b, database, name);
	if (i < b->nwatches)
		b->watches[i].w.firing = firing;
	pthread_mutex_unlock(&b->lock);
}

void overview_drop_watch(struct overview *b, const char *database, const char *name)
{
	pthread_mutex_lock(&b->lock);
	int i = watch_at(b, database, name);
	if (i < b->nwatches) {
		arena_release(&b->watches[i].texts);
		for (b->nwatches--; i < b->nwatches; i++)
			b->watches[i] = b->watches[i + 1];
	}
	pthread_mutex_unlock(&b->lock);
}

void overview_drop_database(struct overview *b, const char *name)
{
	pthread_mutex_lock(&b->lock);
	int i = database_at(b, name);
	if (i < b->ndatabases) {
		arena_release(&b->databases[i].texts);
		for (b->ndatabases--; i < b->ndatabases; i++)
			b->databases[i] = b->databases[i + 1];
	}
	pthread_mutex_unlock(&b->lock);
}

void overview_read(struct overview *b, struct arena *a, struct overview_view *out)
{
	pthread_mutex_lock(&b->lock);
	*out = (struct overview_view){.ndatabases = b->ndatabases, .nwatches = b->nwatches};
	out->databases = ARENA_ARRAY(a, struct overview_database, b->ndatabases + 1);
	out->watches = ARENA_ARRAY(a, struct overview_watch, b->nwatches + 1);
	for (int i = 0; i < b->ndatabases; i++)
		out->databases[i] = copy_database(&b->databases[i].d, a);
	for (int i = 0; i < b->nwatches; i++)
		out->watches[i] = copy_watch(&b->watches[i].w, a);
	pthread_mutex_unlock(&b->lock);
}

bool overview_is_down(struct overview *b, const char *database)
{
	pthread_mutex_lock(&b->lock);
	int i = database_at(b, database);
	bool down = i < b->ndatabases && b->databases[i].d.asked && !b->databases[i].d.up;
	pthread_mutex_unlock(&b->lock);
	return down;
}
