/* SPDX-License-Identifier: Apache-2.0
 * retries.h: the second half of a retry in two phases: when its wait is over,
 * the job is made to run again, if it is still as the first half left it.
 */
#ifndef RECOVER_RETRIES_H
#define RECOVER_RETRIES_H

#include "recover/carry.h"

/*
 * Fire all retries of the carrier's watch that are due by the database's
 * clock. A job that somebody has changed since keeps what it has; the ledger
 * says so, and its retry is over. `page` is scratch. Adds to *fired.
 */
MUST_CHECK defib_err retries_fire(struct carrier *c, struct arena *page, int64_t *fired,
                                  struct failure *f);

#endif
