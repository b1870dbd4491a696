/* SPDX-License-Identifier: Apache-2.0 */
#include "base/window.h"

#define FACTOR 8 /* by which a window grows or shrinks at most */
#define SHARE 2  /* plan for 1/2 of the time that is left: the next rows may be slower */
#define MOST_ROWS 1000000

static int64_t between(double rows, int64_t least, int64_t most)
{
	return rows < (double)least ? least : rows > (double)most ? most : (int64_t)rows;
}

int64_t window_next(int64_t rows, int64_t took_us, int64_t left_us)
{
	double fits = (double)rows * (double)left_us / SHARE / (double)(took_us > 0 ? took_us : 1);
	return between(fits, 1, rows < MOST_ROWS / FACTOR ? rows * FACTOR : MOST_ROWS);
}

int64_t window_smaller(int64_t rows)
{
	return between((double)rows / FACTOR, 1, MOST_ROWS);
}
