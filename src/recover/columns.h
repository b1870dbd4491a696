/* SPDX-License-Identifier: Apache-2.0
 * columns.h: comparing the columns of a row as the ledger keeps them, as JSON.
 */
#ifndef RECOVER_COLUMNS_H
#define RECOVER_COLUMNS_H

#include "store/store.h"

/* Some columns; `names` NULL: all. */
struct column_set {
	const char *const *names;
	int n;
};
/*
 * Whether `now` still says what `expected` says, of the columns that both and `only` name:
 * a watch may have come to write more since, or fewer. When it does not,
 * *first (may be NULL) names the first column that differs and its value now.
 */
bool columns_same(const char *expected, const char *now, const struct column_set *only,
                  struct arena *a, const char **first);
/*
 * The same of only those columns that an expression of the user's names. What is not known, on
 * either side, speaks against nothing.
 */
bool columns_same_in(const char *expression, enum store_engine engine, const char *expected,
                     const char *now);

#endif
