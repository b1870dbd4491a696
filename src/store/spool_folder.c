/* SPDX-License-Identifier: Apache-2.0 */
#include "store/spool_folder.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LOCK_FILE "lock"

/* A full disk is a class of its own: it may be resolved by freeing space. */
static defib_err spool_folder_failed(struct failure *f, const char *what)
{
	int err = errno;
	bool no_room = err == ENOSPC || err == EDQUOT || err == EFBIG;
	return fail(f, no_room ? DEFIB_FULL : DEFIB_IO, "cannot %s: %s", what, strerror(err));
}

/* Create one directory, and make its name durable in its parent. */
static defib_err folder_make(const char *path, struct failure *f)
{
	char parent[PATH_MAX];
	if (mkdir(path, 0700) != 0)
		return errno == EEXIST ? DEFIB_OK : spool_folder_failed(f, "create the directory");
	snprintf(parent, sizeof parent, "%s/..", path);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return spool_folder_failed(f, "open the parent directory");
	defib_err err = fdatasync(fd) != 0 ? spool_folder_failed(f, "sync to disk") : DEFIB_OK;
	close(fd);
	return err;
}

static defib_err folder_make_all(const char *path, struct failure *f)
{
	char part[PATH_MAX];
	defib_err err = DEFIB_OK;
	if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part - 3)
		return fail(f, DEFIB_IO, "cannot create the directory: its path is too long");
	for (char *slash = strchr(part + 1, '/'); slash && !err; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		err = folder_make(part, f);
		*slash = '/';
	}
	return err ? err : folder_make(part, f);
}

/* Why a directory is not to be trusted, or NULL. */
static const char *not_ours(const struct stat *st)
{
	return S_ISLNK(st->st_mode)           ? "is a symbolic link"
	       : st->st_uid != geteuid()      ? "belongs to another user"
	       : (st->st_mode & S_IWOTH) != 0 ? "is writable by every user"
	       : (st->st_mode & S_IWGRP) != 0 ? "is writable by its group"
	                                      : NULL;
}

static defib_err one_ours(const char *path, struct failure *f)
{
	struct stat st;
	if (lstat(path, &st) != 0)
		return DEFIB_OK; /* will be created, or the open reports why not */
	const char *why = not_ours(&st);
	if (!why)
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "the directory %s %s", path, why);
	fail_next(f, "name a directory that belongs to the user who runs this and that no other user "
	             "can write to");
	return DEFIB_CONFIG;
}

defib_err folder_ours(const char *base, const char *folder, struct failure *f)
{
	char part[PATH_MAX];
	size_t n = strlen(folder), from = base ? strlen(base) : n;
	defib_err err = DEFIB_OK;
	if (n >= sizeof part)
		return fail(f, DEFIB_CONFIG, "the path of the spool directory is too long");
	/* With a slash at the end, a link would be followed. */
	while (from > 1 && folder[from - 1] == '/')
		from--;
	for (size_t i = from; i <= n && !err; i++) {
		if (i == n || folder[i] == '/') {
			snprintf(part, sizeof part, "%.*s", (int)i, folder);
			err = one_ours(part, f);
		}
	}
	return err;
}

defib_err folder_open(const char *path, int *fd, struct failure *f)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	assert(path[0] != '\0');
	defib_err ours = folder_ours(NULL, path, f);
	if (ours)
		return ours;
	*fd = open(path, flags);
	if (*fd < 0 && errno == ENOENT) {
		defib_err err = folder_make_all(path, f);
		if (err)
			return err;
		*fd = open(path, flags);
	}
	return *fd < 0 ? spool_folder_failed(f, "open the directory") : DEFIB_OK;
}

defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f)
{
	defib_err err = folder_file(folder, LOCK_FILE, lock, f);
	if (err || TEMP_FAILURE_RETRY(flock(*lock, LOCK_EX | LOCK_NB)) == 0)
		return err;
	if (errno != EWOULDBLOCK)
		return spool_folder_failed(f, "lock it");
	fail(f, DEFIB_REFUSED, "another process owns this directory");
	fail_next(f, "give each worker a name of its own; `fuser %s/" LOCK_FILE "` shows the owner",
	          path);
	return DEFIB_REFUSED;
}

defib_err folder_file(int folder, const char *name, int *fd, struct failure *f)
{
	*fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*fd < 0) {
		defib_err err = spool_folder_failed(f, "open it");
		fail_prefix(f, "%s", name);
		return err;
	}
	return DEFIB_OK;
}

defib_err folder_local(int folder, struct failure *f)
{
	static const struct {
		unsigned int type;
		const char *name;
	} networks[] = {{0x6969, "NFS"},       {0x517b, "SMB"},        {0xff534d42, "CIFS"},
	                {0xfe534d42, "SMB2"},  {0x5346414f, "AFS"},    {0x6b414653, "AFS"},
	                {0x00c36400, "Ceph"},  {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
	                {0x01161970, "GFS2"},  {0x7461636f, "OCFS2"},  {0x73757245, "Coda"},
	                {0x19830326, "BeeGFS"}};
	struct statfs st;
	if (fstatfs(folder, &st) != 0)
		return spool_folder_failed(f, "learn the file system of the directory");
	for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
		if ((unsigned int)st.f_type != networks[i].type)
			continue;
		fail(f, DEFIB_CONFIG, "the directory is on a network file system (%s)", networks[i].name);
		fail_next(f, "name a directory on a disk of this host");
		return DEFIB_CONFIG;
	}
	return DEFIB_OK;
}
