/* SPDX-License-Identifier: Apache-2.0
 * spool_file.h: a spool's operations on its directory and files. Each is complete or failed, and
 * errno is mapped to our error classes here only.
 */
#ifndef WORKER_SPOOL_FILE_H
#define WORKER_SPOOL_FILE_H

#include "base/text.h"

#include <sys/types.h>

/*
 * Refuse a directory that is a symbolic link or belongs to another user, who could read or change
 * its contents. Checks `base` and everything below it down to `folder`; base NULL: only folder. A
 * directory that does not exist yet will be ours. DEFIB_CONFIG.
 */
MUST_CHECK defib_err folder_ours(const char *base, const char *folder, struct failure *f);
/* Open a directory of ours; it and its missing parents are created (0700) and synced. */
MUST_CHECK defib_err folder_open(const char *path, int *fd, struct failure *f);
/* Own it while *lock is open. DEFIB_REFUSED if another process does; `path` is for the message. */
MUST_CHECK defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f);
/* Open a regular file of the directory for reading and writing, created (0600) if missing. */
MUST_CHECK defib_err file_open(int folder, const char *name, int flags, int *fd, struct failure *f);
MUST_CHECK defib_err file_size(int fd, off_t *size, struct failure *f);
/* Up to n bytes; fewer only at the end of the file. */
MUST_CHECK defib_err file_read(int fd, void *out, size_t n, off_t at, size_t *got,
                               struct failure *f);
MUST_CHECK defib_err file_write(int fd, const void *bytes, size_t n, off_t at, struct failure *f);
MUST_CHECK defib_err file_truncate(int fd, off_t size, struct failure *f);
/* What was written is on disk when this returns. Also for directories: their names. */
MUST_CHECK defib_err file_sync(int fd, struct failure *f);
MUST_CHECK defib_err file_copy(int from, off_t begin, off_t end, int to, off_t at,
                               struct failure *f);

/* ---- records and the mark ---- */

/*
 * The files of a spool. A record is a head with its number and checksums, followed by its bytes.
 * These functions read and check records, and find the next one after damage. A mark durably stores
 * up to which record they were taken.
 */

struct record_head {
	uint32_t magic;
	uint32_t len;
	uint64_t number; /* from 1, ascending */
	uint32_t bytes_crc;
	uint32_t
		head_crc; /* of the fields before: a damaged length must not look like a truncated file */
};
_Static_assert(sizeof(struct record_head) == 24, "a head is written as it stands in memory");
#define RECORD_HEAD ((off_t)sizeof(struct record_head))

enum record_state {
	RECORD_GOOD,
	RECORD_END,   /* no more records */
	RECORD_SHORT, /* the file ends inside it */
	RECORD_BAD,
};

/* The head at `at`, in a file of `size` bytes in which the last record number so far is `last`. */
MUST_CHECK defib_err record_head(int fd, off_t at, off_t size, uint64_t last, struct record_head *h,
                                 enum record_state *state, struct failure *f);
/* Check the bytes after a valid head, and append them to `into` unless it is NULL. */
MUST_CHECK defib_err record_bytes(int fd, off_t at, const struct record_head *h, struct buf *into,
                                  enum record_state *state, struct failure *f);
/*
 * Where the next valid record begins after `at`, or `size`. The damage may be in the length field,
 * so every position that looks like the start of a record is tried.
 */
MUST_CHECK defib_err record_next(int fd, off_t at, off_t size, uint64_t last, off_t *next,
                                 struct failure *f);
/* Head and bytes in one piece, so that a crash leaves a prefix of it. */
void record_build(uint64_t number, const char *bytes, size_t n, struct buf *out);

/* ---- the mark ---- */

/*
 * Two slots are written alternately, each with a checksum: a crash can only damage the one being
 * written, and the other holds the previous mark.
 */
struct spool_mark {
	int fd;
	int next_slot;
	uint64_t taken; /* number of the last record taken; 0: none */
};

MUST_CHECK defib_err mark_open(struct spool_mark *m, int folder, struct failure *f);
void mark_close(struct spool_mark *m);
/* After a failure the mark is either moved or not: an unknown outcome, safe to repeat. */
MUST_CHECK defib_err mark_move(struct spool_mark *m, uint64_t taken, struct failure *f);

#endif
