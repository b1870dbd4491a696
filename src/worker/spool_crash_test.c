/* SPDX-License-Identifier: Apache-2.0
 * spool_crash_test.c: what a spool acknowledged to a process holds after its death, whenever that
 * comes.
 */
#include "worker/spool_test.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static uint64_t seed = 88172645463325252u;
static int64_t roll(int64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)below);
}

/*
 * A child appends records 1, 2, 3… and takes some, reports each call that returned, and is killed.
 * What it reported must hold afterwards.
 */
struct override {
	int64_t appended, taken; /* highest record */
};
static char record[400000];

/* The text of record i: its number, and as many more bytes as the number says. */
static size_t record_text(int64_t i, size_t most)
{
	int n = snprintf(record, sizeof record, "%lld:", (long long)i);
	size_t more = (size_t)(i * 7919) % most;
	memset(record + n, 'a' + (int)(i % 26), more);
	return (size_t)n + more;
}

static void child_runs(int out, struct override from, size_t most, int steps)
{
	struct spool *s = opened();
	const char *bytes;
	size_t n;
	struct override t = from;
	for (int step = 0; steps == 0 || step < steps; step++) {
		if (roll(3) > 0 || !spool_peek(s, &bytes, &n)) {
			n = record_text(t.appended + 1, most);
			if (spool_append(s, record, n, NULL) != DEFIB_OK)
				_exit(1);
			t.appended++;
		} else {
			if (spool_take(s, NULL) != DEFIB_OK)
				_exit(2);
			t.taken++;
		}
		if (write(out, &t, sizeof t) != sizeof t)
			_exit(3);
	}
	_exit(0);
}

/* Check the spool against what was reported, take some, and return the new state. */
static struct override check_told(struct override t, size_t most, int64_t leave)
{
	const char *bytes;
	size_t n;
	struct spool *s = opened();
	struct override now = {.taken = t.taken, .appended = t.taken + spool_count(s)};
	/* One call may have been under way: done, or not. */
	if (spool_peek(s, &bytes, &n)) {
		now.taken = strtoll(bytes, NULL, 10) - 1;
		now.appended = now.taken + spool_count(s);
		assert_in_range(now.taken, t.taken, t.taken + 1);
		assert_in_range(now.appended, t.appended, t.appended + 1);
	} else {
		assert_true(t.appended - t.taken <= 1);
		now.taken = now.appended = t.appended;
	}
	while (spool_count(s) > leave) {
		size_t expected = record_text(now.taken + 1, most);
		assert_true(spool_peek(s, &bytes, &n));
		assert_int_equal(n, expected);
		assert_memory_equal(bytes, record, n);
		assert_int_equal(spool_take(s, NULL), DEFIB_OK);
		now.taken++;
	}
	spool_close(s);
	assert_int_equal(size_of("spool.bad"), -1);
	return now;
}

static pid_t start_child(int *in, struct override from, size_t most, int steps)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_runs(ends[1], from, most, steps);
	}
	close(ends[1]);
	*in = ends[0];
	return pid;
}

static void kill_9_at_random_moments_loses_and_repeats_nothing(void **state)
{
	(void)state;
	struct override t = {0};
	for (int round = 0; round < 80; round++) {
		int in, status;
		roll(2); /* the child's rolls go on from here, so move on */
		pid_t pid = start_child(&in, t, 3000, 0);
		for (int64_t acks = roll(12); acks >= 0; acks--)
			assert_int_equal(read(in, &t, sizeof t), sizeof t);
		for (volatile int64_t spin = roll(200000); spin > 0; spin--) {
		}
		kill(pid, SIGKILL);
		while (read(in, &t, sizeof t) == sizeof t) {
		}
		close(in);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(WTERMSIG(status), SIGKILL);
		t = check_told(t, 3000, roll(20));
	}
	assert_true(t.taken > 80);
}

/* Large records, so that emptying and rewriting are among what is interrupted. */
static void death_at_every_write_and_sync_loses_and_repeats_nothing(void **state)
{
	(void)state;
	static const enum fault kinds[] = {FAULT_KILL_BEFORE, FAULT_KILL_HALFWAY, FAULT_KILL_AFTER};
	struct override t = {0};
	for (size_t k = 0; k < 3; k++) {
		int status = -1;
		for (int nth = 1; status != 0; nth++) {
			int in;
			plan = (typeof(plan)){.kind = kinds[k], .nth = nth};
			seed = 4711;
			pid_t pid = start_child(&in, t, sizeof record - 32, 24);
			plan.kind = FAULT_NONE;
			while (read(in, &t, sizeof t) == sizeof t) {
			}
			close(in);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(status == 0 || WIFSIGNALED(status));
			t = check_told(t, sizeof record - 32, nth % 3);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kill_9_at_random_moments_loses_and_repeats_nothing),
		TEST(death_at_every_write_and_sync_loses_and_repeats_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
