/* SPDX-License-Identifier: Apache-2.0
 * spools_crash_test.c: what the spools acknowledged to a process holds after its death, whenever
 * that comes: no result is lost, and none is stored twice.
 */
#include "store/spool_test.h"

#include "worker/spool_results.h"
#include "worker/spools.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define JOBS 12
#define STEPS 40

static const char *const sources[] = {"mail", "rooms/2"};

/* Where each job's end is, and where it will be when the current call returns. */
enum place { GONE, WAITING, ASIDE };
struct override {
	enum place now[2][JOBS], then[2][JOBS];
};

static struct spools *open_spools(void)
{
	struct spools *s;
	struct failure f = {0};
	if (spools_open(folder, 0, &s, &f))
		fail_msg("%s", f.what);
	return s;
}

static void tell(int out, const struct override *t)
{
	if (write(out, t, sizeof *t) != sizeof *t)
		_exit(3);
}

static void append_two(struct spools *s, int out, int k, int job, struct override *t)
{
	struct spool_result two[2];
	char keys[2][16];
	for (int i = 0; i < 2; i++) {
		snprintf(keys[i], sizeof keys[i], "%d", job + i);
		two[i] = (struct spool_result){
			.source = sources[k], .worker = 7, .end = {.key = keys[i], .epoch = 1}};
		t->then[k][job + i] = WAITING;
	}
	tell(out, t);
	if (spools_append_many(s, sources[k], two, 2, NULL, NULL))
		_exit(1);
}

/* Of the two oldest the first is recorded, the second refused. */
static void take_two(struct spools *s, int out, int k, enum spools_list list, struct override *t)
{
	static const char *const refused[] = {NULL, "not yours"};
	struct spools_record two[2];
	struct arena a = ARENA_INIT;
	int n = spools_peek_many(s, sources[k], list, two, 2, &a);
	for (int i = 0; i < n; i++)
		t->then[k][strtol(two[i].result.end.key, NULL, 10)] = i == 0 ? GONE : ASIDE;
	tell(out, t);
	if (n > 0 && spools_take_many(s, sources[k], list, two, n, refused, NULL))
		_exit(2);
	arena_release(&a);
}

static void child_runs(int out)
{
	struct override t = {0};
	struct spools *s = open_spools();
	int next[2] = {0};
	for (int step = 0; step < STEPS; step++) {
		int k = step % 2, turn = step / 2 % 4;
		if (turn < 2 && next[k] < JOBS) {
			append_two(s, out, k, next[k], &t);
			next[k] += 2;
		} else {
			take_two(s, out, k, turn == 3 ? SPOOLS_ASIDE : SPOOLS_WAITING, &t);
		}
		memcpy(t.now, t.then, sizeof t.now);
		tell(out, &t);
	}
	spools_close(s);
	_exit(0);
}

/* How often each job is in a list. */
static void count_list(struct spools *s, int k, enum spools_list list, int *times)
{
	struct spools_record all[2 * JOBS];
	struct arena a = ARENA_INIT;
	int n = spools_peek_many(s, sources[k], list, all, 2 * JOBS, &a);
	for (int i = 0; i < n; i++) {
		assert_true(all[i].whole);
		assert_true(spools_holds(s, sources[k], 7, all[i].result.end.key, 1));
		times[strtol(all[i].result.end.key, NULL, 10)]++;
	}
	arena_release(&a);
}

static void check(const struct override *t)
{
	struct spools *s = open_spools();
	for (int k = 0; k < 2; k++) {
		int waits[JOBS] = {0}, aside[JOBS] = {0};
		count_list(s, k, SPOOLS_WAITING, waits);
		count_list(s, k, SPOOLS_ASIDE, aside);
		for (int job = 0; job < JOBS; job++) {
			enum place at = waits[job] ? WAITING : aside[job] ? ASIDE : GONE;
			assert_true(waits[job] + aside[job] <= 1);
			assert_true(at == t->now[k][job] || at == t->then[k][job]);
		}
	}
	spools_close(s);
}

static void empty_folder(void)
{
	assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
}

/* What a child reported before it died at the nth write or sync; false: it did not die. */
static bool dies(enum fault kind, int nth, struct override *t)
{
	int ends[2], status;
	*t = (struct override){0};
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	plan = (typeof(plan)){.kind = kind, .nth = nth};
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_runs(ends[1]);
	}
	plan.kind = FAULT_NONE;
	close(ends[1]);
	while (read(ends[0], t, sizeof *t) == sizeof *t)
		;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(status == 0 || WIFSIGNALED(status));
	return status != 0;
}

static void death_at_every_write_and_sync_loses_and_repeats_nothing(void **state)
{
	(void)state;
	static const enum fault kinds[] = {FAULT_KILL_BEFORE, FAULT_KILL_HALFWAY, FAULT_KILL_AFTER};
	int deaths = 0;
	for (size_t k = 0; k < 3; k++) {
		struct override t;
		bool died = true;
		for (int nth = 1; died; nth++) {
			died = dies(kinds[k], nth, &t);
			deaths += died;
			check(&t);
			empty_folder();
		}
	}
	assert_true(deaths > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(death_at_every_write_and_sync_loses_and_repeats_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
