/* SPDX-License-Identifier: Apache-2.0 */
/* overview.c: see overview.h. */
#include "daemon/overview.h"

#include "base/text.h"

#include <pthread.h>

/* Each row owns its texts. */
struct database_row {
	struct overview_database d;
	char *texts[2];
};
struct watch_row {
	struct overview_watch w;
	char *texts[4];
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

static void free_texts(char **texts, int n)
{
	for (int i = 0; i < n; i++)
		free(texts[i]);
}

void overview_free(struct overview *b)
{
	for (int i = 0; i < b->ndatabases; i++)
		free_texts(b->databases[i].texts, 2);
	for (int i = 0; i < b->nwatches; i++)
		free_texts(b->watches[i].texts, 4);
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

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

void overview_put_database(struct overview *b, const struct overview_database *d)
{
	struct database_row row = {*d, {copy(d->name), copy(d->error)}};
	row.d.name = row.texts[0];
	row.d.error = row.texts[1];
	pthread_mutex_lock(&b->lock);
	int i = database_at(b, d->name);
	if (i == b->ndatabases)
		b->databases = mem_grow(b->databases, sizeof row * (size_t)++b->ndatabases);
	else
		free_texts(b->databases[i].texts, 2);
	b->databases[i] = row;
	pthread_mutex_unlock(&b->lock);
}

void overview_put_watch(struct overview *b, const struct overview_watch *w)
{
	struct watch_row row = {*w, {copy(w->name), copy(w->database), copy(w->info), copy(w->failed)}};
	row.w.name = row.texts[0];
	row.w.database = row.texts[1];
	row.w.info = row.texts[2];
	row.w.failed = row.texts[3];
	pthread_mutex_lock(&b->lock);
	int i = watch_at(b, w->database, w->name);
	if (i == b->nwatches)
		b->watches = mem_grow(b->watches, sizeof row * (size_t)++b->nwatches);
	else {
		row.w.firing = b->watches[i].w.firing;
		free_texts(b->watches[i].texts, 4);
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
		free_texts(b->watches[i].texts, 4);
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
		free_texts(b->databases[i].texts, 2);
		for (b->ndatabases--; i < b->ndatabases; i++)
			b->databases[i] = b->databases[i + 1];
	}
	pthread_mutex_unlock(&b->lock);
}

static const char *arena_copy(struct arena *a, const char *text)
{
	return text ? arena_strdup(a, text) : NULL;
}

void overview_read(struct overview *b, struct arena *a, struct overview_view *out)
{
	pthread_mutex_lock(&b->lock);
	*out = (struct overview_view){.ndatabases = b->ndatabases, .nwatches = b->nwatches};
	out->databases = ARENA_ARRAY(a, struct overview_database, b->ndatabases + 1);
	out->watches = ARENA_ARRAY(a, struct overview_watch, b->nwatches + 1);
	for (int i = 0; i < b->ndatabases; i++) {
		struct overview_database *d = &out->databases[i];
		*d = b->databases[i].d;
		d->name = arena_copy(a, d->name);
		d->error = arena_copy(a, d->error);
	}
	for (int i = 0; i < b->nwatches; i++) {
		struct overview_watch *w = &out->watches[i];
		*w = b->watches[i].w;
		w->name = arena_copy(a, w->name);
		w->database = arena_copy(a, w->database);
		w->info = arena_copy(a, w->info);
		w->failed = arena_copy(a, w->failed);
	}
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
