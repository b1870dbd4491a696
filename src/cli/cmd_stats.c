/* SPDX-License-Identifier: Apache-2.0
 * cmd_stats.c: what is known of each watch: its numbers (`defib stats`; one that takes too long
 * is printed as such, and the others still come), and how long runs take, by kind, with what that
 * says of the thresholds (`defib learn`, which observes what ended since the last time, keeps it,
 * and changes nothing else).
 */
#include "cli/select.h"

#include "insight/learn.h"
#include "insight/tally.h"
#include "view/stats.h"

typedef defib_err add_watch_fn(struct cli *c, const struct selected *g, struct buf *out,
                               struct failure *f);

static defib_err add_stats(struct cli *c, const struct selected *g, struct buf *out,
                           struct failure *f)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct tally tally;
	defib_err err = selected_bind(c, g, b, f);
	if (!err)
		err = tally_watch(b->store, &b->sql, &b->ledger, TALLY_ALL, &c->arena, &tally, f);
	if (!err && c->json)
		tally_json(g->watch, g->database, b->ledger.ready, &tally, out);
	else if (!err)
		tally_text(g->watch, g->database, b->ledger.ready, &tally, c->color_out, out);
	return err;
}

static defib_err add_learned(struct cli *c, const struct selected *g, struct buf *out,
                             struct failure *f)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct learned learned = {0}, *l = learn_why_not(g->watch) ? NULL : &learned;
	defib_err err = selected_bind(c, g, b, f);
	if (!err && l)
		err =
			learn_observe(b->store, &b->binding, c->settings.ledger != LEDGER_OFF, &c->arena, l, f);
	if (!err && c->json)
		learned_json(g->watch, g->database, l, out);
	else if (!err)
		learned_text(g->watch, g->database, l, c->color_out, out);
	return err;
}

/* Each watch is printed when it is known; the exit code is that of the first failure. */
static int print_watches(struct cli *c, struct selection *selection, add_watch_fn *add)
{
	int printed = 0, code = EXIT_CLEAN;
	fputs(c->json ? "{\"watches\":[" : "", stdout);
	for (int i = 0; i < selection->n; i++) {
		struct failure f = {0};
		struct buf out = BUF_INIT;
		buf_add(&out, c->json && printed ? "," : "");
		buf_add(&out, c->json || printed ? "\n" : "");
		if (add(c, &selection->groups[i], &out, &f)) {
			int failed = cli_fail(&f);
			code = code == EXIT_CLEAN ? failed : code;
			buf_release(&out);
			continue;
		}
		printed++;
		out_print(&out);
	}
	fputs(c->json ? "\n]}\n" : "", stdout);
	selection_release(selection);
	return code != EXIT_CLEAN && printed ? EXIT_PARTLY : code;
}

int cmd_stats(struct cli *c)
{
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	select_queues_too(c, &selection);
	return print_watches(c, &selection, add_stats);
}

int cmd_learn(struct cli *c)
{
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < selection.nsessions; i++)
		selection.sessions[i].options.read_only = false; /* what was learnt is kept */
	return print_watches(c, &selection, add_learned);
}
