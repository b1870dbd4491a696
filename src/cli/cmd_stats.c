/* SPDX-License-Identifier: Apache-2.0
 * cmd_stats.c: `defib stats`: the numbers of each watch. A number that takes
 * too long is printed as such; the others still come.
 */
#include "cli/select.h"

#include "base/clock.h"
#include "base/text.h"
#include "insight/tally.h"
#include "recover/late.h"
#include "view/job.h"
#include "view/stats.h"

struct counting {
	struct cli *cli;
	int printed, failed;
	int code; /* of the first failure */
};

static void count_watch(struct counting *x, const struct selected *g)
{
	struct cli *c = x->cli;
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	struct tally tally;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err)
		err = tally_watch(b->store, &b->sql, &b->ledger, TALLY_ALL, &c->arena, &tally, &f);
	if (err) {
		int code = cli_fail(&f);
		x->code = x->failed++ ? x->code : code;
		return;
	}
	struct buf out = BUF_INIT;
	if (c->json) {
		buf_add(&out, x->printed++ ? ",\n" : "\n");
		tally_json(g->watch, g->database, b->ledger.ready, &tally, &out);
	} else {
		buf_add(&out, x->printed++ ? "\n" : "");
		tally_text(g->watch, g->database, b->ledger.ready, &tally, c->color_out, &out);
	}
	out_print(&out);
}

int cmd_stats(struct cli *c)
{
	struct counting x = {.cli = c};
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	select_queues_too(c, &selection);
	if (c->json)
		fputs("{\"watches\":[", stdout);
	for (int i = 0; i < selection.n; i++)
		count_watch(&x, &selection.groups[i]);
	if (c->json)
		fputs("\n]}\n", stdout);
	selection_release(&selection);
	if (x.failed == 0)
		return EXIT_CLEAN;
	return x.printed ? EXIT_PARTLY : x.code;
}
