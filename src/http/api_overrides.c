/* SPDX-License-Identifier: Apache-2.0
 * api_overrides.c: operator overrides over HTTP, for one watch or for all of a database. The
 * answer is that of `defib pause`, `resume` and `raise` (view/override.h).
 *
 * A guard is overridden in the same way, once: the leader's next pass consumes the record. It
 * reaches the daemon that leads, wherever it runs, and the ledger has it before anything is done.
 */
#include "http/api_handlers.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/events.h"
#include "view/override.h"

#define OVERRIDE_US (600 * US_PER_S) /* void if no pass took it by then */

static const char *target(const struct api_call *c)
{
	return c->route->where == API_WATCH ? c->watch->name : "*";
}

static void answer(struct api_call *c, const struct override_answer *answers, int n)
{
	struct buf all = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_add(&all, i ? "," : "");
		override_answer_json(c->database, &answers[i], &all);
	}
	override_answers_json(buf_text(&all), &c->out->body);
	buf_release(&all);
}

static void clear(struct api_call *c, const char *name)
{
	const struct override *still;
	struct failure f = {0};
	struct override_answer *answers;
	int n;
	if (override_clear(c->session->store, target(c), name, &c->arena, &answers, &n, &still, &f))
		api_failed(c, &f);
	else if (still)
		api_problem(c, 409, "\"%s\" of %s is in force for all watches of database %s, set by %s",
		            name, target(c), c->database->name, still->actor);
	else
		answer(c, answers, n);
}

static void set(struct api_call *c, struct override *wanted, int64_t for_us)
{
	struct failure f = {0};
	struct override_answer set;
	wanted->watch = target(c);
	wanted->actor = c->actor;
	if (override_set(c->session->store, wanted, for_us, &c->arena, &set, &f))
		api_failed(c, &f);
	else
		answer(c, &set, 1);
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

void call_set_override(struct api_call *c)
{
	static const char *const of_raise[] = {"by", "for", "off", "reason", NULL};
	static const char *const of_pause[] = {"for", "reason", NULL};
	struct override wanted = {.name = "pause", .value = "on"};
	int64_t for_us = 0;
	bool off = false;
	if (!api_body_takes(c, is_raise(c) ? of_raise : of_pause) ||
	    !api_body_text(c, "reason", &wanted.reason) || !api_body_bool(c, "off", &off) ||
	    !read_span(c, &for_us))
		return;
	if (off) {
		clear(c, "raise");
		return;
	}
	if (is_raise(c)) {
		wanted.name = "raise";
		if (!read_factor(c, &wanted.value))
			return;
	}
	set(c, &wanted, for_us);
}

void call_clear_override(struct api_call *c)
{
	static const char *const members[] = {NULL};
	if (api_body_takes(c, members))
		clear(c, "pause");
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
	struct override wanted = {.name = TOLD_OVERRIDE, .value = "once"};
	struct failure f = {0};
	struct bound bound;
	if (!api_body_takes(c, members) || !api_body_text(c, "reason", &wanted.reason) ||
	    !writable(c, &bound))
		return;
	if (bound.ledger.ready && note_override(c, wanted.reason, &f)) {
		api_failed(c, &f);
		return;
	}
	set(c, &wanted, OVERRIDE_US);
	if (c->out->status == 200)
		c->out->status = 202;
}
