/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c: see suggest.h. */
#include "insight/suggest.h"

#include "base/clock.h"

/* Shorter than today's by less than this is not worth a word. */
#define WORTH 1.25

bool runs_are_silent(const struct watch *w)
{
	return w->alive_at.text && w->beat_us == 0 && !w->owner_alive.text;
}

const struct threshold *run_threshold(const struct watch *w, const char **option)
{
	bool stuck = !w->overdue_after.given && runs_are_silent(w);
	*option = stuck ? "stuck_after" : "overdue_after";
	return stuck ? &w->stuck_after : &w->overdue_after;
}

/* Up to whole seconds. */
static int64_t rounded_up(double us)
{
	return (int64_t)(us / (double)US_PER_S + 0.999999) * US_PER_S;
}

static int64_t long_enough(const struct watch *w, const struct suggestion *s,
                           const struct run_times *t)
{
	double us = SUGGEST_FACTOR * (double)s->p99_us;
	/* Up to the edge of what the histogram can tell: no such run may be longer. */
	double thousandth = (double)run_times_quantile(t, 0.999) * (1 + RUN_TIMES_ERROR);
	int64_t least = w->beat_us ? 2 * w->beat_us : SUGGEST_FLOOR_US;
	if (thousandth > (double)s->longest_us)
		thousandth = (double)s->longest_us;
	if (us < thousandth)
		us = thousandth;
	return us < (double)least ? least : rounded_up(us);
}

static enum advice advise(const struct suggestion *s)
{
	int64_t ceiling = s->has_today ? SUGGEST_CEILING * s->today_us : SUGGEST_CEILING_US;
	if (s->us > ceiling)
		return ADVICE_BEYOND;
	if (!s->has_today)
		return ADVICE_NEW;
	if (s->us > s->today_us)
		return s->over_today > 0 ? ADVICE_RAISE : ADVICE_NEAR;
	return (double)s->us * WORTH < (double)s->today_us ? ADVICE_LOWER : ADVICE_FITS;
}

void suggest(const struct watch *w, const char *kind, const struct run_times *t,
             struct suggestion *out)
{
	*out = (struct suggestion){.n = run_times_n(t),
	                           .p50_us = run_times_quantile(t, 0.50),
	                           .p95_us = run_times_quantile(t, 0.95),
	                           .p99_us = run_times_quantile(t, 0.99),
	                           .longest_us = run_times_longest(t)};
	const struct threshold *today = run_threshold(w, &out->option);
	out->has_today = threshold_for(today, kind, &out->today_us) && out->today_us > 0;
	if (out->has_today)
		out->over_today = run_times_over(t, out->today_us);
	/* Halving leaves fractions: half a run too few is enough. */
	if (out->n + 0.5 < SUGGEST_RUNS)
		return;
	out->us = long_enough(w, out, t);
	out->over = run_times_over(t, out->us);
	out->advice = advise(out);
	out->has_us = out->advice != ADVICE_BEYOND && out->advice != ADVICE_FITS;
}

void share_text(double share, struct buf *out)
{
	double percent = 100 * share;
	if (percent > 0 && percent < 0.1)
		buf_add(out, "less than 0.1 %");
	else
		buf_addf(out, "%.1f %%", percent);
}

/* "30m" after a blank, or nothing where there is no threshold. */
static void add_today(const struct suggestion *s, struct buf *out)
{
	buf_add(out, s->option);
	if (!s->has_today)
		return;
	buf_add(out, " ");
	duration_text(s->today_us, out);
}

/* {p99} {today} {us} {over} are filled in. */
static const char *const sentences[] = {
	[ADVICE_FITS] = "p99 is {p99}; {today} fits",
	[ADVICE_LOWER] = "p99 is {p99}; {today} could be {us}",
	[ADVICE_NEAR] = "p99 is {p99}, close to {today}; {us} leaves room",
	[ADVICE_RAISE] = "{over} of runs take longer than {today}: it will recover jobs that are still "
					 "running; {us} leaves room",
	[ADVICE_NEW] = "p99 is {p99}; {today} could be {us}: there is none, so work that hangs while "
				   "its worker lives is not found",
	[ADVICE_BEYOND] = "p99 is {p99}, far beyond {today}: check that stats.started_at and "
					  "stats.finished_at describe one run before you change anything",
};

static void fill_in(const struct suggestion *s, char what, struct buf *out)
{
	if (what == 'p')
		duration_text(s->p99_us, out);
	else if (what == 't')
		add_today(s, out);
	else if (what == 'u')
		duration_text(s->us, out);
	else
		share_text(s->over_today, out);
}

void suggestion_sentence(const struct suggestion *s, const char *who, struct buf *out)
{
	buf_addf(out, "%s: ", who);
	if (s->advice == ADVICE_FEW) {
		buf_addf(out, "%.0f runs are recorded; a suggestion needs %d", s->n, SUGGEST_RUNS);
		return;
	}
	for (const char *at = sentences[s->advice]; *at; at++) {
		if (*at != '{') {
			buf_addch(out, *at);
			continue;
		}
		fill_in(s, at[1], out);
		while (*at != '}')
			at++;
	}
}
