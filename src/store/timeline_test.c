/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_test.c: an old primary is refused, by this process and by the next. */
#include "store/timeline.h"

#include "base/test.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char folder[64], path[96];

static int setup(void **state)
{
	(void)state;
	timeline_forget();
	snprintf(folder, sizeof folder, "/tmp/defib-timeline-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/timelines", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	timeline_forget();
	unlink(path);
	return rmdir(folder);
}

static defib_err see(uint64_t cluster, int64_t number)
{
	return timeline_see(&(struct timeline){cluster, number}, "main", "h", NULL);
}

static void an_old_primary_is_refused(void **state)
{
	struct failure f = {0};
	(void)state;
	assert_int_equal(see(7, 1), DEFIB_OK);
	assert_int_equal(see(7, 2), DEFIB_OK);
	assert_int_equal(timeline_see(&(struct timeline){7, 1}, "main", "old", &f), DEFIB_CONNECTION);
	assert_non_null(strstr(f.what, "old primary"));
	assert_int_equal(see(7, 2), DEFIB_OK);
}

static void clusters_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(see(7, 5), DEFIB_OK);
	assert_int_equal(see(8, 1), DEFIB_OK);
}

static void what_is_not_known_is_let_in(void **state)
{
	(void)state;
	assert_int_equal(see(7, 5), DEFIB_OK);
	assert_int_equal(see(7, 0), DEFIB_OK);
	assert_int_equal(see(0, 0), DEFIB_OK);
	assert_false(timeline_is_behind(&(struct timeline){0, 0}));
}

static void a_session_with_the_old_primary_is_behind(void **state)
{
	struct timeline first = {7, 1};
	(void)state;
	assert_int_equal(see(7, 1), DEFIB_OK);
	assert_false(timeline_is_behind(&first));
	assert_int_equal(see(7, 2), DEFIB_OK);
	assert_true(timeline_is_behind(&first));
}

static void the_next_process_knows(void **state)
{
	(void)state;
	assert_int_equal(timeline_keep(folder, NULL), DEFIB_OK);
	assert_int_equal(see(7, 1), DEFIB_OK);
	assert_int_equal(see(7, 2), DEFIB_OK);
	assert_int_equal(see(8, 4), DEFIB_OK);
	timeline_forget();
	assert_int_equal(timeline_keep(folder, NULL), DEFIB_OK);
	assert_int_equal(see(7, 1), DEFIB_CONNECTION);
	assert_int_equal(see(8, 3), DEFIB_CONNECTION);
	assert_int_equal(see(7, 2), DEFIB_OK);
}

/* Nothing is written if nothing is new: opening a session costs no sync. */
static void only_an_advance_is_written(void **state)
{
	(void)state;
	assert_int_equal(timeline_keep(folder, NULL), DEFIB_OK);
	for (int i = 0; i < 10; i++)
		assert_int_equal(see(7, 2), DEFIB_OK);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[64] = "";
	assert_true(read(fd, text, sizeof text - 1) > 0);
	close(fd);
	assert_string_equal(text, "7 2\n");
}

static void a_line_that_a_crash_cut_short_is_passed_over(void **state)
{
	(void)state;
	static const char text[] = "7 3\n\n8\nnonsense\n9 ";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	assert_int_equal(timeline_keep(folder, NULL), DEFIB_OK);
	assert_int_equal(see(7, 2), DEFIB_CONNECTION);
	assert_int_equal(see(9, 1), DEFIB_OK);
}

/* Its number would be above that of every server, so that all of them would be refused. */
static void a_line_that_continues_a_cut_one_is_passed_over(void **state)
{
	(void)state;
	static const char text[] = "7708822795386513088 17708822795386513088 3\n"
							   "7708822795386513088 7708822795386513088 3\n"
							   "8 18446744073709551616\n";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	assert_int_equal(timeline_keep(folder, NULL), DEFIB_OK);
	assert_int_equal(see(UINT64_C(7708822795386513088), 3), DEFIB_OK);
	assert_int_equal(see(8, 1), DEFIB_OK);
}

static void what_a_server_answers_is_read(void **state)
{
	(void)state;
	struct timeline t = timeline_parse("7708822795386513088", "0000001A000000020000000C");
	assert_true(t.cluster == UINT64_C(7708822795386513088));
	assert_int_equal(t.number, 26);
	assert_int_equal(timeline_parse("", "").number, 0);
	assert_int_equal(timeline_parse(NULL, NULL).number, 0);
	assert_int_equal(timeline_parse("7", "zzzzzzzz").number, 0);
	assert_int_equal(timeline_parse("x", "00000001").number, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_old_primary_is_refused),
		TEST(clusters_are_told_apart),
		TEST(what_is_not_known_is_let_in),
		TEST(a_session_with_the_old_primary_is_behind),
		TEST(the_next_process_knows),
		TEST(only_an_advance_is_written),
		TEST(a_line_that_a_crash_cut_short_is_passed_over),
		TEST(a_line_that_continues_a_cut_one_is_passed_over),
		TEST(what_a_server_answers_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
