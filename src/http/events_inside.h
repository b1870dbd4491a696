/* SPDX-License-Identifier: Apache-2.0
 * events_inside.h: what the threads behind events.h share: who listens, under one lock
 * that nobody holds while he waits for a database or a socket.
 */
#ifndef HTTP_EVENTS_INSIDE_H
#define HTTP_EVENTS_INSIDE_H

#include "http/event_stream.h"
#include "http/events.h"
#include "http/server.h"

#include <pthread.h>

struct listener {
	struct listener *next;
	struct events *events;
	struct http_stream *http; /* NULL: in tests */
	int64_t setup;            /* number of the configuration that let him in */
	struct event_stream stream;
};

/* How a watch was when it was last sent. */
struct sent_watch {
	char *database, *name, *json;
};

struct tailer;

struct events {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* somebody came, has room again, or it is over */
	struct live_settings_box *setups;
	struct overview *overview;
	struct listener *first;
	int n; /* listeners, and those about to be */
	bool stop;
	struct tailer **tailers;
	int ntailers;
	bool ticking;
	pthread_t ticker;
	int64_t started_ms;
	/* the ticker's own */
	struct sent_watch *sent;
	int nsent;
	const struct watch *builtin[2]; /* by enum store_engine */
	struct arena keep;              /* of these */
};

/* Somebody begins to listen: he is in the list, and threads run. */
void events_join(struct events *e, struct listener *l);
void events_leave(struct events *e, struct listener *l);
/* With the lock held: there may be something to pull. */
void listener_wake(struct listener *l);
/* Wait, with the lock held, until something changed or the time is over. */
void events_wait(struct events *e, int64_t ms);

/* The ledger of one database, read for all (ledger_tail.c). */
struct tailer *tailer_start(struct events *e, const char *database);
const char *tailer_database(const struct tailer *t);
/* After `stop` was set. */
void tailer_end(struct tailer *t);

/* Once a second: watches that changed, beats, who is stuck. */
void events_tick(struct events *e);
void events_tick_release(struct events *e);

#endif
