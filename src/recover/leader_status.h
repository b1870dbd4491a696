/* SPDX-License-Identifier: Apache-2.0
 * leader_status.h: what the leader of a watch has last written of it, read from the database. Its
 * brake is asked before anybody else recovers that watch's jobs in one look.
 */
#ifndef RECOVER_LEADER_STATUS_H
#define RECOVER_LEADER_STATUS_H

#include "ledger/overrides.h"
#include "life/leader.h"

#include <jansson.h>

struct leader_status {
	const struct leader_row *leader; /* NULL: nobody ever led, or the leader stepped down */
	const struct status_row *status; /* NULL: no pass yet */
	json_t *info;                    /* of the status; NULL without. Free it with json_decref() */
	bool leads;
	bool scanned;   /* a pass has ever finished … */
	int64_t ago_us; /* … so long ago */
	bool silent;    /* it leads, and has finished no scan for too long */
};

/* All that is stored of leaders in one database. */
struct leader_rows {
	struct leader_row *leaders;
	struct status_row *statuses;
	int nleaders, nstatuses;
};
/* The tables must be there. */
MUST_CHECK defib_err leader_rows_read(struct store *s, struct arena *a, struct leader_rows *out,
                                      struct failure *f);
/* Whether a daemon has, or had, this watch. */
bool leader_known(const struct leader_rows *rows, const char *watch);
struct leader_status leader_status_of(const struct leader_rows *rows, const char *watch);
/* How long a leader may go without a finished scan. */
int64_t leader_owed_us(int64_t every_us);

/*
 * DEFIB_REFUSED while the brake of the daemon that leads this watch is on: most of its workers fell
 * silent at once, and are more likely cut off than dead. `override` says how to recover them all
 * the same. Where our tables cannot be read, no brake is known of.
 */
MUST_CHECK defib_err brake_allows(struct store *s, const char *watch, const char *override,
                                  struct failure *f);

#endif
