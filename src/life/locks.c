/* SPDX-License-Identifier: Apache-2.0
 * locks.c: from readings of held locks to workers that are gone.
 *
 * Three rules protect live workers. A lock must have been seen before it can disappear. It must
 * stay away for a grace period. And readings from before an outage of our own do not count: the
 * same trouble may have cut the worker's session, so its absence is counted from the start again,
 * and no worker is reported before the quiet time is over. Two absences without a reading in
 * between look like one, which is why readings are frequent compared with the grace.
 */
#include "life/locks.h"

#include "life/incarnation.h"

#include <assert.h>

void locks_init(struct locks *x, const struct locks_rules *rules)
{
	assert(rules->grace_ms >= 0 && rules->quiet_ms >= 0 && rules->gap_ms > 0);
	*x = (struct locks){.rules = *rules};
}

void locks_release(struct locks *x)
{
	free(x->workers);
	x->workers = NULL;
	x->n = x->cap = 0;
}

/* A lock names its worker by its nonce. */
static int by_nonce(const void *a, const void *b)
{
	int64_t x = worker_nonce(((const struct locks_worker *)a)->id);
	int64_t y = worker_nonce(((const struct locks_worker *)b)->id);
	return (x > y) - (x < y);
}

static struct locks_worker *locks_find(const struct locks *x, int64_t id)
{
	struct locks_worker key = {.id = id};
	if (x->n == 0)
		return NULL;
	return bsearch(&key, x->workers, (size_t)x->n, sizeof key, by_nonce);
}

void locks_set(struct locks *x, const int64_t *ids, int n)
{
	assert(n >= 0);
	struct locks_worker *next = mem_alloc(sizeof *next * (size_t)(n + 1));
	int once = 0;
	for (int i = 0; i < n; i++) {
		const struct locks_worker *known = locks_find(x, ids[i]);
		next[i] = known ? *known : (struct locks_worker){.id = ids[i]};
	}
	qsort(next, (size_t)n, sizeof *next, by_nonce);
	for (int i = 0; i < n; i++)
		if (once == 0 || by_nonce(&next[once - 1], &next[i]) != 0)
			next[once++] = next[i];
	free(x->workers);
	x->workers = next;
	x->n = once;
	x->cap = n + 1;
}

static void quiet_from(struct locks *x, int64_t now_ms)
{
	x->quiet_until_ms = now_ms + x->rules.quiet_ms;
	for (int i = 0; i < x->n; i++) {
		x->workers[i].gone_ms = 0;
		x->workers[i].reported = false;
	}
}

void locks_outage(struct locks *x, int64_t now_ms)
{
	quiet_from(x, now_ms);
	x->outage = true; /* it lasts until the next reading: the quiet time starts there */
}

/* Absent unless the reading has it; the first absent reading sets the time. */
static void mark_held(struct locks *x, const int64_t *held, int nheld, int64_t step_ms,
                      int64_t now_ms)
{
	for (int i = 0; i < x->n; i++) {
		struct locks_worker *w = &x->workers[i];
		if (w->gone_ms != 0) {
			w->away_ms += step_ms;
		} else if (w->held_once) {
			w->gone_ms = now_ms;
			w->away_ms = 0;
		}
	}
	for (int i = 0; i < nheld; i++) {
		struct locks_worker *w = locks_find(x, held[i]);
		if (w)
			*w = (struct locks_worker){.id = w->id, .held_once = true};
	}
}

static bool locks_is_over(const struct locks *x, const struct locks_worker *w, int64_t now_ms)
{
	return w->gone_ms != 0 && !w->reported && now_ms >= x->quiet_until_ms &&
	       w->away_ms >= x->rules.grace_ms;
}

int locks_reading(struct locks *x, const int64_t *held, int nheld, int64_t now_ms,
                  struct locks_gone *gone)
{
	int n = 0;
	assert(now_ms > 0 && now_ms >= x->last_ms && nheld >= 0);
	if (x->outage || (x->last_ms != 0 && now_ms - x->last_ms > x->rules.gap_ms))
		quiet_from(x, now_ms);
	int64_t step = now_ms - x->last_ms;
	if (x->rules.step_ms != 0 && step > x->rules.step_ms)
		step = x->rules.step_ms;
	x->outage = false;
	x->last_ms = now_ms;
	mark_held(x, held, nheld, step, now_ms);
	for (int i = 0; i < x->n; i++) {
		struct locks_worker *w = &x->workers[i];
		if (locks_is_over(x, w, now_ms)) {
			w->reported = true;
			gone[n++] = (struct locks_gone){w->id, w->gone_ms};
		}
	}
	return n;
}

int64_t locks_last_gone_ms(const struct locks *x)
{
	int64_t last = 0;
	for (int i = 0; i < x->n; i++)
		last = x->workers[i].gone_ms > last ? x->workers[i].gone_ms : last;
	return last;
}
