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
 * state is still as its writer read it: if two daemons both believe that they lead, only one
 * writes. message.h describes the documents from which sinks make their messages.
 */
#ifndef ALERT_ALERT_STORE_H
#define ALERT_ALERT_STORE_H

#include "alert/rules.h"
#include "watch/settings.h"

/* ---- messages ---- */

struct outgoing {
	const char *sink;     /* by its name in the configuration */
	const char *kind;     /* "alert", "report", "test" */
	const char *id;       /* unique for this sink: adding it again is ignored */
	const char *document; /* JSON: the sink makes its message from it */
	const char *topic;    /* messages of one topic reach the sink in order; NULL: no topic */
	const char *ended;    /* "sent": it was already sent and is only recorded; NULL: to be sent */
};

/*
 * Whether the tables of alerts and messages exist; with `create`, they are created with the other
 * tables of the daemon.
 */
MUST_CHECK defib_err outbox_ready(struct store *s, bool create, bool *there, struct failure *f);

/* Add messages, inside the caller's transaction. */
MUST_CHECK defib_err outbox_put(struct store *s, const struct outgoing *all, int n, struct arena *a,
                                struct failure *f);

/* ---- sending ---- */

#define OUTBOX_GIVE_UP_US (INT64_C(24) * 3600 * 1000000) /* counted from when it was added */
#define OUTBOX_WAIT_MAX_US (INT64_C(300) * 1000000)

/* What waits for a sink. */
struct outbox_line {
	const char *sink;
	int64_t waiting;
	int64_t due_us; /* until the first may be taken; 0 or less: now */
};
MUST_CHECK defib_err outbox_lines(struct store *s, struct arena *a, struct outbox_line **out,
                                  int *n, struct failure *f);

/* A message that was taken for sending. */
struct delivery {
	int64_t seq, tries; /* tries: including this one; a report with another number is too late */
	const char *kind, *id, *document;
	int64_t age_us; /* since it was added */
};
/* The first message due for a sink, leased for `lease_us`; *got is false if there is none. */
MUST_CHECK defib_err outbox_take(struct store *s, const char *sink, int64_t lease_us,
                                 struct arena *a, struct delivery *out, bool *got,
                                 struct failure *f);
/* It is finished: "sent", "refused", "given up". */
MUST_CHECK defib_err outbox_end(struct store *s, const struct delivery *d, const char *how,
                                const char *answer, struct failure *f);
/* It will be tried again. */
MUST_CHECK defib_err outbox_again(struct store *s, const struct delivery *d, int64_t wait_us,
                                  const char *answer, struct failure *f);
/* How long to wait after this many tries: full jitter, `chance` from 0 up to 1. */
int64_t outbox_wait_us(int64_t tries, double chance);
/* Give up messages for which no daemon has a sink, and delete old finished ones. */
MUST_CHECK defib_err outbox_tidy(struct store *s, struct failure *f);

/* ---- reading ---- */

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

/* All that ever fired, sorted by name; *now_us is the database's clock. */
MUST_CHECK defib_err states_read(struct store *s, struct arena *a, struct alert_row **out, int *n,
                                 int64_t *now_us, struct failure *f);

struct alert_write {
	struct alert_row row;
	struct alert before;
};
/*
 * All or nothing. *taken is false if one of them is not as `before` says: read them again and
 * decide again.
 */
MUST_CHECK defib_err states_write(struct store *s, const struct alert_write *writes, int n,
                                  const struct outgoing *messages, int nmessages, bool *taken,
                                  struct failure *f);

/* ---- what people see of both ---- */

/* A rule that applies to a watch, and its state. */
struct alert_status {
	struct alert_rule rule;
	const char *database, *watch; /* watch ALERT_ANY: the database as a whole */
	struct text_list sinks;       /* where its messages go */
	const struct alert_row *row;  /* NULL: it never fired */
};

/*
 * All rules for a database's watches, and for itself; rows of watches that are not configured (the
 * built-in queue) are included. The tables may be missing.
 */
MUST_CHECK defib_err alerts_read(struct store *s, const struct settings *all,
                                 const struct database *d, struct arena *a,
                                 struct alert_status **out, int *n, struct failure *f);
/* The newest messages; the tables may be missing. */
MUST_CHECK defib_err deliveries_of(struct store *s, int limit, struct arena *a,
                                   struct delivery_row **out, int *n, struct failure *f);

/* ---- what the ledger says happened ---- */

/*
 * For rules that count. It reads after a cursor, so that frequent calls cost nothing if nothing
 * happened. The first call begins one day back, so that a daemon that has just started knows the
 * hours before. ledger/events.h defines what counts as what.
 */
struct happened {
	const char *watch;
	enum alert_counter what;
	int64_t at_us; /* to the minute, if there were many */
	double n;
};

/*
 * Entries after the cursor (0: one day ago), which moves forward; *more: there are more, for the
 * next call. Without a ledger: nothing.
 */
MUST_CHECK defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a,
                                   struct happened **out, int *n, bool *more, struct failure *f);

#endif
