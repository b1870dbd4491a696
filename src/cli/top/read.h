/* SPDX-License-Identifier: Apache-2.0
 * read.h: one reading of one database. All queries are bounded in rows and time.
 */
#ifndef CLI_TOP_READ_H
#define CLI_TOP_READ_H

#include "cli/top/model.h"
#include "cli/top/reader.h"

struct series;
void top_spark(const struct series *s, enum top_watch_cell which, bool ascii, struct buf *out);

/* A watch, prepared by a reader. */
struct top_bound {
	const struct watch *watch;
	struct bound bound;
	bool used;         /* the built-in queue: it has, or had, jobs */
	int64_t recovered; /* recoveries seen in the ledger since the reader began */
};

struct top_view {
	const struct top_context *ctx;
	const struct database *database;
	int part;
	struct session reads, writes;
	int64_t opened; /* of `reads`, when the watches were prepared */
	struct top_bound *watches;
	int n;
	int64_t ledger_id; /* up to which events were counted; -1: not yet started */
	int64_t begun_ms;
	struct arena series_arena; /* of the last hour of each watch, which is read now and then */
	struct series *series;     /* NULL: not known */
	int64_t series_ms;         /* when to read it again */
};
struct top_part *top_read(struct top_view *v);
/* Prepare a watch; what was prepared on a lost session is prepared again. */
MUST_CHECK defib_err top_ready(struct top_view *v, int watch, struct failure *f);

#endif
