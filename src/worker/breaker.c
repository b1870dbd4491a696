/* SPDX-License-Identifier: Apache-2.0
 * breaker.c: closed, open, probing.
 *
 * Any success closes it, also a late one of a call that was made before it
 * opened: the database answers. A late failure while it is open says nothing
 * new and prolongs nothing.
 */
#include "worker/breaker.h"

#include <assert.h>

const char *const breaker_names[] = {
	[BREAKER_CLOSED] = "closed",
	[BREAKER_OPEN] = "open",
	[BREAKER_PROBING] = "probing",
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules)
{
	assert(rules->failures > 0 && rules->pause_ms > 0);
	assert(rules->pause_max_ms >= rules->pause_ms);
	*b = (struct breaker){.rules = *rules, .pause_ms = rules->pause_ms};
}

bool breaker_allow(struct breaker *b, int64_t now_ms)
{
	if (b->state == BREAKER_OPEN && now_ms >= b->until_ms) {
		b->state = BREAKER_PROBING;
		return true;
	}
	return b->state == BREAKER_CLOSED;
}

static void open_for(struct breaker *b, int64_t pause_ms, double chance, int64_t now_ms)
{
	assert(chance >= 0 && chance < 1);
	b->state = BREAKER_OPEN;
	b->pause_ms = pause_ms < b->rules.pause_max_ms ? pause_ms : b->rules.pause_max_ms;
	b->until_ms = now_ms + 1 + (int64_t)((double)b->pause_ms * chance);
}

void breaker_report(struct breaker *b, bool success, double chance, int64_t now_ms)
{
	b->tries++;
	b->failed += !success;
	if (success) {
		b->state = BREAKER_CLOSED;
		b->failures = 0;
		b->pause_ms = b->rules.pause_ms;
		return;
	}
	if (b->state == BREAKER_OPEN) {
		return;
	}
	b->failures++;
	if (b->state == BREAKER_PROBING) {
		open_for(b, b->pause_ms * 2, chance, now_ms);
	} else if (b->failures >= b->rules.failures) {
		b->opened++;
		open_for(b, b->rules.pause_ms, chance, now_ms);
	}
}

void breaker_return(struct breaker *b)
{
	assert(b->state == BREAKER_PROBING);
	b->state = BREAKER_OPEN; /* its pause is over */
}

int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms)
{
	switch (b->state) {
	case BREAKER_CLOSED:
		return 0;
	case BREAKER_OPEN:
		return b->until_ms > now_ms ? b->until_ms - now_ms : 0;
	case BREAKER_PROBING:
		break;
	}
	return b->pause_ms; /* nobody knows: the probe's report decides */
}
