/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request_pool.h"

#include "base/clock.h"
#include "base/condition.h"
#include "http/api_values.h"

#include <assert.h>
#include <signal.h>

/*
 * ---- what a thread keeps between calls ----
 * A session that reads, one that writes, and the watches that were bound to each. Sessions are
 * opened when first needed; a bound watch is valid for one session and one configuration.
 */

#define BOUND_WATCHES_MAX 64

/* One session and what was bound in it. */
struct thread_sessions_side {
	struct session session;
	struct thread_sessions_watch *bound[BOUND_WATCHES_MAX];
	int nbound;
	int64_t opened; /* which opening of the session they belong to */
};

struct thread_sessions {
	struct thread_sessions_side reads, writes;
	struct live_settings_box *setups;
	struct live_settings *setup; /* that the cache belongs to; held; NULL: nothing is cached */
};

struct thread_sessions_watch {
	struct api_watch w;
	struct arena arena;
};

static void side_init(struct thread_sessions_side *s, const char *url, const char *name,
                      int64_t timeout_ms, bool read_only)
{
	*s = (struct thread_sessions_side){.session = {.open = store_open}};
	s->session.options = (struct store_options){.url = url,
	                                            .name = name,
	                                            .read_only = read_only,
	                                            .connect_ms = timeout_ms,
	                                            .statement_ms = timeout_ms,
	                                            .call_ms = timeout_ms + timeout_ms / 4,
	                                            .lock_ms = timeout_ms};
}

static void thread_sessions_init(struct thread_sessions *s, struct live_settings_box *setups,
                                 const char *url, const char *name, int64_t timeout_ms)
{
	*s = (struct thread_sessions){.setups = setups};
	side_init(&s->reads, url, name, timeout_ms, true);
	side_init(&s->writes, url, name, timeout_ms, false);
}

static void watch_free(struct thread_sessions_watch *w)
{
	arena_release(&w->arena);
	free(w);
}

static void side_forget(struct thread_sessions_side *s)
{
	for (int i = 0; i < s->nbound; i++)
		watch_free(s->bound[i]);
	s->nbound = 0;
}

static void thread_sessions_forget(struct thread_sessions *s)
{
	side_forget(&s->reads);
	side_forget(&s->writes);
	if (s->setup)
		live_settings_drop(s->setups, s->setup);
	s->setup = NULL;
}

/* No call came for a while: drop everything. Also before a thread ends. */
static void thread_sessions_rest(struct thread_sessions *s)
{
	thread_sessions_forget(s);
	session_close(&s->reads.session);
	session_close(&s->writes.session);
}

static struct thread_sessions_side *side_of(struct thread_sessions *s, const struct api_call *c)
{
	return c->route->write ? &s->writes : &s->reads;
}

/* Gives the call its session, open. */
static MUST_CHECK defib_err thread_sessions_take(struct thread_sessions *s, struct api_call *c,
                                                 struct failure *f)
{
	struct thread_sessions_side *side = side_of(s, c);
	if (s->setup && s->setup->number != c->setup->number)
		thread_sessions_forget(s);
	if (!s->setup)
		s->setup = live_settings_hold_same(s->setups, c->setup);
	defib_err err = session_ready(&side->session, f);
	if (side->opened != side->session.opened)
		side_forget(side);
	side->opened = side->session.opened;
	c->session = &side->session;
	c->sessions = s;
	return err;
}

/* A ledger that was created later is found here. */
static defib_err look_for_ledger(struct api_call *c, struct api_watch *w, struct failure *f)
{
	if (w->ledger.ready || c->setup->settings.ledger == LEDGER_OFF)
		return DEFIB_OK;
	return ledger_open(c->session->store, c->route->write, &w->ledger, f);
}

static defib_err bind_watch(struct api_call *c, struct thread_sessions_watch *own,
                            struct failure *f)
{
	struct store *store = c->session->store;
	bool builtin = !settings_watch(&c->setup->settings, c->watch->name);
	own->w.watch = builtin ? builtin_watch(store->engine, &own->arena) : c->watch;
	defib_err err = watch_bind(own->w.watch, store, &own->arena, &own->w.binding, f);
	if (!err)
		err = watch_compile(&own->w.binding, &own->arena, &own->w.sql, f);
	if (err == DEFIB_CONFIG && builtin) {
		err =
			fail(f, DEFIB_NOT_FOUND, "the built-in queue is not in database %s", c->database->name);
		fail_next(f, "defib init creates it");
	}
	return err;
}

static struct thread_sessions_watch *bound_watch(const struct thread_sessions_side *s,
                                                 const char *name)
{
	for (int i = 0; i < s->nbound; i++)
		if (text_eq(s->bound[i]->w.watch->name, name))
			return s->bound[i];
	return NULL;
}

bool api_bound(struct api_call *c, struct api_watch **out)
{
	assert(c->watch && c->sessions && c->session && c->session->store);
	struct thread_sessions_side *side = side_of(c->sessions, c);
	struct thread_sessions_watch *own = bound_watch(side, c->watch->name);
	struct failure f = {0};
	if (!own) {
		own = mem_alloc(sizeof *own);
		if (bind_watch(c, own, &f)) {
			watch_free(own);
			return api_failed(c, &f);
		}
		if (side->nbound == BOUND_WATCHES_MAX)
			side_forget(side);
		side->bound[side->nbound++] = own;
	}
	if (look_for_ledger(c, &own->w, &f))
		return api_failed(c, &f);
	*out = &own->w;
	return true;
}

/* ---- the pools ---- */

struct request_pool {
	struct request_pools *all;
	char *name, *url;
	struct pooled_request *first, **last;
	int nwaiting, nidle;
	int nthreads, nended;
	pthread_t threads[REQUEST_THREADS];
	pthread_cond_t work;
	bool away;       /* the last attempt failed */
	int64_t next_ms; /* while it is unavailable: no attempt before this */
	bool closing;
	struct request_pool *next;
};

struct request_pools {
	const struct api *api;
	int64_t timeout_ms;
	pthread_mutex_t lock; /* of everything here and in request pools, held only briefly */
	struct request_pool *first;
	int64_t setup; /* number of the newest configuration that was seen */
	bool closed;
};

struct request_pools *request_pools_new(const struct api *api, int64_t timeout_ms)
{
	struct request_pools *d = mem_alloc(sizeof *d);
	d->api = api;
	d->timeout_ms = timeout_ms;
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

/* ---- the queue ---- */

static void queue_add(struct request_pool *k, struct pooled_request *t)
{
	t->next = NULL;
	*k->last = t;
	k->last = &t->next;
	k->nwaiting++;
}

static struct pooled_request *queue_take(struct request_pool *k)
{
	struct pooled_request *t = k->first;
	assert(t && k->nwaiting > 0);
	k->first = t->next;
	if (!k->first)
		k->last = &k->first;
	k->nwaiting--;
	return t;
}

/* Take all waiting requests; the caller answers them. */
static struct pooled_request *queue_empty(struct request_pool *k)
{
	struct pooled_request *all = k->first;
	k->first = NULL;
	k->last = &k->first;
	k->nwaiting = 0;
	return all;
}

static void request_refuse(struct pooled_request *t, const char *why)
{
	api_problem(t->call, 503, "database %s: %s", t->call->database->name, why);
	t->done(t->ctx);
}

static void refuse_all(struct pooled_request *t, const char *why)
{
	while (t) {
		struct pooled_request *next = t->next;
		request_refuse(t, why);
		t = next;
	}
}

/* ---- a thread ---- */

static void note_session(struct request_pool *k, bool failed)
{
	pthread_mutex_lock(&k->all->lock);
	k->away = failed;
	/* A session is newer information than the overview. */
	k->next_ms = failed ? clock_boot_ms() + REQUEST_RETRY_MS : 0;
	pthread_mutex_unlock(&k->all->lock);
}

static bool is_kept(const struct api_call *c)
{
	return c->route->where == API_SPOOLED && settings_http(&c->setup->settings)->spool;
}

static void keep_call(struct api_call *c, const struct failure *why)
{
	c->session = NULL;
	c->away = why;
	api_run(c);
}

/* One attempt; false: its session was lost meanwhile. */
static bool try_call(struct request_pool *k, struct thread_sessions *sessions, struct api_call *c)
{
	struct failure f = {0};
	defib_err err = thread_sessions_take(sessions, c, &f);
	note_session(k, err == DEFIB_CONNECTION || err == DEFIB_TIMEOUT);
	if (err && store_unavailable(err) && is_kept(c))
		keep_call(c, &f);
	else if (err)
		api_failed(c, &f);
	if (err)
		return true;
	api_run(c);
	if (c->session->store->in_tx)
		store_rollback(c->session->store);
	return !c->session->store->lost;
}

/*
 * An idle session may be dead without our knowing (the server was restarted): a call that only
 * reads is repeated in a new one.
 */
static void do_call(struct request_pool *k, struct thread_sessions *sessions, struct api_call *c)
{
	if (try_call(k, sessions, c))
		return;
	if (!c->route->write && c->out->status == 503) {
		api_answer_clear(c->out);
		if (try_call(k, sessions, c))
			return;
	}
	note_session(k, true);
}

static void keep_untried(const struct request_pool *k, struct api_call *c)
{
	struct failure why = {0};
	fail(&why, DEFIB_CONNECTION, "database %s is unavailable", k->name);
	keep_call(c, &why);
}

/* The next request; NULL: the pool closes, or none came for a while. */
static struct pooled_request *next_request(struct request_pool *k, bool *rest)
{
	struct timespec until = condition_limit(REQUEST_IDLE_MS);
	int timed_out = 0;
	pthread_mutex_lock(&k->all->lock);
	k->nidle++;
	while (!k->first && !k->closing && !timed_out)
		timed_out = pthread_cond_timedwait(&k->work, &k->all->lock, &until);
	k->nidle--;
	struct pooled_request *t = k->first ? queue_take(k) : NULL;
	*rest = !t && !k->closing;
	pthread_mutex_unlock(&k->all->lock);
	return t;
}

static void *serve(void *arg)
{
	struct request_pool *k = arg;
	struct thread_sessions sessions;
	struct pooled_request *t;
	bool rest = false;
	thread_sessions_init(&sessions, k->all->api->setups, k->url, k->name, k->all->timeout_ms);
	while ((t = next_request(k, &rest)) || rest) {
		if (rest) {
			thread_sessions_rest(&sessions);
			continue;
		}
		if (clock_boot_ms() > t->deadline_ms) {
			request_refuse(t, "too many requests are ahead of this one");
			continue;
		}
		if (t->away)
			keep_untried(k, t->call);
		else
			do_call(k, &sessions, t->call);
		t->done(t->ctx);
	}
	thread_sessions_rest(&sessions);
	pthread_mutex_lock(&k->all->lock);
	k->nended++;
	pthread_mutex_unlock(&k->all->lock);
	return NULL;
}

/* The main thread handles signals. */
static void add_thread(struct request_pool *k)
{
	sigset_t every, before;
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	if (pthread_create(&k->threads[k->nthreads], NULL, serve, k) == 0)
		k->nthreads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- request pools ---- */

static struct request_pool *request_pool_new(struct request_pools *d, const struct database *db)
{
	struct request_pool *k = mem_alloc(sizeof *k);
	condition_init(&k->work);
	k->all = d;
	k->name = mem_strdup(db->name);
	k->url = mem_strdup(db->url);
	k->last = &k->first;
	k->next = d->first;
	d->first = k;
	return k;
}

static void request_pool_free(struct request_pool *k)
{
	for (int i = 0; i < k->nthreads; i++)
		pthread_join(k->threads[i], NULL);
	assert(!k->first);
	pthread_cond_destroy(&k->work);
	free(k->name);
	free(k->url);
	free(k);
}

static bool serves_database(const struct request_pool *k, const struct database *db)
{
	return !k->closing && text_eq(k->name, db->name) && text_eq(k->url, db->url);
}

static void request_pool_close(struct request_pool *k)
{
	k->closing = true;
	pthread_cond_broadcast(&k->work);
}

/* Pools of databases that the newest configuration no longer has finish their queue. */
static void follow_setup(struct request_pools *d, const struct live_settings *s)
{
	if (s->number <= d->setup)
		return;
	d->setup = s->number;
	for (struct request_pool *k = d->first; k; k = k->next) {
		bool there = false;
		for (int i = 0; i < s->settings.ndatabases; i++)
			there = there || serves_database(k, &s->settings.databases[i]);
		if (!there)
			request_pool_close(k);
	}
}

static struct request_pool *find_pool(struct request_pools *d, const struct api_call *c)
{
	follow_setup(d, c->setup);
	for (struct request_pool *k = d->first; k; k = k->next)
		if (serves_database(k, c->database))
			return k;
	return request_pool_new(d, c->database);
}

/* Why a call is not admitted; NULL: it is in the queue. */
static const char *admit(struct request_pools *d, struct pooled_request *t, bool down)
{
	int64_t now = clock_boot_ms();
	if (d->closed)
		return "the daemon is stopping";
	struct request_pool *k = find_pool(d, t->call);
	t->away = (k->away || down) && now < k->next_ms;
	if (t->away && !is_kept(t->call))
		return "it is unavailable";
	if ((k->away || down) && !t->away)
		k->next_ms = now + REQUEST_RETRY_MS;
	if (k->nwaiting >= REQUEST_QUEUE)
		return "too many requests are waiting for it";
	if (k->nwaiting >= k->nidle && k->nthreads < REQUEST_THREADS)
		add_thread(k);
	if (k->nthreads == 0)
		return "no thread is available";
	t->deadline_ms = now + d->timeout_ms;
	queue_add(k, t);
	pthread_cond_signal(&k->work);
	return NULL;
}

void request_pools_put(struct request_pools *d, struct pooled_request *t)
{
	bool down = overview_is_down(d->api->overview, t->call->database->name);
	pthread_mutex_lock(&d->lock);
	const char *why = admit(d, t, down);
	pthread_mutex_unlock(&d->lock);
	if (why)
		request_refuse(t, why);
}

void request_pools_tick(struct request_pools *d)
{
	struct pooled_request *late = NULL, **end = &late;
	struct request_pool *over = NULL;
	int64_t now = clock_boot_ms();
	pthread_mutex_lock(&d->lock);
	for (struct request_pool **at = &d->first; *at;) {
		struct request_pool *k = *at;
		while (k->first && now > k->first->deadline_ms) {
			*end = queue_take(k);
			end = &(*end)->next;
			*end = NULL;
		}
		if (k->closing && !k->first && k->nended == k->nthreads) {
			*at = k->next;
			k->next = over;
			over = k;
		} else {
			at = &k->next;
		}
	}
	pthread_mutex_unlock(&d->lock);
	refuse_all(late, "the request was not started in time");
	while (over) {
		struct request_pool *next = over->next;
		request_pool_free(over);
		over = next;
	}
}

void request_pools_close(struct request_pools *d)
{
	pthread_mutex_lock(&d->lock);
	d->closed = true;
	for (struct request_pool *k = d->first; k; k = k->next) {
		struct pooled_request *waiting = queue_empty(k);
		request_pool_close(k);
		pthread_mutex_unlock(&d->lock);
		refuse_all(waiting, "the daemon is stopping");
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	/* No request pool or thread is added any more. */
	while (d->first) {
		struct request_pool *k = d->first;
		d->first = k->next;
		request_pool_free(k);
	}
}

void request_pools_free(struct request_pools *d)
{
	assert(!d->first);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
