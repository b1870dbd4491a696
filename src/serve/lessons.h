/*
 * lessons.h: what the daemon learns from a watch beside recovering its jobs: how
 * long runs take, and how many of its recoveries were mistakes. At most once a
 * minute, after a pass; nothing that fails here is a failure of the pass.
 */
#ifndef SERVE_LESSONS_H
#define SERVE_LESSONS_H

#include "ledger/mistakes.h"
#include "recover/bound.h"

struct lessons {
	struct bound bound;
	bool counted;
	struct mistakes mistakes;
	int64_t due_ms, learn_ms; /* not before: CLOCK_BOOTTIME */
};

/* A session of its own for a moment, made of the station's: it gives up long before that would. */
struct session lessons_session(const struct session *session);
void lessons_take(struct lessons *l, const struct session *session, const struct watch *w,
                  bool ledger_off);
/* ,"false_positives":{…}, once they were counted */
void lessons_info(const struct lessons *l, struct buf *out);
/* The watch was read again: what was made of the old one is forgotten, what was counted is not. */
void lessons_renew(struct lessons *l);
void lessons_release(struct lessons *l);

#endif
