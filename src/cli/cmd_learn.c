/* SPDX-License-Identifier: Apache-2.0
 * cmd_learn.c: `defib learn [WATCH…]`: how long runs take, by kind, and what that
 * says of the thresholds. Observes what ended since the last time, keeps it,
 * and changes nothing else.
 */
#include "cli/select.h"
#include "view/output.h"

#include "base/clock.h"
#include "insight/learn.h"
#include "insight/runs.h"
#include "insight/suggest.h"
#include "view/stats.h"

struct learning {
	struct cli *cli;
	int printed, failed;
	int code; /* of the first failure */
};

static void learn_watch(struct learning *x, const struct selected *g)
{
	struct cli *c = x->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct learned learned = {0}, *l = learn_why_not(g->watch) ? NULL : &learned;
	struct failure f = {0};
	bool keep = c->settings.ledger != LEDGER_OFF;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err && l)
		err = learn_observe(b->store, &b->binding, keep, &c->arena, l, &f);
	if (err) {
		int code = cli_fail(&f);
		x->code = x->failed++ ? x->code : code;
		return;
	}
	struct buf out = BUF_INIT;
	if (c->json) {
		buf_add(&out, x->printed++ ? ",\n" : "\n");
		learned_json(g->watch, g->database, l, &out);
	} else {
		buf_add(&out, x->printed++ ? "\n" : "");
		learned_text(g->watch, g->database, l, c->color_out, &out);
	}
	out_print(&out);
}

int cmd_learn(struct cli *c)
{
	struct learning x = {.cli = c};
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < selection.nsessions; i++)
		selection.sessions[i].options.read_only = false; /* what was learnt is kept */
	if (c->json)
		fputs("{\"watches\":[", stdout);
	for (int i = 0; i < selection.n; i++)
		learn_watch(&x, &selection.groups[i]);
	if (c->json)
		fputs("\n]}\n", stdout);
	selection_release(&selection);
	if (x.failed == 0)
		return EXIT_CLEAN;
	return x.printed ? EXIT_PARTLY : x.code;
}
