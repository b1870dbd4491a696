/* SPDX-License-Identifier: Apache-2.0
 * learning.h: what a daemon learns of a watch it leads: how long its runs take, and how many of its
 * recoveries were mistakes. At most once a minute, after a pass; a failure here is not a failure of
 * the pass.
 */
#ifndef DAEMON_LEARNING_H
#define DAEMON_LEARNING_H

#include "ledger/counts.h"
#include "recover/bound.h"

struct learning {
	struct bound bound;
	bool counted;
	struct mistakes mistakes;
	int64_t due_ms, learn_ms; /* not before: CLOCK_BOOTTIME */
};

/* A short session with the options of the database loop's own, but much lower time limits. */
struct session learning_session(const struct session *session);

void learning_take(struct learning *l, const struct session *session, const struct watch *w,
                   bool ledger_off);
/* The watch was reloaded: what was made from the old one is dropped, counts are kept. */
void learning_renew(struct learning *l);

#endif
