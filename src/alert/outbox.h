/* SPDX-License-Identifier: Apache-2.0
 * outbox.h: what is to be sent, durable in the database it speaks of, so that it
 * outlives the daemon that wrote it and is sent by whichever is there.
 *
 * A message is put in within the transaction of what it tells, once under its name;
 * a sender takes it under a lease, sends it, and notes the end. Between the sending
 * and the note a crash is possible: then it is sent again with the same id, by which
 * receivers tell.
 *
 * The documents that sinks make their messages of: message.h.
 */
#ifndef ALERT_OUTBOX_H
#define ALERT_OUTBOX_H

#include "store/store.h"

struct outgoing {
	const char *sink;     /* by its name in the configuration */
	const char *kind;     /* "alert", "report", "test" */
	const char *id;       /* unlike any other's for this sink: put in again it is ignored */
	const char *document; /* JSON: what the sink makes its message of */
	const char *topic;    /* messages of one topic reach the sink in their order; NULL: of none */
	const char *ended;    /* "sent": it is already, and only written down; NULL: to be sent */
};

/*
 * Whether the tables of alerts and messages are there; made, as all of the daemon's,
 * when `create` is set.
 */
MUST_CHECK defib_err outbox_ready(struct store *s, bool create, bool *there, struct failure *f);

/* Put messages in, inside the caller's transaction. */
MUST_CHECK defib_err outbox_put(struct store *s, const struct outgoing *all, int n, struct arena *a,
                                struct failure *f);

/* ---- sending ---- */

#define OUTBOX_GIVE_UP_US (INT64_C(24) * 3600 * 1000000) /* from when it was put in */
#define OUTBOX_WAIT_MAX_US (INT64_C(300) * 1000000)

/* What waits for a sink. */
struct outbox_line {
	const char *sink;
	int64_t waiting;
	int64_t due_us; /* in so long the first may be taken; not above 0: now */
};
MUST_CHECK defib_err outbox_lines(struct store *s, struct arena *a, struct outbox_line **out,
                                  int *n, struct failure *f);

/* A message in hand. */
struct delivery {
	int64_t seq, tries; /* tries: with this one; who comes with another is late */
	const char *kind, *id, *document;
	int64_t age_us; /* since it was put in */
};
/* The first that is due for a sink, ours for `lease_us`; *got is false when there is none. */
MUST_CHECK defib_err outbox_take(struct store *s, const char *sink, int64_t lease_us,
                                 struct arena *a, struct delivery *out, bool *got,
                                 struct failure *f);
/* It is over: "sent", "refused", "given up". */
MUST_CHECK defib_err outbox_end(struct store *s, const struct delivery *d, const char *how,
                                const char *answer, struct failure *f);
/* It is to be tried again. */
MUST_CHECK defib_err outbox_again(struct store *s, const struct delivery *d, int64_t wait_us,
                                  const char *answer, struct failure *f);
/* How long to wait after so many tries: full jitter, `chance` from 0 up to 1. */
int64_t outbox_wait_us(int64_t tries, double chance);
/* Messages that no daemon has a sink for are given up, those long over forgotten. */
MUST_CHECK defib_err outbox_tidy(struct store *s, struct failure *f);

/* ---- looking ---- */

struct delivery_row {
	int64_t seq, tries, made_us, due_us, ended_us; /* ended 0: not yet */
	const char *sink, *id, *kind, *answer, *ended; /* ended NULL: not yet */
	const char *document;
};
/* The newest, newest first. */
MUST_CHECK defib_err outbox_read(struct store *s, int limit, struct arena *a,
                                 struct delivery_row **out, int *n, struct failure *f);

#endif
