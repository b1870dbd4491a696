/* SPDX-License-Identifier: Apache-2.0 */
/* run_thread_test.c: handlers that are asked to stop, while they run and while they wait. */

#include "base/test.h"
#include "worker/run_thread.h"

#include <pthread.h>
#include <unistd.h>

static atomic_int begun, ended;

static enum settle_as until_asked(struct handler_job *j, void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&begun, 1);
	while (!handler_should_stop(j))
		usleep(1000);
	return SETTLE_FAILED;
}

static void on_ended(void *ctx, struct job *j)
{
	(void)ctx;
	(void)j;
	atomic_fetch_add(&ended, 1);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static bool is_of_the_second(void *ctx, const struct job *j)
{
	return j->pool == *(int *)ctx;
}

static void only_those_that_must_are_asked_running_or_not(void **state)
{
	static const struct threads_options o = {
		.count = 2, .ended = on_ended, .began = nothing, .on_progress = nothing};
	static const struct worker_pool pool = {.handler = until_asked};
	struct claimed claim = {.key = "1", .epoch = 1};
	struct threads *t = NULL;
	struct failure f = {0};
	struct job *jobs[4];
	int second = 1;
	(void)state;
	assert_int_equal(threads_start(&o, &t, &f), DEFIB_OK);
	for (int i = 0; i < 4; i++) { /* two run, two wait; one of each belongs to the second pool */
		jobs[i] = job_new(i % 2, 7, &claim);
		threads_add(t, jobs[i], &pool, NULL);
	}
	threads_go(t);
	while (atomic_load(&begun) < 2)
		usleep(1000);
	assert_true(threads_ask(t, is_of_the_second, &second));
	while (atomic_load(&ended) < 1)
		usleep(1000);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(atomic_load(&jobs[i]->stop), i % 2);
		assert_int_equal(atomic_load(&jobs[i]->lost), i % 2);
	}
	assert_false(threads_ask(t, is_of_the_second, &second)); /* they know */
	for (int i = 0; i < 4; i++)
		atomic_store(&jobs[i]->stop, true);
	threads_stop(t);
	for (int i = 0; i < 4; i++)
		job_free(jobs[i]);
}

static void a_host_without_room_for_threads_is_an_error(void **state)
{
	static const struct threads_options o = {
		.count = 2, .ended = on_ended, .began = nothing, .on_progress = nothing};
	struct threads *t = NULL;
	struct failure f = {0};
	pthread_attr_t attr, huge;
	(void)state;
	assert_int_equal(pthread_getattr_default_np(&attr), 0);
	assert_int_equal(pthread_getattr_default_np(&huge), 0);
	assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 60), 0);
	assert_int_equal(pthread_setattr_default_np(&huge), 0);
	defib_err err = threads_start(&o, &t, &f);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
	assert_int_equal(err, DEFIB_IO);
	assert_string_equal(f.what, "cannot start 2 threads for handlers, started 0");
	assert_null(t);
	pthread_attr_destroy(&attr);
	pthread_attr_destroy(&huge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_those_that_must_are_asked_running_or_not),
		cmocka_unit_test(a_host_without_room_for_threads_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
