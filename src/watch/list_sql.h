/* SPDX-License-Identifier: Apache-2.0
 * list_sql.h: one statement for a list of a watch's jobs.
 *
 * It yields keys, states and what the rows are sorted by; the facts of those jobs are read by look.
 * Pages continue behind the last row's sort value and key, never by counting rows. Rows without a
 * sort value come last, as a part of their own, so that each part is a plain comparison that an
 * index can serve.
 */
#ifndef WATCH_LIST_SQL_H
#define WATCH_LIST_SQL_H

#include "watch/compile.h"
#include "watch/terms.h"

/* What entries of the ledger and holds are called in the statement. */
#define LIST_ENTRY "defib_l"

enum list_sort { LIST_BY_KEY, LIST_BY_AGE, LIST_BY_STATE };
extern const char *const list_sort_names[]; /* ends with NULL */

struct list_query {
	const struct term *terms;
	int nterms;
	enum list_sort sort; /* by age: the oldest first */
	bool desc;
	bool unsorted;                  /* the part without a sort value */
	const struct store_param *keys; /* only these: a keys_relation's; NULL: all */
	int nkeys;
	bool after; /* behind … */
	const char *after_sort, *after_key[WATCH_KEYS_MAX];
	bool windowed;    /* only rows with a key up to … */
	bool window_desc; /* … or down to … */
	const char *window_key[WATCH_KEYS_MAX];
	int64_t limit;
	bool ledger;           /* whether there is one; without it nothing was held or recovered */
	const char *recovered; /* with a ledger: that its entry LIST_ENTRY counts as a recovery */
};

#define LIST_PARAMS_MAX (RELATION_COLUMNS_MAX + TERMS_MAX * 8 + 2 * WATCH_KEYS_MAX + 2)
struct list_statement {
	struct buf sql;
	struct store_param params[LIST_PARAMS_MAX];
	int nparams;
};

/* Columns: the key's parts, the state, the sort value, since when; all as text or null. */
void list_sql(const struct binding *b, const struct list_query *l, struct list_statement *out);
/*
 * The key of the row with which a window of so many rows ends, in the order of keys: behind
 * `after` where the list itself is in that order. A second row tells that there are more.
 */
void list_window_sql(const struct binding *b, const struct list_query *l, int64_t rows,
                     struct list_statement *out);

/* Whether a list in this order has rows without a sort value, as a part of its own. */
bool list_has_parts(const struct binding *b, enum list_sort sort);
/*
 * The order in which a list is asked for, where another costs less and says the same: jobs of
 * the built-in queue have keys that grow with their age. What runs is few, and sorted itself: a
 * walk in the order of keys would go through all that ended to find it.
 */
enum list_sort list_cheapest_sort(const struct binding *b, enum list_sort sort,
                                  const struct term *terms, int nterms);

/* A row's state: what the watch says, else the column that `running` starts with; false: none. */
bool state_sql(const struct binding *b, struct buf *out);
/* Since when a row is as old as it is, in microseconds. */
void since_sql(const struct binding *b, struct buf *out);

#endif
