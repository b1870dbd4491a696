/* SPDX-License-Identifier: Apache-2.0
 * late.h: what a scan found out about the rows of a watch that wait, as one record and in words.
 */
#ifndef RECOVER_LATE_H
#define RECOVER_LATE_H

#include "guard/starts.h"

/* What a look found out about the rows that wait. */
struct waiting_result {
	bool asked;        /* the watch says which rows wait, and they were looked at */
	bool schedules;    /* each row is a schedule of its own */
	bool capped;       /* late and unstarted are at least so many */
	int64_t late;      /* rows that are due for longer than late_after */
	int64_t unstarted; /* of them, those that nobody starts */
	int64_t unknown;   /* … and those of which that is not known, because … */
	const char *because;
	/* Of those that nobody starts; if there are none, of all that are late: */
	int64_t waited_us, limit_us; /* of the oldest */
	int64_t last_us;             /* when a job of its kind was last claimed; 0: not known */
	char kind[64];               /* its kind, if there is one */
	int kinds;                   /* so many kinds have such rows */
	int64_t running, owners; /* jobs of its kind that run and are not stuck, and their workers */
	int64_t workers;         /* live workers of defib that serve the watch; -1: not known */
	int64_t moved_on;        /* schedules that moved on without a run */
	int64_t now_us;
	struct starts_trend trend;
	bool woken; /* workers were notified */
};

struct buf;
/*
 * "12 jobs are late, the oldest has waited 3h (limit 10m); nobody has claimed a job since
 * 09:12:00Z"; "": none.
 */
void late_sentence(const struct waiting_result *r, struct buf *out);

#endif
