/* SPDX-License-Identifier: Apache-2.0 */
#include "view/alert.h"

#include "base/clock.h"

#include <assert.h>

/* ---- reading ---- */

struct collecting {
	const struct settings *all;
	const struct database *database;
	const struct alert_row *rows;
	int nrows;
	struct alert_standing *out;
	int n;
};

static void add_rules(struct collecting *x, const char *watch)
{
	bool whole = text_eq(watch, ALERT_ANY);
	for (int id = 0; id < ALERT_COUNT; id++) {
		struct alert_standing *st = &x->out[x->n];
		*st = (struct alert_standing){
			.rule = alert_rule_for(settings_alerts(x->all), (enum alert_id)id, watch),
			.database = x->database->name,
			.watch = watch,
		};
		for (int i = 0; i < x->nrows; i++)
			if (text_eq(x->rows[i].watch, watch) && text_eq(x->rows[i].rule, st->rule.name))
				st->row = &x->rows[i];
		x->n += st->rule.whole == whole;
	}
}

static bool is_new(const struct collecting *x, const char *watch)
{
	for (int i = 0; i < x->n; i++)
		if (text_eq(x->out[i].watch, watch))
			return false;
	return true;
}

defib_err alerts_standing(struct store *s, const struct settings *all, const struct database *d,
                          struct arena *a, struct alert_standing **out, int *n, struct failure *f)
{
	struct alert_row *rows = NULL;
	int64_t now_us = 0;
	int nrows = 0;
	bool there = false;
	*n = 0;
	defib_err err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = states_read(s, a, &rows, &nrows, &now_us, f);
	if (err)
		return err;
	int most = (all->nwatches + nrows + 1) * ALERT_COUNT + 1;
	struct collecting x = {all, d, rows, nrows, ARENA_ARRAY(a, struct alert_standing, most), 0};
	add_rules(&x, ALERT_ANY);
	for (int i = 0; i < all->nwatches; i++)
		if (settings_database(all, &all->watches[i]) == d)
			add_rules(&x, all->watches[i].name);
	for (int i = 0; i < nrows; i++)
		if (is_new(&x, rows[i].watch))
			add_rules(&x, rows[i].watch);
	assert(x.n < most);
	*out = x.out;
	*n = x.n;
	return DEFIB_OK;
}

defib_err deliveries_of(struct store *s, int limit, struct arena *a, struct delivery_row **out,
                        int *n, struct failure *f)
{
	bool there = false;
	*n = 0;
	defib_err err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = outbox_read(s, limit, a, out, n, f);
	return err;
}

/* ---- as text ---- */

static void alert_limit_words(const struct alert_rule *r, struct buf *out)
{
	if (r->unit == UNIT_STATE)
		return;
	buf_add(out, r->lowest ? "below " : r->unit == UNIT_FACTOR ? "from " : "above ");
	alert_amount(r, r->limit, out);
}

/* ---- as JSON ---- */

static void add_limit(const struct alert_rule *r, struct buf *out)
{
	AUTO_BUF words = BUF_INIT;
	alert_limit_words(r, &words);
	buf_addf(out, ",\"limit\":%.10g", r->limit);
	json_text(out, "threshold", words.len ? buf_text(&words) : NULL);
}

void alert_standing_json(const struct alert_settings *s, const struct alert_standing *st,
                         struct buf *out)
{
	const struct alert_rule *r = &st->rule;
	const struct alert_row *row = st->row;
	const struct text_list *sinks = alert_rule_sinks(s, r);
	buf_add(out, "{\"database\":");
	buf_add_json(out, st->database);
	json_text(out, "watch", st->watch);
	json_text(out, "rule", r->name);
	json_text(out, "severity", alert_severities[r->severity]);
	json_bool(out, "enabled", r->enabled);
	add_limit(r, out);
	json_seconds(out, "window_s", r->window_us > 0, r->window_us);
	json_seconds(out, "for_s", true, r->for_us);
	json_texts(out, "sinks", sinks->items, sinks->n);
	json_text(out, "state", row ? alert_states[row->alert.state] : "resolved");
	json_time(out, "since", row != NULL, row ? row->alert.since_us : 0);
	json_time(out, "fired_at", row && row->alert.fired_us, row ? row->alert.fired_us : 0);
	json_time(out, "notified_at", row && row->alert.told_us, row ? row->alert.told_us : 0);
	json_time(out, "told_at", row && row->alert.told_us, row ? row->alert.told_us : 0); /* old */
	if (row)
		buf_addf(out, ",\"value\":%.10g", row->alert.value);
	else
		buf_add(out, ",\"value\":null");
	json_text(out, "text", row ? row->sentence : NULL);
	json_text(out, "topic", row ? row->topic : NULL);
	json_text(out, "about", r->about);
	buf_add(out, "}");
}

void delivery_json(const char *database, const struct delivery_row *row, struct buf *out)
{
	buf_add(out, "{\"database\":");
	buf_add_json(out, database);
	json_text(out, "sink", row->sink);
	json_text(out, "id", row->id);
	json_text(out, "kind", row->kind);
	json_text(out, "state", row->ended ? row->ended : "waiting");
	json_number(out, "tries", true, row->tries);
	json_time(out, "made_at", true, row->made_us);
	json_time(out, "due_at", !row->ended, row->due_us);
	json_time(out, "ended_at", row->ended != NULL, row->ended_us);
	json_text(out, "answer", row->answer);
	buf_addf(out, ",\"document\":%s}", row->document);
}

defib_err alerts_json(struct store *s, const struct settings *all, const struct database *d,
                      struct arena *a, struct buf *out, int *count, struct failure *f)
{
	struct alert_standing *list = NULL;
	int n = 0;
	defib_err err = alerts_standing(s, all, d, a, &list, &n, f);
	for (int i = 0; !err && i < n; i++) {
		buf_add(out, (*count)++ ? ",\n" : "\n");
		alert_standing_json(settings_alerts(all), &list[i], out);
	}
	return err;
}

defib_err deliveries_json(struct store *s, const struct database *d, int limit, struct arena *a,
                          struct buf *out, int *count, struct failure *f)
{
	struct delivery_row *list = NULL;
	int n = 0;
	defib_err err = deliveries_of(s, limit, a, &list, &n, f);
	for (int i = 0; !err && i < n; i++) {
		buf_add(out, (*count)++ ? ",\n" : "\n");
		delivery_json(d->name, &list[i], out);
	}
	return err;
}

/* ---- as rows of a table ---- */

void alerts_head(struct table *t)
{
	table_init(t);
	table_columns(t, "rule database watch severity limit state since says");
}

void alert_standing_row(struct table *t, const struct alert_standing *st)
{
	static const enum color colors[] = {COLOR_NONE, COLOR_YELLOW, COLOR_RED};
	enum alert_state state = st->row ? st->row->alert.state : STATE_RESOLVED;
	AUTO_BUF text = BUF_INIT;
	table_cell(t, COLOR_NONE, st->rule.name);
	table_cell(t, COLOR_NONE, st->database);
	table_cell(t, COLOR_NONE, text_eq(st->watch, ALERT_ANY) ? "" : st->watch);
	table_cell(t, COLOR_NONE, alert_severities[st->rule.severity]);
	if (st->rule.enabled)
		alert_limit_words(&st->rule, &text);
	else
		buf_add(&text, "off");
	table_take(t, COLOR_NONE, &text);
	table_cell(t, colors[state], st->row ? alert_states[state] : "");
	if (st->row && st->row->alert.since_us)
		time_iso(st->row->alert.since_us, &text);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, st->row ? st->row->sentence : "");
}

void deliveries_head(struct table *t)
{
	table_init(t);
	table_columns(t, "message database sink state tries at answer");
}

void delivery_row_text(struct table *t, const char *database, const struct delivery_row *r)
{
	AUTO_BUF text = BUF_INIT;
	table_cell(t, COLOR_NONE, r->id);
	table_cell(t, COLOR_NONE, database);
	table_cell(t, COLOR_NONE, r->sink);
	table_cell(t, text_eq(r->ended, "sent") ? COLOR_GREEN : COLOR_YELLOW,
	           r->ended ? r->ended : "waiting");
	buf_addf(&text, "%lld", (long long)r->tries);
	table_take(t, COLOR_NONE, &text);
	time_iso(r->ended ? r->ended_us : r->made_us, &text);
	table_take(t, COLOR_NONE, &text);
	table_cell(t, COLOR_NONE, r->answer);
}
