/* SPDX-License-Identifier: Apache-2.0 */
/* live_settings.c: see live_settings.h. */
#include "daemon/live_settings.h"

#include "base/text.h"

#include <assert.h>

struct live_settings *live_settings_new(void)
{
	struct live_settings *s = mem_alloc(sizeof *s);
	s->uses = 1;
	return s;
}

void live_settings_box_init(struct live_settings_box *b, struct live_settings *first)
{
	pthread_mutex_init(&b->lock, NULL);
	first->number = 1;
	b->now = first;
}

void live_settings_free(struct live_settings *s)
{
	arena_release(&s->arena);
	arena_release(&s->shown);
	free(s);
}

static void drop_locked(struct live_settings *s)
{
	assert(s->uses > 0);
	if (--s->uses == 0)
		live_settings_free(s);
}

void live_settings_box_put(struct live_settings_box *b, struct live_settings *next)
{
	pthread_mutex_lock(&b->lock);
	next->number = b->now->number + 1;
	drop_locked(b->now);
	b->now = next;
	pthread_mutex_unlock(&b->lock);
}

void live_settings_box_release(struct live_settings_box *b)
{
	drop_locked(b->now);
	b->now = NULL;
	pthread_mutex_destroy(&b->lock);
}

struct live_settings *live_settings_hold(struct live_settings_box *b)
{
	pthread_mutex_lock(&b->lock);
	struct live_settings *s = b->now;
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

struct live_settings *live_settings_hold_same(struct live_settings_box *b, struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	assert(s->uses > 0);
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

bool live_settings_in_force(struct live_settings_box *b, const struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	bool is = b->now == s;
	pthread_mutex_unlock(&b->lock);
	return is;
}

void live_settings_drop(struct live_settings_box *b, struct live_settings *s)
{
	pthread_mutex_lock(&b->lock);
	drop_locked(s);
	pthread_mutex_unlock(&b->lock);
}

/* ---- what a change means for workers ---- */

/* FNV-1a; the end of a text counts, so that "ab","c" is not "a","bc". */
static void mix(uint64_t *hash, const char *text)
{
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	do {
		*hash = (*hash ^ *p) * UINT64_C(1099511628211);
	} while (*p++);
}

/* What is behind a prefix; NULL: the text does not start with it. */
static const char *behind(const char *text, const char *prefix)
{
	return text_starts(text, prefix) ? text + strlen(prefix) : NULL;
}

/* What a running worker takes by HUP, and what only the scans of a daemon go by. */
static bool is_light(const char *key)
{
	static const char *const light[] = {
		"work.concurrency", "work.poll", "work.pools.concurrency", "every", "label", "group"};
	for (size_t i = 0; i < sizeof light / sizeof *light; i++)
		if (text_eq(key, light[i]))
			return true;
	return text_starts(key, "guard.") || text_starts(key, "raise") || text_starts(key, "stats.");
}

/* Whole: what is shown of them has no values. */
static void mix_passed(uint64_t *hash, const struct text_list *entries)
{
	for (int i = 0; i < entries->n; i++)
		mix(hash, entries->items[i]);
}

static uint64_t shape_of(const struct cfg_reader *r, const char *prefix, const char *url)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	mix(&hash, url); /* the whole of it: what is shown has no password */
	for (int i = 0; i < r->nshown; i++) {
		const char *key = prefix ? behind(r->shown[i].path, prefix) : NULL;
		bool counts = key ? !is_light(key) : behind(r->shown[i].path, "workflows.") != NULL;
		if (!counts)
			continue;
		mix(&hash, r->shown[i].path);
		mix(&hash, r->shown[i].value);
	}
	return hash;
}

void live_settings_shapes(struct live_settings *s, const struct cfg_reader *r)
{
	const struct settings *all = &s->settings;
	s->shapes = ARENA_ARRAY(&s->arena, uint64_t, all->nwatches + 1);
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		const char *prefix = arena_printf(&s->arena, "watches.%s.", w->name);
		s->shapes[i] = shape_of(r, prefix, settings_database(all, w)->url);
		mix_passed(&s->shapes[i], &w->work.pass_environment);
	}
	uint64_t *queue = &s->shapes[all->nwatches];
	*queue = shape_of(r, NULL, all->databases[0].url);
	for (int i = 0; i < all->workflows.n; i++)
		mix_passed(queue, &all->workflows.items[i].pass_environment);
}
