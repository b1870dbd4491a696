/* SPDX-License-Identifier: Apache-2.0
 * locks.h: detects that a worker on another host lost its session, as a step function. Each
 * worker's life session holds an advisory lock; one leader reads which locks are held. A missing
 * lock starts a grace period in which a live worker can reconnect; a held lock proves nothing. If
 * readings are slow, so is a reconnecting worker: a late reading counts no more of the grace than
 * one on time.
 *
 * The reader's own outages come first: after it lost its session, or its readings had a gap, no
 * worker is reported until all had a quiet time to return.
 */
#ifndef LIFE_LOCKS_H
#define LIFE_LOCKS_H

#include "base/mem.h"

struct locks_rules {
	int64_t grace_ms; /* 250 */
	int64_t quiet_ms; /* 10000: wait after an outage of our own */
	int64_t gap_ms;   /* 2000: readings further apart than this are an outage */
	int64_t step_ms;  /* 40: the most that one reading may count of the grace; 0: no limit */
};

struct locks_worker {
	int64_t id;
	bool held_once;  /* its lock was seen: only then can it disappear */
	int64_t gone_ms; /* first reading without the lock; 0: held */
	int64_t away_ms; /* how much of the grace the readings since have counted */
	bool reported;
};

struct locks {
	struct locks_rules rules;
	struct locks_worker *workers; /* malloc'd, sorted by id */
	int n, cap;
	int64_t last_ms; /* last reading */
	int64_t quiet_until_ms;
	bool outage; /* no reading since our own session was lost */
};

void locks_init(struct locks *x, const struct locks_rules *rules);
void locks_release(struct locks *x);
/* The workers to watch (not those of this host); what is known about others is dropped. */
void locks_set(struct locks *x, const int64_t *ids, int n);
/* Our own session was lost. */
void locks_outage(struct locks *x, int64_t now_ms);
/* A worker whose lock is gone, and since when. */
struct locks_gone {
	int64_t id, since_ms;
};
/*
 * One reading: the nonces of workers whose lock is held. Writes those whose grace is over to `gone`
 * (room for x->n) and returns how many. Each disappearance is reported once, and again after an
 * outage of ours, because the first report may have been lost. It proves nothing against a worker
 * that renewed its lease since: its old session may have lingered.
 */
int locks_reading(struct locks *x, const int64_t *held, int nheld, int64_t now_ms,
                  struct locks_gone *gone);
/* When the most recent of the missing locks was first missed; 0: all are held. */
int64_t locks_last_gone_ms(const struct locks *x);

#endif
