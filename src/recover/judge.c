/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/judge.h"

#include "recover/decide.h"

#include <assert.h>

enum rule_id {
	RULE_NOT_RUNNING,
	RULE_OWNER_GONE,
	RULE_NO_SIGN_ORPHAN,
	RULE_SILENT,
	RULE_EXPIRED,
	RULE_OVERDUE,
	RULE_LINGERS,
	RULE_STALLED,
	RULE_OWNER_LIVES,
	RULE_NO_SIGN,
	RULE_FRESH,
};

const struct judge_rule judge_rules[] = {
	[RULE_NOT_RUNNING] = {"not-running", VERDICT_NONE, "the row does not say that it is running"},
	[RULE_OWNER_GONE] = {"owner-gone", VERDICT_DEAD, "owner_alive says that its worker is gone"},
	[RULE_NO_SIGN_ORPHAN] = {"no-sign-orphan", VERDICT_ORPHAN,
                             "it has no sign of life, which the watch treats as an orphan"},
	[RULE_SILENT] = {"silent", VERDICT_SILENT, "its sign of life is older than stuck_after"},
	[RULE_EXPIRED] = {"expired", VERDICT_SILENT, "its deadline passed longer ago than stuck_after"},
	[RULE_OVERDUE] = {"overdue", VERDICT_OVERDUE, "it has run longer than overdue_after"},
	[RULE_LINGERS] = {"lingers", VERDICT_OVERDUE,
                      "it has been in its state longer than overdue_after allows"},
	[RULE_STALLED] = {"stalled", VERDICT_STALLED,
                      "its progress has not changed for longer than stalled_after"},
	[RULE_OWNER_LIVES] = {"owner-lives", VERDICT_NONE, "owner_alive says that its worker is alive"},
	[RULE_NO_SIGN] = {"no-sign", VERDICT_NONE, "it has no sign of life yet and is never stuck"},
	[RULE_FRESH] = {"fresh", VERDICT_NONE, "its sign of life is fresh enough"},
	{NULL, VERDICT_NONE, NULL},
};

static const enum rule_id sign_rules[] = {
#define X(id, name, option, limit, deadline, refuted, states, rule, words)                         \
	[SIGN_##id] = RULE_##rule,
	SIGN_LIST(X)
#undef X
};

const struct judge_rule *judge_sign_rule(enum sign s)
{
	return &judge_rules[sign_rules[s]];
}

static struct judgement by(enum rule_id id)
{
	return (struct judgement){.verdict = judge_rules[id].verdict, .rule = &judge_rules[id]};
}

/* Measure one sign against its limit; false if the watch or the row has none. */
static bool judge_measure(const struct watch *w, const struct facts *f, enum sign s,
                          struct judgement *out)
{
	if (!watch_measures(w, s) || !f->has_sign[s])
		return false;
	out->sign = s;
	out->value = s == SIGN_PROGRESS ? f->progress : NULL;
	out->measured = true;
	out->measured_us = f->now_us - f->sign_us[s];
	return watch_limit_of(w, s, f, &out->limit_us, &out->limit_from);
}

static bool exceeds(const struct watch *w, const struct facts *f, enum sign s,
                    struct judgement *out)
{
	struct judgement j = by(sign_rules[s]);
	if (!judge_measure(w, f, s, &j) || j.measured_us <= j.limit_us)
		return false;
	*out = j;
	return true;
}

static bool has_any_sign(const struct watch *w, const struct facts *f)
{
	for (int s = 0; s < SIGN_COUNT; s++)
		if (watch_measures(w, (enum sign)s) && f->has_sign[s])
			return true;
	return false;
}

/* ---- rows that wait ---- */

enum waiting_rule { NOT_DUE, HAS_RUN, QUEUED, WAITS, MOVED_ON, NO_RUN, UNSTARTED };

const struct judge_rule waiting_rules[] = {
	[NOT_DUE] = {"not-due", VERDICT_NONE, "it waits, and is not due for longer than late_after"},
	[HAS_RUN] = {"has-run", VERDICT_NONE, "it waits, and had a run since it was last due"},
	[QUEUED] = {"queued", VERDICT_NONE,
                "it waits behind others: jobs of its kind are being started"},
	[WAITS] = {"waits", VERDICT_NONE,
               "it waits for longer than late_after, and whether jobs of its kind are being "
               "started is not known"},
	[MOVED_ON] = {"moved-on", VERDICT_UNSTARTED,
                  "its schedule moved on, and no run began since it was last due"},
	[NO_RUN] = {"no-run", VERDICT_UNSTARTED,
                "it is due for longer than late_after, and no run began since"},
	[UNSTARTED] = {"unstarted", VERDICT_UNSTARTED,
                   "it is due for longer than late_after, and no job of its kind is being started"},
	{NULL, VERDICT_NONE, NULL},
};

/* The rule of a row that is due for longer than late_after. */
static enum waiting_rule judge_late(const struct watch *w, const struct facts *f)
{
	bool schedule = w->last_run_at.text;
	if (schedule && f->has_last_run && f->last_run_us >= f->due_us)
		return HAS_RUN;
	if (f->starts == STARTS_SEEN)
		return QUEUED;
	if (f->starts == STARTS_UNKNOWN)
		return WAITS;
	if (schedule)
		return f->moved_on ? MOVED_ON : NO_RUN;
	return UNSTARTED;
}

/* Since when it is due, and whether anything is being started. */
static struct judgement judge_waiting(const struct watch *w, const struct facts *f)
{
	int64_t limit_us;
	if (!f->has_due || !threshold_for(&w->late_after, f->kind, &limit_us))
		return by(RULE_NOT_RUNNING);
	int64_t waited_us = f->now_us - f->due_us;
	const struct judge_rule *rule =
		&waiting_rules[waited_us > limit_us ? judge_late(w, f) : NOT_DUE];
	return (struct judgement){.verdict = rule->verdict,
	                          .rule = rule,
	                          .waited = true,
	                          .measured = true,
	                          .measured_us = waited_us,
	                          .limit_us = limit_us};
}

/* ---- all rows ---- */

struct judgement judge(const struct watch *w, const struct facts *f)
{
	struct judgement j;
	assert(w != NULL && f != NULL);
	if (!f->running && f->waiting)
		return judge_waiting(w, f);
	if (!f->running)
		return by(RULE_NOT_RUNNING);
	if (f->owner_alive == KNOWN_NO)
		return by(RULE_OWNER_GONE);
	/* A worker that is known to be alive is neither lost nor silent; it can still be overdue. */
	if (f->owner_alive != KNOWN_YES && w->missing == MISSING_ORPHAN &&
	    !f->has_sign[watch_first_sign(w)])
		return by(RULE_NO_SIGN_ORPHAN);
	for (int s = 0; s < SIGN_COUNT; s++)
		if (!(sign_kinds[s].refuted && f->owner_alive == KNOWN_YES) &&
		    exceeds(w, f, (enum sign)s, &j))
			return j;
	if (f->owner_alive == KNOWN_YES)
		return by(RULE_OWNER_LIVES);
	if (!has_any_sign(w, f))
		return by(RULE_NO_SIGN);
	j = by(RULE_FRESH);
	for (int s = 0; s < SIGN_COUNT; s++) {
		struct judgement measured = j;
		if (judge_measure(w, f, (enum sign)s, &measured))
			return measured;
	}
	return j;
}

struct judgement judge_shown(const struct watch *w, const struct facts *f)
{
	struct judgement j = judge(w, f);
	if (judged_excused(f, &j))
		j.verdict = VERDICT_NONE;
	return j;
}
