/* act.c: see act.h. */
#include "cli/act.h"

#include "cli/act_report.h"

static int check_groups(const struct act_kind *kind, const struct selection *s)
{
	struct failure f = {0};
	for (int i = 0; i < s->n; i++)
		if (act_configured(kind, s->groups[i].watch, &f))
			return cli_fail(&f);
	return EXIT_CLEAN;
}

/* What a dry run warns of, before anybody says yes. */
struct warnings {
	int64_t n;
	char first[256];
};

static void count_warning(void *ctx, const struct watch *w, const struct candidate *cand)
{
	struct warnings *found = ctx;
	(void)w;
	if (!cand->warning)
		return;
	if (found->n++ == 0)
		snprintf(found->first, sizeof found->first, "%s", cand->warning);
}

static void add_warnings(struct cli *c, const struct act_kind *kind, const struct selected *g,
                         struct buf *out)
{
	struct warnings found = {0};
	struct by_hand_result ignored = {0};
	const struct by_hand_options o = {.act = kind->act,
	                                  .actor = cli_actor(c),
	                                  .dry_run = true,
	                                  .ledger_off = c->settings.ledger == LEDGER_OFF,
	                                  .job = count_warning,
	                                  .ctx = &found};
	by_hand(g->session, g->watch, &o, (const char *const *)g->jobs, g->njobs, &ignored);
	if (found.n == 1)
		buf_addf(out, "; beware of one: %s", found.first);
	else if (found.n > 1)
		buf_addf(out, "; beware of %lld of them: %s", (long long)found.n, found.first);
}

static int ask(struct cli *c, const struct act_kind *kind, const struct selection *s)
{
	struct buf question = BUF_INIT;
	bool asks = !cli_flag(c, "yes") && !cli_flag(c, "dry-run");
	for (int i = 0; i < s->n; i++) {
		act_question(&question, kind->verb, s->groups[i].njobs, s->groups[i].watch,
		             s->groups[i].database);
		if (asks && kind->act == ACT_RELEASE)
			add_warnings(c, kind, &s->groups[i], &question);
	}
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
