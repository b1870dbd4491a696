/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/test.h"

#include <jansson.h>

static void null_equals_only_null(void **state)
{
	(void)state;
	assert_true(text_eq(NULL, NULL));
	assert_false(text_eq(NULL, ""));
	assert_false(text_eq("", NULL));
	assert_true(text_eq("a", "a"));
	assert_false(text_eq("a", "b"));
}

static void starts_compares_the_front(void **state)
{
	(void)state;
	assert_true(text_starts("sqlite:x", "sqlite:"));
	assert_true(text_starts("x", ""));
	assert_false(text_starts("sql", "sqlite:"));
}

static void nearest_finds_likely_slips_only(void **state)
{
	(void)state;
	static const char *const words[] = {"stuck_after", "running", "remedy", "key", NULL};
	assert_string_equal(text_nearest("stuck_afer", words), "stuck_after");
	assert_string_equal(text_nearest("runing", words), "running");
	assert_string_equal(text_nearest("rmeedy", words), "remedy");
	assert_string_equal(text_nearest("kye", words), "key");
	assert_string_equal(text_nearest("keys", words), "key");
	assert_string_equal(text_nearest("tabel", (const char *const[]){"label", "table", NULL}),
	                    "table");
	assert_null(text_nearest("xyz", words));
	assert_null(text_nearest("", words));
	assert_null(text_nearest("q", words));
	char longest[200];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_null(text_nearest(longest, words));
}

struct redact_case {
	const char *url, *shown;
};

static const struct redact_case redact_cases[] = {
	{"postgres://u:secret@h/db", "postgres://u:***@h/db"},
	{"postgresql://u:p%40w@h1,h2:5433/db?x=1", "postgresql://u:***@h1,h2:5433/db?x=1"},
	{"postgres://u:a@b@h/db", "postgres://u:***@h/db"},
	{"postgres://u:a/b@h/db", "postgres://u:***@h/db"},
	{"postgres://u:a:b@h/db", "postgres://u:***@h/db"},
	{"postgres://u@h:5432/db", "postgres://u@h:5432/db"},
	{"postgres://h:5432/db?user=a@b", "postgres://h:5432/db?user=a@b"},
	{"postgres://h/db?password=x&user=u", "postgres://h/db?password=***&user=u"},
	{"postgres://u:a@h/db?user=u&password=b&sslpassword=c",
     "postgres://u:***@h/db?user=u&password=***&sslpassword=***"},
	{"postgres:///db?host=/tmp&PASSWORD=x", "postgres:///db?host=/tmp&PASSWORD=***"},
	{"postgres://u:?x@h/db?password=y", "postgres://u:***@h/db?password=***"},
	{"postgres://u:@h/db", "postgres://u:@h/db"},
	{"postgres://u:@h/db?password=", "postgres://u:@h/db?password=***"},
	{"postgres://u:@h/db?password=&sslpassword=x",
     "postgres://u:@h/db?password=***&sslpassword=***"},
	{"host=h password=", "host=h password=***"},
	{"host=h password=secret user=u", "host=h password=*** user=u"},
	{"password = 'it\\'s a' user=u", "password = *** user=u"},
	{"password='open ended", "password=***"},
	{"host=h sslpassword=a password=b", "host=h sslpassword=*** password=***"},
	{"passwordless=x", "passwordless=x"},
	{"postgres//u:secret@h/db", "postgres//u:***@h/db"},
	{"postgres:/u:secret@h/db", "postgres:***@h/db"},
	{"u:secret@h/db", "u:***@h/db"},
	{"jdbc:postgresql://u:secret@h/db?password=x&sslpassword=y",
     "jdbc:postgresql://u:***@h/db?password=***&sslpassword=***"},
	{"postgres//h/db?user=u&password=secret", "postgres//h/db?user=u&password=***"},
	{"postgres//h:5432/db", "postgres//h:5432/db"},
	{"sqlite:/tmp/a@b:c.db", "sqlite:/tmp/a@b:c.db"},
	{"", ""},
};

static void redact_hides_every_password(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(redact_cases) / sizeof(redact_cases[0]); i++) {
		struct buf b = BUF_INIT;
		url_redact(redact_cases[i].url, &b);
		assert_string_equal(buf_text(&b), redact_cases[i].shown);
		buf_release(&b);
	}
}

static void wipe_keeps_the_length(void **state)
{
	(void)state;
	char url[] = "postgres://u:secret@h/db?password=x";
	url_wipe_password(url);
	assert_string_equal(url, "postgres://u:******@h/db?password=*");
	char conninfo[] = "password='a b' user=u";
	url_wipe_password(conninfo);
	assert_string_equal(conninfo, "password=***** user=u");
}

static void integers_are_whole_decimals(void **state)
{
	(void)state;
	static const char *const wrong[] = {"",    " 1", "1 ", "0x1", "1.0",
	                                    "--1", "+",  "-",  "1e3", "9223372036854775808"};
	int64_t n = 7;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(int_parse(wrong[i], &n));
	assert_int_equal(n, 7);
	assert_true(int_parse("-12", &n));
	assert_int_equal(n, -12);
	assert_true(int_parse("+0012", &n));
	assert_int_equal(n, 12);
	assert_true(int_parse("-9223372036854775808", &n));
	assert_true(n == INT64_MIN);
}

static void booleans_in_any_case(void **state)
{
	(void)state;
	bool value = false;
	assert_true(bool_parse("Yes", &value) && value);
	assert_true(bool_parse("OFF", &value) && !value);
	assert_true(bool_parse("1", &value) && value);
	assert_true(bool_parse("false", &value) && !value);
	assert_false(bool_parse("y", &value));
	assert_false(bool_parse("", &value));
}

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

/* Other people's documents: PostgreSQL and jansson write these characters as they are. */
static void a_document_keeps_its_meaning_without_control_characters(void **state)
{
	(void)state;
	AUTO_BUF b = BUF_INIT;
	AUTO_BUF own = BUF_INIT;
	buf_add_document(&b, "{\n\t\"a\": \"\x7f\xc2\x9b\xe2\x80\xae\xd8\x9c\xc3\xa4\\u001b\"\r\n}");
	assert_string_equal(buf_text(&b),
	                    "{\n\t\"a\": \"\\u007f\\u009b\\u202e\\u061c\xc3\xa4\\u001b\"\r\n}");
	json_t *value = json_string("\x1b\x7f\xc2\x9b");
	assert_true(json_write(&own, value, JSON_ENCODE_ANY));
	assert_string_equal(buf_text(&own), "\"\\u001B\\u007f\\u009b\"");
	json_decref(value);
	assert_false(json_write(&own, NULL, JSON_ENCODE_ANY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(null_equals_only_null),
		cmocka_unit_test(starts_compares_the_front),
		cmocka_unit_test(nearest_finds_likely_slips_only),
		cmocka_unit_test(redact_hides_every_password),
		cmocka_unit_test(wipe_keeps_the_length),
		cmocka_unit_test(integers_are_whole_decimals),
		cmocka_unit_test(booleans_in_any_case),
		cmocka_unit_test(an_empty_buffer_reads_as_empty_text),
		cmocka_unit_test(pieces_are_joined_and_stay_terminated),
		cmocka_unit_test(it_grows_over_any_length),
		cmocka_unit_test(clear_drops_the_text_and_keeps_the_memory),
		cmocka_unit_test(json_escapes_and_repairs),
		cmocka_unit_test(a_document_keeps_its_meaning_without_control_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
