/* SPDX-License-Identifier: Apache-2.0
 * stamp.c: the job of bench/crash. It reports when it runs, to the socket in BENCH_SOCKET: "JOB
 * ATTEMPT WORKER NANOSECONDS". Its first run then sleeps until it is killed with its worker; the
 * next one succeeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec now;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *attempt = getenv("DEFIB_ATTEMPT");
	char line[256];
	clock_gettime(CLOCK_BOOTTIME, &now);
	snprintf(to.sun_path, sizeof to.sun_path, "%s", getenv("BENCH_SOCKET"));
	int n = snprintf(line, sizeof line, "%s %s %s %lld%09ld", getenv("DEFIB_JOB_ID"), attempt,
	                 getenv("DEFIB_WORKER"), (long long)now.tv_sec, now.tv_nsec);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, line, (size_t)n, 0, (struct sockaddr *)&to, sizeof to) != n)
		return 1;
	while (strcmp(attempt, "1") == 0)
		pause();
	return 0;
}
