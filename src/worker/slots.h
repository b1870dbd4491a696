/* SPDX-License-Identifier: Apache-2.0
 * slots.h: how many jobs a pool may take now, as a step function: free slots,
 * started one after the other, each under its burst limit at first.
 */
#ifndef WORKER_SLOTS_H
#define WORKER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct slots_rules {
	int64_t count;
	int64_t stagger_ms;
	int64_t burst_limit, burst_ms; /* limit 0: none */
};

struct slot {
	int64_t taken; /* jobs within its burst window */
	bool busy;
};

struct slots {
	struct slots_rules rules;
	int64_t start_ms;
	struct slot *all;
	int64_t cap; /* may exceed rules.count after a resize: those drain */
	int64_t busy;
	int64_t first; /* all slots before it are busy */
};

void slots_init(struct slots *s, const struct slots_rules *rules, int64_t now_ms);
void slots_release(struct slots *s);
/* How many could be taken now. */
int64_t slots_free(const struct slots *s, int64_t now_ms);
/* The same when `given` of those that are busy were given back, of which `again` take another. */
int64_t slots_free_with(const struct slots *s, int64_t given, int64_t again, int64_t now_ms);
/* Could a busy slot take another job if it were given back now? */
bool slots_again(const struct slots *s, int64_t index, int64_t now_ms);
/* Take one that slots_free counted; returns its index. */
int64_t slots_take(struct slots *s, int64_t now_ms);
void slots_give(struct slots *s, int64_t index);
void slots_resize(struct slots *s, int64_t count);
/* When a slot that is kept back by stagger or burst becomes free; -1: none is. */
int64_t slots_wait_ms(const struct slots *s, int64_t now_ms);

#endif
