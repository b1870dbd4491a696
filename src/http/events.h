/* SPDX-License-Identifier: Apache-2.0
 * events.h: GET /api/v1/events: what happens, as it happens (server-sent events).
 *
 *   ledger    an entry, once it is committed: what `defib ledger --json` prints
 *   watch     state of a watch: all of them at first, then each that changed, at most
 *             once a second
 *   database  its ledger can be read (up, back) or not (away)
 *   gap       entries that are not sent, because there are too many
 *
 * The id of an event is a cursor over all ledgers (event_stream.h). A client that reconnects with
 * it receives the events it missed, from the ledger itself: nothing is stored for it, and any
 * daemon can continue where another ended.
 *
 * While there are clients, one thread per database (ledger_tail.c) reads its ledger, each entry
 * once for all clients that are up to date. Other clients (reconnected or slow) are served from
 * their own place, page by page.
 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include "http/event_stream.h"
#include "http/server.h"

#include <pthread.h>

#define EVENT_STREAMS_MAX 200 /* and never more than half of http: max_connections */
#define EVENT_STREAMS_SHARE 4 /* one token has at most a fourth of them */

/* Starts no thread and queries no database before the first client. */
struct events *events_new(struct live_settings_box *setups, struct overview *overview);
/* After the HTTP server stopped, so that no client is left. */
void events_free(struct events *e);
int events_listeners(struct events *e);

/*
 * ---- what its threads share ----
 * The clients, under one lock that is never held while waiting for a database or a socket.
 */

struct listener {
	struct listener *next;
	struct events *events;
	struct http_stream *http; /* NULL: in tests */
	int64_t setup;            /* number of the configuration that admitted it */
	char *actor;              /* whose token it has */
	struct event_stream stream;
};

/* How many streams one token has. */
struct stream_owner {
	char *actor;
	int n;
};

/* The state of a watch when it was last sent. */
struct sent_watch {
	char *database, *name, *json;
};

struct events {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a client arrived or has room again, or the end */
	struct live_settings_box *setups;
	struct overview *overview;
	struct listener *first;
	int n; /* listeners, and those about to join */
	struct stream_owner *owners;
	int nowners;
	bool stop;
	struct tailer **tailers;
	int ntailers;
	bool ticking;
	pthread_t ticker;
	int64_t started_ms;
	/* private to the ticker */
	struct sent_watch *sent;
	int nsent;
	const struct watch *builtin[2]; /* by enum store_engine */
	struct arena keep;              /* of these */
};

/* A client begins: it is in the list, and threads run. */
void events_join(struct events *e, struct listener *l);
void events_leave(struct events *e, struct listener *l);
/* With the lock held: there may be something to send. */
void listener_wake(struct listener *l);
/* Wait, with the lock held, until something changes or the time is over. */
void events_wait(struct events *e, int64_t ms);

#endif
