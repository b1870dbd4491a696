/* SPDX-License-Identifier: Apache-2.0 */
#include "view/alert.h"

#include "alert/options.h"
#include "base/clock.h"

/* ---- a rule and its state ---- */

#define RULE(row) ((const struct alert_status *)(row))

/* NULL: the whole database. */
static const char *rule_watch(const void *row)
{
	return text_eq(RULE(row)->watch, ALERT_ANY) ? NULL : RULE(row)->watch;
}

/* "above 10", "below 90 %" */
static bool rule_threshold(const void *row, const struct viewer *v, struct buf *out)
{
	const struct alert_rule *r = &RULE(row)->rule;
	(void)v;
	if (r->unit == UNIT_STATE)
		return false;
	buf_add(out, r->lowest ? "below " : r->unit == UNIT_FACTOR ? "from " : "above ");
	alert_amount(r, r->limit, out);
	return true;
}

static bool rule_limit_words(const void *row, const struct viewer *v, struct buf *out)
{
	if (RULE(row)->rule.enabled)
		return rule_threshold(row, v, out);
	buf_add(out, "off");
	return true;
}

static bool rule_window(const void *row, int64_t *out)
{
	*out = RULE(row)->rule.window_us;
	return *out > 0;
}

static const char *rule_sink(const void *row, int i)
{
	const struct text_list *sinks = &RULE(row)->sinks;
	return i < sinks->n ? sinks->items[i] : NULL;
}

static enum alert_state rule_state(const void *row)
{
	const struct alert_row *r = RULE(row)->row;
	return r ? r->alert.state : STATE_RESOLVED;
}

static bool rule_state_name(const void *row, int64_t *out)
{
	*out = rule_state(row);
	return true;
}

/* Nothing is said about a rule that never fired. */
static const char *rule_state_words(const void *row)
{
	return RULE(row)->row != NULL ? alert_states[rule_state(row)] : NULL;
}

static enum color rule_color(const void *row)
{
	static const enum color colors[] = {COLOR_NONE, COLOR_YELLOW, COLOR_RED};
	return colors[rule_state(row)];
}

static bool rule_since(const void *row, int64_t *out)
{
	const struct alert_row *r = RULE(row)->row;
	*out = r ? r->alert.since_us : 0;
	return r != NULL;
}

static bool rule_since_words(const void *row, const struct viewer *v, struct buf *out)
{
	int64_t us;
	(void)v;
	if (!rule_since(row, &us) || !us)
		return false;
	time_iso(us, out);
	return true;
}

static bool rule_fired(const void *row, int64_t *out)
{
	const struct alert_row *r = RULE(row)->row;
	*out = r ? r->alert.fired_us : 0;
	return *out != 0;
}

static bool rule_notified(const void *row, int64_t *out)
{
	const struct alert_row *r = RULE(row)->row;
	*out = r ? r->alert.notified_us : 0;
	return *out != 0;
}

static bool rule_value(const void *row, double *out)
{
	const struct alert_row *r = RULE(row)->row;
	*out = r ? r->alert.value : 0;
	return r != NULL;
}

static const char *rule_text(const void *row)
{
	const struct alert_row *r = RULE(row)->row;
	return r ? r->sentence : NULL;
}

static const char *rule_topic(const void *row)
{
	const struct alert_row *r = RULE(row)->row;
	return r ? r->topic : NULL;
}

#define AT(member) FIELD_AT(struct alert_status, member)
static const struct field alert_fields[] = {
	{AT(rule.name), .title = "rule"},
	{"database", AT(database), .title = "database"},
	{"watch", AT(watch), .about = "* is the database as a whole"},
	{.text = rule_watch, .title = "watch"},
	{"rule", AT(rule.name)},
	{"severity", FIELD_WORD, AT(rule.severity), .names = alert_severities, .title = "severity"},
	{"enabled", FIELD_BOOL, AT(rule.enabled)},
	{.words = rule_limit_words, .title = "limit"},
	{"limit", FIELD_REAL, AT(rule.limit)},
	{"threshold", .words = rule_threshold, .null = true, .about = "in words: above 10"},
	{"window_s", FIELD_SECONDS, .number = rule_window, .null = true,
     .about = "over which it is counted; null: the current value"},
	{"for_s", FIELD_SECONDS, AT(rule.for_us),
     .about = "how long the condition must hold to fire, and to resolve"},
	{"sinks", FIELD_TEXTS, .item = rule_sink},
	{"state", FIELD_WORD, .number = rule_state_name, .names = alert_states},
	{.text = rule_state_words, .title = "state", .paint = rule_color},
	{"since", FIELD_TIME, .number = rule_since, .null = true},
	{.words = rule_since_words, .title = "since"},
	{"fired_at", FIELD_TIME, .number = rule_fired, .null = true},
	{"notified_at", FIELD_TIME, .number = rule_notified, .null = true},
	{"told_at", FIELD_TIME, .number = rule_notified, .null = true,
     .about = "the old name of notified_at"},
	{"value", FIELD_REAL, .real = rule_value, .null = true},
	{"text", .text = rule_text, .null = true, .title = "says"},
	{"topic", .text = rule_topic, .null = true, .about = "what receivers group messages by"},
	{"about", AT(rule.about)},
	{0},
};
#undef AT

const struct record alert_record = {
	.name = "Alert",
	.about = "an alert rule that applies to a watch, and its state",
	.fields = alert_fields,
	.size = sizeof(struct alert_status),
};

/* ---- a message ---- */

#define DELIVERY(row) ((const struct delivery_row *)(row))

static const char *delivery_state(const void *row)
{
	return DELIVERY(row)->ended ? DELIVERY(row)->ended : "waiting";
}

static enum color delivery_color(const void *row)
{
	return text_eq(DELIVERY(row)->ended, "sent") ? COLOR_GREEN : COLOR_YELLOW;
}

static bool delivery_due(const void *row, int64_t *out)
{
	*out = DELIVERY(row)->due_us;
	return !DELIVERY(row)->ended;
}

static bool delivery_ended(const void *row, int64_t *out)
{
	*out = DELIVERY(row)->ended_us;
	return DELIVERY(row)->ended != NULL;
}

static bool delivery_at(const void *row, int64_t *out)
{
	const struct delivery_row *r = row;
	*out = r->ended ? r->ended_us : r->made_us;
	return true;
}

#define AT(member) FIELD_AT(struct delivery_row, member)
static const struct field delivery_fields[] = {
	{AT(id), .title = "message"},
	{"database", .words = field_database, .title = "database"},
	{"sink", AT(sink), .title = "sink"},
	{"id", AT(id), .about = "receivers recognise a message that is sent again by it"},
	{"kind", AT(kind), .about = "alert, report or test"},
	{"state", .text = delivery_state, .title = "state", .paint = delivery_color,
     .about = "waiting, or how it ended: sent, refused, given up"},
	{"tries", FIELD_NUMBER, AT(tries), .title = "tries"},
	{"made_at", FIELD_TIME, AT(made_us)},
	{"due_at", FIELD_TIME, .number = delivery_due, .null = true},
	{"ended_at", FIELD_TIME, .number = delivery_ended, .null = true},
	{.type = FIELD_TIME, .number = delivery_at, .title = "at"},
	{"answer", AT(answer), .null = true, .title = "answer", .about = "what the sink answered"},
	{"document", FIELD_DATA, AT(document), .about = "what is sent"},
	{0},
};
#undef AT

const struct record delivery_record = {
	.name = "Delivery",
	.about = "a message to a sink",
	.fields = delivery_fields,
	.size = sizeof(struct delivery_row),
};

/* ---- a sink ---- */

#define SINK(row) ((const struct sink_view *)(row))

static const char *sink_name(const void *row)
{
	return SINK(row)->sink->name;
}

static const char *sink_type(const void *row)
{
	return sink_types[SINK(row)->sink->type];
}

static bool sink_sent(const void *row, int64_t *out)
{
	*out = SINK(row)->answer && SINK(row)->answer->how == SINK_SENT;
	return SINK(row)->answer != NULL;
}

static const char *alert_sink_answered(const void *row)
{
	return SINK(row)->answer ? SINK(row)->answer->text : NULL;
}

static const struct field sink_fields[] = {
	{"sink", .text = sink_name},
	{"type", .text = sink_type},
	{"sent", FIELD_BOOL, .number = sink_sent, .optional = true, .about = "of a test message"},
	{"answer", .text = alert_sink_answered, .optional = true, .about = "what it answered"},
	{0},
};

const struct record sink_record = {
	.name = "Sink",
	.about = "where messages go",
	.fields = sink_fields,
	.size = sizeof(struct sink_view),
};
