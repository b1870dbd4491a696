/* SPDX-License-Identifier: Apache-2.0
 * rules_world_test.h: one watch with every default rule, what produces each rule's number, and the
 * life of each: for tests of rules and of their messages.
 */
#ifndef ALERT_RULES_WORLD_TEST_H
#define ALERT_RULES_WORLD_TEST_H

#include "alert/rules.h"

#define S INT64_C(1000000)
#define HOUR (3600 * S)
#define T0 (1700000000 * S)

struct world {
	struct alert_subject subject;
	struct alert_rule rules[ALERT_COUNT];
	struct alert alerts[ALERT_COUNT];
	int64_t now_us;
};

static struct world *a_world(void)
{
	static struct world w;
	w = (struct world){.now_us = T0};
	for (int i = 0; i < ALERT_COUNT; i++)
		w.rules[i] = alert_rule_for(NULL, (enum alert_id)i, "pages");
	alert_windows(&w.subject, w.rules);
	w.subject.now.scanned = true;
	return &w;
}

static enum alert_change ask(struct world *w, enum alert_id id)
{
	struct alert_reading m = alert_measure(&w->subject, &w->rules[id], w->now_us);
	return alert_step(&w->rules[id], &m, w->now_us, &w->alerts[id]);
}

/* ---- what produces each rule's number ---- */

static void stuck(struct world *w, double n)
{
	w->subject.now.stuck = n;
	alert_count(&w->subject, COUNT_STUCK, w->now_us, n);
}

static void doubled(struct world *w, double n)
{
	alert_count(&w->subject, COUNT_STUCK, w->now_us - HOUR / 2, 15);
	stuck(w, n);
}

static void oldest(struct world *w, double s)
{
	w->subject.now.oldest_s = s;
}

static void failures(struct world *w, double n)
{
	alert_count(&w->subject, COUNT_TRIES, w->now_us, 1000);
	alert_count(&w->subject, COUNT_FAILURES, w->now_us, n);
}

static void recovered(struct world *w, double n)
{
	alert_count(&w->subject, COUNT_RECOVERED, w->now_us, n);
}

static void found_after(struct world *w, double s)
{
	alert_count(&w->subject, COUNT_FOUND, w->now_us, 4);
	alert_count(&w->subject, COUNT_FOUND_S, w->now_us, s * 4);
}

static void of_100_decided(struct world *w, double n)
{
	alert_count(&w->subject, COUNT_DETECTED, w->now_us, 100);
	recovered(w, n);
}

static void mistakes_of_100(struct world *w, double n)
{
	recovered(w, 100);
	alert_count(&w->subject, COUNT_MISTAKES, w->now_us, n);
}

static void exhausted(struct world *w, double n)
{
	alert_count(&w->subject, COUNT_EXHAUSTED, w->now_us, n);
}

static void brake(struct world *w, double n)
{
	w->subject.now.braking = n > 0;
}

static void late(struct world *w, double s)
{
	w->subject.now.late_s = s;
}

static void away(struct world *w, double s)
{
	w->subject.now.away_s = s;
}

static void aside(struct world *w, double n)
{
	w->subject.now.set_aside = n;
}

static void unstarted(struct world *w, double n)
{
	w->subject.now.scanned = true;
	w->subject.now.unstarted = n;
}

/* Quiet below and at the limit (of stuck_doubled: below), firing above it (there: at it). */
static const struct {
	enum alert_id id;
	void (*make)(struct world *w, double n);
	double below, at, above;
	const char *says;
} lives[] = {
	{ALERT_STUCK_WARNING, stuck, 9, 10, 11, "11 jobs are stuck (alert above 10)"},
	{ALERT_STUCK_CRITICAL, stuck, 49, 50, 51, "51 jobs are stuck (alert above 50)"},
	{ALERT_STUCK_DOUBLED, doubled, 15, 29, 30,
     "2 times as many jobs are stuck as at the lowest point within 1h (alert from 2 times)"},
	{ALERT_STUCK_LONG, oldest, 3599, 3600, 3601,
     "a stuck job gave its last sign of life just over 1h before it was last found (alert above "
     "1h)"},
	{ALERT_CONNECTION_FAILURES, failures, 9, 10, 11,
     "1.1 % of the attempts to use the database within 5m failed (alert above 1 %)"},
	{ALERT_RECOVERED_MANY, recovered, 9, 10, 11,
     "11 jobs were recovered within 1h (alert above 10)"},
	{ALERT_RECOVERED_FAST, recovered, 29, 30, 31,
     "0.103 jobs per second were recovered over 5m (alert above 0.1)"},
	{ALERT_DETECTION_SLOW, found_after, 299, 300, 301,
     "jobs were found 5m 1s after their last sign of life, on average within 1h (alert above 5m)"},
	{ALERT_RECOVERY_RATE, of_100_decided, 91, 90, 89,
     "only 89 % of the jobs found stuck within 1h were recovered, the rest are on hold or were "
     "only reported (alert below 90 %)"},
	{ALERT_FALSE_POSITIVES, mistakes_of_100, 4, 5, 6,
     "6 % of the recoveries within 1d were false positives: their workers were alive (alert above "
     "5 %)"},
	{ALERT_RETRIES_EXHAUSTED, exhausted, 0, 0, 1, "1 job has run out of attempts within 1h"},
	{ALERT_BRAKE_HELD, brake, 0, 0, 1,
     "the brake holds recovery: most workers fell silent at once"},
	{ALERT_SCAN_OVERDUE, late, -100, 30, 31,
     "no scan has finished for three intervals and 31s more (alert above 30s): stuck jobs stay "
     "stuck"},
	{ALERT_DATABASE_AWAY, away, 0, 60, 61,
     "the database has not answered for 1m 1s (alert above 1m)"},
	{ALERT_RESULTS_SET_ASIDE, aside, 0, 0, 1,
     "1 job has ended and the database refuses to record it: a missing right, table or constraint "
     "is the cause (defib status names it)"},
	{ALERT_UNSTARTED, unstarted, 0, 0, 12,
     "12 jobs have waited too long and nobody starts them (defib status says why)"},
};
_Static_assert(sizeof lives / sizeof *lives == ALERT_COUNT, "each rule has its life");

/* A day later no window contains it any more; current facts are set to good values. */
static void a_day_later_all_is_well(struct world *w)
{
	w->now_us += 25 * HOUR;
	w->subject.now = (struct alert_facts){.scanned = true};
	stuck(w, 0);
}

#endif
