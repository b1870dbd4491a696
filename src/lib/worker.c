/* SPDX-License-Identifier: Apache-2.0
 * worker.c: the part of defib.h that makes a C program a worker: pools of handlers around struct
 * worker, and settling in the handler's own transaction.
 */
#include "lib/lib.h"

#include "base/text.h"
#include "store/store.h"
#include "watch/settings.h"
#include "worker/job.h"
#include "worker/worker.h"
#include "worker/workflow.h"

#include <assert.h>
#include <jansson.h>
#include <unistd.h>

#define SLOTS_MAX 10000
#define THREADS_MAX 256
#define LEASE_LEAST_MS 600

struct defib_job {
	struct handler_job *inner;
	char token[TOKEN_SIZE];       /* "" until it is asked for */
	struct step_records recorded; /* of a workflow */
	/* the result of settling in the handler's own transaction */
	enum { OWN_NONE, OWN_WRITTEN, OWN_LOST } own;
};

struct defib_worker {
	struct worker *inner;
	struct arena arena; /* options, pools and names */
	struct worker_options options;
	defib_pool *pools;
};

/* ---- for handlers ---- */

int64_t defib_job_id(const defib_job *job)
{
	int64_t id = 0;
	bool is_number = int_parse(handler_claim(job->inner)->key, &id);
	assert(is_number); /* the built-in queue has no other keys */
	(void)is_number;
	return id;
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

int defib_job_should_stop(defib_job *job)
{
	return handler_should_stop(job->inner);
}

defib_err defib_job_progress(defib_job *job, const char *step, const char *text)
{
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
	job->own = OWN_NONE;
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
static defib_outcome call(defib_job *job, const defib_pool *pool)
{
	const struct workflow_step *step = handler_step(job->inner);
	AUTO_ARENA a = ARENA_INIT;
	if (!step)
		return pool->handler(job, pool->ctx);
	bool read = step_records_parse(handler_claim(job->inner)->steps, &a, &job->recorded);
	assert(read); /* its step was chosen by them */
	(void)read;
	defib_handler function = defib_job_undoing(job) ? step->undo_call : step->run_call;
	defib_outcome outcome = function(job, pool->ctx);
	return outcome;
}

static enum settle_as run_handler(struct handler_job *inner, void *ctx)
{
	static const enum settle_as as[] = {SETTLE_DONE, SETTLE_FAILED, SETTLE_RETRY, SETTLE_PERMANENT,
	                                    SETTLE_STOPPED};
	_Static_assert(DEFIB_STOPPED - DEFIB_DONE + 1 == sizeof as / sizeof *as, "one per outcome");
	const defib_pool *pool = ctx;
	defib_job job = {.inner = inner};
	defib_outcome outcome = call(&job, pool);
	if (outcome == DEFIB_SETTLED)
		return settled_as(&job);
	if (outcome >= DEFIB_DONE && outcome <= DEFIB_STOPPED)
		return as[outcome - DEFIB_DONE];
	AUTO_BUF why = BUF_INIT;
	buf_addf(&why, "its handler returned %d (%s), which is an error code and not an outcome",
	         (int)outcome, defib_err_name((defib_err)outcome));
	handler_error(inner, buf_text(&why));
	return SETTLE_FAILED;
}

/* ---- steps: the same model as a configuration's, with functions instead of programs ---- */

static bool is_utf8(const char *text)
{
	json_t *json = json_string(text);
	json_decref(json);
	return json != NULL;
}

static defib_err check_step(const struct workflow *w, const defib_step *step, int i,
                            struct failure *f)
{
	if (!step->name || !*step->name || !is_utf8(step->name))
		return fail(f, DEFIB_USAGE, "step %d of %s needs a name in UTF-8", i, w->name);
	if (!step->run)
		return fail(f, DEFIB_USAGE, "step %s of %s has no function to run", step->name, w->name);
	if (step->timeout_ms < 0 || step->timeout_ms > INT32_MAX)
		return fail(f, DEFIB_USAGE, "step %s of %s has a time limit out of range", step->name,
		            w->name);
	for (int k = 0; k < i; k++)
		if (text_eq(w->steps[k].name, step->name))
			return fail(f, DEFIB_USAGE, "two steps of %s are named %s", w->name, step->name);
	return DEFIB_OK;
}

static defib_err read_step(struct workflow *w, int i, const void *given, struct arena *a,
                           struct failure *f)
{
	defib_step step;
	defib_err err = lib_options(&step, sizeof step, given, "defib_step", f);
	if (!err)
		err = check_step(w, &step, i, f);
	if (!err)
		w->steps[i] = (struct workflow_step){
			.name = arena_strdup(a, step.name),
			.run_call = step.run,
			.undo_call = step.undo,
			.timeout_us = step.timeout_ms * 1000,
		};
	return err;
}

static defib_err check_pool(const defib_pool *p, int pool, struct failure *f)
{
	if (!p->steps || p->nsteps < 1)
		return fail(f, DEFIB_USAGE, "pool %d needs its steps and their number", pool);
	if (p->handler)
		return fail(f, DEFIB_USAGE, "pool %d has a handler and steps: give one of them", pool);
	if (!p->kind || !*p->kind)
		return fail(f, DEFIB_USAGE, "pool %d has steps and needs the kind of their jobs", pool);
	return DEFIB_OK;
}

/* The workflow of a pool with steps, copied into the arena; *out is NULL if it has none. */
static defib_err read_steps(const defib_pool *p, int pool, struct arena *a,
                            const struct workflow_list **out, struct failure *f)
{
	const char *at = (const char *)p->steps;
	*out = NULL;
	if (!p->steps && !p->nsteps && !p->saga)
		return DEFIB_OK;
	defib_err err = check_pool(p, pool, f);
	if (err)
		return err;
	assert(p->steps);
	struct workflow_list *list = ARENA_ARRAY(a, struct workflow_list, 1);
	struct workflow *w = ARENA_ARRAY(a, struct workflow, 1);
	*w = (struct workflow){
		.name = arena_strdup(a, p->kind),
		.nsteps = p->nsteps,
		.steps = ARENA_ARRAY(a, struct workflow_step, p->nsteps),
		.saga = p->saga != 0,
	};
	*list = (struct workflow_list){1, w};
	/* The caller's array has the caller's stride. */
	for (int i = 0; i < p->nsteps && !err; i++, at += p->steps->size)
		err = read_step(w, i, at, a, f);
	*out = list;
	return err;
}

/* Whether the jobs of each workflow are taken by its own pool only. */
static defib_err check_steps_alone(const defib_pool *pools, int n, struct failure *f)
{
	for (int i = 0; i < n; i++) {
		const defib_pool *p = &pools[i];
		for (int k = 0; k < n && p->steps; k++) {
			const defib_pool *other = &pools[k];
			if (k == i || !text_eq(p->queue, other->queue))
				continue;
			if (!other->kind || text_eq(p->kind, other->kind))
				return fail(
					f, DEFIB_USAGE,
					"pool %d would take jobs of kind %s, which belong to the steps of pool %d", k,
					p->kind, i);
		}
	}
	return DEFIB_OK;
}

/* ---- a worker ---- */

static const char *kept(struct arena *a, const char *text)
{
	return text ? arena_strdup(a, text) : NULL;
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

static defib_err read_pool(struct defib_worker *w, int i, const void *given, struct failure *f)
{
	defib_pool *p = &w->pools[i];
	const struct workflow_list *workflows = NULL;
	defib_err err = lib_options(p, sizeof *p, given, "defib_pool", f);
	if (!err)
		err = read_steps(p, i, &w->arena, &workflows, f);
	if (err)
		return err;
	if (!p->queue || (!p->handler && !workflows))
		return fail(f, DEFIB_USAGE, "pool %d needs a queue and a handler, or steps", i);
	if (p->concurrency < 0 || p->concurrency > SLOTS_MAX || p->poll_ms < 0 || p->timeout_ms < 0 ||
	    p->stop_ms < 0)
		return fail(f, DEFIB_USAGE, "pool %d has a number out of range", i);
	w->options.pools[i] = (struct worker_pool){
		.source = source_queue(p->queue, p->kind),
		.concurrency = or_default(p->concurrency, 1),
		.handler = run_handler,
		.handler_ctx = p,
		.workflows = workflows,
		.poll_ms = or_default(p->poll_ms, 1000),
		.timeout_ms = p->timeout_ms,
		.grace_ms = or_default(p->stop_ms, 10000),
		.exclusive = p->exclusive != 0,
	};
	w->options.npools = i + 1;
	return DEFIB_OK;
}

static defib_err read_pools(struct defib_worker *w, const defib_pool *given, int n,
                            struct failure *f)
{
	const char *at = (const char *)given;
	int64_t slots = 0;
	defib_err err = DEFIB_OK;
	if (!given || n < 1)
		return fail(f, DEFIB_USAGE, "a worker needs at least one pool");
	w->pools = ARENA_ARRAY(&w->arena, defib_pool, n);
	w->options.pools = ARENA_ARRAY(&w->arena, struct worker_pool, n);
	/* The caller's array has the caller's stride. */
	for (int i = 0; i < n && !err; i++, at += given->size) {
		err = read_pool(w, i, at, f);
		slots += w->options.pools[i].concurrency;
	}
	if (!err)
		err = check_steps_alone(w->pools, n, f);
	if (!err && w->options.threads == 0)
		w->options.threads = (int)(slots < THREADS_MAX ? slots : THREADS_MAX);
	return err;
}

static const char *default_name(struct arena *a)
{
	char host[65] = "host";
	(void)gethostname(host, sizeof host - 1);
	return arena_printf(a, "%s-%d", host, (int)getpid());
}

/* The critical line was logged; the rest is up to the caller. */
static void leave_stuck(void *ctx, const char *queue, const char *job)
{
	(void)ctx, (void)queue, (void)job;
}

static defib_err read_options(struct defib_worker *w, const defib_worker_options *given,
                              struct failure *f)
{
	defib_worker_options o;
	enum store_engine engine;
	defib_err err = lib_options(&o, sizeof o, given, "defib_worker_options", f);
	if (err)
		return err;
	if (!store_engine_of(o.url, &engine, f))
		return DEFIB_CONFIG;
	int64_t lease_ms = or_default(o.lease_ms, 15000);
	if (lease_ms < LEASE_LEAST_MS || o.threads < 0 || o.grace_ms < 0)
		return fail(f, DEFIB_USAGE, "a lease is at least 600 ms, and no option may be negative");
	const struct watch **watches = ARENA_ARRAY(&w->arena, const struct watch *, 1);
	watches[0] = builtin_watch(engine, &w->arena);
	w->options = (struct worker_options){
		.name = o.name ? kept(&w->arena, o.name) : default_name(&w->arena),
		.store = {.url = kept(&w->arena, o.url)},
		.watches = watches,
		.nwatches = 1,
		.lease = lease_rules_of(lease_ms),
		.spool = kept(&w->arena, o.spool),
		.grace_ms = or_default(o.grace_ms, 30000),
		.threads = o.threads,
		.drain = o.drain != 0,
		.stuck = o.on_stuck || o.exit_when_stuck ? o.on_stuck : leave_stuck,
		.stuck_ctx = o.on_stuck_ctx,
		.brake_ms = o.brake_ms,
	};
	return DEFIB_OK;
}

defib_err defib_worker_new(const defib_worker_options *options, const defib_pool *pools, int npools,
                           defib_worker **out, defib_message *message)
{
	struct failure f = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_worker *w = mem_alloc(sizeof *w);
	defib_err err = read_options(w, options, &f);
	if (!err)
		err = read_pools(w, pools, npools, &f);
	if (!err)
		err = worker_open(&w->options, &w->inner, &f);
	if (err)
		defib_worker_free(w);
	else
		*out = w;
	return lib_answer(err, &f, message);
}

void defib_worker_run(defib_worker *worker)
{
	worker_run(worker->inner);
}

void defib_worker_stop(defib_worker *worker)
{
	worker_stop(worker->inner);
}

defib_err defib_worker_resize(defib_worker *worker, int pool, int64_t concurrency, int64_t poll_ms)
{
	if (pool < 0 || pool >= worker->options.npools || concurrency < 1 || concurrency > SLOTS_MAX ||
	    poll_ms < 1)
		return DEFIB_USAGE;
	worker_resize(worker->inner, pool, concurrency, poll_ms);
	return DEFIB_OK;
}

defib_err defib_worker_counts(defib_worker *worker, defib_counts *out)
{
	struct worker_counts counts;
	struct failure f;
	defib_counts all;
	defib_err err = lib_options(&all, sizeof all, out, "defib_counts", &f);
	if (err)
		return err;
	worker_counts(worker->inner, &counts);
	size_t given = all.size < sizeof all ? all.size : sizeof all;
	all =
		(defib_counts){out->size, counts.settled, counts.refused, counts.spooled, counts.abandoned};
	memcpy(out, &all, given);
	return DEFIB_OK;
}

void defib_worker_free(defib_worker *worker)
{
	if (!worker)
		return;
	if (worker->inner)
		worker_close(worker->inner);
	for (int i = 0; i < worker->options.npools; i++)
		worker->options.pools[i].source->ops->free(worker->options.pools[i].source);
	arena_release(&worker->arena);
	free(worker);
}
