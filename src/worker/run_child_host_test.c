/* SPDX-License-Identifier: Apache-2.0
 * run_child_host_test.c: a lack of resources on the host is distinguished from a problem with a
 * program. Each case runs in a process of its own, whose limits it lowers.
 */
#include "worker/run_child.h"

#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool watches_nothing_more; /* as a kernel without memory */

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (watches_nothing_more && op == EPOLL_CTL_ADD) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

static defib_err start(const char *program)
{
	char *argv[] = {(char *)program, NULL};
	struct child *child;
	defib_err err = child_start(&(struct child_options){.argv = argv}, 0, &child, NULL);
	if (!err)
		child_free(child);
	return err;
}

static void limit(int what, rlim_t most)
{
	struct rlimit r = {most, most};
	if (setrlimit((__rlimit_resource_t)what, &r) != 0)
		_exit(99);
}

/* The result of a case, from a process of its own. */
static int apart(defib_err (*run)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit((int)run());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * Every number of descriptors that is too few, up to the first that is enough. What a failed start
 * had opened is closed, and nothing else: a number that was never set would be standard input's.
 */
static defib_err with_few_descriptors(void)
{
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(next, STDIN_FILENO) < 0)
		_exit(99);
	defib_err err = DEFIB_IO;
	struct rlimit r = {0, 64};
	for (rlim_t most = (rlim_t)next; err == DEFIB_IO && most < 64; most++) {
		r.rlim_cur = most;
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			_exit(99);
		err = start("/bin/true");
		if (most == (rlim_t)next && err != DEFIB_IO)
			_exit(98);
		if (fcntl(STDIN_FILENO, F_GETFD) < 0)
			_exit(97);
	}
	return err;
}

static defib_err with_no_process(void)
{
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) /* root is not limited */
		_exit(99);
	limit(RLIMIT_NPROC, 0);
	return start("/bin/true");
}

static defib_err with_no_program(void)
{
	return start("/nonexistent/program");
}

static defib_err with_all(void)
{
	return start("/bin/true");
}

static void too_few_descriptors_are_the_host_s_lack(void **state)
{
	(void)state;
	assert_int_equal(apart(with_few_descriptors), DEFIB_OK);
}

static void no_process_left_is_the_host_s_lack(void **state)
{
	(void)state;
	assert_int_equal(apart(with_no_process), DEFIB_IO);
}

static void a_program_that_is_not_there_is_not(void **state)
{
	(void)state;
	assert_int_equal(apart(with_no_program), DEFIB_CONFIG);
	assert_int_equal(apart(with_all), DEFIB_OK);
}

static void a_child_whose_output_cannot_be_watched_is_looked_at_often(void **state)
{
	static const int64_t timeouts_ms[] = {0, 5000};
	(void)state;
	for (int i = 0; i < 2; i++) {
		char *argv[] = {"/bin/sleep", "3600", NULL};
		struct child_options o = {.argv = argv, .timeout_ms = timeouts_ms[i]};
		struct child *child;
		int64_t wait_ms;
		assert_int_equal(child_start(&o, 0, &child, NULL), DEFIB_OK);
		watches_nothing_more = true;
		assert_int_equal(child_step(child, 0, &wait_ms), CHILD_RUNNING);
		assert_in_range(wait_ms, 1, 1000);
		watches_nothing_more = false;
		assert_int_equal(child_step(child, 0, &wait_ms), CHILD_RUNNING);
		assert_int_equal(wait_ms, timeouts_ms[i] ? timeouts_ms[i] : -1);
		child_free(child);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_few_descriptors_are_the_host_s_lack),
		cmocka_unit_test(no_process_left_is_the_host_s_lack),
		cmocka_unit_test(a_program_that_is_not_there_is_not),
		cmocka_unit_test(a_child_whose_output_cannot_be_watched_is_looked_at_often),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
