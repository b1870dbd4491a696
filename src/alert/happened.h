/*
 * happened.h: what the ledger says happened, for rules that count: behind a cursor, so
 * that asking often costs nothing where nothing happened, and from the newest entries
 * at first, so that a daemon that has just started knows of the hours before it.
 */
#ifndef ALERT_HAPPENED_H
#define ALERT_HAPPENED_H

#include "alert/rules.h"
#include "store/store.h"

#define HAPPENED_ENTRIES 50000 /* that are looked at, at first */

struct happened {
	const char *watch;
	enum alert_counter what;
	int64_t at_us; /* to a minute, where many happened */
	double n;
};

/* What came after the cursor (0: the newest), which is moved on. No ledger: nothing. */
MUST_CHECK defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a,
                                   struct happened **out, int *n, struct failure *f);

#endif
