/* SPDX-License-Identifier: Apache-2.0
 * window.h: numbers of the last hour (or any other span), in a fixed number of cells:
 * their sum, or the least of them. What is older than the span drops out a
 * cell at a time, so that a sum is exact to a sixtieth of the span.
 *
 * Pure: instants are handed in, in microseconds, and may come in any order within the
 * span.
 */
#ifndef ALERT_WINDOW_H
#define ALERT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_CELLS 60

struct window {
	int64_t cell_us;  /* 0: not in use */
	int64_t newest;   /* number of the newest cell, in cells since 1970 */
	int64_t began_us; /* when the first number came; 0: none did */
	bool least;       /* cells keep the least of what came, else the sum */
	bool used[WINDOW_CELLS];
	double cells[WINDOW_CELLS];
};

/* A window of this span, empty; one that has it already is left as it is. */
void window_span(struct window *w, int64_t span_us, bool least);
void window_add(struct window *w, int64_t at_us, double n);
double window_sum(struct window *w, int64_t now_us);
/* False: there is none. */
bool window_least(struct window *w, int64_t now_us, double *least);
/* Whether numbers came for the whole span. */
bool window_full(const struct window *w, int64_t now_us);

#endif
