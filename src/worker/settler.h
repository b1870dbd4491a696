/*
 * settler.h: the thread that records how jobs ended, on a session of its own:
 * the error path always has one. When the database cannot be had: bounded
 * tries with full jitter, the breaker, then the spool, which drains in order
 * and stays fenced. Without a spool, one critical line names each job.
 *
 * It also drains the side queue (side_queue.h), between settlements: new work
 * that programs of this host left while the database was away.
 */
#ifndef WORKER_SETTLER_H
#define WORKER_SETTLER_H

#include "store/session.h"
#include "worker/breaker.h"
#include "worker/hand.h"
#include "worker/spooling.h"

struct settler;

struct settler_options {
	struct store_options store;
	struct hand *hand;
	struct source **sources; /* for what is found in the spool */
	int nsources;
	const char *spool; /* folder; NULL: no spool */
	const char *side;  /* folder of the side queue; NULL: none */
	int tries;         /* 3 */
	int64_t try_ms;    /* 1000: longest pause between tries */
	/* Called (from the settler's thread) when jobs have left the hand. */
	void (*settled)(void *ctx, const struct hand_job *j);
	void (*done)(void *ctx);
	void *ctx;
};

struct settler_counts {
	int64_t settled, refused, spooled, drained, abandoned, failures;
	int64_t ends[SETTLE_COUNT]; /* settled, by how they ended */
	int64_t tries, failed;      /* uses of the database, and those that failed */
	enum breaker_state breaker;
	int64_t spool_depth, spool_bytes;
	int64_t set_aside;   /* results that the database refused, kept in the spool */
	char aside_why[256]; /* source and reason of the first of them */
	char unserved[256];  /* sources with something in the spool that nobody here serves */
};

MUST_CHECK defib_err settler_start(const struct settler_options *o, struct settler **out,
                                   struct failure *f);
/* Hand over a job that has ended (as, result, error, delay_ms are set). Never blocks. */
void settler_add(struct settler *s, struct hand_job *j);
/* True when nothing waits to be settled (the spool may still hold something). */
bool settler_idle(struct settler *s);
void settler_counts(struct settler *s, struct settler_counts *out);
/*
 * Finish what waits, spool what cannot be settled within `grace_ms`, end the
 * thread. NULL is allowed.
 */
void settler_stop(struct settler *s, int64_t grace_ms);

#endif
