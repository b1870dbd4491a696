/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c: see daemon.h. */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/database_loop.h"
#include "daemon/heartbeats.h"

/* The list changes in one thread only, and is read by others: those that answer probes. */
struct daemon {
	struct daemon_options options;
	pthread_mutex_t lock;
	struct database_loop **loops;
	int n;
};

static void add(struct daemon *d, struct live_settings *setup, const struct database *database)
{
	struct database_loop *s = database_loop_start(&d->options, setup, database);
	pthread_mutex_lock(&d->lock);
	d->loops = mem_grow(d->loops, sizeof(struct database_loop *) * (size_t)(d->n + 1));
	d->loops[d->n++] = s;
	pthread_mutex_unlock(&d->lock);
}

/* One of that name, even where it is about to end: the overview has one row for both. */
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
	for (int i = 0; i < d->n; i++) {
		if (still_wanted(all, d->loops[i]))
			database_loop_poke(d->loops[i]);
		else
			database_loop_ask_stop(d->loops[i]);
	}
	for (int i = 0; i < all->ndatabases; i++)
		if (!database_loop_named(d, all->databases[i].name))
			add(d, setup, &all->databases[i]);
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
	/* One whose URL is another now has waited for its own end. */
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
