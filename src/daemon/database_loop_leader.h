/* SPDX-License-Identifier: Apache-2.0
 * database_loop_leader.h: which of its watches a database loop leads (life/leader.h).
 */
#ifndef DAEMON_DATABASE_LOOP_LEADER_H
#define DAEMON_DATABASE_LOOP_LEADER_H

#include "daemon/database_loop.h"

/* Renew what is led and ask for what is not; says in the log what turns. */
MUST_CHECK defib_err database_loop_ask_to_lead(struct database_loop *s, struct failure *f);
/* The database is away: nothing is led until it was asked again. */
void database_loop_step_down(struct database_loop *s);

/*
 * Find or make them, and set s->tables. A role that may neither make nor use them has them made
 * by a DBA: until then the watches are looked after without, and what is off is said once.
 */
MUST_CHECK defib_err database_loop_tables(struct database_loop *s, struct failure *f);

#endif
