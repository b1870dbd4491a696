/* SPDX-License-Identifier: Apache-2.0
 * event_stream.h: one client of the event stream: its filter, its position in each ledger, and the
 * server-sent events that it has not received yet.
 *
 * The buffer of a client is bounded. A full stream is skipped: it falls behind, and gets the rest
 * from the ledger itself once it has received its buffer, so a slow client loses nothing and delays
 * no other. A client that receives nothing for half a minute is disconnected; it reconnects with
 * the id of the last event that it saw.
 *
 * No lock, no clock, no thread: the caller (events.c) holds a lock and passes the time.
 */
#ifndef HTTP_EVENT_STREAM_H
#define HTTP_EVENT_STREAM_H

#include "ledger/ledger.h"

#include <sys/types.h>

/*
 * ---- a position in the ledgers of several databases at once ----
 * It is the id of an event: "main=123@3fa85f64,other=45@07c1d2e9". Ids of a ledger are committed in
 * order, so a client with a position has everything up to it and needs nothing else to continue.
 * After the @ is which ledger it is (ledger_end()): in another one, the number means nothing. A
 * database that is not named has not been seen yet. Names are percent-encoded unless they are
 * plain, so that any text of a client is either a position or is refused.
 */

#define LEDGER_CURSOR_MAX 64 /* databases */

struct ledger_place {
	char *database;
	int64_t id;              /* the last entry already sent; -1: not seen yet */
	char of[LEDGER_OF_SIZE]; /* "": not known */
};

struct ledger_cursor {
	struct ledger_place places[LEDGER_CURSOR_MAX];
	int n;
};

/* False: it is not a cursor; *c is then empty. */
bool ledger_cursor_parse(struct ledger_cursor *c, const char *text);
/* The place in a database, created if missing; NULL: there is no room for another. */
struct ledger_place *ledger_cursor_at(struct ledger_cursor *c, const char *database);
/* Those that were seen, in order of appearance. */
void ledger_cursor_text(const struct ledger_cursor *c, struct buf *out);
void ledger_cursor_release(struct ledger_cursor *c);

/* ---- one client ---- */

#define EVENT_ROOM (64 * 1024) /* bytes that may wait; the last event may exceed it */
#define EVENT_BEAT_MS                                                                              \
	15000                    /* when idle, a comment is sent this often, so that a dead link shows \
	                          */
#define EVENT_STUCK_MS 30000 /* a client that received nothing for this long is disconnected */
#define EVENT_CATCH_UP_MAX 10000 /* entries that are read again for a client that reconnects */

/* Viewers see less than operators. */
enum event_form { EVENT_WHOLE, EVENT_VIEWED, EVENT_SIGHTS };

/* An entry of a ledger, rendered. */
struct event_entry {
	int64_t id;
	const char *watch, *event;
	const char *json[EVENT_SIGHTS]; /* on one line; NULL: no client with this sight */
};

enum event_sent { EVENT_SENT_NOTHING, EVENT_SENT_UP, EVENT_SENT_AWAY };

struct event_stream {
	enum event_form form;
	char *watch, *event;                     /* only these; NULL: all */
	struct ledger_cursor cursor;             /* after everything in `out` */
	enum event_sent sent[LEDGER_CURSOR_MAX]; /* one per place of the cursor */
	struct buf out;
	size_t taken;     /* of `out` */
	bool watches_due; /* send all watches: it is new, or was too full for one */
	bool over;
	int64_t added_ms, taken_ms;
};

/* `cursor` moves into the stream. */
void event_stream_init(struct event_stream *s, struct ledger_cursor *cursor, const char *watch,
                       const char *event, int64_t now_ms);
void event_stream_release(struct event_stream *s);

/* Bytes for the client; 0: nothing now, -1: the end. */
ssize_t event_stream_take(struct event_stream *s, char *to, size_t max, int64_t now_ms);
bool event_stream_has_room(const struct event_stream *s);
bool event_stream_waits(const struct event_stream *s); /* there are bytes to take */

/*
 * A database answers, and `top` is the highest entry of its ledger `of`. A stream without a place
 * there begins after it. One that is too far behind, or ahead (the ledger was replaced), is set to
 * where it can continue and gets a gap event. Returns the place, or NULL.
 */
const struct ledger_place *event_stream_seen(struct event_stream *s, const char *database,
                                             const char *of, int64_t top, int64_t now_ms);
void event_stream_away(struct event_stream *s, const char *database, const char *why,
                       int64_t now_ms);
/*
 * Entries of a page that begins after `after` and has all up to `end`, in the order of their ids:
 * adds those that are new to the stream while there is room. A stream outside the page is left
 * alone.
 */
void event_stream_entries(struct event_stream *s, const char *database, int64_t after, int64_t end,
                          const struct event_entry *entries, int n, int64_t now_ms);
/* The state of a watch (JSON, one line); if there is no room, all are sent later. */
void event_stream_watch(struct event_stream *s, const char *watch, const char *json,
                        int64_t now_ms);
/* Time passes: sends the beat, and ends a client that receives nothing. */
void event_stream_tick(struct event_stream *s, int64_t now_ms);

#endif
