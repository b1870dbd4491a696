/* SPDX-License-Identifier: Apache-2.0 */
/* lines_test.c: the language between a worker and the program beside it. */
#include "worker/lines.h"

#include "base/test.h"
#include "base/text.h"

#include <jansson.h>
#include <string.h>

static struct line_fields hear(const char *line, struct arena *a)
{
	struct line_fields said;
	struct failure f = {0};
	if (line_read(line, strlen(line), a, &said, &f))
		fail_msg("%s: %s", line, f.what);
	return said;
}

static void every_word_is_read(void **state)
{
	AUTO_ARENA a = ARENA_INIT;
	(void)state;
	for (int i = 0; i < LINE_DO_COUNT; i++) {
		AUTO_BUF line = BUF_INIT;
		buf_addf(&line, "{\"do\":\"%s\",\"run\":7,\"ms\":5}", line_do_words[i]);
		struct line_fields said = hear(buf_text(&line), &a);
		assert_int_equal(said.what, i);
		assert_int_equal(said.run, 7);
		assert_int_equal(said.ms, i == LINE_EXTEND ? 5 : -1);
		assert_true((line_outcome(said.what) == SETTLE_COUNT) == (i >= LINE_PROGRESS));
	}
}

static void texts_and_delays_are_read(void **state)
{
	AUTO_ARENA a = ARENA_INIT;
	(void)state;
	struct line_fields said =
		hear("{\"do\":\"retry\",\"run\":1,\"error\":\"later \\u00fc\",\"delay_ms\":1500.9}", &a);
	assert_string_equal(said.error, "later ü");
	assert_int_equal(said.ms, 1500);
	said = hear("{\"do\":\"progress\",\"run\":1048577,\"step\":\"one\",\"text\":null}", &a);
	assert_string_equal(said.step, "one");
	assert_null(said.text);
	assert_int_equal(said.run, 1048577);
}

static void a_result_stays_as_it_was_written(void **state)
{
	static const char *const results[] = {
		"{\"n\": 12345678901234567890123, \"x\": 0.1, \"s\": \"a\\\"}],\\\\\"}",
		"[1, [2, {\"result\": 3}], \"\"]",
		"\"text, with } and \\\"\"",
		"-1.50",
		"true",
		"{}",
		"\"\\\\\"",
	};
	AUTO_ARENA a = ARENA_INIT;
	(void)state;
	for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
		AUTO_BUF line = BUF_INIT;
		buf_addf(&line, " {\"do\" : \"done\", \"x\":{\"result\":[9]}, \"run\":1 ,\"result\": %s }",
		         results[i]);
		assert_string_equal(hear(buf_text(&line), &a).result, results[i]);
		buf_clear(&line);
		buf_addf(&line, "{\"result\":%s,\"do\":\"done\",\"run\":1}", results[i]);
		assert_string_equal(hear(buf_text(&line), &a).result, results[i]);
	}
	assert_null(hear("{\"do\":\"done\",\"run\":1,\"result\":null}", &a).result);
	assert_null(hear("{\"do\":\"done\",\"run\":1}", &a).result);
}

static void a_bad_line_gets_one_clear_answer(void **state)
{
	static const struct {
		const char *line, *answer;
	} bad[] = {
		{"hello", "not JSON: hello"},
		{"{\"do\":\"done\",\"run\":1", "not JSON: {\"do\":\"done\",\"run\":1"},
		{"[1]", "a line is an object with \"do\": done, …"},
		{"{\"run\":1}", "a line is an object with \"do\": done, …"},
		{"{\"do\":\"donne\",\"run\":1}", "\"do\": \"donne\" is not known; did you mean \"done\"?"},
		{"{\"do\":\"done\"}", "\"done\" needs the \"run\" of its job"},
		{"{\"do\":\"done\",\"run\":\"1\"}", "\"run\" must be a number of at least 1"},
		{"{\"do\":\"done\",\"run\":-1}", "\"run\" must be a number of at least 1"},
		{"{\"do\":\"failed\",\"run\":1,\"error\":5}", "\"error\" must be a string"},
		{"{\"do\":\"retry\",\"run\":1,\"delay_ms\":-5}",
	     "\"delay_ms\" must be a number of at least 0"},
		{"{\"do\":\"extend\",\"run\":1}", "\"extend\" needs \"ms\""},
		{"{\"do\":\"done\",\"run\":1,\"re\\u0073ult\":1}",
	     "\"result\" must be written without escapes"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		AUTO_ARENA a = ARENA_INIT;
		struct line_fields said;
		struct failure f = {0};
		assert_int_equal(line_read(bad[i].line, strlen(bad[i].line), &a, &said, &f), DEFIB_USAGE);
		assert_string_equal(f.what, bad[i].answer);
	}
}

static void expect_payload(const char *payload, const char *expected)
{
	struct claimed c = {.key = "4\"2", .epoch = 3, .attempt = 1, .max_attempts = 5};
	AUTO_BUF line = BUF_INIT;
	c.queue = "mail";
	c.payload = payload;
	line_add_job(&line, 9, &c, 17, 0);
	const char *text = buf_text(&line);
	assert_ptr_equal(strchr(text, '\n'), text + line.len - 1);
	json_auto_t *json = json_read(text, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "key")), "4\"2");
	assert_true(json_is_null(json_object_get(json, "kind")));
	const char *at = strstr(text, "\"payload\":");
	assert_non_null(at);
	size_t n = strlen(expected);
	assert_memory_equal(at + strlen("\"payload\":"), expected, n);
	assert_string_equal(at + strlen("\"payload\":") + n, "}\n");
}

static void a_job_is_one_line_with_its_payload_as_it_was_stored(void **state)
{
	(void)state;
	expect_payload(NULL, "null");
	expect_payload("{\"n\": 123456789012345678901, \"x\": 0.10}",
	               "{\"n\": 123456789012345678901, \"x\": 0.10}");
	expect_payload("{\n\"a\":\r\n1}", "{ \"a\":  1}");
	expect_payload("not json\n", "\"not json\\n\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_word_is_read),
		cmocka_unit_test(texts_and_delays_are_read),
		cmocka_unit_test(a_result_stays_as_it_was_written),
		cmocka_unit_test(a_bad_line_gets_one_clear_answer),
		cmocka_unit_test(a_job_is_one_line_with_its_payload_as_it_was_stored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
