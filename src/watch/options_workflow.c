/* SPDX-License-Identifier: Apache-2.0
 * options_workflow.c: the option tables of workflows and their steps, and what
 * a workflow must fulfil beyond them: names are told apart by, so there are no
 * two of one, and a workflow without a step would be done before it began.
 */
#include "watch/workflow.h"

#include "base/text.h"
#include "watch/pass_environment.h"

#define P(member) offsetof(struct workflow_step, member)
static const struct opt_row step_rows[] = {
	{.name = "name",
     .type = OPT_TEXT,
     .offset = P(name),
     .required = true,
     .help = "the step's name, which its checkpoint is kept under"},
	{.name = "run",
     .type = OPT_TEXT_LIST,
     .offset = P(run),
     .required = true,
     .help = "the program of the step and its arguments"},
	{.name = "undo",
     .type = OPT_TEXT_LIST,
     .offset = P(undo),
     .help = "the program that undoes the step; if not given, there is nothing to undo"},
	{.name = "timeout",
     .type = OPT_DURATION,
     .offset = P(timeout_us),
     .help = "time limit of the step, and of its undo; the job's own if not given"},
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

static void check_step(struct cfg_reader *r, const struct step_list *before,
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

static void read_steps(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct step_list *list = target;
	*list = (struct step_list){0};
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
		check_step(r, list, s);
		cfg_leave(r, mark);
		list->n++;
	}
}

#define W(member) offsetof(struct workflow, member)
const struct opt_row workflow_rows[] = {
	{.name = "name",
     .type = OPT_TEXT,
     .offset = W(name),
     .required = true,
     .help = "the workflow's name, and the kind of its jobs"},
	{.name = "saga",
     .type = OPT_BOOL,
     .offset = W(saga),
     .standard = "false",
     .help = "whether a permanent failure undoes the finished steps"},
	{.name = "pass_environment",
     .type = OPT_CUSTOM,
     .offset = W(pass_environment),
     .read = read_pass_environment,
     .help = PASS_ENVIRONMENT_HELP ", for its steps and undos"},
	{.name = "steps",
     .type = OPT_CUSTOM,
     .offset = W(nsteps),
     .read = read_steps,
     .rows = step_rows,
     .required = true,
     .help = "the steps, in the order they are run"},
	{.name = NULL},
};
#undef W

void read_workflows(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct workflow_list *list = target;
	*list = (struct workflow_list){0};
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
