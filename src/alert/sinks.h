/* SPDX-License-Identifier: Apache-2.0
 * sinks.h: sends a message to a receiver: one try, bounded in time and in the size of the reply,
 * and its result.
 */
#ifndef ALERT_SINKS_H
#define ALERT_SINKS_H

#include "alert/alerts.h"

#include <stdatomic.h>

struct sink_call {
	const struct alert_sink *sink;
	const char *kind, *id;
	const char *document;    /* JSON (message.h) */
	const atomic_bool *stop; /* stop at once when it becomes true; NULL: never */
};

enum sink_end {
	SINK_SENT,
	SINK_AGAIN,   /* failed, may succeed later */
	SINK_REFUSED, /* will never succeed unchanged */
};

struct sink_answer {
	enum sink_end how;
	int64_t wait_us; /* how long the receiver asked us to wait; 0: it did not */
	char text[256];  /* the reply, on one line; never contains a secret of ours */
};

/* One try. From any thread. */
void sink_send(const struct sink_call *c, struct sink_answer *out);

/* Send a test message now. Receivers that keep firing alerts open also get the resolved message. */
void sink_test(const struct alert_sink *sink, const char *source, int64_t at_us,
               struct sink_answer *out);
extern const char *const sink_ends[]; /* "sent", "try again", "refused" */

#endif
