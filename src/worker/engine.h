/* SPDX-License-Identifier: Apache-2.0
 * engine.h: worker, the room of processes that take jobs and run them. The engine decides; the
 * other files are its drivers (worker_inside.h lists them: sessions, children, threads, spools) and
 * the sources of jobs (source.h: the built-in queue, a user's table). Begin here, then read
 * engine.c and engine_turn.c, worker_turns.c, which drives them, and source_queue.c, which asks the
 * database.
 *
 * The engine is everything that a worker decides about its jobs, as a step function over
 * (state, event, now): when to ask the database and for what, which jobs to start and to
 * stop, what is tried again, spooled or given up. It sees no database, no thread, no file
 * and no clock: a driver (worker_turns.c) tells it what happened and does what it says.
 *
 *     engine_step(e, &event, now);
 *     while (engine_next(e, &action))
 *             do it;
 *     sleep for engine_wait_us(e, now), or until something happens
 *
 * What follows from events is decided when all that was to be done is done: events that are
 * told one after the other, before engine_next(), join the same turn.
 *
 * What always holds:
 *  - One turn is under way at a time. Whatever the engine learns while it is, joins the next.
 *  - A job is in hand from its claim until its end was answered, spooled or given up.
 *  - A slot is free again only then, so a worker never holds more than its slots, and the few
 *    that a pool with short jobs claims ahead (engine_pool.ahead).
 *  - Nothing is claimed while contact is lost, a breaker is open or a stop was asked for.
 *  - Jobs that were claimed by an incarnation that was declared dead meanwhile never start.
 */
#ifndef WORKER_ENGINE_H
#define WORKER_ENGINE_H

#include "life/lease.h"
#include "worker/claim_limits.h"
#include "worker/job.h"

struct engine_pool {
	int64_t concurrency; /* slots */
	int64_t poll_ms;
	int64_t batch;       /* jobs taken at most in a poll interval; 0: as many as there are slots */
	int64_t stagger_ms;  /* slots start so far apart, across pools too */
	int64_t burst_limit; /* jobs a slot takes at most within burst_ms of its start; 0: no limit */
	int64_t burst_ms;
	int64_t grace_ms; /* of a stop, where own_grace */
	bool own_grace;
	bool exclusive;  /* its jobs must stop when the lease has run out by our own clock */
	bool wait_first; /* the first poll is due after an interval */
	bool announced;  /* new work is announced (EVENT_WOKEN): a poll that found nothing is enough
	                    for IDLE_FACTOR intervals */
	int64_t beat_ms; /* how often its jobs are to beat; 0: never */
	int64_t ahead;   /* jobs claimed beyond its slots at most, while jobs are short, so that no
	                    place waits for a commit. Whoever runs them sees to it that no more run than
	                    there are   slots, and begins the next when one has ended. 0: none */
	int same_jobs;   /* the first pool that has the same jobs; itself where there is none. They
	                    share their beats and their spool */
};

struct engine_options {
	const struct engine_pool *pools; /* copied */
	int npools;
	int64_t grace_ms; /* how long a stop waits for jobs */
	bool drain;       /* finished when there is nothing left to claim */
	/*
	 * An end that could not be recorded is tried again with the pauses of the breaker, and
	 * goes to the spool when keep_trying_ms are over since it ended. 0: 3000.
	 */
	int64_t keep_trying_ms;
	int64_t beat_tries, beat_retry_ms; /* 3, 5000 */
};

enum engine_event_kind {
	EVENT_TICK,     /* time has passed */
	EVENT_WOKEN,    /* there may be work, or a job that is to stop */
	EVENT_ENDED,    /* `job`: its end is set; it may be a list, linked by `queued` */
	EVENT_LIFE,     /* `worker` is our incarnation now, 0: declared dead; `contact` */
	EVENT_COMPARE,  /* an answer may have been lost: compare what the database says we have */
	EVENT_TIMELINE, /* the server failed over: claims it lost are to be stopped */
	EVENT_SERVED,   /* a job got the session that it needs (`yes`), or did not */
	EVENT_LACKS,    /* this host could not start a job's program (`yes`), or could again */
	EVENT_PROGRESS, /* a job has said something of its progress */
	EVENT_STOP,     /* asked to stop; the second time at once */
	EVENT_RESIZE,   /* of `pool`: `concurrency`, `poll_ms` */
	EVENT_TURN,     /* the turn of ACTION_TURN was done; `turn` has the answers */
	EVENT_SPOOLED,  /* answer of ACTION_SPOOL: for `job` and those behind it, kept (`yes`) or not */
	EVENT_WAITING,  /* so many (`count`) results wait in the spool of `pool` */
};

struct engine_event {
	enum engine_event_kind kind;
	double chance; /* in [0, 1): to spread the tries of many workers */
	struct job *job;
	int64_t worker;
	enum lease_contact contact;
	int pool;
	int64_t concurrency, poll_ms, count;
	bool yes;
	struct turn *turn;
};

enum engine_action_kind {
	ACTION_START,   /* run `job` */
	ACTION_STOP,    /* tell whoever runs `job` (its stop and lost are set) */
	ACTION_RETURN,  /* jobs of `pool` that were started and have not begun wait for too long: they
	                   end as SETTLE_RELEASED (EVENT_ENDED) */
	ACTION_TURN,    /* do `turn`, then EVENT_TURN */
	ACTION_SPOOL,   /* keep the ends of `job` and those behind it (`queued`, `count` in all), which
	                   are of pools with the same jobs, and all of them failed for the reason
	                   `why`; then EVENT_SPOOLED */
	ACTION_SETTLED, /* `job`'s end was recorded. It is freed when the next action is taken */
	ACTION_REFUSED, /* LEASE_LOST: `job` was no longer ours. Freed likewise */
	ACTION_FORGOTTEN, /* `job` was settled by its handler, handed to the spool, or lost with its
	                     incarnation before it began (`why`). Freed likewise */
	ACTION_GIVEN_UP,  /* `job`'s end could be neither recorded nor kept: `why`. Freed likewise */
	ACTION_STRAY,     /* `job`, which nobody here has, is handed back: an answer was lost */
	ACTION_FAILED,    /* the turn failed for `pool`: `why` */
	ACTION_NO_BEAT,   /* `why`; `count`: how often in a row; `yes`: it is tried again soon */
	ACTION_BREAKER,   /* `what` (claims and ends; sessions of jobs; this host) opened (`yes`) or
	                     closed */
};

struct engine_action {
	enum engine_action_kind kind;
	struct job *job;
	struct turn *turn;
	int pool;
	const struct failure *why;
	const char *what;
	int64_t count;
	bool yes;
};

/* What others are told of it (the registry, metrics). */
struct engine_counts {
	int64_t claimed, turns; /* jobs; turns that asked for some */
	int64_t tries, failed;  /* turns, and those that failed */
	int64_t settled, refused, spooled, given_up;
	int64_t ends[SETTLE_COUNT]; /* settled, by how they ended */
	int64_t unserved, lacking;  /* jobs' own tries for a session, or starts, that failed */
	enum breaker_state breaker;
	bool paused; /* a breaker is not closed */
};

struct engine;

struct engine *engine_new(const struct engine_options *o, int64_t now_us);
void engine_free(struct engine *e); /* with what is left in hand */
void engine_step(struct engine *e, const struct engine_event *ev, int64_t now_us);
/* The next thing to do, in order; false: nothing is left. */
bool engine_next(struct engine *e, struct engine_action *out);
/* How long until a tick is due; INT64_MAX: only when something happens. */
int64_t engine_wait_us(const struct engine *e, int64_t now_us);
/*
 * While it waits for jobs that were just claimed to end together: how many ends make the
 * wait needless; 0: the first one does.
 */
int64_t engine_enough(const struct engine *e);
/* Stopped or drained, and nothing is in hand. */
bool engine_finished(const struct engine *e);
/* Jobs in hand; may be read by other threads. */
int64_t engine_holding(const struct engine *e);
void engine_counts(const struct engine *e, struct engine_counts *out);

#endif
