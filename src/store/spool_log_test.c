/* SPDX-License-Identifier: Apache-2.0 */
/* spool_log_test.c: what a commit of a spool costs beside the bytes that it writes. */
#include "store/spool_log.h"

#include "store/spool_test.h"

static struct spool *opened_briefly(void)
{
	const struct spool_options o = {.folder = folder, .brief = true};
	struct spool *s;
	struct failure f = {0};
	if (spool_open(&o, &s, &f) != DEFIB_OK)
		fail_msg("%s", f.what);
	return s;
}

static void put(struct spool *s, int64_t number)
{
	char id[24];
	struct failure f = {0};
	snprintf(id, sizeof id, "%lld", (long long)number);
	const struct spool_record r = {.id = id, .database = "", .bytes = "{}", .n = 2};
	assert_int_equal(spool_append(s, "mail", &r, 1, &f), DEFIB_OK);
}

static void the_log_rarely_becomes_longer(void **state)
{
	(void)state;
	struct spool *s = opened();
	int times = 0;
	for (int i = 0; i < 200; i++) {
		off_t before = size_of("spool.db-wal");
		put(s, i);
		times += size_of("spool.db-wal") != before;
	}
	assert_in_range(times, 1, 10);
	spool_close(s);
}

/* As long as it may be, it begins again at its first byte. */
static void the_log_has_an_end(void **state)
{
	(void)state;
	struct spool *s = opened();
	for (int i = 0; i < 3000; i++)
		put(s, i);
	assert_in_range(size_of("spool.db-wal"), 2000000, 2300000);
	spool_close(s);
}

static void the_name_of_a_log_is_synced_once(void **state)
{
	(void)state;
	struct spool *s = opened_briefly();
	assert_true(plan.names > 0);
	put(s, 1);
	spool_close(s);
	plan.names = plan.syncs = 0;
	s = opened_briefly();
	put(s, 2);
	spool_close(s);
	assert_int_equal(plan.names, 0);
	assert_int_equal(plan.syncs, 1);
}

/* Its process may have died before it synced the name. */
static void the_name_of_a_log_that_has_nothing_is_synced_again(void **state)
{
	(void)state;
	spool_close(opened_briefly());
	struct spool *s = opened_briefly();
	put(s, 1);
	spool_close(s);
	assert_int_equal(truncate(path_of("spool.db-wal"), 32), 0);
	plan.names = 0;
	s = opened_briefly();
	put(s, 1);
	spool_close(s);
	assert_true(plan.names > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_log_rarely_becomes_longer),
		TEST(the_log_has_an_end),
		TEST(the_name_of_a_log_is_synced_once),
		TEST(the_name_of_a_log_that_has_nothing_is_synced_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
