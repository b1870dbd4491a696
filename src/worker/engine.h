/* SPDX-License-Identifier: Apache-2.0
 * engine.h: the room `worker` claims jobs and runs them. The engine decides; the other files are
 * its drivers (worker_state.h lists them: sessions, children, threads, spools) and the sources of
 * jobs (source.h: the built-in queue, a user's table). Begin here, then read engine.c,
 * worker_turns.c, which drives it, and source_queue.c, which calls the database.
 *
 * The engine makes all decisions of a worker about its jobs, as a step function over (state, event,
 * now): when to call the database and for what, which jobs to start and to stop, what to retry,
 * spool or give up. It has no database, thread, file or clock: a driver (worker_turns.c) reports
 * events to it and carries out its actions.
 *
 *     engine_step(e, &event, now);
 *     while (engine_next(e, &action))
 *             do it;
 *     sleep for engine_wait_us(e, now), or until something happens
 *
 * The engine decides when all earlier actions are carried out: events that are reported one after
 * the other, before engine_next(), join the same turn.
 *
 * Invariants:
 *  - One turn is under way at a time. Whatever the engine learns meanwhile joins the next one.
 *  - A job is in hand from its claim until its end is recorded, spooled or given up.
 *  - Its slot is free only then, so a worker never holds more jobs than its slots, plus the few
 *    that a pool with short jobs claims ahead (engine_pool.ahead).
 *  - Nothing is claimed while contact is lost, a breaker is open or a stop was requested.
 *  - Jobs claimed by an incarnation that was declared dead meanwhile never start.
 */
#ifndef WORKER_ENGINE_H
#define WORKER_ENGINE_H

#include "life/lease.h"
#include "worker/claim_limits.h"
#include "worker/job.h"

struct engine_pool {
	int64_t concurrency; /* slots */
	int64_t poll_ms;
	int64_t batch;       /* most jobs claimed per poll interval; 0: as many as there are slots */
	int64_t stagger_ms;  /* pause between the starts of two slots, across pools too */
	int64_t burst_limit; /* most jobs a slot takes within burst_ms of its start; 0: no limit */
	int64_t burst_ms;
	int64_t grace_ms; /* of a stop, where own_grace */
	bool own_grace;
	bool exclusive;  /* its jobs must stop when the lease expires by our own clock */
	bool wait_first; /* the first poll is due after an interval */
	bool announced; /* new jobs are announced (EVENT_WOKEN): a poll that found nothing is enough for
	                   IDLE_FACTOR intervals */
	int64_t beat_ms; /* how often its jobs beat; 0: never */
	int64_t ahead; /* most jobs claimed beyond its slots while jobs are short, so that no slot waits
	                  for a commit. The runner ensures that no more run than there are slots, and
	                  starts the next one when one has ended. 0: none */
	int same_jobs; /* the first pool that has the same jobs; itself if there is none. These pools
	                  share their beats and their spool */
};

struct engine_options {
	const struct engine_pool *pools; /* copied */
	int npools;
	int64_t grace_ms; /* how long a stop waits for jobs */
	bool drain;       /* finish when there is nothing left to claim */
	/*
	 * An end that could not be recorded is retried with the pauses of the breaker, and goes to the
	 * spool keep_trying_ms after it happened. 0: 3000.
	 */
	int64_t keep_trying_ms;
	int64_t beat_tries, beat_retry_ms; /* 3, 5000 */
};

enum engine_event_kind {
	EVENT_TICK,     /* only time passed */
	EVENT_WOKEN,    /* there may be new jobs, or a job that must stop */
	EVENT_ENDED,    /* `job` has ended and its end is set; may be a list, linked by `queued` */
	EVENT_LIFE,     /* `worker` is our current incarnation, 0: declared dead; `contact` */
	EVENT_COMPARE,  /* a reply may have been lost: compare our jobs with the database */
	EVENT_TIMELINE, /* the server failed over: stop jobs whose claims it lost */
	EVENT_SERVED,   /* a job got the session that it needs (`yes`), or did not */
	EVENT_LACKS,    /* this host could not start a job's program (`yes`), or could again */
	EVENT_PROGRESS, /* a job has reported progress */
	EVENT_STOP,     /* stop requested; the second time at once */
	EVENT_RESIZE,   /* of `pool`: `concurrency`, `poll_ms` */
	EVENT_TURN,     /* the turn of ACTION_TURN is complete; `turn` has the results */
	EVENT_SPOOLED, /* result of ACTION_SPOOL for `job` and those linked to it: stored (`yes`) or not
	                */
	EVENT_WAITING, /* `count` results wait in the spool of `pool` */
};

struct engine_event {
	enum engine_event_kind kind;
	double chance; /* in [0, 1): spreads the retries of many workers */
	struct job *job;
	int64_t worker;
	enum lease_contact contact;
	int pool;
	int64_t concurrency, poll_ms, count;
	bool yes;
	struct turn *turn;
};

enum engine_action_kind {
	ACTION_START,  /* run `job` */
	ACTION_STOP,   /* notify the runner of `job` (its stop and lost are set) */
	ACTION_RETURN, /* started jobs of `pool` that have not begun wait too long: end them as
	                  SETTLE_RELEASED (EVENT_ENDED) */
	ACTION_TURN,   /* carry out `turn`, then EVENT_TURN */
	ACTION_SPOOL, /* store the ends of `job` and those linked to it (`queued`, `count` in all). They
	                 belong to pools with the same jobs and failed for the same reason `why`. Then
	                 EVENT_SPOOLED */
	ACTION_SETTLED,   /* `job`'s end was recorded. It is freed when the next action is taken */
	ACTION_REFUSED,   /* LEASE_LOST: `job` was no longer ours. Freed likewise */
	ACTION_FORGOTTEN, /* `job` was settled by its handler, handed to the spool, or lost with its
	                     incarnation before it began (`why`). Freed likewise */
	ACTION_GIVEN_UP,  /* `job`'s end could be neither recorded nor stored: `why`. Freed likewise */
	ACTION_STRAY,     /* `job`, which is not running here, is released: a reply was lost */
	ACTION_FAILED,    /* the turn failed for `pool`: `why` */
	ACTION_NO_BEAT,   /* `why`; `count`: consecutive failures; `yes`: it is retried soon */
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

/* For the registry and metrics. */
struct engine_counts {
	int64_t claimed, turns; /* jobs; turns that claimed some */
	int64_t tries, failed;  /* turns, and failed turns */
	int64_t settled, refused, spooled, given_up;
	int64_t ends[SETTLE_COUNT]; /* settled jobs, by how they ended */
	int64_t unserved, lacking;  /* failed attempts of jobs to get a session, or to start */
	enum breaker_state breaker;
	bool paused; /* a breaker is not closed */
};

struct engine;

struct engine *engine_new(const struct engine_options *o, int64_t now_us);
void engine_free(struct engine *e); /* including the jobs that are still in hand */
void engine_step(struct engine *e, const struct engine_event *ev, int64_t now_us);
/* The next action, in order; false: none is left. */
bool engine_next(struct engine *e, struct engine_action *out);
/* How long until a tick is due; INT64_MAX: only when something happens. */
int64_t engine_wait_us(const struct engine *e, int64_t now_us);
/*
 * While the engine waits for newly claimed jobs to end together: how many ends finish the wait; 0:
 * the first one.
 */
int64_t engine_enough(const struct engine *e);
/* Stopped or drained, and no job is in hand. */
bool engine_finished(const struct engine *e);
/* Jobs in hand; other threads may read it. */
int64_t engine_holding(const struct engine *e);
void engine_counts(const struct engine *e, struct engine_counts *out);

#endif
