/* SPDX-License-Identifier: Apache-2.0
 * engine_inside.h: what the files of the engine share.
 *
 * engine.c         creation, events, actions, waiting
 * engine_turn.c    when a turn is due, and what it asks for; ends that cannot be recorded; jobs
 *                  that are claimed before a slot is free for them
 * engine_answer.c  the results of a turn
 *
 * Time is in microseconds; slots and breakers count milliseconds of the same clock. A turn is made
 * only when the caller asks for the next action (engine_next()), so that all events reported before
 * join it.
 */
#ifndef WORKER_ENGINE_INSIDE_H
#define WORKER_ENGINE_INSIDE_H

#include "worker/engine.h"

#define ENDS_MAX 1000     /* of one part of a turn */
#define IDLE_FACTOR 4     /* poll intervals between two polls of an announced pool that is empty */
#define TRY_US 1000000    /* the longest pause between two tries */
#define LINGER_US 5000    /* the longest wait for other ends to join */
#define DRAIN_US 500000   /* how often a spool is drained while it is not empty */
#define CANCEL_US 1000000 /* how often cancelled jobs are checked for … */
#define CANCEL_LEAST_US 20000 /* … and the shortest interval, however often we are woken */
#define PROGRESS_US 500000
/*
 * How long a job waits for a slot that a resize removed, and how long claims stop for a job that
 * must run alone …
 */
#define HELD_US 30000000
#define HELD_DELAY_MS 1000        /* … when it may be claimed again, if that failed … */
#define SINGLE_AGAIN_US 300000000 /* … and when claims stop again for a job that must run alone */
/*
 * How soon the life thread should learn that we were declared dead: if it has not by then, we were
 * not.
 */
#define GONE_US 15000000
#define NEVER INT64_MAX

static inline int64_t ms(int64_t us)
{
	return us / 1000;
}

static inline int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* In order of arrival; linked by `queued`. */
struct job_list {
	struct job *first, *last;
	int64_t n;
};

/* A pool and its current state. */
struct pool_state {
	struct engine_pool rules;
	struct slots slots;
	int64_t jobs;         /* in hand */
	struct job_list ends; /* to be recorded */
	int64_t poll_us, next_poll_us;
	int64_t tick_us, taken; /* end of the current poll interval; jobs claimed in it */
	bool woken;             /* there may be new jobs, and no claim was made since */
	bool full;              /* the last claim filled all slots */
	bool more;           /* there are probably more jobs: it was full, or another claim is needed */
	bool claimed, empty; /* it has claimed before; the last claim found nothing, and there is no
	                        reason to doubt that */
	bool failing;        /* the last turn could not record its ends */
	struct failure why;  /* the reason */
	int64_t retry_us;    /* when its ends are retried */
	bool compare, timeline; /* compare with the database; and stop jobs that are missing there */
	bool asked_timeline;    /* in the turn under way */
	bool compared;          /* the comparison was answered */
	int64_t compare_us;     /* the earliest time to compare */
	bool graced;            /* a stop has already asked its jobs to stop */
	int64_t short_runs;     /* consecutive jobs that ended soon */
	int64_t short_ms;       /* approximately how long the last SHORT_RUNS of them took together */
	int64_t slotless;       /* jobs in hand that have no slot yet; strays do not count */
	int64_t stirred_us;     /* when a job last arrived or ended */
	bool returned;          /* jobs that had not begun were released since then */
	/* for all pools with the same jobs, kept by the first of them */
	int64_t family;              /* jobs in hand */
	int64_t beat_us, beat_fails; /* when the next is due */
	int64_t spooled,
		spooled_new; /* results waiting in the spool; of these, added since the turn was made */
	int64_t drain_us;
	struct job_list spool; /* to be handed to the spool, all for the same reason */
};

struct engine {
	struct engine_options options;
	struct pool_state *states;
	int64_t now_us;
	double chance;
	int64_t worker;        /* our incarnation; 0: none alive */
	int64_t life_worker;   /* our incarnation, as last reported */
	int64_t gone, gone_us; /* the one that the database declared dead, and when; 0: none */
	enum lease_contact contact;
	struct breaker breaker; /* turns */
	struct breaker serving; /* whether jobs get the sessions they need */
	struct breaker host;    /* whether programs can be started here */
	struct job *hand;       /* all jobs in hand */
	atomic_llong holding;   /* how many */
	int64_t running;
	struct job_list held; /* claimed, and not started yet */
	int64_t alone;        /* jobs that must run alone, waiting or running */
	bool alone_runs;
	/*
	 * The next claim is of one job of pool `single - 1`, made with nothing in hand; 0: not so. How
	 * long to wait for that, and when to try again if it failed.
	 */
	int single;
	int64_t single_us, single_again_us;
	/*
	 * The turn whose jobs may end together, how many are still running, how long ends wait for
	 * them.
	 */
	int64_t young_turn, young, linger_us;
	int64_t cancel_us, cancelled_us; /* when to check next; when it was last done */
	bool progress;
	int64_t progress_us;
	int stops;
	int64_t stopped_us;
	struct turn turns[2]; /* the one under way and the previous one: actions point into it */
	int64_t nturns, made_us;
	int64_t took_us; /* of the last turn that was answered */
	bool turning, comparing;
	struct job_list over;       /* settled by their handlers or spooled during a comparison */
	bool probing, probing_host; /* the turn under way claims one job as a probe */
	struct engine_action *actions;
	int64_t nactions, cap_actions, taken;
	struct job *free_next; /* of the last action */
	bool stepped;          /* since the last check of what is due */
	struct engine_counts counts;
};

/* engine.c */
struct pool_state *first_state(const struct engine *e,
                               int pool); /* the first pool with the same jobs */
void list_add(struct job_list *l, struct job *j);
struct engine_action *act(struct engine *e, enum engine_action_kind kind, struct job *j);
void tell_breaker(struct engine *e, struct breaker *b, const char *what, bool success);
extern const char *const about_turns, *const about_sessions, *const about_host;
/* Add a job to those in hand, and remove it with the action that reports how it ended. */
struct job *job_in(struct engine *e, int pool, int64_t worker, const struct claimed *c);
void job_out(struct engine *e, struct job *j, enum engine_action_kind how,
             const struct failure *why);
/* Its end is recorded or stored elsewhere. */
void forget_job(struct engine *e, struct job *j, const struct failure *why);
/* Its end is known, and no runner has it (any more). */
void job_over(struct engine *e, struct job *j);
void stop_job(struct engine *e, struct job *j, bool lost);
/* Its end was recorded: is its pool still empty? */
void note_ready(struct pool_state *state, const struct job *j);
/* The current incarnation is dead: its jobs in hand are lost. */
void lose_worker(struct engine *e, int64_t now);

/* engine_turn.c */
int64_t turn_due_us(const struct engine *e);
void make_turn(struct engine *e);
/* A job whose end cannot be recorded goes to the spool; flush_spool() issues the action. */
void spool_job(struct engine *e, struct job *j, const struct failure *why);
void flush_spool(struct engine *e, struct pool_state *first);
/* Those that were retried long enough. */
void spool_old(struct engine *e, struct pool_state *state);
void take_spooled(struct engine *e, struct job *j, bool kept);

/* engine_answer.c */
void take_turn(struct engine *e, struct turn *t);

/* Jobs that are claimed ahead. */
void ahead_note_end(struct engine *e, struct pool_state *state, const struct job *j);
/* How many jobs beyond its slots the pool may have in hand now. */
int64_t ahead_most(const struct pool_state *state);
/* How long ends (there are some) wait for others, and how many more end the wait. */
int64_t ahead_company_us(const struct engine *e, const struct pool_state *state);
int64_t ahead_enough(const struct engine *e, const struct pool_state *state);
/* Give free slots to jobs that have none. */
void ahead_take_slots(struct engine *e);
/* When to release jobs that have not begun. */
int64_t ahead_over_us(const struct pool_state *state);
void ahead_return(struct engine *e);

#endif
