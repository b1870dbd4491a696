/*
 * hand.h: what a worker has in hand: the jobs it claimed and has not settled.
 *
 * Shared by the threads of a worker under one lock. A job leaves the hand when
 * its settlement was answered, spooled or given up, never before: until then
 * the database rightly says that it is ours.
 */
#ifndef WORKER_HAND_H
#define WORKER_HAND_H

#include "worker/source.h"

#include <pthread.h>

struct hand_job {
	struct hand_job *next, *prev;
	struct source *source;
	int pool;             /* which pool it belongs to */
	int64_t worker;       /* the incarnation that claimed it */
	struct claimed claim; /* texts owned by this job */
	bool stop;            /* asked to stop: cancelled, shutdown or lost */
	bool lost;            /* its lease was lost: the result is of no use */
	/* how it ended; set before it is handed to the settler */
	enum settle_as as;
	char *result, *error;
	int64_t delay_ms;
	struct step_end step_end; /* of a workflow; texts owned by this job */
	bool settled;             /* by its handler, in a transaction of its own */
	struct hand_job *queued;  /* the settler's list */
	int64_t slot;             /* of its pool */
	int64_t began_ms;         /* when it was started here */
	void *run;                /* the runner's own */
	/* what it said of its progress; guarded by the hand's lock */
	bool progressed;
	char step[128], progress[1024];
};

struct hand {
	pthread_mutex_t lock;
	struct hand_job *first;
	int64_t count;
	uint64_t claims_begun, claims_ended;
};

void hand_init(struct hand *h);
void hand_release(struct hand *h); /* frees what is left */
/* Take a claimed job; its texts are copied. */
struct hand_job *hand_add(struct hand *h, struct source *src, int pool, int64_t worker,
                          const struct claimed *c);
/* Which step of a workflow it is at; its texts are copied. */
void hand_at_step(struct hand_job *j, const struct step_end *end);
/* It is at none any more: what is run is chosen anew. */
void hand_off_step(struct hand_job *j);
/* Drop and free one. */
void hand_remove(struct hand *h, struct hand_job *j);
int64_t hand_count(struct hand *h);
/*
 * Around a claim: between the two the database may say that jobs are ours
 * which are not in hand yet. A reader that compares the two asks before and
 * after: only an equal, quiet answer makes the comparison mean something.
 */
void hand_claim_begin(struct hand *h);
void hand_claim_end(struct hand *h);
bool hand_quiet(struct hand *h, uint64_t *claims);
bool hand_has(struct hand *h, const struct source *src, const char *key, int64_t epoch);
/* Mark jobs to be stopped; returns how many were newly marked. `src` NULL: all. */
int hand_stop(struct hand *h, const struct source *src, const char *key, int64_t epoch, bool lost);
/* Remember what a job says of its progress; NULL leaves that part as it was. */
void hand_progress(struct hand *h, struct hand_job *j, const char *step, const char *text);
/* Take one job's unsaid progress: copies of key, epoch and texts; false: there is none. */
struct progress_note {
	struct source *source;
	char key[256];
	int64_t epoch, worker;
	char step[128], progress[1024];
};
bool hand_take_progress(struct hand *h, struct progress_note *out);
/*
 * The jobs of a source, and of others with the same jobs, that this incarnation has and
 * has not lost; texts are copied into the arena. How many there are.
 */
int hand_beats(struct hand *h, const struct source *src, int64_t worker, struct arena *a,
               struct beat **out);
/* Whether a job was asked to stop or is lost (read under the lock). */
bool hand_stopped(struct hand *h, const struct hand_job *j, bool *lost);

#endif
