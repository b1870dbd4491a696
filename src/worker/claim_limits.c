/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/claim_limits.h"

#include "base/mem.h"

#include <assert.h>

void slots_init(struct slots *s, const struct slots_rules *rules, int64_t now_ms)
{
	assert(rules->count >= 0);
	*s = (struct slots){.rules = *rules, .start_ms = now_ms, .cap = rules->count};
	s->all = mem_alloc(sizeof *s->all * (size_t)(s->cap + 1));
}

void slots_release(struct slots *s)
{
	free(s->all);
	*s = (struct slots){0};
}

static int64_t begins_ms(const struct slots *s, int64_t i)
{
	return s->start_ms + i * s->rules.stagger_ms;
}

static bool within_burst(const struct slots *s, int64_t i, int64_t now_ms)
{
	return s->rules.burst_limit > 0 && now_ms < begins_ms(s, i) + s->rules.burst_ms;
}

/* Whether slot `i`, if it is not busy, may take a job. */
static bool may_take(const struct slots *s, int64_t i, int64_t now_ms)
{
	if (i >= s->rules.count || now_ms < begins_ms(s, i))
		return false;
	return !within_burst(s, i, now_ms) || s->all[i].taken < s->rules.burst_limit;
}

static bool limits_takes(const struct slots *s, int64_t i, int64_t now_ms)
{
	return !s->all[i].busy && may_take(s, i, now_ms);
}

/* The last slot has started, and its burst is over: from now on all slots are the same. */
static bool alike(const struct slots *s, int64_t now_ms)
{
	return now_ms >= begins_ms(s, s->rules.count) && !within_burst(s, s->rules.count, now_ms);
}

/* After a resize, slots beyond the new count may still be busy: they count until they drain. */
static int64_t limits_room(const struct slots *s, int64_t given)
{
	int64_t busy = s->busy - given;
	return busy < s->rules.count ? s->rules.count - busy : 0;
}

int64_t slots_free_with(const struct slots *s, int64_t given, int64_t again, int64_t now_ms)
{
	int64_t n = again, most = limits_room(s, given);
	if (alike(s, now_ms))
		return most;
	for (int64_t i = s->first; i < s->cap && n < most; i++)
		n += limits_takes(s, i, now_ms);
	return n < most ? n : most;
}

int64_t slots_free(const struct slots *s, int64_t now_ms)
{
	return slots_free_with(s, 0, 0, now_ms);
}

bool slots_again(const struct slots *s, int64_t index, int64_t now_ms)
{
	return may_take(s, index, now_ms);
}

int64_t slots_take(struct slots *s, int64_t now_ms)
{
	assert(limits_room(s, 0) > 0);
	while (s->first < s->cap && s->all[s->first].busy)
		s->first++;
	int64_t i = s->first;
	while (i < s->cap && !limits_takes(s, i, now_ms))
		i++;
	assert(i < s->cap);
	s->all[i].busy = true;
	s->all[i].taken++;
	s->busy++;
	return i;
}

void slots_give(struct slots *s, int64_t index)
{
	assert(index >= 0 && index < s->cap && s->all[index].busy);
	s->all[index].busy = false;
	s->busy--;
	if (index < s->first)
		s->first = index;
}

void slots_resize(struct slots *s, int64_t count)
{
	assert(count >= 0);
	if (count > s->cap) {
		s->all = mem_grow(s->all, sizeof *s->all * (size_t)(count + 1));
		for (int64_t i = s->cap; i < count; i++)
			s->all[i] = (struct slot){0};
		s->cap = count;
	}
	s->rules.count = count;
}

int64_t slots_wait_ms(const struct slots *s, int64_t now_ms)
{
	int64_t wait = -1;
	if (slots_free(s, now_ms) == limits_room(s, 0))
		return -1;
	for (int64_t i = 0; i < s->rules.count; i++) {
		if (s->all[i].busy || limits_takes(s, i, now_ms))
			continue;
		int64_t at =
			now_ms < begins_ms(s, i) ? begins_ms(s, i) : begins_ms(s, i) + s->rules.burst_ms;
		if (wait < 0 || at - now_ms < wait)
			wait = at - now_ms;
	}
	return wait;
}

/* ---- the breaker ---- */

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
	if (b->state == BREAKER_OPEN)
		return;
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
	return b->pause_ms; /* not known: the result of the probe decides */
}
