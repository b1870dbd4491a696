/* SPDX-License-Identifier: Apache-2.0 */
/* top/reader.c: see top/reader.h. */
#include "cli/top/reader.h"

#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct top_reader {
	struct top_view view; /* of the thread alone */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool stop, ended, writing;
	struct top_action *asked, *done;
	struct top_part *reading;
};

/* ---- actions ---- */

struct top_action *top_action_new(enum top_action_is is, int part, int watch)
{
	struct top_action *e = mem_alloc(sizeof *e);
	e->is = is;
	e->part = part;
	e->watch = watch;
	return e;
}

void top_action_free(struct top_action *e)
{
	if (!e)
		return;
	buf_release(&e->text);
	arena_release(&e->arena);
	free(e);
}

static void append(struct top_action **list, struct top_action *e)
{
	e->next = NULL;
	while (*list)
		list = &(*list)->next;
	*list = e;
}

static struct top_action *take_first(struct top_action **list)
{
	struct top_action *e = *list;
	if (e)
		*list = e->next;
	return e;
}

/* ---- the thread ---- */

static void wake_screen(const struct top_reader *d)
{
	/* A full pipe wakes it as well. */
	ssize_t n = write(d->view.ctx->wake_fd, "", 1);
	(void)n;
}

/* The next action; NULL when it is time to read, or to end. */
static struct top_action *wait_action(struct top_reader *d, int64_t due_ms)
{
	int64_t left_ms;
	while (!d->stop && !d->asked && (left_ms = due_ms - clock_boot_ms()) > 0) {
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += left_ms / 1000;
		until.tv_nsec += left_ms % 1000 * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&d->change, &d->lock, &until);
	}
	return d->stop ? NULL : take_first(&d->asked);
}

static void publish(struct top_reader *d, struct top_part *p)
{
	top_part_free(d->reading);
	d->reading = p;
	wake_screen(d);
}

static void *request_pool_thread(void *arg)
{
	struct top_reader *d = arg;
	int64_t due_ms = 0;
	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		struct top_action *e = wait_action(d, due_ms);
		d->writing = e && e->is != TOP_STORY && !e->dry_run;
		pthread_mutex_unlock(&d->lock);
		struct top_part *p = NULL;
		if (e)
			top_action_do(&d->view, e);
		else
			p = top_read(&d->view);
		due_ms = e ? (e->is == TOP_STORY ? due_ms : 0) : clock_boot_ms() + d->view.ctx->every_ms;
		pthread_mutex_lock(&d->lock);
		d->writing = false;
		if (e)
			append(&d->done, e);
		if (p)
			publish(d, p);
		wake_screen(d);
	}
	d->ended = true;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* ---- from outside ---- */

struct top_reader *top_reader_start(const struct top_context *ctx, const struct database *database,
                                    const struct watch *const *watches, int n, int part)
{
	struct top_reader *d = mem_alloc(sizeof *d);
	struct top_view *v = &d->view;
	pthread_condattr_t attr;
	sigset_t all, before;
	*v = (struct top_view){.ctx = ctx, .database = database, .part = part, .n = n};
	v->reads =
		(struct session){.options = cli_store_options(database, NULL, true), .open = store_open};
	v->writes =
		(struct session){.options = cli_store_options(database, NULL, false), .open = store_open};
	v->ledger_id = -1;
	v->begun_ms = clock_boot_ms();
	v->watches = mem_alloc(sizeof *v->watches * (size_t)(n + 1));
	for (int i = 0; i < n; i++) {
		v->watches[i].watch = watches[i];
		/* Acts take the time that the watch allows; a look at it is short. */
		if (watches[i]->statement_timeout_us / 1000 > v->writes.options.statement_ms)
			v->writes.options.statement_ms = watches[i]->statement_timeout_us / 1000;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->change, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals belong to the thread that has the terminal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&d->thread, NULL, request_pool_thread, d) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return d;
}

struct top_part *top_reader_reading(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	struct top_part *p = d->reading;
	d->reading = NULL;
	pthread_mutex_unlock(&d->lock);
	return p;
}

struct top_action *top_reader_done(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	struct top_action *e = take_first(&d->done);
	pthread_mutex_unlock(&d->lock);
	return e;
}

void top_reader_send(struct top_reader *d, struct top_action *e)
{
	pthread_mutex_lock(&d->lock);
	append(&d->asked, e);
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
}

bool top_reader_writes(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	bool writes = d->writing;
	pthread_mutex_unlock(&d->lock);
	return writes;
}

bool top_reader_stop(struct top_reader *d, int64_t wait_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (wait_ms + 999) / 1000;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_broadcast(&d->change);
	while (!d->ended && pthread_cond_timedwait(&d->change, &d->lock, &until) == 0)
		;
	bool ended = d->ended;
	pthread_mutex_unlock(&d->lock);
	return ended;
}

void top_reader_free(struct top_reader *d)
{
	struct top_action *e;
	pthread_join(d->thread, NULL);
	while ((e = take_first(&d->asked)) != NULL || (e = take_first(&d->done)) != NULL)
		top_action_free(e);
	top_part_free(d->reading);
	for (int i = 0; i < d->view.n; i++)
		bound_release(&d->view.watches[i].bound);
	free(d->view.watches);
	session_close(&d->view.reads);
	session_close(&d->view.writes);
	pthread_cond_destroy(&d->change);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
