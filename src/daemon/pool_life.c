/* SPDX-License-Identifier: Apache-2.0 */
/* pool_life.c: see pool_life.h. */
#include "daemon/pool_life.h"

#include <assert.h>

void pool_life_init(struct pool_life *l, int64_t now_ms)
{
	*l = (struct pool_life){.due_ms = now_ms, .pause_ms = POOL_PAUSE_MS};
}

static enum pool_act step_stopping(struct pool_life *l, int64_t now_ms)
{
	if (l->term) {
		l->term = false;
		return POOL_TERM;
	}
	if (now_ms < l->due_ms)
		return POOL_NOTHING;
	l->due_ms = now_ms + POOL_PAUSE_MS; /* until it is gone */
	return POOL_KILL;
}

enum pool_act pool_step(struct pool_life *l, int64_t now_ms)
{
	if (l->state == POOL_STOPS)
		return step_stopping(l, now_ms);
	return l->state == POOL_WAITS && now_ms >= l->due_ms ? POOL_START : POOL_NOTHING;
}

void pool_began(struct pool_life *l, int64_t now_ms)
{
	assert(l->state == POOL_WAITS);
	l->state = POOL_RUNS;
	l->began_ms = now_ms;
}

void pool_ended(struct pool_life *l, int64_t now_ms)
{
	assert(l->state != POOL_OVER);
	if (l->state == POOL_STOPS) {
		l->state = l->again ? POOL_WAITS : POOL_OVER;
		l->due_ms = now_ms;
		return;
	}
	/* One that could not be started at all has no life to count. */
	if (l->state == POOL_RUNS && now_ms - l->began_ms >= POOL_LIVED_MS)
		l->pause_ms = POOL_PAUSE_MS;
	l->state = POOL_WAITS;
	l->due_ms = now_ms + l->pause_ms;
	l->pause_ms = l->pause_ms < POOL_PAUSE_MAX_MS / 2 ? 2 * l->pause_ms : POOL_PAUSE_MAX_MS;
	l->restarts++;
}

void pool_stop(struct pool_life *l, int64_t grace_ms, bool again, int64_t now_ms)
{
	if (l->state == POOL_OVER || (l->state == POOL_WAITS && again))
		return;
	l->again = again;
	if (l->state == POOL_WAITS) {
		l->state = POOL_OVER;
	} else if (l->state == POOL_RUNS) {
		l->state = POOL_STOPS;
		l->term = true;
		l->due_ms = now_ms + grace_ms;
	}
}

void pool_hurry(struct pool_life *l, int64_t now_ms)
{
	if (l->state != POOL_STOPS)
		return;
	l->term = true;
	if (l->due_ms > now_ms + POOL_HURRY_MS)
		l->due_ms = now_ms + POOL_HURRY_MS;
}

int64_t pool_due_ms(const struct pool_life *l)
{
	if (l->state == POOL_STOPS && l->term)
		return 0;
	return l->state == POOL_WAITS || l->state == POOL_STOPS ? l->due_ms : INT64_MAX;
}
