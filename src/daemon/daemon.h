/* SPDX-License-Identifier: Apache-2.0
 * daemon.h: the room of the daemon. Every watch is scanned at its interval by the one daemon that
 * leads it, under guards. There is one thread and one session per database, so that a database
 * that is down delays no other. Passes of one watch never overlap; missed ones are replaced by one.
 * Begin with database_loop.c.
 *
 * daemon.c         threads: start, stop, reload, progress for the watchdog
 * database_loop.c  one database: session, leadership, which watch is next
 * watch_loop.c     one watch: its passes, its guard, its log lines, its run times
 * alert_loop.c     alerts of one database; scheduled_reports.c: reports that are due
 * metrics.c        numbers for Prometheus, from watch_metrics.c, readings.c and heartbeats.c
 * pools.c          worker processes (`daemon --work`)
 * overview.c       what HTTP answers from memory; settings.c: the configuration in force
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/overview.h"
#include "daemon/settings.h"

struct heartbeats;
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

#endif
