/* SPDX-License-Identifier: Apache-2.0
 * pace.h: recovered work returns at a bounded rate. One token bucket a watch, in
 * the memory of the daemon that leads it; slow at first, faster while the
 * database answers well, slower when it does not. Pure: time is handed in.
 */
#ifndef GUARD_PACE_H
#define GUARD_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace_rules {
	double per_s;      /* the rate at first; 0: no limit */
	double most_per_s; /* what it may grow to while all goes well; 20 times as much if 0 */
	int64_t burst;     /* tokens at the start, and at most (or a second's worth); 100 if 0 */
	int64_t slow_us;   /* a batch that took longer than this a job slows us down; 2 ms if 0 */
};

struct pace {
	struct pace_rules rules;
	double tokens, rate; /* rate: at the moment, per second */
	int64_t at_us;       /* of the last step; any monotonic clock */
	bool begun, paused;
};

void pace_init(struct pace *p, const struct pace_rules *rules);
/* How many of `want` may go now; they are paid for. */
int64_t pace_take(struct pace *p, int64_t want, int64_t now_us);
/* Those that were not written after all. */
void pace_give_back(struct pace *p, int64_t n);
/* How a batch went: the rate adapts. */
void pace_batch(struct pace *p, int64_t jobs, int64_t took_us, bool failed);
/* How long until `n` jobs will have gone at the present rate; 0: at once; -1: paused. */
int64_t pace_eta_us(const struct pace *p, int64_t n, int64_t now_us);
/* Set by an operator: while paused, nothing passes. */
void pace_pause(struct pace *p, bool paused);

#endif
