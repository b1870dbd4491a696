/* SPDX-License-Identifier: Apache-2.0
 * census.h: what the daemon reads before it judges: the database's clock, and
 * who of the workers behind a beating watch was heard when.
 */
#ifndef RECOVER_CENSUS_H
#define RECOVER_CENSUS_H

#include "guard/guard.h"
#include "watch/compile.h"

#define CENSUS_ROWS_MAX 10000 /* running rows that are looked at */

struct census {
	int64_t now_us;
	struct census_row *rows; /* one an owner; NULL where the watch has no owner or no beat */
	int n;
};

/* The statements, made once; texts live in the arena. */
struct census_sql {
	const char *owners; /* NULL: there is no brake for this watch */
};
void census_compile(const struct watch_sql *q, struct arena *a, struct census_sql *out);

MUST_CHECK defib_err census_read(struct store *s, const struct census_sql *sql, struct arena *a,
                                 struct census *out, struct failure *f);
/* When the server was started; 0 where there is none. */
MUST_CHECK defib_err census_server_start(struct store *s, int64_t *start_us, struct failure *f);
/* The database's clock. */
MUST_CHECK defib_err census_now(struct store *s, int64_t *now_us, struct failure *f);

/* ---- a watch that sees no running row ---- */

/*
 * What can be told, cheaply, of a watch that sees no running row. It may be that nothing
 * runs; or `running` asks for what is never there, or row-level security hides the rows.
 */

struct unseen {
	bool empty;    /* no row of the table can be seen at all, or that is not known */
	bool secured;  /* row-level security applies to this role */
	bool recorded; /* the ledger tells of a row of this watch */
};

/* Whether the table's row-level security applies to this role. */
MUST_CHECK defib_err row_security(struct store *s, const struct watch *w, bool *on,
                                  struct failure *f);
/* Three short questions; what cannot be told counts as not so. */
void unseen_look(struct store *s, const struct watch *w, struct unseen *out);
/* There may well be running rows, and nothing says that this watch ever saw one. */
bool unseen_never(const struct unseen *u);
/* Behind "no row is running, and": what that may mean, and what to do. */
void unseen_hint(bool secured, struct buf *out);

#endif
