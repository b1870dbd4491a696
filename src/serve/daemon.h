/*
 * daemon.h: the watch that never ends: every watch is scanned at its interval by
 * the one daemon that leads it, under guards.
 *
 * One thread and one session a database (a station), so that a database that
 * is down keeps no other waiting. Passes of one watch never overlap, and those
 * that were missed are made up for by one.
 *
 * daemon.c    threads: start, stop, reload, progress for the watchdog
 * station.c   one database: session, leadership, whose turn it is
 * post.c      one watch: its pass, its guard, what is told of it
 * lessons.c   what is learnt of a watch: run times, and recoveries that were mistakes
 * meter.c     what happened, as metrics; readings.c what the database alone knows
 */
#ifndef SERVE_DAEMON_H
#define SERVE_DAEMON_H

#include "serve/board.h"
#include "serve/setup.h"

struct beats;
struct metrics;
struct events;

struct daemon_options {
	struct setup_box *setups; /* the configuration in force */
	struct board *board;      /* where everything is shown */
	struct beats *beats;      /* NULL: nobody asks how workers beat */
	struct metrics *metrics;  /* NULL: nobody counts */
	struct events *events;    /* NULL: nobody listens */
	const char *name;         /* of this daemon, unlike any other's */
	const char *actor;        /* for the ledger */
};

struct daemon;

/* Starts a thread a database. Never fails for a database that is down: it is tried again. */
struct daemon *daemon_start(const struct daemon_options *o);
/*
 * Another configuration is in force. Stations take it between two rounds, so that no batch
 * meets two; those whose database is gone are asked to stop, those of new ones are started.
 */
void daemon_reload(struct daemon *d);
/* From time to time: stations that have stopped since a reload are put away. */
void daemon_tidy(struct daemon *d);
/*
 * How long ago, in milliseconds, the slowest station last went round its loop:
 * what a watchdog goes by. From any thread.
 */
int64_t daemon_idle_ms(struct daemon *d);
/* Stop after the batch at hand, step down, end. */
void daemon_stop(struct daemon *d);

#endif
