/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/test.h"

static void an_empty_buffer_reads_as_empty_text(void **state)
{
	(void)state;
	struct buf b = BUF_INIT;
	assert_string_equal(buf_text(&b), "");
	char *text = buf_detach(&b);
	assert_string_equal(text, "");
	free(text);
}

static void pieces_are_joined_and_stay_terminated(void **state)
{
	(void)state;
	struct buf b = BUF_INIT;
	buf_add(&b, "a");
	buf_addch(&b, 'b');
	buf_addf(&b, "%d", 3);
	buf_addn(&b, "defg", 2);
	assert_string_equal(buf_text(&b), "ab3de");
	assert_int_equal(b.len, 5);
	buf_release(&b);
}

static void it_grows_over_any_length(void **state)
{
	(void)state;
	struct buf b = BUF_INIT;
	for (int i = 0; i < 10000; i++)
		buf_addf(&b, "%04d", i);
	assert_int_equal(b.len, 40000);
	assert_memory_equal(buf_text(&b) + 4 * 9999, "9999", 5);
	buf_release(&b);
}

static void clear_drops_the_text_and_keeps_the_memory(void **state)
{
	(void)state;
	struct buf b = BUF_INIT;
	buf_add(&b, "text");
	buf_clear(&b);
	assert_string_equal(buf_text(&b), "");
	assert_true(b.cap > 0);
	buf_release(&b);
}

struct json_case {
	const char *text, *json;
};

/* U+FFFD, once for each byte that belongs to no character. */
#define BAD "\xef\xbf\xbd"

static const struct json_case json_cases[] = {
	{"", "\"\""},
	{"plain", "\"plain\""},
	{"a\"b\\c", "\"a\\\"b\\\\c\""},
	{"\n\r\t\b\f", "\"\\n\\r\\t\\b\\f\""},
	{"\x01\x1f", "\"\\u0001\\u001f\""},
	{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\x93", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\x93\""},
	{"\xff", "\"" BAD "\""},
	{"\xc0\xaf", "\"" BAD BAD "\""},                 /* overlong */
	{"\xed\xa0\x80", "\"" BAD BAD BAD "\""},         /* a surrogate */
	{"\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""}, /* beyond U+10FFFF */
	{"\xe2\x82", "\"" BAD BAD "\""},                 /* cut short */
	{"\xe2(x", "\"" BAD "(x\""},
};

static void json_escapes_and_repairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(json_cases) / sizeof(json_cases[0]); i++) {
		struct buf b = BUF_INIT;
		buf_add_json(&b, json_cases[i].text);
		assert_string_equal(buf_text(&b), json_cases[i].json);
		buf_release(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_reads_as_empty_text),
		cmocka_unit_test(pieces_are_joined_and_stay_terminated),
		cmocka_unit_test(it_grows_over_any_length),
		cmocka_unit_test(clear_drops_the_text_and_keeps_the_memory),
		cmocka_unit_test(json_escapes_and_repairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
