/*
 * cmd_stats.c: `defib stats`: the numbers of each watch. A number that takes
 * too long is told as such; the others still come.
 */
#include "cli/select.h"

#include "base/clock.h"
#include "base/text.h"
#include "insight/tally.h"
#include "recover/late.h"
#include "view/job_words.h"
#include "view/json_tally.h"

struct counting {
	struct cli *cli;
	int told, failed;
	int code; /* of the first failure */
};

/* ---- for people */

static void line(struct buf *out, const char *name, const char *text)
{
	buf_add(out, "  ");
	out_padded(out, name, 17);
	buf_add(out, " ");
	out_padded(out, text, 0);
	buf_add(out, "\n");
}

/* A number that is not there, and why. */
static void missing(struct buf *out, const char *name, const struct failure *f)
{
	struct buf text = BUF_INIT;
	if (f->code == DEFIB_TIMEOUT)
		buf_add(&text, "not counted: it took longer than statement_timeout allows");
	else
		buf_addf(&text, "not counted: %s", f->what);
	line(out, name, buf_text(&text));
	buf_release(&text);
}

static void state_lines(const struct watch *w, const struct tally *t, struct buf *out)
{
	struct buf text = BUF_INIT;
	if (t->states_failed.code) {
		missing(out, "by state", &t->states_failed);
		return;
	}
	for (int i = 0; i < t->nstates; i++) {
		buf_add(&text, i ? ", " : "");
		state_words(w, t->states[i].name ? t->states[i].name : "null", &text);
		buf_add(&text, ": ");
		out_count(&text, t->states[i].n);
	}
	if (t->nstates)
		line(out, "by state", buf_text(&text));
	buf_release(&text);
}

static void stuck_lines(const struct tally *t, struct buf *out)
{
	struct buf text = BUF_INIT;
	int64_t all = t->stuck_total - t->held_running;
	if (t->stuck_failed.code) {
		missing(out, "stuck now", &t->stuck_failed);
		return;
	}
	out_count(&text, t->running);
	buf_add(&text, t->running_capped ? " or more" : "");
	line(out, "running", buf_text(&text));
	buf_clear(&text);
	out_count(&text, all > 0 ? all : 0);
	buf_add(&text, t->total_capped ? " or more" : "");
	int n = 0;
	for (int v = 0; v < VERDICT_COUNT; v++) {
		if (t->stuck[v] == 0)
			continue;
		buf_addf(&text, "%s%s: ", n++ ? ", " : " (", verdict_names[v]);
		out_count(&text, t->stuck[v]);
	}
	if (t->held_running) {
		buf_add(&text, "; ");
		out_count(&text, t->held_running);
		buf_add(&text, " of these on hold");
	}
	buf_add(&text, n ? ")" : "");
	line(out, "stuck now", buf_text(&text));
	buf_release(&text);
}

static void lately(struct buf *out, const char *name, const struct tally_event *e)
{
	struct buf text = BUF_INIT;
	out_count(&text, e->day);
	buf_add(&text, " in 24 hours, ");
	out_count(&text, e->week);
	buf_add(&text, " in 7 days");
	line(out, name, buf_text(&text));
	buf_release(&text);
}

static void mistake_line(const struct mistakes *m, struct buf *out)
{
	struct buf text = BUF_INIT;
	mistakes_words(m->day.mistakes, m->day.recoveries, &text);
	buf_add(&text, " in 24 hours, ");
	mistakes_words(m->week.mistakes, m->week.recoveries, &text);
	buf_add(&text, " in 7 days");
	line(out, "false positives", buf_text(&text));
	buf_release(&text);
}

static void ledger_rows(const struct tally *t, struct buf *out)
{
	struct buf text = BUF_INIT;
	if (t->ledger_failed.code) {
		missing(out, "ledger", &t->ledger_failed);
		return;
	}
	out_count(&text, t->held);
	line(out, "held", buf_text(&text));
	buf_clear(&text);
	out_count(&text, t->retries);
	line(out, "retries pending", buf_text(&text));
	lately(out, "recovered", &t->recovered);
	lately(out, "late completions", &t->late);
	mistake_line(&t->mistakes, out);
	for (int i = 0; i < t->nevents; i++)
		lately(out, t->events[i].name, &t->events[i]);
	buf_release(&text);
}

static void end_lines(const struct tally *t, struct buf *out)
{
	struct buf text = BUF_INIT;
	if (t->ends_failed.code) {
		missing(out, "durations", &t->ends_failed);
		return;
	}
	if (t->has_completed) {
		out_count(&text, t->completed);
		line(out, "completed", buf_text(&text));
	}
	buf_clear(&text);
	if (t->has_failed) {
		out_count(&text, t->failed);
		line(out, "failed", buf_text(&text));
	}
	buf_clear(&text);
	if (t->has_duration) {
		duration_text(t->average_us, &text);
		buf_add(&text, " on average, 95 % within ");
		duration_text(t->p95_us, &text);
		buf_add(&text, " (");
		out_count(&text, t->measured);
		buf_add(&text, " measured)");
		line(out, "duration", buf_text(&text));
	}
	buf_release(&text);
}

static void print_text(const struct counting *x, const struct selected *g, bool ledger,
                       const struct tally *t)
{
	struct buf out = BUF_INIT, title = BUF_INIT;
	buf_addf(&title, "%s/%s", g->database->name, g->watch->name);
	buf_add(&out, x->told ? "\n" : "");
	out_color(&out, x->cli->color_out, COLOR_BOLD, buf_text(&title));
	buf_add(&out, "\n");
	state_lines(g->watch, t, &out);
	stuck_lines(t, &out);
	end_lines(t, &out);
	if (ledger)
		ledger_rows(t, &out);
	else
		line(&out, "ledger", "there is none yet: nothing was recovered here");
	fputs(buf_text(&out), stdout);
	buf_release(&out);
	buf_release(&title);
}

/* ---- for programs */

static void print_json(const struct counting *x, const struct selected *g, bool ledger,
                       const struct tally *t)
{
	struct buf out = BUF_INIT;
	buf_add(&out, x->told ? ",\n" : "\n");
	tally_json(g->watch, g->database, ledger, t, &out);
	fputs(buf_text(&out), stdout);
	buf_release(&out);
}

/* ---- the whole */

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
	if (c->json)
		print_json(x, g, b->ledger.ready, &tally);
	else
		print_text(x, g, b->ledger.ready, &tally);
	x->told++;
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
	return x.told ? EXIT_PARTLY : x.code;
}
