/* SPDX-License-Identifier: Apache-2.0
 * rules.c: the default rules, and when a rule fires. See rules.h.
 */
#include "alert/rules.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

/* ---- the default rules ---- */

#define MINUTES(n) ((n)*60 * US_PER_S)
#define HOURS(n) ((n)*3600 * US_PER_S)
/* Its sentence, its explanation for those who choose limits, and more. Repeated twice a day. */
/* clang-format off */
#define RULE(id, how, counts, sentence, what, ...) \
	[ALERT_##id] = {.severity = ALERT_##how, .unit = UNIT_##counts, .says = sentence, \
	                .about = what, .repeat_us = HOURS(12), .enabled = true, ##__VA_ARGS__}
/* clang-format on */

const char *const alert_severities[] = {"warning", "critical", "page", NULL};

const struct alert_rule alert_defaults[] = {
	RULE(STUCK_WARNING, WARNING, JOBS, "{value} {jobs are} stuck (alert above {limit})",
         "jobs that a scan found stuck, counted before any is recovered", .limit = 10),
	RULE(STUCK_CRITICAL, CRITICAL, JOBS, "{value} {jobs are} stuck (alert above {limit})",
         "the same, with a higher limit", .limit = 50),
	RULE(STUCK_DOUBLED, PAGE, FACTOR,
         "{value} times as many jobs are stuck as at the lowest point within {window} (alert from "
         "{limit} times)",
         "stuck jobs compared with the lowest count within the window, or with `floor` where that "
         "is higher",
         .limit = 2, .floor = 10, .window_us = HOURS(1)),
	RULE(STUCK_LONG, CRITICAL, SECONDS,
         "a stuck job gave its last sign of life {value} before it was "
         "last found (alert above {limit})",
         "the age of the oldest sign of life of a stuck job, not the time beyond the "
         "threshold; held jobs wait for an operator and do not count",
         .limit = 3600),
	RULE(CONNECTION_FAILURES, CRITICAL, SHARE,
         "{value} of the attempts to use the database within {window} failed (alert above "
         "{limit})",
         "attempts by the daemon and by defib's workers; at least `floor` of them", .whole = true,
         .limit = 0.01, .floor = 20, .window_us = MINUTES(5)),
	RULE(RECOVERED_MANY, WARNING, JOBS,
         "{value} {jobs were} recovered within {window} (alert above {limit})",
         "recoveries recorded in the ledger, except those made by hand", .limit = 10,
         .window_us = HOURS(1)),
	RULE(RECOVERED_FAST, CRITICAL, RATE,
         "{value} jobs per second were recovered over {window} (alert above {limit})",
         "the same, as a rate", .limit = 0.1, .window_us = MINUTES(5)),
	RULE(DETECTION_SLOW, WARNING, SECONDS,
         "jobs were found {value} after their last sign of life, on average within "
         "{window} (alert above {limit})",
         "from the end of a job's worker, where that was seen, else from its last sign "
         "of life, until it is found stuck, averaged; a watch whose threshold is longer "
         "than half of the standard limit has twice its threshold as its limit",
         .limit = 300, .window_us = HOURS(1)),
	RULE(RECOVERY_RATE, WARNING, SHARE,
         "only {value} of the jobs found stuck within {window} were recovered, the rest "
         "are on hold or were only reported (alert below {limit})",
         "the share of detected jobs that were recovered, not put on hold or only reported; at "
         "least `floor` jobs",
         .lowest = true, .limit = 0.9, .floor = 5, .window_us = HOURS(1)),
	RULE(FALSE_POSITIVES, CRITICAL, SHARE,
         "{value} of the recoveries within {window} were false positives: their workers were alive "
         "(alert above {limit})",
         "recoveries of jobs that their old worker finished after all", .limit = 0.05, .floor = 1,
         .window_us = HOURS(24)),
	RULE(RETRIES_EXHAUSTED, CRITICAL, JOBS,
         "{value} {jobs have} run out of attempts within {window}",
         "stuck jobs that have run out of attempts", .limit = 0, .window_us = HOURS(1)),
	RULE(BRAKE_HELD, CRITICAL, STATE, "the brake holds recovery: most workers fell silent at once",
         "the brake holds recovery back because most workers fell silent at once"),
	RULE(SCAN_OVERDUE, CRITICAL, SECONDS,
         "no scan has finished for three intervals and {value} more (alert above {limit}): stuck "
         "jobs stay stuck",
         "how long a scan is overdue, counted from three intervals after the last one finished",
         .limit = 30),
	RULE(DATABASE_AWAY, CRITICAL, SECONDS,
         "the database has not answered for {value} (alert above {limit})",
         "how long the daemon has been without an answer; while this fires, scan_overdue of its "
         "watches is not sent",
         .whole = true, .limit = 60),
	RULE(RESULTS_SET_ASIDE, CRITICAL, JOBS,
         "{value} {jobs have} ended and the database refuses to record it: a missing "
         "right, table or constraint is the cause (defib status names it)",
         "results that workers keep because the database refused to record them", .whole = true,
         .limit = 0),
	RULE(UNSTARTED, CRITICAL, JOBS,
         "{value} {jobs have} waited too long and nobody starts them (defib status says why)",
         "jobs that are due for longer than late_after, of kinds of which none is being started; "
         "one alert for the watch",
         .limit = 0),
};
_Static_assert(sizeof alert_defaults / sizeof *alert_defaults == ALERT_COUNT, "one rule per name");

const char *const alert_names[] = {
#define X(id, name) name,
	ALERT_LIST(X)
#undef X
		NULL};

struct alert_rule alert_rule_for(const struct alert_settings *s, enum alert_id id,
                                 const char *watch)
{
	struct alert_rule found = alert_defaults[id];
	found.id = id;
	found.name = alert_names[id];
	for (int i = 0; s && i < s->nrules; i++) {
		const struct alert_rule *r = &s->rules[i];
		if (r->id == id && (r->watch ? watch && text_eq(r->watch, watch) : !found.watch))
			found = *r;
	}
	return found;
}

const struct text_list *alert_rule_sinks(const struct alert_settings *s, const struct alert_rule *r)
{
	return r->sinks.n ? &r->sinks : &s->sinks;
}

const struct alert_sink *alert_sink_named(const struct sink_list *all, const char *name)
{
	for (int i = 0; name && i < all->n; i++)
		if (all->items[i].name && text_eq(all->items[i].name, name))
			return &all->items[i];
	return NULL;
}

const char *const alert_states[] = {"resolved", "pending", "firing", NULL};

/* ---- what each rule measures ---- */

struct measuring {
	struct alert_subject *subject;
	const struct alert_rule *rule;
	struct window *top, *bottom;
	int64_t now_us;
};

/*
 * Compared with the minimum within the window. Without the whole window a lower value may be
 * missing.
 */
static bool measure_doubled(const struct measuring *m, double *value)
{
	const struct alert_rule *r = m->rule;
	double stuck = m->subject->now.stuck, least = stuck;
	if (!m->subject->now.scanned)
		return false;
	window_least(m->top, m->now_us, &least);
	double base = least > r->floor ? least : r->floor;
	*value = base > 0 ? stuck / base : 0;
	bool could = stuck >= r->limit * r->floor && *value < r->limit;
	return !could || window_full(m->top, m->now_us);
}

static bool measure_count(const struct measuring *m, double *value)
{
	*value = window_sum(m->top, m->now_us);
	return true;
}

static bool measure_rate(const struct measuring *m, double *value)
{
	*value = window_sum(m->top, m->now_us) / ((double)m->rule->window_us / (double)US_PER_S);
	return true;
}

/* A share, or a sum divided by its count. With too few cases there is no value. */
static bool measure_ratio(const struct measuring *m, double *value)
{
	double whole = window_sum(m->bottom, m->now_us);
	*value = m->rule->lowest ? 1 : 0;
	if (whole > 0 && whole >= m->rule->floor)
		*value = window_sum(m->top, m->now_us) / whole;
	return true;
}

/* The daemon's own attempts are in no ledger: at first it knows too few. */
static bool measure_failures(const struct measuring *m, double *value)
{
	bool few = window_sum(m->bottom, m->now_us) < m->rule->floor;
	return measure_ratio(m, value) && (!few || window_full(m->bottom, m->now_us));
}

/* After an outage, or a change of the leader, the next scans tell. */
static bool measure_unstarted(const struct measuring *m, double *value)
{
	*value = m->subject->now.unstarted;
	return m->subject->now.scanned && !m->subject->now.starts_unknown;
}

/* A current fact, or a function; what is counted for it. */
#define FACT(member) .fact = offsetof(struct alert_facts, member)
static const struct {
	size_t fact;  /* if there is no function */
	bool by_scan; /* known after the first scan */
	bool (*measure)(const struct measuring *m, double *value);
	enum alert_counter top, bottom;
} measures[] = {
	[ALERT_STUCK_WARNING] = {FACT(stuck), .by_scan = true},
	[ALERT_STUCK_CRITICAL] = {FACT(stuck), .by_scan = true},
	[ALERT_STUCK_DOUBLED] = {.measure = measure_doubled, .top = COUNT_STUCK},
	[ALERT_STUCK_LONG] = {FACT(oldest_s), .by_scan = true},
	[ALERT_CONNECTION_FAILURES] = {.measure = measure_failures,
                                   .top = COUNT_FAILURES,
                                   .bottom = COUNT_TRIES},
	[ALERT_RECOVERED_MANY] = {.measure = measure_count, .top = COUNT_RECOVERED},
	[ALERT_RECOVERED_FAST] = {.measure = measure_rate, .top = COUNT_RECOVERED},
	[ALERT_DETECTION_SLOW] = {.measure = measure_ratio,
                              .top = COUNT_FOUND_S,
                              .bottom = COUNT_FOUND},
	[ALERT_RECOVERY_RATE] = {.measure = measure_ratio,
                             .top = COUNT_RECOVERED,
                             .bottom = COUNT_DETECTED},
	[ALERT_FALSE_POSITIVES] = {.measure = measure_ratio,
                               .top = COUNT_MISTAKES,
                               .bottom = COUNT_RECOVERED},
	[ALERT_RETRIES_EXHAUSTED] = {.measure = measure_count, .top = COUNT_EXHAUSTED},
	[ALERT_BRAKE_HELD] = {FACT(braking)},
	[ALERT_SCAN_OVERDUE] = {FACT(late_s)},
	[ALERT_DATABASE_AWAY] = {FACT(away_s)},
	[ALERT_RESULTS_SET_ASIDE] = {FACT(set_aside)},
	[ALERT_UNSTARTED] = {.measure = measure_unstarted},
};
_Static_assert(sizeof measures / sizeof *measures == ALERT_COUNT, "one measure per rule");

void alert_windows(struct alert_subject *s, const struct alert_rule *rules)
{
	for (int i = 0; i < ALERT_COUNT; i++) {
		if (measures[i].top != COUNT_NOTHING)
			window_span(&s->tops[i], rules[i].window_us, measures[i].top == COUNT_STUCK);
		if (measures[i].bottom != COUNT_NOTHING)
			window_span(&s->bottoms[i], rules[i].window_us, false);
	}
}

void alert_count(struct alert_subject *s, enum alert_counter what, int64_t at_us, double n)
{
	assert(what != COUNT_NOTHING);
	for (int i = 0; i < ALERT_COUNT; i++) {
		if (measures[i].top == what)
			window_add(&s->tops[i], at_us, n);
		if (measures[i].bottom == what)
			window_add(&s->bottoms[i], at_us, n);
	}
}

/* "Doubled" includes exactly twice as many; all others must exceed their limit. */
static bool too_much(const struct alert_rule *r, double value)
{
	if (r->unit == UNIT_FACTOR)
		return value >= r->limit;
	return r->lowest ? value < r->limit : value > r->limit;
}

/* False: not known yet. */
static bool rules_measure(const struct measuring *m, double *value)
{
	const struct alert_facts *now = &m->subject->now;
	if (measures[m->rule->id].measure)
		return measures[m->rule->id].measure(m, value);
	memcpy(value, (const char *)now + measures[m->rule->id].fact, sizeof *value);
	return now->scanned || !measures[m->rule->id].by_scan;
}

struct alert_reading alert_measure(struct alert_subject *s, const struct alert_rule *r,
                                   int64_t now_us)
{
	struct measuring m = {s, r, &s->tops[r->id], &s->bottoms[r->id], now_us};
	struct alert_reading out = {ANSWER_UNKNOWN, 0};
	if (rules_measure(&m, &out.value))
		out.answer = too_much(r, out.value) ? ANSWER_YES : ANSWER_NO;
	return out;
}

/* ---- quiet, pending, firing ---- */

static void rules_enter(struct alert *a, enum alert_state state, int64_t now_us)
{
	a->state = state;
	a->since_us = now_us;
	a->calm_us = 0;
}

static enum alert_change rules_fire(struct alert *a, int64_t now_us)
{
	rules_enter(a, STATE_FIRING, now_us);
	a->fired_us = a->notified_us = now_us;
	a->repeats = 0;
	return CHANGE_FIRED;
}

/* The condition holds. */
static enum alert_change step_yes(const struct alert_rule *r, int64_t now_us, struct alert *a)
{
	if (a->state == STATE_FIRING) {
		a->calm_us = 0;
		if (!r->repeat_us || now_us - a->notified_us < r->repeat_us)
			return CHANGE_NONE;
		a->notified_us = now_us;
		a->repeats++;
		return CHANGE_AGAIN;
	}
	if (a->state == STATE_PENDING && now_us - a->since_us >= r->for_us)
		return rules_fire(a, now_us);
	if (a->state == STATE_PENDING)
		return CHANGE_NONE;
	if (r->for_us == 0)
		return rules_fire(a, now_us);
	rules_enter(a, STATE_PENDING, now_us);
	return CHANGE_STATE;
}

/* The condition does not hold. */
static enum alert_change step_no(const struct alert_rule *r, int64_t now_us, struct alert *a)
{
	if (a->state == STATE_RESOLVED)
		return CHANGE_NONE;
	if (a->state == STATE_PENDING) {
		rules_enter(a, STATE_RESOLVED, now_us);
		return CHANGE_STATE;
	}
	if (!a->calm_us)
		a->calm_us = now_us;
	if (now_us - a->calm_us < r->for_us)
		return CHANGE_NONE;
	rules_enter(a, STATE_RESOLVED, now_us);
	a->notified_us = now_us;
	return CHANGE_RESOLVED;
}

enum alert_change alert_step(const struct alert_rule *r, const struct alert_reading *m,
                             int64_t now_us, struct alert *a)
{
	/* A rule that was switched off resolves at once. */
	static const struct alert_rule off;
	if (!r->enabled)
		return step_no(&off, now_us, a);
	if (m->answer == ANSWER_UNKNOWN)
		return CHANGE_NONE;
	/* Both the highest value and the current one are worth reporting. */
	double was = a->value;
	if (m->answer == ANSWER_YES || a->state == STATE_FIRING)
		a->value = m->value;
	enum alert_change change =
		m->answer == ANSWER_YES ? step_yes(r, now_us, a) : step_no(r, now_us, a);
	/* It fired while the number was still rising: show the current number. */
	return change == CHANGE_NONE && a->value != was ? CHANGE_STATE : change;
}

/* ---- texts ---- */

#define DIGITS 3       /* of a share or a rate, unless more are needed */
#define DIGITS_MOST 12 /* more than any limit has */

/* Significant digits, and never fewer than before the decimal point: 150, 0.103, 12.5. */
static void add_digits(struct buf *out, double value, int digits)
{
	double size = value < 0 ? -value : value;
	int decimals = digits - 1;
	while (size >= 10 && decimals > 0) {
		size /= 10;
		decimals--;
	}
	while (size > 0 && size < 1 && decimals < DIGITS_MOST) {
		size *= 10;
		decimals++;
	}
	char text[64];
	int n = snprintf(text, sizeof text, "%.*f", decimals, value);
	while (decimals > 0 && text[n - 1] == '0') {
		n--;
		decimals--;
	}
	buf_addn(out, text, (size_t)(decimals == 0 && text[n - 1] == '.' ? n - 1 : n));
}

static void rules_add_amount(const struct alert_rule *r, double value, int digits, struct buf *out)
{
	switch (r->unit) {
	case UNIT_SECONDS:
		duration_text((int64_t)(value * (double)US_PER_S), out);
		break;
	case UNIT_SHARE:
		add_digits(out, value * 100, digits);
		buf_add(out, " %");
		break;
	case UNIT_RATE:
		add_digits(out, value, digits);
		break;
	default:
		buf_addf(out, "%.15g", (double)(int64_t)(value * 10) / 10);
	}
}

void alert_amount(const struct alert_rule *r, double value, struct buf *out)
{
	rules_add_amount(r, value, DIGITS, out);
}

/* A value beyond its limit must never read like the limit: "0.1 (alert above 0.1)". */
static void rules_add_value(const struct alert_rule *r, double value, const char *limit,
                            struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	int digits = DIGITS;
	rules_add_amount(r, value, digits, &text);
	while (value != r->limit && text_eq(buf_text(&text), limit) && digits++ < DIGITS_MOST) {
		buf_clear(&text);
		rules_add_amount(r, value, digits, &text);
	}
	if (value != r->limit && r->unit != UNIT_FACTOR && text_eq(buf_text(&text), limit))
		buf_add(out, value > r->limit ? "just over " : "just under ");
	buf_add(out, buf_text(&text));
}

/* The placeholders of a rule's sentence, and their values. */
static const char *const places[] = {"{value}",    "{limit}",     "{window}",
                                     "{jobs are}", "{jobs were}", "{jobs have}"};
#define PLACES (int)(sizeof places / sizeof *places)
static const char *const of_one[] = {"job is", "job was", "job has"};
static const char *const of_many[] = {"jobs are", "jobs were", "jobs have"};

void alert_sentence(const struct alert_rule *r, double value, struct buf *out)
{
	struct buf words[PLACES] = {BUF_INIT};
	rules_add_amount(r, r->limit, DIGITS_MOST, &words[1]);
	rules_add_value(r, value, buf_text(&words[1]), &words[0]);
	duration_text(r->window_us, &words[2]);
	for (int i = 0; i < 3; i++)
		buf_add(&words[3 + i], text_eq(buf_text(&words[0]), "1") ? of_one[i] : of_many[i]);
	for (const char *at = r->says; *at;) {
		int i = 0;
		while (i < PLACES && !text_starts(at, places[i]))
			i++;
		if (i < PLACES)
			buf_add(out, buf_text(&words[i]));
		else
			buf_addch(out, *at);
		at += i < PLACES ? strlen(places[i]) : 1;
	}
	for (int i = 0; i < PLACES; i++)
		buf_release(&words[i]);
}

/* ---- windows ---- */

void window_span(struct window *w, int64_t span_us, bool least)
{
	int64_t cell_us = span_us / WINDOW_CELLS > 0 ? span_us / WINDOW_CELLS : 1;
	if (w->cell_us == cell_us)
		return;
	memset(w, 0, sizeof *w);
	w->cell_us = cell_us;
	w->least = least;
}

/* Time advances: cells that are reused are emptied. */
static void turn_to(struct window *w, int64_t cell)
{
	int64_t steps = cell - w->newest;
	if (steps <= 0)
		return;
	for (int64_t i = 1; i <= (steps < WINDOW_CELLS ? steps : WINDOW_CELLS); i++)
		w->used[(cell - i + 1) % WINDOW_CELLS] = false;
	w->newest = cell;
}

void window_add(struct window *w, int64_t at_us, double n)
{
	assert(w->cell_us > 0 && at_us >= 0);
	int64_t cell = at_us / w->cell_us;
	turn_to(w, cell);
	if (cell <= w->newest - WINDOW_CELLS)
		return;
	double *at = &w->cells[cell % WINDOW_CELLS], was = *at;
	bool first = !w->used[cell % WINDOW_CELLS];
	if (w->least)
		*at = first || n < was ? n : was;
	else
		*at = (first ? 0 : was) + n;
	w->used[cell % WINDOW_CELLS] = true;
	if (!w->began_us || at_us < w->began_us)
		w->began_us = at_us;
}

double window_sum(struct window *w, int64_t now_us)
{
	double sum = 0;
	assert(w->cell_us > 0 && !w->least);
	turn_to(w, now_us / w->cell_us);
	for (int i = 0; i < WINDOW_CELLS; i++)
		sum += w->used[i] ? w->cells[i] : 0;
	return sum;
}

bool window_least(struct window *w, int64_t now_us, double *least)
{
	bool any = false;
	assert(w->cell_us > 0);
	turn_to(w, now_us / w->cell_us);
	for (int i = 0; i < WINDOW_CELLS; i++) {
		if (!w->used[i])
			continue;
		*least = any && *least < w->cells[i] ? *least : w->cells[i];
		any = true;
	}
	return any;
}

bool window_full(const struct window *w, int64_t now_us)
{
	return w->began_us && now_us - w->began_us >= w->cell_us * WINDOW_CELLS;
}
