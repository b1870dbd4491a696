/* SPDX-License-Identifier: Apache-2.0 */
#include "view/stats.h"

#include "base/clock.h"
#include "recover/mistakes.h"
#include "view/job.h"

static void json_error(struct buf *out, const char *name, const struct failure *f)
{
	json_text(out, name, f->code ? f->what : NULL);
}

static void json_states(const struct watch *w, const struct tally *t, struct buf *out)
{
	buf_add(out, ",\"states\":[");
	for (int i = 0; i < t->nstates; i++) {
		buf_addf(out, "%s{\"n\":%lld", i ? "," : "", (long long)t->states[i].n);
		json_text(out, "state", t->states[i].name);
		json_text(out, "name", state_named(w, t->states[i].name));
		json_bool(out, "estimated", t->states[i].estimated);
		buf_add(out, "}");
	}
	buf_add(out, "]");
	json_error(out, "states_error", &t->states_failed);
}

static void json_waiting(const struct tally *t, struct buf *out)
{
	const struct waiting *w = &t->waiting;
	json_number(out, "waiting", w->known, w->n);
	json_bool(out, "waiting_capped", w->capped);
	json_seconds(out, "oldest_waiting_s", w->has_oldest, w->oldest_us);
	json_error(out, "waiting_error", &t->waiting_failed);
}

static void json_stuck(const struct tally *t, struct buf *out)
{
	json_number(out, "running", !t->stuck_failed.code, t->running);
	json_bool(out, "running_capped", t->running_capped);
	json_number(out, "stuck_total", !t->stuck_failed.code, t->stuck_total);
	json_bool(out, "stuck_total_capped", t->total_capped);
	buf_add(out, t->stuck_failed.code ? ",\"stuck\":null" : ",\"stuck\":{");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT && !t->stuck_failed.code; v++)
		buf_addf(out, "%s\"%s\":%lld", v > VERDICT_NONE + 1 ? "," : "", verdict_names[v],
		         (long long)t->stuck[v]);
	buf_add(out, t->stuck_failed.code ? "" : "}");
	json_bool(out, "stuck_capped", t->stuck_capped);
	json_error(out, "stuck_error", &t->stuck_failed);
}

void mistakes_json(const struct mistakes *m, struct buf *out)
{
	buf_addf(out,
	         ",\"false_positives\":{\"day\":%lld,\"day_recovered\":%lld,\"week\":%lld,"
	         "\"week_recovered\":%lld}",
	         (long long)m->day.mistakes, (long long)m->day.recoveries, (long long)m->week.mistakes,
	         (long long)m->week.recoveries);
}

/* Ledger entries of the last day and week; null if they are not available. */
static void json_lately(struct buf *out, const char *name, bool known, const struct tally_event *e)
{
	if (known)
		buf_addf(out, ",\"%s\":{\"day\":%lld,\"week\":%lld}", name, (long long)e->day,
		         (long long)e->week);
	else
		buf_addf(out, ",\"%s\":null", name);
}

static void json_ledger(const struct tally *t, bool ledger, struct buf *out)
{
	bool there = ledger && !t->ledger_failed.code;
	json_number(out, "held", there, t->held);
	json_number(out, "held_running", there, t->held_running);
	json_number(out, "retries", there, t->retries);
	json_lately(out, "detected", there, &t->detected);
	json_lately(out, "recovered", there, &t->recovered);
	json_lately(out, "recovered_by_hand", there, &t->recovered_by_hand);
	json_lately(out, "put_on_hold", there, &t->put_on_hold);
	json_lately(out, "rolled_back", there, &t->rolled_back);
	json_lately(out, "late", there, &t->late);
	mistakes_json(&t->mistakes, out);
	buf_add(out, ",\"events\":{");
	for (int i = 0; i < t->nevents; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, t->events[i].name);
		buf_addf(out, ":{\"day\":%lld,\"week\":%lld}", (long long)t->events[i].day,
		         (long long)t->events[i].week);
	}
	buf_add(out, "}");
	json_error(out, "ledger_error", &t->ledger_failed);
}

void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	json_bool(out, "estimated", t->estimated);
	json_states(w, t, out);
	json_waiting(t, out);
	json_stuck(t, out);
	json_number(out, "completed", t->has_completed, t->completed);
	json_number(out, "failed", t->has_failed, t->failed);
	json_number(out, "measured", t->has_duration, t->measured);
	json_seconds(out, "average_s", t->has_duration, t->average_us);
	json_seconds(out, "p95_s", t->has_duration, t->p95_us);
	json_error(out, "ends_error", &t->ends_failed);
	json_ledger(t, ledger, out);
	buf_add(out, "}");
}

static void line(struct buf *out, const char *name, const char *text)
{
	out_line(out, name, 17, text);
}

static void count_line(struct buf *out, const char *name, bool has, int64_t n)
{
	AUTO_BUF text = BUF_INIT;
	buf_add_count(&text, n);
	if (has)
		line(out, name, buf_text(&text));
}

/* A number that is not available, and why. */
static void missing(struct buf *out, const char *name, const struct failure *f)
{
	AUTO_BUF text = BUF_INIT;
	if (f->code == DEFIB_TIMEOUT)
		buf_add(&text, "not counted: it took longer than statement_timeout allows");
	else
		buf_addf(&text, "not counted: %s", f->what);
	line(out, name, buf_text(&text));
}

static void state_lines(const struct watch *w, const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->states_failed.code) {
		missing(out, "by state", &t->states_failed);
		return;
	}
	for (int i = 0; i < t->nstates; i++) {
		buf_add(&text, i ? ", " : "");
		state_words(w, t->states[i].name ? t->states[i].name : "null", &text);
		buf_add(&text, ": ");
		buf_add_count(&text, t->states[i].n);
	}
	if (t->nstates)
		line(out, "by state", buf_text(&text));
}

static void waiting_line(const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->waiting_failed.code)
		missing(out, "waiting", &t->waiting_failed);
	if (!t->waiting.known)
		return;
	buf_add_count(&text, t->waiting.n);
	buf_add(&text, t->waiting.capped ? " or more" : "");
	if (t->waiting.has_oldest && t->waiting.n) {
		buf_add(&text, ", the oldest for ");
		duration_text(t->waiting.oldest_us, &text);
	}
	line(out, "waiting", buf_text(&text));
}

static void stuck_lines(const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	int64_t all = t->stuck_total - t->held_running;
	if (t->stuck_failed.code) {
		missing(out, "stuck now", &t->stuck_failed);
		return;
	}
	buf_add_count(&text, t->running);
	buf_add(&text, t->running_capped ? " or more" : "");
	line(out, "running", buf_text(&text));
	buf_clear(&text);
	buf_add_count(&text, all > 0 ? all : 0);
	buf_add(&text, t->total_capped ? " or more" : "");
	int n = 0;
	for (int v = 0; v < VERDICT_COUNT; v++) {
		if (t->stuck[v] == 0)
			continue;
		buf_addf(&text, "%s%s: ", n++ ? ", " : " (", verdict_names[v]);
		buf_add_count(&text, t->stuck[v]);
	}
	if (t->held_running) {
		buf_add(&text, "; ");
		buf_add_count(&text, t->held_running);
		buf_add(&text, " of these on hold");
	}
	buf_add(&text, n ? ")" : "");
	line(out, "stuck now", buf_text(&text));
}

static void lately(struct buf *out, const char *name, const struct tally_event *e)
{
	AUTO_BUF text = BUF_INIT;
	buf_add_count(&text, e->day);
	buf_add(&text, " in 24 hours, ");
	buf_add_count(&text, e->week);
	buf_add(&text, " in 7 days");
	line(out, name, buf_text(&text));
}

static void mistake_line(const struct mistakes *m, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	mistakes_text(m->day.mistakes, m->day.recoveries, &text);
	buf_add(&text, " in 24 hours, ");
	mistakes_text(m->week.mistakes, m->week.recoveries, &text);
	buf_add(&text, " in 7 days");
	line(out, "false positives", buf_text(&text));
}

static void ledger_rows(const struct tally *t, struct buf *out)
{
	if (t->ledger_failed.code) {
		missing(out, "ledger", &t->ledger_failed);
		return;
	}
	count_line(out, "held", true, t->held);
	count_line(out, "retries pending", true, t->retries);
	lately(out, "recovered", &t->recovered);
	lately(out, "late completions", &t->late);
	mistake_line(&t->mistakes, out);
	for (int i = 0; i < t->nevents; i++)
		lately(out, t->events[i].name, &t->events[i]);
}

static void end_lines(const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->ends_failed.code) {
		missing(out, "durations", &t->ends_failed);
		return;
	}
	count_line(out, "completed", t->has_completed, t->completed);
	count_line(out, "failed", t->has_failed, t->failed);
	if (t->has_duration) {
		duration_text(t->average_us, &text);
		buf_add(&text, " on average, 95 % within ");
		duration_text(t->p95_us, &text);
		buf_add(&text, " (");
		buf_add_count(&text, t->measured);
		buf_add(&text, " measured)");
		line(out, "duration", buf_text(&text));
	}
}

void tally_text(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                bool color, struct buf *out)
{
	out_title(out, color, d->name, w->name);
	buf_add(out, "\n");
	state_lines(w, t, out);
	waiting_line(t, out);
	stuck_lines(t, out);
	end_lines(t, out);
	if (ledger)
		ledger_rows(t, out);
	else
		line(out, "ledger", "none yet: nothing was recovered");
}

/* ---- run times ---- */

const char *learn_why_not(const struct watch *w)
{
	if (w->learn == LEARN_OFF)
		return "learning is off (learn: off)";
	if (!runs_known(w))
		return "run times are not known: set stats: {started_at: …, finished_at: …}";
	return NULL;
}

/* The kind, or the watch where it has none. */
static const char *learned_name(const struct watch *w, const struct learned_kind *k)
{
	return *k->kind ? k->kind : w->name;
}

static void json_kind(const struct watch *w, const struct learned_kind *k, bool first,
                      struct buf *out)
{
	AUTO_BUF sentence = BUF_INIT;
	struct suggestion s;
	suggest(w, k->kind, &k->times, &s);
	suggestion_sentence(&s, learned_name(w, k), &sentence);
	buf_addf(out, "%s\n{\"runs\":%.0f", first ? "" : ",", s.n);
	json_text(out, "kind", *k->kind ? k->kind : NULL);
	json_seconds(out, "p50_s", true, s.p50_us);
	json_seconds(out, "p95_s", true, s.p95_us);
	json_seconds(out, "p99_s", true, s.p99_us);
	json_seconds(out, "longest_s", true, s.longest_us);
	json_text(out, "option", s.option);
	json_seconds(out, "today_s", s.has_today, s.today_us);
	buf_addf(out, ",\"over_today\":%.6f", s.over_today);
	json_seconds(out, "suggestion_s", s.has_us, s.us);
	json_text(out, "sentence", buf_text(&sentence));
	buf_add(out, "}");
}

void learned_json(const struct watch *w, const struct database *d, const struct learned *l,
                  struct buf *out)
{
	bool first = true;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	json_text(out, "not_learnt", learn_why_not(w));
	json_number(out, "observed", l != NULL, l ? l->observed : 0);
	buf_addf(out, ",\"sampled\":%s,\"kept\":%s,\"kinds\":[", l && l->sampled ? "true" : "false",
	         l && l->kept ? "true" : "false");
	for (int i = 0; l && i < l->n; i++)
		if (run_times_n(&l->kinds[i].times) > 0) {
			json_kind(w, &l->kinds[i], first, out);
			first = false;
		}
	buf_add(out, "]}");
}

static void duration_cell(struct table *t, bool has, int64_t us)
{
	AUTO_BUF text = BUF_INIT;
	if (has)
		duration_text(us, &text);
	table_cell(t, COLOR_NONE, buf_text(&text));
}

static void kind_row(struct table *t, const struct watch *w, const struct learned_kind *k,
                     const struct suggestion *s)
{
	AUTO_BUF n = BUF_INIT;
	buf_add_count(&n, (int64_t)(s->n + 0.5));
	table_cell(t, COLOR_NONE, learned_name(w, k));
	table_cell(t, COLOR_NONE, buf_text(&n));
	duration_cell(t, true, s->p50_us);
	duration_cell(t, true, s->p95_us);
	duration_cell(t, true, s->p99_us);
	duration_cell(t, true, s->longest_us);
	duration_cell(t, s->has_today, s->today_us);
	duration_cell(t, s->has_us, s->us);
}

static void print_kinds(const struct watch *w, const struct learned *l, bool color, struct buf *out)
{
	AUTO_BUF sentences = BUF_INIT;
	struct table t;
	table_init(&t);
	table_columns(&t, "KIND RUNS P50 P95 P99 LONGEST TODAY SUGGESTED");
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
		table_print(&t, color, out);
	else
		buf_add(out, "no run has finished yet\n");
	buf_add(out, buf_text(&sentences));
	table_release(&t);
}

void learned_text(const struct watch *w, const struct database *d, const struct learned *l,
                  bool color, struct buf *out)
{
	out_title(out, color, d->name, w->name);
	buf_add(out, "\n");
	if (l)
		print_kinds(w, l, color, out);
	else
		buf_addf(out, "%s\n", learn_why_not(w));
	if (l && l->sampled)
		buf_addf(out, "more runs ended than were read; this is a sample of the newest %d\n",
		         LEARN_ROWS);
	if (l && l->not_kept.code)
		buf_addf(out, "not stored: %s\n", l->not_kept.what);
}

/* ---- numbers over time ---- */

/* Whether anybody looked during a step, or something was recorded for it. */
static bool is_known(const struct series_point *p)
{
	return p->waiting != SERIES_UNKNOWN || p->running != SERIES_UNKNOWN ||
	       p->done != SERIES_UNKNOWN || series_recovered(p) > 0 || series_detection(p, 1) >= 0;
}

static void add_value(struct buf *out, bool first, bool known, double value)
{
	buf_add(out, first ? "" : ",");
	if (known)
		buf_addf(out, "%.10g", value);
	else
		buf_add(out, "null");
}

/* The value of a point in one list of the document; below 0: none. */
typedef double value_of(const struct series_point *p, int which);

static void add_list(struct buf *out, const char *name, const struct series *s, value_of *value,
                     int which)
{
	buf_addf(out, "\"%s\":[", name);
	for (int i = 0; i < s->about->steps; i++) {
		double v = value(&s->points[i], which);
		add_value(out, i == 0, v >= 0, v);
	}
	buf_add(out, "]");
}

static double waiting_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->waiting;
}

static double oldest_of(const struct series_point *p, int which)
{
	(void)which;
	return p->oldest_ms == SERIES_UNKNOWN ? SERIES_UNKNOWN : (double)p->oldest_ms / 1e3;
}

static double running_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->running;
}

static double done_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->done;
}

static double failed_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->failed;
}

static double recovered_of(const struct series_point *p, int verdict)
{
	return is_known(p) ? (double)p->recovered[verdict] : SERIES_UNKNOWN;
}

static double detection_of(const struct series_point *p, int percent)
{
	return series_detection(p, percent / 100.0);
}

static const struct {
	const char *name;
	value_of *value;
	int which;
} lists[] = {
	{"waiting", waiting_of, 0},
	{"oldest_s", oldest_of, 0},
	{"running", running_of, 0},
	{"done", done_of, 0},
	{"failed", failed_of, 0},
	{"detection_p50_s", detection_of, 50},
	{"detection_p95_s", detection_of, 95},
};
#define NLISTS (int)(sizeof lists / sizeof *lists)

/* Of the whole range: counts, and how long detection took in all of it. */
static void add_totals(const struct series *s, struct buf *out)
{
	struct series_point all = series_none;
	for (int i = 0; i < s->about->steps; i++)
		series_add(&all, &s->points[i]);
	json_number(out, "done", all.done != SERIES_UNKNOWN, all.done);
	json_number(out, "failed", all.failed != SERIES_UNKNOWN, all.failed);
	json_number(out, "recovered", true, series_recovered(&all));
	for (int percent = 50; percent <= 95; percent += 45) {
		double v = series_detection(&all, percent / 100.0);
		buf_addf(out, ",\"detection_p%d_s\":", percent);
		add_value(out, true, v >= 0, v);
	}
}

void series_view(const char *database, const char *watch, const struct series *s, struct buf *out)
{
	int64_t to_s = s->from_s + s->about->steps * s->about->step_s;
	buf_add(out, "{\"database\":");
	buf_add_json(out, database);
	json_text(out, "watch", watch);
	json_text(out, "since", s->about->name);
	json_time(out, "from", true, s->from_s * US_PER_S);
	json_time(out, "to", true, to_s * US_PER_S);
	buf_addf(out, ",\"step_s\":%lld", (long long)s->about->step_s);
	for (int i = 0; i < NLISTS; i++) {
		buf_add(out, ",\n");
		add_list(out, lists[i].name, s, lists[i].value, lists[i].which);
	}
	buf_add(out, ",\n\"recovered\":{");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++) {
		buf_add(out, v > VERDICT_NONE + 1 ? ",\n" : "");
		add_list(out, verdict_names[v], s, recovered_of, v);
	}
	buf_add(out, "},\n\"totals\":{\"step_s\":");
	buf_addf(out, "%lld", (long long)(to_s - s->from_s));
	add_totals(s, out);
	buf_add(out, "}}\n");
}
