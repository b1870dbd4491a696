/* SPDX-License-Identifier: Apache-2.0
 * census.h: what the daemon reads before it judges: the database's clock, and when each worker of a
 * watch with heartbeats was last heard.
 */
#ifndef RECOVER_CENSUS_H
#define RECOVER_CENSUS_H

#include "guard/guard.h"
#include "watch/compile.h"

#define CENSUS_ROWS_MAX 10000 /* running rows that are read */

struct census {
	int64_t now_us;
	struct census_row *rows; /* one per owner; NULL if the watch has no owner or no beat */
	int n;
};

/* The statements, compiled once; texts live in the arena. */
struct census_sql {
	const char *owners; /* NULL: this watch has no brake */
};
void census_compile(const struct watch_sql *q, struct arena *a, struct census_sql *out);

MUST_CHECK defib_err census_read(struct store *s, const struct census_sql *sql, struct arena *a,
                                 struct census *out, struct failure *f);
/* When the server was started; 0 if there is no server. */
MUST_CHECK defib_err census_server_start(struct store *s, int64_t *start_us, struct failure *f);
/* The database's clock. */
MUST_CHECK defib_err census_now(struct store *s, int64_t *now_us, struct failure *f);

/* Whether a lock on the table (CREATE INDEX, ALTER TABLE) keeps workers from writing. */
MUST_CHECK defib_err census_barred(struct store *s, const struct watch *w, bool *barred,
                                   struct failure *f);

/* ---- a watch that sees no running row ---- */

/*
 * Cheap checks for a watch that sees no running row. Perhaps nothing runs; perhaps `running` never
 * matches, or row-level security hides the rows.
 */

struct unseen {
	bool empty;    /* no row of the table is visible, or that is unknown */
	bool secured;  /* row-level security applies to this role */
	bool recorded; /* the ledger has an entry about a row of this watch */
};

/* Whether the table's row-level security applies to this role. */
MUST_CHECK defib_err row_security(struct store *s, const struct watch *w, bool *on,
                                  struct failure *f);
/* Three short queries; what cannot be determined counts as false. */
void unseen_look(struct store *s, const struct watch *w, struct unseen *out);
/* Running rows may exist, and there is no evidence that this watch ever saw one. */
bool unseen_never(const struct unseen *u);

#endif
