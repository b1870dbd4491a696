/* SPDX-License-Identifier: Apache-2.0
 * sinks.h: a message on its way to a receiver: one try, bounded in time and in what is
 * read, and what became of it.
 */
#ifndef ALERT_SINKS_H
#define ALERT_SINKS_H

#include "alert/alerts.h"

#include <stdatomic.h>

struct sink_call {
	const struct alert_sink *sink;
	const char *kind, *id;
	const char *document;    /* JSON (message.h) */
	const atomic_bool *stop; /* end at once when it becomes true; NULL: never */
};

enum sink_end {
	SINK_SENT,
	SINK_AGAIN,   /* not now, perhaps later */
	SINK_REFUSED, /* never as it is */
};

struct sink_answer {
	enum sink_end how;
	int64_t wait_us; /* the receiver wants us to wait; 0: it did not say */
	char text[256];  /* what it answered, in a line; never a secret of ours */
};

/* One try. From any thread. */
void sink_send(const struct sink_call *c, struct sink_answer *out);

/* A test message, now. Receivers that keep what fires open are told that it is over, too. */
void sink_test(const struct alert_sink *sink, const char *source, int64_t at_us,
               struct sink_answer *out);
extern const char *const sink_ends[]; /* "sent", "try again", "refused" */

#endif
