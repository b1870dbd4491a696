/* SPDX-License-Identifier: Apache-2.0 */
/* message_test.c: the text of an alert, in the forms that receivers take. */
#include "alert/message.h"

#include "base/mem.h"
#include "base/test.h"

#define S INT64_C(1000000)
#define T0 (1700000000 * S)

static const struct alert fired = {
	.state = STATE_FIRING, .since_us = T0, .fired_us = T0, .notified_us = T0, .value = 12};

static json_t *document(enum alert_id id, const char *watch, enum alert_change change,
                        int64_t at_us)
{
	struct alert_rule rule = alert_rule_for(NULL, id, watch);
	struct alert_message m = {&rule, "defib", "main", watch, &fired, change, at_us, "https://d/"};
	struct buf text = BUF_INIT;
	message_document(&m, &text);
	json_t *d = json_loads(buf_text(&text), 0, NULL);
	assert_non_null(d);
	buf_release(&text);
	return d;
}

static json_t *parsed(struct buf *text)
{
	json_t *d = json_loads(buf_text(text), 0, NULL);
	assert_non_null(d);
	buf_release(text);
	return d;
}

static void says(const json_t *d, const char *name, const char *value)
{
	assert_string_equal(document_text(d, name), value);
}

static void an_alert_that_fires_says_what_and_where(void **state)
{
	json_t *d = document(ALERT_STUCK_WARNING, "pages", CHANGE_FIRED, T0);
	(void)state;
	says(d, "id", "defib/main/pages/stuck_warning@1700000000000.firing");
	says(d, "topic", "defib/main/pages/stuck_warning");
	says(d, "status", "firing");
	says(d, "text", "WARNING pages (main): 12 jobs are stuck (alert above 10)");
	assert_float_equal(json_number_value(json_object_get(d, "value")), 12, 0);
	json_decref(d);
}

static void one_that_is_told_again_has_an_id_of_its_own(void **state)
{
	json_t *d = document(ALERT_STUCK_WARNING, "pages", CHANGE_AGAIN, T0 + 3600 * S);
	(void)state;
	says(d, "id", "defib/main/pages/stuck_warning@1700000000000.again.0");
	says(d, "text", "STILL WARNING pages (main): 12 jobs are stuck (alert above 10)");
	json_decref(d);
}

static void one_that_is_over_says_after_how_long(void **state)
{
	json_t *d = document(ALERT_STUCK_CRITICAL, "pages", CHANGE_RESOLVED, T0 + 90 * S);
	(void)state;
	says(d, "status", "resolved");
	says(d, "text", "RESOLVED pages (main): stuck_critical ended after 1m 30s");
	json_decref(d);
}

static void one_of_the_whole_database_names_the_database(void **state)
{
	json_t *d = document(ALERT_DATABASE_AWAY, ALERT_ANY, CHANGE_FIRED, T0);
	(void)state;
	says(d, "text", "CRITICAL main: the database has not answered for 12s (alert above 1m)");
	json_decref(d);
}

static void names_with_quotes_and_line_ends_are_kept(void **state)
{
	json_t *d = document(ALERT_STUCK_WARNING, "a\"b\nc", CHANGE_FIRED, T0);
	struct buf text = BUF_INIT;
	(void)state;
	says(d, "watch", "a\"b\nc");
	assert_true(form_pagerduty(d, "k", &text));
	json_t *made = parsed(&text);
	says(made, "dedup_key", "defib/main/a\"b\nc/stuck_warning");
	json_decref(made);
	json_decref(d);
}

static void pagerduty_is_triggered_and_resolved_with_one_key(void **state)
{
	static const enum alert_change changes[] = {CHANGE_FIRED, CHANGE_AGAIN, CHANGE_RESOLVED};
	static const char *const actions[] = {"trigger", "trigger", "resolve"};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct buf text = BUF_INIT;
		json_t *d = document(ALERT_STUCK_DOUBLED, "pages", changes[i], T0 + i * S);
		assert_true(form_pagerduty(d, "key", &text));
		json_t *made = parsed(&text);
		says(made, "event_action", actions[i]);
		says(made, "routing_key", "key");
		says(made, "client_url", "https://d/");
		says(made, "dedup_key", "defib/main/pages/stuck_doubled");
		says(json_object_get(made, "payload"), "severity", "critical");
		json_decref(made);
		json_decref(d);
	}
}

static void pagerduty_gets_no_more_than_it_takes(void **state)
{
	char name[3000];
	struct buf text = BUF_INIT;
	(void)state;
	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = 0;
	json_t *d = document(ALERT_STUCK_WARNING, name, CHANGE_FIRED, T0);
	assert_true(form_pagerduty(d, "key", &text));
	json_t *made = parsed(&text);
	assert_int_equal(strlen(document_text(made, "dedup_key")), 255);
	assert_int_equal(strlen(document_text(json_object_get(made, "payload"), "summary")), 1024);
	json_decref(made);
	json_decref(d);
}

static void alertmanager_keeps_what_fires_and_ends_what_is_over(void **state)
{
	struct buf text = BUF_INIT;
	(void)state;
	json_t *d = document(ALERT_STUCK_WARNING, "pages", CHANGE_FIRED, T0);
	assert_true(form_alertmanager(d, &text));
	json_t *list = parsed(&text);
	const json_t *made = json_array_get(list, 0);
	says(made, "generatorURL", "https://d/");
	says(made, "startsAt", "2023-11-14T22:13:20.000Z");
	says(made, "endsAt", "2023-11-16T22:13:20.000Z");
	says(json_object_get(made, "labels"), "alertname", "defib_stuck_warning");
	json_decref(list);
	json_decref(d);
	d = document(ALERT_STUCK_WARNING, "pages", CHANGE_RESOLVED, T0 + 60 * S);
	text = (struct buf)BUF_INIT;
	assert_true(form_alertmanager(d, &text));
	list = parsed(&text);
	says(json_array_get(list, 0), "endsAt", "2023-11-14T22:14:20.000Z");
	json_decref(list);
	json_decref(d);
}

static void a_report_is_no_alert(void **state)
{
	json_t *d = json_pack("{s:s, s:s}", "kind", "report", "text", "a week");
	struct buf text = BUF_INIT;
	(void)state;
	assert_false(form_alertmanager(d, &text));
	assert_false(form_pagerduty(d, "key", &text));
	buf_release(&text);
	json_decref(d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_alert_that_fires_says_what_and_where),
		cmocka_unit_test(one_that_is_told_again_has_an_id_of_its_own),
		cmocka_unit_test(one_that_is_over_says_after_how_long),
		cmocka_unit_test(one_of_the_whole_database_names_the_database),
		cmocka_unit_test(names_with_quotes_and_line_ends_are_kept),
		cmocka_unit_test(pagerduty_is_triggered_and_resolved_with_one_key),
		cmocka_unit_test(pagerduty_gets_no_more_than_it_takes),
		cmocka_unit_test(alertmanager_keeps_what_fires_and_ends_what_is_over),
		cmocka_unit_test(a_report_is_no_alert),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
