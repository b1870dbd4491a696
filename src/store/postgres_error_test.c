/* SPDX-License-Identifier: Apache-2.0 */
/* postgres_error_test.c: libpq's texts to one clean line. */
#include "base/test.h"
#include "store/postgres.h"
#include "store/postgres_error.h"

static void refused_login_is_permission_with_its_sqlstate(void **state)
{
	struct failure f = {0};
	(void)state;
	pg_connect_failure("main",
	                   "connection to server at \"db\", port 5432 failed: FATAL:  28P01: password "
	                   "authentication failed for user \"u\"\nLOCATION:  auth_failed, auth.c:326\n",
	                   "s3cret", &f);
	assert_int_equal(f.code, DEFIB_PERMISSION);
	assert_string_equal(f.sqlstate, "28P01");
	assert_string_equal(f.what,
	                    "main: cannot connect: connection to server at \"db\", port 5432 failed: "
	                    "FATAL: password authentication failed for user \"u\"");
}

static void refused_socket_is_connection_with_advice_apart(void **state)
{
	struct failure f = {0};
	(void)state;
	pg_connect_failure("main",
	                   "connection to server at \"::1\", port 1 failed: Connection refused\n"
	                   "\tIs the server running on that host and accepting TCP/IP connections?\n",
	                   NULL, &f);
	assert_int_equal(f.code, DEFIB_CONNECTION);
	assert_string_equal(f.what,
	                    "main: cannot connect: connection to server at \"::1\", port 1 failed: "
	                    "Connection refused");
	assert_string_equal(f.next,
	                    "Is the server running on that host and accepting TCP/IP connections?");
}

static void password_never_reaches_the_text(void **state)
{
	struct failure f = {0};
	struct buf out = BUF_INIT;
	(void)state;
	pg_connect_failure("main", "bad token s3cret, really s3cret\n", "s3cret", &f);
	assert_null(strstr(f.what, "s3cret"));
	pg_unquoted(&out, "invalid port number: \"s3\"cret@host\"\n");
	assert_string_equal(buf_text(&out), "invalid port number: …");
	buf_release(&out);
}

static void message_becomes_one_line(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;
	pg_one_line(&out, "\n a\r\n\tb \x1b[31m c \n");
	assert_string_equal(buf_text(&out), "a b [31m c");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_login_is_permission_with_its_sqlstate),
		cmocka_unit_test(refused_socket_is_connection_with_advice_apart),
		cmocka_unit_test(password_never_reaches_the_text),
		cmocka_unit_test(message_becomes_one_line),
	};
	return cmocka_run_group_tests_name("store/postgres_error", tests, NULL, NULL);
}
