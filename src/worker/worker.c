/*
 * worker.c: see worker.h.
 *
 * The loop fits one screen: worker_run() does what is due and learns from
 * each part how long it may sleep. Jobs move from a claim to a slot, from
 * there to a child or a handler, and from its end to the settler.
 */
#include "worker/worker_inside.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define LOOK_MS 1000 /* the longest sleep: whatever wakes us may fail to */

void worker_wake(struct worker *w)
{
	uint64_t one = 1;
	(void)!write(w->event, &one, sizeof one);
}

void worker_stop_jobs(struct worker *w, const struct source *src, const char *key, int64_t epoch,
                      bool lost)
{
	if (hand_stop(&w->hand, src, key, epoch, lost) == 0)
		return;
	pthread_mutex_lock(&w->lock);
	w->told = true;
	pthread_mutex_unlock(&w->lock);
	worker_wake(w);
}

/* ---- called from other threads ---- */

static void on_settled_batch(void *ctx)
{
	worker_wake(ctx);
}

static void on_handler_began(void *ctx)
{
	worker_wake(ctx);
}

static void on_taken(void *ctx)
{
	worker_stop_jobs(ctx, NULL, NULL, 0, true);
}

static void on_stray(void *ctx, struct source *src, int64_t worker, const char *key, int64_t epoch)
{
	struct worker *w = ctx;
	struct claimed c = {.key = key, .epoch = epoch, .queue = src->name};
	/* The lock keeps the settler where it is: worker_close() ends it before the watchman. */
	pthread_mutex_lock(&w->lock);
	if (!w->closing) {
		struct hand_job *j = hand_add(&w->hand, src, 0, worker, &c);
		j->slot = -1;
		j->as = SETTLE_RELEASED;
		settler_add(w->settler, j);
	}
	pthread_mutex_unlock(&w->lock);
}

static void on_wake(void *ctx)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	w->woken = true;
	pthread_mutex_unlock(&w->lock);
	worker_wake(w);
}

/* ---- what a tick does beside jobs and claims ---- */

bool worker_stopping(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool stop = w->stops > 0;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* The lease has run out by our own clock: exclusive work must not go on. */
static void stop_exclusive(struct worker *w)
{
	if (watchman_contact(w->watchman) != CONTACT_EXPIRED)
		return;
	for (int i = 0; i < w->options.npools; i++)
		if (w->options.pools[i].exclusive)
			worker_stop_jobs(w, w->sources[i], NULL, 0, true);
}

/* A second stop, or the end of the grace, hands back at once. */
static void enforce_grace(struct worker *w, int64_t now)
{
	pthread_mutex_lock(&w->lock);
	int stops = w->stops;
	pthread_mutex_unlock(&w->lock);
	if (stops == 0)
		return;
	if (w->stopped_ms == 0)
		w->stopped_ms = now;
	for (int i = 0; i < w->options.npools; i++) {
		const struct worker_pool *p = &w->options.pools[i];
		int64_t grace_ms = p->own_grace ? p->grace_ms : w->options.grace_ms;
		if (stops > 1 || now >= w->stopped_ms + grace_ms)
			worker_stop_jobs(w, p->source, NULL, 0, false);
	}
}

static bool all_empty(const struct worker *w)
{
	for (int i = 0; i < w->options.npools; i++)
		if (!w->crews[i].claimed || !w->crews[i].empty)
			return false;
	return true;
}

static bool finished(struct worker *w)
{
	if (hand_count(&w->hand) > 0 || !settler_idle(w->settler))
		return false;
	jobs_give_slots(w); /* a step that was settled has made its job ready again */
	return worker_stopping(w) || (w->options.drain && all_empty(w));
}

/*
 * The descriptor of the wake-up changes with the session, but not always its number: a new session
 * may have the old one's, and so may a child's pipe. A session is told by how often it was opened.
 * One that was closed has left epoll by itself; to take its number out could take out a child.
 */
static void listen_again(struct worker *w)
{
	int fd = wake_fd(w->wake, w->session.store);
	if (fd == w->listening_fd && w->session.opened == w->listening_opened)
		return;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w->listening_fd};
	w->listening_fd = fd;
	w->listening_opened = w->session.opened;
	/* SQLite's wake-up outlives its sessions, and is there already. */
	if (fd >= 0 && epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 && errno != EEXIST)
		w->listening_fd = -1;
}

static void wait_for_events(struct worker *w, int64_t wait)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(w->epoll, events, EVENTS_MAX, wait > LOOK_MS ? LOOK_MS : (int)wait);
	int64_t now = clock_boot_ms();
	for (int i = 0; i < n; i++) {
		uint64_t count;
		if (events[i].data.ptr == &w->event)
			(void)!read(w->event, &count, sizeof count);
		else if (events[i].data.ptr != &w->listening_fd)
			jobs_step_child(w, events[i].data.ptr, now);
	}
}

/* What other threads left for this tick. */
struct news {
	bool woken, told;
};

static struct news take_news(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	struct news news = {w->woken, w->told};
	w->woken = false;
	w->told = false;
	for (int i = 0; i < w->options.npools; i++) {
		struct resize *r = &w->resizes[i];
		if (!r->wanted)
			continue;
		slots_resize(&w->crews[i].slots, r->concurrency);
		w->crews[i].poll_ms = r->poll_ms;
		r->wanted = false;
	}
	pthread_mutex_unlock(&w->lock);
	news.woken = wake_taken(w->wake, w->session.store) || news.woken;
	return news;
}

static int64_t until(int64_t due, int64_t now, int64_t wait)
{
	return due != INT64_MAX && due - now < wait ? due - now : wait;
}

void worker_run(struct worker *w)
{
	while (!finished(w)) {
		int64_t now = clock_boot_ms();
		struct news news = take_news(w);
		jobs_give_slots(w);
		enforce_grace(w, now);
		stop_exclusive(w);
		look_for_cancels(w, news.woken, now);
		send_progress(w, now);
		int64_t wait = claim_due(w, news.woken, now);
		wait = until(send_beats(w, now), now, wait);
		wait = until(jobs_step_handlers(w, now, news.told), now, wait);
		wait = until(jobs_step_children(w, now, news.told), now, wait);
		listen_again(w);
		wait_for_events(w, wait < 0 ? 0 : wait);
	}
}

void worker_stop(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->stops++;
	w->woken = true;
	pthread_mutex_unlock(&w->lock);
	worker_wake(w);
}

void worker_resize(struct worker *w, int pool, int64_t concurrency, int64_t poll_ms)
{
	assert(pool >= 0 && pool < w->options.npools);
	pthread_mutex_lock(&w->lock);
	w->resizes[pool] = (struct resize){true, concurrency, poll_ms};
	pthread_mutex_unlock(&w->lock);
	worker_wake(w);
}

void worker_counts(struct worker *w, struct settler_counts *out)
{
	settler_counts(w->settler, out);
	pthread_mutex_lock(&w->lock);
	out->settled += w->settled;
	pthread_mutex_unlock(&w->lock);
}

/* ---- making and ending one ---- */

static defib_err start_threads(struct worker *w, struct failure *f)
{
	int64_t slots = 0;
	bool children = false;
	for (int i = 0; i < w->options.npools; i++) {
		if (w->options.pools[i].handler)
			slots += w->options.pools[i].concurrency;
		else
			children = true;
	}
	int count = w->options.threads ? w->options.threads : (int)(slots < 16 ? slots : 16);
	struct threads_options o = {.count = count,
	                            .hand = &w->hand,
	                            .ended = jobs_on_handler_ended,
	                            .began = on_handler_began,
	                            .stuck = jobs_on_stuck,
	                            .ctx = w};
	defib_err err = DEFIB_OK;
	if (children)
		err = keeper_start(&w->keeper, f);
	if (!err && slots > 0)
		err = threads_start(&o, &w->threads, f);
	return err;
}

static defib_err start_helpers(struct worker *w, struct failure *f)
{
	const struct worker_options *o = &w->options;
	struct settler_options so = {.store = o->store,
	                             .hand = &w->hand,
	                             .sources = w->sources,
	                             .nsources = o->npools,
	                             .spool = o->spool,
	                             .side = o->side,
	                             .tries = 3,
	                             .try_ms = 1000,
	                             .settled = jobs_on_settled,
	                             .done = on_settled_batch,
	                             .ctx = w};
	struct watchman_options wo = {.store = o->store,
	                              .name = o->name,
	                              .hand = &w->hand,
	                              .sources = w->sources,
	                              .nsources = o->npools,
	                              .watches = o->watches,
	                              .nwatches = o->nwatches,
	                              .retention = o->retention,
	                              .lease = o->lease,
	                              .brake_ms = o->brake_ms,
	                              .no_startup = o->no_startup,
	                              .taken = on_taken,
	                              .stray = on_stray,
	                              .wake = on_wake,
	                              .info = worker_info,
	                              .ctx = w};
	/* Children are forked before any thread exists only for the keeper; jobs fork later. */
	defib_err err = start_threads(w, f);
	if (!err)
		err = settler_start(&so, &w->settler, f);
	if (!err)
		err = watchman_start(&wo, &w->watchman, f);
	return err;
}

static void make_crews(struct worker *w)
{
	const struct worker_options *o = &w->options;
	w->crews = mem_alloc(sizeof *w->crews * (size_t)o->npools);
	w->resizes = mem_alloc(sizeof *w->resizes * (size_t)o->npools);
	w->sources = mem_alloc(sizeof *w->sources * (size_t)o->npools);
	for (int i = 0; i < o->npools; i++)
		w->sources[i] = o->pools[i].source;
}

/*
 * Slots start one by one, across pools too: the first of a pool follows the last
 * of the one before. Their time begins when what others left is taken care of.
 */
static void start_crews(struct worker *w)
{
	int64_t now = clock_boot_ms(), starts = now;
	for (int i = 0; i < w->options.npools; i++) {
		const struct worker_pool *p = &w->options.pools[i];
		struct slots_rules rules = {p->concurrency, p->stagger_ms, p->burst_limit, p->burst_ms};
		slots_init(&w->crews[i].slots, &rules, starts);
		starts += p->concurrency * p->stagger_ms;
		w->crews[i].poll_ms = p->poll_ms;
		w->crews[i].next_poll_ms = p->wait_first ? now + p->poll_ms : 0;
	}
}

defib_err worker_open(const struct worker_options *o, struct worker **out, struct failure *f)
{
	struct worker *w = mem_alloc(sizeof *w);
	w->options = *o;
	w->options.beat_tries = o->beat_tries ? o->beat_tries : 3;
	w->options.beat_retry_ms = o->beat_retry_ms ? o->beat_retry_ms : 5000;
	w->session = (struct session){.options = o->store, .open = store_open};
	w->chance = (uint64_t)clock_wall_us() ^ ((uint64_t)getpid() << 40) ^ 88172645463325252U;
	w->listening_fd = -1;
	w->started_us = clock_wall_us();
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	hand_init(&w->hand);
	pthread_mutex_init(&w->lock, NULL);
	breaker_init(&w->breaker, &(struct breaker_rules){5, 1000, 30000});
	breaker_init(&w->serving, &(struct breaker_rules){5, 1000, 30000});
	w->wake = wake_open(o->store.url);
	make_crews(w);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w->event};
	defib_err err = DEFIB_OK;
	if (w->event < 0 || w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &ev) < 0)
		err = fail(f, DEFIB_IO, "cannot make descriptors for a worker");
	if (!err)
		err = start_helpers(w, f);
	if (err) {
		worker_close(w);
		return err;
	}
	start_crews(w);
	*out = w;
	return DEFIB_OK;
}

void worker_close(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->closing = true;
	pthread_mutex_unlock(&w->lock);
	/* In this order: what is in hand is settled before we leave the registry. */
	settler_stop(w->settler, 5000);
	watchman_stop(w->watchman, true);
	threads_stop(w->threads);
	keeper_stop(w->keeper);
	for (int i = 0; i < w->options.npools; i++)
		slots_release(&w->crews[i].slots);
	hand_release(&w->hand);
	session_close(&w->session);
	wake_close(w->wake);
	free(w->crews);
	free(w->sources);
	free(w->runs);
	free(w->given);
	free(w->resizes);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->event >= 0)
		close(w->event);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
