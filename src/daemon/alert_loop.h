/* SPDX-License-Identifier: Apache-2.0
 * alert_loop.h: alerts of one database, in the daemon: a thread and a session of its own, so
 * that neither a sink nor a statement of ours ever keeps a scan waiting.
 *
 * The database loop tells it after each round how the watches are (alert_loop_round()). Every
 * `alerts.every` it asks the rules of those that this daemon leads, writes changes and
 * their messages in one transaction, and sends what is due, also what others left.
 * While the database itself is away, the alert that says so is made and sent from
 * memory, and written down when it is back.
 *
 * alert_loop.c        the thread; what the database loop tells
 * alert_loop_judge.c  asking the rules, with the database and without it
 * alert_loop_send.c   emptying the outbox
 */
#ifndef DAEMON_ALERT_LOOP_H
#define DAEMON_ALERT_LOOP_H

#include "daemon/daemon.h"
#include "daemon/watch_loop.h"

struct alert_loop;
/* For the database of that name; `url` and options must outlive it. */
struct alert_loop *alert_loop_start(const struct daemon_options *o, const char *database,
                                    const char *url);
/* A round of the database loop is over. `up`: the database answered. */
void alert_loop_round(struct alert_loop *a, struct watch_loop *const *loops, int n, bool up);
/* Ask it to stop, then wait for it: messages on their way have a moment. */
void alert_loop_ask_stop(struct alert_loop *a);
void alert_loop_end(struct alert_loop *a);

#endif
