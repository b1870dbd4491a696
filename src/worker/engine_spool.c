/* SPDX-License-Identifier: Apache-2.0
 * engine_spool.c: ends that cannot be recorded: who is handed to the spool, and when.
 */
#include "worker/engine_inside.h"

#include <assert.h>

void flush_spool(struct engine *e, struct engine_crew *first)
{
	if (!first->spool.first)
		return;
	struct engine_action *a = act(e, ACTION_SPOOL, first->spool.first);
	a->why = first->spool.first->why;
	a->count = first->spool.n;
	first->spool = (struct job_list){0};
}

void spool_job(struct engine *e, struct job *j, const struct failure *why)
{
	struct engine_crew *first = crew_first(e, j->pool);
	const struct job *last = first->spool.last;
	j->place = JOB_SPOOLED;
	free(j->why);
	j->why = mem_alloc(sizeof *j->why);
	*j->why = *why;
	if (last && (last->why->code != why->code || strcmp(last->why->what, why->what) != 0))
		flush_spool(e, first);
	list_add(&first->spool, j);
	first->spooled++;
	first->spooled_new++;
	first->drain_us = later(first->drain_us, e->now_us + DRAIN_US);
}

/* They were tried for long enough. A stray is handed back or found again, never kept. */
void spool_old(struct engine *e, struct engine_crew *crew)
{
	static const struct failure paused = {.code = DEFIB_CONNECTION,
	                                      .what = "the database has not answered for a while"};
	const struct failure *why = crew->failing ? &crew->why : &paused;
	int64_t since = ms(e->now_us) - e->options.keep_trying_ms;
	if (e->turning || (!crew->failing && e->breaker.state == BREAKER_CLOSED))
		return;
	while (crew->ends.first && crew->ends.first->ended_ms <= since) {
		struct job *j = crew->ends.first;
		crew->ends.first = j->queued;
		crew->ends.n--;
		if (!crew->ends.first)
			crew->ends.last = NULL;
		if (j->stray || j->unclaimed)
			job_out(e, j, ACTION_FORGOTTEN, NULL);
		else
			spool_job(e, j, why);
	}
}

void take_spooled(struct engine *e, struct job *j, bool kept)
{
	struct engine_crew *first = crew_first(e, j->pool);
	while (j) {
		struct job *next = j->queued;
		assert(j->place == JOB_SPOOLED);
		e->counts.spooled += kept;
		e->counts.given_up += !kept;
		first->spooled -= !kept && first->spooled > 0;
		first->spooled_new -= !kept && first->spooled_new > 0;
		if (kept)
			forget_job(e, j, j->why);
		else
			job_out(e, j, ACTION_GIVEN_UP, j->why);
		j = next;
	}
}
