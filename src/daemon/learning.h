/* SPDX-License-Identifier: Apache-2.0
 * learning.h: what the daemon learns from a watch beside recovering its jobs: how
 * long runs take, and how many of its recoveries were mistakes. At most once a
 * minute, after a pass; nothing that fails here is a failure of the pass.
 */
#ifndef DAEMON_LEARNING_H
#define DAEMON_LEARNING_H

#include "ledger/mistakes.h"
#include "recover/bound.h"

struct learning {
	struct bound bound;
	bool counted;
	struct mistakes mistakes;
	int64_t due_ms, learn_ms; /* not before: CLOCK_BOOTTIME */
};

/* A session of its own for a moment, made of the database loop's: it gives up long before that
 * would. */
struct session learning_session(const struct session *session);
void learning_take(struct learning *l, const struct session *session, const struct watch *w,
                   bool ledger_off);
/* ,"false_positives":{…}, once they were counted */
void learning_info(const struct learning *l, struct buf *out);
/* The watch was read again: what was made of the old one is forgotten, what was counted is not. */
void learning_renew(struct learning *l);
void learning_release(struct learning *l);

#endif
