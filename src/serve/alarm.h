/*
 * alarm.h: alerts of one database, in the daemon: a thread and a session of its own, so
 * that neither a sink nor a statement of ours ever keeps a scan waiting.
 *
 * The station tells it after each round how the watches are (alarm_round()). Every
 * `alerts.every` it asks the rules of those that this daemon leads, writes changes and
 * their messages in one transaction, and sends what is due, also what others left.
 * While the database itself is away, the alert that says so is made and sent from
 * memory, and written down when it is back.
 *
 * alarm.c        the thread; what the station tells
 * alarm_judge.c  asking the rules, writing what changed
 * alarm_away.c   the same without a database
 * alarm_send.c   emptying the outbox
 * courier.c      messages on their way
 */
#ifndef SERVE_ALARM_H
#define SERVE_ALARM_H

#include "serve/daemon.h"
#include "serve/post.h"

struct alarm;
/* For the database of that name; `url` and options must outlive it. */
struct alarm *alarm_start(const struct daemon_options *o, const char *database, const char *url);
/* A round of the station is over. `up`: the database answered. */
void alarm_round(struct alarm *a, struct post *const *posts, int n, bool up);
/* Ask it to stop, then wait for it: messages on their way have a moment. */
void alarm_ask_stop(struct alarm *a);
void alarm_end(struct alarm *a);

#endif
