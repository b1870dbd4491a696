/* daemon.c: see daemon.h. */
#include "serve/daemon.h"

#include "base/clock.h"
#include "serve/station.h"

struct daemon {
	struct daemon_options options;
	struct station **stations;
	int n;
};

struct daemon *daemon_start(const struct daemon_options *o)
{
	struct daemon *d = mem_alloc(sizeof *d);
	const struct settings *all = o->settings;
	d->options = *o;
	d->stations = mem_alloc(sizeof(struct station *) * (size_t)(all->ndatabases + 1));
	for (int i = 0; i < all->ndatabases; i++)
		d->stations[d->n++] = station_start(&d->options, &all->databases[i]);
	return d;
}

int64_t daemon_idle_ms(struct daemon *d)
{
	int64_t now = clock_boot_ms(), idle = 0;
	for (int i = 0; i < d->n; i++) {
		int64_t since = now - atomic_load(&d->stations[i]->round_ms);
		idle = since > idle ? since : idle;
	}
	return idle;
}

void daemon_stop(struct daemon *d)
{
	for (int i = 0; i < d->n; i++)
		station_ask_stop(d->stations[i]);
	for (int i = 0; i < d->n; i++)
		station_end(d->stations[i]);
	free(d->stations);
	free(d);
}
