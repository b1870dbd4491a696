/* SPDX-License-Identifier: Apache-2.0
 * cmd_show.c: `defib show JOB`: one sentence about how it is with a job, the
 * facts, and its story in the order of time; with --state the whole row, with
 * --logs the evidence, with --raw everything as one JSON document.
 */
#include "cli/select.h"
#include "view/override.h"
#include "view/story.h"

#include "view/explain.h"

const struct cli_option show_options[] = {
	{"watch", "WATCH", "of this watch; the built-in queue is \"queue\""},
	{"logs", NULL, "with the evidence of each entry, and the row before and after it"},
	{"state", NULL, "with the whole row, and the outputs of recorded steps"},
	{"raw", NULL, "all of it as one JSON document"},
	{NULL, NULL, NULL},
};

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
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (err && strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	if (err)
		return cli_fail(&f);
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
