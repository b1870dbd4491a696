/*
 * cmd_explain.c: `defib explain JOB`, or `WATCH KEY…`: every fact about one
 * job, what it was compared with, which rule fires or why none does, what holds
 * it, and what would happen next.
 */
#include "cli/job_facts.h"
#include "cli/select.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/evidence.h"
#include "view/job_words.h"
#include "view/json_explain.h"

const struct cli_option explain_options[] = {
	{"watch", "WATCH", "of this watch; the built-in queue is \"queue\""},
	{NULL, NULL, NULL},
};

/* One job of a watch, and how it is. */
struct explaining {
	struct cli *cli;
	const struct selected *group;
	struct selected_sql bound;
	struct explained is;
};

/* What keeps automation away, or comes next. */
static void guard_lines(const struct explaining *x, struct fact_sheet *s)
{
	const struct watch *w = x->group->watch;
	const struct facts *f = &x->is.cand.facts;
	struct buf when = BUF_INIT;
	if (f->held && x->is.has_hold)
		fact_line(s, "held", "since %s: %s%s%s; release it with: defib release %s/%s",
		          x->is.hold.at, x->is.hold.cause, x->is.hold.reason ? ", " : "",
		          x->is.hold.reason ? x->is.hold.reason : "", w->name, f->job);
	else if (x->is.has_hold)
		fact_line(s, "held", "no longer: its owner, sign of life or state changed since %s",
		          x->is.hold.at);
	if (x->is.has_retry) {
		when_words(x->is.retry.due_us, f->now_us, &when);
		fact_line(s, "retry", "%s %s (%s)", x->is.retry.due_us > f->now_us ? "due" : "was due",
		          buf_text(&when), x->is.retry.reason ? x->is.retry.reason : "scheduled");
	}
	if (x->is.guard)
		fact_line(s, "guard", "the daemon that leads %s %s", w->name, x->is.guard);
	if (x->is.factor > 1)
		fact_line(s, "raised", "thresholds are times %g at the moment to the daemon that leads %s",
		          x->is.factor, w->name);
	buf_release(&when);
}

static void verdict_lines(const struct explaining *x, struct fact_sheet *s)
{
	const struct judgement *j = &x->is.cand.judgement;
	const struct decision *d = &x->is.cand.decision;
	const char *watch = x->group->watch->name;
	if (j->verdict == VERDICT_NONE) {
		fact_line(s, "verdict", "not stuck: %s [%s]", j->rule->why, j->rule->id);
		guard_lines(x, s);
		if (x->is.has_retry)
			fact_line(s, "next", "the retry is carried out by defib scan %s --fix, when it is due",
			          watch);
		return;
	}
	fact_line(s, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	guard_lines(x, s);
	fact_line(s, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	          d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		fact_line(s, "reason", "%s", x->is.cand.reason);
	if (d->act)
		fact_line(s, "next", "defib scan %s --fix", watch);
	else if (x->is.cand.facts.held)
		fact_line(s, "next", "nothing, until a person releases it");
}

static void print_text(const struct explaining *x)
{
	const struct selected *g = x->group;
	const struct judgement *j = &x->is.cand.judgement;
	struct buf out = BUF_INIT, because = BUF_INIT, title = BUF_INIT;
	struct fact_sheet sheet = {.arena = &x->cli->arena};
	evidence_sentence(j, &because);
	buf_addf(&title, "%s/%s ", g->database->name, g->watch->name);
	out_padded(&title, x->is.cand.facts.job, 0);
	out_color(&out, x->cli->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(&out, j->verdict == VERDICT_NONE ? " is not stuck: " : " is stuck: ");
	buf_addf(&out, "%s.\n", buf_text(&because));
	fact_lines(&sheet, g->watch, &x->is.cand.facts);
	if (x->is.has_claim)
		fact_claim(&sheet, &x->is.claim, x->is.cand.facts.now_us);
	verdict_lines(x, &sheet);
	fact_print(&sheet, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&because);
	buf_release(&title);
}

static void print_json(const struct explaining *x)
{
	struct buf out = BUF_INIT;
	explained_json(x->group->watch, x->group->database, &x->is, &out);
	puts(buf_text(&out));
	buf_release(&out);
}

static int explain(struct explaining *x)
{
	struct cli *c = x->cli;
	const struct selected_sql *b = &x->bound;
	struct failure f = {0};
	bool found = false;
	defib_err err = selected_bind(c, x->group, &x->bound, &f);
	if (!err)
		err = explain_read(b->store, &b->sql, &b->ledger, x->group->watch, x->group->jobs[0],
		                   c->settings.ledger != LEDGER_OFF, &c->arena, &x->is, &found, &f);
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (err && strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	if (err)
		return cli_fail(&f);
	if (!found)
		return cli_usage("table %s has no row with that key", x->group->watch->table);
	explain_guard(b->store, x->group->database, x->group->watch, &c->arena, &x->is);
	if (c->json)
		print_json(x);
	else
		print_text(x);
	return x->is.cand.judgement.verdict == VERDICT_NONE ? EXIT_CLEAN : EXIT_STUCK;
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
	struct explaining x = {.cli = c};
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
	else if (parts > 1 && parts != selection.groups[0].watch->key.n)
		code = cli_usage("the key of watch %s has %d parts", selection.groups[0].watch->name,
		                 selection.groups[0].watch->key.n);
	x.group = selection.groups;
	if (code == EXIT_CLEAN)
		code = explain(&x);
	selection_release(&selection);
	return code;
}
