/* SPDX-License-Identifier: Apache-2.0
 * workflow.c: the option tables of workflows and their steps, and the checks beyond them: names
 * must be unique, and a workflow must have a step.
 */
#include "watch/workflow.h"

#include "store/dialect.h"
#include "watch/bind.h"
#include "watch/options_values.h"

#include <jansson.h>

#define P(member) offsetof(struct workflow_step, member)
static const struct opt_row step_rows[] = {
	OPTION(TEXT, "name", P(name), "the step's name, under which its checkpoint is stored",
           .required = true),
	OPTION(TEXT_LIST, "run", P(run), "the program of the step and its arguments", .required = true),
	OPTION(TEXT_LIST, "undo", P(undo),
           "the program that undoes the step; if not given, there is nothing to undo"),
	OPTION(DURATION, "timeout", P(timeout_us),
           "time limit of the step, and of its undo; the job's own if not given"),
	{.name = NULL},
};
#undef P

struct step_list {
	int n;
	struct workflow_step *items;
};
_Static_assert(offsetof(struct workflow, steps) - offsetof(struct workflow, nsteps) ==
                   offsetof(struct step_list, items),
               "nsteps and steps are read as a struct step_list");

static void workflow_check_step(struct cfg_reader *r, const struct step_list *before,
                                const struct workflow_step *s)
{
	if (s->name && !*s->name)
		cfg_problem(r, s->at, "a step needs a name");
	if (s->run.items && (s->run.n == 0 || !*s->run.items[0]))
		cfg_problem(r, s->at, "run is empty; give the program and its arguments");
	if (s->undo.items && s->undo.n > 0 && !*s->undo.items[0])
		cfg_problem(r, s->at, "undo is empty; leave it out if there is nothing to undo");
	for (int i = 0; s->name && i < before->n; i++)
		if (text_eq(before->items[i].name, s->name))
			cfg_problem(r, s->at, "two steps are named \"%s\"", s->name);
}

static void workflow_read_steps(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct step_list *list = target;
	if (!node)
		return;
	if (node->kind != CFG_LIST || node->n == 0) {
		cfg_problem(r, node->at, "expects a list of steps such as {name: charge, run: [./charge]}");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct workflow_step, node->n);
	for (int i = 0; i < node->n; i++) {
		struct workflow_step *s = &list->items[list->n];
		const struct cfg_node *name = cfg_get(node->items[i], "name");
		size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
		s->at = node->items[i]->at;
		cfg_read(r, step_rows, node->items[i], s);
		workflow_check_step(r, list, s);
		cfg_leave(r, mark);
		list->n++;
	}
}

#define W(member) offsetof(struct workflow, member)
const struct opt_row workflow_rows[] = {
	OPTION(TEXT, "name", W(name), "the workflow's name, and the kind of its jobs",
           .required = true),
	OPTION(BOOL, "saga", W(saga), "whether a permanent failure undoes the finished steps",
           .standard = "false"),
	OPTION(CUSTOM, "pass_environment", W(pass_environment),
           PASS_ENVIRONMENT_HELP ", for its steps and undos", .read = read_pass_environment),
	OPTION(CUSTOM, "steps", W(nsteps), "the steps, in the order they are run",
           .read = workflow_read_steps, .rows = step_rows, .required = true),
	{.name = NULL},
};
#undef W

void read_workflows(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct workflow_list *list = target;
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at, "expects a list of workflows, each starting with \"- name:\"");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct workflow, node->n);
	for (int i = 0; i < node->n; i++) {
		struct workflow *w = &list->items[list->n];
		const struct cfg_node *name = cfg_get(node->items[i], "name");
		size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
		w->at = node->items[i]->at;
		cfg_read(r, workflow_rows, node->items[i], w);
		if (w->name && !*w->name)
			cfg_problem(r, w->at, "a workflow needs a name");
		if (w->name && workflow_named(list, w->name))
			cfg_problem(r, w->at, "two workflows are named \"%s\"", w->name);
		cfg_leave(r, mark);
		list->n++;
	}
}

const struct workflow *workflow_named(const struct workflow_list *all, const char *name)
{
	for (int i = 0; name && i < all->n; i++)
		if (all->items[i].name && text_eq(all->items[i].name, name))
			return &all->items[i];
	return NULL;
}

/* ---- which steps a row has finished ---- */

void sql_steps_done(const struct binding *b, struct buf *out)
{
	const char *sql = b->watch->steps_done.text;
	const char *const *around = dialect_of(b->engine)->list_json;
	if (sql)
		buf_addf(out, "%s%s%s", around[0], sql, around[1]);
	else
		buf_add(out, "NULL");
}

void sql_steps_fact(const struct binding *b, bool reread, struct buf *out)
{
	buf_add(out, ",\n  ");
	if (b->watch->work.workflows.n && reread)
		sql_steps_done(b, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_steps_done,\n  ");
}

int workflow_position(const struct workflow *w, const char *step)
{
	for (int i = 0; step && i < w->nsteps; i++)
		if (text_eq(w->steps[i].name, step))
			return i;
	return -1;
}

const struct workflow *work_workflow(const struct work *work, const char *kind)
{
	const struct workflow *own = workflow_named(&work->workflows, kind);
	return own ? own : workflow_named(&work->workflows, work->workflow);
}

static bool from_list(const struct workflow *w, const json_t *list, struct arena *a,
                      struct finished_step *out, int *n)
{
	size_t i;
	json_t *one;
	json_array_foreach((json_t *)list, i, one)
	{
		const char *name = json_string_value(one);
		if (!name)
			return false;
		int at = workflow_position(w, name);
		out[(*n)++] =
			(struct finished_step){arena_strdup(a, name), at < 0 ? w->nsteps + (int)i : at};
	}
	return true;
}

bool steps_done_parse(const struct workflow *w, const char *text, struct arena *a,
                      struct finished_step **out, int *n)
{
	json_t *json = text ? json_read(text, JSON_DECODE_ANY) : NULL;
	/* A text column has its list, or name, inside a JSON string; on SQLite a name is not quoted. */
	const char *inner = json_is_string(json) ? json_string_value(json) : json ? NULL : text;
	json_t *list = inner ? json_read(inner, 0) : json_incref(json);
	bool known = json_is_array(list);
	*n = 0;
	*out = ARENA_ARRAY(a, struct finished_step, w->nsteps + (int)json_array_size(list) + 1);
	if (known) {
		known = from_list(w, list, a, *out, n);
	} else if (inner) {
		int at = workflow_position(w, inner);
		known = at >= 0;
		for (; *n < at; (*n)++)
			(*out)[*n] = (struct finished_step){w->steps[*n].name, *n};
	}
	json_decref(list);
	json_decref(json);
	return known;
}
