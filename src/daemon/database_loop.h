/* SPDX-License-Identifier: Apache-2.0
 * database_loop.h: one database of the daemon, in its own thread.
 */
#ifndef DAEMON_DATABASE_LOOP_H
#define DAEMON_DATABASE_LOOP_H

#include "daemon/alert_loop.h"
#include "daemon/background_acts.h"
#include "daemon/scheduled_reports.h"

#include <pthread.h>
#include <stdatomic.h>

struct database_loop {
	const struct daemon_options *options;
	char *name, *url; /* of its database */
	pthread_t thread;
	int poke; /* eventfd: wake up, check `stop` and the configuration */
	struct alert_loop *alerts;
	atomic_bool stop, ended;
	atomic_int_least64_t round_ms; /* last round of the loop, by CLOCK_BOOTTIME */
	/* private to the thread */
	struct live_settings *setup; /* held */
	const struct database *database;
	struct session session;
	struct absence absence;
	struct arena arena; /* of a round */
	struct arena keep;  /* of the built-in watch */
	struct watch_loop **loops;
	int nloops;
	struct watch_loop *at; /* the watch whose pass is under way */
	bool tables;           /* defib's own tables can be used */
	bool closed;           /* … and this role has no privileges on them */
	bool server_asked;     /* its start time was read */
	int64_t tables_ms;     /* when to check for them again */
	int64_t renew_ms, led_until_ms, overrides_ms, count_ms,
		queue_ms;       /* when to ask; until when we lead */
	int64_t ask_all_ms; /* when to ask for all watches again, including those that we lead */
	int64_t started_ms; /* when this daemon started with this database */
	int failures;       /* consecutive, for the pause between tries */
	struct readings readings;
	int64_t beats_ms; /* when to read the renewals of workers next */
	int64_t ends_ms;  /* and to check for programs that ended with their watchers */
	bool asked, up;   /* as last reported to the overview … */
	int64_t since_us; /* … and since when */
	struct scheduled_reports *scheduled_reports; /* reports that are due */
	struct retention_tick retention;
	struct background_acts background; /* acts on all matching jobs */
	struct stored_jobs_timer spooled; /* new jobs that arrived while the database was unavailable */
	struct chance chance;
};

/* The database loop holds `setup` while it uses it. */
struct database_loop *database_loop_start(const struct daemon_options *o,
                                          struct live_settings *setup, const struct database *d);
/* Whether it serves exactly this database: the same name and URL. */
bool database_loop_serves(const struct database_loop *s, const struct database *d);
/* Wake it up: there is another configuration. */
void database_loop_poke(struct database_loop *s);
/* Ask it to stop, then wait for it. */
void database_loop_ask_stop(struct database_loop *s);
void database_loop_end(struct database_loop *s);

/* The state of a watch, and whether the database answered (`f` NULL: it did). */
struct watch_loop;
/* ---- which of its watches it leads (database_loop_leader.c; life/leader.h) ---- */

#endif
