/* SPDX-License-Identifier: Apache-2.0
 * library.c: a program of libdefib, for the benchmarks.
 *
 *     library work URL QUEUE IN_HAND          handlers that do nothing, until no job waits
 *     library idle URL QUEUE                  an idle worker, until it is killed
 *     library enqueue URL QUEUE BATCH JOBS    one by one if BATCH is 1
 *     library latency URL QUEUE JOBS          from the call that enqueues to the handler's start
 *
 * `work` prints how many jobs it ran; `enqueue` its begin and end (CLOCK_BOOTTIME, ns) and JOBS;
 * `latency` one number of ns per job.
 */
#include "defib.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAYLOAD "{\"to\":\"ada@example.org\"}"
#define QUIET_NS 5000000 /* between two jobs of `latency` */

static atomic_llong begun, last;
static defib_message message;

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void need(defib_err err)
{
	if (!err)
		return;
	fprintf(stderr, "library: %s\n", message.what);
	exit(1);
}

static defib_outcome nothing(defib_job *job, void *ctx)
{
	(void)job;
	(void)ctx;
	atomic_store(&last, now_ns());
	atomic_fetch_add(&begun, 1);
	return DEFIB_DONE;
}

static defib_worker *new_worker(const char *url, const char *queue, long long in_hand, int drain)
{
	defib_worker_options options = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *worker;
	options.url = url;
	options.drain = drain;
	pool.queue = queue;
	pool.concurrency = in_hand;
	pool.handler = nothing;
	need(defib_log("error", 0));
	need(defib_worker_new(&options, &pool, 1, &worker, &message));
	return worker;
}

static void work(char **argv)
{
	defib_worker *worker = new_worker(argv[2], argv[3], atoll(argv[4]), 1);
	defib_worker_run(worker);
	defib_worker_free(worker);
	printf("%lld\n", (long long)begun);
}

static defib_job_spec spec(const char *queue)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = queue;
	job.kind = "nothing";
	job.payload = PAYLOAD;
	return job;
}

static void enqueue(char **argv)
{
	int batch = atoi(argv[4]), jobs = atoi(argv[5]);
	defib_job_spec *all = calloc((size_t)batch, sizeof *all);
	defib_db *db;
	for (int i = 0; i < batch; i++)
		all[i] = spec(argv[3]);
	need(defib_open(argv[2], 0, &db, &message));
	need(defib_enqueue(db, all, NULL, &message)); /* statements are prepared now */
	long long begin = now_ns();
	for (int done = 0; done < jobs; done += batch)
		need(batch == 1 ? defib_enqueue(db, all, NULL, &message)
		                : defib_enqueue_many(db, all, batch, NULL, &message));
	printf("%lld %lld %d\n", begin, now_ns(), jobs);
	defib_close(db);
	free(all);
}

static void *run(void *worker)
{
	defib_worker_run(worker);
	return NULL;
}

static void nap(long long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void latency(char **argv)
{
	defib_worker *worker = new_worker(argv[2], argv[3], 10, 0);
	defib_job_spec job = spec(argv[3]);
	pthread_t thread;
	defib_db *db;
	need(defib_open(argv[2], 0, &db, &message));
	pthread_create(&thread, NULL, run, worker);
	/* The first ten run with cold caches and unprepared statements. */
	for (long long i = -10; i < atoll(argv[4]); i++) {
		long long before = atomic_load(&begun), called = now_ns();
		need(defib_enqueue(db, &job, NULL, &message));
		while (atomic_load(&begun) == before)
			nap(100000);
		if (i >= 0)
			printf("%lld\n", (long long)last - called);
		nap(QUIET_NS);
	}
	defib_close(db);
	defib_worker_stop(worker);
	pthread_join(thread, NULL);
	defib_worker_free(worker);
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "work") == 0)
		work(argv);
	else if (argc == 4 && strcmp(argv[1], "idle") == 0)
		defib_worker_run(new_worker(argv[2], argv[3], 1, 0));
	else if (argc == 6 && strcmp(argv[1], "enqueue") == 0)
		enqueue(argv);
	else if (argc == 5 && strcmp(argv[1], "latency") == 0)
		latency(argv);
	else
		return 2;
	return 0;
}
