/*
 * cmd_act.c: `defib retry|requeue|fail|hold|release|rollback`: one act on the
 * jobs that the selector names. The commands differ by a row of act.c's table.
 */
#include "cli/act.h"

const struct cli_option act_options[] = {
	SELECTOR_OPTIONS, SELECTOR_ALL, ACT_OPTIONS, ACT_OVERRIDE, {NULL, NULL, NULL},
};

const struct cli_option retry_options[] = {
	SELECTOR_OPTIONS,
	SELECTOR_ALL,
	ACT_OPTIONS,
	ACT_OVERRIDE,
	{"from-step", "STEP", "begin at this step, not where it failed"},
	{NULL, NULL, NULL},
};

int cmd_act(struct cli *c)
{
	const struct act_kind *kind = act_kind_named(c->command->name);
	const struct select_rules rules = {.changes = true};
	struct selection s = {0};
	int code = select_jobs(c, &rules, &s);
	if (code == EXIT_CLEAN)
		code = act_selected(c, kind, &s);
	selection_release(&s);
	return code;
}
