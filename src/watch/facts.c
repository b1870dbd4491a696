/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/facts.h"

#include "base/clock.h"
#include "store/dialect.h"

/* ---- limits ---- */

static int state_limit(const struct state_limits *limits, const char *state)
{
	for (int i = 0; state && i < limits->n; i++)
		if (text_eq(limits->values[i], state))
			return i;
	return -1;
}

bool watch_limit_of(const struct watch *w, enum sign s, const struct facts *f, int64_t *us,
                    struct limit_from *from)
{
	const struct threshold *t = watch_limit(w, s);
	enum sign_states states = sign_kinds[s].states;
	int of_state = state_limit(&t->states, f->state);
	*from = (struct limit_from){0};
	*us = 0;
	if (of_state >= 0) {
		*us = t->states.us[of_state];
		*from = (struct limit_from){LIMIT_OF_STATE, t->states.names[of_state]};
		return states != SIGN_STATES_APART;
	}
	if (states == SIGN_STATES_ALONE)
		return false;
	if (f->has_own[s]) {
		*us = f->own_us[s];
		*from = (struct limit_from){LIMIT_OF_ROW, NULL};
		return true;
	}
	for (int i = 0; f->kind && i < t->n; i++)
		if (text_eq(t->kinds[i], f->kind))
			*from = (struct limit_from){LIMIT_OF_KIND, t->kinds[i]};
	/* A deadline without slack counts from the deadline itself. */
	return threshold_for(t, f->kind, us) || sign_kinds[s].deadline;
}

void limit_origin(const struct limit_from *from, struct buf *out)
{
	if (from->of == LIMIT_OF_ROW)
		buf_add(out, "its own time-out");
	else if (from->of == LIMIT_OF_STATE)
		buf_addf(out, "state %s", from->name);
}

void limit_text(int64_t us, const struct limit_from *from, struct buf *out)
{
	AUTO_BUF origin = BUF_INIT;
	limit_origin(from, &origin);
	duration_text(us, out);
	if (origin.len)
		buf_addf(out, "%s%s", from->of == LIMIT_OF_STATE ? " of " : ", ", buf_text(&origin));
}

/* ---- the second reading ---- */

/* What its due_at says. */
static int64_t own_due_us(const struct facts *f)
{
	return f->moved_on ? f->next_us : f->due_us;
}

bool facts_same(const struct watch *w, const struct facts *judged, const struct facts *now)
{
	if (judged->running != now->running || judged->when != now->when ||
	    judged->owner_alive != now->owner_alive)
		return false;
	if (!text_eq(judged->owner, now->owner) || !text_eq(judged->kind, now->kind))
		return false;
	if (!text_eq(judged->state, now->state))
		return false;
	if (!text_eq(judged->progress, now->progress))
		return false;
	if (judged->waiting != now->waiting || judged->has_due != now->has_due ||
	    own_due_us(judged) != own_due_us(now))
		return false;
	if (judged->has_last_run != now->has_last_run || judged->last_run_us != now->last_run_us)
		return false;
	if (judged->has_attempts != now->has_attempts || judged->attempts != now->attempts)
		return false;
	if (judged->has_epoch != now->has_epoch || judged->epoch != now->epoch)
		return false;
	if (judged->has_max_attempts != now->has_max_attempts ||
	    judged->max_attempts != now->max_attempts)
		return false;
	for (int s = 0; s < SIGN_COUNT; s++)
		if (watch_sign(w, (enum sign)s)->text &&
		    (judged->has_sign[s] != now->has_sign[s] || judged->sign_us[s] != now->sign_us[s]))
			return false;
	for (int s = 0; s < SIGN_COUNT; s++)
		if (judged->has_own[s] != now->has_own[s] || judged->own_us[s] != now->own_us[s])
			return false;
	return true;
}

/* ---- holds and excuses ---- */

bool judged_excused(const struct facts *f, const struct judgement *j)
{
	return j->verdict != VERDICT_NONE && f->excused == j->verdict;
}

bool shown_excused(const struct facts *f, const struct judgement *j)
{
	return j->verdict == VERDICT_NONE && f->excused != VERDICT_NONE && f->running;
}

const char *hold_cause_words(const char *cause)
{
	static const struct {
		const char *name, *words;
	} causes[] = {
#define X(id, name, words) {name, words},
		HOLD_CAUSE_LIST(X)
#undef X
	};
	for (size_t i = 0; cause && i < sizeof causes / sizeof *causes; i++)
		if (text_eq(causes[i].name, cause))
			return causes[i].words;
	return cause ? cause : causes[0].words;
}

bool hold_by_person(const char *cause)
{
	return text_eq(cause, HOLD_BY_HAND) || text_eq(cause, HOLD_UNDONE);
}

bool owner_sign_same(const struct owner_sign *a, const struct owner_sign *b)
{
	return text_eq(a->owner, b->owner) && a->has_sign == b->has_sign &&
	       (!a->has_sign || a->sign_us == b->sign_us);
}

/*
 * A hold that the user's table records took the job out of the running state. It is over when the
 * job runs again, or when its state is another one, if neither run has an owner or a sign. An
 * undone job runs as before, and stays held.
 */
static bool still_holds(const struct hold_facts *h)
{
	if (h->by_other)
		return owner_sign_same(&h->made, &h->now) || !h->now.has_sign || h->now.sign_us <= h->at_us;
	if (!owner_sign_same(&h->made, &h->now))
		return false;
	return !h->in_words || text_eq(h->cause, HOLD_UNDONE) || (!h->running && !h->moved);
}

enum hold_state hold_state(const struct hold_facts *h)
{
	if (!h->recorded)
		return HOLD_STATE_NONE;
	if (!still_holds(h))
		return HOLD_STATE_OVER;
	if (hold_by_person(h->cause))
		return HOLD_STATE_OPERATOR;
	return text_eq(h->cause, HOLD_POISON) ? HOLD_STATE_POISON : HOLD_STATE_WATCH;
}

enum hold_state hold_state_of_row(enum hold_state own, bool row_says)
{
	return !hold_in_force(own) && row_says ? HOLD_STATE_ROW : own;
}

bool hold_in_force(enum hold_state state)
{
	return state > HOLD_STATE_OVER;
}

static void own_hold_sql(const struct dialect *d, const struct hold_sql *h, struct buf *out)
{
	buf_addf(out, "%s.owner%s%s AND %s.sign_us%s%s", h->hold, d->same, h->owner, h->hold, d->same,
	         h->sign_us);
	if (!h->in_words)
		return;
	if (h->running)
		buf_addf(out, " AND (%s.cause = '" HOLD_UNDONE "' OR (%s) IS NOT TRUE)", h->hold,
		         h->running);
	else
		buf_addf(out, " AND %s.cause = '" HOLD_UNDONE "'", h->hold);
}

void hold_in_force_sql(const struct dialect *d, const struct hold_sql *h, struct buf *out)
{
	buf_addf(out, "%s.verdict IS NULL AND ", h->hold);
	if (!h->watch) {
		own_hold_sql(d, h, out);
		return;
	}
	/* As still_holds(). */
	buf_addf(out, "(%s.watch = %s AND ", h->hold, h->watch);
	own_hold_sql(d, h, out);
	buf_addf(out,
	         " OR %s.watch <> %s AND ((%s) IS NULL OR (%s) <= "
	         "(extract(epoch FROM %s.at) * 1000000)::bigint OR %s.owner%s%s AND %s.sign_us%s%s))",
	         h->hold, h->watch, h->sign_us, h->sign_us, h->hold, h->hold, d->same, h->owner,
	         h->hold, d->same, h->sign_us);
}
