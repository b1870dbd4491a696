/* SPDX-License-Identifier: Apache-2.0
 * unseen.h: what can be told, cheaply, of a watch that sees no running row. It may be that nothing
 * runs; or `running` asks for what is never there, or row-level security hides the rows.
 */
#ifndef RECOVER_UNSEEN_H
#define RECOVER_UNSEEN_H

#include "watch/compile.h"

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
