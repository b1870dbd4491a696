/* SPDX-License-Identifier: Apache-2.0
 * timeline.h: detects servers that are behind. PostgreSQL counts the promotions of a cluster; each
 * begins a new timeline. After an asynchronous failover, an old primary that returns accepts writes
 * like any other server, although its data is out of date. So defib remembers the highest timeline
 * of each cluster (identified by its system identifier) and refuses a server that is behind it.
 *
 * The process remembers it and, with timeline_keep(), writes it to a file for the next process. An
 * old primary cannot be asked for what it missed.
 */
#ifndef STORE_TIMELINE_H
#define STORE_TIMELINE_H

#include "base/fail.h"

/* Of a server. Zero: not known (not PostgreSQL, a standby, or no privilege to read it). */
struct timeline {
	uint64_t cluster; /* system identifier */
	int64_t number;
};

/*
 * Read what earlier processes saw, and record what this one sees, in the file `timelines` of this
 * directory: one line per advance, "SYSTEM TIMELINE". Several processes may share it.
 */
MUST_CHECK defib_err timeline_keep(const char *folder, struct failure *f);
/*
 * A session was opened on this server. DEFIB_CONNECTION: the server is behind one that was seen,
 * which is logged once as critical. `name` is the database's, `host` the server's. Safe from any
 * thread.
 */
MUST_CHECK defib_err timeline_see(const struct timeline *t, const char *name, const char *host,
                                  struct failure *f);
/* Whether a later timeline was seen since. If so, close the session. */
bool timeline_is_behind(const struct timeline *t);
/* From a server's answer: its system identifier and the name of its current WAL file. */
struct timeline timeline_parse(const char *cluster, const char *wal_file);
/* For tests. */
void timeline_forget(void);

#endif
