/* SPDX-License-Identifier: Apache-2.0
 * group.h: how many jobs of each watch of a group were recovered, in one line of the log: a
 * warning, or a debug line if there were none. The same line, whoever recovered them: a scan, a
 * daemon's pass, a worker's sweep, a cleanup at start.
 *
 *   level=warn msg="stuck jobs reset" group="Zombie Record Cleanup" total=7 Sitemaps=2 Pages=5
 */
#ifndef RECOVER_GROUP_H
#define RECOVER_GROUP_H

#include "watch/watch.h"

struct group_part {
	const struct watch *watch;
	int64_t recovered;
};
/* The watches of one group. */
void group_tell(const char *group, const struct group_part *parts, int n);
/* Watches of any groups, or of none: a line per group. Reorders the parts. */
void groups_tell(struct group_part *parts, int n);

#endif
