/* SPDX-License-Identifier: Apache-2.0
 * spool_file.h: the few things a spool does with its folder and files, each
 * whole or failed, with the errno sorted into our classes once.
 */
#ifndef WORKER_SPOOL_FILE_H
#define WORKER_SPOOL_FILE_H

#include "base/fail.h"
#include "base/text.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Refuse a folder that is a symbolic link or somebody else's: what is kept there would be in other
 * hands. `base` and all below it down to `folder`; base NULL: folder alone. What is not there yet
 * will be ours. DEFIB_CONFIG.
 */
MUST_CHECK defib_err folder_ours(const char *base, const char *folder, struct failure *f);
/* Open a folder of our own; it and what leads to it are made (0700) and synced where missing. */
MUST_CHECK defib_err folder_open(const char *path, int *fd, struct failure *f);
/*
 * Own it while *lock is open. DEFIB_REFUSED when another process does; `path` is for the message.
 */
MUST_CHECK defib_err folder_lock(const char *path, int folder, int *lock, struct failure *f);
/* Open a regular file of the folder for reading and writing, made (0600) if it is not there. */
MUST_CHECK defib_err file_open(int folder, const char *name, int flags, int *fd, struct failure *f);
MUST_CHECK defib_err file_size(int fd, off_t *size, struct failure *f);
/* Up to n bytes; fewer only at the end of the file. */
MUST_CHECK defib_err file_read(int fd, void *out, size_t n, off_t at, size_t *got,
                               struct failure *f);
MUST_CHECK defib_err file_write(int fd, const void *bytes, size_t n, off_t at, struct failure *f);
MUST_CHECK defib_err file_truncate(int fd, off_t size, struct failure *f);
/* What was written is on the disk when this returns. Also for folders: their names. */
MUST_CHECK defib_err file_sync(int fd, struct failure *f);
MUST_CHECK defib_err file_copy(int from, off_t begin, off_t end, int to, off_t at,
                               struct failure *f);

/* ---- records and the mark ---- */

/*
 * The files of a spool. A record is a head with its number and checksums, and its
 * bytes: how each is read, checked, and found again behind damage. A mark says up to which record
 * they were taken, durably.
 */

struct record_head {
	uint32_t magic;
	uint32_t len;
	uint64_t number; /* from 1, rising */
	uint32_t bytes_crc;
	uint32_t head_crc; /* of the fields before: a damaged length must not pass for a short file */
};
_Static_assert(sizeof(struct record_head) == 24, "a head is written as it stands in memory");
#define RECORD_HEAD ((off_t)sizeof(struct record_head))

enum record_state {
	RECORD_GOOD,
	RECORD_END,   /* nothing more */
	RECORD_SHORT, /* the file ends inside it */
	RECORD_BAD,
};

/* The head at `at`, in a file that ends at `size` and has given numbers up to `last`. */
MUST_CHECK defib_err record_head(int fd, off_t at, off_t size, uint64_t last, struct record_head *h,
                                 enum record_state *state, struct failure *f);
/* Check the bytes behind a good head, and keep them in `into` unless it is NULL. */
MUST_CHECK defib_err record_bytes(int fd, off_t at, const struct record_head *h, struct buf *into,
                                  enum record_state *state, struct failure *f);
/*
 * Where the next good record begins behind `at`, or `size`. The length of a damaged one may be
 * what is damaged, so every place is looked at that starts like a record.
 */
MUST_CHECK defib_err record_next(int fd, off_t at, off_t size, uint64_t last, off_t *next,
                                 struct failure *f);
/* Head and bytes in one piece, so that a crash leaves a beginning of it. */
void record_build(uint64_t number, const char *bytes, size_t n, struct buf *out);

/* ---- the mark ---- */

/*
 * Two slots are written in turn, each with a checksum: a crash can ruin only the one that was
 * being written, and the other holds the mark before.
 */
struct spool_mark {
	int fd;
	int next_slot;
	uint64_t taken; /* number of the last record taken; 0: none */
};

MUST_CHECK defib_err mark_open(struct spool_mark *m, int folder, struct failure *f);
void mark_close(struct spool_mark *m);
/* When it fails the mark is where it was, or moved: an unknown outcome, safe to repeat. */
MUST_CHECK defib_err mark_move(struct spool_mark *m, uint64_t taken, struct failure *f);

#endif
