/* SPDX-License-Identifier: Apache-2.0
 * alert_loop.h: alerts of one database in the daemon, with a thread and a session of their own, so
 * that neither a sink nor a statement of ours ever delays a scan.
 *
 * After each round the database loop reports the state of the watches (alert_loop_round()). Every
 * `alerts.every` the alert loop evaluates the rules of the watches that this daemon leads, writes
 * changes and their messages in one transaction, and sends what is due, including what other
 * daemons left. While the database itself is unavailable, the alert about that is made and sent
 * from memory, and recorded when the database is back.
 *
 * alert_loop.c        the thread; reports of the database loop
 * alert_loop_judge.c  evaluates the rules, with and without the database
 * alert_loop_send.c   empties the outbox
 */
#ifndef DAEMON_ALERT_LOOP_H
#define DAEMON_ALERT_LOOP_H

#include "alert/alert_store.h"
#include "alert/message.h"
#include "alert/sinks.h"
#include "base/clock.h"
#include "daemon/watch_loop.h"

struct alert_loop;
/* For the database of that name; `url` and options must outlive it. */
struct alert_loop *alert_loop_start(const struct daemon_options *o, const char *database,
                                    const char *url);
/* A round of the database loop is complete. `up`: the database answered. */
void alert_loop_round(struct alert_loop *a, struct watch_loop *const *loops, int n, bool up);
/* Ask it to stop, then wait for it: messages being sent have a moment to finish. */
void alert_loop_ask_stop(struct alert_loop *a);
void alert_loop_end(struct alert_loop *a);

/* ---- what the files of the alert loop share ---- */

/*
 * Messages being sent, one thread each: a sink that hangs delays nothing but its own next message.
 * One per sink at a time.
 */
struct senders {
	struct live_settings_box *setups;
	int wake; /* eventfd: written when one has finished */
	atomic_bool stop;
	struct sender *away; /* a list */
};

/* One message being sent. */
struct sender {
	struct sender *next;
	struct senders *all;
	pthread_t thread;
	bool threaded;
	atomic_bool back;
	struct live_settings *setup; /* held until it is freed */
	const struct alert_sink *sink;
	struct delivery delivery; /* its texts are in the arena */
	bool memory;              /* the message is in no outbox */
	struct sink_answer answer;
	struct arena arena;
};

/* What passes found since the rules were last evaluated. Several passes may fit in between. */
struct pass_extremes {
	bool any;
	double least_stuck, most_stuck, oldest_s;
};

/* What the database loop reported about a watch; times by CLOCK_BOOTTIME. */
struct watch_report {
	bool there, leads, scanned, braking;
	int64_t passes, every_ms, led_ms, passed_ms;
	double stuck, oldest_s; /* at the last pass */
	bool starts_unknown;
	double unstarted;
	char because[512]; /* why, in words */
	struct pass_extremes since;
};

/* A watch, or the database as a whole (the first, named ALERT_ANY). */
struct subject {
	char *watch;
	struct watch_report seen;    /* under the loop's lock */
	struct alert_subject counts; /* the rest is private to the thread */
	struct alert_rule rules[ALERT_COUNT];
	struct alert
		alerts[ALERT_COUNT]; /* from the database, or from memory while it is unavailable */
	char because[512];       /* why jobs are not started */
	bool fresh;              /* the past entries of the ledger are not counted yet */
	bool over;               /* no longer watched, and its alerts are resolved */
};

/* A message that was made while the database was unavailable. */
struct memo {
	struct memo *next;
	char *sink, *id, *document, *topic;
	int64_t tries, due_ms;
	bool sent, away; /* away: being sent */
};

struct alert_loop {
	const struct daemon_options *options;
	char *database;
	pthread_t thread;
	atomic_bool stop;
	int wake; /* eventfd */

	pthread_mutex_t lock;
	bool up;
	int64_t answered_ms; /* when the database last answered */
	double tries, failures;
	struct subject **subjects;
	int nsubjects;

	/* private to the thread */
	struct session session;
	struct arena arena;           /* of a turn */
	struct live_settings *setup;  /* held for a turn */
	struct subject **now;         /* those of this turn; the database is the first */
	struct watch_report *reports; /* one each */
	int nnow;
	bool tables, failing;
	int64_t cursor;   /* in the ledger */
	int64_t clock_us; /* add to our clock (CLOCK_BOOTTIME) to get the database's clock */
	double worker_tries, worker_failures;
	int64_t judge_ms, look_ms, tidy_ms; /* next times */
	bool away;                          /* alerts are made from memory */
	struct memo *memos;
	double firing[ALERT_COUNT][3]; /* as the metrics have them */
	struct senders senders;
	struct chance chance;
};

/* Copies what the database loop reported to the facts of the rules, as of that time. */
void alert_loop_gather(struct alert_loop *a, int64_t now_us);
/* The evaluation was not recorded: the next one gets what this one had gathered, too. */
void alert_loop_give_back(struct alert_loop *a);
/* A message for each sink of the rule; returns how many were added to `out`. */
int alert_loop_messages(struct alert_loop *a, const struct subject *s, const struct alert_rule *r,
                        const struct alert *alert, enum alert_change change, int64_t at_us,
                        struct outgoing *out);
/* The row of a change, and its sentence. */
struct alert_row alert_loop_row(struct alert_loop *a, const struct subject *s,
                                const struct alert_rule *r, const struct alert *alert);

#endif
