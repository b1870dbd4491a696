/* doubt.c: see doubt.h. */
#include "recover/doubt.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

void doubt_well(struct doubt *d, int64_t now_us)
{
	if (now_us > d->well_us)
		d->well_us = now_us;
}

/* When the memory is full, the two oldest become one that covers both: doubt only grows by that. */
static void make_room(struct doubt *d)
{
	if (d->n < DOUBT_OUTAGES)
		return;
	d->outages[1].begin_us = d->outages[0].begin_us;
	memmove(d->outages, d->outages + 1, sizeof *d->outages * (DOUBT_OUTAGES - 1));
	d->n--;
}

void doubt_outage(struct doubt *d, int64_t now_us, const char *cause)
{
	/* Before the first good reading there was nothing to lose. */
	if (d->well_us == 0) {
		d->well_us = now_us;
		return;
	}
	int64_t begin = d->well_us;
	int64_t end = now_us > begin ? now_us : begin;
	make_room(d);
	d->outages[d->n++] = (struct outage){begin, end, cause};
	d->well_us = end;
	d->total++;
}

int64_t doubt_clean_us(const struct doubt *d, int64_t from_us, int64_t to_us)
{
	int64_t clean = to_us > from_us ? to_us - from_us : 0;
	for (int i = 0; i < d->n; i++) {
		int64_t begin = d->outages[i].begin_us > from_us ? d->outages[i].begin_us : from_us;
		int64_t end = d->outages[i].end_us < to_us ? d->outages[i].end_us : to_us;
		if (end > begin)
			clean -= end - begin;
	}
	assert(clean >= 0);
	return clean;
}

bool doubt_excuses(const struct doubt *d, int64_t alive_us, int64_t limit_us, int64_t quiet_us,
                   int64_t now_us, int64_t *until_us, const char **cause)
{
	int64_t due_us = alive_us + limit_us;
	int64_t needed = limit_us < quiet_us ? limit_us : quiet_us;
	for (int i = 0; i < d->n; i++) {
		const struct outage *o = &d->outages[i];
		if (o->end_us <= alive_us)
			continue;
		/* The first outage that the silence met: was it over its limit before that? */
		if (due_us <= o->begin_us)
			return false;
		int64_t clean = doubt_clean_us(d, o->end_us, now_us);
		if (clean >= needed && now_us >= due_us)
			return false;
		int64_t until = now_us + (needed > clean ? needed - clean : 0);
		if (until_us)
			*until_us = until > due_us ? until : due_us;
		if (cause)
			*cause = o->cause;
		return clean < needed;
	}
	return false;
}
