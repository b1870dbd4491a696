/* SPDX-License-Identifier: Apache-2.0
 * database_loop_leader.h: which of its watches a database loop leads (life/leader.h).
 */
#ifndef DAEMON_DATABASE_LOOP_LEADER_H
#define DAEMON_DATABASE_LOOP_LEADER_H

#include "daemon/database_loop.h"

void database_loop_show_watch(struct database_loop *s, const struct watch_loop *p);
void database_loop_show_database(struct database_loop *s, const struct failure *f);

/* Renew what is led and ask for the rest; logs changes. */
MUST_CHECK defib_err database_loop_ask_to_lead(struct database_loop *s, struct failure *f);
/* The database is unavailable: nothing is led until it is asked again. */
void database_loop_step_down(struct database_loop *s);

/*
 * Find or create them, and set s->tables. If the role may neither create nor use them, a DBA must
 * create them: until then the watches are scanned without them, and what is off is logged once.
 */
MUST_CHECK defib_err database_loop_tables(struct database_loop *s, struct failure *f);

#endif
