/*
 * station_tables.h: the daemon's own tables in a database, where its role may have them.
 */
#ifndef SERVE_STATION_TABLES_H
#define SERVE_STATION_TABLES_H

#include "serve/station.h"

/*
 * Find or make them, and set s->tables. A role that may neither make nor use them has them made
 * by a DBA: until then the watches are looked after without, and what is off is said once.
 */
MUST_CHECK defib_err station_tables(struct station *s, struct failure *f);

#endif
