/* SPDX-License-Identifier: Apache-2.0
 * keeper_test.c: a fake worker starts a keeper and children and is killed. This process reaps
 * orphans, so every process of a group becomes its child: waiting until the group has no more of
 * them is waiting for the condition itself.
 */
#include "worker/keeper.h"

#include "base/test.h"
#include "worker/run_child.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 3

struct fake_worker {
	pid_t pid, keeper, groups[CHILDREN];
};

/* Two that would outlive their shell, seen running when this returns. */
static struct child *start_family(struct keeper *k)
{
	char *argv[] = {"/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo ready >&4; wait", NULL};
	struct child *c;
	struct failure f;
	struct child_options o = {.argv = argv, .keeper = k};
	if (child_start(&o, 0, &c, &f) != DEFIB_OK)
		_exit(1);
	struct pollfd p = {.fd = child_fd(c), .events = POLLIN};
	int64_t wait_ms;
	for (;;) {
		child_step(c, 0, &wait_ms);
		if (child_progress(c))
			return c;
		poll(&p, 1, -1);
	}
}

static _Noreturn void be_worker(int report, bool drop)
{
	struct fake_worker w = {.pid = getpid()};
	struct keeper *k;
	struct failure f;
	if (keeper_start(&k, &f) != DEFIB_OK)
		_exit(1);
	w.keeper = keeper_pid(k);
	for (int i = 0; i < CHILDREN; i++)
		w.groups[i] = child_pid(start_family(k));
	if (drop)
		keeper_drop(k, w.groups[0]);
	if (write(report, &w, sizeof(w)) != sizeof(w))
		_exit(1);
	for (;;)
		pause();
}

static struct fake_worker start_worker(bool drop)
{
	struct fake_worker w;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0)
		be_worker(ends[1], drop);
	close(ends[1]);
	assert_int_equal(read(ends[0], &w, sizeof(w)), sizeof(w));
	assert_int_equal(w.pid, pid);
	close(ends[0]);
	return w;
}

static void kill_worker(const struct fake_worker *w)
{
	kill(w->pid, SIGKILL);
	assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
}

/* Returns when all of it has died; returns how many died by `signal`. */
static int wait_group(pid_t group, int signal)
{
	int status, n = 0;
	while (waitpid(-group, &status, 0) > 0)
		n += WIFSIGNALED(status) && WTERMSIG(status) == signal;
	assert_int_equal(kill(-group, 0), -1);
	assert_int_equal(errno, ESRCH);
	return n;
}

static void assert_keeper_leaves(const struct fake_worker *w)
{
	int status;
	assert_int_equal(waitpid(w->keeper, &status, 0), w->keeper);
	assert_int_equal(status, 0);
}

static void a_killed_worker_leaves_no_process_of_its_groups(void **state)
{
	(void)state;
	struct fake_worker w = start_worker(false);
	kill_worker(&w);
	for (int i = 0; i < CHILDREN; i++)
		wait_group(w.groups[i], SIGKILL);
	assert_keeper_leaves(&w);
}

static void signals_to_everybody_do_not_end_the_keeper(void **state)
{
	(void)state;
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE};
	struct fake_worker w = start_worker(false);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		assert_int_equal(kill(w.keeper, signals[i]), 0);
	kill_worker(&w);
	for (int i = 0; i < CHILDREN; i++)
		wait_group(w.groups[i], SIGKILL);
	assert_keeper_leaves(&w);
}

static void the_keeper_has_a_session_of_its_own(void **state)
{
	(void)state;
	struct fake_worker w = start_worker(false);
	assert_int_equal(getsid(w.keeper), w.keeper);
	kill_worker(&w);
	assert_keeper_leaves(&w);
}

static void a_dropped_group_is_left_alone(void **state)
{
	(void)state;
	struct fake_worker w = start_worker(true);
	kill_worker(&w);
	assert_keeper_leaves(&w);
	/* The shell died by its parent-death signal; its sleepers are there to be ended. */
	kill(-w.groups[0], SIGTERM);
	assert_true(wait_group(w.groups[0], SIGTERM) > 0);
	for (int i = 1; i < CHILDREN; i++)
		wait_group(w.groups[i], SIGKILL);
}

/* ---- in this process */

static struct keeper *start_keeper(void)
{
	struct keeper *k;
	struct failure f;
	assert_int_equal(keeper_start(&k, &f), DEFIB_OK);
	return k;
}

static int descriptors_of(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	int n = 0;
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void the_keeper_holds_no_descriptor_of_the_worker(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	struct keeper *k = start_keeper();
	assert_int_equal(descriptors_of(keeper_pid(k)), 2); /* its socket, and the worker's pidfd */
	keeper_stop(k);
	close(ends[0]);
	close(ends[1]);
}

static void stopping_it_leaves_listed_groups_alone_and_reaps_it(void **state)
{
	(void)state;
	int before = descriptors_of(getpid());
	struct keeper *k = start_keeper();
	pid_t keeper = keeper_pid(k), pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(setpgid(pid, pid), 0);
	assert_true(keeper_list(k, group_of(pid)));
	keeper_stop(k);
	assert_int_equal(waitpid(keeper, NULL, 0), -1);
	kill(pid, SIGTERM);
	assert_int_equal(wait_group(pid, SIGTERM), 1);
	assert_int_equal(descriptors_of(getpid()), before);
}

static void a_keeper_that_stands_still_does_not_hold_up_the_stop(void **state)
{
	(void)state;
	struct keeper *k = start_keeper();
	pid_t keeper = keeper_pid(k);
	kill(keeper, SIGSTOP);
	keeper_stop(k);
	assert_int_equal(waitpid(keeper, NULL, 0), -1);
}

static void a_dead_keeper_does_not_hurt_the_worker(void **state)
{
	(void)state;
	struct keeper *k = start_keeper();
	siginfo_t info;
	kill(keeper_pid(k), SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)keeper_pid(k), &info, WEXITED | WNOWAIT), 0);
	assert_true(keeper_list(k, group_of(getpid())));
	keeper_listed(k, getpid(), true);
	keeper_drop(k, getpid());
	keeper_stop(k);
}

static void no_keeper_can_be_stopped(void **state)
{
	(void)state;
	keeper_stop(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_worker_leaves_no_process_of_its_groups),
		cmocka_unit_test(signals_to_everybody_do_not_end_the_keeper),
		cmocka_unit_test(the_keeper_has_a_session_of_its_own),
		cmocka_unit_test(a_dropped_group_is_left_alone),
		cmocka_unit_test(the_keeper_holds_no_descriptor_of_the_worker),
		cmocka_unit_test(stopping_it_leaves_listed_groups_alone_and_reaps_it),
		cmocka_unit_test(a_keeper_that_stands_still_does_not_hold_up_the_stop),
		cmocka_unit_test(a_dead_keeper_does_not_hurt_the_worker),
		cmocka_unit_test(no_keeper_can_be_stopped),
	};
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
