/* SPDX-License-Identifier: Apache-2.0
 * source_table_decide.c: what becomes of jobs of a user's table that ended: which
 * of his lists is written, whether they are tried again, and when. The facts
 * are read, and under lock; nothing here asks a database or a clock.
 */
#include "recover/decide.h"
#include "worker/source_table_inside.h"

/* ---- decide ---- */

static bool went_wrong(const struct ending *e)
{
	return e->given->as == SETTLE_FAILED || e->given->as == SETTLE_TIMED_OUT ||
	       e->given->as == SETTLE_CRASHED;
}

/*
 * The lease counts the attempts at this step; what the row counts is its runs,
 * and has no say in how often they are undone. Whether a row is rolled back is
 * for its own predicate to say, once it has failed.
 */
static enum step_after after_step(const struct watch *w, const struct ending *e)
{
	bool left =
		e->lease_attempts < e->max_attempts && (e->undoing || e->row.attempt < e->max_attempts);
	const struct step_facts facts = {
		.as = e->given->as,
		.more = e->given->step.more,
		.undoing = e->undoing,
		.cancelling = e->cancelled,
		.attempts_left = w->backoff.given && left,
	};
	return step_after(&facts);
}

/* What is not given of the lists; a row that is being undone stays as it is to the end. */
static enum work_list list_for(const struct table_sql *q, const struct ending *e)
{
	static const enum work_list lists[] = {
		[AFTER_NEXT] = LIST_STEP,
		[AFTER_RELEASED] = LIST_RELEASE,
		[AFTER_RETRY] = LIST_RELEASE,
		[AFTER_ROLLBACK] = LIST_FAILED,
		[AFTER_DONE] = LIST_DONE,
		[AFTER_FAILED] = LIST_FAILED,
		[AFTER_TIMED_OUT] = LIST_TIMED_OUT,
		[AFTER_CANCELLED] = LIST_FAILED,
		[AFTER_ROLLED_BACK] = LIST_ROLLED_BACK,
	};
	enum work_list list = lists[e->after];
	if (e->undoing && e->after != AFTER_ROLLED_BACK)
		return LIST_NONE;
	if (q->lists[list].sql)
		return list;
	return list == LIST_STEP                                              ? LIST_RELEASE
	       : list == LIST_TIMED_OUT                                       ? LIST_FAILED
	       : list == LIST_RELEASE && e->retry && q->lists[LIST_CLAIM].sql ? LIST_FAILED
	                                                                      : list;
}

static int64_t pause_ms(struct table_source *src, const struct ending *e)
{
	const struct backoff *b = &src->watch->backoff;
	if (!e->retry && !(went_wrong(e) && !b->given))
		return 0;
	if (e->given->delay_ms >= 0)
		return e->given->delay_ms;
	/* The attempt that just failed is counted already: the first wait is the base. */
	int64_t attempt = is_step(e) ? e->lease_attempts : e->row.attempt;
	int64_t before = attempt > 0 ? attempt - 1 : 0;
	return b->given ? backoff_us(b, before, chance_draw(&src->chance)) / 1000 : 0;
}

static enum step_after after_job(const struct watch *w, const struct ending *e)
{
	const struct settle_facts facts = {
		.as = e->given->as,
		.cancelling = e->cancelled,
		.retried = w->backoff.given,
		.attempts = e->row.attempt,
		.max_attempts = e->max_attempts,
	};
	return settle_after(&facts).after;
}

static void decide_one(const struct table_source *src, struct ending *e)
{
	const struct watch *w = src->watch;
	e->after = (is_step(e) ? after_step : after_job)(w, e);
	e->retry = e->after == AFTER_RETRY;
	e->list = list_for(&src->sql, e);
	e->over = e->after != AFTER_RETRY && e->after != AFTER_RELEASED;
	/*
	 * Attempts that are over are not held against the job when somebody starts it anew. Where
	 * we do not try again, somebody else does: then it is they who are counted.
	 */
	if (!is_step(e) && went_wrong(e) && !w->backoff.given && !e->cancelled)
		e->over = false;
}

void decide_endings(struct settling *z)
{
	for (int i = 0; i < z->n; i++) {
		struct ending *e = &z->all[i];
		if (!writable(e))
			continue;
		decide_one(z->src, e);
		e->pause_ms = pause_ms(z->src, e);
		if (e->pause_ms > 0)
			e->row.retry_us = e->row.now_us + e->pause_ms * 1000;
		if (e->cancelled && !e->row.error && e->given->as != SETTLE_DONE)
			e->row.error = "cancelled";
		e->row.reason = e->row.error ? e->row.error : settle_names[e->given->as];
	}
}
