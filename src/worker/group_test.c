/* SPDX-License-Identifier: Apache-2.0
 * group_test.c: real processes that only wait, in groups of their own.
 */
#include "worker/keeper.h"

#include "base/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Paused in a group of its own, which exists when this returns. */
static pid_t waiting_leader(void)
{
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(setpgid(pid, pid), 0);
	return pid;
}

/* The signal that ended it; TERM is sent so that a survivor ends too. */
static int ended_by(pid_t pid)
{
	int status;
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WTERMSIG(status);
}

static void signals_the_group(void **state)
{
	(void)state;
	struct group g = group_of(waiting_leader());
	assert_true(g.start > 0);
	assert_true(group_signal(&g, SIGKILL));
	assert_int_equal(ended_by(g.id), SIGKILL);
}

static void spares_a_group_whose_leader_started_at_another_time(void **state)
{
	(void)state;
	struct group g = group_of(waiting_leader());
	g.start--;
	assert_false(group_signal(&g, SIGKILL));
	assert_int_equal(ended_by(g.id), SIGTERM);
}

static void the_start_is_known_by_the_clock(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		struct timespec before;
		clock_gettime(CLOCK_BOOTTIME, &before);
		pid_t leader = waiting_leader();
		struct group g = group_since(leader, &before);
		assert_int_equal(g.id, leader);
		assert_int_equal(g.start, group_of(leader).start);
		assert_true(group_signal_held(&g, SIGKILL));
		assert_int_equal(ended_by(leader), SIGKILL);
	}
}

static void says_when_nothing_is_left(void **state)
{
	(void)state;
	struct group g = group_of(waiting_leader());
	ended_by(g.id);
	assert_false(group_signal(&g, SIGKILL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_the_group),
		cmocka_unit_test(spares_a_group_whose_leader_started_at_another_time),
		cmocka_unit_test(the_start_is_known_by_the_clock),
		cmocka_unit_test(says_when_nothing_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
