/*
 * daemon.h: the watch that never ends: every watch is scanned at its interval by
 * the one daemon that leads it, under guards.
 *
 * One thread and one session a database (a station), so that a database that
 * is down keeps no other waiting. Passes of one watch never overlap, and those
 * that were missed are made up for by one.
 *
 * daemon.c    threads: start, stop, progress for the watchdog
 * station.c   one database: session, leadership, whose turn it is
 * post.c      one watch: its pass, its guard, what is told of it
 * lessons.c   what is learnt of a watch: run times, and recoveries that were mistakes
 */
#ifndef SERVE_DAEMON_H
#define SERVE_DAEMON_H

#include "watch/settings.h"

struct daemon_options {
	const struct settings *settings;
	const bool *chosen; /* one a watch of the settings */
	bool queue;         /* also the built-in queue, where a database has it */
	const char *name;   /* of this daemon, unlike any other's */
	const char *actor;  /* for the ledger */
};

struct daemon;

/* Starts a thread a database. Never fails for a database that is down: it is tried again. */
struct daemon *daemon_start(const struct daemon_options *o);
/*
 * How long ago, in milliseconds, the slowest station last went round its loop:
 * what a watchdog goes by.
 */
int64_t daemon_idle_ms(struct daemon *d);
/* Stop after the batch at hand, step down, end. */
void daemon_stop(struct daemon *d);

#endif
