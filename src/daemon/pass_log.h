/* SPDX-License-Identifier: Apache-2.0
 * pass_log.h: what the log says of a pass: one readable line, with jobs by the columns that
 * a person knows them by; and one for all watches of a group that were due together.
 */
#ifndef DAEMON_PASS_LOG_H
#define DAEMON_PASS_LOG_H

#include "base/buf.h"
#include "recover/scan.h"

#define CYCLE_NAMED 5 /* jobs that are named in a line; the rest is counted */

struct cycle {
	struct buf jobs;
	int64_t named, more;
};

/* A pass begins. */
void cycle_begin(struct cycle *c);
/* What became of a job; those that something was done to are named. */
void cycle_job(struct cycle *c, const struct watch *w, const struct candidate *job);
/* The line of a pass: a warning when there was something, else only for who wants to know. */
void cycle_tell(const struct cycle *c, const struct watch *w, const struct scan_result *r,
                int64_t next_ms);
void cycle_release(struct cycle *c);

/* What the watches of one group did in one round. */
struct cycle_part {
	const struct watch *watch;
	int64_t recovered;
};
void cycle_tell_group(const char *group, const struct cycle_part *parts, int n);

#endif
