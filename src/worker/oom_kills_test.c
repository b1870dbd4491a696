/* SPDX-License-Identifier: Apache-2.0
 * oom_kills_test.c: files in the kernel's form.
 */
#include "worker/oom_kills.h"
#include "worker/run_child.h"

#include "base/test.h"

#include <unistd.h>

static int64_t count_in(const char *text)
{
	char path[] = "/tmp/oom_kills_XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	int64_t kills = oom_kills_in(path);
	unlink(path);
	return kills;
}

static void reads_the_line_of_kills(void **state)
{
	(void)state;
	assert_int_equal(count_in("low 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n"), 3);
}

static void a_file_without_the_line_is_not_known(void **state)
{
	(void)state;
	assert_int_equal(count_in("oom 4\noom_killer 5\n"), -1);
	assert_int_equal(oom_kills_in("/no/such/file"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_line_of_kills),
		cmocka_unit_test(a_file_without_the_line_is_not_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
