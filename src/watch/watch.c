/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: helpers for a watch; see watch.h. */
#include "watch/watch.h"

#include "watch/lexer.h"

#include <assert.h>

bool threshold_for(const struct threshold *t, const char *kind, int64_t *us)
{
	if (!t->given)
		return false;
	*us = t->standard_us;
	for (int i = 0; kind && i < t->n; i++)
		if (text_eq(t->kinds[i], kind))
			*us = t->us[i];
	return true;
}

bool threshold_plain(const struct threshold *t)
{
	return t->n == 0 && t->states.n == 0 && !t->own.text;
}

int64_t threshold_least(const struct threshold *t)
{
	int64_t least = t->standard_us;
	for (int i = 0; i < t->n; i++)
		least = t->us[i] < least ? t->us[i] : least;
	for (int i = 0; i < t->states.n; i++)
		least = t->states.us[i] < least ? t->states.us[i] : least;
	return least;
}

int64_t threshold_most(const struct threshold *t)
{
	int64_t most = t->standard_us;
	for (int i = 0; i < t->n; i++)
		most = t->us[i] > most ? t->us[i] : most;
	for (int i = 0; i < t->states.n; i++)
		most = t->states.us[i] > most ? t->states.us[i] : most;
	return most;
}

const struct sql_text *watch_sign(const struct watch *w, enum sign s)
{
	const struct sql_text *const signs[] = {
#define X(id, name, option, ...) &w->option,
		SIGN_LIST(X)
#undef X
	};
	assert(s >= 0 && s < SIGN_COUNT);
	return signs[s];
}

const struct threshold *watch_limit(const struct watch *w, enum sign s)
{
	const struct threshold *const limits[] = {
#define X(id, name, option, limit, ...) &w->limit,
		SIGN_LIST(X)
#undef X
	};
	assert(s >= 0 && s < SIGN_COUNT);
	return limits[s];
}

struct threshold *watch_limit_to_change(struct watch *w, enum sign s)
{
	return (struct threshold *)watch_limit(w, s);
}

bool watch_waits(const struct watch *w)
{
	return w->waiting.text && w->due_at.text && w->late_after.given;
}

bool watch_remembers(const struct watch *w, enum sign s)
{
	if (watch_sign(w, s)->text)
		return false;
	if (s == SIGN_STATE)
		return w->overdue_after.states.n > 0;
	return s == SIGN_PROGRESS && w->progress.text && w->stalled_after.given;
}

bool watch_remembers_any(const struct watch *w)
{
	return watch_remembers(w, SIGN_STATE) || watch_remembers(w, SIGN_PROGRESS);
}

bool watch_measures(const struct watch *w, enum sign s)
{
	return watch_sign(w, s)->text || watch_remembers(w, s);
}

bool watch_uses_state(const struct watch *w)
{
	bool uses = w->stuck_after.states.n || w->overdue_after.states.n || w->stalled_after.states.n;
	for (int i = 0; i < w->nrules; i++)
		uses = uses || w->rules[i].state;
	return uses;
}

enum sign watch_first_sign(const struct watch *w)
{
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (watch_sign(w, (enum sign)sign)->text)
			return (enum sign)sign;
	return SIGN_ALIVE;
}

bool watch_has_attempts(const struct watch *w)
{
	return w->attempts.text && w->max_attempts.text;
}

bool watch_also(const struct watch *w, int act)
{
	return w->also.n > 0 && act < REMEDY_COUNT && w->actions[act].form != ACTION_NONE;
}

bool watch_can_undo(const struct watch *w, int act)
{
	if (act == ACT_EXCUSE)
		return false; /* release ends it */
	if (act_has(act, ACT_STORED) && w->actions[act].form == ACTION_NONE)
		return true;
	int form = w->actions[act == ACT_RELEASE ? watch_releases_by(w) : act].form;
	return form == ACTION_SET && !watch_also(w, act);
}

bool watch_writes_hold(const struct watch *w)
{
	return w->actions[REMEDY_HOLD].form != ACTION_NONE;
}

bool watch_can(const struct watch *w, enum remedy r)
{
	return !act_has((int)r, ACT_NEEDS_HOW) || w->actions[r].form != ACTION_NONE;
}

bool watch_act_is_stored(const struct watch *w, int act)
{
	return (act_has(act, ACT_STORED) && w->actions[act].form == ACTION_NONE) ||
	       (act_has(act, ACT_WAITS) && w->actions[ACT_THEN].form != ACTION_NONE);
}

const struct sql_text *watch_worker_releases_by(const struct watch *w)
{
	const struct action *requeue = &w->actions[REMEDY_REQUEUE];
	bool lent = !w->work.release.text && w->work.claim.text && requeue->form == ACTION_SET;
	return lent ? &requeue->set : &w->work.release;
}

int watch_releases_by(const struct watch *w)
{
	static const int ways[] = {ACT_RELEASE, REMEDY_REQUEUE, ACT_THEN, REMEDY_RETRY};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (w->actions[ways[i]].form != ACTION_NONE)
			return ways[i];
	return ACT_RELEASE;
}

/* PostgreSQL's rules also find a name inside SQLite's other quotes. */
static const enum store_engine any_quotes = STORE_POSTGRES;

bool watch_hides(const struct watch *w, const char *column)
{
	for (int i = 0; i < w->mask.n; i++)
		if (strcasecmp(w->mask.items[i], column) == 0)
			return true;
	return false;
}

bool watch_hides_value(const struct watch *w, const char *expression)
{
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, expression ? expression : "", any_quotes);
	while ((t = sql_next(&lx)).type != SQL_END) {
		AUTO_BUF name = BUF_INIT;
		bool quoted = (t.type == SQL_NAME || t.type == SQL_STRING) && t.len > 1;
		if (!quoted && t.type != SQL_WORD)
			continue;
		buf_addn(&name, t.text + quoted, t.len - 2 * quoted);
		if (watch_hides(w, buf_text(&name)))
			return true;
	}
	return false;
}

bool watch_running_names(const struct watch *w, const char *column)
{
	return w->running.text && sql_names(w->running.text, any_quotes, column);
}

const char *const time_type_names[] = {
#define X(id, name) name,
	TIME_TYPE_LIST(X)
#undef X
		NULL,
};

/* ---- parameters ---- */

/* The names, where each can be used, and what it means. */
static const struct param {
	const char *name, *meaning;
	bool recovers, works;
} params[] = {
	{"owner", "the worker that has, or had, the job", true, true},
	{"kind", "the job's kind", true, true},
	{"attempt", "its attempts so far; when claiming, this one included", true, true},
	{"alive_at", "its last sign of life, else its deadline or its start", true, false},
	{"verdict", "why it is stuck, such as silent", true, false},
	{"reason", "the watch's reason, filled in, or the operator's", true, true},
	{"retry_at", "when the backoff is over", true, true},
	{"evidence", "the evidence for the verdict, as JSON", true, false},
	{"now", "the database's clock, in the form of the watch's times", true, true},
	{"step", "the step of a workflow: the current one, or the one the operator chose", true, true},
	{"worker", "the id of the worker", false, true},
	{"error", "why it failed", false, true},
	{"result", "the program's result, JSON; `:result.text` is one field of it", false, true},
	{"epoch", "the number of the claim, which rises with every one", false, true},
	{"metadata", "what a heartbeat of your own code gives, JSON; else null", false, true},
};

enum { PARAMS = sizeof params / sizeof *params };

void params_reference(struct buf *out)
{
	buf_add(out,
	        "| parameter | remedies, acts and `stuck` | `work` | meaning |\n"
	        "|---|---|---|---|\n| each key column | yes | yes | the job's own, by its name |\n");
	for (const struct param *p = params; p < params + PARAMS; p++)
		buf_addf(out, "| `%s` | %s | %s | %s |\n", p->name, p->recovers ? "yes" : "",
		         p->works ? "yes" : "", p->meaning);
}

/* Those that can be used there, key columns first; ends with NULL. */
static void params_of(const struct watch *w, enum param_scope scope,
                      const char *out[WATCH_KEYS_MAX + PARAMS + 1])
{
	int n = 0;
	for (int i = 0; scope != PARAMS_NONE && i < w->key.n && i < WATCH_KEYS_MAX; i++)
		out[n++] = w->key.items[i];
	for (const struct param *p = params; p < params + PARAMS; p++)
		if (scope == PARAMS_RECOVERY ? p->recovers : scope == PARAMS_WORK && p->works)
			out[n++] = p->name;
	out[n] = NULL;
}

bool param_known(const struct watch *w, enum param_scope scope, const char *name)
{
	const char *names[WATCH_KEYS_MAX + PARAMS + 1];
	params_of(w, scope, names);
	/* The result of a job is a document: :result.text is one field of it. */
	return word_index(names, name) >= 0 || (scope == PARAMS_WORK && text_starts(name, "result."));
}

const char *param_nearest(const struct watch *w, enum param_scope scope, const char *name)
{
	const char *names[WATCH_KEYS_MAX + PARAMS + 1];
	params_of(w, scope, names);
	return text_nearest(name, names);
}
