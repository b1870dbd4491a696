/* setup.c: see setup.h. */
#include "serve/setup.h"

#include <assert.h>

struct setup *setup_new(void)
{
	struct setup *s = mem_alloc(sizeof *s);
	s->uses = 1;
	return s;
}

void setup_box_init(struct setup_box *b, struct setup *first)
{
	pthread_mutex_init(&b->lock, NULL);
	first->number = 1;
	b->now = first;
}

void setup_free(struct setup *s)
{
	arena_release(&s->arena);
	free(s);
}

static void drop_locked(struct setup *s)
{
	assert(s->uses > 0);
	if (--s->uses == 0)
		setup_free(s);
}

void setup_box_put(struct setup_box *b, struct setup *next)
{
	pthread_mutex_lock(&b->lock);
	next->number = b->now->number + 1;
	drop_locked(b->now);
	b->now = next;
	pthread_mutex_unlock(&b->lock);
}

void setup_box_release(struct setup_box *b)
{
	drop_locked(b->now);
	b->now = NULL;
	pthread_mutex_destroy(&b->lock);
}

struct setup *setup_hold(struct setup_box *b)
{
	pthread_mutex_lock(&b->lock);
	struct setup *s = b->now;
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

struct setup *setup_hold_same(struct setup_box *b, struct setup *s)
{
	pthread_mutex_lock(&b->lock);
	assert(s->uses > 0);
	s->uses++;
	pthread_mutex_unlock(&b->lock);
	return s;
}

void setup_drop(struct setup_box *b, struct setup *s)
{
	pthread_mutex_lock(&b->lock);
	drop_locked(s);
	pthread_mutex_unlock(&b->lock);
}
