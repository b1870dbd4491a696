/* SPDX-License-Identifier: Apache-2.0
 * thread_sessions.h: what a thread of a request pool keeps between calls: a session that reads, one
 * that writes, and the watches that were bound in each. Sessions are opened when first needed; a
 * bound watch is valid for one session and one configuration.
 */
#ifndef HTTP_THREAD_SESSIONS_H
#define HTTP_THREAD_SESSIONS_H

#include "http/api.h"

#define BOUND_WATCHES_MAX 64

/* One session and what was bound in it. */
struct thread_sessions_side {
	struct session session;
	struct thread_sessions_watch *bound[BOUND_WATCHES_MAX];
	int nbound;
	int64_t opened; /* which opening of the session they belong to */
};

struct thread_sessions {
	struct thread_sessions_side reads, writes;
	struct live_settings_box *setups;
	struct live_settings *setup; /* that the cache belongs to; held; NULL: nothing is cached */
};

void thread_sessions_init(struct thread_sessions *s, struct live_settings_box *setups,
                          const char *url, const char *name, int64_t timeout_ms);
/* Gives the call its session, open. */
MUST_CHECK defib_err thread_sessions_take(struct thread_sessions *s, struct api_call *c,
                                          struct failure *f);
/* No call came for a while: drop everything. Also before a thread ends. */
void thread_sessions_rest(struct thread_sessions *s);

/* The watch of the call, bound and compiled, and kept for the next one. False after a problem. */
bool api_bound(struct api_call *c, struct api_watch **out);

#endif
