/* SPDX-License-Identifier: Apache-2.0
 * worker.c: the part of defib.h that makes a C program a worker: a handler's view of its job,
 * settling in the handler's own transaction, and a worker around struct worker. Its pools are in
 * pools.c.
 */
#include "lib/lib.h"

#include "base/log.h"
#include "store/postgres_connect.h"
#include "store/sqlite.h"
#include "worker/source_queue.h"
#include "worker/token.h"
#include "worker/workflow.h"

#include <assert.h>
#include <unistd.h>

struct defib_job {
	struct handler_job *inner;
	const struct lib_pool *pool;
	char token[TOKEN_SIZE]; /* "" until it is asked for */
	struct arena arena;
	struct step_records recorded; /* of a workflow */
	/* the result of settling in the handler's own transaction */
	enum { OWN_NONE, OWN_WRITTEN, OWN_LOST } own;
};

/* ---- for handlers ---- */

int64_t defib_job_id(const defib_job *job)
{
	int64_t id = 0;
	return int_parse(handler_claim(job->inner)->key, &id) ? id : 0;
}

const char *defib_job_key(const defib_job *job)
{
	return handler_claim(job->inner)->key;
}

int64_t defib_job_epoch(const defib_job *job)
{
	return handler_claim(job->inner)->epoch;
}

const char *defib_job_token(defib_job *job)
{
	if (!job->token[0])
		token_of(handler_claim(job->inner), handler_worker(job->inner), job->token);
	return job->token;
}

int64_t defib_job_attempt(const defib_job *job)
{
	return handler_claim(job->inner)->attempt;
}

int64_t defib_job_max_attempts(const defib_job *job)
{
	return handler_claim(job->inner)->max_attempts;
}

const char *defib_job_queue(const defib_job *job)
{
	return handler_claim(job->inner)->queue;
}

const char *defib_job_kind(const defib_job *job)
{
	return handler_claim(job->inner)->kind;
}

const char *defib_job_payload(const defib_job *job)
{
	return handler_claim(job->inner)->payload;
}

/* A child that the handler forked: locks and threads are its parent's, as is the job. */
static bool in_child(const defib_job *job)
{
	return lib_forked(job->pool->worker->process);
}

int defib_job_should_stop(defib_job *job)
{
	return in_child(job) || handler_should_stop(job->inner);
}

int defib_job_lost(defib_job *job)
{
	return in_child(job) || handler_lost(job->inner);
}

defib_err defib_job_progress(defib_job *job, const char *step, const char *text)
{
	if (in_child(job))
		return DEFIB_LEASE_LOST;
	return handler_progress(job->inner, step, text);
}

defib_err defib_job_result(defib_job *job, const char *json)
{
	if (json && !lib_is_json(json))
		return DEFIB_USAGE;
	handler_result(job->inner, json);
	return DEFIB_OK;
}

void defib_job_error(defib_job *job, const char *text)
{
	handler_error(job->inner, text);
}

void defib_job_retry_in(defib_job *job, int64_t delay_ms)
{
	handler_delay(job->inner, delay_ms < 0 ? 0 : delay_ms);
}

void defib_job_session(defib_job *job, int got)
{
	if (!in_child(job))
		worker_served(job->pool->worker->inner, got != 0);
}

const char *defib_job_step(const defib_job *job)
{
	return handler_step_end(job->inner)->name;
}

int defib_job_undoing(const defib_job *job)
{
	return handler_step_end(job->inner)->side == STEP_SIDE_UNDO;
}

const char *defib_job_output(const defib_job *job, const char *step)
{
	return workflow_output(handler_step_end(job->inner), &job->recorded, step);
}

/*
 * Elsewhere a settlement that repeats an earlier one is accepted. Not here: the handler's writes
 * would happen twice. So the job must be ours and unsettled when this transaction locks it.
 */
static defib_err settle_within(defib_job *job, struct store *s, struct failure *f)
{
	const struct claimed *c = handler_claim(job->inner);
	struct source *src = handler_source(job->inner);
	AUTO_ARENA a = ARENA_INIT;
	int64_t worker = handler_worker(job->inner);
	struct settlement one = {.key = c->key,
	                         .epoch = c->epoch,
	                         .as = SETTLE_DONE,
	                         .result = handler_given_result(job->inner),
	                         .delay_ms = -1,
	                         .step = *handler_step_end(job->inner)};
	if (in_child(job))
		return fail(f, DEFIB_LEASE_LOST, "job %s is the parent's of this forked process", c->key);
	job->own = OWN_NONE;
	if (job->pool->given.watch)
		return fail(f, DEFIB_USAGE, "a row of a table is settled by its worker: return an outcome");
	defib_err err = source_queue_hold(s, worker, c->key, c->epoch, f);
	if (!err)
		err = src->ops->settle(src, s, worker, &one, 1, &a, f);
	/* Once it is locked, only a rule of the user's own on that table can refuse it. */
	if (!err && !one.accepted)
		err = fail(f, DEFIB_LEASE_LOST, "job %s was not accepted as settled", c->key);
	if (!err)
		job->own = OWN_WRITTEN;
	else if (err == DEFIB_LEASE_LOST)
		job->own = OWN_LOST;
	return err;
}

defib_err defib_job_settle_pg(defib_job *job, struct pg_conn *conn, defib_message *message)
{
	struct failure f = {0};
	AUTO_STORE lent = NULL;
	defib_err err = lib_begin(&f);
	if (!err)
		err = postgres_borrow(conn, &lent, &f);
	if (!err)
		err = settle_within(job, lent, &f);
	return lib_answer(err, &f, message);
}

defib_err defib_job_settle_sqlite(defib_job *job, struct sqlite3 *handle, defib_message *message)
{
	struct failure f = {0};
	AUTO_STORE lent = NULL;
	defib_err err = lib_begin(&f);
	if (!err)
		err = sqlite_borrow(handle, &lent, &f);
	if (!err)
		err = settle_within(job, lent, &f);
	return lib_answer(err, &f, message);
}

/* ---- a handler's result ---- */

static enum settle_as settled_as(const defib_job *job)
{
	if (job->own == OWN_WRITTEN)
		handler_settled(job->inner);
	/* Lost, or settled by a commit whose reply was lost: the fence of the next turn decides. */
	if (job->own != OWN_NONE)
		return SETTLE_DONE;
	handler_error(job->inner, "its handler reported the job as settled, but it is not");
	return SETTLE_FAILED;
}

/* The pool's handler, or the function of the job's current step. */
static defib_outcome lib_worker_call(defib_job *job, const defib_pool *pool)
{
	const struct workflow_step *step = handler_step(job->inner);
	if (!step)
		return pool->handler(job, pool->ctx);
	bool read = step_records_parse(handler_claim(job->inner)->steps, &job->arena, &job->recorded);
	assert(read); /* its step was chosen by them */
	(void)read;
	defib_handler function = defib_job_undoing(job) ? step->undo_call : step->run_call;
	return function(job, pool->ctx);
}

/* What the worker does with an outcome; the job is released. */
static enum settle_as lib_worker_conclude(defib_job *job, defib_outcome outcome)
{
	static const enum settle_as as[] = {SETTLE_DONE, SETTLE_FAILED, SETTLE_RETRY, SETTLE_PERMANENT,
	                                    SETTLE_STOPPED};
	_Static_assert(DEFIB_STOPPED - DEFIB_DONE + 1 == sizeof as / sizeof *as, "one per outcome");
	enum settle_as end = SETTLE_FAILED;
	if (outcome == DEFIB_SETTLED) {
		end = settled_as(job);
	} else if (outcome >= DEFIB_DONE && outcome <= DEFIB_STOPPED) {
		end = as[outcome - DEFIB_DONE];
	} else {
		AUTO_BUF why = BUF_INIT;
		buf_addf(&why, "its handler returned %d (%s), which is an error code and not an outcome",
		         (int)outcome, defib_err_name((defib_err)outcome));
		handler_error(job->inner, buf_text(&why));
	}
	arena_release(&job->arena);
	free(job);
	return end;
}

enum settle_as lib_run_handler(struct handler_job *inner, void *ctx)
{
	const struct lib_pool *pool = ctx;
	defib_job *job = mem_alloc(sizeof *job);
	*job = (defib_job){.inner = inner, .pool = pool};
	defib_outcome outcome = lib_worker_call(job, &pool->given);
	/* If it is later, another thread may have ended it already. */
	return outcome == DEFIB_LATER ? HANDLER_LATER : lib_worker_conclude(job, outcome);
}

void defib_job_finish(defib_job *job, defib_outcome outcome)
{
	struct handler_job *inner = job->inner;
	if (in_child(job))
		return;
	handler_finish(inner, lib_worker_conclude(job, outcome));
}

/* ---- a worker ---- */

const char *lib_default_name(struct arena *a)
{
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	return arena_printf(a, "%s-%d", host, (int)getpid());
}

static const char *copied(struct arena *a, const char *text)
{
	return text ? arena_strdup(a, text) : NULL;
}

static int64_t lib_worker_or_default(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

/* The critical line was logged; the rest is up to the caller. */
static void leave_stuck(void *ctx, const char *queue, const char *job)
{
	(void)ctx, (void)queue, (void)job;
}

static defib_err lib_worker_read_options(struct defib_worker *w, const defib_worker_options *given,
                                         struct failure *f)
{
	defib_worker_options o;
	enum store_engine engine;
	defib_err err = lib_options(&o, sizeof o, given, "defib_worker_options", f);
	if (err)
		return err;
	if ((o.url || !o.watches) && !store_engine_of(o.url, &engine, f))
		return DEFIB_CONFIG;
	int64_t lease_ms = o.lease_ms ? o.lease_ms : LEASE_USUAL_MS;
	if (lease_ms < LEASE_LEAST_MS || lease_ms > LEASE_MOST_MS)
		return fail(f, DEFIB_USAGE, "a lease is from 600 ms to a day");
	if (o.threads < 0 || !lib_is_time(o.grace_ms) || o.brake_ms > LIB_TIME_MOST_MS)
		return fail(f, DEFIB_USAGE, "an option of the worker is negative, or over 100 years");
	w->watches = o.watches;
	w->options = (struct worker_options){
		.name = o.name ? copied(&w->arena, o.name) : lib_default_name(&w->arena),
		.store = {.url = copied(&w->arena, o.url)},
		.lease = lease_rules_of(lease_ms),
		.spool = copied(&w->arena, o.spool),
		.grace_ms = lib_worker_or_default(o.grace_ms, 30000),
		.threads = o.threads,
		.drain = o.drain != 0,
		.stuck = o.on_stuck || o.exit_when_stuck ? o.on_stuck : leave_stuck,
		.stuck_ctx = o.on_stuck_ctx,
		.brake_ms = o.brake_ms,
	};
	return DEFIB_OK;
}

static defib_err open_worker(struct defib_worker *w, struct failure *f)
{
	enum store_engine engine;
	if (!store_engine_of(w->options.store.url, &engine, f))
		return DEFIB_CONFIG;
	w->options.watches[0] = builtin_watch(engine, &w->arena);
	return worker_open(&w->options, &w->inner, f);
}

static void log_started(const struct defib_worker *w, struct arena *a)
{
	const char **kinds = ARENA_ARRAY(a, const char *, w->options.npools);
	for (int i = 0; i < w->npools; i++)
		for (int k = 0; k < w->pools[i].n; k++)
			kinds[w->pools[i].first + k] = w->pools[i].given.kind;
	worker_log_started(&w->options, kinds);
}

defib_err defib_worker_new(const defib_worker_options *options, const defib_pool *pools, int npools,
                           defib_worker **out, defib_message *message)
{
	struct failure f = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_worker *w = mem_alloc(sizeof *w);
	w->process = getpid();
	defib_err err = lib_worker_read_options(w, options, &f);
	if (!err)
		err = lib_read_pools(w, pools, npools, &f);
	if (!err && w->options.npools > 0)
		err = open_worker(w, &f);
	if (!err && w->watches)
		lib_watches_use(w->watches, 1);
	else if (err)
		w->watches = NULL;
	if (!err && w->inner)
		log_started(w, &w->arena);
	if (err)
		defib_worker_free(w);
	else
		*out = w;
	return lib_answer(err, &f, message);
}

void defib_worker_run(defib_worker *worker)
{
	struct worker_counts counts;
	if (!worker->inner || lib_forked(worker->process))
		return;
	worker_run(worker->inner);
	worker_counts(worker->inner, &counts);
	worker_log_ended(&counts);
}

void defib_worker_stop(defib_worker *worker)
{
	if (!worker->inner || lib_forked(worker->process))
		return;
	log_event(LOG_INFO, "stopping: no new claims", LOG_STR("name", worker->options.name));
	worker_stop(worker->inner);
}

defib_err defib_worker_resize(defib_worker *worker, int pool, int64_t concurrency, int64_t poll_ms)
{
	if (lib_forked(worker->process))
		return DEFIB_REFUSED;
	if (pool < 0 || pool >= worker->npools || concurrency < 1 || concurrency > POOL_SLOTS_MAX ||
	    poll_ms < 1 || !lib_is_time(poll_ms) || worker->pools[pool].n != 1)
		return DEFIB_USAGE;
	worker_resize(worker->inner, worker->pools[pool].first, concurrency, poll_ms);
	return DEFIB_OK;
}

defib_err defib_worker_counts(defib_worker *worker, defib_counts *out)
{
	struct worker_counts counts = {0};
	struct failure f;
	defib_counts all;
	defib_err err = lib_options(&all, sizeof all, out, "defib_counts", &f);
	if (err)
		return err;
	if (lib_forked(worker->process))
		return DEFIB_REFUSED;
	if (worker->inner)
		worker_counts(worker->inner, &counts);
	size_t given = all.size < sizeof all ? all.size : sizeof all;
	all =
		(defib_counts){out->size, counts.settled, counts.refused, counts.spooled, counts.abandoned};
	memcpy(out, &all, given);
	return DEFIB_OK;
}

void defib_worker_free(defib_worker *worker)
{
	if (!worker || lib_forked(worker->process))
		return;
	if (worker->inner)
		worker_close(worker->inner);
	for (int i = 0; i < worker->options.npools; i++)
		worker->options.pools[i].source->ops->free(worker->options.pools[i].source);
	if (worker->watches)
		lib_watches_use(worker->watches, -1);
	arena_release(&worker->arena);
	free(worker);
}
