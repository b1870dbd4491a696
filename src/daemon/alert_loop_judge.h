/* SPDX-License-Identifier: Apache-2.0
 * alert_loop_judge.h: evaluates the rules of alerts, with and without the database.
 */
#ifndef DAEMON_ALERT_LOOP_JUDGE_H
#define DAEMON_ALERT_LOOP_JUDGE_H

#include "daemon/alert_loop.h"

/* Evaluate the rules, with and without the database. */
MUST_CHECK defib_err alert_loop_judge(struct alert_loop *a, struct failure *f);
void alert_loop_judge_away(struct alert_loop *a);

void alert_loop_forget_memos(struct alert_loop *a);

#endif
