/* SPDX-License-Identifier: Apache-2.0
 * spool_file.c: system calls that either complete or fail.
 */
#include "worker/spool_file.h"

#include "base/hash.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_FILE "lock"

/* A full disk is a class of its own: it may be resolved by freeing space. */
static defib_err failed(struct failure *f, const char *what)
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
		return errno == EEXIST ? DEFIB_OK : failed(f, "create the directory");
	snprintf(parent, sizeof parent, "%s/..", path);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return failed(f, "open the parent directory");
	defib_err err = file_sync(fd, f);
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
	return *fd < 0 ? failed(f, "open the directory") : DEFIB_OK;
}

defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f)
{
	defib_err err = file_open(folder, LOCK_FILE, 0, lock, f);
	if (err || TEMP_FAILURE_RETRY(flock(*lock, LOCK_EX | LOCK_NB)) == 0)
		return err;
	if (errno != EWOULDBLOCK)
		return failed(f, "lock it");
	fail(f, DEFIB_REFUSED, "another process owns this directory");
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
	if (fstat(fd, &st) != 0)
		return failed(f, "learn the size");
	*size = st.st_size;
	return DEFIB_OK;
}

defib_err file_read(int fd, void *out, size_t n, off_t at, size_t *got, struct failure *f)
{
	char *to = out;
	for (*got = 0; *got < n;) {
		ssize_t r = TEMP_FAILURE_RETRY(pread(fd, to + *got, n - *got, at + (off_t)*got));
		if (r < 0)
			return failed(f, "read");
		if (r == 0)
			break;
		*got += (size_t)r;
	}
	return DEFIB_OK;
}

defib_err file_write(int fd, const void *bytes, size_t n, off_t at, struct failure *f)
{
	const char *from = bytes;
	for (size_t done = 0; done < n;) {
		ssize_t w = TEMP_FAILURE_RETRY(pwrite(fd, from + done, n - done, at + (off_t)done));
		if (w < 0)
			return failed(f, "write");
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
		if (!err && got == 0)
			return fail(f, DEFIB_IO, "cannot copy: the file became shorter");
		if (!err)
			err = file_write(to, chunk, got, at, f);
		if (!err) {
			begin += (off_t)got;
			at += (off_t)got;
		}
	}
	return err;
}

/* ---- records and the mark ---- */

#define RECORD_MAGIC 0x31505344u /* "DSP1" */
#define HEAD RECORD_HEAD

static uint32_t head_crc(const struct record_head *h)
{
	return crc32c(0, h, offsetof(struct record_head, head_crc));
}

/* A crash of the machine may leave a file that is longer than what was written: all zeros. */
static defib_err rest_is_zero(int fd, off_t at, bool *zero, struct failure *f)
{
	char chunk[4096];
	size_t got = 1;
	defib_err err = DEFIB_OK;
	for (*zero = true; *zero && got > 0 && !err; at += (off_t)got) {
		err = file_read(fd, chunk, sizeof chunk, at, &got, f);
		for (size_t i = 0; i < got && *zero; i++)
			*zero = chunk[i] == 0;
	}
	return err;
}

defib_err record_head(int fd, off_t at, off_t size, uint64_t last, struct record_head *h,
                      enum record_state *state, struct failure *f)
{
	size_t got;
	bool zero;
	if (at == size) {
		*state = RECORD_END;
		return DEFIB_OK;
	}
	defib_err err = file_read(fd, h, sizeof *h, at, &got, f);
	if (err)
		return err;
	if (got < sizeof *h) {
		*state = RECORD_SHORT;
		return DEFIB_OK;
	}
	if (h->magic == RECORD_MAGIC && h->head_crc == head_crc(h) && h->number > last) {
		*state = h->len > size - at - HEAD ? RECORD_SHORT : RECORD_GOOD;
		return DEFIB_OK;
	}
	err = rest_is_zero(fd, at, &zero, f);
	*state = zero ? RECORD_SHORT : RECORD_BAD;
	return err;
}

defib_err record_bytes(int fd, off_t at, const struct record_head *h, struct buf *into,
                       enum record_state *state, struct failure *f)
{
	char chunk[16384];
	uint32_t crc = 0;
	for (size_t done = 0, got; done < h->len; done += got) {
		size_t want = h->len - done < sizeof chunk ? h->len - done : sizeof chunk;
		defib_err err = file_read(fd, chunk, want, at + HEAD + (off_t)done, &got, f);
		if (err)
			return err;
		if (got == 0) {
			*state = RECORD_BAD; /* truncated since its head was read */
			return DEFIB_OK;
		}
		crc = crc32c(crc, chunk, got);
		if (into)
			buf_addn(into, chunk, got);
	}
	*state = crc == h->bytes_crc ? RECORD_GOOD : RECORD_BAD;
	return DEFIB_OK;
}

/* Whether a complete valid record with a higher number is at `at`. */
static defib_err is_record(int fd, off_t at, off_t size, uint64_t last, bool *is, struct failure *f)
{
	struct record_head h;
	enum record_state state;
	size_t got;
	*is = false;
	defib_err err = file_read(fd, &h, sizeof h, at, &got, f);
	if (err || got < sizeof h || h.magic != RECORD_MAGIC || h.head_crc != head_crc(&h) ||
	    h.number <= last || h.len > size - at - HEAD)
		return err;
	err = record_bytes(fd, at, &h, NULL, &state, f);
	*is = !err && state == RECORD_GOOD;
	return err;
}

defib_err record_next(int fd, off_t at, off_t size, uint64_t last, off_t *next, struct failure *f)
{
	static const uint32_t magic = RECORD_MAGIC;
	char chunk[65536];
	size_t got = sizeof chunk;
	defib_err err = DEFIB_OK;
	for (off_t from = at + 1; !err && got >= sizeof magic;
	     from += (off_t)(got - sizeof magic + 1)) {
		err = file_read(fd, chunk, sizeof chunk, from, &got, f);
		for (size_t i = 0; !err && i + sizeof magic <= got; i++) {
			bool is = false;
			if (memcmp(chunk + i, &magic, sizeof magic) == 0)
				err = is_record(fd, from + (off_t)i, size, last, &is, f);
			if (is) {
				*next = from + (off_t)i;
				return err;
			}
		}
	}
	*next = size;
	return err;
}

void record_build(uint64_t number, const char *bytes, size_t n, struct buf *out)
{
	struct record_head h = {
		.magic = RECORD_MAGIC,
		.len = (uint32_t)n,
		.number = number,
		.bytes_crc = crc32c(0, bytes, n),
	};
	h.head_crc = head_crc(&h);
	buf_addn(out, (const char *)&h, sizeof h);
	buf_addn(out, bytes, n);
}

/* ---- up to which record it was taken ---- */

#define MARK_FILE "taken"
#define MARK_MAGIC 0x314b4d44u /* "DMK1" */
#define MARK_SLOTS 2
#define MARK_SPACING 4096 /* slots in different sectors: one torn write cannot damage both */

struct mark_slot {
	uint32_t magic;
	uint32_t crc; /* of taken */
	uint64_t taken;
};
_Static_assert(sizeof(struct mark_slot) == 16, "a slot is written as it stands in memory");

enum slot_state { SLOT_UNUSED, SLOT_GOOD, SLOT_BAD };

static enum slot_state slot_state(const struct mark_slot *s)
{
	static const struct mark_slot unused;
	if (memcmp(s, &unused, sizeof unused) == 0)
		return SLOT_UNUSED;
	bool good = s->magic == MARK_MAGIC && s->crc == crc32c(0, &s->taken, sizeof s->taken);
	return good ? SLOT_GOOD : SLOT_BAD;
}

static defib_err mark_read(struct spool_mark *m, struct failure *f)
{
	int bad = 0;
	for (int i = 0; i < MARK_SLOTS; i++) {
		struct mark_slot slot = {0};
		size_t got;
		defib_err err = file_read(m->fd, &slot, sizeof slot, (off_t)i * MARK_SPACING, &got, f);
		if (err)
			return err;
		enum slot_state state = slot_state(&slot);
		bad += state == SLOT_BAD;
		if (state == SLOT_GOOD && slot.taken >= m->taken) {
			m->taken = slot.taken;
			m->next_slot = (i + 1) % MARK_SLOTS;
		}
	}
	if (bad == MARK_SLOTS) {
		log_event(LOG_ERROR, "spool: the mark of taken records is damaged; they are offered again",
		          LOG_STR("file", MARK_FILE));
	}
	return DEFIB_OK;
}

/* Give the file its full size with allocated blocks; existing content stays. */
static defib_err mark_reserve(struct spool_mark *m, struct failure *f)
{
	static const char zeros[MARK_SPACING * MARK_SLOTS];
	off_t size;
	defib_err err = file_size(m->fd, &size, f);
	if (err || size >= (off_t)sizeof zeros)
		return err;
	err = file_write(m->fd, zeros, sizeof zeros - (size_t)size, size, f);
	return err ? err : file_sync(m->fd, f);
}

defib_err mark_open(struct spool_mark *m, int folder, struct failure *f)
{
	*m = (struct spool_mark){.fd = -1};
	defib_err err = file_open(folder, MARK_FILE, 0, &m->fd, f);
	if (!err)
		err = mark_reserve(m, f);
	if (!err)
		err = mark_read(m, f);
	return err;
}

void mark_close(struct spool_mark *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

defib_err mark_move(struct spool_mark *m, uint64_t taken, struct failure *f)
{
	struct mark_slot slot = {.magic = MARK_MAGIC, .taken = taken};
	assert(taken > m->taken);
	slot.crc = crc32c(0, &slot.taken, sizeof slot.taken);
	defib_err err = file_write(m->fd, &slot, sizeof slot, (off_t)m->next_slot * MARK_SPACING, f);
	if (!err)
		err = file_sync(m->fd, f);
	if (!err) { /* on failure use the same slot again: the other one holds the last good mark */
		m->taken = taken;
		m->next_slot = (m->next_slot + 1) % MARK_SLOTS;
	}
	return err;
}
