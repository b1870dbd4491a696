/* SPDX-License-Identifier: Apache-2.0
 * pools.c: the pools of a worker as a program gives them: on a queue or on a watch, with a handler
 * or with steps, checked and copied.
 */
#include "lib/lib.h"

#include "base/log.h"
#include "worker/source_queue.h"
#include "worker/source_table.h"

#include <assert.h>

#define THREADS_MAX 256

/* ---- steps: the same model as a configuration's, with functions instead of programs ---- */

static defib_err lib_pools_check_step(const struct workflow *w, const defib_step *step, int i,
                                      struct failure *f)
{
	if (!step->name || !*step->name || !utf8_valid(step->name))
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
		err = lib_pools_check_step(w, &step, i, f);
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
	if (!p->watch && (!p->kind || !*p->kind))
		return fail(f, DEFIB_USAGE, "pool %d has steps and needs the kind of their jobs", pool);
	return DEFIB_OK;
}

/*
 * The workflow of a pool with steps, copied into the arena; *out is NULL if it has none. Of a watch
 * it is named later, as the watch names it.
 */
static defib_err lib_pools_read_steps(const defib_pool *p, int pool, struct arena *a,
                                      struct workflow_list **out, struct failure *f)
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
		.name = arena_strdup(a, p->watch ? p->watch : p->kind),
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

/*
 * The steps of a watch are those of its workflow in the configuration, by which others read the
 * same rows: `defib retry --from-step`, recovery, and workers that run programs.
 */
static defib_err match_steps(const struct watch *w, const char *kind, struct workflow *given,
                             struct failure *f)
{
	const struct workflow *own = work_workflow(&w->work, kind);
	if (!own)
		return fail(f, DEFIB_CONFIG, "watch %s has no workflow: its rows have no steps", w->name);
	bool same = own->nsteps == given->nsteps;
	for (int i = 0; i < own->nsteps && same; i++)
		same = text_eq(own->steps[i].name, given->steps[i].name);
	if (!same)
		return fail(f, DEFIB_CONFIG,
		            "the steps of watch %s are not those of workflow %s in the configuration",
		            w->name, own->name);
	for (int i = 0; i < own->nsteps; i++)
		if (!given->steps[i].timeout_us)
			given->steps[i].timeout_us = own->steps[i].timeout_us;
	given->name = own->name;
	return DEFIB_OK;
}

/* Whether the jobs of each workflow are taken by its own pool only. */
static defib_err check_steps_alone(const struct lib_pool *pools, int n, struct failure *f)
{
	for (int i = 0; i < n; i++) {
		const defib_pool *p = &pools[i].given;
		for (int k = 0; k < n && p->steps && p->queue; k++) {
			const defib_pool *other = &pools[k].given;
			if (k == i || other->watch || !text_eq(p->queue, other->queue))
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

/* ---- pools ---- */

static int64_t lib_pools_or_default(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

/* The worker's session for reading the types of its tables. */
struct pool_reader {
	struct defib_worker *worker;
	struct session session;
	int64_t slots;
};

static defib_err check_given(const defib_pool *p, int i, bool steps, struct failure *f)
{
	if (!p->watch == !p->queue)
		return fail(f, DEFIB_USAGE, "pool %d needs a queue or a watch", i);
	if (!p->handler && !steps)
		return fail(f, DEFIB_USAGE, "pool %d needs a handler, or steps", i);
	if (p->concurrency < 0 || p->concurrency > POOL_SLOTS_MAX || !lib_is_time(p->poll_ms) ||
	    !lib_is_time(p->timeout_ms) || !lib_is_time(p->stop_ms))
		return fail(f, DEFIB_USAGE, "pool %d has a number out of range", i);
	return DEFIB_OK;
}

static void add_pool(struct pool_reader *r, const struct worker_pool *pool)
{
	struct worker_options *o = &r->worker->options;
	o->pools[o->npools++] = *pool;
	r->slots += pool->concurrency;
}

static void lib_pools_add_queue(struct pool_reader *r, struct lib_pool *pool)
{
	const defib_pool *p = &pool->given;
	add_pool(r, &(struct worker_pool){
					.source = source_queue(p->queue, p->kind),
					.concurrency = lib_pools_or_default(p->concurrency, 1),
					.handler = lib_run_handler,
					.handler_ctx = pool,
					.workflows = pool->workflows,
					.poll_ms = lib_pools_or_default(p->poll_ms, 1000),
					.timeout_ms = p->timeout_ms,
					.grace_ms = lib_pools_or_default(p->stop_ms, 10000),
					.exclusive = p->exclusive != 0,
				});
}

static defib_err lib_pools_add_table(struct pool_reader *r, struct lib_pool *of,
                                     const struct watch *w, const char *kind, int64_t concurrency,
                                     struct failure *f)
{
	const defib_pool *p = &of->given;
	struct worker_pool pool = {
		.watch = w,
		.workflows = of->workflows,
		.concurrency = lib_pools_or_default(p->concurrency, concurrency),
		.handler = lib_run_handler,
		.handler_ctx = of,
		.no_session_error = w->work.no_session_error,
		.unrecorded_message = w->work.unrecorded_message,
		.poll_ms = lib_pools_or_default(p->poll_ms, ms_from_us(w->work.poll_us)),
		.batch = w->work.batch,
		.timeout_ms = lib_pools_or_default(p->timeout_ms, ms_from_us(w->work.timeout_us)),
		.grace_ms = w->work.grace_us / 1000,
		.stop_ms = lib_pools_or_default(p->stop_ms, 10000),
		.stagger_ms = w->work.stagger_us / 1000,
		.burst_limit = w->work.burst_limit,
		.burst_ms = w->work.burst_window_us / 1000,
		.exclusive = p->exclusive != 0 || w->work.exclusive,
		.own_grace = true,
		.noted = true,
		.wait_first = !w->work.startup_tick,
	};
	defib_err err = source_table(w, kind, r->session.store, &pool.source, f);
	if (!err)
		add_pool(r, &pool);
	return err;
}

/* The watch is recovered by this worker, once. */
static void lib_pools_add_watch(struct worker_options *o, const struct watch *w)
{
	for (int i = 1; i < o->nwatches; i++)
		if (o->watches[i] == w)
			return;
	o->watches[o->nwatches++] = w;
}

/* A worker works in one database. */
static defib_err open_database(struct pool_reader *r, const struct lib_watch *on, struct failure *f)
{
	struct worker_options *o = &r->worker->options;
	const char *url = on->session.options.url;
	if (o->store.url && !text_eq(o->store.url, url))
		return fail(f, DEFIB_USAGE, "a worker works in one database, and watch %s is in another",
		            on->watch->name);
	if (!r->session.open)
		r->session = on->session;
	o->store.url = url;
	o->store.name = on->session.options.name;
	return session_ready(&r->session, f);
}

static defib_err add_watch_pools(struct pool_reader *r, struct lib_pool *of, struct failure *f)
{
	const defib_pool *p = &of->given;
	struct lib_watch on;
	defib_watches *watches = r->worker->watches;
	if (!watches)
		return fail(f, DEFIB_USAGE, "a pool of watch %s needs the worker's watches", p->watch);
	defib_err err = lib_watch(watches, p->watch, false, &on, f);
	if (err)
		return err;
	const struct work *work = &on.watch->work;
	if (!work->given)
		return fail(f, DEFIB_CONFIG, "watch %s has no work: section", p->watch);
	if (work->workflow && !of->workflows)
		return fail(f, DEFIB_CONFIG,
		            "watch %s runs a workflow: its pool needs steps, not a handler", p->watch);
	if (of->workflows)
		err = match_steps(on.watch, p->kind, of->workflows->items, f);
	if (err)
		return err;
	if (!work->enabled) {
		log_event(LOG_INFO, "work on this watch is off", LOG_STR("watch", p->watch));
		return DEFIB_OK;
	}
	err = open_database(r, &on, f);
	bool several = !p->kind && work->npools > 0;
	if (!err && !several)
		err = lib_pools_add_table(r, of, on.watch, p->kind, work->concurrency, f);
	for (int i = 0; i < work->npools && several && !err; i++)
		err = lib_pools_add_table(r, of, on.watch, work->pools[i].kind, work->pools[i].concurrency,
		                          f);
	if (!err)
		lib_pools_add_watch(&r->worker->options, on.watch);
	return err;
}

static defib_err read_pool(struct pool_reader *r, int i, const void *given, struct failure *f)
{
	struct defib_worker *w = r->worker;
	struct lib_pool *pool = &w->pools[i];
	defib_pool *p = &pool->given;
	pool->worker = w;
	defib_err err = lib_options(p, sizeof *p, given, "defib_pool", f);
	if (!err)
		err = lib_pools_read_steps(p, i, &w->arena, &pool->workflows, f);
	if (!err)
		err = check_given(p, i, pool->workflows != NULL, f);
	if (err)
		return err;
	pool->first = w->options.npools;
	if (p->watch)
		err = add_watch_pools(r, pool, f);
	else
		lib_pools_add_queue(r, pool);
	pool->n = w->options.npools - pool->first;
	return err;
}

/* No more pools than this come of the given ones. */
static int most_pools(defib_watches *watches, int n)
{
	int most = 1;
	for (int i = 0; watches && defib_watches_name(watches, i); i++) {
		const struct watch *w = lib_watch_at(watches, i);
		most = w->work.npools > most ? w->work.npools : most;
	}
	return n * most;
}

defib_err lib_read_pools(struct defib_worker *w, const defib_pool *given, int n, struct failure *f)
{
	const char *at = (const char *)given;
	struct pool_reader r = {.worker = w};
	defib_err err = DEFIB_OK;
	if (!given || n < 1)
		return fail(f, DEFIB_USAGE, "a worker needs at least one pool");
	w->npools = n;
	w->pools = ARENA_ARRAY(&w->arena, struct lib_pool, n);
	w->options.pools = ARENA_ARRAY(&w->arena, struct worker_pool, most_pools(w->watches, n));
	w->options.watches = ARENA_ARRAY(&w->arena, const struct watch *, n + 1);
	w->options.nwatches = 1; /* the built-in queue */
	/* The caller's array has the caller's stride. */
	for (int i = 0; i < n && !err; i++, at += given->size)
		err = read_pool(&r, i, at, f);
	session_close(&r.session);
	if (!err)
		err = check_steps_alone(w->pools, n, f);
	if (!err && w->options.threads == 0)
		w->options.threads = (int)(r.slots < THREADS_MAX ? r.slots : THREADS_MAX);
	return err;
}
