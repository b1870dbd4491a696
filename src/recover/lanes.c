/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c: see lanes.h. */
#include "recover/lanes.h"

#include "base/log.h"

#include <assert.h>
#include <pthread.h>

#define LANES 2
#define UNDER_WAY_MAX (2 * LANES) /* one that each writes, and one that waits for it */

struct lane {
	struct lanes *all;
	struct session session;
	struct carrier carrier;
	pthread_t thread;
};

struct lanes {
	pthread_mutex_t mutex;
	pthread_cond_t moved; /* a batch came, or is done, or all are to end */
	struct lane lanes[LANES];
	int n, under_way;
	struct lane_job *first, *last; /* in the order of put, until they are taken */
	struct lane_job *waits;        /* the first of them that no lane has */
	bool end;
};

struct lane_job *lane_job_new(void)
{
	struct lane_job *j = mem_alloc(sizeof *j);
	*j = (struct lane_job){.arena = ARENA_INIT, .page = ARENA_INIT};
	return j;
}

void lane_job_free(struct lane_job *j)
{
	arena_release(&j->arena);
	arena_release(&j->page);
	free(j);
}

static struct lane_job *next_job(struct lanes *l)
{
	pthread_mutex_lock(&l->mutex);
	while (!l->waits && !l->end)
		pthread_cond_wait(&l->moved, &l->mutex);
	struct lane_job *j = l->waits;
	if (j)
		l->waits = j->next;
	pthread_mutex_unlock(&l->mutex);
	return j;
}

static void *lane_main(void *arg)
{
	struct lane *own = arg;
	struct lanes *l = own->all;
	for (struct lane_job *j = next_job(l); j; j = next_job(l)) {
		own->carrier.first = j->first;
		j->err = carry(&own->carrier, j->batch, j->stuck, &j->arena, &j->failure);
		arena_clear(&own->carrier.arena);
		pthread_mutex_lock(&l->mutex);
		j->done = true;
		pthread_cond_broadcast(&l->moved);
		pthread_mutex_unlock(&l->mutex);
	}
	return NULL;
}

static bool lane_open(struct lanes *l, const struct session *like, struct carrier *chief)
{
	struct failure f = {0};
	struct lane *own = &l->lanes[l->n];
	*own = (struct lane){.all = l, .session = {.options = like->options, .open = like->open}};
	if (session_ready(&own->session, &f)) {
		log_event(LOG_DEBUG, "cannot open another session for writing", LOG_STR("because", f.what));
		return false;
	}
	own->carrier = *chief;
	own->carrier.session = &own->session;
	own->carrier.arena = (struct arena)ARENA_INIT;
	own->carrier.opened = -1;
	own->carrier.chief = chief;
	own->carrier.chance.state += 1 + (uint64_t)l->n;
	if (pthread_create(&own->thread, NULL, lane_main, own)) {
		session_close(&own->session);
		return false;
	}
	l->n++;
	return true;
}

struct lanes *lanes_open(const struct session *like, struct carrier *chief)
{
	struct lanes *l = mem_alloc(sizeof *l);
	*l = (struct lanes){0};
	pthread_mutex_init(&l->mutex, NULL);
	pthread_cond_init(&l->moved, NULL);
	while (l->n < LANES && lane_open(l, like, chief))
		;
	if (l->n > 0)
		return l;
	lanes_close(l);
	return NULL;
}

bool lanes_full(const struct lanes *l)
{
	return l->under_way >= UNDER_WAY_MAX;
}

void lanes_put(struct lanes *l, struct lane_job *j)
{
	pthread_mutex_lock(&l->mutex);
	j->first = !l->last;
	if (l->first)
		l->last->next = j;
	else
		l->first = j;
	l->last = j; /* also when it was taken: it says that there was one */
	if (!l->waits)
		l->waits = j;
	l->under_way++;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->mutex);
}

struct lane_job *lanes_take(struct lanes *l)
{
	pthread_mutex_lock(&l->mutex);
	while (l->first && !l->first->done)
		pthread_cond_wait(&l->moved, &l->mutex);
	struct lane_job *j = l->first;
	if (j) {
		l->first = j->next;
		l->under_way--;
	}
	pthread_mutex_unlock(&l->mutex);
	return j;
}

void lanes_close(struct lanes *l)
{
	if (!l)
		return;
	assert(!l->first);
	pthread_mutex_lock(&l->mutex);
	l->end = true;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->mutex);
	for (int i = 0; i < l->n; i++) {
		pthread_join(l->lanes[i].thread, NULL);
		session_close(&l->lanes[i].session);
		arena_release(&l->lanes[i].carrier.arena);
	}
	pthread_mutex_destroy(&l->mutex);
	pthread_cond_destroy(&l->moved);
	free(l);
}
