/*
 * outbox.h: what is to be sent, durable in the database it speaks of, so that it
 * outlives the daemon that wrote it and is sent by whichever is there.
 *
 * A message is put in within the transaction of what it tells, once under its name;
 * a sender takes it under a lease, sends it, and notes the end. Between the sending
 * and the note a crash is possible: then it is sent again with the same id, by which
 * receivers tell.
 */
#ifndef ALERT_OUTBOX_H
#define ALERT_OUTBOX_H

#include "store/store.h"

struct outgoing {
	const char *sink;     /* by its name in the configuration */
	const char *kind;     /* "alert", "report", "test" */
	const char *id;       /* unlike any other's for this sink: put in again it is ignored */
	const char *document; /* JSON: what the sink makes its message of */
};

/* Put messages in, inside the caller's transaction. */
MUST_CHECK defib_err outbox_put(struct store *s, const struct outgoing *all, int n, struct arena *a,
                                struct failure *f);

#endif
