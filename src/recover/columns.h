/*
 * columns.h: comparing the columns of a row as the ledger keeps them, as JSON.
 */
#ifndef RECOVER_COLUMNS_H
#define RECOVER_COLUMNS_H

#include "base/mem.h"

#include <stdbool.h>

/*
 * Whether `now` still says what `expected` says, of the columns that both name:
 * a watch may have come to write more since, or fewer. When it does not,
 * *first (may be NULL) names the first column that differs and its value now.
 */
bool columns_same(const char *expected, const char *now, struct arena *a, const char **first);

#endif
