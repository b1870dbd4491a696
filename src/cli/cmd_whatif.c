/* SPDX-License-Identifier: Apache-2.0
 * cmd_whatif.c: `defib whatif WATCH --stuck-after 20s`: what another threshold
 * would have done over the last days, by the ledger and the rows' own times.
 * Reads only.
 */
#include "cli/select.h"
#include "view/output.h"

#include "base/clock.h"
#include "insight/whatif.h"
#include "recover/late.h"

const struct cli_option whatif_options[] = {
	{"stuck-after", "DURATION", "instead of the watch's stuck_after"},
	{"overdue-after", "DURATION", "instead of the watch's overdue_after"},
	{"since", "DURATION", "the period to evaluate; default 7d"},
	{NULL, NULL, NULL},
};

#define SINCE_US (INT64_C(7) * 86400 * US_PER_S)

/* One threshold that was asked about. */
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

/* ---- what is not known, in words ---- */

static int unknowns(const struct answer *x, const char **out)
{
	const struct whatif_record *r = &x->record;
	int n = 0;
	if (!r->ledger)
		out[n++] = "there is no ledger: recoveries so far are not known";
	if (r->entries_more)
		out[n++] = "the ledger has more entries of that time than were read";
	if (!r->runs_known)
		out[n++] =
			"the watch does not say when runs begin and end (stats: {started_at, "
			"finished_at}): how many jobs of live workers would have been recovered is not known";
	else if (!r->runs_apply)
		out[n++] = "the length of silences that ended by themselves is not recorded: how many jobs "
				   "of live workers would have been recovered is known from false positives only";
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
	struct buf a = BUF_INIT, b = BUF_INIT;
	duration_text(today, &a);
	duration_text(then, &b);
	row(t, what, buf_text(&a), buf_text(&b));
	buf_release(&a);
	buf_release(&b);
}

static void count_row(struct table *t, const char *what, int64_t today, int64_t then)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	out_count(&a, today);
	out_count(&b, then);
	row(t, what, buf_text(&a), buf_text(&b));
	buf_release(&a);
	buf_release(&b);
}

static void wrong_row(struct table *t, const struct whatif *x)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	mistakes_words(x->today.wrongly, x->today.recovered, &a);
	mistakes_words(x->then.wrongly, x->then.recovered, &b);
	row(t, "of these alive", buf_text(&a), buf_text(&b));
	buf_release(&a);
	buf_release(&b);
}

static void add_today(const struct threshold *t, struct buf *out)
{
	if (!t->given)
		buf_add(out, "none");
	else if (t->n)
		buf_add(out, "by kind");
	else
		duration_text(t->standard_us, out);
}

static void print_text(const struct cli *c, const struct answer *x)
{
	const struct question *q = x->question;
	const struct whatif *w = &x->weighed;
	struct buf out = BUF_INIT, title = BUF_INIT;
	struct table t;
	buf_addf(&out, "%s/%s: %s ", x->group->database->name, x->group->watch->name, q->option);
	duration_text(q->then_us, &out);
	buf_add(&out, " instead of ");
	add_today(q->today, &out);
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
		duration_row(&t, "lost jobs noticed after", w->today.mean_us, w->then.mean_us);
		duration_row(&t, "at worst", w->today.worst_us, w->then.worst_us);
	}
	table_print(&t, c->color_out, &out);
	buf_addf(&out, "%s\n", x->advice);
	const char *not_known[UNKNOWNS_MAX];
	int n = unknowns(x, not_known);
	for (int i = 0; i < n; i++)
		buf_addf(&out, "not known: %s\n", not_known[i]);
	fputs(buf_text(&out), stdout);
	table_release(&t);
	buf_release(&out);
	buf_release(&title);
}

/* ---- for programs ---- */

static void json_side(struct buf *out, const char *name, const struct whatif_side *s)
{
	buf_addf(out, ",\"%s\":{\"recovered\":%lld", name, (long long)s->recovered);
	json_number(out, "wrongly", true, s->wrongly);
	json_seconds(out, "noticed_mean_s", s->noticed > 0, s->mean_us);
	json_seconds(out, "noticed_worst_s", s->noticed > 0, s->worst_us);
	buf_add(out, "}");
}

static void print_json(const struct answer *x, bool first)
{
	const struct question *q = x->question;
	const char *not_known[UNKNOWNS_MAX];
	struct buf out = BUF_INIT;
	buf_addf(&out, "%s\n{\"watch\":", first ? "" : ",");
	buf_add_json(&out, x->group->watch->name);
	json_text(&out, "database", x->group->database->name);
	json_text(&out, "option", q->option);
	json_seconds(&out, "threshold_s", true, q->then_us);
	json_seconds(&out, "today_s", q->today->given && q->today->n == 0, q->today->standard_us);
	json_seconds(&out, "since_s", true, x->since_us);
	json_number(&out, "recoveries", x->record.ledger, x->record.nrecoveries);
	json_number(&out, "runs", x->record.runs_apply, x->record.nruns);
	json_side(&out, "today", &x->weighed.today);
	json_side(&out, "then", &x->weighed.then);
	json_seconds(&out, "suggestion_s", x->weighed.has_safe, x->weighed.safe_us);
	json_text(&out, "advice", x->advice);
	buf_add(&out, ",\"not_known\":[");
	int n = unknowns(x, not_known);
	for (int i = 0; i < n; i++) {
		buf_add(&out, i ? "," : "");
		buf_add_json(&out, not_known[i]);
	}
	buf_add(&out, "]}");
	out_print(&out);
}

/* ---- the whole ---- */

static defib_err answer(struct cli *c, const struct selected_sql *b, struct answer *x,
                        struct failure *f)
{
	const struct question *q = x->question;
	const struct watch *w = x->group->watch;
	struct buf advice = BUF_INIT;
	defib_err err = whatif_read(b->store, &b->binding, b->ledger.ready, q->overdue, x->since_us,
	                            &c->arena, &x->record, f);
	if (err)
		return err;
	whatif_weigh(w, q->today, q->then_us, &x->record, &x->weighed);
	whatif_advice(w, q->overdue, q->then_us, &x->record, &x->weighed, &advice);
	x->advice = arena_strdup(&c->arena, buf_text(&advice));
	buf_release(&advice);
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
		err = answer(c, b, &x, &f);
		if (!err && c->json)
			print_json(&x, first);
		else if (!err)
			print_text(c, &x);
		first = false;
	}
	if (c->json && !first)
		fputs("\n]}\n", stdout);
	return err ? cli_fail(&f) : EXIT_CLEAN;
}

static int ask(struct cli *c, struct question *q)
{
	q->asked = cli_value(c, q->overdue ? "overdue-after" : "stuck-after") != NULL;
	if (!q->asked)
		return EXIT_CLEAN;
	return cli_duration(c, q->overdue ? "overdue-after" : "stuck-after", &q->then_us) ? EXIT_CLEAN
	                                                                                  : EXIT_USAGE;
}

int cmd_whatif(struct cli *c)
{
	struct question questions[] = {{.option = "stuck_after"},
	                               {.option = "overdue_after", .overdue = true}};
	struct selection selection;
	int64_t since_us = SINCE_US;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	for (int i = 0; i < 2 && code == EXIT_CLEAN; i++)
		code = ask(c, &questions[i]);
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
	selection_release(&selection);
	return code;
}
