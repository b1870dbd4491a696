/* SPDX-License-Identifier: Apache-2.0
 * timeline.h: which servers are behind. PostgreSQL counts a cluster's promotions: each begins a new
 * timeline. After an asynchronous fail-over an old primary that comes back can be written to like
 * any other server, though what it says is no longer true. So the highest timeline of each cluster
 * (told apart by its system identifier) is remembered, and a server that is behind it is refused.
 *
 * Remembered by the process, and with timeline_keep() in a file that the next process reads: an old
 * primary cannot be asked for what it missed.
 */
#ifndef STORE_TIMELINE_H
#define STORE_TIMELINE_H

#include "base/fail.h"

#include <stdint.h>

/* Of a server. Zero: not known (no PostgreSQL, a standby, or it may not be read). */
struct timeline {
	uint64_t cluster; /* system identifier */
	int64_t number;
};

/*
 * Read what earlier processes saw and add what we see. `path` is a small text file, a line for
 * each advance: "SYSTEM TIMELINE". Several processes may share it.
 */
MUST_CHECK defib_err timeline_keep(const char *path, struct failure *f);
/*
 * A session was opened there. DEFIB_CONNECTION: the server is behind one that was seen, which is
 * logged once as critical; `name` is the database's, `host` the server's. Any thread.
 */
MUST_CHECK defib_err timeline_see(const struct timeline *t, const char *name, const char *host,
                                  struct failure *f);
/* Has a later one been seen since? Then its session is to be closed. */
bool timeline_is_behind(const struct timeline *t);
/* Of what a server answers: its system identifier and the name of its present WAL file. */
struct timeline timeline_parse(const char *cluster, const char *wal_file);
/* For tests. */
void timeline_forget(void);

#endif
