/* SPDX-License-Identifier: Apache-2.0
 * spool_test.h: a spool in its own directory for each test, on a disk that fails on request.
 * Included once per test program: it replaces pwrite and fdatasync.
 */
#ifndef WORKER_SPOOL_TEST_H
#define WORKER_SPOOL_TEST_H

#include "worker/spool.h"

#include "base/test.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The two calls by which bytes reach the disk, replaced: the nth of them may
 * fail, or be the last thing this process does, half done.
 */
enum fault { FAULT_NONE, FAULT_ERRNO, FAULT_KILL_BEFORE, FAULT_KILL_HALFWAY, FAULT_KILL_AFTER };
static struct {
	enum fault kind;
	int nth, seen, code;
} plan;
static int folders_synced;

static inline bool fault_now(void)
{
	return plan.kind != FAULT_NONE && ++plan.seen == plan.nth;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
	bool now = fault_now();
	if (now && plan.kind == FAULT_KILL_BEFORE)
		raise(SIGKILL);
	if (now && plan.kind == FAULT_ERRNO) {
		errno = plan.code;
		return -1;
	}
	bool half = now && plan.kind == FAULT_KILL_HALFWAY;
	ssize_t written = syscall(SYS_pwrite64, fd, bytes, half ? n / 2 : n, at);
	if (now)
		raise(SIGKILL);
	return written;
}

int fdatasync(int fd)
{
	bool now = fault_now();
	if (now && plan.kind == FAULT_ERRNO) {
		errno = plan.code;
		return -1;
	}
	if (now)
		raise(SIGKILL);
	struct stat st;
	folders_synced += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	return (int)syscall(SYS_fdatasync, fd);
}

static char folder[64];

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static inline int setup(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof plan);
	/* Only processes die: memory keeps what they wrote, and syncs at once. */
	const char *memory = getenv("DEFIB_TEST_MEMORY");
	snprintf(folder, sizeof folder, "%s/defib-spool-XXXXXX", memory ? memory : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline struct spool *opened_with(int64_t max_bytes)
{
	struct spool_options o = {.folder = folder, .max_bytes = max_bytes};
	struct spool *s;
	struct failure f = {0};
	if (spool_open(&o, &s, &f) != DEFIB_OK)
		fail_msg("%s", f.what);
	return s;
}

static inline struct spool *opened(void)
{
	return opened_with(0);
}

static inline const char *path_of(const char *name)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static inline off_t size_of(const char *name)
{
	struct stat st;
	return stat(path_of(name), &st) == 0 ? st.st_size : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
