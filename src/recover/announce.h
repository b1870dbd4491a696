/* SPDX-License-Identifier: Apache-2.0
 * announce.h: what a scan writes to the log. The lines are the same for a one-shot scan, a daemon,
 * a worker's sweep and a cleanup at start.
 */
#ifndef RECOVER_ANNOUNCE_H
#define RECOVER_ANNOUNCE_H

#include "recover/scan.h"

/*
 * What a guard holds back is logged and recorded in the ledger (GUARD_HELD), once when it begins to
 * hold and once when it lets go.
 */

struct guard_logged {
	bool braking;
	bool doubting; /* it held back a job */
};

/* Call after a pass with this result. */
void guard_log_changes(struct guard_logged *logged, const struct guard *g, struct session *session,
                       const struct watch *w, const struct scan_result *last, const char *actor);

/*
 * Jobs of a watch that nobody starts are one incident: logged and recorded (UNSTARTED) once when it
 * begins and once when it is over (STARTED_AGAIN), also if another daemon has begun it.
 */
struct late_logged {
	bool known; /* the ledger was asked for an incident that is open */
	bool unstarted;
};
void late_log_changes(struct late_logged *logged, struct session *session, const struct watch *w,
                      const struct scan_result *last, const char *actor);

/* ---- groups ---- */

/*
 * How many jobs of each watch of a group were recovered, in one line: a warning, or a debug line if
 * there were none.
 *
 *   level=warn msg="stuck jobs reset" group="Zombie Record Cleanup" total=7 Sitemaps=2 Pages=5
 */

struct group_part {
	const struct watch *watch;
	int64_t recovered;
};
/* The watches of one group. */
void group_tell(const char *group, const struct group_part *parts, int n);
/* Watches of any groups, or of none: a line per group. Reorders the parts. */
void groups_tell(struct group_part *parts, int n);

#endif
