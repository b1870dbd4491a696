/* SPDX-License-Identifier: Apache-2.0
 * claim_limits.h: how many jobs a pool may claim now, as step functions without a clock: free
 * slots, which start one after the other and have a burst limit at first; and a circuit breaker,
 * which pauses claims after repeated failures.
 */
#ifndef WORKER_CLAIM_LIMITS_H
#define WORKER_CLAIM_LIMITS_H

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
	int64_t cap; /* may exceed rules.count after a resize: the surplus drains */
	int64_t busy;
	int64_t first; /* all slots before it are busy */
};

void slots_init(struct slots *s, const struct slots_rules *rules, int64_t now_ms);
void slots_release(struct slots *s);
/* How many jobs could be claimed now. */
int64_t slots_free(const struct slots *s, int64_t now_ms);
/* The same if `given` busy slots were freed, of which `again` may take another job. */
int64_t slots_free_with(const struct slots *s, int64_t given, int64_t again, int64_t now_ms);
/* Could a busy slot take another job if it were freed now? */
bool slots_again(const struct slots *s, int64_t index, int64_t now_ms);
/* Take a slot that slots_free() counted; returns its index. */
int64_t slots_take(struct slots *s, int64_t now_ms);
void slots_give(struct slots *s, int64_t index);
void slots_resize(struct slots *s, int64_t count);
/* When a slot that stagger or burst holds back becomes free; -1: there is none. */
int64_t slots_wait_ms(const struct slots *s, int64_t now_ms);

/* ---- the breaker ---- */

/*
 * Closed, open, probing. Any success closes it, even a late one of a call that was made before it
 * opened: the database answers. A late failure while it is open is no news and prolongs nothing.
 */
enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };
extern const char *const breaker_names[];

struct breaker_rules {
	int failures;         /* 5 consecutive ones open it */
	int64_t pause_ms;     /* 1000: first pause; doubles after each failed probe */
	int64_t pause_max_ms; /* 30000 */
};

struct breaker {
	struct breaker_rules rules;
	enum breaker_state state;
	int failures; /* consecutive */
	int64_t pause_ms, until_ms;
	int64_t opened, tries, failed; /* how often it opened; calls, and failed calls */
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules);
/* May a call be made now? If it is open and the pause is over, only one caller gets the probe. */
bool breaker_allow(struct breaker *b, int64_t now_ms);
/* `chance` in [0, 1) spreads the probes of many workers (full jitter on the pause). */
void breaker_report(struct breaker *b, bool success, double chance, int64_t now_ms);
/* The probe was not made: the next caller gets it. */
void breaker_return(struct breaker *b);
/* How long until a call may be made; 0: now. */
int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms);

#endif
