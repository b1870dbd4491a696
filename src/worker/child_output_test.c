/* SPDX-License-Identifier: Apache-2.0
 * child_output_test.c: portions in, bounded text out.
 */
#include "worker/child_output.h"

#include "base/test.h"
#include "worker/run_child.h"

static struct child_output o;
static struct buf text;

static int fresh(void **state)
{
	(void)state;
	o = (struct child_output){0};
	buf_clear(&text);
	return 0;
}

static int release(void **state)
{
	(void)state;
	child_output_release(&o);
	buf_release(&text);
	return 0;
}

static void progress(const char *bytes)
{
	child_output_progress(&o, bytes, strlen(bytes));
}

static void say(const char *bytes)
{
	child_output_stderr(&o, bytes, strlen(bytes));
}

static void a_line_of_progress_may_come_in_pieces(void **state)
{
	(void)state;
	progress("ha");
	assert_null(child_output_fetch_progress(&o));
	progress("lf\nmo");
	assert_string_equal(child_output_fetch_progress(&o), "half");
	assert_null(child_output_fetch_progress(&o));
	progress("re\n");
	assert_string_equal(child_output_fetch_progress(&o), "more");
}

static void only_the_latest_line_of_progress_is_kept(void **state)
{
	(void)state;
	progress("1\n2\n3\n");
	assert_string_equal(child_output_fetch_progress(&o), "3");
	assert_null(child_output_fetch_progress(&o));
}

static void a_long_line_of_progress_is_cut(void **state)
{
	(void)state;
	char part[700];
	memset(part, 'x', sizeof(part));
	for (int i = 0; i < 3; i++)
		child_output_progress(&o, part, sizeof(part));
	progress("\nnext\n");
	assert_string_equal(child_output_fetch_progress(&o), "next");
	for (int i = 0; i < 3; i++)
		child_output_progress(&o, part, sizeof(part));
	progress("\n");
	assert_int_equal(strlen(child_output_fetch_progress(&o)), CHILD_PROGRESS_MAX);
}

static void a_last_line_without_newline_counts_at_the_end(void **state)
{
	(void)state;
	progress("100");
	child_output_close(&o);
	assert_string_equal(child_output_fetch_progress(&o), "100");
}

static void the_tail_of_stderr_is_kept(void **state)
{
	(void)state;
	char part[1000];
	memset(part, 'x', sizeof(part));
	for (int i = 0; i < 100; i++)
		child_output_stderr(&o, part, sizeof(part));
	say("the end");
	child_output_add_tail(&o, &text);
	assert_int_equal(text.len, CHILD_STDERR_TAIL);
	assert_string_equal(text.data + text.len - 8, "xthe end");
}

static void the_last_line_that_is_not_blank_is_found(void **state)
{
	(void)state;
	say("first\nlast");
	say(" words\n\n  \n");
	child_output_add_last_line(&o, &text);
	assert_string_equal(buf_text(&text), "last words");
}

static void silence_has_no_last_line(void **state)
{
	(void)state;
	child_output_add_last_line(&o, &text);
	child_output_add_tail(&o, &text);
	assert_string_equal(buf_text(&text), "");
}

static void what_is_no_text_becomes_text(void **state)
{
	(void)state;
	child_output_stderr(&o, "a\0b\xff\xc3\xa4\x1b", 7);
	child_output_add_tail(&o, &text);
	assert_string_equal(buf_text(&text), "a\xef\xbf\xbd"
	                                     "b\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd");
}

static void a_tail_starts_at_a_whole_character(void **state)
{
	(void)state;
	for (int i = 0; i < CHILD_STDERR_TAIL; i++)
		say("\xc3\xa4");
	say(".");
	child_output_add_tail(&o, &text);
	assert_memory_equal(text.data, "\xc3\xa4\xc3\xa4", 4);
	assert_int_equal(text.len, CHILD_STDERR_TAIL - 1);
}

static void a_result_beyond_its_bound_is_cut_and_marked(void **state)
{
	(void)state;
	char part[65536];
	memset(part, 'r', sizeof(part));
	for (int i = 0; i < CHILD_RESULT_MAX / (int)sizeof(part); i++)
		child_output_result(&o, part, sizeof(part));
	assert_false(o.result_too_long);
	child_output_result(&o, part, 1);
	assert_true(o.result_too_long);
	assert_int_equal(o.result.len, CHILD_RESULT_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, release)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_line_of_progress_may_come_in_pieces),
		TEST(only_the_latest_line_of_progress_is_kept),
		TEST(a_long_line_of_progress_is_cut),
		TEST(a_last_line_without_newline_counts_at_the_end),
		TEST(the_tail_of_stderr_is_kept),
		TEST(the_last_line_that_is_not_blank_is_found),
		TEST(silence_has_no_last_line),
		TEST(what_is_no_text_becomes_text),
		TEST(a_tail_starts_at_a_whole_character),
		TEST(a_result_beyond_its_bound_is_cut_and_marked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
