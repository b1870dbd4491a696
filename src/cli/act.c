/* act.c: see act.h. */
#include "cli/act.h"

#include "base/text.h"
#include "cli/act_report.h"

static const struct act_kind kinds[] = {
	{"retry", "set to run again", REMEDY_RETRY, OUTCOME_RECOVERED, "status = 'queued'"},
	{"requeue", "requeued", REMEDY_REQUEUE, OUTCOME_RECOVERED, "status = 'queued'"},
	{"fail", "failed", REMEDY_FAIL, OUTCOME_RECOVERED, "status = 'failed', error = :reason"},
	{"hold", "held", REMEDY_HOLD, OUTCOME_HELD, NULL},
	{"release", "released", ACT_RELEASE, OUTCOME_RECOVERED, NULL},
	{"rollback", "set to roll back", REMEDY_ROLLBACK, OUTCOME_RECOVERED, "status = 'rolling_back'"},
	{"cancel", "cancelled", ACT_CANCEL, OUTCOME_RECOVERED, "status = 'cancelling'"},
	{NULL, NULL, 0, OUTCOME_LEFT, NULL},
};

const struct act_kind *act_kind_named(const char *verb)
{
	const struct act_kind *k = kinds;
	while (k->verb && !text_eq(k->verb, verb))
		k++;
	return k->verb ? k : NULL;
}

/*
 * Asked before the question is: hold and release need no words of the user's,
 * defib has a table of its own for them, and a retry can be a requeue.
 */
int act_configured(const struct act_kind *kind, const struct watch *w)
{
	struct failure f = {0};
	bool how = !kind->example || w->actions[kind->act].form != ACTION_NONE;
	if (kind->act == REMEDY_RETRY)
		how = how || w->actions[ACT_THEN].form != ACTION_NONE ||
		      w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	if (how)
		return EXIT_CLEAN;
	fail(&f, DEFIB_CONFIG, "watch %s does not say how to %s", w->name, kind->verb);
	fail_next(&f, "add to it, in the words of its table: %s: %s", kind->verb, kind->example);
	return cli_fail(&f);
}

static int check_groups(const struct act_kind *kind, const struct selection *s)
{
	int code = EXIT_CLEAN;
	for (int i = 0; i < s->n && code == EXIT_CLEAN; i++)
		code = act_configured(kind, s->groups[i].watch);
	return code;
}

static int ask(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	struct buf question = BUF_INIT;
	for (int i = 0; i < s->n; i++)
		act_question(&question, kind->verb, s->groups[i].njobs, s->groups[i].watch,
		             s->groups[i].database);
	int code = cli_confirm(c, buf_text(&question), act_reads_stdin(c));
	buf_release(&question);
	return code;
}

static int carry_out(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	struct act_report report = {.cli = c,
	                            .verb = kind->verb,
	                            .done = kind->done,
	                            .good = kind->good,
	                            .dry_run = cli_flag(c, "dry-run")};
	const struct by_hand_options o = {
		.act = kind->act,
		.reason = cli_value(c, "reason"),
		.actor = cli_actor(c),
		.step = cli_value(c, "from-step"),
		.dry_run = report.dry_run,
		.override_guard = cli_flag(c, "override-guard"),
		.ledger_off = c->settings.ledger == LEDGER_OFF,
		.job = act_job,
		.ctx = &report,
	};
	act_report_begin(&report);
	for (int i = 0; i < s->n; i++) {
		const struct selected *g = &s->groups[i];
		struct by_hand_result result = {0};
		act_group_begin(&report, g->watch, g->database);
		by_hand(g->session, g->watch, &o, (const char *const *)g->jobs, g->njobs, &result);
		act_group_end(&report, g->watch, g->database, &result);
	}
	if (s->limited && !c->quiet)
		fprintf(stderr, "defib: stopped at --limit; there are more such jobs\n");
	return act_report_end(&report);
}

static int nothing_to_do(const struct cli *c, const struct act_kind *kind)
{
	if (c->json)
		printf("{\"act\":\"%s\",\"watches\":[]}\n", kind->verb);
	else
		printf("no jobs match: nothing to %s\n", kind->verb);
	return EXIT_CLEAN;
}

int act_selected(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	if (s->total == 0)
		return nothing_to_do(c, kind);
	int code = check_groups(kind, s);
	if (code == EXIT_CLEAN)
		code = ask(c, kind, s);
	return code == EXIT_CLEAN ? carry_out(c, kind, s) : code;
}
