/* SPDX-License-Identifier: Apache-2.0
 * daemon.h: the watch that never ends: every watch is scanned at its interval by
 * the one daemon that leads it, under guards.
 *
 * One thread and one session per database (a database loop), so that a database that
 * is down keeps no other waiting. Passes of one watch never overlap, and those
 * that were missed are made up for by one.
 *
 * daemon.c    threads: start, stop, reload, progress for the watchdog
 * database_loop.c   one database: session, leadership, whose turn it is
 * watch_loop.c      one watch: its pass, its guard, what is told of it
 * learning.c   what is learnt of a watch: run times, and recoveries that were mistakes
 * watch_metrics.c     what happened, as metrics; readings.c what the database alone knows
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/live_settings.h"
#include "daemon/overview.h"

struct heartbeats;
struct metrics;
struct events;

struct daemon_options {
	struct live_settings_box *setups; /* the configuration in force */
	struct overview *overview;        /* where everything is shown */
	struct heartbeats *beats;         /* NULL: nobody asks how workers beat */
	struct metrics *metrics;          /* NULL: nobody counts */
	struct events *events;            /* NULL: nobody listens */
	const char *name;                 /* of this daemon, unlike any other's */
	const char *actor;                /* for the ledger */
};

struct daemon;

/* Starts a thread a database. Never fails for a database that is down: it is tried again. */
struct daemon *daemon_start(const struct daemon_options *o);
/*
 * Another configuration is in force. Stations take it between two rounds, so that no batch
 * meets two; those whose database is gone are asked to stop, those of new ones are started.
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
