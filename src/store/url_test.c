/* SPDX-License-Identifier: Apache-2.0 */
/* url_test.c: URLs as other tools write them. */
#include "base/test.h"
#include "store/store.h"
#include "store/url.h"

static void assert_read(const char *url, const char *expected, const char *said)
{
	struct buf out = BUF_INIT, notes = BUF_INIT, again = BUF_INIT;
	struct failure f = {0};
	assert_true(store_url_read(url, &out, &notes, &f));
	assert_string_equal(buf_text(&out), expected);
	if (said)
		assert_non_null(strstr(buf_text(&notes), said));
	else
		assert_string_equal(buf_text(&notes), "");
	assert_null(strstr(buf_text(&notes), "s3cret"));
	buf_clear(&notes);
	assert_true(store_url_read(buf_text(&out), &again, &notes, &f));
	assert_string_equal(buf_text(&again), expected);
	assert_string_equal(buf_text(&notes), "");
	buf_release(&out);
	buf_release(&again);
	buf_release(&notes);
}

static void our_own_urls_stay_as_they_are(void **state)
{
	(void)state;
	assert_read("postgresql://u:s3cret@h:1/db?sslmode=require&application_name=x",
	            "postgresql://u:s3cret@h:1/db?sslmode=require&application_name=x", NULL);
	assert_read("sqlite:jobs.db", "sqlite:jobs.db", NULL);
	assert_read("sqlite:/srv/a?b.db", "sqlite:/srv/a?b.db", NULL);
	assert_read("sqlite::memory:", "sqlite::memory:", NULL);
}

static void a_driver_in_the_scheme_is_left_out_and_said(void **state)
{
	(void)state;
	assert_read("postgresql+asyncpg://u:s3cret@h/db", "postgresql://u:s3cret@h/db", "+asyncpg");
	assert_read("postgres+psycopg://h/db", "postgresql://h/db", "+psycopg");
	assert_read("sqlite+aiosqlite:////srv/jobs.db", "sqlite:/srv/jobs.db", "+aiosqlite");
}

static void parameters_of_other_drivers_are_taken_or_left_out_by_name(void **state)
{
	(void)state;
	assert_read("postgres://h/db?pgbouncer=true&sslmode=require&connection_limit=1",
	            "postgresql://h/db?sslmode=require", "pgbouncer, connection_limit");
	assert_read("postgres://h/db?token=s3cret", "postgresql://h/db", "token");
	assert_read("postgres://h/db?schema=app", "postgresql://h/db?options=-csearch_path%3Dapp",
	            NULL);
	assert_read("postgres://h/db?ssl=true", "postgresql://h/db?sslmode=require", NULL);
	assert_read("postgres://h/db?ssl=verify-full", "postgresql://h/db?sslmode=verify-full", NULL);
	assert_read("postgres://h/db?ssl=false", "postgresql://h/db?sslmode=disable", NULL);
}

static void three_slashes_come_before_a_relative_path_and_four_before_others(void **state)
{
	(void)state;
	assert_read("sqlite:///no-such-file.db", "sqlite:no-such-file.db", "relative path");
	assert_read("sqlite:////srv/jobs.db", "sqlite:/srv/jobs.db", NULL);
	/* A relative directory "etc" with that file is unlikely, and here the absolute one exists. */
	assert_read("sqlite:///etc/passwd", "sqlite:/etc/passwd", "write sqlite:/etc/passwd");
	assert_read("file:dev.db?mode=ro", "sqlite:dev.db", "file: is read as sqlite:");
}

static void what_cannot_be_read_says_what_to_write(void **state)
{
	static const struct {
		const char *url, *next;
	} refused[] = {
		{"sqlite://jobs.db", "sqlite:jobs.db"},
		{"sqlite://", "sqlite:PATH"},
		{"jdbc:postgresql://h/db", "postgresql://USER@HOST/DATABASE"},
		{"mysql://u:s3cret@h/db", "postgres://"},
		{"postgres://u:s3cret@h/db?sslmod=verify-full", "did you mean sslmode?"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct buf out = BUF_INIT, notes = BUF_INIT;
		struct failure f = {0};
		assert_false(store_url_read(refused[i].url, &out, &notes, &f));
		assert_int_equal(f.code, DEFIB_CONFIG);
		assert_non_null(strstr(f.next, refused[i].next));
		assert_null(strstr(f.what, "s3cret"));
		buf_release(&out);
		buf_release(&notes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_urls_stay_as_they_are),
		cmocka_unit_test(a_driver_in_the_scheme_is_left_out_and_said),
		cmocka_unit_test(parameters_of_other_drivers_are_taken_or_left_out_by_name),
		cmocka_unit_test(three_slashes_come_before_a_relative_path_and_four_before_others),
		cmocka_unit_test(what_cannot_be_read_says_what_to_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
