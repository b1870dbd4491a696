/*
 * worker.c: see worker.h.
 *
 * The loop fits one screen: worker_run() does what is due and learns from
 * each part how long it may sleep. Jobs move from a claim to a slot, from
 * there to a child or a handler, and from its end to the settler; the slot is
 * free again only when the settlement was answered.
 */
#include "worker/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "worker/run_child.h"
#include "worker/run_thread.h"
#include "worker/slots.h"
#include "worker/wake.h"
#include "worker/watchman.h"

#include <assert.h>
#include <jansson.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PROGRESS_MS 500
#define EVENTS_MAX 64

/* A pool at work. */
struct crew {
	struct slots slots;
	int64_t poll_ms, next_poll_ms;
	bool more;    /* the last claim was full: there is probably more */
	bool claimed; /* has claimed at least once */
	bool empty;   /* the last claim found nothing */
};

/* A child at work; known to the main thread only. */
struct run {
	struct child *child;
	struct hand_job *job;
	int at; /* in worker.runs */
	int64_t due_ms;
};

struct worker {
	struct worker_options options;
	struct session session; /* work: claiming */
	struct breaker breaker;
	struct hand hand;
	struct settler *settler;
	struct watchman *watchman;
	struct threads *threads;
	struct keeper *keeper;
	struct wake *wake;
	struct crew *crews;
	struct source **sources; /* one a pool */
	struct run **runs;
	int nruns, cap_runs;
	int epoll, event, listening_fd;
	int64_t opened;
	int64_t progress_ms, cancel_ms, kill_ms;
	uint64_t chance;
	/* shared with other threads */
	pthread_mutex_t lock;
	struct hand_job *ended; /* handlers that returned */
	int64_t *given;         /* slots that came free: pool, slot pairs */
	int ngiven, cap_given;
	int stops;
	bool woken;
};

static void wake_main(struct worker *w)
{
	uint64_t one = 1;
	(void)!write(w->event, &one, sizeof one);
}

/* ---- called from other threads ---- */

/* The settler is done with a job: its slot may be given back (by the main thread). */
static void on_settled(void *ctx, const struct hand_job *j)
{
	struct worker *w = ctx;
	if (j->slot < 0)
		return;
	pthread_mutex_lock(&w->lock);
	if (w->ngiven + 2 > w->cap_given) {
		w->cap_given = w->cap_given ? w->cap_given * 2 : 64;
		w->given = mem_grow(w->given, sizeof *w->given * (size_t)w->cap_given);
	}
	w->given[w->ngiven++] = j->pool;
	w->given[w->ngiven++] = j->slot;
	pthread_mutex_unlock(&w->lock);
}

static void on_settled_batch(void *ctx)
{
	wake_main(ctx);
}

static void on_handler_ended(void *ctx, struct hand_job *j)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	j->queued = w->ended;
	w->ended = j;
	pthread_mutex_unlock(&w->lock);
	wake_main(w);
}

static void on_taken(void *ctx)
{
	struct worker *w = ctx;
	hand_stop(&w->hand, NULL, NULL, 0, true);
	wake_main(w);
}

static void on_stray(void *ctx, struct source *src, const char *key, int64_t epoch)
{
	struct worker *w = ctx;
	struct claimed c = {.key = key, .epoch = epoch, .queue = src->name};
	log_event(LOG_WARN, "a claim's answer was lost: the job is handed back",
	          LOG_STR("source", src->name), LOG_STR("job", key));
	struct hand_job *j = hand_add(&w->hand, src, 0, watchman_worker(w->watchman), &c);
	j->slot = -1;
	j->as = SETTLE_RELEASED;
	settler_add(w->settler, j);
}

static void on_wake(void *ctx)
{
	struct worker *w = ctx;
	pthread_mutex_lock(&w->lock);
	w->woken = true;
	pthread_mutex_unlock(&w->lock);
	wake_main(w);
}

/* ---- ends ---- */

static void finish(struct worker *w, struct hand_job *j)
{
	bool lost, stop = hand_stopped(&w->hand, j, &lost);
	/* Stopped by a shutdown means handed back; the database knows if it was cancelled. */
	if (stop && j->as != SETTLE_DONE)
		j->as = SETTLE_STOPPED;
	settler_add(w->settler, j);
}

static enum settle_as settle_of(enum child_end end)
{
	static const enum settle_as as[] = {
		[CHILD_RUNNING] = SETTLE_FAILED,      [CHILD_DONE] = SETTLE_DONE,
		[CHILD_FAILED] = SETTLE_FAILED,       [CHILD_RETRY] = SETTLE_RETRY,
		[CHILD_PERMANENT] = SETTLE_PERMANENT, [CHILD_KILLED] = SETTLE_CRASHED,
		[CHILD_TIMED_OUT] = SETTLE_TIMED_OUT, [CHILD_STOPPED] = SETTLE_STOPPED,
	};
	return as[end];
}

/* A result is JSON; a program that says anything else has it kept as a JSON string. */
static char *result_json(const char *text)
{
	struct buf out = BUF_INIT;
	json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
	size_t len = strlen(text);
	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		len--;
	buf_addn(&out, text, len);
	if (!json) {
		char *plain = buf_detach(&out);
		buf_add_json(&out, plain);
		free(plain);
	}
	json_decref(json);
	return buf_detach(&out);
}

static void child_ended(struct worker *w, struct hand_job *j, enum child_end end)
{
	struct run *r = j->run;
	size_t len = 0;
	const char *result = child_result(r->child, &len);
	j->as = settle_of(end);
	if (end == CHILD_DONE && len > 0)
		j->result = result_json(result);
	if (end != CHILD_DONE)
		j->error = mem_strdup(child_error(r->child));
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, child_fd(r->child), NULL);
	child_free(r->child);
	w->runs[r->at] = w->runs[--w->nruns];
	w->runs[r->at]->at = r->at;
	free(r);
	j->run = NULL;
	finish(w, j);
}

/* "STEP<tab>text", or just text. */
static void note_progress(struct worker *w, struct hand_job *j, const char *line)
{
	const char *tab = strchr(line, '\t');
	char step[128];
	if (!tab) {
		hand_progress(&w->hand, j, NULL, line);
		return;
	}
	snprintf(step, sizeof step, "%.*s", (int)(tab - line), line);
	hand_progress(&w->hand, j, step, tab + 1);
}

static void step_child(struct worker *w, struct run *r, int64_t now)
{
	struct hand_job *j = r->job;
	bool lost;
	int64_t wants = -1;
	if (hand_stopped(&w->hand, j, &lost))
		child_stop(r->child, CHILD_STOPPED, now);
	enum child_end end = child_step(r->child, now, &wants);
	const char *line = child_progress(r->child);
	if (line)
		note_progress(w, j, line);
	r->due_ms = wants < 0 ? INT64_MAX : now + wants;
	if (end != CHILD_RUNNING)
		child_ended(w, j, end);
}

/* Children whose time limit or grace is over, and those asked to stop. When the next is due. */
static int64_t step_due_children(struct worker *w, int64_t now, bool all)
{
	int64_t due = INT64_MAX;
	for (int i = w->nruns - 1; i >= 0; i--)
		if (all || w->runs[i]->due_ms <= now)
			step_child(w, w->runs[i], now);
	for (int i = 0; i < w->nruns; i++)
		if (w->runs[i]->due_ms < due)
			due = w->runs[i]->due_ms;
	return due;
}

static void finish_handlers(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	struct hand_job *j = w->ended;
	w->ended = NULL;
	pthread_mutex_unlock(&w->lock);
	while (j) {
		struct hand_job *next = j->queued;
		j->queued = NULL;
		finish(w, j);
		j = next;
	}
}

static void give_slots(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < w->ngiven; i += 2)
		slots_give(&w->crews[w->given[i]].slots, w->given[i + 1]);
	w->ngiven = 0;
	pthread_mutex_unlock(&w->lock);
}

/* ---- starts ---- */

static void job_env(const struct worker *w, const struct hand_job *j, char **env, struct arena *a)
{
	const struct claimed *c = &j->claim;
	int n = 0;
	env[n++] = arena_printf(a, "DEFIB_JOB_ID=%s", c->key);
	env[n++] = arena_printf(a, "DEFIB_EPOCH=%lld", (long long)c->epoch);
	env[n++] = arena_printf(a, "DEFIB_ATTEMPT=%lld", (long long)c->attempt);
	env[n++] = arena_printf(a, "DEFIB_MAX_ATTEMPTS=%lld", (long long)c->max_attempts);
	env[n++] = arena_printf(a, "DEFIB_QUEUE=%s", c->queue ? c->queue : "");
	env[n++] = arena_printf(a, "DEFIB_KIND=%s", c->kind ? c->kind : "");
	env[n++] = arena_printf(a, "DEFIB_WORKER=%s", w->options.name);
	env[n] = NULL;
}

static void start_child(struct worker *w, struct hand_job *j, const struct worker_pool *p,
                        int64_t now)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct child *child = NULL;
	char *env[8];
	job_env(w, j, env, &a);
	struct child_options o = {
		.argv = p->command,
		.env = env,
		.payload = j->claim.payload,
		.payload_len = j->claim.payload ? strlen(j->claim.payload) : 0,
		.timeout_ms = j->claim.timeout_ms ? j->claim.timeout_ms : p->timeout_ms,
		.grace_ms = p->grace_ms,
		.keeper = w->keeper,
	};
	defib_err err = child_start(&o, now, &child, &f);
	arena_release(&a);
	if (err) {
		log_event(LOG_ERROR, f.what, LOG_STR("job", j->claim.key));
		j->as = SETTLE_FAILED;
		j->error = mem_strdup(f.what);
		finish(w, j);
		return;
	}
	struct run *r = mem_alloc(sizeof *r);
	*r = (struct run){.child = child, .job = j, .at = w->nruns, .due_ms = now};
	if (w->nruns == w->cap_runs) {
		w->cap_runs = w->cap_runs ? w->cap_runs * 2 : 16;
		w->runs = mem_grow(w->runs, sizeof(struct run *) * (size_t)w->cap_runs);
	}
	w->runs[w->nruns++] = r;
	j->run = r;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = r};
	epoll_ctl(w->epoll, EPOLL_CTL_ADD, child_fd(child), &ev);
}

static void start_job(struct worker *w, int pool, const struct claimed *c, int64_t worker,
                      int64_t now)
{
	struct worker_pool *p = &w->options.pools[pool];
	struct hand_job *j = hand_add(&w->hand, p->source, pool, worker, c);
	j->slot = slots_take(&w->crews[pool].slots, now);
	if (p->handler)
		threads_add(w->threads, j, p);
	else
		start_child(w, j, p, now);
}

/* ---- claims ---- */

static double next_chance(struct worker *w)
{
	w->chance ^= w->chance << 13;
	w->chance ^= w->chance >> 7;
	w->chance ^= w->chance << 17;
	return (double)(w->chance >> 11) / 9007199254740992.0;
}

static defib_err work_ready(struct worker *w, struct failure *f)
{
	defib_err err = session_ready(&w->session, f);
	if (!err && w->opened != w->session.opened) {
		w->opened = w->session.opened;
		wake_listen(w->wake, w->session.store);
	}
	return err;
}

static void claim_failed(struct worker *w, defib_err err, const struct failure *f)
{
	log_event(LOG_WARN, "no claim", LOG_STR("because", f->what));
	/* Its answer may have been lost: what the database gave us then must not stay ours. */
	if (err == DEFIB_UNKNOWN_OUTCOME || err == DEFIB_TIMEOUT || err == DEFIB_CONNECTION)
		watchman_poke(w->watchman, true);
}

static void claim_into(struct worker *w, int pool, int64_t n, int64_t now)
{
	struct crew *crew = &w->crews[pool];
	struct source *src = w->options.pools[pool].source;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct claimed *claims = NULL;
	int got = 0;
	int64_t worker = watchman_worker(w->watchman);
	hand_claim_begin(&w->hand);
	defib_err err = work_ready(w, &f);
	if (!err && now >= crew->next_poll_ms)
		err = src->ops->promote(src, w->session.store, &f);
	if (!err)
		err = src->ops->claim(src, w->session.store, worker, n, &a, &claims, &got, &f);
	for (int i = 0; !err && i < got; i++)
		start_job(w, pool, &claims[i], worker, now);
	hand_claim_end(&w->hand);
	if (err)
		claim_failed(w, err, &f);
	breaker_report(&w->breaker, !err || err == DEFIB_LEASE_LOST, next_chance(w), clock_boot_ms());
	crew->more = !err && got == n;
	crew->empty = !err && got == 0;
	crew->claimed = true;
	crew->next_poll_ms = now + crew->poll_ms;
	arena_release(&a);
}

static bool stopping(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool stop = w->stops > 0;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* Claim where there is room and reason; how long until there may be again. */
static int64_t claim_due(struct worker *w, bool woken, int64_t now)
{
	int64_t wait = INT64_MAX;
	bool good = watchman_contact(w->watchman) == CONTACT_GOOD && !stopping(w);
	for (int i = 0; good && i < w->options.npools; i++) {
		struct crew *crew = &w->crews[i];
		int64_t n = slots_free(&crew->slots, now), batch = w->options.pools[i].batch;
		n = batch && n > batch ? batch : n;
		bool due = woken || crew->more || now >= crew->next_poll_ms;
		if (n > 0 && due && breaker_allow(&w->breaker, now))
			claim_into(w, i, n, now);
		int64_t next = n > 0 && crew->more ? now : crew->next_poll_ms;
		int64_t held = slots_wait_ms(&crew->slots, now);
		next = held >= 0 && now + held < next ? now + held : next;
		wait = next - now < wait ? next - now : wait;
	}
	int64_t paused = breaker_wait_ms(&w->breaker, now);
	return wait < paused ? paused : wait;
}

/* ---- cancel, progress, lost contact ---- */

static void look_for_cancels(struct worker *w, bool woken, int64_t now)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	if (hand_count(&w->hand) == 0 || (!woken && now < w->cancel_ms) || work_ready(w, &f))
		return;
	w->cancel_ms = now + 1000;
	for (int i = 0; i < w->options.npools; i++) {
		struct source *src = w->sources[i];
		struct settlement *all;
		int n = 0;
		if (src->ops->cancelling(src, w->session.store, watchman_worker(w->watchman), &a, &all, &n,
		                         &f))
			break;
		for (int k = 0; k < n; k++)
			hand_stop(&w->hand, NULL, all[k].key, all[k].epoch, false);
	}
	arena_release(&a);
}

static void send_progress(struct worker *w, int64_t now)
{
	struct progress_note note;
	struct failure f = {0};
	if (now < w->progress_ms)
		return;
	w->progress_ms = now + PROGRESS_MS;
	while (hand_take_progress(&w->hand, &note)) {
		if (work_ready(w, &f))
			return;
		defib_err err = note.source->ops->progress(
			note.source, w->session.store, note.worker, note.key, note.epoch,
			note.step[0] ? note.step : NULL, note.progress, &f);
		if (err == DEFIB_LEASE_LOST)
			hand_stop(&w->hand, note.source, note.key, note.epoch, true);
		else if (err)
			return;
	}
}

/* The lease has run out by our own clock: exclusive work must not go on. */
static void stop_exclusive(struct worker *w)
{
	if (watchman_contact(w->watchman) != CONTACT_EXPIRED)
		return;
	for (int i = 0; i < w->options.npools; i++)
		if (w->options.pools[i].exclusive)
			hand_stop(&w->hand, w->sources[i], NULL, 0, true);
}

/* ---- the loop ---- */

/* A second stop, or the end of the grace, hands back at once. */
static void enforce_grace(struct worker *w, int64_t now)
{
	pthread_mutex_lock(&w->lock);
	int stops = w->stops;
	pthread_mutex_unlock(&w->lock);
	if (stops == 0)
		return;
	if (w->kill_ms == 0)
		w->kill_ms = now + w->options.grace_ms;
	if (stops > 1 || now >= w->kill_ms)
		hand_stop(&w->hand, NULL, NULL, 0, false);
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
	return stopping(w) || (w->options.drain && all_empty(w));
}

/* The descriptor of the wake-up changes with the session. */
static void listen_again(struct worker *w)
{
	int fd = wake_fd(w->wake, w->session.store);
	if (fd == w->listening_fd)
		return;
	if (w->listening_fd >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, w->listening_fd, NULL);
	w->listening_fd = fd;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &w->listening_fd};
	if (fd >= 0 && epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		w->listening_fd = -1;
}

static void wait_for_events(struct worker *w, int64_t wait)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(w->epoll, events, EVENTS_MAX, wait > 1000 ? 1000 : (int)wait);
	int64_t now = clock_boot_ms();
	for (int i = 0; i < n; i++) {
		uint64_t count;
		if (events[i].data.ptr == &w->event)
			(void)!read(w->event, &count, sizeof count);
		else if (events[i].data.ptr != &w->listening_fd)
			step_child(w, events[i].data.ptr, now);
	}
}

static bool take_wakes(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	bool woken = w->woken;
	w->woken = false;
	pthread_mutex_unlock(&w->lock);
	return wake_taken(w->wake, w->session.store) || woken;
}

void worker_run(struct worker *w)
{
	while (!finished(w)) {
		int64_t now = clock_boot_ms();
		bool woken = take_wakes(w);
		give_slots(w);
		finish_handlers(w);
		enforce_grace(w, now);
		stop_exclusive(w);
		look_for_cancels(w, woken, now);
		send_progress(w, now);
		int64_t wait = claim_due(w, woken, now);
		int64_t due = step_due_children(w, now, woken || stopping(w));
		listen_again(w);
		if (due - now < wait)
			wait = due - now;
		wait_for_events(w, wait < 0 ? 0 : wait);
	}
}

void worker_stop(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->stops++;
	w->woken = true;
	pthread_mutex_unlock(&w->lock);
	wake_main(w);
}

void worker_resize(struct worker *w, int pool, int64_t concurrency, int64_t poll_ms)
{
	assert(pool >= 0 && pool < w->options.npools);
	slots_resize(&w->crews[pool].slots, concurrency);
	w->crews[pool].poll_ms = poll_ms;
}

void worker_counts(struct worker *w, struct settler_counts *out)
{
	settler_counts(w->settler, out);
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
	struct threads_options o = {count, &w->hand, on_handler_ended, w};
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
	                             .tries = 3,
	                             .try_ms = 1000,
	                             .settled = on_settled,
	                             .done = on_settled_batch,
	                             .ctx = w};
	struct watchman_options wo = {.store = o->store,
	                              .name = o->name,
	                              .hand = &w->hand,
	                              .sources = w->sources,
	                              .nsources = o->npools,
	                              .watches = o->watches,
	                              .nwatches = o->nwatches,
	                              .lease = o->lease,
	                              .taken = on_taken,
	                              .stray = on_stray,
	                              .wake = on_wake,
	                              .ctx = w};
	/* Children are forked before any thread exists only for the keeper; jobs fork later. */
	defib_err err = start_threads(w, f);
	if (!err)
		err = settler_start(&so, &w->settler, f);
	if (!err)
		err = watchman_start(&wo, &w->watchman, f);
	return err;
}

defib_err worker_open(const struct worker_options *o, struct worker **out, struct failure *f)
{
	struct worker *w = mem_alloc(sizeof *w);
	int64_t now = clock_boot_ms();
	w->options = *o;
	w->session = (struct session){.options = o->store, .open = store_open};
	w->chance = (uint64_t)clock_wall_us() ^ ((uint64_t)getpid() << 40) ^ 88172645463325252U;
	w->listening_fd = -1;
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	hand_init(&w->hand);
	pthread_mutex_init(&w->lock, NULL);
	breaker_init(&w->breaker, &(struct breaker_rules){5, 1000, 30000});
	w->wake = wake_open(o->store.url);
	w->crews = mem_alloc(sizeof *w->crews * (size_t)o->npools);
	w->sources = mem_alloc(sizeof *w->sources * (size_t)o->npools);
	for (int i = 0; i < o->npools; i++) {
		const struct worker_pool *p = &o->pools[i];
		struct slots_rules rules = {p->concurrency, p->stagger_ms, p->burst_limit, p->burst_ms};
		slots_init(&w->crews[i].slots, &rules, now);
		w->crews[i].poll_ms = p->poll_ms;
		w->crews[i].next_poll_ms = p->wait_first ? now + p->poll_ms : 0;
		w->sources[i] = p->source;
	}
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
	*out = w;
	return DEFIB_OK;
}

void worker_close(struct worker *w)
{
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
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->event >= 0)
		close(w->event);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
