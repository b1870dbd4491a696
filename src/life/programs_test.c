/* SPDX-License-Identifier: Apache-2.0 */
/* programs_test.c: names of sessions, and whether a process group has members left. */
#include "life/programs.h"

#include "base/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONCE "0123456789abcdef"

static void assert_name(const char *name, const char *want)
{
	char out[PROGRAM_NAME_SIZE];
	program_application(name, NONCE, out);
	assert_string_equal(out, want);
}

static void a_name_keeps_what_a_session_can_be_called(void **state)
{
	(void)state;
	assert_name("node", "defib-run:node:" NONCE);
	assert_name("my worker/2.sh", "defib-run:myworker2.sh:" NONCE);
	assert_name("ü%$:", "defib-run:program:" NONCE);
}

static void the_nonce_is_never_cut_off(void **state)
{
	(void)state;
	assert_name("a-very-long-name-of-a-program-that-goes-on-and-on-and-on",
	            "defib-run:a-very-long-name-of-a-program-th:" NONCE);
}

/* A child at the head of a group of its own, which waits to be killed. */
static pid_t group_of_one(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(setpgid(pid, pid), 0);
	return pid;
}

static void a_group_lives_until_its_last_process_ends(void **state)
{
	(void)state;
	siginfo_t info;
	pid_t pid = group_of_one();
	assert_true(group_lives(pid));
	kill(pid, SIGKILL);
	/* It has ended but is not reaped: it does not count as alive. */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(group_lives(pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(group_lives(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_keeps_what_a_session_can_be_called),
		cmocka_unit_test(the_nonce_is_never_cut_off),
		cmocka_unit_test(a_group_lives_until_its_last_process_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
