/* daemon.c: see daemon.h. */
#include "serve/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "serve/beats.h"
#include "serve/station.h"

/* The list changes in one thread only, and is read by others: those that answer probes. */
struct daemon {
	struct daemon_options options;
	pthread_mutex_t lock;
	struct station **stations;
	int n;
};

static void add(struct daemon *d, struct setup *setup, const struct database *database)
{
	struct station *s = station_start(&d->options, setup, database);
	pthread_mutex_lock(&d->lock);
	d->stations = mem_grow(d->stations, sizeof(struct station *) * (size_t)(d->n + 1));
	d->stations[d->n++] = s;
	pthread_mutex_unlock(&d->lock);
}

/* One of that name, even where it is about to end: the board has one row for both. */
static struct station *station_named(const struct daemon *d, const char *name)
{
	for (int i = 0; i < d->n; i++)
		if (text_eq(d->stations[i]->name, name))
			return d->stations[i];
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

static bool still_wanted(const struct settings *all, const struct station *s)
{
	for (int i = 0; i < all->ndatabases; i++)
		if (station_serves(s, &all->databases[i]))
			return true;
	return false;
}

void daemon_reload(struct daemon *d)
{
	struct setup *setup = setup_hold(d->options.setups);
	const struct settings *all = &setup->settings;
	for (int i = 0; i < d->n; i++) {
		if (still_wanted(all, d->stations[i]))
			station_poke(d->stations[i]);
		else
			station_ask_stop(d->stations[i]);
	}
	for (int i = 0; i < all->ndatabases; i++)
		if (!station_named(d, all->databases[i].name))
			add(d, setup, &all->databases[i]);
	setup_drop(d->options.setups, setup);
}

void daemon_tidy(struct daemon *d)
{
	int had = d->n;
	for (int i = 0; i < d->n; i++) {
		struct station *s = d->stations[i];
		if (!atomic_load(&s->ended))
			continue;
		pthread_mutex_lock(&d->lock);
		d->stations[i--] = d->stations[--d->n];
		pthread_mutex_unlock(&d->lock);
		log_event(LOG_INFO, "a database is no longer watched", LOG_STR("database", s->name));
		board_drop_database(d->options.board, s->name);
		if (d->options.beats)
			beats_forget(d->options.beats, s->name);
		station_end(s);
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
		int64_t since = now - atomic_load(&d->stations[i]->round_ms);
		if (!atomic_load(&d->stations[i]->ended) && since > idle)
			idle = since;
	}
	pthread_mutex_unlock(&d->lock);
	return idle;
}

void daemon_stop(struct daemon *d)
{
	for (int i = 0; i < d->n; i++)
		station_ask_stop(d->stations[i]);
	for (int i = 0; i < d->n; i++)
		station_end(d->stations[i]);
	pthread_mutex_destroy(&d->lock);
	free(d->stations);
	free(d);
}
