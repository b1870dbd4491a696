/* SPDX-License-Identifier: Apache-2.0
 * cmd_report.c: numbers about watches.
 *
 * `defib stats`: current counts; one that takes too long is marked as such, and the others are
 * still printed.
 *
 * `defib tune learn`: how long runs take, by kind, with what that suggests for the thresholds; it
 * reads the runs that ended since the last time, stores the result, and changes nothing else.
 *
 * `defib report`: what happened, as text, Markdown, HTML or JSON; databases that are down are
 * named.
 *
 * `defib tune whatif`: what another threshold would have done, according to the ledger and the
 * rows' own times.
 */
#include "base/clock.h"
#include "cli/load.h"
#include "cli/select.h"
#include "insight/learn.h"
#include "insight/tally.h"
#include "insight/whatif.h"
#include "recover/mistakes.h"
#include "view/report.h"
#include "view/report_forms.h"
#include "view/stats.h"

typedef defib_err add_watch_fn(struct cli *c, const struct selected *g, struct buf *out,
                               struct failure *f);

static defib_err add_stats(struct cli *c, const struct selected *g, struct buf *out,
                           struct failure *f)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	const struct viewer v = viewer_local(g->watch, g->database->name);
	struct tally tally;
	defib_err err = selected_bind(c, g, b, f);
	if (!err)
		err = tally_watch(b->store, &b->sql, &b->ledger, TALLY_ALL, &c->arena, &tally, f);
	if (!err && c->json)
		record_json(&tally_record, &tally, &v, out);
	else if (!err)
		tally_text(g->watch, g->database, &tally, c->color_out, out);
	return err;
}

static defib_err add_learned(struct cli *c, const struct selected *g, struct buf *out,
                             struct failure *f)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	const struct viewer v = viewer_local(g->watch, g->database->name);
	struct learned learned = {0}, *l = learn_why_not(g->watch) ? NULL : &learned;
	defib_err err = selected_bind(c, g, b, f);
	if (!err && l)
		err =
			learn_observe(b->store, &b->binding, c->settings.ledger != LEDGER_OFF, &c->arena, l, f);
	if (!err && c->json)
		record_json(&learned_record, &(struct learned_view){l}, &v, out);
	else if (!err)
		learned_text(g->watch, g->database, l, c->color_out, out);
	return err;
}

/* Each watch is printed when it is ready; the exit code is that of the first failure. */
static int print_watches(struct cli *c, struct selection *selection, add_watch_fn *add)
{
	int printed = 0, code = EXIT_CLEAN;
	fputs(c->json ? "{\"watches\":[" : "", stdout);
	for (int i = 0; i < selection->n; i++) {
		struct failure f = {0};
		AUTO_BUF out = BUF_INIT;
		buf_add(&out, c->json && printed ? "," : "");
		buf_add(&out, c->json || printed ? "\n" : "");
		if (add(c, &selection->groups[i], &out, &f)) {
			int failed = cli_fail(&f);
			code = code == EXIT_CLEAN ? failed : code;
			continue;
		}
		printed++;
		out_print(&out);
	}
	fputs(c->json ? "\n]}\n" : "", stdout);
	selection_release(selection);
	return code != EXIT_CLEAN && printed ? EXIT_PARTLY : code;
}

static int cmd_stats(struct cli *c)
{
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	select_queues_too(c, &selection);
	return print_watches(c, &selection, add_stats);
}

COMMAND(stats, cmd_stats, "[WATCH…]", "count jobs by state, what is stuck and what was recovered",
        .watch_options = true,
        .examples = {{"defib stats", "every watch"},
                     {"defib stats pages --json", "one watch, as JSON"}});

static int cmd_learn(struct cli *c)
{
	struct selection selection;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < selection.nsessions; i++)
		selection.sessions[i].options.read_only = false; /* what was learnt is stored */
	return print_watches(c, &selection, add_learned);
}

COMMAND(learn, cmd_learn, "[WATCH…]", "show how long runs take, and which thresholds that suggests",
        .watch_options = true,
        .examples = {{"defib tune learn", "every watch that says when a run starts"},
                     {"defib tune learn pages --json", "one watch, as JSON"}});

#define WEEK_US (INT64_C(7) * 86400 * 1000000)

static const struct cli_option report_options[] = {
	{"since", "DURATION", "how far back, such as 24h, 7d or 30d (7d)"},
	{"format", "FORMAT", "text, markdown, html or json (text)"},
	{"output", "FILE", "write to this file instead of stdout, completely or not at all"},
	{"watch", "WATCH", "only this watch"},
	{NULL, NULL, NULL},
};

static bool report_read_form(const struct cli *c, enum report_form *form)
{
	const char *name = cli_value(c, "format");
	int at = name ? report_form_named(name) : (int)(c->json ? REPORT_JSON : REPORT_TEXT);
	if (at < 0) {
		cli_usage("--format: there is no format \"%s\"%s (text, markdown, html or json)", name,
		          text_hint(name, report_form_names).text);
		return false;
	}
	*form = (enum report_form)at;
	return true;
}

static bool report_read_period(const struct cli *c, struct period *p)
{
	int64_t since = WEEK_US;
	if (!cli_duration(c, "since", &since))
		return false;
	bool ok = report_period(since, clock_wall_us(), p);
	if (!ok)
		cli_usage("--since must be from 1m to 366d");
	return ok;
}

static int write_report(const struct cli *c, enum report_form form, const struct report *r)
{
	const char *path = cli_value(c, "output");
	AUTO_BUF text = BUF_INIT;
	int code = EXIT_CLEAN;
	report_render(form, r, &text);
	if (path)
		code = cli_write_file(path, &text);
	else
		fwrite(text.data, 1, text.len, stdout);
	return code;
}

/* Everything that is missing is also printed to stderr: the document may be for someone else. */
static int outcome(const struct report *r)
{
	int code = EXIT_CLEAN;
	for (int i = 0; i < r->nlost; i++)
		code = cli_fail(&r->lost[i].failure);
	for (int i = 0; i < r->nwatches; i++)
		if (r->watches[i].missing.code)
			code = cli_fail(&r->watches[i].missing);
	return code != EXIT_CLEAN && r->nwatches ? EXIT_PARTLY : code;
}

static int cmd_report(struct cli *c)
{
	AUTO(selection_release) struct selection selection = {0};
	struct report report;
	struct period period;
	enum report_form form;
	if (!report_read_form(c, &form) || !report_read_period(c, &period))
		return EXIT_USAGE;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	select_queues_too(c, &selection);
	struct report_source *sources = ARENA_ARRAY(&c->arena, struct report_source, selection.n + 1);
	for (int i = 0; i < selection.n; i++)
		sources[i] = (struct report_source){selection.groups[i].watch, selection.groups[i].database,
		                                    selection.groups[i].session};
	report_gather(sources, selection.n, &period, c->settings.ledger == LEDGER_OFF, &c->arena,
	              &report);
	code = write_report(c, form, &report);
	if (code == EXIT_CLEAN)
		code = outcome(&report);
	return code;
}

COMMAND(report, cmd_report, "[WATCH…]", "report recoveries by day, causes, false positives, advice",
        .options = report_options,
        .examples = {{"defib report --since 24h", "yesterday and today"},
                     {"defib report pages --since 30d --format html --output report.html",
                      "a page to send"}});

static const struct cli_option whatif_options[] = {
	{"stuck-after", "DURATION", "instead of the watch's stuck_after"},
	{"overdue-after", "DURATION", "instead of the watch's overdue_after"},
	{"since", "DURATION", "the period to evaluate; default 7d"},
	{NULL, NULL, NULL},
};

#define SINCE_US (INT64_C(7) * 86400 * US_PER_S)

/* One threshold in question. */
struct question {
	bool asked, overdue;
	const char *option;
	const struct threshold *today;
	int64_t then_us;
};

struct answer {
	const struct selected *group;
	const struct question *question;
	int64_t since_us;
	struct whatif_record record;
	struct whatif weighed;
	const char *advice;
};

/* ---- unknown values as text ---- */

static int unknowns(const struct answer *x, const char **out)
{
	const struct whatif_record *r = &x->record;
	int n = 0;
	if (!r->ledger)
		out[n++] = "there is no ledger: recoveries so far are not known";
	if (r->entries_more)
		out[n++] = "the ledger has more entries of that time than were read";
	if (!r->runs_known)
		out[n++] = "the watch does not say when runs begin and end (stats: {started_at, "
				   "finished_at}): the number of jobs of live workers that would have been "
				   "recovered is not known";
	else if (!r->runs_apply)
		out[n++] =
			"the length of silences that ended by themselves is not recorded: the number of jobs "
			"of live workers that would have been recovered is known from false positives only";
	else if (!x->question->overdue)
		out[n++] = "a run that writes its sign of life while it runs would not have been "
				   "recovered: the number of live ones is an upper bound";
	if (r->runs_more)
		out[n++] = "more runs ended in that time than were evaluated: the newest 100,000";
	return n;
}
#define UNKNOWNS_MAX 4

/* ---- for people ---- */

static void row(struct table *t, const char *what, const char *today, const char *then)
{
	table_cell(t, COLOR_NONE, what);
	table_cell(t, COLOR_NONE, today);
	table_cell(t, COLOR_NONE, then);
}

static void duration_row(struct table *t, const char *what, int64_t today, int64_t then)
{
	AUTO_BUF a = BUF_INIT, b = BUF_INIT;
	duration_text(today, &a);
	duration_text(then, &b);
	row(t, what, buf_text(&a), buf_text(&b));
}

static void count_row(struct table *t, const char *what, int64_t today, int64_t then)
{
	AUTO_BUF a = BUF_INIT, b = BUF_INIT;
	buf_add_count(&a, today);
	buf_add_count(&b, then);
	row(t, what, buf_text(&a), buf_text(&b));
}

static void wrong_row(struct table *t, const struct whatif *x)
{
	AUTO_BUF a = BUF_INIT, b = BUF_INIT;
	mistakes_text(x->today.wrongly, x->today.recovered, &a);
	mistakes_text(x->then.wrongly, x->then.recovered, &b);
	row(t, "of live workers", buf_text(&a), buf_text(&b));
}

static void report_add_today(const struct threshold *t, struct buf *out)
{
	if (!t->given)
		buf_add(out, "none");
	else if (!threshold_plain(t))
		buf_add(out, t->states.n || t->own.text ? "by row" : "by kind");
	else
		duration_text(t->standard_us, out);
}

static void report_print_text(const struct cli *c, const struct answer *x)
{
	const struct question *q = x->question;
	const struct whatif *w = &x->weighed;
	AUTO_BUF out = BUF_INIT, title = BUF_INIT;
	AUTO(table_release) struct table t = {0};
	buf_addf(&out, "%s/%s: %s ", x->group->database->name, x->group->watch->name, q->option);
	duration_text(q->then_us, &out);
	buf_add(&out, " instead of ");
	report_add_today(q->today, &out);
	buf_add(&out, ", over the last ");
	duration_text(x->since_us, &out);
	buf_add(&out, "\n");
	table_init(&t);
	table_column(&t, "");
	table_column(&t, "TODAY");
	duration_text(q->then_us, &title);
	table_column(&t, buf_text(&title));
	count_row(&t, "would be recovered", w->today.recovered, w->then.recovered);
	wrong_row(&t, w);
	if (w->today.noticed) {
		duration_row(&t, "lost jobs detected after", w->today.mean_us, w->then.mean_us);
		duration_row(&t, "at worst", w->today.worst_us, w->then.worst_us);
	}
	table_print(&t, c->color_out, &out);
	buf_addf(&out, "%s\n", x->advice);
	const char *not_known[UNKNOWNS_MAX];
	int n = unknowns(x, not_known);
	for (int i = 0; i < n; i++)
		buf_addf(&out, "not known: %s\n", not_known[i]);
	fputs(buf_text(&out), stdout);
}

/* ---- for programs ---- */

#define AT(member) FIELD_AT(struct whatif_side, member)
static bool side_mean(const void *row, int64_t *out)
{
	*out = ((const struct whatif_side *)row)->mean_us;
	return ((const struct whatif_side *)row)->noticed > 0;
}

static bool side_worst(const void *row, int64_t *out)
{
	*out = ((const struct whatif_side *)row)->worst_us;
	return ((const struct whatif_side *)row)->noticed > 0;
}

static const struct field side_fields[] = {
	{"recovered", FIELD_NUMBER, AT(recovered)},
	{"wrongly", FIELD_NUMBER, AT(wrongly)},
	{"noticed_mean_s", FIELD_SECONDS, .number = side_mean, .null = true},
	{"noticed_worst_s", FIELD_SECONDS, .number = side_worst, .null = true},
	{0},
};
#undef AT
static const struct record side_record = {.fields = side_fields};

#define ANSWER(row) ((const struct answer *)(row))

static const char *answer_option(const void *row)
{
	return ANSWER(row)->question->option;
}

static bool answer_threshold(const void *row, int64_t *out)
{
	*out = ANSWER(row)->question->then_us;
	return true;
}

static bool answer_today(const void *row, int64_t *out)
{
	const struct threshold *today = ANSWER(row)->question->today;
	*out = today->standard_us;
	return today->given && threshold_plain(today);
}

static bool answer_recoveries(const void *row, int64_t *out)
{
	*out = ANSWER(row)->record.nrecoveries;
	return ANSWER(row)->record.ledger;
}

static bool answer_runs(const void *row, int64_t *out)
{
	*out = ANSWER(row)->record.nruns;
	return ANSWER(row)->record.runs_apply;
}

static const char *answer_unknown(const void *row, int i)
{
	const char *all[UNKNOWNS_MAX];
	return i < unknowns(row, all) ? all[i] : NULL;
}

#define AT(member) FIELD_AT(struct answer, member)
static const struct field answer_fields[] = {
	{"watch", .words = field_watch},
	{"database", .words = field_database},
	{"option", .text = answer_option},
	{"threshold_s", FIELD_SECONDS, .number = answer_threshold},
	{"today_s", FIELD_SECONDS, .number = answer_today, .null = true},
	{"since_s", FIELD_SECONDS, AT(since_us)},
	{"recoveries", FIELD_NUMBER, .number = answer_recoveries, .null = true},
	{"runs", FIELD_NUMBER, .number = answer_runs, .null = true},
	{"today", FIELD_RECORD, AT(weighed.today), .of = &side_record},
	{"then", FIELD_RECORD, AT(weighed.then), .of = &side_record},
	{"suggestion_s", FIELD_SECONDS, AT(weighed.safe_us),
     FIELD_HAS(struct answer, weighed.has_safe)},
	{"advice", AT(advice)},
	{"not_known", FIELD_TEXTS, .item = answer_unknown},
	{0},
};
#undef AT
static const struct record answer_record = {.fields = answer_fields};

static void report_print_json(const struct answer *x, bool first)
{
	const struct viewer v = viewer_local(x->group->watch, x->group->database->name);
	struct buf out = BUF_INIT;
	buf_add(&out, first ? "\n" : ",\n");
	record_json(&answer_record, x, &v, &out);
	out_print(&out);
}

/* ---- the whole ---- */

static defib_err report_answer(struct cli *c, const struct selected_sql *b, struct answer *x,
                               struct failure *f)
{
	const struct question *q = x->question;
	const struct watch *w = x->group->watch;
	AUTO_BUF advice = BUF_INIT;
	defib_err err = whatif_read(b->store, &b->binding, b->ledger.ready, q->overdue, x->since_us,
	                            &c->arena, &x->record, f);
	if (err)
		return err;
	whatif_weigh(w, q->today, q->then_us, &x->record, &x->weighed);
	whatif_advice(w, q->overdue, q->then_us, &x->record, &x->weighed, &advice);
	x->advice = arena_strdup(&c->arena, buf_text(&advice));
	return DEFIB_OK;
}

static int answer_all(struct cli *c, const struct selected *g, struct question *questions,
                      int64_t since_us)
{
	struct selected_sql *b = ARENA_NEW(&c->arena, struct selected_sql);
	struct failure f = {0};
	bool first = true;
	defib_err err = selected_bind(c, g, b, &f);
	if (!err && c->json)
		fputs("{\"answers\":[", stdout);
	for (int i = 0; i < 2 && !err; i++) {
		struct answer x = {.group = g, .question = &questions[i], .since_us = since_us};
		if (!questions[i].asked)
			continue;
		err = report_answer(c, b, &x, &f);
		if (!err && c->json)
			report_print_json(&x, first);
		else if (!err)
			report_print_text(c, &x);
		first = false;
	}
	if (c->json && !first)
		fputs("\n]}\n", stdout);
	return err ? cli_fail(&f) : EXIT_CLEAN;
}

static int report_ask(struct cli *c, struct question *q)
{
	q->asked = cli_value(c, q->overdue ? "overdue-after" : "stuck-after") != NULL;
	if (!q->asked)
		return EXIT_CLEAN;
	return cli_duration(c, q->overdue ? "overdue-after" : "stuck-after", &q->then_us) ? EXIT_CLEAN
	                                                                                  : EXIT_USAGE;
}

static int cmd_whatif(struct cli *c)
{
	struct question questions[] = {{.option = "stuck_after"},
	                               {.option = "overdue_after", .overdue = true}};
	AUTO(selection_release) struct selection selection = {0};
	int64_t since_us = SINCE_US;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < 2 && code == EXIT_CLEAN; i++)
		code = report_ask(c, &questions[i]);
	if (code == EXIT_CLEAN && !cli_duration(c, "since", &since_us))
		code = EXIT_USAGE;
	if (code == EXIT_CLEAN && !questions[0].asked && !questions[1].asked)
		code = cli_usage("give --stuck-after or --overdue-after");
	if (code == EXIT_CLEAN && selection.n != 1)
		code = cli_usage("name one watch");
	if (code == EXIT_CLEAN) {
		questions[0].today = &selection.groups[0].watch->stuck_after;
		questions[1].today = &selection.groups[0].watch->overdue_after;
		code = answer_all(c, &selection.groups[0], questions, since_us);
	}
	return code;
}

COMMAND(whatif, cmd_whatif, "WATCH --stuck-after DURATION",
        "show what another threshold would have done", .options = whatif_options,
        .examples = {
			{"defib tune whatif pages --stuck-after 30m",
             "recoveries and false positives of the last week"},
			{"defib tune whatif pages --stuck-after 2h --since 30d", "of the last month"}});
