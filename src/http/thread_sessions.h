/* SPDX-License-Identifier: Apache-2.0
 * thread_sessions.h: what a thread of a request pool keeps between calls: a session that reads, one
 * that writes, and the watches that were bound to each. Sessions are opened when first needed; a
 * bound watch is good for one session and one configuration.
 */
#ifndef HTTP_THREAD_SESSIONS_H
#define HTTP_THREAD_SESSIONS_H

#include "http/api.h"

#define SEAT_WATCHES_MAX 64

/* One session and what was bound in it. */
struct thread_sessions_side {
	struct session session;
	struct thread_sessions_watch *kept[SEAT_WATCHES_MAX];
	int nkept;
	int64_t opened; /* which opening of the session they belong to */
};

struct thread_sessions {
	struct thread_sessions_side reads, writes;
	struct live_settings_box *setups;
	struct live_settings *setup; /* what is kept belongs to; held; NULL: nothing is kept */
};

void thread_sessions_init(struct thread_sessions *s, struct live_settings_box *setups,
                          const char *url, const char *name, int64_t timeout_ms);
/* Gives the call its session, open. */
MUST_CHECK defib_err thread_sessions_take(struct thread_sessions *s, struct api_call *c,
                                          struct failure *f);
/* Nobody has come for a while: keep nothing. Also before a seat is given up. */
void thread_sessions_rest(struct thread_sessions *s);

#endif
