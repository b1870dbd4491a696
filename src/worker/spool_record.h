/* SPDX-License-Identifier: Apache-2.0
 * spool_record.h: one record of a spool's file: a head with the record's number and checksums, and
 * its bytes. How each is read, checked, and found again behind damage.
 */
#ifndef WORKER_SPOOL_RECORD_H
#define WORKER_SPOOL_RECORD_H

#include "base/buf.h"
#include "base/fail.h"

#include <stdint.h>
#include <sys/types.h>

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

#endif
