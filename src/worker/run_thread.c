/* SPDX-License-Identifier: Apache-2.0
 * run_thread.c: see worker_state.h.
 *
 * Each thread shows what it runs, so that one pass over the threads finds the
 * handlers that exceed their time. A job that waits for a thread costs a list element, not a stack.
 */

#include "worker/run_thread.h"

#include "base/condition.h"

#include <pthread.h>
#include <unistd.h>

struct handler_job {
	struct job *job;
	struct threads *threads;
	const struct worker_pool *pool;
	const struct workflow_step *step; /* NULL: the job is not a workflow */
	struct handler_job *next;
	/* guarded by the lock of the threads */
	struct handler_job *earlier; /* the previous one of those that end later */
	bool later, finished;        /* it returned HANDLER_LATER; handler_finish() was called … */
	enum settle_as as;           /* … with this */
	int64_t began_ms, limit_ms;  /* limit 0: none */
	int64_t asked_ms;            /* when it was first seen as asked to stop; 0: it is not */
	bool timed_out, reported;
};

struct handler_thread {
	pthread_t thread;
	struct threads *threads;
	struct handler_job *now;
};

struct threads {
	struct threads_options options;
	struct handler_thread *handlers;
	int running; /* threads that were started */
	pid_t process;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct handler_job *first, *last;
	struct handler_job *laters; /* whose handlers have returned and end later */
	int finishing;              /* calls of handler_finish() that are ending one of these */
	int idle;                   /* threads that wait for a job */
	bool stop;
	/* Jobs that were added and not handed over yet; belongs to the thread that adds. */
	struct handler_job *added, *last_added;
	int nadded;
};

/* ---- for handlers ---- */

const struct claimed *handler_claim(const struct handler_job *j)
{
	return &j->job->claim;
}

struct source *handler_source(const struct handler_job *j)
{
	return j->pool->source;
}

int64_t handler_worker(const struct handler_job *j)
{
	return j->job->worker;
}

const struct workflow_step *handler_step(const struct handler_job *j)
{
	return j->step;
}

const struct step_end *handler_step_end(const struct handler_job *j)
{
	return &j->job->step_end;
}

static bool asked_to_stop(struct handler_job *j)
{
	return atomic_load(&j->job->stop);
}

bool handler_should_stop(struct handler_job *j)
{
	pthread_mutex_lock(&j->threads->lock);
	bool timed_out = j->timed_out;
	pthread_mutex_unlock(&j->threads->lock);
	return timed_out || asked_to_stop(j);
}

bool handler_lost(struct handler_job *j)
{
	return atomic_load(&j->job->lost);
}

defib_err handler_progress(struct handler_job *j, const char *step, const char *text)
{
	const struct threads_options *o = &j->threads->options;
	job_say(j->job, step, text);
	o->on_progress(o->ctx);
	return handler_lost(j) ? DEFIB_LEASE_LOST : DEFIB_OK;
}

static void replace(char **old, const char *text)
{
	free(*old);
	*old = text ? mem_strdup(text) : NULL;
}

void handler_result(struct handler_job *j, const char *json)
{
	replace(&j->job->result, json);
}

void handler_error(struct handler_job *j, const char *text)
{
	replace(&j->job->error, text);
	/* One text that the database refuses would make the whole batch fail. */
	if (text)
		utf8_copy(j->job->error, strlen(text) + 1, text);
}

void handler_delay(struct handler_job *j, int64_t delay_ms)
{
	j->job->delay_ms = delay_ms;
}

const char *handler_given_result(const struct handler_job *j)
{
	return j->job->result;
}

void handler_settled(struct handler_job *j)
{
	j->job->settled = true;
}

/* ---- the threads ---- */

static void unlink_first(struct threads *t)
{
	t->first = t->first->next;
	if (!t->first)
		t->last = NULL;
}

/* The next job to run, shown on the thread; NULL: none. */
static struct handler_job *threads_take(struct handler_thread *self)
{
	struct threads *t = self->threads;
	pthread_mutex_lock(&t->lock);
	while (!t->first && !t->stop) {
		t->idle++;
		pthread_cond_wait(&t->changed, &t->lock);
		t->idle--;
	}
	struct handler_job *j = t->first;
	if (j) {
		unlink_first(t);
		j->began_ms = clock_boot_ms();
		self->now = j;
	}
	pthread_mutex_unlock(&t->lock);
	return j;
}

static void threads_end(struct threads *t, struct handler_job *j, enum settle_as as)
{
	j->job->as = as;
	t->options.ended(t->options.ctx, j->job);
	free(j);
}

/* Its handler has ended: the time limit may have its own say. */
static void threads_conclude(struct threads *t, struct handler_job *j, enum settle_as as,
                             bool timed_out)
{
	if (timed_out && as != SETTLE_DONE) {
		as = SETTLE_TIMED_OUT;
		if (!j->job->error)
			handler_error(j, "over its time limit");
	}
	threads_end(t, j, as);
}

static void add_later(struct threads *t, struct handler_job *j)
{
	j->later = true;
	j->earlier = NULL;
	j->next = t->laters;
	if (j->next)
		j->next->earlier = j;
	t->laters = j;
}

static void drop_later(struct threads *t, struct handler_job *j)
{
	if (j->earlier)
		j->earlier->next = j->next;
	else
		t->laters = j->next;
	if (j->next)
		j->next->earlier = j->earlier;
}

void handler_finish(struct handler_job *j, enum settle_as as)
{
	struct threads *t = j->threads;
	pthread_mutex_lock(&t->lock);
	bool later = j->later, timed_out = j->timed_out;
	j->as = as;
	j->finished = true;
	if (later)
		drop_later(t, j);
	t->finishing += later;
	pthread_mutex_unlock(&t->lock);
	/* Else its thread is about to return, and does it. */
	if (!later)
		return;
	threads_conclude(t, j, as, timed_out);
	/* Its end may be recorded, and the worker closed, before we are done with both. */
	pthread_mutex_lock(&t->lock);
	if (--t->finishing == 0)
		pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

static void run_handler(struct handler_thread *self, struct handler_job *j)
{
	struct threads *t = self->threads;
	enum settle_as as = SETTLE_STOPPED;
	/* A job that was asked to stop while it waited need not begin. */
	if (!asked_to_stop(j)) {
		if (j->limit_ms > 0)
			t->options.began(t->options.ctx);
		as = j->pool->handler(j, j->pool->handler_ctx);
		/*
		 * A process that the handler forked, and that returned from it too: our threads are not
		 * there, and job, sessions and locks are the parent's.
		 */
		if (getpid() != t->process)
			_exit(EXIT_SUCCESS);
	}
	pthread_mutex_lock(&t->lock);
	self->now = NULL;
	bool timed_out = j->timed_out, later = as == HANDLER_LATER && !j->finished;
	if (later)
		add_later(t, j);
	else if (as == HANDLER_LATER)
		as = j->as;
	pthread_mutex_unlock(&t->lock);
	if (!later)
		threads_conclude(t, j, as, timed_out);
}

static void *threads_thread_main(void *arg)
{
	struct handler_job *j;
	while ((j = threads_take(arg)) != NULL)
		run_handler(arg, j);
	return NULL;
}

defib_err threads_start(const struct threads_options *o, struct threads **out, struct failure *f)
{
	struct threads *t = mem_alloc(sizeof *t);
	t->options = *o;
	t->process = getpid();
	t->handlers = mem_alloc(sizeof *t->handlers * (size_t)o->count);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	for (; t->running < o->count; t->running++) {
		struct handler_thread *self = &t->handlers[t->running];
		self->threads = t;
		if (pthread_create(&self->thread, NULL, threads_thread_main, self) != 0)
			break;
	}
	if (t->running < o->count) {
		int got = t->running;
		threads_stop(t);
		return fail(f, DEFIB_IO, "cannot start %d threads for handlers, started %d", o->count, got);
	}
	*out = t;
	return DEFIB_OK;
}

void threads_add(struct threads *t, struct job *job, const struct worker_pool *pool,
                 const struct workflow_step *step)
{
	struct handler_job *j = mem_alloc(sizeof *j);
	*j = (struct handler_job){
		.job = job,
		.threads = t,
		.pool = pool,
		.step = step,
		.limit_ms = job->claim.timeout_ms ? job->claim.timeout_ms : pool->timeout_ms,
	};
	if (step && step->timeout_us)
		j->limit_ms = ms_from_us(step->timeout_us);
	if (t->last_added)
		t->last_added->next = j;
	else
		t->added = j;
	t->last_added = j;
	t->nadded++;
}

void threads_go(struct threads *t)
{
	if (t->nadded == 0)
		return;
	pthread_mutex_lock(&t->lock);
	if (t->last)
		t->last->next = t->added;
	else
		t->first = t->added;
	t->last = t->last_added;
	int wake = t->nadded < t->idle ? t->nadded : t->idle;
	pthread_mutex_unlock(&t->lock);
	for (; wake > 0; wake--)
		pthread_cond_signal(&t->changed);
	t->added = t->last_added = NULL;
	t->nadded = 0;
}

void threads_return(struct threads *t, bool all)
{
	struct handler_job *out = NULL, **at = &t->first;
	pthread_mutex_lock(&t->lock);
	t->last = NULL;
	while (*at) {
		struct handler_job *j = *at;
		if (all || asked_to_stop(j)) {
			*at = j->next;
			j->next = out;
			out = j;
		} else {
			t->last = j;
			at = &j->next;
		}
	}
	pthread_mutex_unlock(&t->lock);
	while (out) {
		struct handler_job *j = out;
		out = j->next;
		threads_end(t, j, SETTLE_RELEASED);
	}
}

static bool threads_ask_to_stop(struct handler_job *j, bool (*must)(void *ctx, const struct job *j),
                                void *ctx)
{
	if (!must(ctx, j->job))
		return false;
	j->job->lost = true;
	return !atomic_exchange(&j->job->stop, true);
}

bool threads_ask(struct threads *t, bool (*must)(void *ctx, const struct job *j), void *ctx)
{
	bool any = false;
	pthread_mutex_lock(&t->lock);
	for (struct handler_job *j = t->first; j; j = j->next)
		any = threads_ask_to_stop(j, must, ctx) || any;
	for (int i = 0; i < t->running; i++)
		if (t->handlers[i].now)
			any = threads_ask_to_stop(t->handlers[i].now, must, ctx) || any;
	for (struct handler_job *j = t->laters; j; j = j->next)
		any = threads_ask_to_stop(j, must, ctx) || any;
	pthread_mutex_unlock(&t->lock);
	return any;
}

/* One running handler: ask it to stop, report it; returns when it must be checked next. */
static int64_t threads_look_at(struct threads *t, struct handler_job *j, int64_t now_ms)
{
	if (j->limit_ms > 0 && now_ms - j->began_ms >= j->limit_ms)
		j->timed_out = true;
	if (!j->asked_ms && (j->timed_out || asked_to_stop(j)))
		j->asked_ms = now_ms;
	if (!j->asked_ms)
		return j->limit_ms > 0 ? j->began_ms + j->limit_ms : INT64_MAX;
	if (j->reported)
		return INT64_MAX;
	int64_t stop_ms = j->pool->stop_ms ? j->pool->stop_ms : j->pool->grace_ms;
	if (now_ms - j->asked_ms < stop_ms)
		return j->asked_ms + stop_ms;
	j->reported = true;
	t->options.stuck(t->options.ctx, j->job, now_ms - j->asked_ms);
	return INT64_MAX;
}

int64_t threads_look(struct threads *t, int64_t now_ms)
{
	int64_t due = INT64_MAX;
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < t->running; i++) {
		if (!t->handlers[i].now)
			continue;
		int64_t at = threads_look_at(t, t->handlers[i].now, now_ms);
		due = at < due ? at : due;
	}
	for (struct handler_job *j = t->laters; j; j = j->next) {
		int64_t at = threads_look_at(t, j, now_ms);
		due = at < due ? at : due;
	}
	pthread_mutex_unlock(&t->lock);
	return due;
}

void threads_stop(struct threads *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	for (int i = 0; i < t->running; i++)
		pthread_join(t->handlers[i].thread, NULL);
	pthread_mutex_lock(&t->lock);
	while (t->finishing > 0)
		pthread_cond_wait(&t->changed, &t->lock);
	pthread_mutex_unlock(&t->lock);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t->handlers);
	free(t);
}
