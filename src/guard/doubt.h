/* SPDX-License-Identifier: Apache-2.0
 * doubt.h: while the observer itself was away, silence proves nothing, so silence that began in
 * that time is excused. Pure: every time is a parameter.
 *
 * An outage is any time in which we could not have seen a beat: our session was lost, the server
 * was down, read-only or replaced, or our own process was stopped or suspended. It lasts from the
 * last moment at which all was known to be well to the first such moment after it, by the
 * database's clock.
 *
 * After an outage, a live worker needs time to be heard again: `quiet`. Only time in which it could
 * have been heard counts, added up across later outages. So a link that breaks every few seconds
 * postpones a verdict, but not indefinitely. A job that was past its deadline before the outage is
 * still stuck.
 */
#ifndef GUARD_DOUBT_H
#define GUARD_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#define DOUBT_OUTAGES 32 /* remembered individually; beyond that, neighbours are merged */

struct outage {
	int64_t begin_us, end_us; /* the database's clock; both may be equal */
	int64_t clean_us;  /* time within it in which a beat could have been seen, if it was merged from
	                      several */
	const char *cause; /* static text: "session lost", "paused", "server restarted", … */
};

struct doubt {
	struct outage outages[DOUBT_OUTAGES]; /* oldest first, without overlaps */
	int n;
	int64_t well_us; /* when all was last known to be well; 0: never yet */
	int64_t total;   /* number of outages so far */
};

/* All is well at this moment. */
void doubt_well(struct doubt *d, int64_t now_us);
/*
 * There was an outage since all was last well, and it is over now. Before the first doubt_well(),
 * or if the clock is earlier than at the last one, its beginning is unknown, and all silence falls
 * into it. A step of the database's clock is an outage as well.
 */
void doubt_outage(struct doubt *d, int64_t now_us, const char *cause);
/*
 * Whether an outage excuses, at `now_us`, silence since `alive_us` that is stuck after `limit_us`.
 * If so, *until_us (may be NULL) is when the excuse ends unless another outage follows, and *cause
 * (may be NULL) names the outage.
 */
bool doubt_excuses(const struct doubt *d, int64_t alive_us, int64_t limit_us, int64_t quiet_us,
                   int64_t now_us, int64_t *until_us, const char **cause);
/* Time between the two instants in which a beat could have been seen. */
int64_t doubt_clean_us(const struct doubt *d, int64_t from_us, int64_t to_us);

/* ---- absence ---- */

/*
 * Whether we were away from a database: our session was replaced, our process was stopped or
 * suspended, or the database's clock disagrees with ours. Pure: readings are parameters.
 *
 * Daemons and the sweeps of workers keep a struct absence; what it finds excuses silence through
 * doubt.h. life/life.h makes the same two checks itself.
 */

/* Both clocks, read together. */
struct clocks {
	int64_t own_us; /* a clock that keeps counting during a suspend */
	int64_t database_us;
};
/* How far the database's clock was set forward (or back, if negative) between two readings. */
int64_t absence_jump_us(const struct clocks *last, const struct clocks *now);
/*
 * Whether a loop that was due to continue at `due_us` was stopped or suspended, by its own clock.
 */
bool absence_stopped(int64_t due_us, int64_t now_us);

struct absence {
	struct doubt doubt;
	int64_t opened;       /* the session of the last reading; 0: none yet */
	struct clocks clocks; /* at the last reading */
	int64_t tick_us;      /* our own clock at the loop's last tick */
	const char *cause;    /* why the next reading ends an outage; NULL: it does not */
	int64_t states;       /* number of the database's state at the last reading */
	bool rewound;         /* it is another one since, and may lack the last heartbeats */
};

/*
 * Call before the first reading: the server was started at that time. A worker that could not beat
 * before then gets its quiet time, however late the first look is.
 */
void absence_server_started(struct absence *v, int64_t start_us);
/* Call in every turn of the loop, at least every second or two. */
void absence_tick(struct absence *v, int64_t boot_us);
/* We know that we cannot see anything now: a call failed, or the server is read-only. */
void absence_begins(struct absence *v, const char *cause);
/*
 * Call before a reading, with a number that changes when the database is in another state
 * (store.h). After a failover, or in the place of another file, commits may be lost: a row that
 * looks long silent may have beaten before the outage. So such an outage excuses all silence before
 * it.
 */
void absence_state(struct absence *v, int64_t states);
/* A reading succeeded: its session (a rising number), and both clocks at that moment. */
void absence_read(struct absence *v, int64_t opened, int64_t now_us, int64_t boot_us);

#endif
