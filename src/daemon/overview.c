/* SPDX-License-Identifier: Apache-2.0 */
/* overview.c: see overview.h. */
#include "daemon/overview.h"

#include "base/text.h"

#include <pthread.h>

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

static const char *copy(struct arena *a, const char *text)
{
	return text ? arena_strdup(a, text) : NULL;
}

static struct overview_database copy_database(const struct overview_database *d, struct arena *a)
{
	struct overview_database own = *d;
	own.name = copy(a, d->name);
	own.error = copy(a, d->error);
	return own;
}

static struct overview_watch copy_watch(const struct overview_watch *w, struct arena *a)
{
	struct overview_watch own = *w;
	own.name = copy(a, w->name);
	own.database = copy(a, w->database);
	own.info = copy(a, w->info);
	own.failed = copy(a, w->failed);
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
