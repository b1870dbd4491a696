/*
 * database_loop_tables.h: the daemon's own tables in a database, where its role may have them.
 */
#ifndef DAEMON_DATABASE_LOOP_TABLES_H
#define DAEMON_DATABASE_LOOP_TABLES_H

#include "daemon/database_loop.h"

/*
 * Find or make them, and set s->tables. A role that may neither make nor use them has them made
 * by a DBA: until then the watches are looked after without, and what is off is said once.
 */
MUST_CHECK defib_err database_loop_tables(struct database_loop *s, struct failure *f);

#endif
