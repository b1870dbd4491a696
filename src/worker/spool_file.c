/* SPDX-License-Identifier: Apache-2.0
 * spool_file.c: system calls that either do all that was asked or fail.
 */
#include "worker/spool_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_FILE "lock"

/* No room is told apart: it passes by itself when somebody makes room. */
static defib_err failed(struct failure *f, const char *what)
{
	int err = errno;
	bool no_room = err == ENOSPC || err == EDQUOT || err == EFBIG;

	return fail(f, no_room ? DEFIB_FULL : DEFIB_IO, "cannot %s: %s", what, strerror(err));
}

/* Make one folder, and make its name durable where it stands. */
static defib_err folder_make(const char *path, struct failure *f)
{
	char parent[PATH_MAX];

	if (mkdir(path, 0700) != 0) {
		return errno == EEXIST ? DEFIB_OK : failed(f, "make the folder");
	}
	snprintf(parent, sizeof parent, "%s/..", path);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return failed(f, "open the folder above");
	}
	defib_err err = file_sync(fd, f);
	close(fd);
	return err;
}

static defib_err folder_make_all(const char *path, struct failure *f)
{
	char part[PATH_MAX];
	defib_err err = DEFIB_OK;

	if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part - 3) {
		return fail(f, DEFIB_IO, "cannot create the folder: its path is too long");
	}
	for (char *slash = strchr(part + 1, '/'); slash && !err; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		err = folder_make(part, f);
		*slash = '/';
	}
	return err ? err : folder_make(part, f);
}

/* Why a folder is not to be trusted, or NULL. */
static const char *not_ours(const struct stat *st)
{
	return S_ISLNK(st->st_mode)           ? "is a symbolic link"
	       : st->st_uid != geteuid()      ? "belongs to another user"
	       : (st->st_mode & S_IWOTH) != 0 ? "can be written to by everybody"
	                                      : NULL;
}

static defib_err one_ours(const char *path, struct failure *f)
{
	struct stat st;

	if (lstat(path, &st) != 0) {
		return DEFIB_OK; /* will be made; or opening it says why not */
	}
	const char *why = not_ours(&st);
	if (!why) {
		return DEFIB_OK;
	}
	fail(f, DEFIB_CONFIG, "the folder %s %s", path, why);
	fail_next(f, "name a folder that belongs to the user who runs this, and to nobody else");
	return DEFIB_CONFIG;
}

defib_err folder_ours(const char *base, const char *folder, struct failure *f)
{
	char part[PATH_MAX];
	size_t n = strlen(folder), from = base ? strlen(base) : n;
	defib_err err = DEFIB_OK;

	if (n >= sizeof part) {
		return fail(f, DEFIB_CONFIG, "the path of the spool folder is too long");
	}
	/* A slash at the end would follow a link. */
	while (from > 1 && folder[from - 1] == '/') {
		from--;
	}
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
	if (ours) {
		return ours;
	}
	*fd = open(path, flags);
	if (*fd < 0 && errno == ENOENT) {
		defib_err err = folder_make_all(path, f);
		if (err) {
			return err;
		}
		*fd = open(path, flags);
	}
	return *fd < 0 ? failed(f, "open the folder") : DEFIB_OK;
}

defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f)
{
	defib_err err = file_open(folder, LOCK_FILE, 0, lock, f);

	if (err || TEMP_FAILURE_RETRY(flock(*lock, LOCK_EX | LOCK_NB)) == 0) {
		return err;
	}
	if (errno != EWOULDBLOCK) {
		return failed(f, "lock it");
	}
	fail(f, DEFIB_REFUSED, "another process owns this folder");
	fail_next(f, "give each worker a name of its own; `fuser %s/" LOCK_FILE "` shows the owner",
	          path);
	return DEFIB_REFUSED;
}

defib_err file_open(int folder, const char *name, int flags, int *fd, struct failure *f)
{
	*fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	if (*fd < 0) {
		defib_err err = failed(f, "open it");
		fail_prefix(f, "%s", name);
		return err;
	}
	return DEFIB_OK;
}

defib_err file_size(int fd, off_t *size, struct failure *f)
{
	struct stat st;

	if (fstat(fd, &st) != 0) {
		return failed(f, "learn the size");
	}
	*size = st.st_size;
	return DEFIB_OK;
}

defib_err file_read(int fd, void *out, size_t n, off_t at, size_t *got, struct failure *f)
{
	char *to = out;

	for (*got = 0; *got < n;) {
		ssize_t r = TEMP_FAILURE_RETRY(pread(fd, to + *got, n - *got, at + (off_t)*got));
		if (r < 0) {
			return failed(f, "read");
		}
		if (r == 0) {
			break;
		}
		*got += (size_t)r;
	}
	return DEFIB_OK;
}

defib_err file_write(int fd, const void *bytes, size_t n, off_t at, struct failure *f)
{
	const char *from = bytes;

	for (size_t done = 0; done < n;) {
		ssize_t w = TEMP_FAILURE_RETRY(pwrite(fd, from + done, n - done, at + (off_t)done));
		if (w < 0) {
			return failed(f, "write");
		}
		done += (size_t)w;
	}
	return DEFIB_OK;
}

defib_err file_truncate(int fd, off_t size, struct failure *f)
{
	return ftruncate(fd, size) != 0 ? failed(f, "shorten") : DEFIB_OK;
}

defib_err file_sync(int fd, struct failure *f)
{
	return fdatasync(fd) != 0 ? failed(f, "sync to disk") : DEFIB_OK;
}

defib_err file_copy(int from, off_t begin, off_t end, int to, off_t at, struct failure *f)
{
	char chunk[65536];
	defib_err err = DEFIB_OK;

	while (begin < end && !err) {
		size_t want = end - begin < (off_t)sizeof chunk ? (size_t)(end - begin) : sizeof chunk;
		size_t got;
		err = file_read(from, chunk, want, begin, &got, f);
		if (!err && got == 0) {
			return fail(f, DEFIB_IO, "cannot copy: the file became shorter");
		}
		if (!err) {
			err = file_write(to, chunk, got, at, f);
		}
		if (!err) {
			begin += (off_t)got;
			at += (off_t)got;
		}
	}
	return err;
}
