/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/watch_metrics.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "recover/evidence.h"

#define S(us) ((double)(us) / 1e6)

#define OF_WATCH(m) LABELS((m)->watch, (m)->database)
#define OF_WATCH_AND(m, last) LABELS((m)->watch, (m)->database, (last))
#define OF_WATCH_BY(m, by_person) OF_WATCH_AND(m, by_names[by_person])
#define RECOVERED_BY(m, remedy, by_person)                                                         \
	LABELS((m)->watch, (m)->database, (remedy), by_names[by_person])

static const char *const by_names[] = {"automation", "person"};

static const enum metric time_metrics[DETECTION_TIMES] = {
	[TO_DETECTION] = METRIC_DETECTION, [TO_RECOVERY] = METRIC_RECOVERY};

/* Outcomes that mean: left unchanged, and why. */
static const enum outcome spared[] = {OUTCOME_CHANGED, OUTCOME_LOCKED, OUTCOME_REFUSED};
#define NSPARED (int)(sizeof spared / sizeof *spared)

void watch_metrics_init(struct watch_metrics *m, struct metrics *metrics, const char *watch,
                        const char *database)
{
	*m = (struct watch_metrics){
		.metrics = metrics, .watch = mem_strdup(watch), .database = mem_strdup(database)};
	metrics_set(metrics, METRIC_LEADER, 0, OF_WATCH(m));
}

void watch_metrics_release(struct watch_metrics *m)
{
	free(m->watch);
	free(m->database);
}

/* Rates and shares need a 0 to begin with: series exist before the first event. */
static void show(struct watch_metrics *m)
{
	static const enum metric alone[] = {
		METRIC_FOUND,       METRIC_NEAR_MISSES, METRIC_RETRIES_FIRED,
		METRIC_ROLLED_BACK, METRIC_DETECTION,   METRIC_RECOVERY,
		METRIC_BRAKES,      METRIC_LAG,         METRIC_SCAN};
	static const char *const results[] = {"ok", "failed"};
	static const char *const events[] = {ENTRY_LATE_COMPLETION, ENTRY_RETRIES_EXHAUSTED,
	                                     ENTRY_HELD};
	m->shown = true;
	for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
		metrics_ready(m->metrics, alone[i], OF_WATCH(m));
	for (int i = 0; i < 2; i++)
		metrics_ready(m->metrics, METRIC_PASSES, OF_WATCH_AND(m, results[i]));
	for (int i = 0; i < NSPARED; i++)
		metrics_ready(m->metrics, METRIC_SPARED, OF_WATCH_AND(m, outcome_names[spared[i]]));
	for (int i = VERDICT_NONE + 1; i < VERDICT_COUNT; i++)
		metrics_ready(m->metrics, METRIC_DETECTED, OF_WATCH_AND(m, verdict_names[i]));
	for (int i = 0; i < 2 * REMEDY_COUNT; i++)
		if (event_counts(act_event(i / 2), true, false) & COUNTS_RECOVERED)
			metrics_ready(m->metrics, METRIC_RECOVERED,
			              RECOVERED_BY(m, remedy_names[i / 2], i % 2));
	for (int by = 0; by < 2; by++)
		metrics_ready(m->metrics, METRIC_HELD, OF_WATCH_BY(m, by));
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		metrics_ready(m->metrics, METRIC_EVENTS, OF_WATCH_AND(m, events[i]));
}

void watch_metrics_begin(struct watch_metrics *m, int64_t due_ms, int64_t now_ms)
{
	if (!m->metrics)
		return;
	metrics_hold(m->metrics);
	if (!m->shown)
		show(m);
	if (due_ms)
		metrics_observe(m->metrics, METRIC_LAG, (double)(now_ms - due_ms) / 1e3, OF_WATCH(m));
	if (m->began_ms)
		metrics_set(m->metrics, METRIC_INTERVAL, (double)(now_ms - m->began_ms) / 1e3, OF_WATCH(m));
	metrics_let(m->metrics);
	m->began_ms = now_ms;
	m->oldest_us = 0;
	m->own = (struct watch_metrics_own){0};
}

/* ---- a job ---- */

/* Decided in this pass, not by an earlier one. */
static bool decided(const struct candidate *c)
{
	switch (c->outcome) {
	case OUTCOME_RECOVERED:
		return true;
	case OUTCOME_HELD:
		return c->decision.act;
	case OUTCOME_LEFT:
		return c->decision.remedy == REMEDY_REPORT && !c->facts.noted;
	default:
		return false;
	}
}

/* Since it became stuck: past its threshold or deadline, or, if its end was seen, since then. */
static int64_t stuck_us(const struct candidate *c, int64_t now_us)
{
	const struct judgement *j = &c->judgement;
	int64_t since_look = elapsed_us(c->facts.now_us, now_us);
	return j->measured && !verdict_has(j->verdict, VERDICT_SEEN)
	           ? elapsed_us(j->limit_us, j->measured_us) + since_look
	           : since_look;
}

static void watch_metrics_add_time(struct watch_metrics *m, enum detection_time which,
                                   double seconds)
{
	int bucket = metric_bucket(time_metrics[which], seconds);
	m->own.times[which].n[bucket]++;
	m->own.times[which].sum_s[bucket] += seconds;
}

void watch_metrics_job(struct watch_metrics *m, const struct candidate *c, int64_t now_us)
{
	int64_t lost, since = stuck_us(c, now_us);
	int64_t age = c->judgement.measured
	                  ? c->judgement.measured_us + elapsed_us(c->facts.now_us, now_us)
	                  : since;
	bool known = lost_since(&c->facts, &c->judgement, &lost);
	bool on_hold = c->outcome == OUTCOME_HELD && !c->decision.act;
	/* A row that could not be judged is only counted by its outcome. */
	if (!m->metrics || c->judgement.verdict == VERDICT_NONE)
		return;
	if (!on_hold && !c->judgement.waited && age > m->oldest_us)
		m->oldest_us = age;
	if (!decided(c))
		return;
	m->own.detected[c->judgement.verdict]++;
	m->own.recovered[c->decision.remedy] += c->outcome == OUTCOME_RECOVERED;
	if (known)
		watch_metrics_add_time(m, TO_DETECTION, S(elapsed_us(lost, c->facts.now_us)));
	if (known && c->outcome == OUTCOME_RECOVERED)
		watch_metrics_add_time(m, TO_RECOVERY, S(elapsed_us(lost, now_us)));
}

/* ---- the ledger ---- */

void watch_metrics_entries(struct watch_metrics *m, const struct event_count *e)
{
	struct metrics *all = m->metrics;
	const struct event_name *event = event_named(e->event);
	double n = (double)e->n;
	if (!all)
		return;
	metrics_hold(all);
	metrics_add(all, METRIC_EVENTS, n, OF_WATCH_AND(m, e->event));
	if (e->counts & COUNTS_DETECTED)
		metrics_add(all, METRIC_DETECTED, n, OF_WATCH_AND(m, e->verdict));
	if (e->counts & COUNTS_RECOVERED)
		metrics_add(all, METRIC_RECOVERED, n, RECOVERED_BY(m, event->remedy, e->by_person));
	if (e->counts & COUNTS_HELD)
		metrics_add(all, METRIC_HELD, n, OF_WATCH_BY(m, e->by_person));
	if (e->counts & COUNTS_ROLLED_BACK)
		metrics_add(all, METRIC_ROLLED_BACK, n, OF_WATCH(m));
	if (text_eq(e->event, act_event(ACT_THEN)) && !e->verdict && !e->by_person)
		metrics_add(all, METRIC_RETRIES_FIRED, n, OF_WATCH(m));
	metrics_let(all);
}

void watch_metrics_bounds(struct time_bounds *out)
{
	for (int t = 0; t < DETECTION_TIMES; t++) {
		const struct metric_about *about = metric_about(time_metrics[t]);
		out[t] = (struct time_bounds){about->bounds, about->nbounds};
	}
}

void watch_metrics_times(struct watch_metrics *m, const struct detection_count *d)
{
	for (int t = 0; t < DETECTION_TIMES && m->metrics; t++)
		if (d->bucket[t] >= 0)
			metrics_observe_many(m->metrics, time_metrics[t], d->bucket[t], (double)d->n,
			                     (double)d->sum_ms[t] / 1e3, OF_WATCH(m));
}

void watch_metrics_ended(struct watch_metrics *m, int64_t done, int64_t failed)
{
	metrics_hold(m->metrics);
	metrics_add(m->metrics, METRIC_ENDED, (double)done, OF_WATCH_AND(m, "done"));
	metrics_add(m->metrics, METRIC_ENDED, (double)failed, OF_WATCH_AND(m, "failed"));
	metrics_let(m->metrics);
}

/* ---- a pass ---- */

/* Without a ledger only this daemon knows what it did. */
static void count_own(struct watch_metrics *m, const struct scan_result *r)
{
	struct metrics *all = m->metrics;
	for (int i = VERDICT_NONE + 1; i < VERDICT_COUNT; i++)
		metrics_add(all, METRIC_DETECTED, (double)m->own.detected[i],
		            OF_WATCH_AND(m, verdict_names[i]));
	for (int i = 0; i < REMEDY_COUNT; i++)
		if (m->own.recovered[i])
			metrics_add(all, METRIC_RECOVERED, (double)m->own.recovered[i],
			            RECOVERED_BY(m, remedy_names[i], false));
	for (int t = 0; t < DETECTION_TIMES; t++)
		for (int b = 0; b <= METRIC_BOUNDS_MAX; b++)
			if (m->own.times[t].n[b])
				metrics_observe_many(all, time_metrics[t], b, (double)m->own.times[t].n[b],
				                     m->own.times[t].sum_s[b], OF_WATCH(m));
	metrics_add(all, METRIC_HELD, (double)(r->outcomes[OUTCOME_HELD] - r->held_before),
	            OF_WATCH_BY(m, false));
	metrics_add(all, METRIC_RETRIES_FIRED, (double)r->retried, OF_WATCH(m));
}

static void count_pass(struct watch_metrics *m, const struct scan_result *r)
{
	struct metrics *all = m->metrics;
	if (!r->ledger)
		count_own(m, r);
	metrics_add(all, METRIC_FOUND, (double)r->found, OF_WATCH(m));
	metrics_add(all, METRIC_NEAR_MISSES, (double)r->near_misses, OF_WATCH(m));
	for (int i = 0; i < NSPARED; i++)
		metrics_add(all, METRIC_SPARED, (double)r->outcomes[spared[i]],
		            OF_WATCH_AND(m, outcome_names[spared[i]]));
	metrics_add(all, METRIC_PASSES, 1, OF_WATCH_AND(m, r->failure.code ? "failed" : "ok"));
	metrics_observe(all, METRIC_SCAN, S(r->took_us), OF_WATCH(m));
}

/* What a successful pass saw; a failed one leaves the last values in place. */
static void show_pass(struct watch_metrics *m, const struct watch_metrics_pass *p)
{
	struct metrics *all = m->metrics;
	const struct scan_result *r = p->result;
	/* Pace may stop a pass early: then only the number of the remaining stuck jobs is known. */
	int64_t all_stuck = r->left + r->outcomes[OUTCOME_RECOVERED] + r->outcomes[OUTCOME_HELD];
	metrics_set(all, METRIC_LAST_PASS, S(p->wall_us), OF_WATCH(m));
	metrics_set(all, METRIC_RUNNING, (double)r->running, OF_WATCH(m));
	metrics_set(all, METRIC_STUCK, (double)(all_stuck > r->found ? all_stuck : r->found),
	            OF_WATCH(m));
	metrics_set(all, METRIC_STUCK_OLDEST, S(m->oldest_us), OF_WATCH(m));
	if (r->waiting.asked) {
		metrics_set(all, METRIC_LATE, (double)r->waiting.late, OF_WATCH(m));
		metrics_set(all, METRIC_UNSTARTED, (double)r->waiting.unstarted, OF_WATCH(m));
		metrics_set(all, METRIC_LATE_OLDEST, S(r->waiting.waited_us), OF_WATCH(m));
	}
	if (r->ledger)
		metrics_set(all, METRIC_ON_HOLD, (double)r->on_hold, OF_WATCH(m));
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (i != OUTCOME_MISSING)
			metrics_set(all, METRIC_PASS_JOBS, (double)r->outcomes[i],
			            OF_WATCH_AND(m, outcome_names[i]));
	for (int i = GUARD_PASS + 1; i < GUARD_COUNT; i++)
		metrics_set(all, METRIC_GUARDED, (double)r->guarded[i], OF_WATCH_AND(m, guard_names[i]));
}

static void show_guard(struct watch_metrics *m, const struct watch_metrics_pass *p)
{
	struct metrics *all = m->metrics;
	const struct guard_report *g = p->guard;
	metrics_set(all, METRIC_EVERY, S(p->watch->every_us), OF_WATCH(m));
	metrics_set(all, METRIC_BRAKE, g->braking, OF_WATCH(m));
	metrics_add(all, METRIC_BRAKES, (double)(g->brakes > m->brakes ? g->brakes - m->brakes : 0),
	            OF_WATCH(m));
	m->brakes = g->brakes;
	metrics_set(all, METRIC_DOUBT, g->doubting, OF_WATCH(m));
	metrics_set(all, METRIC_PAUSED, g->paused, OF_WATCH(m));
	metrics_set(all, METRIC_FACTOR, p->factor, OF_WATCH(m));
	metrics_set(all, METRIC_PACE_RATE, g->rate, OF_WATCH(m));
	metrics_set(all, METRIC_PACE_WAITING,
	            p->result->guarded[GUARD_PACE] ? (double)p->result->left : 0, OF_WATCH(m));
}

static void show_mistakes(struct watch_metrics *m, const struct mistakes *k)
{
	struct metrics *all = m->metrics;
	metrics_set(all, METRIC_RECENT_RECOVERIES, (double)k->day.recoveries, OF_WATCH_AND(m, "day"));
	metrics_set(all, METRIC_RECENT_MISTAKES, (double)k->day.mistakes, OF_WATCH_AND(m, "day"));
	metrics_set(all, METRIC_RECENT_RECOVERIES, (double)k->week.recoveries, OF_WATCH_AND(m, "week"));
	metrics_set(all, METRIC_RECENT_MISTAKES, (double)k->week.mistakes, OF_WATCH_AND(m, "week"));
}

void watch_metrics_pass(struct watch_metrics *m, const struct watch_metrics_pass *p)
{
	if (!m->metrics)
		return;
	metrics_hold(m->metrics);
	m->has_gauges = true;
	count_pass(m, p->result);
	if (!p->result->failure.code)
		show_pass(m, p);
	show_guard(m, p);
	if (p->mistakes)
		show_mistakes(m, p->mistakes);
	metrics_let(m->metrics);
}

void watch_metrics_startup(struct watch_metrics *m, const int64_t *outcomes)
{
	if (!m->metrics)
		return;
	metrics_add(m->metrics, METRIC_RECOVERED, (double)outcomes[OUTCOME_RECOVERED],
	            RECOVERED_BY(m, "startup", false));
	metrics_add(m->metrics, METRIC_HELD, (double)outcomes[OUTCOME_HELD], OF_WATCH_BY(m, false));
}

/* ---- who leads, and how the database answers ---- */

void watch_metrics_leads(struct watch_metrics *m, bool leads)
{
	/* What another daemon knows better now; counters stay: they count what was done here. */
	static const enum metric gauges[] = {
		METRIC_RUNNING,         METRIC_STUCK,        METRIC_STUCK_OLDEST,
		METRIC_PASS_JOBS,       METRIC_EVERY,        METRIC_INTERVAL,
		METRIC_LAST_PASS,       METRIC_GUARDED,      METRIC_BRAKE,
		METRIC_DOUBT,           METRIC_PAUSED,       METRIC_FACTOR,
		METRIC_PACE_RATE,       METRIC_PACE_WAITING, METRIC_RECENT_RECOVERIES,
		METRIC_RECENT_MISTAKES, METRIC_ON_HOLD,      METRIC_RETRIES_PENDING,
		METRIC_QUEUE,           METRIC_QUEUE_OLDEST, METRIC_READ,
		METRIC_WORKERS,         METRIC_LATE,         METRIC_UNSTARTED,
		METRIC_LATE_OLDEST,
	};
	if (leads == m->leads && (leads || !m->has_gauges))
		return;
	metrics_hold(m->metrics);
	metrics_set(m->metrics, METRIC_LEADER, leads, OF_WATCH(m));
	for (size_t i = 0; !leads && i < sizeof gauges / sizeof *gauges; i++)
		metrics_drop(m->metrics, gauges[i], OF_WATCH(m));
	metrics_let(m->metrics);
	m->leads = leads;
	m->has_gauges = m->has_gauges && leads;
	m->began_ms = 0;
}

void watch_metrics_away(struct watch_metrics *m)
{
	metrics_set(m->metrics, METRIC_LEADER, 0, OF_WATCH(m));
	m->leads = false;
}

void watch_metrics_end(struct watch_metrics *m)
{
	metrics_forget(m->metrics, m->database, m->watch);
}

void watch_metrics_start(struct metrics *m, int64_t wall_us)
{
	metrics_set(m, METRIC_BUILD, 1, LABELS(DEFIB_VERSION));
	metrics_set(m, METRIC_STARTED, S(wall_us), NO_LABELS);
	metrics_ready(m, METRIC_RELOADS, LABELS("ok"));
	metrics_ready(m, METRIC_RELOADS, LABELS("failed"));
}

void watch_metrics_reload(struct metrics *m, bool ok)
{
	metrics_add(m, METRIC_RELOADS, 1, LABELS(ok ? "ok" : "failed"));
}

void watch_metrics_round(struct metrics *m, const char *database, bool up)
{
	metrics_hold(m);
	metrics_set(m, METRIC_DATABASE_UP, up, LABELS(database));
	metrics_add(m, METRIC_TRIES, 1, LABELS(database));
	metrics_add(m, METRIC_FAILURES, !up, LABELS(database));
	metrics_let(m);
}
