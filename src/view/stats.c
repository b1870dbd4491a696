/* SPDX-License-Identifier: Apache-2.0 */
#include "view/stats.h"

#include "base/clock.h"
#include "recover/mistakes.h"
#include "view/job.h"

/* ---- its fields ---- */

static bool count_state_name(const void *row, const struct viewer *v, struct buf *out)
{
	const char *name = state_named(v->watch, ((const struct tally_count *)row)->name);
	buf_add(out, name ? name : "");
	return name != NULL;
}

static const struct field count_fields[] = {
	{"n", FIELD_NUMBER, FIELD_AT(struct tally_count, n)},
	{"state", FIELD_AT(struct tally_count, name), .null = true, .about = "as it is stored"},
	{"name", .words = count_state_name, .null = true, .about = "from `states:` of the watch"},
	{"estimated", FIELD_BOOL, FIELD_AT(struct tally_count, estimated),
     .about = "counted in a sample"},
	{0},
};
static const struct record count_record = {.fields = count_fields,
                                           .size = sizeof(struct tally_count)};

static const struct field lately_fields[] = {
	{"day", FIELD_NUMBER, FIELD_AT(struct tally_event, day), .about = "in the last 24 hours"},
	{"week", FIELD_NUMBER, FIELD_AT(struct tally_event, week), .about = "in the last 7 days"},
	{0},
};
static const struct record lately_record = {.fields = lately_fields,
                                            .size = sizeof(struct tally_event)};

#define AT(member) FIELD_AT(struct mistakes, member)
static const struct field mistakes_fields[] = {
	{"day", FIELD_NUMBER, AT(day.mistakes), .about = "recoveries whose worker was alive"},
	{"day_recovered", FIELD_NUMBER, AT(day.recoveries), .about = "all recoveries"},
	{"week", FIELD_NUMBER, AT(week.mistakes)},
	{"week_recovered", FIELD_NUMBER, AT(week.recoveries)},
	{0},
};
#undef AT

const struct record mistakes_record = {.fields = mistakes_fields, .size = sizeof(struct mistakes)};

static void events_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct tally *t = row;
	buf_add(out, "{");
	for (int i = 0; i < t->nevents; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, t->events[i].name);
		buf_add(out, ":");
		record_json(&lately_record, &t->events[i], v, out);
	}
	buf_add(out, "}");
}

#define AT(member) FIELD_AT(struct tally, member)
#define HAS(member) FIELD_HAS(struct tally, member)
#define UNLESS(member) FIELD_UNLESS(struct tally, member)
#define IF_LEDGER HAS(ledger), UNLESS(ledger_failed)
#define LATELY(name, member, text)                                                                 \
	{                                                                                              \
		name, FIELD_RECORD, AT(member), IF_LEDGER, .of = &lately_record, .about = (text)           \
	}
static const struct field states_fields[] = {
	{"states", FIELD_LIST, AT(states), FIELD_N(struct tally, nstates), .of = &count_record},
	{"states_error", FIELD_FAILURE, AT(states_failed)},
	{0},
};
static const struct record states_record = {.fields = states_fields, .size = sizeof(struct tally)};

static const struct field ends_fields[] = {
	{"completed", FIELD_NUMBER, AT(completed), HAS(has_completed)},
	{"failed", FIELD_NUMBER, AT(failed), HAS(has_failed)},
	{"measured", FIELD_NUMBER, AT(measured), HAS(has_duration),
     .about = "jobs whose time is known"},
	{"average_s", FIELD_SECONDS, AT(average_us), HAS(has_duration)},
	{"p95_s", FIELD_SECONDS, AT(p95_us), HAS(has_duration)},
	{"ends_error", FIELD_FAILURE, AT(ends_failed)},
	{0},
};
static const struct record ends_record = {.fields = ends_fields, .size = sizeof(struct tally)};

/* In brief, these are not counted. */
static const void *tally_whole(const void *row, int i)
{
	(void)i;
	return ((const struct tally *)row)->how == TALLY_BRIEF ? NULL : row;
}

static const struct field tally_fields[] = {
	{"watch", .words = field_watch},
	{"database", .words = field_database},
	{"estimated", FIELD_BOOL, AT(estimated),
     .about = "the table is large: states, completed, failed and durations are estimated from a "
              "sample of it; of the built-in queue only what is done is"},
	{.type = FIELD_MEMBERS, .of = &states_record, .part = tally_whole, .optional = true},
	{"waiting", FIELD_NUMBER, AT(waiting.n), HAS(waiting.known),
     .about = "jobs that wait for a worker; null: the watch does not say which (stats.ready), or "
              "not known"},
	{"waiting_capped", FIELD_BOOL, AT(waiting.capped), .about = "the count is a lower bound"},
	{"oldest_waiting_s", FIELD_SECONDS, AT(waiting.oldest_us), HAS(waiting.has_oldest),
     .about = "age of the oldest of them"},
	{"waiting_error", FIELD_FAILURE, AT(waiting_failed)},
	{"running", FIELD_NUMBER, AT(running), UNLESS(stuck_failed)},
	{"running_capped", FIELD_BOOL, AT(running_capped), .about = "the count is a lower bound"},
	{"stuck_total", FIELD_NUMBER, AT(stuck_total), UNLESS(stuck_failed),
     .about = "jobs that are stuck, those on hold included (held_running); null: not known"},
	{"stuck_total_capped", FIELD_BOOL, AT(total_capped), .about = "the count is a lower bound"},
	{"stuck", FIELD_COUNTS, AT(stuck), UNLESS(stuck_failed), .names = verdict_names,
     .first = VERDICT_NONE + 1, .n = VERDICT_RUNNING_COUNT, .about = "by verdict"},
	{"stuck_capped", FIELD_BOOL, AT(stuck_capped),
     .about = "by verdict: not all stuck jobs were judged"},
	{"stuck_error", FIELD_FAILURE, AT(stuck_failed)},
	{.type = FIELD_MEMBERS, .of = &ends_record, .part = tally_whole, .optional = true},
	{"held", FIELD_NUMBER, AT(held), IF_LEDGER},
	{"held_running", FIELD_NUMBER, AT(held_running), IF_LEDGER},
	{"excused", FIELD_NUMBER, AT(excused), IF_LEDGER, .about = "not among the stuck"},
	{"retries", FIELD_NUMBER, AT(retries), IF_LEDGER, .about = "pending"},
	LATELY("detected", detected,
           "found stuck by automation in the last day and week; null: not known"),
	LATELY("recovered", recovered,
           "by automation or by an operator; docs/ledger.md lists the entries that count"),
	LATELY("recovered_by_hand", recovered_by_hand, "of these: by an operator"),
	LATELY("put_on_hold", put_on_hold, NULL),
	LATELY("rolled_back", rolled_back, NULL),
	LATELY("late", late, "results of workers that had lost the job"),
	{"false_positives", FIELD_RECORD, AT(mistakes), .of = &mistakes_record},
	{"events", FIELD_JSON, .json = events_json, .about = "by name: entries of each event",
     .schema = "{type: object, additionalProperties: {type: object, properties: {day: {type: "
               "integer}, week: {type: integer}}}}"},
	{"ledger_error", FIELD_FAILURE, AT(ledger_failed)},
	{0},
};
#undef AT
#undef HAS
#undef UNLESS

const struct record tally_record = {
	.name = "Stats",
	.about = "the numbers of a watch",
	.fields = tally_fields,
	.size = sizeof(struct tally),
};

static void line(struct buf *out, const char *name, const char *text)
{
	out_line(out, name, 17, text);
}

static void stats_count_line(struct buf *out, const char *name, bool has, int64_t n)
{
	AUTO_BUF text = BUF_INIT;
	buf_add_count(&text, n);
	if (has)
		line(out, name, buf_text(&text));
}

void not_counted_words(const struct failure *f, struct buf *out)
{
	if (f->code == DEFIB_TIMEOUT)
		buf_add(out, "not counted: it took longer than statement_timeout allows");
	else
		buf_addf(out, "not counted: %s", f->what);
}

/* A number that is not available, and why. */
static void stats_missing(struct buf *out, const char *name, const struct failure *f)
{
	AUTO_BUF text = BUF_INIT;
	not_counted_words(f, &text);
	line(out, name, buf_text(&text));
}

static void state_lines(const struct watch *w, const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->states_failed.code) {
		stats_missing(out, "by state", &t->states_failed);
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

/* "812, the oldest for 5m"; `noun` follows the count. */
static void waiting_words(const struct waiting *w, const char *noun, struct buf *out)
{
	buf_add_count(out, w->n);
	buf_addf(out, "%s%s", w->capped ? " or more" : "", noun);
	if (w->has_oldest && w->n) {
		buf_add(out, ", the oldest for ");
		duration_text(w->oldest_us, out);
	}
}

static void stats_waiting_line(const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->waiting_failed.code)
		stats_missing(out, "waiting", &t->waiting_failed);
	if (!t->waiting.known)
		return;
	waiting_words(&t->waiting, "", &text);
	line(out, "waiting", buf_text(&text));
}

/* Stuck jobs that automation may touch. */
static int64_t stats_not_held(const struct tally *t)
{
	int64_t all = t->stuck_total - t->held_running;
	return all > 0 ? all : 0;
}

static void stuck_lines(const struct tally *t, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	if (t->stuck_failed.code) {
		stats_missing(out, "stuck now", &t->stuck_failed);
		return;
	}
	buf_add_count(&text, t->running);
	buf_add(&text, t->running_capped ? " or more" : "");
	line(out, "running", buf_text(&text));
	buf_clear(&text);
	buf_add_count(&text, stats_not_held(t));
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
		stats_missing(out, "ledger", &t->ledger_failed);
		return;
	}
	stats_count_line(out, "held", true, t->held);
	if (t->excused)
		stats_count_line(out, "excused", true, t->excused);
	stats_count_line(out, "retries pending", true, t->retries);
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
		stats_missing(out, "durations", &t->ends_failed);
		return;
	}
	stats_count_line(out, "completed", t->has_completed, t->completed);
	stats_count_line(out, "failed", t->has_failed, t->failed);
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

void tally_lines(const struct watch *w, const struct tally *t, struct buf *out)
{
	state_lines(w, t, out);
	stats_waiting_line(t, out);
	stuck_lines(t, out);
	end_lines(t, out);
	if (t->ledger)
		ledger_rows(t, out);
	else
		line(out, "ledger", "none yet: nothing was recovered");
}

void tally_text(const struct watch *w, const struct database *d, const struct tally *t, bool color,
                struct buf *out)
{
	out_title(out, color, d->name, w->name);
	buf_add(out, "\n");
	tally_lines(w, t, out);
}

void tally_words(const struct tally *t, struct buf *out)
{
	if (t->stuck_failed.code) {
		not_counted_words(&t->stuck_failed, out);
		return;
	}
	buf_add_count(out, t->running);
	buf_add(out, t->running_capped ? " or more running, " : " running, ");
	buf_add_count(out, stats_not_held(t));
	buf_add(out, t->total_capped ? " or more stuck" : " stuck");
	if (t->waiting.known) {
		buf_add(out, "; ");
		waiting_words(&t->waiting, " waiting", out);
	}
	if (!t->ledger || t->ledger_failed.code)
		return;
	buf_add(out, "; ");
	buf_add_count(out, t->held);
	buf_add(out, " on hold; ");
	if (t->excused) {
		buf_add_count(out, t->excused);
		buf_add(out, " excused; ");
	}
	buf_add_count(out, t->recovered.day);
	buf_add(out, " recovered in 24 hours");
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

/* A kind of job, with what its run times suggest. */
struct learned_part {
	const char *kind; /* NULL: the watch has no kinds */
	struct suggestion suggestion;
	const char *sentence;
};

#define AT(member) FIELD_AT(struct learned_part, member)
#define HAS(member) FIELD_HAS(struct learned_part, member)
static const struct field kind_fields[] = {
	{"runs", FIELD_REAL, AT(suggestion.n)},
	{"kind", AT(kind), .null = true},
	{"p50_s", FIELD_SECONDS, AT(suggestion.p50_us)},
	{"p95_s", FIELD_SECONDS, AT(suggestion.p95_us)},
	{"p99_s", FIELD_SECONDS, AT(suggestion.p99_us)},
	{"longest_s", FIELD_SECONDS, AT(suggestion.longest_us)},
	{"option", AT(suggestion.option), .about = "stuck_after or overdue_after"},
	{"today_s", FIELD_SECONDS, AT(suggestion.today_us), HAS(suggestion.has_today)},
	{"over_today", FIELD_REAL, AT(suggestion.over_today),
     .about = "share of runs that took longer"},
	{"suggestion_s", FIELD_SECONDS, AT(suggestion.us), HAS(suggestion.has_us)},
	{"sentence", AT(sentence)},
	{0},
};
#undef AT
#undef HAS
static const struct record kind_record = {.fields = kind_fields,
                                          .size = sizeof(struct learned_part)};

#define LEARNED(row) (((const struct learned_view *)(row))->learned)

static bool learned_not(const void *row, const struct viewer *v, struct buf *out)
{
	const char *why = learn_why_not(v->watch);
	(void)row;
	buf_add(out, why ? why : "");
	return why != NULL;
}

static bool learned_observed(const void *row, int64_t *out)
{
	*out = LEARNED(row) ? LEARNED(row)->observed : 0;
	return LEARNED(row) != NULL;
}

static bool learned_sampled(const void *row, int64_t *out)
{
	*out = LEARNED(row) && LEARNED(row)->sampled;
	return true;
}

static bool learned_kept(const void *row, int64_t *out)
{
	*out = LEARNED(row) && LEARNED(row)->stored;
	return true;
}

static void stats_kinds_json(const void *row, const struct viewer *v, struct buf *out)
{
	const struct learned *l = LEARNED(row);
	AUTO_BUF sentence = BUF_INIT;
	buf_add(out, "[");
	for (int i = 0, n = 0; l && i < l->n; i++) {
		const struct learned_kind *k = &l->kinds[i];
		struct learned_part part = {.kind = *k->kind ? k->kind : NULL};
		if (run_times_n(&k->times) <= 0)
			continue;
		suggest(v->watch, k->kind, &k->times, &part.suggestion);
		buf_clear(&sentence);
		suggestion_sentence(&part.suggestion, learned_name(v->watch, k), &sentence);
		part.sentence = buf_text(&sentence);
		buf_add(out, n++ ? ",\n" : "\n");
		record_json(&kind_record, &part, v, out);
	}
	buf_add(out, "]");
}

static const struct field learned_fields[] = {
	{"watch", .words = field_watch},
	{"database", .words = field_database},
	{"not_learnt", .words = learned_not, .null = true, .about = "why nothing can be learnt of it"},
	{"observed", FIELD_NUMBER, .number = learned_observed, .null = true,
     .about = "runs that ended since the last time"},
	{"sampled", FIELD_BOOL, .number = learned_sampled, .about = "more ended than were read"},
	{"kept", FIELD_BOOL, .number = learned_kept, .about = "it is stored in the database"},
	{"kinds", FIELD_JSON, .json = stats_kinds_json,
     .schema = "{type: array, items: {type: object}}",
     .about = "run times by kind, and what they suggest"},
	{0},
};

const struct record learned_record = {
	.name = "Learned",
	.about = "how long runs of a watch take, and what that suggests for its thresholds",
	.fields = learned_fields,
	.size = sizeof(struct learned_view),
};

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
	if (l && l->not_stored.code)
		buf_addf(out, "not stored: %s\n", l->not_stored.what);
}

/* ---- numbers over time ---- */

/* Whether anybody looked during a step, or something was recorded for it. */
static bool stats_is_known(const struct series_point *p)
{
	return p->waiting != SERIES_UNKNOWN || p->running != SERIES_UNKNOWN ||
	       p->done != SERIES_UNKNOWN || series_recovered(p) > 0 || series_detection(p, 1) >= 0;
}

static void stats_add_value(struct buf *out, bool first, bool known, double value)
{
	buf_add(out, first ? "" : ",");
	if (known)
		buf_addf(out, "%.10g", value);
	else
		buf_add(out, "null");
}

/* The value of a point in one list of the document; below 0: none. */
typedef double value_of(const struct series_point *p, int which);

static void stats_add_list(struct buf *out, const char *name, const struct series *s,
                           value_of *value, int which)
{
	buf_addf(out, "\"%s\":[", name);
	for (int i = 0; i < s->about->steps; i++) {
		double v = value(&s->points[i], which);
		stats_add_value(out, i == 0, v >= 0, v);
	}
	buf_add(out, "]");
}

static double waiting_of(const struct series_point *p, int which)
{
	(void)which;
	return (double)p->waiting;
}

static double stats_oldest_of(const struct series_point *p, int which)
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
	return stats_is_known(p) ? (double)p->recovered[verdict] : SERIES_UNKNOWN;
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
	{"oldest_s", stats_oldest_of, 0},
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
		stats_add_value(out, true, v >= 0, v);
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
		stats_add_list(out, lists[i].name, s, lists[i].value, lists[i].which);
	}
	buf_add(out, ",\n\"recovered\":{");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++) {
		buf_add(out, v > VERDICT_NONE + 1 ? ",\n" : "");
		stats_add_list(out, verdict_names[v], s, recovered_of, v);
	}
	buf_add(out, "},\n\"totals\":{\"step_s\":");
	buf_addf(out, "%lld", (long long)(to_s - s->from_s));
	add_totals(s, out);
	buf_add(out, "}}\n");
}
