/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_update.h: what a script of SQLite cannot say of tables that are there already. */
#ifndef STORE_SQLITE_UPDATE_H
#define STORE_SQLITE_UPDATE_H

#include "store/store.h"

/* Bring the tables of the built-in queue up to date, behind their script. */
MUST_CHECK defib_err sqlite_update_queue(struct store *s, struct failure *f);

#endif
