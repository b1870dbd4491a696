/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/whatif.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "recover/census.h"

#include <jansson.h>

/* ---- evaluation ---- */

static void notice(struct whatif_side *side, int64_t us)
{
	side->recovered++;
	side->noticed++;
	side->mean_us += us; /* a sum until all are added */
	if (us > side->worst_us)
		side->worst_us = us;
}

static void mistake(struct whatif_side *side)
{
	side->recovered++;
	side->wrongly++;
}

/* Scans come at intervals: a recovery's delay would have been the same again. */
static void weigh_recoveries(const struct whatif_record *record, int64_t then_us,
                             struct whatif *out)
{
	for (int i = 0; i < record->nrecoveries; i++) {
		const struct past_recovery *r = &record->recoveries[i];
		int64_t behind = r->measured_us > r->limit_us ? r->measured_us - r->limit_us : 0;
		if (!r->late) {
			notice(&out->today, r->measured_us);
			notice(&out->then, then_us + behind);
			continue;
		}
		mistake(&out->today);
		if (r->lived_us > then_us)
			mistake(&out->then);
	}
}

/* Jobs that the ledger has as mistakes: their runs are counted there. */
static json_t *late_jobs(const struct whatif_record *record)
{
	json_t *jobs = json_object();
	for (int i = 0; i < record->nrecoveries; i++)
		if (record->recoveries[i].late)
			json_object_set_new(jobs, record->recoveries[i].job, json_true());
	return jobs;
}

static void weigh_runs(const struct watch *w, const struct threshold *today, int64_t then_us,
                       const struct whatif_record *record, struct whatif *out)
{
	struct run_times *times = mem_alloc(sizeof *times);
	struct suggestion s;
	json_auto_t *late = late_jobs(record);
	for (int i = 0; i < record->nruns; i++) {
		const struct finished_run *r = &record->runs[i];
		int64_t limit = INT64_MAX;
		run_times_add(times, r->took_us, 1);
		if (json_object_get(late, r->job))
			continue;
		if (threshold_for(today, r->kind, &limit) && r->took_us > limit)
			mistake(&out->today);
		if (r->took_us > then_us)
			mistake(&out->then);
	}
	suggest(w, NULL, times, &s);
	out->has_safe = s.advice != ADVICE_FEW;
	out->safe_us = s.us;
	free(times);
}

static void take_mean(struct whatif_side *side)
{
	side->mean_us = side->noticed ? side->mean_us / side->noticed : 0;
}

void whatif_weigh(const struct watch *w, const struct threshold *today, int64_t then_us,
                  const struct whatif_record *record, struct whatif *out)
{
	*out = (struct whatif){0};
	weigh_recoveries(record, then_us, out);
	if (record->runs_apply)
		weigh_runs(w, today, then_us, record, out);
	take_mean(&out->today);
	take_mean(&out->then);
}

/* ---- reading ---- */

static int64_t seconds_of(const json_t *evidence, const char *name)
{
	return (int64_t)(json_number_value(json_object_get(evidence, name)) * 1e6);
}

static bool whatif_is_recovery(const struct ledger_row *row)
{
	bool judged = !text_eq(row->verdict, verdict_names[VERDICT_NONE]) && row->verdict;
	return !text_eq(row->rule, RULE_BY_HAND) &&
	       event_counts(row->event, judged, false) & COUNTS_RECOVERED;
}

/* A recovery by this threshold; false if it was based on another verdict, or none. */
static bool take_recovery(const struct ledger_row *row, bool overdue, struct arena *a,
                          struct past_recovery *out)
{
	enum verdict wanted = overdue ? VERDICT_OVERDUE : VERDICT_SILENT;
	json_auto_t *evidence = row->evidence ? json_loads(row->evidence, 0, NULL) : NULL;
	const char *kind = json_string_value(json_object_get(evidence, "kind"));
	bool measured = json_is_number(json_object_get(evidence, "measured_s"));
	*out = (struct past_recovery){
		.job = row->job,
		.kind = kind ? arena_strdup(a, kind) : NULL,
		.measured_us = seconds_of(evidence, "measured_s"),
		.limit_us = seconds_of(evidence, "limit_s"),
	};
	return measured && text_eq(row->verdict, verdict_names[wanted]);
}

/* Recoveries so far, and which is a job's last. */
struct taking {
	struct whatif_record *out;
	json_t *last; /* job: its index in out->recoveries */
	int64_t *at_us;
};

static void take_late(const struct taking *t, const struct ledger_row *row)
{
	const json_t *place = json_object_get(t->last, row->job);
	int64_t at = 0;
	if (!place || !time_parse(row->at, &at))
		return;
	struct past_recovery *r = &t->out->recoveries[json_integer_value(place)];
	int64_t since = at - t->at_us[json_integer_value(place)];
	r->late = true;
	r->lived_us = r->measured_us + (since > 0 ? since : 0);
	json_object_del(t->last, row->job);
}

/* Oldest first: a late completion belongs to the last recovery of its job. */
static void take_entries(const struct ledger_row *rows, int n, bool overdue, struct arena *a,
                         struct whatif_record *out)
{
	struct taking t = {out, json_object(), ARENA_ARRAY(a, int64_t, n + 1)};
	out->recoveries = ARENA_ARRAY(a, struct past_recovery, n + 1);
	for (int i = n - 1; i >= 0; i--) {
		int place = out->nrecoveries;
		if (text_eq(rows[i].event, ENTRY_LATE_COMPLETION))
			take_late(&t, &rows[i]);
		if (!whatif_is_recovery(&rows[i]))
			continue;
		json_object_del(t.last, rows[i].job);
		if (!take_recovery(&rows[i], overdue, a, &out->recoveries[place]))
			continue;
		time_parse(rows[i].at, &t.at_us[place]);
		json_object_set_new(t.last, rows[i].job, json_integer(place));
		out->nrecoveries++;
	}
	json_decref(t.last);
}

static defib_err whatif_read_ledger(struct store *s, const char *watch, bool overdue,
                                    int64_t since_us, struct arena *a, struct whatif_record *out,
                                    struct failure *f)
{
	struct ledger_filter filter = {.watch = watch, .since_us = since_us, .newest_first = true};
	struct ledger_row *rows;
	int n = 0;
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		return err;
	err = ledger_read(s, &filter, a, &rows, &n, f);
	store_rollback(s);
	if (err)
		return err;
	out->entries_more = n == LEDGER_READ_MAX;
	take_entries(rows, n, overdue, a, out);
	return DEFIB_OK;
}

defib_err whatif_read(struct store *s, const struct binding *b, bool ledger, bool overdue,
                      int64_t since_us, struct arena *a, struct whatif_record *out,
                      struct failure *f)
{
	int64_t now = 0;
	*out = (struct whatif_record){
		.ledger = ledger,
		.runs_known = runs_known(b->watch),
		.runs_apply = runs_known(b->watch) && (overdue || runs_are_silent(b->watch)),
	};
	defib_err err = census_now(s, &now, f);
	if (!err && ledger)
		err = whatif_read_ledger(s, b->watch->name, overdue, since_us, a, out, f);
	if (err || !out->runs_apply)
		return err;
	struct runs_page page = {.after_us = now - since_us, .until_us = now, .limit = WHATIF_RUNS};
	err = runs_read(s, b, &page, a, f);
	out->runs = page.runs;
	out->nruns = page.n;
	out->runs_more = page.more;
	return err;
}

/* ---- advice ---- */

static void add_jobs(struct buf *out, int64_t n, const char *more)
{
	buf_addf(out, "%lld %sjob%s of live workers", (long long)n, more, n == 1 ? "" : "s");
}

static void advise_more_wrong(const struct whatif *x, struct buf *out)
{
	buf_add(out, "too short: it would have recovered ");
	add_jobs(out, x->then.wrongly - x->today.wrongly, "more ");
	buf_add(out, " than the current threshold");
	if (!x->has_safe)
		return;
	buf_add(out, "; ");
	duration_text(x->safe_us, out);
	buf_add(out, " leaves room");
}

static void advise_time(const struct whatif *x, struct buf *out)
{
	int64_t sooner = x->today.mean_us - x->then.mean_us;
	buf_addf(out, "%lld lost job%s would have been detected ", (long long)x->then.noticed,
	         x->then.noticed == 1 ? "" : "s");
	duration_text(sooner < 0 ? -sooner : sooner, out);
	buf_add(out, sooner < 0 ? " later on average" : " sooner on average");
}

void whatif_advice(const struct watch *w, bool overdue, int64_t then_us,
                   const struct whatif_record *record, const struct whatif *x, struct buf *out)
{
	int64_t more = x->then.wrongly - x->today.wrongly;
	if (!overdue && w->beat_us && then_us < 2 * w->beat_us) {
		buf_add(out, "too short: under twice the beat of ");
		duration_text(w->beat_us, out);
		buf_add(out, ", so live workers would be declared dead");
	} else if (more > 0) {
		advise_more_wrong(x, out);
	} else if (record->nruns == 0 && record->nrecoveries == 0) {
		buf_add(out, "there are no records for that time");
	} else if (more < 0) {
		buf_add(out, "it would have spared ");
		add_jobs(out, -more, "");
		if (x->then.noticed) {
			buf_add(out, "; ");
			advise_time(x, out);
		}
	} else {
		buf_add(out, "no more jobs of live workers would have been recovered");
		if (x->then.noticed) {
			buf_add(out, "; ");
			advise_time(x, out);
		}
	}
}
