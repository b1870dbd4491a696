/* SPDX-License-Identifier: Apache-2.0
 * daemon.h: the room of the daemon. Every watch is scanned at its interval by the one daemon that
 * leads it, under guards. There is one thread and one session per database, so that a database
 * that is down delays no other. Passes of one watch never overlap; missed ones are replaced by one.
 * Begin with database_loop.c.
 *
 * daemon.c         threads: start, stop, reload, progress for the watchdog; the overview, from
 *                  which HTTP answers
 * database_loop.c  one database: session, leadership, which watch is next
 * watch_loop.c     one watch: its passes, its guard, its log lines, its run times
 * alert_loop.c     alerts of one database; scheduled_reports.c: reports that are due
 * metrics.c        numbers for Prometheus, from watch_metrics.c, readings.c and heartbeats.c
 * sampling.c       the same numbers over time, for charts (insight/series.h)
 * pools.c          worker processes (`daemon --work`)
 * settings.c       the configuration in force
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/settings.h"

struct heartbeats;
struct overview;
struct metrics;
struct events;

struct daemon_options {
	struct live_settings_box *setups; /* the configuration in force */
	struct overview *overview;        /* receives the state of everything */
	struct heartbeats *beats;         /* NULL: heartbeats are not recorded */
	struct metrics *metrics;          /* NULL: no metrics */
	struct events *events;            /* NULL: no live events */
	const char *name;                 /* of this daemon, unique */
	const char *actor;                /* for the ledger */
};

struct daemon;

/* Starts one thread per database. Never fails for a database that is down: it is retried. */
struct daemon *daemon_start(const struct daemon_options *o);
/*
 * Another configuration is in force. Database loops switch between two rounds, so that no batch
 * uses two. Loops whose database was removed are asked to stop; loops for new ones are started.
 */
void daemon_reload(struct daemon *d);
/* Call from time to time: frees database loops that have stopped since a reload. */
void daemon_tidy(struct daemon *d);
/*
 * How long ago, in milliseconds, the slowest database loop made its last round: for a watchdog.
 * From any thread.
 */
int64_t daemon_idle_ms(struct daemon *d);
/* Stop after the current batch, step down, end. */
void daemon_stop(struct daemon *d);

/*
 * ---- the overview ----
 * The state of everything, as the database loops last reported it: for answers without a database
 * query, and while a database is unavailable. Database loops write after each round and each pass,
 * HTTP reads; both copy under one lock that is never held for longer than that.
 */

struct overview *overview_new(void);
void overview_free(struct overview *b);

/* A database, as seen by its loop. */
struct overview_database {
	const char *name;
	bool asked; /* it was queried at all since the start */
	bool up;
	const char *error; /* why it is unavailable; NULL: it is available */
	int64_t since_us;  /* wall clock: up or unavailable since */
	int64_t round_ms;  /* CLOCK_BOOTTIME: last round of its database loop */
};

/* A watch, as seen by its database loop. */
struct overview_watch {
	const char *name, *database;
	bool leads; /* this daemon */
	bool paused, braking, doubting;
	int firing;         /* alerts of it and of its database; preserved by overview_put_watch() */
	int64_t passed_us;  /* the database's clock at our last finished pass; 0: none */
	int64_t passed_ms;  /* the same by CLOCK_BOOTTIME */
	const char *info;   /* JSON object (watch_loop_info()); NULL: no pass yet */
	const char *failed; /* of the last pass; NULL: it succeeded */
};

/* Texts are copied. An entry with the same name (and database) is replaced. */
void overview_put_database(struct overview *b, const struct overview_database *d);
void overview_put_watch(struct overview *b, const struct overview_watch *w);
/* How many alerts of a watch fire; ignored for a watch that is not there. */
void overview_put_firing(struct overview *b, const char *database, const char *name, int firing);
/* Those that a reload removed. */
void overview_drop_watch(struct overview *b, const char *database, const char *name);
void overview_drop_database(struct overview *b, const char *name);

/* A copy of everything, in the arena, in order of first appearance. */
struct overview_view {
	struct overview_database *databases;
	int ndatabases;
	struct overview_watch *watches;
	int nwatches;
};
void overview_read(struct overview *b, struct arena *a, struct overview_view *out);
/* It was queried, and is unavailable. */
bool overview_is_down(struct overview *b, const char *database);

#endif
