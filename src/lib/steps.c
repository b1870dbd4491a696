/* SPDX-License-Identifier: Apache-2.0
 * lib_steps.c: the part of defib.h by which a job of a C program is a
 * workflow: the steps of a pool become the same model that a configuration is
 * read into, with functions in the place of programs. Which step is next, what
 * its end means and how a rollback goes is decided where it is for programs.
 */
#include "lib/lib.h"

#include "base/text.h"

#include <assert.h>
#include <jansson.h>

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

defib_err lib_steps(const defib_pool *p, int pool, struct arena *a,
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

defib_err lib_steps_alone(const defib_pool *pools, int n, struct failure *f)
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
