/* SPDX-License-Identifier: Apache-2.0 */
/* api_values_test.c: how an address is parsed, and what is refused in one. */
#include "http/api.h"

#include "base/test.h"
#include "base/text.h"
#include "http/api_values.h"

static struct arena arena;

static int fresh(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static const char *parse(const char *target, struct uri *out)
{
	return uri_parse(target, &arena, out);
}

static void a_path_is_its_decoded_parts(void **state)
{
	struct uri u;
	(void)state;
	assert_null(parse("/api/v1/watches/p%C3%A4ges/jobs/a%2Fb", &u));
	assert_int_equal(u.nparts, 6);
	assert_string_equal(u.parts[3], "päges");
	assert_string_equal(u.parts[5], "a/b");
	assert_int_equal(u.npairs, 0);
}

static void a_key_may_be_a_json_array(void **state)
{
	struct uri u;
	(void)state;
	assert_null(parse("/jobs/%5B1%2C%22x%22%5D", &u));
	assert_string_equal(u.parts[1], "[1,\"x\"]");
	assert_null(parse("/jobs/[1,%22x+y%22]", &u));
	assert_string_equal(u.parts[1], "[1,\"x+y\"]");
}

static void a_query_is_pairs_in_their_order(void **state)
{
	struct uri u;
	(void)state;
	assert_null(parse("/x?a=1&&b=two+words&a=%26&flag&e=", &u));
	assert_int_equal(u.npairs, 5);
	assert_string_equal(u.pairs[1].value, "two words");
	assert_string_equal(u.pairs[2].name, "a");
	assert_string_equal(u.pairs[2].value, "&");
	assert_string_equal(u.pairs[3].name, "flag");
	assert_string_equal(u.pairs[3].value, "");
	assert_string_equal(u.pairs[4].value, "");
}

static void an_empty_part_is_a_part(void **state)
{
	struct uri u;
	(void)state;
	assert_null(parse("/", &u));
	assert_int_equal(u.nparts, 1);
	assert_string_equal(u.parts[0], "");
	assert_null(parse("/a//b/", &u));
	assert_int_equal(u.nparts, 4);
	assert_string_equal(u.parts[3], "");
}

static void what_cannot_be_meant_is_refused(void **state)
{
	static const char *const bad[] = {
		"",         "x",           "http://h/x", "*",
		"/a/../b",  "/a/%2e%2E/b", "/./a",       "/a%00b",
		"/a%0ab",   "/a%",         "/a%2",       "/a%zz",
		"/a%ff",    "/%c3%28",     "/x?a=%00",   "/x?a=%",
		"/x?%ff=1", "/a%7f",       "/%c0%af",    "/1/2/3/4/5/6/7/8/9/10/11/12/13",
	};
	struct uri u;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!parse(bad[i], &u))
			fail_msg("taken: \"%s\"", bad[i]);
}

static void what_is_too_long_is_refused(void **state)
{
	static char text[URI_MAX + 2];
	struct buf many = BUF_INIT;
	struct uri u;
	(void)state;
	memset(text, 'x', URI_MAX + 1);
	text[0] = '/';
	assert_string_equal(parse(text, &u), "the address is too long");
	text[URI_MAX] = '\0';
	assert_null(parse(text, &u));
	buf_add(&many, "/x?");
	for (int i = 0; i <= URI_PAIRS_MAX; i++)
		buf_add(&many, "a=1&");
	assert_string_equal(parse(buf_text(&many), &u), "the address has too many parameters");
	buf_release(&many);
}

static void what_is_logged_has_no_query(void **state)
{
	struct arena a = ARENA_INIT;
	(void)state;
	assert_string_equal(uri_loggable("/api/v1/jobs?access_token=abc", &a), "/api/v1/jobs");
	assert_string_equal(uri_loggable("/a;token=abc", &a), "/a");
	assert_string_equal(uri_loggable("/a#token=abc", &a), "/a");
	assert_null(strstr(uri_loggable("http://me:abc@host/a?b", &a), "abc"));
	assert_null(strstr(uri_loggable("?access_token=abc", &a), "abc"));
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_logged_has_no_query),
		cmocka_unit_test_setup(a_path_is_its_decoded_parts, fresh),
		cmocka_unit_test_setup(a_key_may_be_a_json_array, fresh),
		cmocka_unit_test_setup(a_query_is_pairs_in_their_order, fresh),
		cmocka_unit_test_setup(an_empty_part_is_a_part, fresh),
		cmocka_unit_test_setup(what_cannot_be_meant_is_refused, fresh),
		cmocka_unit_test_setup(what_is_too_long_is_refused, fresh),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_release(&arena);
	return failed;
}
