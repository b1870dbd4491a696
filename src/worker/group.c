/* SPDX-License-Identifier: Apache-2.0
 * group.c: signals to a job's process group, and to no other.
 *
 * The keeper calls this after a fork without exec, and a child that still shares its parent's
 * memory (child_spawn.c), so the start time is read here with nothing but system calls.
 */
#include "worker/group.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_FIELD 22 /* of /proc/PID/stat, see proc(5) */
#define USER_HZ 100UL  /* its unit, whatever the kernel's own tick is */
#define NS 1000000000UL
#define NAME_FIELD 2 /* in parentheses, with anything inside; the last ')' ends it */

/* "/proc/PID/stat", without snprintf, which may allocate. */
static void stat_path(pid_t pid, char *out, size_t size)
{
	static const char before[] = "/proc/", after[] = "/stat";
	char digits[16];
	size_t n = 0, at = sizeof(before) - 1;
	for (pid_t rest = pid; rest; rest /= 10)
		digits[n++] = (char)('0' + rest % 10);
	assert(sizeof(before) + n + sizeof(after) <= size);
	memcpy(out, before, at);
	while (n)
		out[at++] = digits[--n];
	memcpy(out + at, after, sizeof(after));
}

static uint64_t field_start(const char *stat, size_t len)
{
	const char *at = memrchr(stat, ')', len);
	for (int field = NAME_FIELD; at && field < START_FIELD; field++)
		at = memchr(at + 1, ' ', len - (size_t)(at + 1 - stat));
	uint64_t start = 0;
	for (at = at ? at + 1 : stat + len; at < stat + len && *at >= '0' && *at <= '9'; at++)
		start = start * 10 + (uint64_t)(*at - '0');
	return start;
}

/* Clock ticks after boot at which it started; 0: no such process, or not to be read. */
static uint64_t leader_start(pid_t pid)
{
	char path[48], stat[1024];
	stat_path(pid, path, sizeof(path));
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = syscall(SYS_read, fd, stat, sizeof(stat));
	syscall(SYS_close, fd);
	return n > 0 ? field_start(stat, (size_t)n) : 0;
}

struct group group_of(pid_t leader)
{
	assert(leader > 1);
	return (struct group){.id = leader, .start = leader_start(leader)};
}

/* As fs/proc/array.c makes it of the nanoseconds. */
static uint64_t ticks(const struct timespec *t)
{
	uint64_t ns = (uint64_t)t->tv_sec * NS + (uint64_t)t->tv_nsec;
	return ns / (NS / USER_HZ);
}

struct group group_since(pid_t leader, const struct timespec *before)
{
	struct timespec now;
	assert(leader > 1);
	syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
	uint64_t start = ticks(&now);
	return start == ticks(before) ? (struct group){leader, start} : group_of(leader);
}

bool group_signal_held(const struct group *g, int signal)
{
	assert(g->id > 1);
	return kill(-g->id, signal) == 0;
}

bool group_signal(const struct group *g, int signal)
{
	/* 0 and 1 would mean our own group, and every process there is. */
	assert(g->id > 1);
	uint64_t start = leader_start(g->id);
	bool recycled = start && g->start && start != g->start;
	return !recycled && kill(-g->id, signal) == 0;
}
