/* SPDX-License-Identifier: Apache-2.0 */
#include "alert/message.h"

#include "base/clock.h"

#include <ctype.h>

/* Alertmanager resolves an alert that is not sent again: not before this time. */
#define ALERTMANAGER_ENDS_US (INT64_C(48) * 3600 * US_PER_S)
#define SUMMARY_MAX 1024 /* PagerDuty's limits */
#define DEDUP_MAX 255

static const char *status_of(enum alert_change c)
{
	return c == CHANGE_RESOLVED ? "resolved" : "firing";
}

void message_topic(const struct alert_message *m, struct buf *out)
{
	buf_addf(out, "%s/%s/%s/%s", m->source, m->database, m->watch, m->rule->name);
}

void message_id(const struct alert_message *m, struct buf *out)
{
	message_topic(m, out);
	buf_addf(out, "@%lld.", (long long)(m->alert->fired_us / 1000));
	if (m->change == CHANGE_AGAIN)
		buf_addf(out, "again.%lld", (long long)m->alert->repeats);
	else
		buf_add(out, status_of(m->change));
}

static void add_member(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
	buf_add_json(out, value);
}

static void message_add_time(struct buf *out, const char *name, int64_t us)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	add_member(out, name, buf_text(&iso));
}

/* "WARNING pages (main): …"; for a whole database the subject is the database. */
static void add_sentence(const struct alert_message *m, struct buf *out)
{
	bool over = m->change == CHANGE_RESOLVED, whole = text_eq(m->watch, ALERT_ANY);
	const char *word = over ? "resolved" : alert_severities[m->rule->severity];
	if (m->change == CHANGE_AGAIN)
		buf_add(out, "STILL ");
	for (; *word; word++)
		buf_addch(out, (char)toupper((unsigned char)*word));
	buf_addf(out, whole ? " %s: " : " %s (", whole ? m->database : m->watch);
	if (!whole)
		buf_addf(out, "%s): ", m->database);
	if (!over) {
		alert_sentence(m->rule, m->alert->value, out);
		return;
	}
	buf_addf(out, "%s ended after ", m->rule->name);
	duration_text(m->at_us - m->alert->fired_us, out);
}

static const char *const unit_names[] = {
	[UNIT_JOBS] = "jobs",        [UNIT_SECONDS] = "seconds", [UNIT_SHARE] = "share",
	[UNIT_RATE] = "jobs/second", [UNIT_FACTOR] = "times",    [UNIT_STATE] = "state",
};

void message_document(const struct alert_message *m, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	buf_add(out, "{");
	message_id(m, &text);
	add_member(out, "id", buf_text(&text));
	add_member(out, "kind", "alert");
	add_member(out, "status", status_of(m->change));
	add_member(out, "rule", m->rule->name);
	add_member(out, "severity", alert_severities[m->rule->severity]);
	add_member(out, "source", m->source);
	add_member(out, "database", m->database);
	add_member(out, "watch", m->watch);
	buf_addf(out, ",\"value\":%.10g,\"limit\":%.10g", m->alert->value, m->rule->limit);
	add_member(out, "unit", unit_names[m->rule->unit]);
	message_add_time(out, "fired_at", m->alert->fired_us);
	message_add_time(out, "at", m->at_us);
	buf_addf(out, ",\"repeat\":%lld", (long long)m->alert->repeats);
	buf_clear(&text);
	message_topic(m, &text);
	add_member(out, "topic", buf_text(&text));
	buf_clear(&text);
	add_sentence(m, &text);
	add_member(out, "text", buf_text(&text));
	if (m->link)
		add_member(out, "link", m->link);
	buf_add(out, "}");
}

void message_test(const char *source, const char *status, int64_t at_us, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	buf_add(out, "{");
	buf_addf(&text, "%s/test@%lld.%s", source, (long long)(at_us / 1000), status);
	add_member(out, "id", buf_text(&text));
	add_member(out, "kind", "test");
	add_member(out, "status", status);
	add_member(out, "rule", "test");
	add_member(out, "severity", "warning");
	add_member(out, "source", source);
	add_member(out, "database", "");
	add_member(out, "watch", "");
	message_add_time(out, "fired_at", at_us);
	message_add_time(out, "at", at_us);
	buf_clear(&text);
	buf_addf(&text, "%s/test", source);
	add_member(out, "topic", buf_text(&text));
	buf_clear(&text);
	buf_addf(&text, "%s from %s: alerts arrive here",
	         text_eq(status, "firing") ? "TEST" : "TEST OVER", source);
	add_member(out, "text", buf_text(&text));
	buf_add(out, "}");
}

/* ---- forms ---- */

const char *document_text(const json_t *document, const char *name)
{
	const char *text = json_string_value(json_object_get(document, name));
	return text ? text : "";
}

static bool is_alert(const json_t *d)
{
	const char *kind = document_text(d, "kind");
	return text_eq(kind, "alert") || text_eq(kind, "test");
}

static void dump(json_t *made, struct buf *out)
{
	(void)json_write(out, made, JSON_COMPACT);
	json_decref(made);
}

/* Those members of the document, as an object of texts; without empty ones. */
static json_t *texts_of(const json_t *d, const char *const *names)
{
	json_t *out = json_object();
	for (; *names; names++)
		if (*document_text(d, *names))
			json_object_set_new(out, *names, json_string(document_text(d, *names)));
	return out;
}

bool form_alertmanager(const json_t *d, struct buf *out)
{
	static const char *const labels[] = {"severity", "source", "database", "watch", NULL};
	AUTO_BUF ends = BUF_INIT;
	int64_t at_us = 0;
	if (!is_alert(d))
		return false;
	json_t *alert = json_object(), *named = texts_of(d, labels), *list = json_array();
	json_object_set_new(named, "alertname", json_sprintf("defib_%s", document_text(d, "rule")));
	json_object_set_new(alert, "labels", named);
	json_object_set_new(alert, "annotations",
	                    json_pack("{s:s, s:s}", "summary", document_text(d, "text"), "topic",
	                              document_text(d, "topic")));
	json_object_set_new(alert, "startsAt", json_string(document_text(d, "fired_at")));
	bool over = text_eq(document_text(d, "status"), "resolved");
	(void)time_parse(document_text(d, "at"), &at_us);
	time_iso(over ? at_us : at_us + ALERTMANAGER_ENDS_US, &ends);
	json_object_set_new(alert, "endsAt", json_string(buf_text(&ends)));
	if (*document_text(d, "link"))
		json_object_set_new(alert, "generatorURL", json_string(document_text(d, "link")));
	json_array_append_new(list, alert);
	dump(list, out);
	return true;
}

/* "page" is our word for what must wake someone up. */
static const char *pagerduty_severity(const char *severity)
{
	return text_eq(severity, "warning") ? "warning" : "critical";
}

bool form_pagerduty(const json_t *d, const char *key, struct buf *out)
{
	static const char *const details[] = {"id",    "rule", "severity", "database",
	                                      "watch", "unit", "fired_at", NULL};
	char summary[SUMMARY_MAX + 1], dedup[DEDUP_MAX + 1];
	if (!is_alert(d))
		return false;
	bool over = text_eq(document_text(d, "status"), "resolved");
	utf8_copy(summary, sizeof summary, document_text(d, "text"));
	utf8_copy(dedup, sizeof dedup, document_text(d, "topic"));
	json_t *custom = texts_of(d, details);
	if (json_object_get(d, "value"))
		json_object_set(custom, "value", json_object_get(d, "value"));
	if (json_object_get(d, "limit"))
		json_object_set(custom, "limit", json_object_get(d, "limit"));
	json_t *payload = json_pack("{s:s, s:s, s:s, s:s, s:o}", "summary", summary, "source",
	                            document_text(d, "source"), "severity",
	                            pagerduty_severity(document_text(d, "severity")), "timestamp",
	                            document_text(d, "at"), "custom_details", custom);
	json_t *event = json_pack("{s:s, s:s, s:s, s:s, s:o}", "routing_key", key, "event_action",
	                          over ? "resolve" : "trigger", "dedup_key", dedup, "client", "defib",
	                          "payload", payload);
	if (*document_text(d, "link"))
		json_object_set_new(event, "client_url", json_string(document_text(d, "link")));
	dump(event, out);
	return true;
}
