/* SPDX-License-Identifier: Apache-2.0
 * alert_store.h: what alerts read and write in the database: messages that are to be sent, the
 * state of each rule, and what the ledger says happened.
 *
 * A message is stored in the database it is about, so that it outlives the daemon that wrote it and
 * is sent by whichever daemon is there. It is stored in the transaction of the change that it
 * reports, once under its id. A sender takes it under a lease, sends it, and records the end. After
 * a crash between the two it is sent again with the same id, by which receivers recognise it.
 *
 * A change of a rule's state and its messages are one transaction, which takes effect only if the
 * state is still as its writer read it: of two daemons that both believe to lead, one writes.
 * message.h describes the documents that sinks make their messages of.
 */
#ifndef ALERT_ALERT_STORE_H
#define ALERT_ALERT_STORE_H

#include "alert/rules.h"
#include "store/store.h"

/* ---- messages ---- */

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

/* ---- states of rules ---- */

struct alert_row {
	const char *watch, *rule; /* watch ALERT_ANY: of the database as a whole */
	int severity;             /* enum alert_severity */
	struct alert alert;
	const char *sentence, *topic, *holder;
};

/* All that were ever told of, in the order of their names; *now_us is the database's clock. */
MUST_CHECK defib_err states_read(struct store *s, struct arena *a, struct alert_row **out, int *n,
                                 int64_t *now_us, struct failure *f);

struct alert_write {
	struct alert_row row;
	struct alert before;
};
/*
 * All or nothing. *taken is false when one of them does not stand as `before` says: read
 * them again, and decide anew.
 */
MUST_CHECK defib_err states_write(struct store *s, const struct alert_write *writes, int n,
                                  const struct outgoing *messages, int nmessages, bool *taken,
                                  struct failure *f);

/* ---- what the ledger says happened ---- */

/*
 * For rules that count: behind a cursor, so that asking often costs nothing where nothing happened,
 * and from a day ago at first, so that a daemon that has just started knows of the hours before it.
 * What counts as what is told in ledger/events.h.
 */
struct happened {
	const char *watch;
	enum alert_counter what;
	int64_t at_us; /* to a minute, where many happened */
	double n;
};

/*
 * What came after the cursor (0: a day ago), which is moved on; *more: that was not all, and
 * the next call goes on. No ledger: nothing.
 */
MUST_CHECK defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a,
                                   struct happened **out, int *n, bool *more, struct failure *f);

#endif
