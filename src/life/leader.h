/* SPDX-License-Identifier: Apache-2.0
 * leader.h: of several daemons one leads each watch. Leadership is a short lease in
 * the database: a leader that is killed, stopped or cut off loses it within
 * LEADER_LEASE_MS, and the next daemon that asks gets it. A daemon's rows hold together: while one
 * is in force, all are, so it renews one row however many watches it leads. Two daemons that both
 * take themselves for the leader, when a stopped one wakes up, do no harm: every write is guarded.
 */
#ifndef LIFE_LEADER_H
#define LIFE_LEADER_H

#include "store/store.h"

#define LEADER_RENEW_MS 400
#define LEADER_LEASE_MS 1400

/*
 * Ask to lead each of the watches, or to go on leading; leads[i] is the answer,
 * valid for LEADER_LEASE_MS from before the call. One short transaction.
 */
MUST_CHECK defib_err leader_ask(struct store *s, const char *holder, const char *const *watches,
                                int n, bool *leads, struct failure *f);
/*
 * Go on leading all that `holder` leads, by its row of this watch: *held is how many these are, as
 * of before the call; 0: its time was over, and all must be asked for. Always 0 on SQLite.
 */
MUST_CHECK defib_err leader_renew(struct store *s, const char *holder, const char *watch,
                                  int64_t *held, struct failure *f);
/* Step down from all, at a clean exit: others need not wait. */
MUST_CHECK defib_err leader_leave(struct store *s, const char *holder, struct failure *f);
/* Step down from one that is no longer watched. */
MUST_CHECK defib_err leader_leave_watch(struct store *s, const char *holder, const char *watch,
                                        struct failure *f);

struct leader_row {
	const char *watch, *holder;
	int64_t since_us, led_us; /* since when, and how long that is by the database's clock */
	int64_t expires_us;       /* of the holder's lease; changes with each renewal */
	bool leads;               /* its lease is in force */
};
/* Who leads, and who led last; the tables must be there. */
MUST_CHECK defib_err leader_read(struct store *s, struct arena *a, struct leader_row **out, int *n,
                                 struct failure *f);

#endif
