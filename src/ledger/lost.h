/* SPDX-License-Identifier: Apache-2.0
 * lost.h: how long a job had been without its worker when something was done about it, in the
 * SQL of whoever adds up the ledger (reports, alerts, the demo).
 */
#ifndef LEDGER_LOST_H
#define LEDGER_LOST_H

#include "base/buf.h"
#include "store/store.h"

/*
 * Seconds from `lost_at` in the evidence of an entry `l` to a moment (an expression of the
 * ledger's type of time), to the millisecond, never less than 0; null where it is not known. An
 * entry that is older than `lost_at` has its signs of life, of which a deadline counts only when it
 * was over.
 */
void sql_seconds_lost(const char *until, struct buf *out);
/* The same to the reading that found the job stuck. */
void sql_seconds_to_detection(struct buf *out);

#endif
