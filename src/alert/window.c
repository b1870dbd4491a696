/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: see window.h. */
#include "alert/window.h"

#include <assert.h>
#include <string.h>

void window_span(struct window *w, int64_t span_us, bool least)
{
	int64_t cell_us = span_us / WINDOW_CELLS > 0 ? span_us / WINDOW_CELLS : 1;
	if (w->cell_us == cell_us)
		return;
	memset(w, 0, sizeof *w);
	w->cell_us = cell_us;
	w->least = least;
}

/* Time goes on: cells that come round again are emptied. */
static void turn_to(struct window *w, int64_t cell)
{
	int64_t steps = cell - w->newest;
	if (steps <= 0)
		return;
	for (int64_t i = 1; i <= (steps < WINDOW_CELLS ? steps : WINDOW_CELLS); i++)
		w->used[(cell - i + 1) % WINDOW_CELLS] = false;
	w->newest = cell;
}

void window_add(struct window *w, int64_t at_us, double n)
{
	assert(w->cell_us > 0 && at_us >= 0);
	int64_t cell = at_us / w->cell_us;
	turn_to(w, cell);
	if (cell <= w->newest - WINDOW_CELLS)
		return;
	double *at = &w->cells[cell % WINDOW_CELLS], was = *at;
	bool first = !w->used[cell % WINDOW_CELLS];
	if (w->least)
		*at = first || n < was ? n : was;
	else
		*at = (first ? 0 : was) + n;
	w->used[cell % WINDOW_CELLS] = true;
	if (!w->began_us || at_us < w->began_us)
		w->began_us = at_us;
}

double window_sum(struct window *w, int64_t now_us)
{
	double sum = 0;
	assert(w->cell_us > 0 && !w->least);
	turn_to(w, now_us / w->cell_us);
	for (int i = 0; i < WINDOW_CELLS; i++)
		sum += w->used[i] ? w->cells[i] : 0;
	return sum;
}

bool window_least(struct window *w, int64_t now_us, double *least)
{
	bool any = false;
	assert(w->cell_us > 0);
	turn_to(w, now_us / w->cell_us);
	for (int i = 0; i < WINDOW_CELLS; i++) {
		if (!w->used[i])
			continue;
		*least = any && *least < w->cells[i] ? *least : w->cells[i];
		any = true;
	}
	return any;
}

bool window_full(const struct window *w, int64_t now_us)
{
	return w->began_us && now_us - w->began_us >= w->cell_us * WINDOW_CELLS;
}
