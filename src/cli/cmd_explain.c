/*
 * cmd_explain.c: `defib explain JOB`, or `WATCH KEY…`: every fact about one
 * job, what it was compared with, which rule fires or why none does, what holds
 * it, and what would happen next.
 */
#include "cli/job_facts.h"
#include "cli/select.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/retries.h"
#include "recover/evidence.h"
#include "serve/job_words.h"
#include "serve/judged.h"
#include "serve/say.h"

const struct cli_option explain_options[] = {
	{"watch", "NAME", "of this watch; the built-in queue is \"queue\""},
	{NULL, NULL, NULL},
};

/* One job with what stands beside it. */
struct explained {
	struct cli *cli;
	const struct selected *group;
	struct selected_sql bound;
	struct candidate cand;
	bool has_hold, has_retry;
	struct held_job hold;
	struct pending_retry retry;
};

/* What keeps automation away, or comes next. */
static void guard_lines(const struct explained *x, struct fact_sheet *s)
{
	const struct watch *w = x->group->watch;
	const struct facts *f = &x->cand.facts;
	struct buf when = BUF_INIT;
	if (f->held && x->has_hold)
		fact_line(s, "held", "since %s: %s%s%s; release it with: defib release %s/%s", x->hold.at,
		          x->hold.cause, x->hold.reason ? ", " : "", x->hold.reason ? x->hold.reason : "",
		          w->name, f->job);
	else if (x->has_hold)
		fact_line(s, "held", "no longer: its owner or sign of life changed since %s", x->hold.at);
	if (x->has_retry) {
		when_words(x->retry.due_us, f->now_us, &when);
		fact_line(s, "retry", "%s %s (%s)", x->retry.due_us > f->now_us ? "due" : "was due",
		          buf_text(&when), x->retry.reason ? x->retry.reason : "scheduled");
	}
	buf_release(&when);
}

static void verdict_lines(const struct explained *x, struct fact_sheet *s)
{
	const struct judgement *j = &x->cand.judgement;
	const struct decision *d = &x->cand.decision;
	const char *watch = x->group->watch->name;
	if (j->verdict == VERDICT_NONE) {
		fact_line(s, "verdict", "not stuck: %s [%s]", j->rule->why, j->rule->id);
		guard_lines(x, s);
		if (x->has_retry)
			fact_line(s, "next", "the retry is carried out by defib scan %s --fix, when it is due",
			          watch);
		return;
	}
	fact_line(s, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	guard_lines(x, s);
	fact_line(s, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	          d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		fact_line(s, "reason", "%s", x->cand.reason);
	if (d->act)
		fact_line(s, "next", "defib scan %s --fix", watch);
	else if (x->cand.facts.held)
		fact_line(s, "next", "nothing, until a person releases it");
}

static void print_text(const struct explained *x)
{
	const struct selected *g = x->group;
	const struct judgement *j = &x->cand.judgement;
	struct buf out = BUF_INIT, because = BUF_INIT, title = BUF_INIT;
	struct fact_sheet sheet = {.arena = &x->cli->arena};
	evidence_sentence(j, &because);
	buf_addf(&title, "%s/%s ", g->database->name, g->watch->name);
	out_padded(&title, x->cand.facts.job, 0);
	out_color(&out, x->cli->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(&out, j->verdict == VERDICT_NONE ? " is not stuck: " : " is stuck: ");
	buf_addf(&out, "%s.\n", buf_text(&because));
	fact_lines(&sheet, g->watch, &x->cand.facts);
	verdict_lines(x, &sheet);
	fact_print(&sheet, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&because);
	buf_release(&title);
}

static void print_json(const struct explained *x)
{
	const struct selected *g = x->group;
	const struct candidate *cand = &x->cand;
	const struct judgement *j = &cand->judgement;
	struct buf out = BUF_INIT, retry = BUF_INIT;
	bool stuck = j->verdict != VERDICT_NONE;
	buf_add(&out, "{\"database\":");
	buf_add_json(&out, g->database->name);
	json_text(&out, "watch", g->watch->name);
	buf_add(&out, ",\"key\":");
	if (g->watch->key.n == 1)
		buf_add_json(&out, cand->facts.job);
	else
		buf_add(&out, cand->facts.job);
	buf_addf(&out, ",\"running\":%s,\"stuck\":%s,\"verdict\":\"%s\",\"law\":\"%s\"",
	         cand->facts.running ? "true" : "false", stuck ? "true" : "false",
	         verdict_names[j->verdict], j->rule->id);
	json_text(&out, "why", j->rule->why);
	buf_addf(&out, ",\"evidence\":%s,\"held\":%s", cand->evidence,
	         cand->facts.held ? "true" : "false");
	json_text(&out, "hold_cause", cand->facts.held ? cand->facts.hold_cause : NULL);
	if (x->has_retry)
		time_iso(x->retry.due_us, &retry);
	json_text(&out, "retry_at", x->has_retry ? buf_text(&retry) : NULL);
	if (stuck)
		buf_addf(&out, ",\"remedy\":\"%s\",\"rule\":\"%s\",\"acts\":%s",
		         remedy_names[cand->decision.remedy], cand->decision.rule,
		         cand->decision.act ? "true" : "false");
	buf_add(&out, "}\n");
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&retry);
}

/* The ledger's word on what holds the job and what is pending. */
static defib_err read_guards(struct explained *x, const char *job, struct failure *f)
{
	struct held_job *holds = NULL;
	struct pending_retry *retries = NULL;
	int nholds = 0, nretries = 0;
	struct store *s = x->bound.store;
	const char *watch = x->group->watch->name;
	if (!x->bound.ledger.ready)
		return DEFIB_OK;
	defib_err err = ledger_holds_list(s, watch, job, 1, &x->cli->arena, &holds, &nholds, f);
	if (!err)
		err = ledger_retries_of(s, watch, &job, 1, &x->cli->arena, &retries, &nretries, f);
	x->has_hold = !err && nholds > 0;
	x->has_retry = !err && nretries > 0;
	if (x->has_hold)
		x->hold = holds[0];
	if (x->has_retry)
		x->retry = retries[0];
	return err;
}

static int explain(struct explained *x)
{
	struct cli *c = x->cli;
	const struct watch *w = x->group->watch;
	struct failure f = {0};
	struct facts *facts = NULL;
	int n = 0;
	defib_err err = selected_bind(c, x->group, &x->bound, &f);
	if (!err)
		err = look_jobs(x->bound.store, &x->bound.sql, &x->bound.ledger, x->group->jobs, 1,
		                &c->arena, &facts, &n, &f);
	if (!err && n > 0)
		err = read_guards(x, facts[0].job, &f);
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (err && strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	if (err)
		return cli_fail(&f);
	if (n == 0)
		return cli_usage("table %s has no row with that key", w->table);
	/* Before the first fix there is no ledger; what would happen then is what one wants to know. */
	bool will_have = x->bound.ledger.ready || c->settings.ledger != LEDGER_OFF;
	judged_candidate(w, &facts[0], will_have, &c->arena, &x->cand);
	if (c->json)
		print_json(x);
	else
		print_text(x);
	return x->cand.judgement.verdict == VERDICT_NONE ? EXIT_CLEAN : EXIT_STUCK;
}

/* WATCH KEY…: the words are a watch and the parts of a key. */
static void take_parts(struct cli *c)
{
	c->given[c->ngiven++] = (struct cli_given){"watch", c->words[0]};
	c->words[0] = job_text(c->words + 1, c->nwords - 1, &c->arena);
	c->nwords = 1;
}

int cmd_explain(struct cli *c)
{
	struct explained x = {.cli = c};
	struct selection selection;
	int parts = c->nwords - 1;
	if (parts > 0 && c->ngiven < CLI_GIVEN_MAX)
		take_parts(c);
	int code = select_read(c, &(struct select_rules){0}, &selection);
	if (code != EXIT_CLEAN)
		return code;
	if (parts < 0 || (parts == 0 && settings_watch(&c->settings, c->words[0])))
		code = cli_usage("defib explain takes a watch and the key of a job, or WATCH/KEY");
	else if (selection.total != 1)
		code = cli_usage("defib explain takes one job");
	else if (parts > 0 && parts != selection.groups[0].watch->key.n)
		code = cli_usage("the key of watch %s has %d parts", selection.groups[0].watch->name,
		                 selection.groups[0].watch->key.n);
	x.group = selection.groups;
	if (code == EXIT_CLEAN)
		code = explain(&x);
	selection_release(&selection);
	return code;
}
