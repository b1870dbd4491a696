/* SPDX-License-Identifier: Apache-2.0
 * breaker.h: repeated failures pause the loop; it resumes by itself after a
 * probe succeeds. A step function: no clock, no I/O.
 */
#ifndef WORKER_BREAKER_H
#define WORKER_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };
extern const char *const breaker_names[];

struct breaker_rules {
	int failures;         /* 5 in a row open it */
	int64_t pause_ms;     /* 1000: first pause; doubles with each failed probe */
	int64_t pause_max_ms; /* 30000 */
};

struct breaker {
	struct breaker_rules rules;
	enum breaker_state state;
	int failures; /* in a row */
	int64_t pause_ms, until_ms;
	int64_t opened, tries, failed; /* how often it opened; calls, and those that failed */
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules);
/* May a call be made now? When open and the pause is over, exactly one caller gets the probe. */
bool breaker_allow(struct breaker *b, int64_t now_ms);
/* `chance` in [0, 1) spreads the probes of many workers (full jitter on the pause). */
void breaker_report(struct breaker *b, bool success, double chance, int64_t now_ms);
/* The probe was not made after all: whoever asks next gets it. */
void breaker_return(struct breaker *b);
/* How long until a call may be made; 0: now. */
int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms);

#endif
