/* SPDX-License-Identifier: Apache-2.0 */
/* background.c: see background.h. */
#include "view/background.h"

#include "base/clock.h"
#include "base/text.h"
#include "recover/by_hand.h"
#include "view/job.h"

#include <jansson.h>

static int64_t others_total(const json_t *others)
{
	int64_t n = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)others, name, value) n += json_integer_value(value);
	return n;
}

int64_t background_handled(const struct background_act *act)
{
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	return act->done + others_total(others);
}

void background_json(const struct background_act *act, const struct database *d, struct buf *out)
{
	buf_add(out, "{\"id\":");
	buf_add_json(out, act->id);
	json_text(out, "database", d->name);
	json_text(out, "watch", act->watch);
	json_text(out, "act", act->act);
	buf_addf(out, ",\"where\":%s", act->terms);
	json_text(out, "from_step", act->step);
	json_bool(out, "override_guard", act->overrides);
	json_text(out, "reason", act->reason);
	json_text(out, "actor", act->actor);
	json_text(out, "state", act->state);
	json_number(out, "total", act->total >= 0, act->total);
	json_number(out, "handled", true, background_handled(act));
	json_number(out, "done", true, act->done);
	buf_addf(out, ",\"others\":%s", act->others ? act->others : "{}");
	json_text(out, "refusal", act->refusal);
	json_text(out, "error", act->error);
	json_time(out, "at", act->at_us != 0, act->at_us);
	json_time(out, "updated_at", act->updated_us != 0, act->updated_us);
	json_time(out, "ended_at", act->ended_us != 0, act->ended_us);
	json_text(out, "batch", act->done ? act->id : NULL);
	buf_add(out, "}");
}

void background_sentence(const struct background_act *act, struct buf *out)
{
	const struct act_kind *kind = act_kind_named(act->act);
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	const char *name;
	json_t *value;
	out_count(out, act->done);
	if (act->total >= 0) {
		buf_add(out, " of ");
		out_count(out, act->total);
	}
	buf_addf(out, " %s", kind ? kind->done : act->act);
	json_object_foreach(others, name, value)
	{
		buf_add(out, ", ");
		out_count(out, json_integer_value(value));
		buf_addf(out, " %s", name);
	}
}

static enum color state_color(const char *state)
{
	if (text_eq(state, BACKGROUND_FAILED))
		return COLOR_RED;
	if (text_eq(state, BACKGROUND_CANCELLED))
		return COLOR_YELLOW;
	return text_eq(state, BACKGROUND_DONE) ? COLOR_GREEN : COLOR_NONE;
}

void background_head(struct table *t)
{
	table_init(t);
	table_columns(t, "ID WATCH ACT STATE JOBS ORDERED BY");
}

void background_row(struct table *t, const struct background_act *act, const struct database *d,
                    int64_t now_us)
{
	AUTO_BUF text = BUF_INIT;
	table_cell(t, COLOR_NONE, act->id);
	buf_addf(&text, "%s/%s", d->name, act->watch);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, act->act);
	table_cell(t, state_color(act->state), act->state);
	background_sentence(act, &text);
	table_take(t, COLOR_NONE, &text);
	when_text(act->at_us, now_us, &text);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, act->actor);
}

static void terms_text(const struct background_act *act, struct buf *out)
{
	json_auto_t *list = json_loads(act->terms, 0, NULL);
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		buf_add(out, i ? ", " : "");
		out_visible(out, json_string_value(item) ? json_string_value(item) : "?");
	}
	if (!json_array_size(list))
		buf_add(out, "all jobs");
}

static void moment(struct buf *out, const char *name, int64_t us, int64_t now_us)
{
	AUTO_BUF text = BUF_INIT;
	if (!us)
		return;
	when_text(us, now_us, &text);
	out_line(out, name, 10, buf_text(&text));
}

static void line(struct buf *out, const char *name, const char *text)
{
	if (text)
		out_line(out, name, 10, text);
}

void background_text(const struct background_act *act, const struct database *d, int64_t now_us,
                     bool color, struct buf *out)
{
	AUTO_BUF jobs = BUF_INIT, terms = BUF_INIT;
	background_sentence(act, &jobs);
	terms_text(act, &terms);
	out_title(out, color, d->name, act->watch);
	buf_addf(out, ": %s, ", act->act);
	out_color(out, color, state_color(act->state), act->state);
	buf_add(out, "\n");
	line(out, "jobs", buf_text(&jobs));
	line(out, "where", buf_text(&terms));
	line(out, "from step", act->step);
	line(out, "reason", act->reason);
	line(out, "by", act->actor);
	moment(out, "ordered", act->at_us, now_us);
	moment(out, "ended", act->ended_us, now_us);
	line(out, "refused", act->refusal);
	line(out, "error", act->error);
	if (!act->ended_us)
		buf_addf(out, "cancel with: defib act cancel %s\n", act->id);
	if (act->done)
		buf_addf(out, "undo with: defib undo %s\n", act->id);
}
