/* SPDX-License-Identifier: Apache-2.0
 * spool.h: records that wait on disk for a database, in an SQLite file of our own. Each record is
 * in a lane (the source of a result), where order counts, and may be set aside with a reason. What
 * a call changes, it changes in one transaction that is synced before it returns.
 *
 *   FOLDER/lock       held while it is open: one process at a time
 *   FOLDER/spool.db   the records, and spool.db-wal beside it
 *   FOLDER/reserve    space that is given up when the disk is full, so that records can be taken
 *
 * A spool that is empty when it is closed leaves no file but the lock. A file that is damaged is
 * kept as damaged-TIME.db, what can be read of it is copied to a new one, and the log says so.
 * Everything is opened at the start: a call needs no further descriptor. A forked child can neither
 * use nor close it. Not thread-safe.
 */
#ifndef STORE_SPOOL_H
#define STORE_SPOOL_H

#include "base/text.h"

struct spool;

struct spool_options {
	const char *folder; /* created if missing, mode 0700; not on a network file system */
	int64_t max_bytes;  /* of all records; 0: 64 MiB */
	bool brief;         /* it is opened often, each time for a moment: the close leaves the log */
};

struct spool_record {
	int64_t number;       /* rises in its list; set by the spool */
	const char *id;       /* nothing else in its lane has it; a second one is not stored */
	const char *database; /* the id of the database that it is for; "": not known */
	const char *why;      /* why it is set aside; NULL: it is not */
	bool damaged;         /* set by the spool: it is not what was appended */
	const char *bytes;
	size_t n;
};

#define SPOOL_WHY_MOST 400 /* bytes of a reason; what is longer is cut off */

/* DEFIB_REFUSED if another process owns the folder; DEFIB_CONFIG if it cannot be trusted. */
MUST_CHECK defib_err spool_open(const struct spool_options *o, struct spool **out,
                                struct failure *f);
void spool_close(struct spool *s); /* NULL is allowed */
/* All or none, behind those that are there. DEFIB_FULL: beyond max_bytes, or the disk is full. */
MUST_CHECK defib_err spool_append(struct spool *s, const char *lane, const struct spool_record *all,
                                  int n, struct failure *f);
/*
 * The oldest of a lane that wait, or that are set aside, in the arena: at most `most`, and at most
 * `bytes` in total unless the first is larger.
 */
int spool_peek(struct spool *s, const char *lane, bool aside, struct spool_record *out, int most,
               size_t bytes, struct arena *a);
/*
 * The first `n` of the last peek are done: removed if why[i] (or `why`) is NULL, else set aside for
 * that reason, behind those that are there. All or none.
 */
MUST_CHECK defib_err spool_finish(struct spool *s, const char *lane, const struct spool_record *all,
                                  int n, const char *const *why, struct failure *f);
bool spool_holds(struct spool *s, const char *lane, const char *id);
int64_t spool_count(const struct spool *s, const char *lane, bool aside);
int64_t spool_bytes(const struct spool *s);
/* The i-th lane that has records; NULL: no more. */
const char *spool_lane(const struct spool *s, int i);
/* Why the first one was set aside; "": none is. Valid until the next call. */
const char *spool_why(struct spool *s, const char *lane);

/* Whether records may be stored in a folder, without owning it. */
bool spool_waits(const char *folder);

#endif
