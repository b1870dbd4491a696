/* SPDX-License-Identifier: Apache-2.0
 * orders.h: whether a role may have what it orders.
 *
 * Some rows of defib's own tables make a program act: background acts and retries that are due. Who
 * may write to such a table is granted for all watches at once, and the program acts with its own
 * rights. So each of these rows names the role that wrote it (a trigger sets it), and the program
 * checks that this role could have done the same without it: that it has on the watched table, and
 * on what the watch reads and writes besides, the rights that `defib init --print --for act`
 * grants.
 *
 * The same holds for what undo finds in the ledger: each entry is sealed with the role that added
 * it.
 *
 * PostgreSQL only: whoever can write to an SQLite file can change every table in it.
 */
#ifndef LEDGER_ORDERS_H
#define LEDGER_ORDERS_H

#include "store/store.h"
#include "watch/watch.h"

/*
 * *refusal is NULL if it may, as the session's own role and a superuser always may; else it says
 * why not, in the arena. If remedies are more than SET lists, it cannot be known what a role would
 * need for them, and only the session's own role may.
 */
MUST_CHECK defib_err order_check(struct store *s, const struct watch *w, const char *role,
                                 struct arena *a, const char **refusal, struct failure *f);
/*
 * The same for an entry of the ledger that is undone. An undo writes columns of the watched table
 * and nothing else; and a role that was dropped since can order nothing any more.
 */
MUST_CHECK defib_err order_check_entry(struct store *s, const struct watch *w, const char *role,
                                       struct arena *a, const char **refusal, struct failure *f);

#endif
