/* SPDX-License-Identifier: Apache-2.0
 * happened.h: what the ledger says happened, for rules that count: behind a cursor, so
 * that asking often costs nothing where nothing happened, and from a day ago at first, so
 * that a daemon that has just started knows of the hours before it. What counts as what is
 * told in ledger/events.h.
 */
#ifndef ALERT_HAPPENED_H
#define ALERT_HAPPENED_H

#include "alert/rules.h"
#include "store/store.h"

struct happened {
	const char *watch;
	enum alert_counter what;
	int64_t at_us; /* to a minute, where many happened */
	double n;
};

/*
 * What came after the cursor (0: a day ago), which is moved on; *more: that was not all, and
 * the next call goes on. No ledger: nothing.
 */
MUST_CHECK defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a,
                                   struct happened **out, int *n, bool *more, struct failure *f);

#endif
