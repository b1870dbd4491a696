/* SPDX-License-Identifier: Apache-2.0
 * process_test.c: what counts as the end of a process, and what does not. Namespaces are entered in
 * a child; where they may not be made, those tests are skipped.
 */
#include "life/process.h"

#include "base/test.h"
#include "life/fellows.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define NOBODY 65534
#define CANNOT 77 /* exit status of a child: no such namespace here */
/* In a child, where an assertion of cmocka would go on with the next test. */
#define MUST(condition)                                                                            \
	do                                                                                             \
		if (!(condition))                                                                          \
			return print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition), 1;                  \
	while (0)

/* A process that waits to be killed, at the head of a group of its own; it dies with this one. */
static pid_t sleeper(void)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_int_equal(setpgid(pid, pid), 0);
	return pid;
}

static void reap(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Killed, and not reaped. */
static void make_zombie(pid_t pid)
{
	siginfo_t info;
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static struct incarnation self(void)
{
	struct incarnation i;
	assert_int_equal(incarnation_self(&i, NULL), DEFIB_OK);
	return i;
}

static struct incarnation of(pid_t pid)
{
	struct incarnation i = self();
	i.pid = pid;
	i.start = process_start(pid);
	assert_true(i.start > 0);
	return i;
}

static enum process_life life_of(const struct incarnation *who)
{
	struct incarnation here = self();
	return process_life(who, &here, NULL);
}

static enum process_life group_life_of(const struct incarnation *who)
{
	struct incarnation here = self();
	return process_group_life(who, &here);
}

/* ---- a process ---- */

static void start_time_is_read_behind_a_hostile_command_name(void **state)
{
	(void)state;
	char old[17];
	uint64_t before = process_start(getpid());
	assert_true(before > 0);
	prctl(PR_GET_NAME, old);
	prctl(PR_SET_NAME, ") R 1 (2 3)");
	assert_true(process_start(getpid()) == before);
	prctl(PR_SET_NAME, old);
}

static void a_process_is_gone_once_it_has_ended(void **state)
{
	(void)state;
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	assert_int_equal(life_of(&who), PROCESS_LIVES);
	make_zombie(pid);
	assert_int_equal(life_of(&who), PROCESS_GONE);
	reap(pid);
	assert_int_equal(life_of(&who), PROCESS_GONE);
	assert_true(process_start(pid) == 0);
}

static void another_start_time_is_another_process(void **state)
{
	(void)state;
	struct incarnation who = self();
	who.start--;
	assert_int_equal(life_of(&who), PROCESS_GONE);
}

static void a_start_time_that_was_never_known_proves_nothing(void **state)
{
	(void)state;
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	who.start = 0;
	assert_int_equal(life_of(&who), PROCESS_UNKNOWN);
	reap(pid);
	assert_int_equal(life_of(&who), PROCESS_GONE);
}

static void of_another_host_nothing_is_known(void **state)
{
	(void)state;
	struct incarnation who = self();
	who.pid_ns++;
	who.start--;
	assert_int_equal(life_of(&who), PROCESS_UNKNOWN);
	assert_int_equal(group_life_of(&who), PROCESS_UNKNOWN);
}

/* ---- what /proc does not show, and what another clock shows ---- */

/* The exit status of `inside` in a child; without privileges it gets a user namespace of its own.
 */
static int in_a_child(int (*inside)(const void *), const void *ctx, int namespaces)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		if (unshare(namespaces) != 0 && unshare(CLONE_NEWUSER | namespaces) != 0)
			_exit(CANNOT);
		if ((namespaces & CLONE_NEWNS) && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
			_exit(CANNOT);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user reverts it */
		_exit(inside(ctx));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void passes_or_cannot(int status)
{
	if (status == CANNOT)
		skip();
	assert_int_equal(status, 0);
}

/* Nothing of it can be read, but it is there, and its end is seen. */
static int judge_unreadable(const void *ctx)
{
	const struct incarnation *who = ctx;
	struct incarnation here = self();
	struct fellows *fellows;
	int64_t id = 0;
	bool seen;
	char path[32];
	int fd;
	snprintf(path, sizeof path, "/proc/%d", who->pid);
	if (mount("none", path, "tmpfs", 0, NULL) != 0)
		return CANNOT;
	MUST(process_start(who->pid) == 0);
	MUST(process_life(who, &here, &fd) == PROCESS_UNKNOWN && fd >= 0);
	MUST(process_group_life(who, &here) == PROCESS_UNKNOWN);
	MUST(fellows_open(&fellows, NULL) == DEFIB_OK);
	fellows_set(fellows, (int64_t[]){7}, who, 1);
	MUST(!fellows_dead(fellows, &id, &seen) && fellows_count(fellows) == 1);
	kill(who->pid, SIGKILL);
	MUST(poll(&(struct pollfd){fd, POLLIN, 0}, 1, TEST_HANGS_MS) == 1);
	MUST(fellows_dead(fellows, &id, &seen) && id == 7);
	MUST(process_life(who, &here, NULL) == PROCESS_GONE);
	fellows_close(fellows);
	return 0;
}

static void a_live_process_that_cannot_be_read_is_unknown_until_it_ends(void **state)
{
	(void)state;
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	int status = in_a_child(judge_unreadable, &who, CLONE_NEWNS);
	reap(pid);
	passes_or_cannot(status);
}

/* Without all of it, another process could be taken for this one. */
static int know_ourselves_without(const void *hidden)
{
	struct incarnation who;
	struct failure f = {0};
	if (mount("none", hidden, "tmpfs", 0, NULL) != 0)
		return CANNOT;
	MUST(incarnation_self(&who, &f) == DEFIB_IO && f.what[0]);
	return 0;
}

static void an_incarnation_that_cannot_be_read_in_full_is_an_error(void **state)
{
	static const char *const hidden[] = {"/proc/sys/kernel/random", "/proc/self/ns", "/proc/self"};
	(void)state;
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		passes_or_cannot(in_a_child(know_ourselves_without, hidden[i], CLONE_NEWNS));
}

/* As `nobody`, where /proc lists only processes of one's own. */
static int judge_hidden_group(const void *ctx)
{
	const struct incarnation *leader = ctx;
	if (mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || setgroups(0, NULL) != 0 ||
	    setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return CANNOT;
	MUST(group_life_of(leader) == PROCESS_UNKNOWN);
	return 0;
}

static void a_group_whose_members_are_hidden_is_unknown(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	pid_t leader = sleeper(), member = sleeper();
	struct incarnation who = of(leader);
	assert_int_equal(setpgid(member, leader), 0);
	reap(leader);
	assert_int_equal(group_life_of(&who), PROCESS_LIVES);
	int status = in_a_child(judge_hidden_group, &who, CLONE_NEWNS);
	reap(member);
	assert_int_equal(group_life_of(&who), PROCESS_GONE);
	passes_or_cannot(status);
}

static int stay_in_a_later_time(const void *ctx)
{
	const int *said = ctx;
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	static const char offset[] = "boottime 1000000 0\n";
	if (fd < 0 || write(fd, offset, sizeof offset - 1) != (ssize_t)sizeof offset - 1)
		return CANNOT;
	close(fd);
	/* The offset is for children. */
	pid_t pid = fork();
	if (pid == 0) {
		struct incarnation here = self();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(write(*said, &here, sizeof here) == sizeof here && pause());
	}
	int status;
	(void)waitpid(pid, &status, 0);
	return 0;
}

/* What two workers of one host think of each other. */
static void start_times_of_another_time_namespace_prove_nothing(void **state)
{
	(void)state;
	struct incarnation here = self(), later;
	int said[2];
	assert_int_equal(pipe(said), 0);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(in_a_child(stay_in_a_later_time, &said[1], CLONE_NEWTIME));
	}
	close(said[1]);
	if (read(said[0], &later, sizeof later) != sizeof later) {
		reap(child);
		skip();
	}
	close(said[0]);
	assert_true(incarnation_same_host(&here, &later));
	assert_true(process_start(later.pid) != later.start);
	assert_int_equal(process_life(&later, &here, NULL), PROCESS_UNKNOWN);
	kill(later.pid, SIGKILL);
	EVENTUALLY(process_life(&later, &here, NULL) == PROCESS_GONE);
	reap(child);
}

/* ---- a group ---- */

static void a_group_lives_until_its_last_process_ends(void **state)
{
	(void)state;
	pid_t leader = sleeper(), member = sleeper();
	struct incarnation who = of(leader);
	assert_int_equal(setpgid(member, leader), 0);
	make_zombie(leader);
	assert_int_equal(life_of(&who), PROCESS_GONE);
	assert_int_equal(group_life_of(&who), PROCESS_LIVES);
	/* It has ended but is not reaped: it does not count as alive. */
	make_zombie(member);
	assert_int_equal(group_life_of(&who), PROCESS_GONE);
	reap(leader);
	reap(member);
	assert_int_equal(group_life_of(&who), PROCESS_GONE);
}

static void a_group_whose_number_was_reused_is_gone(void **state)
{
	(void)state;
	pid_t leader = sleeper();
	struct incarnation who = of(leader);
	who.start--;
	assert_int_equal(group_life_of(&who), PROCESS_GONE);
	reap(leader);
}

static void *wait_forever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void a_member_whose_first_thread_has_ended_lives(void **state)
{
	(void)state;
	pid_t leader = sleeper(), member = fork();
	if (member == 0) {
		pthread_t other;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&other, NULL, wait_forever, NULL) == 0)
			pthread_exit(NULL);
		_exit(1);
	}
	struct incarnation who = of(leader);
	assert_int_equal(setpgid(member, leader), 0);
	reap(leader);
	char path[32], stat[256];
	snprintf(path, sizeof path, "/proc/%d/stat", member);
	for (bool ended = false; !ended;) {
		FILE *file = fopen(path, "re");
		assert_non_null(file);
		stat[fread(stat, 1, sizeof stat - 1, file)] = '\0';
		fclose(file);
		ended = strstr(stat, ") Z ");
	}
	assert_int_equal(group_life_of(&who), PROCESS_LIVES);
	reap(member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start_time_is_read_behind_a_hostile_command_name),
		cmocka_unit_test(a_process_is_gone_once_it_has_ended),
		cmocka_unit_test(another_start_time_is_another_process),
		cmocka_unit_test(a_start_time_that_was_never_known_proves_nothing),
		cmocka_unit_test(of_another_host_nothing_is_known),
		cmocka_unit_test(a_live_process_that_cannot_be_read_is_unknown_until_it_ends),
		cmocka_unit_test(an_incarnation_that_cannot_be_read_in_full_is_an_error),
		cmocka_unit_test(a_group_whose_members_are_hidden_is_unknown),
		cmocka_unit_test(start_times_of_another_time_namespace_prove_nothing),
		cmocka_unit_test(a_group_lives_until_its_last_process_ends),
		cmocka_unit_test(a_group_whose_number_was_reused_is_gone),
		cmocka_unit_test(a_member_whose_first_thread_has_ended_lives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
