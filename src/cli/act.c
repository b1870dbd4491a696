/* SPDX-License-Identifier: Apache-2.0 */
/* act.c: see act.h. */
#include "cli/act.h"

#include "base/text.h"

bool act_reads_stdin(const struct cli *c)
{
	bool reads = false;
	for (int i = 0; i < c->nwords; i++)
		reads = reads || text_eq(c->words[i], "-");
	return reads;
}

void act_report_begin(struct act_report *r)
{
	struct buf out = BUF_INIT;
	if (r->cli->json)
		act_begin_json(r->words.verb, r->words.dry_run, &out);
	out_print(&out);
}

void act_group_begin(struct act_report *r, const struct watch *w, const struct database *d)
{
	struct buf out = BUF_INIT;
	r->njobs = 0;
	r->shown[0] = r->shown[1] = 0;
	if (r->cli->json) {
		buf_add(&out, r->ngroups ? ",\n" : "\n");
		act_group_begin_json(w, d, &out);
		fputs(buf_text(&out), stdout);
	}
	r->ngroups++;
	buf_release(&out);
}

static void json_job(const struct act_report *r, const struct watch *w, const struct candidate *c)
{
	struct buf out = BUF_INIT;
	buf_add(&out, r->njobs ? ",\n  " : "\n  ");
	act_job_json(w, c, act_good(&r->words), &out);
	out_print(&out);
}

/* A line a job while they are few; what went wrong is shown however much went well. */
static void text_job(struct act_report *r, const struct watch *w, const struct candidate *c)
{
	bool good = c->outcome == act_good(&r->words);
	struct buf out = BUF_INIT;
	if (r->shown[!good]++ >= ACT_ROWS_MAX)
		return;
	act_job_text(&r->words, w, c, r->cli->color_out, &out);
	puts(buf_text(&out));
	buf_release(&out);
}

void act_job(void *report, const struct watch *w, const struct candidate *c)
{
	struct act_report *r = report;
	if (r->cli->json)
		json_job(r, w, c);
	else
		text_job(r, w, c);
	r->njobs++;
	r->kept += !r->words.dry_run && c->does == ACT_UNDO && c->outcome == OUTCOME_RECOVERED;
}

static void json_group_end(const struct by_hand_result *result)
{
	struct buf out = BUF_INIT;
	act_group_end_json(result, &out);
	out_print(&out);
}

static void text_group_end(const struct act_report *r, const struct watch *w,
                           const struct database *d, const struct by_hand_result *result)
{
	struct buf out = BUF_INIT;
	int64_t unseen = 0;
	for (int i = 0; i < 2; i++)
		unseen += r->shown[i] > ACT_ROWS_MAX ? r->shown[i] - ACT_ROWS_MAX : 0;
	if (unseen) {
		buf_add(&out, "  … and ");
		out_count(&out, unseen);
		buf_add(&out, " more (--json lists all)\n");
	}
	act_counts_text(&r->words, w, d, result, &out);
	if (result->batch[0] && !text_eq(r->words.verb, "undo"))
		buf_addf(&out, "undo with: defib undo %s\n", result->batch);
	fputs(buf_text(&out), stdout);
	fflush(stdout);
	buf_release(&out);
}

void act_group_end(struct act_report *r, const struct watch *w, const struct database *d,
                   const struct by_hand_result *result)
{
	if (r->cli->json)
		json_group_end(result);
	else
		text_group_end(r, w, d, result);
	if (result->failure.code) {
		struct failure f = result->failure;
		/* A word that the key's type cannot take is the caller's slip. */
		if (text_eq(f.sqlstate, "22P02"))
			f.code = DEFIB_USAGE;
		cli_fail(&f);
		r->failed++;
		r->first_failure = r->first_failure ? r->first_failure : f.code;
	} else if (!r->words.dry_run && !result->ledger && !r->cli->quiet) {
		fprintf(stderr, "defib: %s: there is no ledger, so this cannot be undone\n", w->name);
	}
	for (int i = 0; i < OUTCOME_COUNT; i++)
		r->outcomes[i] += result->outcomes[i];
}

int act_report_end(struct act_report *r)
{
	int64_t done = r->outcomes[act_good(&r->words)], other = -done;
	if (r->cli->json)
		fputs("\n]}\n", stdout);
	else if (r->words.dry_run && done && !r->cli->quiet)
		fprintf(stderr, "Nothing was changed. To do it, run the same command without --dry-run\n");
	else if (r->kept && !r->cli->quiet)
		fprintf(stderr, "Jobs that were put back are on hold, so that no scan repeats the change. "
		                "To release them: defib release\n");
	for (int i = 0; i < OUTCOME_COUNT; i++)
		other += r->outcomes[i];
	/* What was left as it is needed nothing. */
	other -= r->words.dry_run ? 0 : r->outcomes[OUTCOME_LEFT];
	if (r->failed)
		return done ? EXIT_PARTLY : exit_code_of(r->first_failure);
	if (other == 0)
		return EXIT_CLEAN;
	return done ? EXIT_PARTLY : EXIT_REFUSED;
}

/* ---- the act ---- */

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
		buf_addf(out, "; warning about one: %s", found.first);
	else if (found.n > 1)
		buf_addf(out, "; warning about %lld of them: %s", (long long)found.n, found.first);
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
	                            .words = {.verb = kind->verb,
	                                      .done = kind->done,
	                                      .good = kind->good,
	                                      .dry_run = cli_flag(c, "dry-run")}};
	const struct by_hand_options o = {
		.act = kind->act,
		.reason = cli_value(c, "reason"),
		.actor = cli_actor(c),
		.step = cli_value(c, "from-step"),
		.dry_run = report.words.dry_run,
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
