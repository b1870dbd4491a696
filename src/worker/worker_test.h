/* SPDX-License-Identifier: Apache-2.0
 * worker_test.h: what the tests of a whole worker share: a worker in a thread beside the test, a
 * scene through which handlers and the test communicate, and a handler's own connection. Only the
 * test's thread asserts; handlers record what they saw.
 */
#ifndef WORKER_WORKER_TEST_H
#define WORKER_WORKER_TEST_H

#include "base/clock.h"
#include "defib.h"
#include "worker/source_test.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <sqlite3.h>

#define DATA_TABLE "PG(defib.job_data|defib_job_data)"
#define PROGRESS_TABLE "PG(defib.progress|defib_progress)"

/* ---- a scene ---- */

struct scene {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const char *url;  /* for handlers with a connection of their own */
	int begun, ended; /* handlers */
	int stopped;      /* those that saw that they should stop */
	int answers[8];   /* what calls returned, in order */
	int nanswers;
	bool go; /* the test lets handlers continue */
	struct bench *bench;
};

static struct scene scene;

static inline void scene_open(struct bench *b)
{
	scene = (struct scene){.url = b->rig.url, .bench = b};
	pthread_mutex_init(&scene.lock, NULL);
	pthread_cond_init(&scene.changed, NULL);
}

static inline void scene_add(int *what, int n)
{
	pthread_mutex_lock(&scene.lock);
	*what += n;
	pthread_cond_broadcast(&scene.changed);
	pthread_mutex_unlock(&scene.lock);
}

static inline void scene_answer(int answer)
{
	pthread_mutex_lock(&scene.lock);
	if (scene.nanswers < 8)
		scene.answers[scene.nanswers++] = answer;
	pthread_cond_broadcast(&scene.changed);
	pthread_mutex_unlock(&scene.lock);
}

static inline int scene_read(const int *what)
{
	pthread_mutex_lock(&scene.lock);
	int n = *what;
	pthread_mutex_unlock(&scene.lock);
	return n;
}

static inline void scene_go(void)
{
	pthread_mutex_lock(&scene.lock);
	scene.go = true;
	pthread_cond_broadcast(&scene.changed);
	pthread_mutex_unlock(&scene.lock);
}

/* For handlers: wait until the test lets them continue. */
static inline void scene_wait_go(void)
{
	pthread_mutex_lock(&scene.lock);
	while (!scene.go)
		pthread_cond_wait(&scene.changed, &scene.lock);
	pthread_mutex_unlock(&scene.lock);
}

/* For the test: until a counter has reached n. */
static inline void scene_reaches(const int *what, int n)
{
	struct timespec until;
	int rc = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TEST_HANGS_MS / 1000;
	pthread_mutex_lock(&scene.lock);
	while (*what < n && rc == 0)
		rc = pthread_cond_timedwait(&scene.changed, &scene.lock, &until);
	int got = *what;
	pthread_mutex_unlock(&scene.lock);
	assert_true(got >= n);
}

static inline void pause_ms(int64_t ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}

/* Until a query returns the expected number. */
static inline void becomes(struct bench *b, const char *sql, int64_t wanted)
{
	EVENTUALLY(bench_number(b, sql) == wanted);
}

/* ---- jobs ---- */

static inline void expect_ok(defib_err err, const defib_message *m)
{
	if (err)
		fail_msg("%s: %s", defib_err_name(err), m->what);
}

static inline int64_t enqueue_job(struct bench *b, const defib_job_spec *job)
{
	defib_message m;
	defib_db *db = NULL;
	int64_t id = 0;
	expect_ok(defib_open(b->rig.url, 0, &db, &m), &m);
	expect_ok(defib_enqueue(db, job, &id, &m), &m);
	defib_close(db);
	return id;
}

static inline int64_t enqueue_kind(struct bench *b, const char *queue, const char *kind)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = queue;
	job.kind = kind;
	job.payload = "{\"n\": 1}";
	return enqueue_job(b, &job);
}

static inline int64_t in_state(struct bench *b, const char *state)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = '%s'", state);
	return bench_number(b, sql);
}

/* ---- a worker beside the test ---- */

struct beside {
	defib_worker *worker;
	pthread_t thread;
};

static inline void *beside_main(void *arg)
{
	defib_worker_run(arg);
	return NULL;
}

static inline defib_worker_options quick_options(struct bench *b)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	o.url = b->rig.url;
	o.lease_ms = 60000;
	o.grace_ms = TEST_HANGS_MS;
	o.threads = 4;
	return o;
}

static inline defib_pool quick_pool(defib_handler handler)
{
	defib_pool p = DEFIB_POOL_INIT;
	p.queue = "q";
	p.handler = handler;
	p.concurrency = 4;
	p.poll_ms = 50;
	return p;
}

static inline struct beside beside_start(const defib_worker_options *o, const defib_pool *pools,
                                         int n)
{
	struct beside w = {0};
	defib_message m;
	expect_ok(defib_worker_new(o, pools, n, &w.worker, &m), &m);
	assert_int_equal(pthread_create(&w.thread, NULL, beside_main, w.worker), 0);
	return w;
}

/* Waits for its end; the caller has stopped it, or it drains. */
static inline void beside_end(struct beside *w)
{
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	defib_worker_free(w->worker);
}

static inline void beside_stop(struct beside *w)
{
	defib_worker_stop(w->worker);
	beside_end(w);
}

/* Runs all jobs with one handler, to the end. */
static inline void drain_with(struct bench *b, defib_handler handler)
{
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(handler);
	o.drain = 1;
	struct beside w = beside_start(&o, &pool, 1);
	beside_end(&w);
}

/* ---- a handler's own connection ---- */

struct own {
	PGconn *pg;
	sqlite3 *lite;
};

static inline bool own_sql(struct own *o, const char *sql)
{
	if (o->lite)
		return sqlite3_exec(o->lite, sql, NULL, NULL, NULL) == SQLITE_OK;
	PGresult *res = PQexec(o->pg, sql);
	bool good = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK;
	PQclear(res);
	return good;
}

static inline struct own own_open(const char *url)
{
	struct own o = {0};
	if (strncmp(url, "sqlite:", 7) == 0) {
		if (sqlite3_open(url + 7, &o.lite) == SQLITE_OK)
			sqlite3_busy_timeout(o.lite, TEST_HANGS_MS);
	} else {
		o.pg = PQconnectdb(url);
	}
	return o;
}

static inline bool own_begin(struct own *o)
{
	return own_sql(o, o->lite ? "BEGIN IMMEDIATE" : "BEGIN");
}

static inline defib_err own_settle(struct own *o, defib_job *job)
{
	return o->lite ? defib_job_settle_sqlite(job, o->lite, NULL)
	               : defib_job_settle_pg(job, o->pg, NULL);
}

static inline defib_err own_enqueue(struct own *o, const defib_job_spec *job, int64_t *id,
                                    defib_message *m)
{
	return o->lite ? defib_enqueue_sqlite(o->lite, job, id, m)
	               : defib_enqueue_pg(o->pg, job, id, m);
}

static inline void own_close(struct own *o)
{
	if (o->lite)
		sqlite3_close(o->lite);
	else
		PQfinish(o->pg);
}

#endif
