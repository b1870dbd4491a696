/* SPDX-License-Identifier: Apache-2.0
 * cmd_show.c: one job. `defib show JOB`: one sentence about its state, the facts, and its
 * history in the order of time; with --state the whole row, with --logs the evidence, with --raw
 * everything as one JSON document. `defib explain JOB`, or `WATCH KEY…`: every fact, what it was
 * compared with, which rule fires or why none does, what holds it, and what would happen next.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/select.h"
#include "recover/evidence.h"
#include "view/job.h"
#include "view/status.h"
#include "view/story.h"

const struct cli_option show_options[] = {
	{"watch", "WATCH", "of this watch; the built-in queue is \"queue\""},
	{"logs", NULL, "with the evidence of each entry, and the row before and after it"},
	{"state", NULL, "with the whole row, and the outputs of recorded steps"},
	{"raw", NULL, "all of it as one JSON document"},
	{NULL, NULL, NULL},
};

/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
static int read_failed(struct failure *f)
{
	if (strncmp(f->sqlstate, "22", 2) == 0)
		f->code = DEFIB_USAGE;
	return cli_fail(f);
}

struct shown {
	struct cli *cli;
	struct story_sheet sheet;
};

static void print_text(struct shown *x, struct store *s)
{
	struct buf out = BUF_INIT;
	x->sheet.color = x->cli->color_out;
	x->sheet.logs = cli_flag(x->cli, "logs");
	x->sheet.whole_row = cli_flag(x->cli, "state");
	story_text(&x->sheet, &out);
	pause_line(s, x->sheet.watch->name, &out);
	out_print(&out);
}

static void print_json(const struct story_sheet *x, const struct database *d)
{
	struct buf out = BUF_INIT;
	story_json(x->watch, d, &x->story, &x->cand, &out);
	out_json(buf_text(&out));
	buf_release(&out);
}

static int show(struct shown *x, const struct selected *g)
{
	struct cli *c = x->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	bool found = false;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = story_read(b->store, &b->sql, &b->ledger, g->jobs[0], &c->arena, &x->sheet.story,
		                 &found, &f);
	if (err)
		return read_failed(&f);
	if (!found)
		return cli_usage("there is no job %s/%s: table %s of database %s has no such row; "
		                 "see defib list --watch %s",
		                 g->watch->name, g->jobs[0], g->watch->table, g->database->name,
		                 g->watch->name);
	x->sheet.watch = g->watch;
	bool will_have = b->ledger.ready || c->settings.ledger != LEDGER_OFF;
	judged_candidate(g->watch, &x->sheet.story.row.facts, will_have, &c->arena, &x->sheet.cand);
	if (c->json || cli_flag(c, "raw"))
		print_json(&x->sheet, g->database);
	else
		print_text(x, b->store);
	return EXIT_CLEAN;
}

int cmd_show(struct cli *c)
{
	struct shown x = {.cli = c, .sheet = {.arena = &c->arena}};
	struct selection selection;
	if (c->nwords != 1)
		return cli_usage("defib show takes one job: WATCH/KEY");
	int code = select_read(c, &(struct select_rules){0}, &selection);
	if (code != EXIT_CLEAN)
		return code;
	if (selection.total != 1)
		code = cli_usage("defib show takes one job: WATCH/KEY");
	else
		code = show(&x, &selection.groups[0]);
	selection_release(&selection);
	return code;
}

/* ---- defib explain ---- */

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
	if (err)
		return read_failed(&f);
	if (!found)
		return cli_usage("table %s has no row with that key", x->group->watch->table);
	explain_guard(b->store, x->group->database, x->group->watch, &c->arena, &x->is);
	struct buf out = BUF_INIT;
	if (c->json)
		explained_json(x->group->watch, x->group->database, &x->is, &out);
	else
		explained_text(x->group->watch, x->group->database, &x->is, &c->arena, c->color_out, &out);
	buf_add(&out, c->json ? "\n" : "");
	out_print(&out);
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
