/* SPDX-License-Identifier: Apache-2.0
 * trust.h: whose code runs with the rights of this role.
 *
 * Reading or writing a table runs code of its owner's: functions of index expressions (when a query
 * is planned) and policies, triggers, casts. PostgreSQL runs it as the role that reads. So a
 * superuser who reads the table of another role gives that role all rights. Any other role gives
 * its own: that is for who configures a watch to decide, but not for a program that looks for
 * queues in a whole database, where anybody may have created a table.
 *
 * DEFIB_REFUSED: a table, or a partition of it, belongs to another role, and this role is a
 * superuser or, unless the table was `chosen`, reading it would call functions that could do more
 * than compute.
 */
#ifndef SETUP_TRUST_H
#define SETUP_TRUST_H

#include "store/store.h"
#include "watch/watch.h"

MUST_CHECK defib_err trust_table(struct store *s, const char *table, bool chosen,
                                 struct failure *f);
/* The table of the watch, and the others that its SQL names. */
MUST_CHECK defib_err trust_watch(struct store *s, const struct watch *w, bool chosen,
                                 struct failure *f);

#endif
