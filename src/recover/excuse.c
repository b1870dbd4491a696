/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/excuse.h"

#include "recover/judge.h"

/*
 * The sign whose time tells one judged run from the next; SIGN_COUNT: none. What is remembered has
 * no time of its own in the row, and an owner that is gone was not judged by a time: the start of
 * the run stands for both.
 */
static enum sign excuse_sign(const struct watch *w, const struct judgement *j)
{
	if (j->measured && !watch_remembers(w, j->sign))
		return j->sign;
	return watch_sign(w, SIGN_STARTED)->text ? SIGN_STARTED : SIGN_COUNT;
}

void excuse_of(const struct watch *w, const struct facts *f, const struct judgement *j,
               const char *actor, struct hold *out)
{
	enum sign s = excuse_sign(w, j);
	bool progress = j->measured && j->sign == SIGN_PROGRESS && watch_remembers(w, SIGN_PROGRESS);
	bool state = j->measured && j->limit_from.of == LIMIT_OF_STATE;
	*out = (struct hold){.job = f->job,
	                     .cause = HOLD_EXCUSE,
	                     .owner = f->owner,
	                     .has_sign = s < SIGN_COUNT && f->has_sign[s],
	                     .sign_us = s < SIGN_COUNT ? f->sign_us[s] : 0,
	                     .excuse = {.verdict = verdict_names[j->verdict],
	                                .sign = s < SIGN_COUNT ? sign_kinds[s].name : NULL,
	                                .state = state ? f->state : NULL,
	                                .progress = progress ? f->progress : NULL,
	                                .has_attempts = f->has_attempts,
	                                .attempts = f->attempts,
	                                .actor = actor}};
}

/* ---- whether it still covers the job ---- */

static enum sign sign_named(const char *name)
{
	int s = 0;
	while (s < SIGN_COUNT && !text_eq(sign_kinds[s].name, name))
		s++;
	return (enum sign)s;
}

/* Whether the watch that made it finds what was judged then. */
static bool same_run(const struct history *h, const struct facts *f)
{
	const struct excuse *x = &h->excuse;
	enum sign s = sign_named(x->sign);
	struct owner_sign made = {h->hold_owner, h->hold_has_sign, h->hold_sign_us};
	struct owner_sign now = {f->owner, s < SIGN_COUNT && f->has_sign[s],
	                         s < SIGN_COUNT ? f->sign_us[s] : 0};
	if (!owner_sign_same(&made, &now))
		return false;
	if (x->has_attempts != f->has_attempts || (x->has_attempts && x->attempts != f->attempts))
		return false;
	return (!x->state || text_eq(x->state, f->state)) &&
	       (!x->progress || text_eq(x->progress, f->progress));
}

/* Whether such a verdict is judged by this sign; a verdict without one, by the start of the run. */
static bool excuse_rests_on(const struct watch *w, enum verdict v, enum sign s)
{
	bool by_sign = false;
	for (int i = 0; i < SIGN_COUNT; i++)
		by_sign = by_sign || judge_sign_rule((enum sign)i)->verdict == v;
	if (!by_sign)
		return s == SIGN_STARTED || s == watch_first_sign(w);
	return judge_sign_rule(s)->verdict == v;
}

/* Another watch may read the row by other expressions: what it judges must be no newer. */
static bool nothing_newer(const struct watch *w, enum verdict v, int64_t at_us,
                          const struct facts *f)
{
	for (int s = 0; s < SIGN_COUNT; s++)
		if (excuse_rests_on(w, v, (enum sign)s) && watch_measures(w, (enum sign)s) &&
		    f->has_sign[s] && f->sign_us[s] > at_us)
			return false;
	return true;
}

enum verdict excuse_covers(const struct watch *w, const struct history *h, const struct facts *f)
{
	int v = h->excuse.verdict ? word_index(verdict_names, h->excuse.verdict) : VERDICT_NONE;
	bool own = text_eq(h->hold_watch, w->name);
	if (v <= VERDICT_NONE || !f->running)
		return VERDICT_NONE;
	bool same = own ? same_run(h, f) : nothing_newer(w, (enum verdict)v, h->hold_at_us, f);
	return same ? (enum verdict)v : VERDICT_NONE;
}

/* ---- the same in SQL ---- */

static void newer_sql(const struct watch *w, const struct excuse_sql *x, struct buf *out)
{
	buf_addf(out, "CASE %s.verdict", x->excuse);
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++) {
		buf_addf(out, " WHEN '%s' THEN greatest(0", verdict_names[v]);
		for (int s = 0; s < SIGN_COUNT; s++)
			if (watch_sign(w, (enum sign)s)->text &&
			    excuse_rests_on(w, (enum verdict)v, (enum sign)s))
				buf_addf(out, ", %s", x->signs[s]);
		buf_add(out, ")");
	}
	buf_addf(out, " END <= (extract(epoch FROM %s.at) * 1000000)::bigint", x->excuse);
}

void excuse_covers_sql(const struct watch *w, const struct excuse_sql *x, struct buf *out)
{
	const char *e = x->excuse;
	buf_addf(out,
	         "%s.verdict = (%s) AND CASE WHEN %s.watch = %s THEN %s.owner IS NOT DISTINCT FROM %s "
	         "AND %s.attempts IS NOT DISTINCT FROM %s AND %s.sign_us IS NOT DISTINCT FROM CASE "
	         "%s.sign",
	         e, x->verdict, e, x->watch, e, x->owner, e, x->attempts, e, e);
	for (int s = 0; s < SIGN_COUNT; s++)
		if (watch_sign(w, (enum sign)s)->text)
			buf_addf(out, " WHEN '%s' THEN %s", sign_kinds[s].name, x->signs[s]);
	buf_addf(out, " ELSE NULL END AND %s.progress IS NULL AND (%s.state IS NULL OR %s.state = %s) ",
	         e, e, e, x->state ? x->state : "NULL");
	buf_add(out, "ELSE ");
	newer_sql(w, x, out);
	buf_add(out, " END");
}
