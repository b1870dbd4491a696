/* SPDX-License-Identifier: Apache-2.0 */
/* jobs_test.c: the index finds every job at its position, whatever the keys look like. */
#include "ledger/jobs.h"

#include "base/test.h"

static void every_job_is_found_at_its_place(void **state)
{
	enum { JOBS = 5000 };
	struct arena a = ARENA_INIT;
	const char **jobs = ARENA_ARRAY(&a, const char *, JOBS);
	struct job_index x;
	(void)state;
	for (int i = 0; i < JOBS; i++)
		jobs[i] = arena_printf(&a, "[\"a\",\"%d\"]", i);
	job_index_init(&x, jobs, JOBS, &a);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(job_index_find(&x, arena_strdup(&a, jobs[i])), i);
	assert_int_equal(job_index_find(&x, "[\"a\",\"5000\"]"), -1);
	arena_release(&a);
}

static void of_duplicates_the_first_is_found(void **state)
{
	static const char *const jobs[] = {"1", "2", "1", ""};
	struct arena a = ARENA_INIT;
	struct job_index x;
	(void)state;
	job_index_init(&x, jobs, 4, &a);
	assert_int_equal(job_index_find(&x, "1"), 0);
	assert_int_equal(job_index_find(&x, ""), 3);
	arena_release(&a);
}

static void nothing_is_found_in_an_empty_list(void **state)
{
	struct arena a = ARENA_INIT;
	struct job_index x;
	(void)state;
	job_index_init(&x, NULL, 0, &a);
	assert_int_equal(job_index_find(&x, "1"), -1);
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_job_is_found_at_its_place),
		cmocka_unit_test(of_duplicates_the_first_is_found),
		cmocka_unit_test(nothing_is_found_in_an_empty_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
