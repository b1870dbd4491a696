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
 * pools.c          worker processes (`daemon --work`)
 * settings.c       the configuration in force
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "base/mem.h"
#include "base/text.h"
#include "daemon/settings.h"

struct heartbeats;
struct overview;
struct metrics;
struct events;

struct daemon_options {
	struct live_settings_box *setups; /* the configuration in force */
	struct overview *overview;        /* where everything is shown */
	struct heartbeats *beats;         /* NULL: heartbeats are not recorded */
	struct metrics *metrics;          /* NULL: no metrics */
	struct events *events;            /* NULL: no live events */
	const char *name;                 /* of this daemon, unlike any other's */
	const char *actor;                /* for the ledger */
};

struct daemon;

/* Starts a thread a database. Never fails for a database that is down: it is tried again. */
struct daemon *daemon_start(const struct daemon_options *o);
/*
 * Another configuration is in force. Database loops take it between two rounds, so that no
 * batch meets two; those whose database is gone are asked to stop, those of new ones are started.
 */
void daemon_reload(struct daemon *d);
/* From time to time: database loops that have stopped since a reload are put away. */
void daemon_tidy(struct daemon *d);
/*
 * How long ago, in milliseconds, the slowest database loop last went round its loop:
 * what a watchdog goes by. From any thread.
 */
int64_t daemon_idle_ms(struct daemon *d);
/* Stop after the batch at hand, step down, end. */
void daemon_stop(struct daemon *d);

/*
 * ---- the overview ----
 * The state of everything, as the database loops last reported it: what is answered without asking
 * a database, and while one is away. Database loops write after each round and each pass, HTTP
 * reads; both copy under one lock that is never held for longer than that.
 */

struct overview *overview_new(void);
void overview_free(struct overview *b);

/* A database, as its database loop sees it. */
struct overview_database {
	const char *name;
	bool asked; /* it was asked at all since the start */
	bool up;
	const char *error; /* why not; NULL: it is */
	int64_t since_us;  /* wall clock: up or away since */
	int64_t round_ms;  /* CLOCK_BOOTTIME: when its database loop last went round */
};

/* A watch, as its database loop sees it. */
struct overview_watch {
	const char *name, *database;
	bool leads; /* this daemon */
	bool paused, braking, doubting;
	int firing;         /* alerts of it and of its database; kept by overview_put_watch() */
	int64_t passed_us;  /* the database's clock at the last finished pass of ours; 0: none */
	int64_t passed_ms;  /* the same by CLOCK_BOOTTIME */
	const char *info;   /* JSON object (watch_loop_info()); NULL: no pass yet */
	const char *failed; /* of the last pass; NULL: it went well */
};

/* Texts are copied. What has the same name (and database) is replaced. */
void overview_put_database(struct overview *b, const struct overview_database *d);
void overview_put_watch(struct overview *b, const struct overview_watch *w);
/* How many alerts of a watch fire; one that is not there is passed over. */
void overview_put_firing(struct overview *b, const char *database, const char *name, int firing);
/* Those that a reload took away. */
void overview_drop_watch(struct overview *b, const char *database, const char *name);
void overview_drop_database(struct overview *b, const char *name);

/* A copy of all, in the arena, in the order in which they first came. */
struct overview_view {
	struct overview_database *databases;
	int ndatabases;
	struct overview_watch *watches;
	int nwatches;
};
void overview_read(struct overview *b, struct arena *a, struct overview_view *out);
/* It was asked, and is away. */
bool overview_is_down(struct overview *b, const char *database);

#endif
