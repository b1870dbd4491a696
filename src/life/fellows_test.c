/* SPDX-License-Identifier: Apache-2.0 */
#include "life/fellows.h"

#include "base/mem.h"
#include "base/test.h"
#include "life/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 1000

/* A process that waits to be killed, and dies with this one. */
static pid_t sleeper(void)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct incarnation of(pid_t pid)
{
	struct incarnation i;
	assert_int_equal(incarnation_self(&i, NULL), DEFIB_OK);
	i.pid = pid;
	i.start = process_start(pid);
	assert_true(i.start > 0);
	return i;
}

static bool readable(const struct fellows *x, int timeout_ms)
{
	struct pollfd p = {.fd = fellows_fd(x), .events = POLLIN};
	int n;
	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

static struct fellows *opened(void)
{
	struct fellows *x;
	assert_int_equal(fellows_open(&x, NULL), DEFIB_OK);
	return x;
}

/* Exactly this one is dead, and no other. */
static void assert_dead(struct fellows *x, int64_t expected)
{
	int64_t id = 0;
	bool seen;
	assert_true(readable(x, TEST_HANGS_MS));
	assert_true(fellows_dead(x, &id, &seen));
	assert_int_equal(id, expected);
	assert_false(fellows_dead(x, &id, &seen));
	assert_false(readable(x, 0));
}

static void kill_9_is_seen(void **state)
{
	(void)state;
	struct fellows *x = opened();
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	fellows_set(x, (int64_t[]){7}, &who, 1);
	assert_int_equal(fellows_count(x), 1);
	assert_false(readable(x, 0));
	kill(pid, SIGKILL); /* not reaped: a zombie is dead */
	assert_dead(x, 7);
	assert_int_equal(fellows_count(x), 0);
	end(pid);
	fellows_close(x);
}

static void an_exit_is_seen(void **state)
{
	(void)state;
	int gate[2];
	assert_int_equal(pipe(gate), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char c;
		close(gate[1]);
		_exit(read(gate[0], &c, 1) == 0 ? 3 : 4);
	}
	close(gate[0]);
	struct fellows *x = opened();
	struct incarnation who = of(pid);
	fellows_set(x, (int64_t[]){1}, &who, 1);
	assert_false(readable(x, 0));
	close(gate[1]);
	assert_dead(x, 1);
	end(pid);
	fellows_close(x);
}

static void a_reused_pid_is_a_death(void **state)
{
	(void)state;
	struct fellows *x = opened();
	struct incarnation who = of(getpid());
	who.start--;
	fellows_set(x, (int64_t[]){9}, &who, 1);
	assert_int_equal(fellows_count(x), 0);
	assert_dead(x, 9);
	fellows_close(x);
}

static void one_that_is_gone_already_makes_the_descriptor_readable(void **state)
{
	(void)state;
	struct fellows *x = opened();
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	end(pid);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	assert_dead(x, 5);
	fellows_close(x);
}

static void a_death_is_reported_once_while_it_stays_in_the_set(void **state)
{
	(void)state;
	struct fellows *x = opened();
	pid_t pid = sleeper();
	struct incarnation who = of(pid);
	end(pid);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	assert_dead(x, 5);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	assert_false(readable(x, 0));
	fellows_set(x, NULL, NULL, 0);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	assert_dead(x, 5);
	fellows_close(x);
}

static void a_new_incarnation_under_an_old_id_is_watched(void **state)
{
	(void)state;
	struct fellows *x = opened();
	pid_t first = sleeper(), second = sleeper();
	struct incarnation who = of(first);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	end(first);
	assert_dead(x, 5);
	who = of(second);
	fellows_set(x, (int64_t[]){5}, &who, 1);
	assert_int_equal(fellows_count(x), 1);
	assert_false(readable(x, 0));
	end(second);
	assert_dead(x, 5);
	fellows_close(x);
}

static void other_hosts_are_ignored(void **state)
{
	(void)state;
	struct fellows *x = opened();
	struct incarnation who = of(getpid());
	who.pid_ns++;
	who.start--;
	fellows_set(x, (int64_t[]){3}, &who, 1);
	assert_int_equal(fellows_count(x), 0);
	assert_false(readable(x, 0));
	fellows_close(x);
}

static void one_that_left_the_set_is_not_reported(void **state)
{
	(void)state;
	struct fellows *x = opened();
	pid_t leaver = sleeper(), stayer = sleeper();
	struct incarnation who[] = {of(leaver), of(stayer)};
	fellows_set(x, (int64_t[]){1, 2}, who, 2);
	/* A child that runs no other program holds all our descriptors. */
	pid_t holder = sleeper();
	fellows_set(x, (int64_t[]){2}, &who[1], 1);
	end(leaver);
	assert_false(readable(x, 0));
	assert_int_equal(fellows_count(x), 1);
	end(stayer);
	assert_dead(x, 2);
	end(holder);
	fellows_close(x);
}

/* In a child, because limits cannot be raised again. */
static int watch_with_few_descriptors(pid_t pid)
{
	struct rlimit few = {.rlim_cur = 24, .rlim_max = 24};
	struct incarnation who[64];
	int64_t ids[64], id;
	struct fellows *x;
	bool seen;
	for (int i = 0; i < 64; i++) {
		who[i] = of(pid);
		ids[i] = i;
	}
	if (setrlimit(RLIMIT_NOFILE, &few) != 0 || fellows_open(&x, NULL) != DEFIB_OK)
		return 1;
	fellows_set(x, ids, who, 64);
	int spare = dup(0);
	bool ok = fellows_count(x) == 12 && spare >= 0 && !fellows_dead(x, &id, &seen);
	fellows_set(x, ids + 30, who + 30, 5);
	ok = ok && fellows_count(x) == 5;
	fellows_close(x);
	return ok ? 0 : 2;
}

static void few_descriptors_watch_some_and_kill_nobody(void **state)
{
	(void)state;
	int status;
	pid_t pid = sleeper(), child = fork();
	if (child == 0)
		_exit(watch_with_few_descriptors(pid));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	end(pid);
}

/* Some of what it opens needs only for a moment. */
static void without_descriptors_it_opens_as_a_whole_or_not_at_all(void **state)
{
	struct rlimit files, few;
	int more = 0, opened = 0, lowest = dup(0);
	(void)state;
	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	few = files;
	for (; !opened && more < 8; more++) {
		struct fellows *x = NULL;
		struct failure f = {0};
		few.rlim_cur = (rlim_t)(lowest + more);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		defib_err err = fellows_open(&x, &f);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
		assert_true(err == DEFIB_OK || err == DEFIB_IO);
		opened = err == DEFIB_OK;
		assert_int_equal(x != NULL, opened);
		if (x)
			fellows_close(x);
		else
			assert_non_null(strstr(f.what, "Too many open files"));
	}
	assert_true(more > 3); /* also where our own descriptor is the one that is missing */
}

static void a_thousand_fellows_die_at_once(void **state)
{
	(void)state;
	static pid_t pids[MANY];
	static struct incarnation who[MANY];
	static int64_t ids[MANY];
	static bool seen[MANY];
	struct rlimit files;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (int i = 0; i < MANY; i++) {
		pids[i] = sleeper();
		who[i] = of(pids[i]);
		ids[i] = MANY - i; /* in no helpful order */
	}
	struct fellows *x = opened();
	fellows_set(x, ids, who, MANY);
	assert_int_equal(fellows_count(x), MANY);
	assert_false(readable(x, 0));
	for (int i = 0; i < MANY; i++)
		kill(pids[i], SIGKILL);
	for (int dead = 0; dead < MANY; dead++) {
		int64_t id;
		bool watched;
		assert_true(readable(x, TEST_HANGS_MS));
		assert_true(fellows_dead(x, &id, &watched));
		assert_true(id >= 1 && id <= MANY && !seen[id - 1]);
		seen[id - 1] = true;
	}
	assert_false(readable(x, 0));
	assert_int_equal(fellows_count(x), 0);
	fellows_close(x);
	for (int i = 0; i < MANY; i++)
		end(pids[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_9_is_seen),
		cmocka_unit_test(an_exit_is_seen),
		cmocka_unit_test(a_reused_pid_is_a_death),
		cmocka_unit_test(one_that_is_gone_already_makes_the_descriptor_readable),
		cmocka_unit_test(a_death_is_reported_once_while_it_stays_in_the_set),
		cmocka_unit_test(a_new_incarnation_under_an_old_id_is_watched),
		cmocka_unit_test(other_hosts_are_ignored),
		cmocka_unit_test(one_that_left_the_set_is_not_reported),
		cmocka_unit_test(few_descriptors_watch_some_and_kill_nobody),
		cmocka_unit_test(without_descriptors_it_opens_as_a_whole_or_not_at_all),
		cmocka_unit_test(a_thousand_fellows_die_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
