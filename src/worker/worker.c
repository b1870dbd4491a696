/* SPDX-License-Identifier: Apache-2.0
 * worker.c: see worker.h.
 *
 * It has two threads: the caller's thread runs children and enforces time limits (worker_run() fits
 * on one screen), the turn thread calls the database (worker_turns.c). Jobs move from a claim to a
 * child or a handler, and from its end to the next turn.
 */

#include "worker/worker.h"

#include "base/log.h"
#include "base/program_env.h"
#include "worker/ended.h"
#include "worker/life_thread.h"
#include "worker/run_lines.h"
#include "worker/run_thread.h"
#include "worker/worker_jobs.h"
#include "worker/worker_state.h"
#include "worker/worker_turns.h"

#include <assert.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define LOOK_MS 1000   /* the longest sleep, in case a wake-up is lost */
#define RECORD_MS 4000 /* for what had ended when a client was gone: the spool has it by then */

void worker_wake(struct worker *w)
{
	uint64_t one = 1;
	(void)!write(w->event, &one, sizeof one);
}

bool worker_stopping(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool stop = w->stops > 0;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* ---- called from other threads ---- */

static void on_handler_began(void *ctx)
{
	worker_wake(ctx);
}

/* The turn thread finds out by itself whether we are alive, and as which incarnation. */
static void on_taken(void *ctx)
{
	turn_thread_wake(ctx);
}

/* Leave a message for the turn thread. */
static void worker_leave(struct worker *w, bool *message)
{
	pthread_mutex_lock(&w->lock);
	*message = true;
	pthread_mutex_unlock(&w->lock);
	turn_thread_wake(w);
}

static void on_compare(void *ctx)
{
	struct worker *w = ctx;
	worker_leave(w, &w->messages.compare);
}

static void on_wake(void *ctx)
{
	struct worker *w = ctx;
	worker_leave(w, &w->messages.woken);
}

static int64_t on_holding(void *ctx)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	int64_t n = w->engine ? engine_holding(w->engine) : 0;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void worker_stop(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->stops++;
	w->messages.stops++;
	w->stop_asked = true;
	pthread_mutex_unlock(&w->lock);
	turn_thread_wake(w);
	worker_wake(w);
}

void worker_resize(struct worker *w, int pool, int64_t concurrency, int64_t poll_ms)
{
	assert(pool >= 0 && pool < w->options.npools);
	pthread_mutex_lock(&w->lock);
	w->messages.resizes[pool] = (struct resize){true, concurrency, poll_ms};
	pthread_mutex_unlock(&w->lock);
	turn_thread_wake(w);
}

void worker_counts(struct worker *w, struct worker_counts *out)
{
	pthread_mutex_lock(&w->lock);
	*out = (struct worker_counts){w->counts.settled, w->counts.refused, w->counts.spooled,
	                              w->counts.given_up};
	pthread_mutex_unlock(&w->lock);
}

void worker_log_started(const struct worker_options *o, const char *const kinds[])
{
	for (int i = 0; i < o->npools; i++)
		log_event(LOG_INFO, "worker started", LOG_STR("name", o->name),
		          LOG_STR("source", o->pools[i].source->name),
		          LOG_STR("kind", kinds[i] ? kinds[i] : "all"),
		          LOG_INT("concurrency", o->pools[i].concurrency),
		          LOG_INT("poll_ms", o->pools[i].poll_ms), LOG_INT("batch", o->pools[i].batch));
}

void worker_log_ended(const struct worker_counts *counts)
{
	log_event(LOG_INFO, "worker ended", LOG_INT("settled", counts->settled),
	          LOG_INT("lease_lost", counts->refused), LOG_INT("spooled", counts->spooled),
	          LOG_INT("abandoned", counts->abandoned));
}

/* ---- how long jobs ran ---- */

const double job_time_bounds[JOB_TIME_BUCKETS - 1] = {JOB_TIME_BOUNDS};
_Static_assert(sizeof((double[]){JOB_TIME_BOUNDS}) == sizeof job_time_bounds,
               "one bucket per bound");

void job_times_add(struct job_times *t, int64_t ms)
{
	int i = 0;
	assert(ms >= 0);
	while (i < JOB_TIME_BUCKETS - 1 && (double)ms / 1e3 > job_time_bounds[i])
		i++;
	t->counts[i]++;
	t->sum_ms += ms;
}

void job_times_json(const struct job_times *t, struct buf *out)
{
	const char *comma = "";
	buf_addf(out, "{\"sum\":%.3f,\"buckets\":{", (double)t->sum_ms / 1e3);
	for (int i = 0; i < JOB_TIME_BUCKETS; i++) {
		if (!t->counts[i])
			continue;
		buf_addf(out, "%s\"", comma);
		if (i < JOB_TIME_BUCKETS - 1)
			buf_addf(out, "%g", job_time_bounds[i]);
		else
			buf_add(out, "+Inf");
		buf_addf(out, "\":%lld", (long long)t->counts[i]);
		comma = ",";
	}
	buf_add(out, "}}");
}

/* ---- what it reports about itself ---- */

/*
 * At each renewal of its lease it writes a small JSON object to its row in the registry, whose size
 * does not grow with its work. Users read it there, and a daemon makes metrics from it: a worker
 * needs no port of its own.
 *
 * Called from the life thread (life_thread.c): only data that is shared under a lock is read.
 */

static void add_self(const struct worker *w, struct buf *out)
{
	struct utsname host = {0};
	AUTO_BUF started = BUF_INIT;
	(void)uname(&host);
	time_iso(w->started_us, &started);
	buf_add(out, "\"version\":\"" DEFIB_VERSION "\",\"host\":");
	buf_add_json(out, host.nodename);
	buf_addf(out, ",\"pid\":%lld,\"started\":\"%s\"", (long long)getpid(), buf_text(&started));
}

static void add_settled(const struct engine_counts *c, struct buf *out)
{
	bool first = true;
	buf_add(out, ",\"settled\":{");
	for (int i = 0; i < SETTLE_COUNT; i++) {
		int64_t n = c->ends[i];
		if (n || i == SETTLE_DONE || i == SETTLE_FAILED) {
			buf_addf(out, "%s\"%s\":%lld", first ? "" : ",", settle_names[i], (long long)n);
			first = false;
		}
	}
	buf_add(out, "}");
}

/* What waits on our disk, and what the database refused to record. */
static void add_spool(const struct spool_news *s, struct buf *out)
{
	buf_addf(out, ",\"spool\":{\"jobs\":%lld,\"bytes\":%lld,\"set_aside\":%lld",
	         (long long)s->waiting, (long long)s->bytes, (long long)s->set_aside);
	if (s->set_aside) {
		buf_add(out, ",\"why\":");
		buf_add_json(out, s->why);
	}
	if (s->unserved[0]) {
		buf_add(out, ",\"unserved\":");
		buf_add_json(out, s->unserved);
	}
	buf_add(out, "}");
}

static void worker_info(void *ctx, struct buf *out)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	struct engine_counts c = w->counts;
	struct job_times ran = w->ran;
	struct spool_news spooled = w->spooled;
	int64_t jobs = w->engine ? engine_holding(w->engine) : 0;
	pthread_mutex_unlock(&w->lock);
	int64_t tries = c.tries + c.unserved, failures = c.failed + c.unserved;
	buf_add(out, "{");
	add_self(w, out);
	buf_addf(out, ",\"jobs\":%lld,\"ticks\":%lld,\"claims\":%lld", (long long)jobs,
	         (long long)c.turns, (long long)c.claimed);
	add_settled(&c, out);
	buf_add(out, ",\"took\":");
	job_times_json(&ran, out);
	buf_addf(out, ",\"refused\":%lld,\"abandoned\":%lld,\"tries\":%lld,\"failures\":%lld",
	         (long long)c.refused, (long long)c.given_up, (long long)tries, (long long)failures);
	buf_addf(out, ",\"breaker\":\"%s\"", c.paused ? "open" : "closed");
	add_spool(&spooled, out);
	buf_addf(out, ",\"clock_ms\":%lld}", (long long)(clock_wall_us() / 1000));
}

/* ---- expired leases ---- */

struct lease_end {
	const struct worker *w;
	int64_t worker, ends_ms, now_ms;
};

static bool is_expired(void *ctx, const struct job *j)
{
	const struct lease_end *e = ctx;
	return e->w->options.pools[j->pool].exclusive &&
	       (e->now_ms >= e->ends_ms || j->worker != e->worker);
}

static bool stop_expired(struct lease_end *e, struct job *j)
{
	if (!is_expired(e, j))
		return false;
	j->lost = true;
	return !atomic_exchange(&j->stop, true);
}

static bool has_exclusive(const struct worker *w)
{
	for (int i = 0; i < w->options.npools; i++)
		if (w->options.pools[i].exclusive)
			return true;
	return false;
}

/*
 * Jobs that must not overlap stop when their lease expires, or when their incarnation was declared
 * dead. The turn thread may be waiting for a server that does not answer, and learn of it much
 * later. True: there were some. *due is when to check again, if that is sooner.
 */
static bool stop_all_expired(struct worker *w, int64_t now, int64_t *due)
{
	if (!has_exclusive(w))
		return false;
	struct lease_end e = {w, life_thread_worker(w->life), life_thread_ends_ms(w->life), now};
	bool any = false;
	for (int i = 0; i < w->nruns; i++)
		any = stop_expired(&e, w->runs[i]->job) || any;
	pthread_mutex_lock(&w->lock);
	for (struct job *j = w->begin; j; j = j->queued)
		any = stop_expired(&e, j) || any;
	pthread_mutex_unlock(&w->lock);
	if (w->threads)
		any = threads_ask(w->threads, is_expired, &e) || any;
	if (w->lines)
		any = lines_ask(w->lines, is_expired, &e) || any;
	if (e.ends_ms > now && e.ends_ms < *due)
		*due = e.ends_ms;
	return any;
}

/* ---- the caller's thread ---- */

static void wait_for_events(struct worker *w, int64_t wait)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(w->epoll, events, EVENTS_MAX, wait > LOOK_MS ? LOOK_MS : (int)wait);
	int64_t now = clock_boot_ms();
	for (int i = 0; i < n; i++) {
		uint64_t count;
		if (events[i].data.ptr == &w->event)
			(void)!read(w->event, &count, sizeof count);
		else if (events[i].data.ptr == &w->lines)
			lines_step(w->lines, now);
		else
			jobs_step_child(w, events[i].data.ptr, now);
	}
}

static bool take_stop_asked(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool asked = w->stop_asked;
	w->stop_asked = false;
	pthread_mutex_unlock(&w->lock);
	return asked;
}

/*
 * The program at the other end of the lines is gone. Without jobs, that is a stop. Otherwise its
 * jobs are lost with this worker, which ends as if it had been killed: nothing is settled for them
 * and the worker does not leave the registry, so that others recover them at once. What had ended
 * before is recorded first. Returns when to check again.
 */
static int64_t after_client(struct worker *w, int64_t now)
{
	int held = lines_held(w->lines);
	if (!w->client_gone)
		worker_stop(w);
	w->client_gone = true;
	if (held == 0)
		return INT64_MAX;
	if (on_holding(w) <= held + w->nruns || now - lines_gone_ms(w->lines) > RECORD_MS)
		_exit(WORKER_EXIT_CLIENT_GONE);
	return now + 1;
}

static int64_t sum_concurrency(const struct worker *w)
{
	int64_t n = 0;
	for (int i = 0; i < w->options.npools; i++)
		n += w->options.pools[i].concurrency;
	return n;
}

static void send_counts(struct worker *w)
{
	struct worker_counts counts;
	worker_counts(w, &counts);
	if (w->lines)
		lines_end(w->lines, &counts);
}

/*
 * libpq takes what is missing from its defaults: a program that relied on PGHOST would quietly work
 * on another database.
 */
static void log_withheld(const struct worker_pool *p)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF names = BUF_INIT;
	struct program_env env;
	if (!p->command && !p->workflows)
		return;
	program_env_init(&env, &a);
	program_env_pass(&env, p->pass_environment.items);
	for (int i = 0; p->workflows && i < p->workflows->n; i++)
		program_env_pass(&env, p->workflows->items[i].pass_environment.items);
	program_env_withheld(&env, "PG", &names);
	if (names.len)
		log_event(LOG_WARN, "variables of this worker are not passed on to its programs",
		          LOG_STR("names", buf_text(&names)), LOG_STR("source", p->source->name),
		          LOG_STR("next", "name those that the programs need in pass_environment"));
}

void worker_run(struct worker *w)
{
	struct failure f = {0};
	for (int i = 0; i < w->options.npools; i++)
		log_withheld(&w->options.pools[i]);
	if (turn_thread_start(w, &f)) {
		log_event(LOG_CRITICAL, f.what);
		return;
	}
	if (w->lines)
		lines_ready(w->lines, w->options.name, sum_concurrency(w));
	while (!atomic_load(&w->finished)) {
		int64_t now = clock_boot_ms();
		int64_t due = INT64_MAX;
		bool expired = stop_all_expired(w, now, &due);
		bool asked = take_stop_asked(w) || expired;
		bool more = jobs_begin(w, now);
		int64_t handler_due = jobs_step_handlers(w, now, asked);
		int64_t child_due = jobs_step_children(w, now, asked);
		due = handler_due < due ? handler_due : due;
		due = child_due < due ? child_due : due;
		if (w->lines && lines_gone_ms(w->lines)) {
			int64_t gone_due = after_client(w, now);
			due = gone_due < due ? gone_due : due;
		}
		int64_t wait = due == INT64_MAX ? LOOK_MS : due - now;
		wait_for_events(w, more || wait < 0 ? 0 : wait);
	}
	send_counts(w);
}

/* ---- creation and end ---- */

static defib_err start_threads(struct worker *w, struct failure *f)
{
	int64_t slots = 0;
	bool children = false;
	for (int i = 0; i < w->options.npools; i++) {
		const struct worker_pool *p = &w->options.pools[i];
		if (p->handler)
			slots += p->concurrency;
		else if (!p->lines || (p->workflows && p->workflows->n > 0))
			children = true;
	}
	int count = w->options.threads ? w->options.threads : (int)(slots < 16 ? slots : 16);
	struct threads_options o = {.count = count,
	                            .ended = jobs_on_handler_ended,
	                            .began = on_handler_began,
	                            .on_progress = jobs_on_progress,
	                            .stuck = jobs_on_stuck,
	                            .ctx = w};
	defib_err err = DEFIB_OK;
	if (children)
		err = keeper_start(&w->keeper, f);
	if (!err && slots > 0)
		err = threads_start(&o, &w->threads, f);
	return err;
}

static void on_client_stop(void *ctx)
{
	log_event(LOG_INFO, "the program beside this worker asks it to stop");
	worker_stop(ctx);
}

static defib_err start_lines(struct worker *w, struct failure *f)
{
	bool any = false;
	for (int i = 0; i < w->options.npools; i++)
		any = any || w->options.pools[i].lines;
	if (!any)
		return DEFIB_OK;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w->lines};
	struct lines_options o = {.in = w->options.lines_in,
	                          .out = w->options.lines_out,
	                          .client_timeout_ms = w->options.client_timeout_ms,
	                          .ended = jobs_on_handler_ended,
	                          .on_progress = jobs_on_progress,
	                          .stop = on_client_stop,
	                          .stuck = jobs_on_stuck_client,
	                          .began = on_handler_began,
	                          .ctx = w};
	defib_err err = lines_open(&o, &w->lines, f);
	if (!err && epoll_ctl(w->epoll, EPOLL_CTL_ADD, lines_fd(w->lines), &ev) < 0)
		err = fail(f, DEFIB_IO, "cannot make descriptors for a worker");
	return err;
}

static defib_err start_helpers(struct worker *w, struct failure *f)
{
	const struct worker_options *o = &w->options;
	struct life_thread_options wo = {.store = o->store,
	                                 .name = o->name,
	                                 .sources = w->sources,
	                                 .nsources = o->npools,
	                                 .watches = o->watches,
	                                 .nwatches = o->nwatches,
	                                 .retention = o->retention,
	                                 .lease = o->lease,
	                                 .brake_ms = o->brake_ms,
	                                 .no_startup = o->no_startup,
	                                 .holding = on_holding,
	                                 .taken = on_taken,
	                                 .compare = on_compare,
	                                 .wake = on_wake,
	                                 .info = worker_info,
	                                 .ctx = w};
	/* Only the keeper is forked before any thread exists; jobs fork later. */
	defib_err err = start_threads(w, f);
	if (!err)
		err = start_lines(w, f);
	if (!err)
		err = turn_thread_open(w, f);
	if (!err)
		err = life_thread_start(&wo, &w->life, f);
	return err;
}

static defib_err make_descriptors(struct worker *w, struct failure *f)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w->event};
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	defib_err err = ended_open(&w->turn_thread.ended, f);
	if (err)
		return err;
	if (w->event < 0 || w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &ev) < 0)
		return fail(f, DEFIB_IO, "cannot make descriptors for a worker");
	return DEFIB_OK;
}

static int first_of_same_jobs(const struct worker *w, int pool)
{
	const char *keys = w->sources[pool]->keys;
	for (int i = 0; keys && i < pool; i++)
		if (w->sources[i]->keys && text_eq(w->sources[i]->keys, keys))
			return i;
	return pool;
}

defib_err worker_open(const struct worker_options *o, struct worker **out, struct failure *f)
{
	struct worker *w = mem_alloc(sizeof *w);
	w->options = *o;
	w->options.beat_tries = o->beat_tries ? o->beat_tries : 3;
	w->options.beat_retry_ms = o->beat_retry_ms ? o->beat_retry_ms : 5000;
	w->started_us = clock_wall_us();
	w->begin_end = &w->begin;
	pthread_mutex_init(&w->lock, NULL);
	w->messages.resizes = mem_alloc(sizeof *w->messages.resizes * (size_t)o->npools);
	w->sources = mem_alloc(sizeof *w->sources * (size_t)o->npools);
	w->places = mem_alloc(sizeof *w->places * (size_t)o->npools);
	w->same_jobs = mem_alloc(sizeof *w->same_jobs * (size_t)o->npools);
	for (int i = 0; i < o->npools; i++) {
		w->sources[i] = o->pools[i].source;
		w->same_jobs[i] = first_of_same_jobs(w, i);
		atomic_store(&w->places[i].most, o->pools[i].concurrency);
	}
	defib_err err = make_descriptors(w, f);
	if (!err)
		err = start_helpers(w, f);
	if (err) {
		worker_close(w);
		return err;
	}
	*out = w;
	return DEFIB_OK;
}

static void worker_close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void worker_close(struct worker *w)
{
	/* In this order: jobs in hand are settled before we leave the registry. */
	turn_thread_join(w);
	life_thread_stop(w->life, true);
	threads_stop(w->threads);
	lines_close(w->lines);
	keeper_stop(w->keeper);
	turn_thread_release(w);
	free(w->sources);
	free(w->same_jobs);
	free(w->places);
	free(w->runs);
	free(w->messages.resizes);
	worker_close_fd(w->epoll);
	worker_close_fd(w->event);
	ended_close(&w->turn_thread.ended);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
