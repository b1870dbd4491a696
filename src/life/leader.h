/* SPDX-License-Identifier: Apache-2.0
 * leader.h: elects one leader per watch among several daemons. Leadership is a short lease in the
 * database: a leader that is killed, stopped or cut off loses it within LEADER_LEASE_MS, and the
 * next daemon that asks gets it. The rows of a daemon share one expiry: while one is in force, all
 * are, so it renews one row however many watches it leads. If a stopped daemon wakes up, two may
 * briefly consider themselves the leader. That does no harm, because every write is guarded.
 */
#ifndef LIFE_LEADER_H
#define LIFE_LEADER_H

#include "store/store.h"

#define LEADER_RENEW_MS 400
#define LEADER_LEASE_MS 1400

/*
 * Ask to become or stay leader of each watch; leads[i] is the answer, valid for LEADER_LEASE_MS
 * from before the call. One short transaction.
 */
MUST_CHECK defib_err leader_ask(struct store *s, const char *holder, const char *const *watches,
                                int n, bool *leads, struct failure *f);
/*
 * Renew the leadership of everything that `holder` leads, through its row for this watch. *held is
 * how many watches these are, as of before the call; 0: the lease had expired, and all must be
 * asked for again. Always 0 on SQLite.
 */
MUST_CHECK defib_err leader_renew(struct store *s, const char *holder, const char *watch,
                                  int64_t *held, struct failure *f);
/* Step down from all watches at a clean exit, so that others need not wait. */
MUST_CHECK defib_err leader_leave(struct store *s, const char *holder, struct failure *f);
/* Step down from a watch that is no longer configured. */
MUST_CHECK defib_err leader_leave_watch(struct store *s, const char *holder, const char *watch,
                                        struct failure *f);

struct leader_row {
	const char *watch, *holder;
	int64_t since_us, led_us; /* since when, and for how long by the database's clock */
	int64_t expires_us;       /* of the holder's lease; changes with each renewal */
	bool leads;               /* its lease is in force */
};
/* Current and previous leaders; the tables must exist. */
MUST_CHECK defib_err leader_read(struct store *s, struct arena *a, struct leader_row **out, int *n,
                                 struct failure *f);

#endif
