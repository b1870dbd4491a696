/* SPDX-License-Identifier: Apache-2.0
 * list_sql.h: the statement that lists jobs of a watch.
 *
 * It returns keys, states and sort values; look reads the facts of those jobs. A page continues
 * after the sort value and key of the last row, never by counting rows. Rows without a sort value
 * come last, as a separate part, so that each part is a plain comparison that can use an index.
 */
#ifndef WATCH_LIST_SQL_H
#define WATCH_LIST_SQL_H

#include "watch/compile.h"
#include "watch/terms.h"

/* Aliases of ledger entries and holds in the statement. */
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
	bool after; /* after … */
	const char *after_sort, *after_key[WATCH_KEYS_MAX];
	/*
	 * In key order instead of another, which took too long: the rows that come after `after` of
	 * that list; NULL: all.
	 */
	bool by_key;
	const struct list_query *rest_of;
	/* In key order: only rows up to these keys in the list's direction; NULL: to the end. */
	const char *const *window, *const *up_to;
	int64_t limit;
	bool ledger; /* whether the ledger exists; without it nothing was held or recovered */
	const char
		*recovered; /* with a ledger: the condition that its entry LIST_ENTRY is a recovery */
};

#define LIST_PARAMS_MAX (RELATION_COLUMNS_MAX + TERMS_MAX * 10 + 4 * WATCH_KEYS_MAX + 3)
struct list_statement {
	struct buf sql;
	struct store_param params[LIST_PARAMS_MAX];
	int nparams;
};

/* Columns: the key's parts, the state, the sort value, since when; all as text or null. */
void list_sql(const struct binding *b, const struct list_query *l, struct list_statement *out);
/*
 * The key of the last row of a window of this many rows, in key order, after `after` if the list is
 * in key order. A second row means that there are more.
 */
void list_window_sql(const struct binding *b, const struct list_query *l, int64_t rows,
                     struct list_statement *out);

/* Whether a list in this order has rows without a sort value, as a separate part. */
bool list_has_parts(const struct binding *b, enum list_sort sort);
/*
 * The order to use for a list, if another order is cheaper and equivalent: jobs of the built-in
 * queue have keys that grow with time. Running jobs are few and are sorted directly: reading in key
 * order would pass over all ended jobs to find them.
 */
enum list_sort list_cheapest_sort(const struct binding *b, enum list_sort sort,
                                  const struct term *terms, int nterms);

/*
 * A row's state: as the watch defines it, else the column that `running` starts with; false: none.
 */
bool state_sql(const struct binding *b, struct buf *out);
/* The instant from which a row's age counts, in microseconds. */
void since_sql(const struct binding *b, struct buf *out);

#endif
