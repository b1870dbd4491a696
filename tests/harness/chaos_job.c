/* SPDX-License-Identifier: Apache-2.0
 * chaos_job.c: the program that workers run in the chaos tests.
 *
 * Its side effect is one line in a file, written by a single append before
 * anything can go wrong: "start JOB EPOCH PID - US", and "end JOB EPOCH PID FATE US"
 * when it ends by its own will; US is when, in microseconds since 1970.
 * Whatever happens to databases and workers, the file knows which epochs ran
 * and how often.
 *
 * How it ends is drawn from (job, epoch, seed), so a seed repeats a run.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *text(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "0";
}

static uint64_t mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
	return x ^ (x >> 31);
}

static void note(const char *what, const char *fate)
{
	char line[160];
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int fd = open(text("CHAOS_EFFECTS"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	int n = snprintf(line, sizeof line, "%s %s %s %d %s %lld\n", what, text("DEFIB_JOB_ID"),
	                 text("DEFIB_EPOCH"), (int)getpid(), fate,
	                 (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		abort();
	close(fd);
}

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}

static void answer(void)
{
	char line[64];
	int n = snprintf(line, sizeof line, "{\"epoch\": %s}\n", text("DEFIB_EPOCH"));
	if (write(3, line, (size_t)n) != n)
		abort();
}

static int end_as(const char *fate, int code)
{
	note("end", fate);
	if (strcmp(fate, "segv") == 0)
		raise(SIGSEGV);
	if (strcmp(fate, "kill") == 0)
		raise(SIGKILL);
	return code;
}

int main(void)
{
	uint64_t job = strtoull(text("DEFIB_JOB_ID"), NULL, 10);
	uint64_t epoch = strtoull(text("DEFIB_EPOCH"), NULL, 10);
	uint64_t seed = strtoull(text("CHAOS_SEED"), NULL, 10);
	uint64_t drawn = mixed(job * 1000003 + epoch * 10007 + seed * 97);
	int fate = (int)(drawn % 100);
	const char *kind = text("DEFIB_KIND");

	note("start", "-");
	if (strcmp(kind, "slow") == 0)
		pause_ms(20000); /* its time limit comes first */
	pause_ms(10 + (long)(drawn / 100 % 300)); /* long enough to be in hand when a worker dies */
	if (strcmp(kind, "doomed") == 0)
		return end_as("fail", 1);
	/* Who failed twice succeeds: backoffs grow, and the test has to end. */
	if (strtol(text("DEFIB_ATTEMPT"), NULL, 10) <= 2) {
		if (fate < 4)
			return end_as("fail", 1);
		if (fate < 6)
			return end_as("retry", 75);
		if (fate < 7)
			return end_as("permanent", 65);
		if (fate < 9)
			return end_as("segv", 1);
		if (fate < 11)
			return end_as("kill", 1);
	}
	if (fate < 30)
		return end_as("done", 0);
	answer();
	return end_as("done_result", 0);
}
