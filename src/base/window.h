/* SPDX-License-Identifier: Apache-2.0
 * window.h: how many rows of a table to read at once. Pure.
 *
 * A list that one statement cannot read in time is read in windows. The first one is small. Each
 * further one follows from how long the one before took, so that a window fits into the time on
 * any machine.
 */
#ifndef BASE_WINDOW_H
#define BASE_WINDOW_H

#include <stdint.h>

#define WINDOW_FIRST 256  /* rows */
#define WINDOW_US 1000000 /* how long one is planned to take at most */
/*
 * A window that takes longer than planned is rather finished than read again in parts: its time
 * limit is this many times the time of the whole reading.
 */
#define WINDOW_PATIENCE 4

/* After a window of `rows` that took `took_us`, with `left_us` left. At least 1. */
int64_t window_next(int64_t rows, int64_t took_us, int64_t left_us);
/* After a window of `rows` that did not fit. At least 1. */
int64_t window_smaller(int64_t rows);

#endif
