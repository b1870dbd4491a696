/* SPDX-License-Identifier: Apache-2.0
 * alert_loop_send.h: empties the outbox of alerts.
 */
#ifndef DAEMON_ALERT_LOOP_SEND_H
#define DAEMON_ALERT_LOOP_SEND_H

#include "daemon/alert_loop.h"

/* A finished one, removed from the list; NULL: none. `memory`: only such. */
struct sender *senders_next(struct senders *c, bool memory);
void sender_free(struct sender *one);
/* Those being sent are aborted. */
void senders_recall(struct senders *c);

/* Send what is due; returns how long until something may be. */
MUST_CHECK defib_err alert_loop_send(struct alert_loop *a, int64_t *wait_ms, struct failure *f);
/* The same for memos, which need no database. */
void alert_loop_send_memos(struct alert_loop *a);
/* Record the results of finished senders. */
MUST_CHECK defib_err alert_loop_collect(struct alert_loop *a, struct failure *f);

#endif
