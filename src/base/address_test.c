/* SPDX-License-Identifier: Apache-2.0 */
/* address_test.c: which texts are an address, and its properties. */
#include "base/address.h"

#include "base/test.h"

static void literals_and_localhost_are_addresses(void **state)
{
	struct address a;
	char text[80];
	(void)state;
	assert_true(address_parse("127.0.0.1:8080", &a));
	assert_string_equal(a.host, "127.0.0.1");
	assert_int_equal(a.port, 8080);
	assert_true(a.loopback);
	assert_true(address_parse("localhost:0", &a));
	assert_true(a.loopback);
	assert_true(address_parse("[::1]:9", &a));
	assert_true(a.v6 && a.loopback);
	address_text(&a, text, sizeof text);
	assert_string_equal(text, "[::1]:9");
}

static void only_loopback_is_loopback(void **state)
{
	static const char *const others[] = {"0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[fe80::1]:80",
	                                     "128.0.0.1:1"};
	struct address a;
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		assert_true(address_parse(others[i], &a));
		assert_false(a.loopback);
	}
	assert_true(address_parse("127.9.9.9:1", &a));
	assert_true(a.loopback);
}

static void what_is_no_address_is_refused(void **state)
{
	static const char *const bad[] = {"",
	                                  "127.0.0.1",
	                                  "127.0.0.1:",
	                                  ":8080",
	                                  "8080",
	                                  "127.0.0.1:-1",
	                                  "127.0.0.1:+1",
	                                  "127.1:80",
	                                  "::1:80",
	                                  "[::1]",
	                                  "localhost:x",
	                                  "example.org:80",
	                                  "[1.2.3.4]:1",
	                                  "1.2.3.4:65536",
	                                  "1.2.3.4:80 "};
	struct address a;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (address_parse(bad[i], &a))
			fail_msg("taken for an address: \"%s\"", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(literals_and_localhost_are_addresses),
		cmocka_unit_test(only_loopback_is_loopback),
		cmocka_unit_test(what_is_no_address_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
