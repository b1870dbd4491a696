/* SPDX-License-Identifier: Apache-2.0
 * doubt.h: while the observer itself was away, silence proves nothing: silence that began in that
 * time is excused. Pure: every time is handed in.
 *
 * An outage is any time in which we could not have seen a beat: our session was lost, the server
 * was down, read-only or another one, our own process was stopped or suspended. It lasts from the
 * last moment of which we know that all was well to the first such moment after it, by the
 * database's clock.
 *
 * After an outage a living worker needs time to be heard again: `quiet`. What counts is time in
 * which it could have been heard, added up over later outages: so a link that breaks every few
 * seconds postpones a verdict, but never for ever. What was past its deadline before the outage is
 * still stuck.
 */
#ifndef GUARD_DOUBT_H
#define GUARD_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#define DOUBT_OUTAGES 32 /* remembered one by one; beyond that neighbours become one */

struct outage {
	int64_t begin_us, end_us; /* the database's clock; both may be the same moment */
	int64_t clean_us;         /* within it, where it was made of several */
	const char *cause;        /* static text: "session lost", "paused", "server restarted", … */
};

struct doubt {
	struct outage outages[DOUBT_OUTAGES]; /* oldest first, none overlaps another */
	int n;
	int64_t well_us; /* when all was last known to be well; 0: never yet */
	int64_t total;   /* outages ever */
};

/* All is well at this moment. */
void doubt_well(struct doubt *d, int64_t now_us);
/*
 * There was an outage since all was last well, and it is over now. Before the
 * first doubt_well(), and at a time before the last one, nobody knows since when:
 * all silence falls into it. A step of the database's clock is an outage as well.
 */
void doubt_outage(struct doubt *d, int64_t now_us, const char *cause);
/*
 * Whether silence since `alive_us`, stuck after `limit_us`, is excused at `now_us` by an outage.
 * Then *until_us (may be NULL) is when it will no longer be, if no other outage comes, and *cause
 * (may be NULL) which one it is.
 */
bool doubt_excuses(const struct doubt *d, int64_t alive_us, int64_t limit_us, int64_t quiet_us,
                   int64_t now_us, int64_t *until_us, const char **cause);
/* Time between the two in which a beat could have been seen. */
int64_t doubt_clean_us(const struct doubt *d, int64_t from_us, int64_t to_us);

/* ---- absence ---- */

/*
 * Whether we were away from a database: our session was replaced, we were stopped or
 * suspended, or the database's clock does not agree with ours. Pure: readings are handed in.
 *
 * Daemons and the sweeps of workers keep a struct absence; what it finds excuses silence by
 * doubt.h. A worker's life (life/life.h) asks the two questions by itself.
 */

/* Both clocks, as they were read together. */
struct clocks {
	int64_t own_us; /* one that goes on through a suspend */
	int64_t database_us;
};
/* By how much the database's clock was set forward, or back (below 0), between two readings. */
int64_t absence_jump_us(const struct clocks *last, const struct clocks *now);
/* Whether a loop that was to go on at `due_us` was stopped or suspended, by its own clock. */
bool absence_stopped(int64_t due_us, int64_t now_us);

struct absence {
	struct doubt doubt;
	int64_t opened;       /* which session was read last; 0: none yet */
	struct clocks clocks; /* at the last reading */
	int64_t tick_us;      /* our own clock at the last sign of the loop itself */
	const char *cause;    /* why the next reading ends an outage; NULL: it does not */
};

/*
 * Before the first reading: the server was started then. A worker that could not beat before it
 * gets its quiet time, however late we come to look.
 */
void absence_server_started(struct absence *v, int64_t start_us);
/* The loop goes round: to be called at least every second or two. */
void absence_tick(struct absence *v, int64_t boot_us);
/* We know that we cannot see anything now: a call failed, the server is read-only. */
void absence_begins(struct absence *v, const char *cause);
/* Something was read: in which session (a number that rises), and both clocks then. */
void absence_read(struct absence *v, int64_t opened, int64_t now_us, int64_t boot_us);

#endif
