/* SPDX-License-Identifier: Apache-2.0
 * engine_ahead.c: jobs that are claimed before a slot is free for them.
 *
 * A program that takes a millisecond is over before its predecessor's end is recorded. So a pool
 * whose jobs were short for a while has more in hand than it has slots, as many as are expected to
 * begin within AHEAD_US: whoever runs them begins the next one when one has ended, and ends are
 * recorded, and more claimed, meanwhile. When nothing ends for a while, what has not begun is
 * handed back for others, and nothing is claimed ahead until jobs are short again.
 */
#include "worker/engine_inside.h"

#define SHORT_MS 100    /* what a short job takes at most */
#define SHORT_RUNS 8    /* so many in a row */
#define AHEAD_US 20000  /* a job that was claimed ahead is expected to begin so soon */
#define STILL_US 100000 /* how long nothing may end while such jobs wait */

void ahead_note_end(struct engine *e, struct engine_crew *crew, const struct job *j)
{
	bool is_short = j->as == SETTLE_DONE && j->ran_ms >= 0 && j->ran_ms <= SHORT_MS;
	if (is_short && crew->short_runs >= SHORT_RUNS)
		crew->short_ms -= crew->short_ms / SHORT_RUNS;
	crew->short_ms = is_short ? crew->short_ms + j->ran_ms : 0;
	crew->short_runs = is_short ? crew->short_runs + 1 : 0;
	crew->stirred_us = e->now_us;
}

/* How many jobs of the pool begin within so long. */
static int64_t begin_within(const struct engine_crew *crew, int64_t us)
{
	int64_t run_us = later(crew->short_ms * 1000 / SHORT_RUNS, 1000);
	return crew->slots.rules.count * us / run_us;
}

int64_t ahead_most(const struct engine_crew *crew)
{
	int64_t most = sooner(begin_within(crew, AHEAD_US), crew->rules.ahead);
	return crew->short_runs >= SHORT_RUNS ? most : 0;
}

/*
 * Half of what is ahead may end while the other half begins, but enough must be left to begin
 * until a turn is answered, even one that takes twice as long as the last.
 */
static int64_t ends_wanted(const struct engine *e, const struct engine_crew *crew)
{
	int64_t most = ahead_most(crew), left = begin_within(crew, 2 * e->took_us);
	return later(sooner((most + 1) / 2, most - left), 1);
}

int64_t ahead_company_us(const struct engine *e, const struct engine_crew *crew)
{
	bool alone = crew->jobs == crew->ends.n;
	if (alone || crew->ends.n >= ends_wanted(e, crew))
		return 0;
	return crew->ends.first->ended_ms * 1000 + LINGER_US;
}

int64_t ahead_enough(const struct engine *e, const struct engine_crew *crew)
{
	return crew->ends.n > 0 ? ends_wanted(e, crew) - crew->ends.n : 1;
}

void ahead_take_slots(struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	for (struct job *j = e->hand; j; j = j->next) {
		struct engine_crew *crew = &e->crews[j->pool];
		if (j->slot >= 0 || j->stray || slots_free(&crew->slots, now_ms) == 0)
			continue;
		j->slot = slots_take(&crew->slots, now_ms);
		crew->slotless--;
	}
}

int64_t ahead_over_us(const struct engine_crew *crew)
{
	return crew->slotless > 0 && crew->rules.ahead > 0 && !crew->returned
	           ? crew->stirred_us + STILL_US
	           : NEVER;
}

void ahead_return(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		struct engine_crew *crew = &e->crews[i];
		if (ahead_over_us(crew) > e->now_us)
			continue;
		crew->returned = true;
		crew->short_runs = 0;
		act(e, ACTION_RETURN, NULL)->pool = i;
	}
}
