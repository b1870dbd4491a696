/* SPDX-License-Identifier: Apache-2.0
 * rules.h: when a rule of alerts fires, and when it is over. Pure: what happened and
 * the time are handed in, changes come out.
 *
 *   alert_note() / alert_count()   what is, and what happened, as it becomes known
 *   alert_measure()                what a rule makes of it: a number, and whether it is too much
 *   alert_step()                   what that means for an alert that is quiet, pending or firing
 *
 * An alert is `pending` while it is so but not yet for as long as the rule's `for`, then
 * `firing`; it is `resolved` when it has not been so for as long. What a rule cannot
 * know yet (a daemon that has just started has no hour behind it) changes nothing: so
 * that whoever takes over neither fires again nor forgets.
 */
#ifndef ALERT_RULES_H
#define ALERT_RULES_H

#include "alert/alerts.h"

/*
 * Numbers of the last hour (or any other span), in a fixed number of cells: their sum, or the least
 * of them. What is older than the span drops out a cell at a time, so that a sum is exact to a
 * sixtieth of the span. Instants are in microseconds and may come in any order within the span.
 */
#define WINDOW_CELLS 60

struct window {
	int64_t cell_us;  /* 0: not in use */
	int64_t newest;   /* number of the newest cell, in cells since 1970 */
	int64_t began_us; /* when the first number came; 0: none did */
	bool least;       /* cells keep the least of what came, else the sum */
	bool used[WINDOW_CELLS];
	double cells[WINDOW_CELLS];
};

/* A window of this span, empty; one that has it already is left as it is. */
void window_span(struct window *w, int64_t span_us, bool least);
void window_add(struct window *w, int64_t at_us, double n);
double window_sum(struct window *w, int64_t now_us);
/* False: there is none. */
bool window_least(struct window *w, int64_t now_us, double *least);
/* Whether numbers came for the whole span. */
bool window_full(const struct window *w, int64_t now_us);

/* ---- what is known of a watch, or of a database as a whole ---- */

/* Things that happen and are counted over windows. */
enum alert_counter {
	COUNT_NOTHING,
	COUNT_STUCK, /* not a sum: stuck jobs, at each scan */
	COUNT_TRIES, /* to use the database … */
	COUNT_FAILURES,
	COUNT_RECOVERED, /* as ledger/events.h defines it, without what persons did */
	COUNT_DETECTED,  /* the same: recovered, put on hold or only reported */
	COUNT_MISTAKES,
	COUNT_EXHAUSTED,
	COUNT_FOUND_S, /* seconds from the last sign of life to the decision, of … */
	COUNT_FOUND,   /* … so many jobs */
};

/* How it is now. */
struct alert_facts {
	bool scanned;     /* a scan has been made, so that the first two are known */
	double stuck;     /* jobs, before any was reset; the most since it was last asked */
	double oldest_s;  /* age of the oldest sign of life of a stuck job */
	double braking;   /* 1: the brake holds */
	double late_s;    /* since a scan should have finished; not above 0: it is in time */
	double away_s;    /* since the database last answered */
	double set_aside; /* results that workers keep because the database refuses them */
};

struct alert_subject {
	struct alert_facts now;
	struct window tops[ALERT_COUNT], bottoms[ALERT_COUNT]; /* by rule; not all are in use */
};

/* Windows are as long as the rules say; what they hold is kept where the length is the same. */
void alert_windows(struct alert_subject *s, const struct alert_rule *rules);
/* `n` more of something, then. */
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

/* One rule of one watch. Zero: it never fired. */
struct alert {
	enum alert_state state;
	int64_t since_us; /* since when it is in this state */
	int64_t fired_us; /* when it last came to fire: names the episode; 0: never */
	int64_t calm_us;  /* firing, but not so any more since; 0: it is */
	int64_t told_us;  /* when a message was last made of it */
	int64_t repeats;  /* messages of this episode that said the same again */
	double value;
};

enum alert_change {
	CHANGE_NONE,
	CHANGE_STATE, /* another state or number that nobody need be told of */
	CHANGE_FIRED,
	CHANGE_AGAIN, /* it still fires, and its time to be told again has come */
	CHANGE_RESOLVED,
};
/* What a reading means at this time; the alert is changed accordingly. */
enum alert_change alert_step(const struct alert_rule *r, const struct alert_reading *m,
                             int64_t now_us, struct alert *a);

/* The rule's sentence with its numbers: "12 jobs are stuck (alert above 10)". */
struct buf;
void alert_sentence(const struct alert_rule *r, double value, struct buf *out);
/* A number in the rule's unit, for people: "6.3 %", "1h 5m". */
void alert_amount(const struct alert_rule *r, double value, struct buf *out);

#endif
