/* SPDX-License-Identifier: Apache-2.0
 * spool_mark.h: up to which record a spool was taken, durably.
 *
 * Two slots are written in turn, each with a checksum: a crash can ruin only
 * the one that was being written, and the other holds the mark before.
 */
#ifndef WORKER_SPOOL_MARK_H
#define WORKER_SPOOL_MARK_H

#include "base/fail.h"

#include <stdint.h>

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
