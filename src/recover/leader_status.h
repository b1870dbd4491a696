/* SPDX-License-Identifier: Apache-2.0
 * leader_status.h: what the leader of a watch last wrote about it, read from the database. Any
 * other process that recovers jobs of that watch after a single look checks its brake first.
 */
#ifndef RECOVER_LEADER_STATUS_H
#define RECOVER_LEADER_STATUS_H

#include "ledger/overrides.h"
#include "life/leader.h"

#include <jansson.h>

struct leader_status {
	const struct leader_row *leader; /* NULL: there never was a leader, or it stepped down */
	const struct status_row *status; /* NULL: no pass yet */
	json_t *info; /* from the status; NULL without one. Free it with json_decref() */
	bool leads;
	bool scanned;   /* a pass has ever finished … */
	int64_t ago_us; /* … this long ago */
	bool silent;    /* it leads, and has not finished a scan for too long */
};

/* Everything stored about leaders in one database. */
struct leader_rows {
	struct leader_row *leaders;
	struct status_row *statuses;
	int nleaders, nstatuses;
};
/* The tables must exist. */
MUST_CHECK defib_err leader_rows_read(struct store *s, struct arena *a, struct leader_rows *out,
                                      struct failure *f);
/* Whether a daemon leads, or led, this watch. */
bool leader_known(const struct leader_rows *rows, const char *watch);
struct leader_status leader_status_of(const struct leader_rows *rows, const char *watch);
/* How long a leader may go without a finished scan. */
int64_t leader_owed_us(int64_t every_us);

/*
 * DEFIB_REFUSED while the brake of the daemon that leads this watch is on: most of its workers fell
 * silent at once, and are more likely cut off than dead. `override` states how to recover them
 * anyway. If our tables cannot be read, no brake is assumed.
 */
MUST_CHECK defib_err brake_allows(struct store *s, const char *watch, const char *override,
                                  struct failure *f);

#endif
