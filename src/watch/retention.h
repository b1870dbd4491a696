/* SPDX-License-Identifier: Apache-2.0
 * retention.h: how long defib keeps what it keeps, as the user described it. Plain
 * data; ledger/retention.h removes what is older.
 */
#ifndef WATCH_RETENTION_H
#define WATCH_RETENTION_H

#include "config/options.h"

struct retention {
	bool enabled;
	int64_t every_us;
	/* 0: for ever */
	int64_t done_us, failed_us, workers_us, leases_us, tokens_us, messages_us, learned_us,
		ledger_us;
};

extern const struct opt_row retention_rows[];
/* What is kept too short to be safe; `budget_us` is what the longest crash budget counts. */
void retention_check(struct cfg_reader *r, const struct retention *p, int64_t budget_us,
                     struct cfg_mark at);

#endif
