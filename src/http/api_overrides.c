/* SPDX-License-Identifier: Apache-2.0
 * api_overrides.c: words to the daemons over HTTP: of one watch, or of all of a database. The
 * answer is that of `defib pause`, `resume` and `raise` (override_set.h).
 *
 * A guard is overridden by a word too, which the leader's next pass takes and which then
 * is used up: it reaches the daemon that leads, wherever it runs, and the ledger has it
 * before anything is done.
 */
#include "http/api_act.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/events.h"
#include "view/override.h"

#define OVERRIDE_US (600 * US_PER_S) /* a word that no pass took is void after that */

static const char *target(const struct api_call *c)
{
	return c->route->where == API_WATCH ? c->watch->name : "*";
}

static void answer(struct api_call *c, const struct override_answer *words, int n)
{
	struct buf *out = &c->out->body;
	buf_add(out, "{\"words\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? "," : "");
		override_answer_json(c->database, &words[i], out);
	}
	buf_add(out, "]}\n");
}

static void take_back(struct api_call *c, const char *name)
{
	const struct override *still;
	struct failure f = {0};
	struct override_answer *words;
	int n;
	if (override_clear(c->session->store, target(c), name, &c->arena, &words, &n, &still, &f))
		api_failed(c, &f);
	else if (still)
		api_problem(c, 409, "\"%s\" of %s is in force for all watches of database %s, set by %s",
		            name, target(c), c->database->name, still->actor);
	else
		answer(c, words, n);
}

static void say(struct api_call *c, struct override *said, int64_t for_us)
{
	struct failure f = {0};
	struct override_answer word;
	said->watch = target(c);
	said->actor = c->actor;
	if (override_set(c->session->store, said, for_us, &c->arena, &word, &f))
		api_failed(c, &f);
	else
		answer(c, &word, 1);
}

/* Thresholds are raised, never made shorter. */
static bool read_factor(struct api_call *c, const char **value)
{
	const json_t *by = json_object_get(c->body, "by");
	double factor = json_number_value(by);
	if (!json_is_number(by) || !raise_factor_ok(factor))
		return api_problem(
			c, 400, "by must be a number from 1 to %d: thresholds can only be raised", RAISE_MOST);
	*value = arena_printf(&c->arena, "%g", factor);
	return true;
}

static bool read_span(struct api_call *c, int64_t *us)
{
	if (!body_duration(c, "for", us))
		return false;
	if (json_object_get(c->body, "for") && *us < US_PER_S)
		return api_problem(c, 400, "for must be at least a second");
	return true;
}

static bool is_raise(const struct api_call *c)
{
	return text_eq(strrchr(c->route->path, '/'), "/raise");
}

void call_say(struct api_call *c)
{
	static const char *const of_raise[] = {"by", "for", "off", "reason", NULL};
	static const char *const of_pause[] = {"for", "reason", NULL};
	struct override said = {.name = "pause", .value = "on"};
	int64_t for_us = 0;
	bool off = false;
	if (!api_body_takes(c, is_raise(c) ? of_raise : of_pause) ||
	    !api_body_text(c, "reason", &said.reason) || !api_body_bool(c, "off", &off) ||
	    !read_span(c, &for_us))
		return;
	if (off) {
		take_back(c, "raise");
		return;
	}
	if (is_raise(c)) {
		said.name = "raise";
		if (!read_factor(c, &said.value))
			return;
	}
	say(c, &said, for_us);
}

void call_take_back(struct api_call *c)
{
	static const char *const members[] = {NULL};
	if (api_body_takes(c, members))
		take_back(c, "pause");
}

/* ---- past the guards, once ---- */

static defib_err note_override(struct api_call *c, const char *reason, struct failure *f)
{
	char batch[64];
	const struct ledger_entry entry = {.job = "*",
	                                   .event = ENTRY_GUARD_OVERRIDDEN,
	                                   .rule = RULE_BY_HAND,
	                                   .reason = reason ? reason : "by hand"};
	const struct ledger_context ctx = {c->watch->name, batch, c->actor};
	snprintf(batch, sizeof batch, "override-%lld", (long long)clock_wall_us());
	defib_err err = store_begin(c->session->store, TX_WRITE, f);
	if (err)
		return err;
	err = ledger_append(c->session->store, &ctx, &entry, 1, &c->arena, f);
	if (!err)
		return store_commit(c->session->store, f);
	store_rollback(c->session->store);
	return err;
}

void call_override_guard(struct api_call *c)
{
	static const char *const members[] = {"reason", NULL};
	struct override said = {.name = TOLD_OVERRIDE, .value = "once"};
	struct failure f = {0};
	struct bound bound;
	if (!api_body_takes(c, members) || !api_body_text(c, "reason", &said.reason) ||
	    !writable(c, &bound))
		return;
	if (bound.ledger.ready && note_override(c, said.reason, &f)) {
		api_failed(c, &f);
		return;
	}
	say(c, &said, OVERRIDE_US);
	if (c->out->status == 200)
		c->out->status = 202;
}
