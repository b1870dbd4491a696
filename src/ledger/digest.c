/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/digest.h"

#include "base/clock.h"
#include "base/hash.h"
#include "ledger/digest_store.h"
#include "ledger/events.h"

/* ---- counts by key ---- */

/* The slot of a key, or where it would be. */
static unsigned digest_slot_of(const struct digest_map *m, const char *key, size_t len)
{
	unsigned at = (unsigned)fnv1a(FNV_START, key, len) & (m->size - 1);
	while (m->slots[at] >= 0) {
		const struct digest_sum *s = &m->sums[m->slots[at]];
		if (s->len == len && memcmp(s->key, key, len) == 0)
			break;
		at = (at + 1) & (m->size - 1);
	}
	return at;
}

/* Old arrays stay in the arena: together they are no larger than the new ones. */
static void digest_grow(struct digest_map *m, struct arena *a)
{
	struct digest_map larger = {.n = m->n, .size = m->size ? 2 * m->size : 64};
	larger.sums = ARENA_ARRAY(a, struct digest_sum, larger.size / 2);
	larger.slots = ARENA_ARRAY(a, int, larger.size);
	for (unsigned i = 0; i < larger.size; i++)
		larger.slots[i] = -1;
	for (int i = 0; i < m->n; i++) {
		larger.sums[i] = m->sums[i];
		larger.slots[digest_slot_of(&larger, m->sums[i].key, m->sums[i].len)] = i;
	}
	*m = larger;
}

/* `copy`: the key does not live as long as the arena. */
static void digest_map_count(struct digest_map *m, const char *key, size_t len, int64_t n,
                             bool copy, struct arena *a)
{
	if (2 * (unsigned)(m->n + 1) > m->size)
		digest_grow(m, a);
	unsigned at = digest_slot_of(m, key, len);
	if (m->slots[at] < 0) {
		m->slots[at] = m->n;
		m->sums[m->n++] = (struct digest_sum){copy ? arena_strndup(a, key, len) : key, len, 0};
	}
	int64_t *sum = &m->sums[m->slots[at]].n;
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = INT64_MAX;
}

/* ---- keys: a letter or a digit, and fields, each with its length before it ---- */

static void add_field(struct buf *key, const char *text)
{
	if (text)
		buf_addf(key, "%zu:%s", strlen(text), text);
	else
		buf_addch(key, '-');
}

/* The next field of a key; NULL: it is null. */
static const char *next_field(const char **at, const char *end, struct arena *a)
{
	char *text = NULL;
	if (*at >= end || **at == '-') {
		(*at)++;
		return NULL;
	}
	size_t len = strtoul(*at, &text, 10);
	if (*text != ':' || len > (size_t)(end - text - 1)) { /* nothing that we wrote */
		*at = end;
		return NULL;
	}
	*at = text + 1 + len;
	return arena_strndup(a, text + 1, len);
}

static void count_in_list(struct digest_sums *d, enum digest_by by, const char *name,
                          const char *also)
{
	AUTO_BUF key = BUF_INIT;
	buf_addf(&key, "%d", by);
	add_field(&key, name);
	add_field(&key, also);
	digest_map_count(&d->tops, buf_text(&key), key.len, 1, true, d->arena);
}

/* What is stored may have been written by anybody: no number of ours is beyond these. */
#define DAYS_MOST INT64_C(10000000)
#define MS_MOST (INT64_MAX / 2000)

static int64_t digest_within(int64_t n, int64_t most)
{
	return n > most ? most : n < -most ? -most : n;
}

/* ---- adding entries ---- */

void digest_sums_init(struct digest_sums *d, struct arena *a)
{
	*d = (struct digest_sums){.arena = a};
}

static void digest_add_time(struct digest_sums *d, int64_t ms)
{
	if (d->ntimes == d->room) {
		int room = d->room ? 2 * d->room : 256;
		int64_t *larger = ARENA_ARRAY(d->arena, int64_t, room);
		if (d->ntimes)
			memcpy(larger, d->times_ms, sizeof *larger * (size_t)d->ntimes);
		d->times_ms = larger;
		d->room = room;
	}
	d->times_ms[d->ntimes++] = ms;
}

static void digest_add_event(struct digest_sums *d, const struct digest_entry *e)
{
	AUTO_BUF key = BUF_INIT;
	buf_addf(&key, "%lld ", (long long)(e->at_us / DAY_US));
	buf_addch(&key, e->judged ? 'j' : '-');
	buf_addch(&key, e->by_hand ? 'h' : '-');
	add_field(&key, e->event);
	add_field(&key, e->rule);
	digest_map_count(&d->events, buf_text(&key), key.len, 1, true, d->arena);
}

void digest_add(struct digest_sums *d, const struct digest_entry *e, bool whole)
{
	unsigned counts = event_counts(e->event, e->judged, e->by_hand);
	digest_add_event(d, e);
	if (!whole)
		return;
	if (counts & COUNTS_DETECTED) {
		count_in_list(d, DIGEST_CAUSES, e->verdict, e->law);
		count_in_list(d, DIGEST_KINDS, e->kind, NULL);
		count_in_list(d, DIGEST_OWNERS, e->owner, NULL);
	}
	if (counts & COUNTS_RECOVERED)
		count_in_list(d, DIGEST_JOBS, e->job, NULL);
	if (e->by_hand)
		count_in_list(d, DIGEST_ACTORS, e->actor, e->event);
	if (counts & COUNTS_RECOVERED && !e->by_hand && e->has_lost)
		digest_add_time(d, e->lost_ms);
}

/* ---- the stored form: for each key its count, its length, itself; and times, with spaces ---- */

void digest_map_text(const struct digest_map *m, struct buf *out)
{
	for (int i = 0; i < m->n; i++) {
		buf_addf(out, "%lld %zu ", (long long)m->sums[i].n, m->sums[i].len);
		buf_addn(out, m->sums[i].key, m->sums[i].len);
	}
}

void digest_times_text(const struct digest_sums *d, struct buf *out)
{
	for (int i = 0; i < d->ntimes; i++) {
		buf_add(out, i ? " " : "");
		buf_addint(out, d->times_ms[i]);
	}
}

static void add_map(struct digest_map *m, const char *text, struct arena *a)
{
	const char *end = text + strlen(text);
	while (text < end) {
		char *at = NULL;
		int64_t n = strtoll(text, &at, 10);
		size_t len = strtoul(at, &at, 10);
		if (*at != ' ' || len > (size_t)(end - at - 1)) /* nothing that we wrote */
			return;
		digest_map_count(m, at + 1, len, n, false, a);
		text = at + 1 + len;
	}
}

void digest_add_texts(struct digest_sums *d, const char *events, const char *tops,
                      const char *times)
{
	if (events)
		add_map(&d->events, events, d->arena);
	if (tops)
		add_map(&d->tops, tops, d->arena);
	for (char *end = NULL; times && *times; times = *end ? end + 1 : end)
		digest_add_time(d, digest_within(strtoll(times, &end, 10), MS_MOST));
}

/* ---- the result ---- */

static void take_events(const struct digest_sums *d, bool before, struct digest *out)
{
	for (int i = 0; i < d->events.n; i++) {
		const struct digest_sum *s = &d->events.sums[i];
		const char *end = s->key + s->len;
		char *at = NULL;
		AUTO_BUF day = BUF_INIT;
		time_iso(digest_within(strtoll(s->key, &at, 10), DAYS_MOST) * DAY_US, &day);
		if (end - at < 3)
			continue;
		struct digest_event e = {.before = before, .n = s->n};
		e.day = arena_strndup(d->arena, buf_text(&day), 10);
		e.judged = at[1] == 'j';
		e.by_hand = at[2] == 'h';
		const char *fields = at + 3;
		e.event = next_field(&fields, end, d->arena);
		e.rule = next_field(&fields, end, d->arena);
		out->events[out->nevents++] = e;
	}
}

/* The most frequent first; by name too, so that ties are always resolved the same way. */
static int more_first(const void *a, const void *b)
{
	const struct digest_count *x = a, *y = b;
	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	int order = strcmp(x->name, y->name);
	return order ? order : strcmp(x->also ? x->also : "", y->also ? y->also : "");
}

/* A watch without kinds or owners has one group, without a name. */
static void digest_take_list(const struct digest_sums *d, enum digest_by by, int limit,
                             struct digest_list *out)
{
	int64_t least = 0;
	out->items = ARENA_ARRAY(d->arena, struct digest_count, limit + 1);
	for (int i = 0; i < d->tops.n; i++) {
		const struct digest_sum *s = &d->tops.sums[i];
		const char *at = s->key + 1, *end = s->key + s->len;
		if (s->len < 2 || s->key[0] != '0' + (char)by || (out->n == limit && s->n < least))
			continue;
		struct digest_count c = {.n = s->n};
		c.name = next_field(&at, end, d->arena);
		c.also = next_field(&at, end, d->arena);
		if (!c.name)
			continue;
		out->items[out->n++] = c;
		qsort(out->items, (size_t)out->n, sizeof c, more_first);
		out->n = out->n > limit ? limit : out->n;
		least = out->n ? out->items[out->n - 1].n : 0;
	}
}

static int shorter_first(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static struct digest_times times_of(struct digest_sums *d)
{
	if (d->ntimes == 0)
		return (struct digest_times){0};
	qsort(d->times_ms, (size_t)d->ntimes, sizeof *d->times_ms, shorter_first);
	return (struct digest_times){d->ntimes, d->times_ms[(d->ntimes + 1) / 2 - 1] * 1000,
	                             d->times_ms[d->ntimes - 1] * 1000};
}

void digest_of_sums(const struct digest_sums *before, struct digest_sums *now, int limit,
                    struct digest *out)
{
	int n = now->events.n + (before ? before->events.n : 0);
	*out = (struct digest){.events = ARENA_ARRAY(now->arena, struct digest_event, n + 1)};
	if (before)
		take_events(before, true, out);
	take_events(now, false, out);
	for (int by = 0; by < DIGEST_LISTS && limit > 0; by++)
		digest_take_list(now, (enum digest_by)by, limit, &out->tops[by]);
	out->times = times_of(now);
}
