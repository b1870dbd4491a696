/*
 * worker_inside.h: what the files of the worker share.
 *
 * worker.c        making, running and ending one; what other threads may call
 * worker_jobs.c   jobs from their start, in a child or a handler, to their end
 * worker_steps.c  what is run for a job of a workflow
 * worker_claim.c  the work session: claims, cancels, progress, beats
 * worker_info.c   what it says of itself at each renewal of its lease
 *
 * Everything belongs to the thread that calls worker_run(), but for what
 * `lock` guards.
 */
#ifndef WORKER_WORKER_INSIDE_H
#define WORKER_WORKER_INSIDE_H

#include "worker/run_child.h"
#include "worker/run_thread.h"
#include "worker/slots.h"
#include "worker/took.h"
#include "worker/wake.h"
#include "worker/watchman.h"
#include "worker/worker.h"
#include "worker/workflow.h"

/* A pool at work. */
struct crew {
	struct slots slots;
	int64_t poll_ms, next_poll_ms;
	int64_t tick_ms, taken;          /* end of the present poll interval; jobs claimed in it */
	bool more;                       /* the last claim was full: there is probably more */
	bool claimed;                    /* has claimed at least once */
	bool empty;                      /* the last claim found nothing */
	int64_t beat_due_ms, beat_fails; /* of the jobs of its watch */
};

/* A new size of a pool that the next tick applies. */
struct resize {
	bool wanted;
	int64_t concurrency, poll_ms;
};

struct slot_ref {
	int pool;
	int64_t slot;
	bool stepped; /* its job was a workflow's, whose next step may be ready now */
};

/* What the work session has done so far. */
struct claim_counts {
	int64_t claimed, ticks; /* jobs; how often it asked for some */
	int64_t tries, failed;  /* uses of the database, and those that failed */
	int64_t unserved;       /* jobs' own tries for a session that failed */
	bool paused;            /* a breaker is not closed */
};

/* A child at work, or between two tries. */
struct run {
	struct child *child; /* NULL: it got no session, and is tried again when it is due */
	struct hand_job *job;
	int at; /* in worker.runs */
	int64_t due_ms;
	int unserved; /* tries without a session */
};

struct worker {
	struct worker_options options;
	struct session session; /* work: claiming */
	struct breaker breaker; /* our own claims */
	struct breaker serving; /* whether jobs get the sessions that they need */
	struct hand hand;
	struct settler *settler;
	struct watchman *watchman;
	struct threads *threads;
	struct keeper *keeper;
	struct wake *wake;
	struct crew *crews;
	struct source **sources; /* one a pool */
	struct run **runs;
	int nruns, cap_runs;
	int epoll, event, listening_fd;
	int64_t listening_opened; /* which session that is */
	int64_t started_us;       /* wall clock */
	int64_t opened;
	int64_t progress_ms, cancel_ms;
	int64_t stopped_ms; /* when a stop was first seen; 0: none was */
	uint64_t chance;
	/* shared with other threads */
	pthread_mutex_t lock;
	struct hand_job *ended; /* handlers that returned */
	struct slot_ref *given; /* slots that came free */
	int ngiven, cap_given;
	struct resize *resizes; /* one a pool */
	int64_t settled;        /* by handlers, in transactions of their own */
	struct claim_counts claims;
	struct took took; /* jobs that ended by themselves */
	int stops;
	bool woken; /* there may be work, or something to stop */
	bool told;  /* jobs were asked to stop: their runners must hear of it */
	bool closing;
};

/* worker.c */
void worker_wake(struct worker *w);
bool worker_stopping(struct worker *w);
/* Mark jobs to be stopped, as hand_stop() does, and see that their runners hear of it. */
void worker_stop_jobs(struct worker *w, const struct source *src, const char *key, int64_t epoch,
                      bool lost);

/* worker_info.c */
void worker_info(void *ctx, struct buf *out);

/* worker_jobs.c */
/* Run a job that was claimed; `worker` is the incarnation that claimed it. */
void jobs_start(struct worker *w, int pool, const struct claimed *c, int64_t worker, int64_t now);
void jobs_step_child(struct worker *w, struct run *r, int64_t now);
/* Children that are due, or all of them. When the next one is due. */
int64_t jobs_step_children(struct worker *w, int64_t now, bool all);
/*
 * Handlers that ended, are over their time limit or will not stop. `told`: some
 * were asked to stop since the last step. When to look again.
 */
int64_t jobs_step_handlers(struct worker *w, int64_t now, bool told);
/* Callbacks: a handler returned, or will not stop; the settler is done with a job. */
void jobs_on_handler_ended(void *ctx, struct hand_job *j);
void jobs_on_stuck(void *ctx, const struct hand_job *j, int64_t asked_ms_ago);
void jobs_on_settled(void *ctx, const struct hand_job *j);
/* Slots of settled jobs become free. */
void jobs_give_slots(struct worker *w);

/* worker_steps.c */
/*
 * Which step a job is at, and what is recorded of its workflow; *step is NULL
 * where it is none. False: nothing is to be run, and the job has its end.
 */
bool steps_choose(struct hand_job *j, const struct worker_pool *p, struct arena *a,
                  const struct workflow_step **step, struct step_records *recorded);
/*
 * What a child is to be started with, where the job is a workflow's; others are
 * left as they are. False: nothing is to be run, and the job has its end.
 */
bool steps_plan(struct hand_job *j, const struct worker_pool *p, struct child_options *o,
                struct arena *a);

/* worker_claim.c */
/* A job ended: it got the session that it needs, or it did not. */
void note_served(struct worker *w, bool served);
/* Claim where there is room and reason; how long until there may be again. */
int64_t claim_due(struct worker *w, bool woken, int64_t now);
void look_for_cancels(struct worker *w, bool woken, int64_t now);
void send_progress(struct worker *w, int64_t now);
/* Beats of what is in hand, one statement a watch. When the next one is due. */
int64_t send_beats(struct worker *w, int64_t now);

#endif
