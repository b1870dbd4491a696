/* SPDX-License-Identifier: Apache-2.0
 * shop.h: what the example shops share: their SQLite file, one statement at a
 * time, and a worker that runs until it is told to stop.
 */
#ifndef SHOP_H
#define SHOP_H

#include <defib.h>

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static inline void must(defib_err err, const defib_message *message)
{
	if (err)
		die(defib_err_name(err), message->what);
}

static inline sqlite3 *shop_open(const char *path)
{
	sqlite3 *shop = NULL;
	if (sqlite3_open(path, &shop) != SQLITE_OK)
		die(path, sqlite3_errmsg(shop));
	sqlite3_busy_timeout(shop, 5000);
	return shop;
}

static inline int run(sqlite3 *shop, const char *sql)
{
	return sqlite3_exec(shop, sql, NULL, NULL, NULL);
}

/* One statement with a number and, unless it is NULL, a text. */
static inline int write_one(sqlite3 *shop, const char *sql, const char *text, long long number)
{
	sqlite3_stmt *stmt = NULL;
	if (sqlite3_prepare_v2(shop, sql, -1, &stmt, NULL) != SQLITE_OK)
		return SQLITE_ERROR;
	if (text)
		sqlite3_bind_text(stmt, 2, text, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 1, number);
	sqlite3_step(stmt);
	return sqlite3_finalize(stmt);
}

/* defib's tables and the shop's own, which are made if they are not there. */
static inline defib_db *shop_queue(const char *path, const char *url, const char *schema)
{
	defib_message message;
	defib_db *db = NULL;
	must(defib_open(url, DEFIB_OPEN_CREATE, &db, &message), &message);
	must(defib_init_schema(db, &message), &message);
	sqlite3 *shop = shop_open(path);
	if (run(shop, schema) != SQLITE_OK)
		die("no tables", sqlite3_errmsg(shop));
	sqlite3_close(shop);
	return db;
}

/* The job of the order that was inserted last, in the transaction that did so. */
static inline int64_t enqueue_order(sqlite3 *shop, const char *queue, const char *kind)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	defib_message message;
	char payload[64];
	int64_t id = 0;
	snprintf(payload, sizeof payload, "{\"order\": %lld}",
	         (long long)sqlite3_last_insert_rowid(shop));
	job.queue = queue;
	job.kind = kind;
	job.payload = payload;
	must(defib_enqueue_sqlite(shop, &job, &id, &message), &message);
	return id;
}

/* The order that a job is for; 0: its payload names none. */
static inline long long order_of(const defib_job *job)
{
	long long order = 0;
	const char *payload = defib_job_payload(job);
	return payload && sscanf(payload, "{\"order\":%lld}", &order) == 1 ? order : 0;
}

/*
 * Settle the job in the open transaction and commit. What the handler returns
 * then; if that is a failure, closing the connection rolls its writes back.
 */
static inline defib_outcome settle_and_commit(defib_job *job, sqlite3 *shop)
{
	defib_message message;
	defib_err err = defib_job_settle_sqlite(job, shop, &message);
	if (!err && run(shop, "COMMIT") == SQLITE_OK)
		return DEFIB_SETTLED;
	if (err == DEFIB_LEASE_LOST)
		return DEFIB_SETTLED; /* not ours any more */
	defib_job_error(job, err ? message.what : sqlite3_errmsg(shop));
	return DEFIB_FAILED;
}

/* The library installs no signal handlers: signals are the program's. */
static inline void *stop_on_signal(void *worker)
{
	sigset_t set;
	int signal = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	while (sigwait(&set, &signal) == 0)
		defib_worker_stop(worker);
	return NULL;
}

static inline void work(const char *url, const defib_pool *pool, int drain)
{
	defib_worker_options options = DEFIB_WORKER_OPTIONS_INIT;
	defib_counts counts = DEFIB_COUNTS_INIT;
	defib_worker *worker = NULL;
	defib_message message;
	pthread_t signals;
	sigset_t set;

	/* Before any thread exists, so that all of them leave signals to one. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);

	options.url = url;
	options.drain = drain;
	must(defib_worker_new(&options, pool, 1, &worker, &message), &message);
	if (pthread_create(&signals, NULL, stop_on_signal, worker) != 0)
		die("no thread", "for signals");
	defib_worker_run(worker);
	pthread_cancel(signals); /* sigwait() is a cancellation point */
	pthread_join(signals, NULL);
	if (defib_worker_counts(worker, &counts) == DEFIB_OK)
		printf("%lld jobs settled\n", (long long)counts.settled);
	defib_worker_free(worker);
}

#endif
