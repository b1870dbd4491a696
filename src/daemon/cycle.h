/* SPDX-License-Identifier: Apache-2.0
 * cycle.h: the log line of a pass over a watch: its numbers, and the jobs that were changed, named
 * by their shown columns.
 */
#ifndef DAEMON_CYCLE_H
#define DAEMON_CYCLE_H

#include "recover/scan.h"

#define CYCLE_NAMED 5 /* jobs that a line names; the rest is counted */

struct cycle {
	struct buf jobs;
	int64_t named, more;
};

/* The outcome of a job; jobs that were changed are named. */
void cycle_job(struct cycle *c, const struct watch *w, const struct candidate *job);
/* Logs a pass: a warning if it found something, otherwise a debug line. */
void cycle_log(const struct cycle *c, const struct watch *w, const struct scan_result *r,
               int64_t next_ms);
/* How many jobs of the pass the guards held back. */
int64_t cycle_guarded(const struct scan_result *r);

#endif
