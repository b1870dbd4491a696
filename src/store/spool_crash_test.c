/* SPDX-License-Identifier: Apache-2.0
 * spool_crash_test.c: what a spool acknowledged to a process holds after its death, whenever that
 * comes.
 */
#include "store/spool_test.h"

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

static struct spool_record record_of(int64_t i, size_t most, char id[24])
{
	snprintf(id, 24, "%lld", (long long)i);
	size_t n = record_text(i, most);
	return (struct spool_record){.id = id, .database = "base", .bytes = record, .n = n};
}

/* The oldest; false: there is none. */
static bool peek(struct spool *s, struct spool_record *out, struct arena *a)
{
	arena_clear(a);
	return spool_peek(s, "mail", false, out, 1, 1, a) == 1;
}

/* Every other time as one that is opened for a moment. */
static struct spool *opened_as(int64_t times)
{
	struct spool_options o = {.folder = folder, .brief = times % 2 == 1};
	struct spool *s;
	struct failure f = {0};
	if (spool_open(&o, &s, &f) != DEFIB_OK)
		fail_msg("%s", f.what);
	return s;
}

static void child_runs(int out, struct override from, size_t most, int steps)
{
	struct spool *s = opened_as(from.appended);
	struct arena a = ARENA_INIT;
	struct spool_record r;
	char id[24];
	struct override t = from;
	for (int step = 0; steps == 0 || step < steps; step++) {
		if (roll(3) > 0 || !peek(s, &r, &a)) {
			r = record_of(t.appended + 1, most, id);
			if (spool_append(s, "mail", &r, 1, NULL) != DEFIB_OK)
				_exit(1);
			t.appended++;
		} else {
			if (spool_finish(s, "mail", &r, 1, NULL, NULL) != DEFIB_OK)
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
	struct spool *s = opened_as(t.taken);
	struct arena a = ARENA_INIT;
	struct spool_record r;
	struct override now;
	/* One call may have been under way: done, or not. */
	if (peek(s, &r, &a)) {
		now.taken = strtoll(r.bytes, NULL, 10) - 1;
		now.appended = now.taken + spool_count(s, "mail", false);
		assert_in_range(now.taken, t.taken, t.taken + 1);
		assert_in_range(now.appended, t.appended, t.appended + 1);
	} else {
		assert_true(t.appended - t.taken <= 1);
		now.taken = now.appended = t.appended;
	}
	while (spool_count(s, "mail", false) > leave) {
		size_t expected = record_text(now.taken + 1, most);
		assert_true(peek(s, &r, &a));
		assert_false(r.damaged);
		assert_int_equal(r.n, expected);
		assert_memory_equal(r.bytes, record, r.n);
		assert_int_equal(spool_finish(s, "mail", &r, 1, NULL, NULL), DEFIB_OK);
		now.taken++;
	}
	spool_close(s);
	arena_release(&a);
	assert_int_equal(access(path_of("damaged.db"), F_OK), -1);
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

/*
 * Large records, so that copying the log to the file is among what is interrupted. They are written
 * page by page: every eleventh write, others for each kind. spools_crash_test.c has every write of
 * small ones.
 */
static void death_at_writes_and_syncs_loses_and_repeats_nothing(void **state)
{
	(void)state;
	static const enum fault kinds[] = {FAULT_KILL_BEFORE, FAULT_KILL_HALFWAY, FAULT_KILL_AFTER};
	struct override t = {0};
	for (size_t k = 0; k < 3; k++) {
		int status = -1;
		for (int nth = 1 + (int)k; status != 0; nth += 11) {
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
		TEST(death_at_writes_and_syncs_loses_and_repeats_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
