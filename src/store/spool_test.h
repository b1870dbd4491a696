/* SPDX-License-Identifier: Apache-2.0
 * spool_test.h: a spool in its own directory for each test, on a disk that fails on request.
 * Included once per test program: it replaces the calls by which SQLite reaches the disk.
 */
#ifndef STORE_SPOOL_TEST_H
#define STORE_SPOOL_TEST_H

#include "store/spool.h"

#include "base/test.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * The two calls by which bytes reach the disk, replaced: the nth of them may fail, or be the last
 * thing this process does, half done. FAULT_NO_SPACE: no file grows, until the reserve is given up.
 */
enum fault {
	FAULT_NONE,
	FAULT_ERRNO,
	FAULT_NO_SPACE,
	FAULT_KILL_BEFORE,
	FAULT_KILL_HALFWAY,
	FAULT_KILL_AFTER
};
static struct {
	enum fault kind;
	int nth, seen, syncs, code;
	int names;        /* syncs of a directory */
	long file_system; /* its type; 0: as it is */
} plan;

static inline off_t size_of(const char *name);

static inline bool fault_now(void)
{
	return plan.kind != FAULT_NONE && ++plan.seen == plan.nth;
}

static inline bool no_space(int fd, off_t end)
{
	struct stat st;
	return plan.kind == FAULT_NO_SPACE && fstat(fd, &st) == 0 && end > st.st_size &&
	       size_of("reserve") != 0;
}

/* Visible, so that the library calls them. */
__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *bytes, size_t n,
                                                        off_t at)
{
	bool now = fault_now();
	if (now && plan.kind == FAULT_KILL_BEFORE)
		raise(SIGKILL);
	if (no_space(fd, at + (off_t)n) || (now && plan.kind == FAULT_ERRNO)) {
		errno = plan.code ? plan.code : ENOSPC;
		return -1;
	}
	bool half = now && plan.kind == FAULT_KILL_HALFWAY;
	ssize_t written = syscall(SYS_pwrite64, fd, bytes, half ? n / 2 : n, at);
	if (now && plan.kind != FAULT_NO_SPACE)
		raise(SIGKILL);
	return written;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
	bool now = fault_now();
	struct stat st;
	plan.syncs++;
	plan.names += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	if (now && plan.kind == FAULT_ERRNO) {
		errno = plan.code;
		return -1;
	}
	if (now && plan.kind != FAULT_NO_SPACE)
		raise(SIGKILL);
	return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fstatfs64(int fd, struct statfs64 *st)
{
	int rc = (int)syscall(SYS_fstatfs, fd, st);
	if (rc == 0 && plan.file_system)
		st->f_type = plan.file_system;
	return rc;
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
