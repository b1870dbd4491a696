/*
 * station.h: one database of the daemon, in a thread of its own.
 */
#ifndef SERVE_STATION_H
#define SERVE_STATION_H

#include "serve/daemon.h"
#include "serve/post.h"

#include <pthread.h>
#include <stdatomic.h>

struct station {
	const struct daemon_options *options;
	const struct database *database;
	pthread_t thread;
	int poke; /* eventfd: wake up, look at `stop` */
	atomic_bool stop;
	atomic_int_least64_t round_ms; /* when the loop last went round, by CLOCK_BOOTTIME */
	/* the thread's own */
	struct session session;
	struct vigil vigil;
	struct arena arena; /* of a round */
	struct arena keep;  /* the built-in watch */
	struct post *posts;
	int nposts;
	struct post *at;                                    /* whose pass goes on */
	bool tables;                                        /* leadership and words can be had */
	int64_t renew_ms, led_until_ms, words_ms, queue_ms; /* when to ask again; till when we lead */
	int failures;                                       /* in a row, for the pause between tries */
	uint64_t chance;
};

struct station *station_start(const struct daemon_options *o, const struct database *d);
/* Ask it to stop, then wait for it. */
void station_ask_stop(struct station *s);
void station_end(struct station *s);

#endif
