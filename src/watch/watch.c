/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: helpers for a watch; see watch.h. */
#include "watch/watch.h"

#include "base/text.h"
#include "watch/lexer.h"

#include <assert.h>
#include <stddef.h>

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

int64_t threshold_least(const struct threshold *t)
{
	int64_t least = t->standard_us;
	for (int i = 0; i < t->n; i++)
		if (t->us[i] < least)
			least = t->us[i];
	return least;
}

int64_t threshold_most(const struct threshold *t)
{
	int64_t most = t->standard_us;
	for (int i = 0; i < t->n; i++)
		if (t->us[i] > most)
			most = t->us[i];
	return most;
}

const char *const sign_options[] = {
	[SIGN_ALIVE] = "alive_at", [SIGN_EXPIRES] = "expires_at", [SIGN_STARTED] = "started_at"};

const struct sql_text *watch_sign(const struct watch *w, enum sign s)
{
	const struct sql_text *const signs[] = {&w->alive_at, &w->expires_at, &w->started_at};
	assert(s >= 0 && s < SIGN_COUNT);
	return signs[s];
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

bool watch_writes_hold(const struct watch *w)
{
	return w->actions[REMEDY_HOLD].form != ACTION_NONE;
}

int watch_releases_by(const struct watch *w)
{
	static const int ways[] = {ACT_RELEASE, REMEDY_REQUEUE, ACT_THEN, REMEDY_RETRY};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (w->actions[ways[i]].form != ACTION_NONE)
			return ways[i];
	return ACT_RELEASE;
}

bool watch_hides(const struct watch *w, const char *column)
{
	return text_list_find(&w->mask, column) >= 0;
}

bool watch_running_names(const struct watch *w, const char *column)
{
	/* By PostgreSQL's rules, which also find a name inside SQLite's other quotes. */
	return w->running.text && sql_names(w->running.text, STORE_POSTGRES, column);
}

/* ---- names of verdicts, remedies and time types ---- */

const char *const verdict_names[] = {
#define X(id, name, why) name,
	VERDICT_LIST(X)
#undef X
		NULL,
};

const char *const remedy_names[] = {
#define X(id, name) name,
	REMEDY_LIST(X)
#undef X
		NULL,
};

const char *const time_type_names[] = {
#define X(id, name) name,
	TIME_TYPE_LIST(X)
#undef X
		NULL,
};

const char *verdict_why(enum verdict v)
{
	static const char *const why[] = {
#define X(id, name, text) text,
		VERDICT_LIST(X)
#undef X
	};
	assert(v >= 0 && v < VERDICT_COUNT);
	return why[v];
}

const char *act_name(int act)
{
	static const char *const names[] = {
#define X(id, name) name,
		REMEDY_LIST(X) ACT_LIST(X)
#undef X
	};
	assert(act >= 0 && act < ACT_COUNT);
	return names[act];
}
