/* SPDX-License-Identifier: Apache-2.0
 * evidence_test.c: evidence is valid JSON whatever the row holds, masks what the watch masks, and
 * reads as a sentence.
 */
#include "recover/evidence.h"

#include "base/clock.h"
#include "base/test.h"

#include <jansson.h>
#include <string.h>

#define NOW (INT64_C(1767323045) * US_PER_S) /* 2026-01-02T03:04:05Z */

static const struct judge_rule law = {"silent", VERDICT_SILENT, "because"};
static const struct judgement two_hours = {.verdict = VERDICT_SILENT,
                                           .rule = &law,
                                           .sign = SIGN_ALIVE,
                                           .measured = true,
                                           .measured_us = 7500 * US_PER_S,
                                           .limit_us = 3600 * US_PER_S};

static struct facts two_hours_old(void)
{
	struct facts f = {.running = true, .owner_alive = KNOWN_NOT, .now_us = NOW};
	f.has_sign[SIGN_ALIVE] = true;
	f.sign_us[SIGN_ALIVE] = NOW - 7500 * US_PER_S;
	return f;
}

/* The evidence, parsed; names that come twice are refused. */
static json_t *parsed(const struct watch *w, const struct facts *f, const struct judgement *j)
{
	struct buf text = BUF_INIT;
	json_error_t error;
	evidence_json(w, f, j, &text);
	json_t *json = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s: %s", error.text, buf_text(&text));
	buf_release(&text);
	return json;
}

static const char *text_at(const json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));
	return text ? text : "";
}

static void evidence_says_the_law_the_times_and_the_limit(void **state)
{
	struct watch w = {.name = "w"};
	struct facts f = two_hours_old();
	(void)state;
	f.has_attempts = f.has_max_attempts = true;
	f.attempts = 1;
	f.max_attempts = 3;
	f.crashes = 2;
	json_t *json = parsed(&w, &f, &two_hours);
	assert_string_equal(text_at(json, "law"), "silent");
	assert_string_equal(text_at(json, "now"), "2026-01-02T03:04:05.000Z");
	assert_string_equal(text_at(json, "alive_at"), "2026-01-02T00:59:05.000Z");
	assert_true(json_number_value(json_object_get(json, "measured_s")) == 7500.0);
	assert_true(json_number_value(json_object_get(json, "limit_s")) == 3600.0);
	assert_int_equal(json_integer_value(json_object_get(json, "attempt")), 1);
	assert_int_equal(json_integer_value(json_object_get(json, "max_attempts")), 3);
	assert_int_equal(json_integer_value(json_object_get(json, "recovered_before")), 2);
	json_decref(json);
}

/* Where the time to recover counts from, as seconds before the reading; -1: not known. */
static int64_t lost_before(struct facts f, enum verdict verdict)
{
	const struct judgement j = {.verdict = verdict, .rule = &law};
	int64_t us;
	f.now_us = NOW;
	return lost_since(&f, &j, &us) ? (NOW - us) / US_PER_S : -1;
}

#define AT(sign_, before) .has_sign[sign_] = true, .sign_us[sign_] = NOW - (before)*US_PER_S
#define LOST(before) .has_lost = true, .lost_us = NOW - (before)*US_PER_S

/* "time to recover median -3s": it was counted from the future end of a lease. */
static void a_job_is_lost_since_what_was_seen_of_its_worker_and_never_since_the_future(void **state)
{
	static const struct {
		struct facts facts;
		enum verdict verdict;
		int64_t before;
	} cases[] = {
		{{LOST(1), AT(SIGN_EXPIRES, -3)}, VERDICT_DEAD, 1},    /* its exit was seen */
		{{LOST(12), AT(SIGN_EXPIRES, 5)}, VERDICT_SILENT, 12}, /* its lease ran out; last renewal */
		{{AT(SIGN_ALIVE, 90), AT(SIGN_STARTED, 900)}, VERDICT_SILENT, 90},
		{{AT(SIGN_EXPIRES, 7)}, VERDICT_SILENT, 7},
		{{AT(SIGN_EXPIRES, -7)}, VERDICT_DEAD, -1}, /* a lease that is still valid says nothing */
		{{AT(SIGN_EXPIRES, -7), AT(SIGN_STARTED, 30)}, VERDICT_DEAD, 30},
		{{LOST(1), AT(SIGN_ALIVE, 2), AT(SIGN_STARTED, 900)}, VERDICT_OVERDUE, 900},
		{{AT(SIGN_ALIVE, -60)}, VERDICT_DEAD, 0}, /* written by a clock that runs ahead */
		{{LOST(-1)}, VERDICT_DEAD, 0},
		{{.owner = NULL}, VERDICT_ORPHAN, -1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(lost_before(cases[i].facts, cases[i].verdict), cases[i].before);
}

static void what_is_not_known_is_left_out(void **state)
{
	struct watch w = {.name = "w"};
	struct facts f = {.running = true, .now_us = NOW};
	struct judgement j = {.verdict = VERDICT_DEAD, .rule = &law};
	(void)state;
	json_t *json = parsed(&w, &f, &j);
	assert_int_equal(json_object_size(json), 2);
	json_decref(json);
}

static void hostile_texts_stay_valid_json(void **state)
{
	static const char *const hostile[] = {
		"\"}, \"law\":\"x",
		"back\\slash",
		"new\nline\ttab\x01",
		"\xff\xfe",
		"größe 🙂",
		"",
		"'; --",
	};
	static const char *show[] = {"a\"b\\c"};
	struct watch w = {.name = "w", .show = {1, show}, .owner.text = "o"};
	(void)state;
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		struct facts f = two_hours_old();
		f.owner = f.kind = f.show[0] = hostile[i];
		json_t *json = parsed(&w, &f, &two_hours);
		assert_string_equal(text_at(json, "law"), "silent");
		assert_string_equal(text_at(json, "owner"), text_at(json, "a\"b\\c"));
		if ((unsigned char)hostile[i][0] != 0xff)
			assert_string_equal(text_at(json, "owner"), hostile[i]);
		json_decref(json);
	}
}

static void a_shown_column_never_replaces_evidence_of_the_same_name(void **state)
{
	static const char *show[] = {"alive_at", "domain", "domain"};
	struct watch w = {.name = "w", .show = {3, show}};
	struct facts f = two_hours_old();
	(void)state;
	f.show[0] = "forged";
	f.show[1] = f.show[2] = "x.org";
	json_t *json = parsed(&w, &f, &two_hours);
	assert_string_equal(text_at(json, "alive_at"), "2026-01-02T00:59:05.000Z");
	assert_string_equal(text_at(json, "domain"), "x.org");
	json_decref(json);
}

static void masked_columns_keep_their_last_six_characters(void **state)
{
	static const char *show[] = {"owner_id", "domain"}, *mask[] = {"owner_id"};
	struct watch w = {
		.name = "w", .show = {2, show}, .mask = {1, mask}, .owner.text = "t.owner_id"};
	struct facts f = two_hours_old();
	(void)state;
	f.show[0] = f.owner = "8f14e45f-ceea-4670";
	f.show[1] = "x.org";
	json_t *json = parsed(&w, &f, &two_hours);
	assert_string_equal(text_at(json, "owner_id"), "****a-4670");
	assert_string_equal(text_at(json, "owner"), "****a-4670");
	assert_string_equal(text_at(json, "domain"), "x.org");
	json_decref(json);
}

static void assert_shown(const char *column, const char *value, const char *want)
{
	static const char *codes[] = {"1"}, *names[] = {"paying", NULL};
	struct watch w = {.name = "w",
	                  .running.text = "t.paid = 1 AND note <> 'id' AND \"Order\" = 1",
	                  .states = {.n = 1, .codes = codes, .names = names}};
	struct buf out = BUF_INIT;
	shown_value(&w, column, value, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void only_columns_that_running_names_have_named_states(void **state)
{
	(void)state;
	assert_shown("paid", "1", "paying (1)");
	assert_shown("Order", "1", "paying (1)");
	assert_shown("paid", "2", "2");
	assert_shown("id", "1", "1"); /* occurs in "paid", and in a text */
	assert_shown("aid", "1", "1");
}

static void assert_masked(const char *value, const char *want)
{
	static const char *mask[] = {"c"};
	struct watch w = {.name = "w", .mask = {1, mask}};
	struct buf out = BUF_INIT;
	mask_value(&w, "c", value, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void short_values_are_masked_whole(void **state)
{
	(void)state;
	assert_masked("", "****");
	assert_masked("secret", "****");
	assert_masked("secrets", "****ecrets");
}

static void masks_do_not_cut_through_a_character(void **state)
{
	(void)state;
	assert_masked("xäöüäöü", "****äöüäöü");
	assert_masked("äöüäöü", "****");
}

static void assert_sentence(struct judgement j, const char *want)
{
	struct buf out = BUF_INIT;
	j.rule = &law;
	evidence_sentence(&j, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void sentences_say_what_was_measured(void **state)
{
	(void)state;
	assert_sentence(two_hours, "no sign of life for 2h 5m (limit 1h)");
	assert_sentence(
		(struct judgement){.sign = SIGN_EXPIRES, .measured = true, .measured_us = 5000000},
		"past its deadline by 5s (limit 0s)");
	assert_sentence((struct judgement){.sign = SIGN_STARTED,
	                                   .measured = true,
	                                   .measured_us = 660 * US_PER_S,
	                                   .limit_us = 600 * US_PER_S},
	                "running for 11m (limit 10m)");
	assert_sentence(
		(struct judgement){.sign = SIGN_EXPIRES, .measured = true, .measured_us = -90 * US_PER_S},
		"its deadline is in 1m 30s");
}

static void where_nothing_was_measured_the_law_speaks(void **state)
{
	(void)state;
	assert_sentence((struct judgement){.verdict = VERDICT_DEAD}, "because");
}

static void assert_reason(const char *template, const struct facts *f, const struct judgement *j,
                          const char *want)
{
	const struct watch w = {0};
	struct buf out = BUF_INIT;
	reason_text(&w, template, f, j, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void a_reason_without_names_is_written_as_it_is(void **state)
{
	struct facts f = two_hours_old();
	(void)state;
	assert_reason("Auto-reset from stuck Processing state", &f, &two_hours,
	              "Auto-reset from stuck Processing state");
	assert_reason("", &f, &two_hours, "");
	assert_reason("{} {silen} {{silent", &f, &two_hours, "{} {silen} {{silent");
}

static void a_reason_has_its_names_filled_in(void **state)
{
	struct facts f = two_hours_old();
	(void)state;
	f.owner = "w-1 {kind}";
	f.kind = "crawl";
	assert_reason("{verdict} {silent}: {owner}/{kind}", &f, &two_hours,
	              "silent 2h 5m: w-1 {kind}/crawl");
}

static void a_reason_says_what_is_unknown(void **state)
{
	struct facts f = {.running = true};
	struct judgement dead = {.verdict = VERDICT_DEAD, .rule = &law};
	(void)state;
	assert_reason("{verdict} {silent} {owner} {kind}", &f, &dead,
	              "dead unknown time unknown unknown");
}

static void a_reason_masks_an_owner_that_the_watch_masks(void **state)
{
	const char *masked[] = {"worker"};
	const struct watch w = {.owner = {.text = "t.worker"}, .mask = {.items = masked, .n = 1}};
	struct facts f = {.running = true, .owner = "host-7/secret-name"};
	struct judgement dead = {.verdict = VERDICT_DEAD, .rule = &law};
	struct buf out = BUF_INIT;
	(void)state;
	reason_text(&w, "left by {owner}", &f, &dead, &out);
	assert_string_equal(buf_text(&out), "left by ****t-name");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evidence_says_the_law_the_times_and_the_limit),
		cmocka_unit_test(
			a_job_is_lost_since_what_was_seen_of_its_worker_and_never_since_the_future),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(hostile_texts_stay_valid_json),
		cmocka_unit_test(a_shown_column_never_replaces_evidence_of_the_same_name),
		cmocka_unit_test(masked_columns_keep_their_last_six_characters),
		cmocka_unit_test(short_values_are_masked_whole),
		cmocka_unit_test(masks_do_not_cut_through_a_character),
		cmocka_unit_test(sentences_say_what_was_measured),
		cmocka_unit_test(where_nothing_was_measured_the_law_speaks),
		cmocka_unit_test(a_reason_without_names_is_written_as_it_is),
		cmocka_unit_test(a_reason_has_its_names_filled_in),
		cmocka_unit_test(only_columns_that_running_names_have_named_states),
		cmocka_unit_test(a_reason_says_what_is_unknown),
		cmocka_unit_test(a_reason_masks_an_owner_that_the_watch_masks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
