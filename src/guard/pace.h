/* SPDX-License-Identifier: Apache-2.0
 * pace.h: limits the rate at which recovered work returns. One token bucket per watch, in the
 * memory of the daemon that leads it. It starts slow, gets faster while the database answers well,
 * and slower when it does not. Pure: time is a parameter.
 */
#ifndef GUARD_PACE_H
#define GUARD_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace_rules {
	double per_s;      /* the initial rate; 0: no limit */
	double most_per_s; /* the highest rate while all goes well; 0: 20 times per_s */
	int64_t burst;   /* tokens at the start, and at most (or one second's worth, if more); 0: 100 */
	int64_t slow_us; /* a batch that took longer than this per job slows the pace; 0: 2 ms */
};

struct pace {
	struct pace_rules rules;
	double tokens, rate; /* rate: current, per second */
	int64_t at_us;       /* of the last step; any monotonic clock */
	bool begun, paused;
};

void pace_init(struct pace *p, const struct pace_rules *rules);
/* How many of `want` may go now. Takes their tokens. */
int64_t pace_take(struct pace *p, int64_t want, int64_t now_us);
/* Return the tokens of jobs that were not written. */
void pace_give_back(struct pace *p, int64_t n);
/* The result of a batch; the rate adapts. */
void pace_batch(struct pace *p, int64_t jobs, int64_t took_us, bool failed);
/* How long until `n` jobs will have passed at the current rate; 0: at once; -1: paused. */
int64_t pace_eta_us(const struct pace *p, int64_t n, int64_t now_us);
/* Set by an operator: while paused, nothing passes. */
void pace_pause(struct pace *p, bool paused);

#endif
