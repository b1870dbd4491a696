/* SPDX-License-Identifier: Apache-2.0
 * ha_job.c: the program that workers run while their database fails over.
 *
 * It keeps the books outside the database: one line by a single append and an fsync, before
 * anything can go wrong ("start"), when it was told to stop ("stop") and when it is done ("end"):
 *
 *   WHAT N JOB EPOCH TOKEN WORKER MILLISECONDS
 *
 * N and how long it takes come with the payload, {"n": 17, "ms": 300}.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void stop(int number)
{
	told = number;
}

static const char *text(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "-";
}

static void note(const char *what, long n)
{
	char line[512];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int size = snprintf(line, sizeof line, "%s %ld %s %s %s %s %lld\n", what, n,
	                    text("DEFIB_JOB_ID"), text("DEFIB_EPOCH"), text("DEFIB_TOKEN"),
	                    text("HA_WORKER"),
	                    (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	int fd = open(text("HA_BOOK"), O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || write(fd, line, (size_t)size) != size || fsync(fd) != 0)
		abort();
	close(fd);
}

static long number(const char *payload, const char *name)
{
	const char *at = strstr(payload, name);
	if (!at)
		abort();
	return strtol(at + strlen(name), NULL, 10);
}

int main(void)
{
	char payload[256];
	size_t size = fread(payload, 1, sizeof payload - 1, stdin);
	struct sigaction act = {.sa_handler = stop};
	struct timespec until;

	payload[size] = '\0';
	long n = number(payload, "\"n\":"), ms = number(payload, "\"ms\":");
	sigaction(SIGTERM, &act, NULL);
	note("start", n);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!told && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
		;
	note(told ? "stop" : "end", n);
	return told ? 1 : 0;
}
