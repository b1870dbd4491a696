/* SPDX-License-Identifier: Apache-2.0
 * states.h: what alerts read and write in the database: the ledger's counts, and the state of each
 * rule. A change and the
 * messages that follow from it are one transaction, and it is made only if the rule
 * still stands as its writer believed: of two that both believe to lead, one tells.
 */
#ifndef ALERT_STATES_H
#define ALERT_STATES_H

#include "alert/outbox.h"
#include "alert/rules.h"
#include "store/store.h"

struct alert_row {
	const char *watch, *rule; /* watch ALERT_ANY: of the database as a whole */
	int severity;             /* enum alert_severity */
	struct alert alert;
	const char *sentence, *topic, *holder;
};

/* All that were ever told of, in the order of their names; *now_us is the database's clock. */
MUST_CHECK defib_err states_read(struct store *s, struct arena *a, struct alert_row **out, int *n,
                                 int64_t *now_us, struct failure *f);

struct alert_write {
	struct alert_row row;
	struct alert before;
};
/*
 * All or nothing. *taken is false when one of them does not stand as `before` says: read
 * them again, and decide anew.
 */
MUST_CHECK defib_err states_write(struct store *s, const struct alert_write *writes, int n,
                                  const struct outgoing *messages, int nmessages, bool *taken,
                                  struct failure *f);

/* ---- what the ledger says happened ---- */

/*
 * For rules that count: behind a cursor, so that asking often costs nothing where nothing happened,
 * and from a day ago at first, so that a daemon that has just started knows of the hours before it.
 * What counts as what is told in ledger/events.h.
 */
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
