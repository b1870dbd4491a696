/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include "base/test.h"

static void assert_says(const struct job_times *t, const char *expected)
{
	struct buf out = BUF_INIT;
	job_times_json(t, &out);
	assert_string_equal(buf_text(&out), expected);
	buf_release(&out);
}

static void nothing_ran_yet(void **state)
{
	(void)state;
	assert_says(&(struct job_times){0}, "{\"sum\":0.000,\"buckets\":{}}");
}

static void a_bound_belongs_to_its_bucket(void **state)
{
	(void)state;
	struct job_times t = {0};
	job_times_add(&t, 500);
	job_times_add(&t, 501);
	job_times_add(&t, 0);
	assert_says(&t, "{\"sum\":1.001,\"buckets\":{\"0.01\":1,\"0.5\":1,\"1\":1}}");
}

static void what_is_longer_than_all_has_a_bucket_too(void **state)
{
	(void)state;
	struct job_times t = {0};
	job_times_add(&t, INT64_C(2) * 86400000);
	assert_says(&t, "{\"sum\":172800.000,\"buckets\":{\"+Inf\":1}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_ran_yet),
		cmocka_unit_test(a_bound_belongs_to_its_bucket),
		cmocka_unit_test(what_is_longer_than_all_has_a_bucket_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
