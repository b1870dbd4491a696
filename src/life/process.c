/* SPDX-License-Identifier: Apache-2.0 */
#include "life/process.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_FIELD 22 /* of /proc/PID/stat, see proc(5) */
#define NAME_FIELD 2   /* in parentheses, with any content; the last ')' ends it */

/* ---- start times ---- */

/* The beginning of a file, as text; 0: it cannot be read. */
static size_t read_beginning(const char *path, char *out, size_t size)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = syscall(SYS_read, fd, out, size - 1);
	syscall(SYS_close, fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/*
 * Whether /proc shows the pids of our own PID namespace. One of an outer namespace lists two
 * numbers for us, one of a foreign namespace does not know us.
 */
static bool proc_is_ours(void)
{
	static const char key[] = "\nNSpid:\t";
	char status[4096];
	if (!read_beginning("/proc/self/status", status, sizeof status))
		return false;
	const char *at = strstr(status, key);
	if (!at)
		return false;
	for (at += sizeof key - 1; *at >= '0' && *at <= '9'; at++) {
	}
	return *at == '\n';
}

/* "/proc/PID/stat", without snprintf, which may allocate. */
static void stat_path(pid_t pid, char *out, size_t size)
{
	static const char before[] = "/proc/", after[] = "/stat";
	char digits[16];
	size_t n = 0, at = sizeof before - 1;
	for (pid_t rest = pid; rest; rest /= 10)
		digits[n++] = (char)('0' + rest % 10);
	assert(sizeof before + n + sizeof after <= size);
	memcpy(out, before, at);
	while (n)
		out[at++] = digits[--n];
	memcpy(out + at, after, sizeof after);
}

uint64_t process_start(pid_t pid)
{
	char path[48] = "/proc/self/stat", stat[1024];
	bool self = pid == getpid();
	assert(pid > 0);
	if (!self)
		stat_path(pid, path, sizeof path);
	if (!read_beginning(path, stat, sizeof stat) || (!self && !proc_is_ours()))
		return 0;
	const char *at = strrchr(stat, ')');
	for (int field = NAME_FIELD; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	uint64_t start = 0;
	for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
		start = start * 10 + (uint64_t)(*at - '0');
	return start;
}

/* ---- a process ---- */

/* The process that has the pid now: PROCESS_GONE if it is another one. */
static enum process_life by_start(const struct incarnation *who, const struct incarnation *self)
{
	uint64_t start = who->start && who->time_ns == self->time_ns ? process_start(who->pid) : 0;
	if (start == 0)
		return PROCESS_UNKNOWN;
	return start == who->start ? PROCESS_LIVES : PROCESS_GONE;
}

static bool has_exited(int pidfd)
{
	struct pollfd end = {pidfd, POLLIN, 0};
	return poll(&end, 1, 0) == 1 && (end.revents & POLLIN);
}

static bool no_such(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

enum process_life process_life(const struct incarnation *who, const struct incarnation *self,
                               int *pidfd)
{
	if (pidfd)
		*pidfd = -1;
	if (!incarnation_same_host(who, self) || who->pid <= 0)
		return PROCESS_UNKNOWN;
	int fd = pidfd_open(who->pid, 0);
	if (fd < 0 && no_such(who->pid))
		return PROCESS_GONE;
	/*
	 * The start time is read after the pidfd was opened: if it matches then, the descriptor belongs
	 * to that process, whatever happens to the pid later.
	 */
	enum process_life life = by_start(who, self);
	if (fd >= 0 && has_exited(fd))
		life = PROCESS_GONE;
	if (fd >= 0 && pidfd && life != PROCESS_GONE)
		*pidfd = fd;
	else if (fd >= 0)
		close(fd);
	return life;
}

/* ---- a process group ---- */

/*
 * A process that ended and was not reaped is no member. It has ended only with its last thread,
 * which the state in /proc does not say: that is the state of its first.
 */
static bool is_living_member(pid_t pid, pid_t group)
{
	if (getpgid(pid) != group)
		return false;
	int fd = pidfd_open(pid, 0);
	bool exited = fd < 0 ? no_such(pid) : has_exited(fd);
	if (fd >= 0)
		close(fd);
	return !exited;
}

/* Whether the mount of /proc leaves processes of other users out of its list. */
static bool hides(const char *mount)
{
	static const char *const lists[] = {"off", "noaccess", "0", "1"};
	const char *how = strstr(mount, "hidepid=");
	if (!how)
		return false;
	how += strlen("hidepid=");
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		if (strncmp(how, lists[i], strlen(lists[i])) == 0)
			return false;
	return true;
}

static bool proc_lists_all(void)
{
	char line[4096], point[64];
	bool all = false;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	/* The last one is on top. */
	while (mounts && fgets(line, sizeof line, mounts))
		if (sscanf(line, "%*s %*s %*s %*s %63s", point) == 1 && strcmp(point, "/proc") == 0)
			all = !hides(line);
	if (mounts)
		fclose(mounts);
	return all && proc_is_ours();
}

static bool lists_living_member(pid_t group, bool *listed)
{
	bool lives = false;
	DIR *all = opendir("/proc");
	*listed = all != NULL;
	for (const struct dirent *d; all && !lives && (d = readdir(all));)
		lives = isdigit((unsigned char)d->d_name[0]) &&
		        is_living_member((pid_t)strtol(d->d_name, NULL, 10), group);
	if (all)
		closedir(all);
	return lives;
}

enum process_life process_group_life(const struct incarnation *leader,
                                     const struct incarnation *self)
{
	bool listed;
	enum process_life life = process_life(leader, self, NULL);
	if (life != PROCESS_GONE)
		return life;
	/* No new process gets the number of a group that still has a member. */
	if (by_start(leader, self) == PROCESS_GONE)
		return PROCESS_GONE;
	/* Cheap, and nearly always sufficient; but it also counts zombies. */
	if (no_such(-leader->pid))
		return PROCESS_GONE;
	if (lists_living_member(leader->pid, &listed))
		return PROCESS_LIVES;
	return listed && proc_lists_all() ? PROCESS_GONE : PROCESS_UNKNOWN;
}
