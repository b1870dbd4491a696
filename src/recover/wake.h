/* SPDX-License-Identifier: Apache-2.0
 * wake.h: the remedy of a watch whose jobs nobody starts: its workers may only have missed that
 * there is work. It is about the watch, not about single jobs, and changes no row of it.
 */
#ifndef RECOVER_WAKE_H
#define RECOVER_WAKE_H

#include "ledger/ledger.h"
#include "recover/late.h"

/*
 * Notify the channel of the watch, and record it, in one transaction; *woken: it was done. At most
 * once in wake.every, whichever daemon or scan does it.
 */
MUST_CHECK defib_err wake_workers(struct store *s, const struct watch *w, const struct ledger *l,
                                  const struct waiting_result *r, const char *actor, bool *woken,
                                  struct failure *f);

#endif
