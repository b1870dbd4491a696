/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request_pool.h"

#include "base/clock.h"
#include "base/condition.h"
#include "http/api_values.h"
#include "http/thread_sessions.h"

#include <assert.h>
#include <signal.h>

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

static bool may_be_spooled(const struct api_call *c)
{
	return c->route->where == API_SPOOLED && settings_http(&c->setup->settings)->spool;
}

static void spool_call(struct api_call *c, const struct failure *why)
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
	if (err && store_unavailable(err) && may_be_spooled(c))
		spool_call(c, &f);
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
		if (t->away) {
			struct failure why = {0};
			fail(&why, DEFIB_CONNECTION, "database %s is unavailable", k->name);
			spool_call(t->call, &why);
		} else {
			do_call(k, &sessions, t->call);
		}
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
	if (t->away && !may_be_spooled(t->call))
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
