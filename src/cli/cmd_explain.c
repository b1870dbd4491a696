/* SPDX-License-Identifier: Apache-2.0
 * cmd_explain.c: `defib explain JOB`, or `WATCH KEY…`: every fact about one
 * job, what it was compared with, which rule fires or why none does, what holds
 * it, and what would happen next.
 */
#include "cli/select.h"
#include "view/job.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/evidence.h"
#include "view/explain.h"

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
	/* A word that the key's type cannot take is the caller's slip, not the database's trouble. */
	if (err && strncmp(f.sqlstate, "22", 2) == 0)
		f.code = DEFIB_USAGE;
	if (err)
		return cli_fail(&f);
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
