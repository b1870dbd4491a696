/*
 * cmd_learn.c: `defib learn [WATCH…]`: how long runs take, by kind, and what that
 * says of the thresholds. Observes what ended since the last time, keeps it,
 * and changes nothing else.
 */
#include "cli/select.h"
#include "cli/table.h"

#include "base/clock.h"
#include "insight/learn.h"
#include "insight/runs.h"
#include "insight/suggest.h"
#include "view/json_learned.h"

struct learning {
	struct cli *cli;
	int told, failed;
	int code; /* of the first failure */
};

/* ---- for people ---- */

static void duration_cell(struct table *t, bool has, int64_t us)
{
	struct buf text = BUF_INIT;
	if (has)
		duration_text(us, &text);
	table_cell(t, COLOR_NONE, buf_text(&text));
	buf_release(&text);
}

static void kind_row(struct table *t, const struct watch *w, const struct learned_kind *k,
                     const struct suggestion *s)
{
	struct buf n = BUF_INIT;
	out_count(&n, (int64_t)(s->n + 0.5));
	table_cell(t, COLOR_NONE, learned_name(w, k));
	table_cell(t, COLOR_NONE, buf_text(&n));
	duration_cell(t, true, s->p50_us);
	duration_cell(t, true, s->p95_us);
	duration_cell(t, true, s->p99_us);
	duration_cell(t, true, s->longest_us);
	duration_cell(t, s->has_today, s->today_us);
	duration_cell(t, s->has_us, s->us);
	buf_release(&n);
}

static void print_kinds(const struct learning *x, const struct watch *w, const struct learned *l,
                        struct buf *out)
{
	static const char *const titles[] = {"KIND", "RUNS",    "P50",   "P95",
	                                     "P99",  "LONGEST", "TODAY", "SUGGESTED"};
	struct buf sentences = BUF_INIT;
	struct table t;
	table_init(&t);
	for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
		table_column(&t, titles[i]);
	for (int i = 0; i < l->n; i++) {
		struct suggestion s;
		if (run_times_n(&l->kinds[i].times) <= 0)
			continue;
		suggest(w, l->kinds[i].kind, &l->kinds[i].times, &s);
		kind_row(&t, w, &l->kinds[i], &s);
		suggestion_sentence(&s, learned_name(w, &l->kinds[i]), &sentences);
		buf_add(&sentences, "\n");
	}
	if (sentences.len)
		table_print(&t, x->cli->color_out, out);
	else
		buf_add(out, "no run has ended yet\n");
	buf_add(out, buf_text(&sentences));
	table_release(&t);
	buf_release(&sentences);
}

static void print_text(const struct learning *x, const struct selected *g, const struct learned *l)
{
	struct buf out = BUF_INIT, title = BUF_INIT;
	buf_addf(&title, "%s/%s", g->database->name, g->watch->name);
	buf_add(&out, x->told ? "\n" : "");
	out_color(&out, x->cli->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(&out, "\n");
	if (l)
		print_kinds(x, g->watch, l, &out);
	else
		buf_addf(&out, "%s\n", learn_why_not(g->watch));
	if (l && l->sampled)
		buf_addf(&out, "more runs ended than were read: a sample of the newest %d\n", LEARN_ROWS);
	if (l && l->not_kept.code)
		buf_addf(&out, "not kept: %s\n", l->not_kept.what);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&title);
}

/* ---- for programs ---- */

static void print_json(const struct learning *x, const struct selected *g, const struct learned *l)
{
	struct buf out = BUF_INIT;
	buf_add(&out, x->told ? ",\n" : "\n");
	learned_json(g->watch, g->database, l, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

/* ---- the whole ---- */

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
	if (c->json)
		print_json(x, g, l);
	else
		print_text(x, g, l);
	x->told++;
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
	return x.told ? EXIT_PARTLY : x.code;
}
