/* SPDX-License-Identifier: Apache-2.0
 * certain.h: what conditions and SET lists say for certain, without a database.
 *
 * Only `column = literal` is read, joined by AND: `status = 'queued' AND attempts < 3` says for
 * certain that status is 'queued'. All else is unknown, and proves nothing.
 */
#ifndef WATCH_CERTAIN_H
#define WATCH_CERTAIN_H

#include "store/store.h"

/* Whether no row can match both conditions. */
bool certain_apart(const char *one, const char *other, enum store_engine engine);
/* Whether no row matches the condition after the SET list, or each row does. */
bool certain_ends(const char *condition, const char *set, enum store_engine engine);
bool certain_makes(const char *condition, const char *set, enum store_engine engine);

#endif
