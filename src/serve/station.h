/*
 * station.h: one database of the daemon, in a thread of its own.
 */
#ifndef SERVE_STATION_H
#define SERVE_STATION_H

#include "ledger/retention.h"
#include "serve/alarm.h"
#include "serve/daemon.h"
#include "serve/mailings.h"
#include "serve/post.h"
#include "worker/side_tick.h"

#include <pthread.h>
#include <stdatomic.h>

struct station {
	const struct daemon_options *options;
	char *name, *url; /* of its database */
	pthread_t thread;
	int poke; /* eventfd: wake up, look at `stop` and at the configuration */
	struct alarm *alarm;
	atomic_bool stop, ended;
	atomic_int_least64_t round_ms; /* when the loop last went round, by CLOCK_BOOTTIME */
	/* the thread's own */
	struct setup *setup; /* held */
	const struct database *database;
	struct session session;
	struct vigil vigil;
	struct arena arena; /* of a round */
	struct arena keep;  /* the built-in watch */
	struct post **posts;
	int nposts;
	struct post *at;   /* whose pass goes on */
	bool tables;       /* leadership and words can be had */
	bool closed;       /* … and this role may not have them */
	bool server_asked; /* when it was started */
	int64_t tables_ms; /* when to look for them again */
	int64_t renew_ms, led_until_ms, words_ms, count_ms,
		queue_ms;       /* when to ask; till when we lead */
	int64_t ask_all_ms; /* when to ask for all watches again, also those that we lead */
	int64_t started_ms; /* when this daemon came to this database */
	int failures;       /* in a row, for the pause between tries */
	struct readings readings;
	int64_t beats_ms;          /* when to look again how workers beat */
	int64_t ends_ms;           /* and for programs that ended with their watchers */
	bool asked, up;            /* as the board was told last … */
	int64_t since_us;          /* … and since when it is so */
	struct mailings *mailings; /* reports that are due */
	struct retention_tick retention;
	struct side_tick side; /* new work that came while the database was away */
	uint64_t chance;
};

/* `setup` is held by the station for as long as it goes by it. */
struct station *station_start(const struct daemon_options *o, struct setup *setup,
                              const struct database *d);
/* Whether it looks after this very database: its name and its URL. */
bool station_serves(const struct station *s, const struct database *d);
/* There is something to look at: another configuration. */
void station_poke(struct station *s);
/* Ask it to stop, then wait for it. */
void station_ask_stop(struct station *s);
void station_end(struct station *s);

/* station_board.c: how a watch is, and whether the database answered (`f` NULL: it did). */
struct post;
void station_show_watch(struct station *s, const struct post *p);
void station_show_database(struct station *s, const struct failure *f);

#endif
