/* SPDX-License-Identifier: Apache-2.0
 * rules.h: when an alert rule fires, and when it resolves. Pure: takes events and the time, returns
 * changes.
 *
 *   alert_subject, alert_count()  the current state, and events, as they become known
 *   alert_measure()                the number that a rule computes, and whether it is too high
 *   alert_step()                   what that means for an alert that is quiet, pending or firing
 *
 * An alert is `pending` while its condition holds but not yet for the rule's `for`, then `firing`;
 * it is `resolved` when the condition has not held for as long. A rule that does not have enough
 * data yet (a daemon that has just started has no hour behind it) changes nothing, so that a daemon
 * that takes over neither fires again nor forgets.
 */
#ifndef ALERT_RULES_H
#define ALERT_RULES_H

#include "alert/alerts.h"

/*
 * Numbers of the last hour (or any other span), in a fixed number of cells: their sum, or their
 * minimum. Numbers older than the span drop out one cell at a time, so a sum is exact to a sixtieth
 * of the span. Instants are in microseconds and may come in any order within the span.
 */
#define WINDOW_CELLS 60

struct window {
	int64_t cell_us;  /* 0: not in use */
	int64_t newest;   /* number of the newest cell, in cells since 1970 */
	int64_t began_us; /* when the first number came; 0: none yet */
	bool least;       /* cells hold the minimum, else the sum */
	bool used[WINDOW_CELLS];
	double cells[WINDOW_CELLS];
};

/* Give the window this span and empty it; a window that already has the span is unchanged. */
void window_span(struct window *w, int64_t span_us, bool least);
void window_add(struct window *w, int64_t at_us, double n);
double window_sum(struct window *w, int64_t now_us);
/* False: there are no numbers. */
bool window_least(struct window *w, int64_t now_us, double *least);
/* Whether the whole span is covered. */
bool window_full(const struct window *w, int64_t now_us);

/* ---- data about a watch, or about a database as a whole ---- */

/* Events that are counted over windows. */
enum alert_counter {
	COUNT_NOTHING,
	COUNT_STUCK, /* not a sum: stuck jobs, at each scan */
	COUNT_TRIES, /* attempts to use the database … */
	COUNT_FAILURES,
	COUNT_RECOVERED, /* as ledger/events.h defines it, without operators' acts */
	COUNT_DETECTED,  /* likewise: recovered, put on hold or only reported */
	COUNT_MISTAKES,
	COUNT_EXHAUSTED,
	COUNT_FOUND_S, /* seconds from the last sign of life to the decision, of … */
	COUNT_FOUND,   /* … this many jobs */
};

/* The current state. */
struct alert_facts {
	bool scanned;        /* a scan has finished, so that the next two are known */
	double stuck;        /* jobs, before any was recovered; the maximum since the last evaluation */
	double oldest_s;     /* age of the oldest sign of life of a stuck job */
	bool starts_unknown; /* whether jobs that are due are being started */
	double unstarted;    /* jobs that are due and that nobody starts, at the last scan */
	double braking;      /* 1: the brake holds */
	double late_s;       /* since a scan should have finished; 0 or less: it is on time */
	double away_s;       /* since the database last answered */
	double set_aside;    /* results that workers keep on disk because the database refuses them */
};

struct alert_subject {
	struct alert_facts now;
	struct window tops[ALERT_COUNT], bottoms[ALERT_COUNT]; /* by rule; not all are in use */
};

/* Set the windows to the spans of the rules; one whose span is unchanged keeps its contents. */
void alert_windows(struct alert_subject *s, const struct alert_rule *rules);
/* Count `n` more at that time. */
void alert_count(struct alert_subject *s, enum alert_counter what, int64_t at_us, double n);

/* ---- rules ---- */

enum alert_answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };
struct alert_reading {
	enum alert_answer answer;
	double value;
};
struct alert_reading alert_measure(struct alert_subject *s, const struct alert_rule *r,
                                   int64_t now_us);

enum alert_state { STATE_RESOLVED, STATE_PENDING, STATE_FIRING };
extern const char *const alert_states[]; /* "resolved", "pending", "firing", NULL */

/* One rule for one watch. Zero: it never fired. */
struct alert {
	enum alert_state state;
	int64_t since_us;    /* since when it has this state */
	int64_t fired_us;    /* when it last started to fire: identifies the episode; 0: never */
	int64_t calm_us;     /* firing, but the condition has not held since; 0: it holds */
	int64_t notified_us; /* when a message was last made for it */
	int64_t repeats;     /* repeated messages of this episode */
	double value;
};

enum alert_change {
	CHANGE_NONE,
	CHANGE_STATE, /* another state or number, without a message */
	CHANGE_FIRED,
	CHANGE_AGAIN, /* it still fires, and a repeated message is due */
	CHANGE_RESOLVED,
};
/* What a reading means at this time; updates the alert. */
enum alert_change alert_step(const struct alert_rule *r, const struct alert_reading *m,
                             int64_t now_us, struct alert *a);

/* The rule's sentence with its numbers: "12 jobs are stuck (alert above 10)". */
struct buf;
void alert_sentence(const struct alert_rule *r, double value, struct buf *out);
/* A number in the rule's unit, for people: "6.3 %", "1h 5m". */
void alert_amount(const struct alert_rule *r, double value, struct buf *out);

#endif
