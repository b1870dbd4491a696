/* SPDX-License-Identifier: Apache-2.0 */
/* ended_test.c: ended jobs reach the turn thread: all, in order, and in time. */
#include "base/test.h"
#include "worker/ended.h"

#include <poll.h>
#include <pthread.h>

#define PUSHERS 4
#define JOBS 50000 /* of each */

static struct ended ended;

static int open_ended(void **state)
{
	struct failure f = {0};
	(void)state;
	memset(&ended, 0, sizeof ended);
	return ended_open(&ended, &f);
}

static int close_ended(void **state)
{
	(void)state;
	ended_close(&ended);
	return 0;
}

static bool woken(int wait_ms)
{
	struct pollfd fd = {.fd = ended.event, .events = POLLIN};
	return poll(&fd, 1, wait_ms) == 1;
}

static void they_are_taken_in_the_order_of_their_ends(void **state)
{
	struct job jobs[3] = {0};
	(void)state;
	for (int i = 0; i < 3; i++)
		ended_push(&ended, &jobs[i]);
	struct job *j = ended_take(&ended);
	for (int i = 0; i < 3; i++, j = j->queued)
		assert_ptr_equal(j, &jobs[i]);
	assert_null(j);
	assert_null(ended_take(&ended));
}

static void who_is_awake_is_not_woken(void **state)
{
	struct job j = {0};
	(void)state;
	ended_push(&ended, &j);
	assert_false(woken(0));
	assert_false(ended_may_sleep(&ended, 1));
}

static void who_sleeps_is_woken_when_enough_are_there(void **state)
{
	struct job jobs[3] = {0};
	(void)state;
	assert_true(ended_may_sleep(&ended, 3));
	ended_push(&ended, &jobs[0]);
	ended_push(&ended, &jobs[1]);
	assert_false(woken(0));
	ended_push(&ended, &jobs[2]);
	assert_true(woken(0));
}

static void who_was_awake_hears_nothing_of_an_old_wake_up(void **state)
{
	struct job jobs[2] = {0};
	(void)state;
	assert_true(ended_may_sleep(&ended, 1));
	ended_push(&ended, &jobs[0]);
	ended_awake(&ended);
	assert_ptr_equal(ended_take(&ended), &jobs[0]);
	assert_false(woken(0));
	assert_true(ended_may_sleep(&ended, 1));
	ended_push(&ended, &jobs[1]);
	assert_true(woken(0));
}

static void *push_many(void *arg)
{
	struct job *jobs = arg;
	for (int i = 0; i < JOBS; i++)
		ended_push(&ended, &jobs[i]);
	return NULL;
}

/* It sleeps as long as it takes: after one lost wake-up it would never end. */
static void no_wake_up_is_lost_between_many_who_push_and_one_who_sleeps(void **state)
{
	static struct job jobs[PUSHERS][JOBS];
	pthread_t threads[PUSHERS];
	int64_t left = (int64_t)PUSHERS * JOBS;
	bool hung = false;
	(void)state;
	for (int i = 0; i < PUSHERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, push_many, jobs[i]), 0);
	for (int64_t turn = 0; left > 0 && !hung; turn++) {
		int64_t enough = turn % 7 * turn % 5;
		for (struct job *j = ended_take(&ended); j; j = j->queued)
			left--;
		enough = enough < left ? enough : left;
		if (left > 0 && ended_may_sleep(&ended, enough))
			hung = !woken(TEST_HANGS_MS);
		ended_awake(&ended);
	}
	for (int i = 0; i < PUSHERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_false(hung);
	assert_int_equal(left, 0);
	assert_null(ended_take(&ended));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ended, close_ended)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_are_taken_in_the_order_of_their_ends),
		TEST(who_is_awake_is_not_woken),
		TEST(who_sleeps_is_woken_when_enough_are_there),
		TEST(who_was_awake_hears_nothing_of_an_old_wake_up),
		TEST(no_wake_up_is_lost_between_many_who_push_and_one_who_sleeps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
