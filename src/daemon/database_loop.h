/* SPDX-License-Identifier: Apache-2.0
 * database_loop.h: one database of the daemon, in a thread of its own.
 */
#ifndef DAEMON_DATABASE_LOOP_H
#define DAEMON_DATABASE_LOOP_H

#include "base/clock.h"
#include "daemon/alert_loop.h"
#include "daemon/daemon.h"
#include "daemon/scheduled_reports.h"
#include "daemon/watch_loop.h"
#include "ledger/retention.h"
#include "worker/stored_jobs.h"

#include <pthread.h>
#include <stdatomic.h>

struct database_loop {
	const struct daemon_options *options;
	char *name, *url; /* of its database */
	pthread_t thread;
	int poke; /* eventfd: wake up, look at `stop` and at the configuration */
	struct alert_loop *alerts;
	atomic_bool stop, ended;
	atomic_int_least64_t round_ms; /* when the loop last went round, by CLOCK_BOOTTIME */
	/* the thread's own */
	struct live_settings *setup; /* held */
	const struct database *database;
	struct session session;
	struct absence absence;
	struct arena arena; /* of a round */
	struct arena keep;  /* the built-in watch */
	struct watch_loop **loops;
	int nloops;
	struct watch_loop *at; /* whose pass is under way */
	bool tables;           /* defib's own tables can be used */
	bool closed;           /* … and this role has no rights on them */
	bool server_asked;     /* when it was started */
	int64_t tables_ms;     /* when to look for them again */
	int64_t renew_ms, led_until_ms, overrides_ms, count_ms,
		queue_ms;       /* when to ask; till when we lead */
	int64_t ask_all_ms; /* when to ask for all watches again, also those that we lead */
	int64_t started_ms; /* when this daemon came to this database */
	int failures;       /* in a row, for the pause between tries */
	struct readings readings;
	int64_t beats_ms; /* when to look again how workers beat */
	int64_t ends_ms;  /* and for programs that ended with their watchers */
	bool asked, up;   /* as the overview was told last … */
	int64_t since_us; /* … and since when it is so */
	struct scheduled_reports *scheduled_reports; /* reports that are due */
	struct retention_tick retention;
	struct stored_jobs_timer spooled; /* new work that came while the database was away */
	struct chance chance;
};

/* `setup` is held by the database loop for as long as it goes by it. */
struct database_loop *database_loop_start(const struct daemon_options *o,
                                          struct live_settings *setup, const struct database *d);
/* Whether it looks after this very database: its name and its URL. */
bool database_loop_serves(const struct database_loop *s, const struct database *d);
/* There is something to look at: another configuration. */
void database_loop_poke(struct database_loop *s);
/* Ask it to stop, then wait for it. */
void database_loop_ask_stop(struct database_loop *s);
void database_loop_end(struct database_loop *s);

/* The state of a watch, and whether the database answered (`f` NULL: it did). */
struct watch_loop;
void database_loop_show_watch(struct database_loop *s, const struct watch_loop *p);
void database_loop_show_database(struct database_loop *s, const struct failure *f);

/* ---- which of its watches it leads (database_loop_leader.c; life/leader.h) ---- */

/* Renew what is led and ask for what is not; says in the log what turns. */
MUST_CHECK defib_err database_loop_ask_to_lead(struct database_loop *s, struct failure *f);
/* The database is away: nothing is led until it was asked again. */
void database_loop_step_down(struct database_loop *s);

/*
 * Find or make them, and set s->tables. A role that may neither make nor use them has them made
 * by a DBA: until then the watches are scanned without them, and what is off is logged once.
 */
MUST_CHECK defib_err database_loop_tables(struct database_loop *s, struct failure *f);

#endif
