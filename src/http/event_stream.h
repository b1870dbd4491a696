/* SPDX-License-Identifier: Apache-2.0
 * event_stream.h: one client of the event stream: its filter, its position in each ledger, and what
 * it has not received yet, in the form of server-sent events.
 *
 * What waits for a client is bounded. A stream that is full is skipped: it falls behind, and gets
 * the rest from the ledger itself once it has received what it has, so a slow client loses nothing
 * and delays no other. One that takes nothing for half a minute is closed; the client reconnects
 * with the id of the last event that it saw.
 *
 * No lock, no clock, no thread: the caller (events.c) holds one and tells the time.
 */
#ifndef HTTP_EVENT_STREAM_H
#define HTTP_EVENT_STREAM_H

#include "base/text.h"

#include <sys/types.h>

/*
 * ---- a position in the ledgers of several databases at once ----
 * It is the id of an event: "main=123,other=45". Ids of a ledger are committed in their order,
 * so a client with a position has everything up to it and needs nothing else to go on. A
 * database that is not named has not been seen yet. Names are percent-encoded where they are
 * not plain, so that any text of a client is either a position or is refused.
 */

#define LEDGER_CURSOR_MAX 64 /* databases */

struct ledger_place {
	char *database;
	int64_t id; /* the last entry that is behind us; -1: not seen yet */
};

struct ledger_cursor {
	struct ledger_place places[LEDGER_CURSOR_MAX];
	int n;
};

/* False: it is no cursor; *c is then empty. */
bool ledger_cursor_parse(struct ledger_cursor *c, const char *text);
/* The place in a database, made where there is none; NULL: there is no room for another. */
struct ledger_place *ledger_cursor_at(struct ledger_cursor *c, const char *database);
/* Those that were seen, in the order in which they came. */
void ledger_cursor_text(const struct ledger_cursor *c, struct buf *out);
void ledger_cursor_release(struct ledger_cursor *c);

/* ---- one client ---- */

#define EVENT_ROOM (64 * 1024)   /* bytes that may wait; the last event may exceed it */
#define EVENT_BEAT_MS 15000      /* silence is broken by a comment, so that a dead link shows */
#define EVENT_STUCK_MS 30000     /* nothing was taken for so long: over */
#define EVENT_CATCH_UP_MAX 10000 /* entries that are read again for a client that reconnects */

/* Viewers see less than operators. */
enum event_sight { EVENT_WHOLE, EVENT_VIEWED, EVENT_SIGHTS };

/* An entry of a ledger, rendered. */
struct event_entry {
	int64_t id;
	const char *watch, *event;
	const char *json[EVENT_SIGHTS]; /* in one line; NULL: no client with this sight */
};

enum event_sent { EVENT_SENT_NOTHING, EVENT_SENT_UP, EVENT_SENT_AWAY };

struct event_stream {
	enum event_sight sight;
	char *watch, *event;                     /* only these; NULL: all */
	struct ledger_cursor cursor;             /* behind everything in `out` */
	enum event_sent sent[LEDGER_CURSOR_MAX]; /* one a place of the cursor */
	struct buf out;
	size_t taken;     /* of `out` */
	bool watches_due; /* all watches are to be sent: it is new, or was too full for one */
	bool over;
	int64_t added_ms, taken_ms;
};

/* `cursor` moves into the stream. */
void event_stream_init(struct event_stream *s, struct ledger_cursor *cursor, const char *watch,
                       const char *event, int64_t now_ms);
void event_stream_release(struct event_stream *s);

/* Bytes for the client; 0: nothing now, -1: it is over. */
ssize_t event_stream_take(struct event_stream *s, char *to, size_t max, int64_t now_ms);
bool event_stream_has_room(const struct event_stream *s);
bool event_stream_waits(const struct event_stream *s); /* something is to be taken */

/*
 * A database answers, and `top` is its highest entry. A stream that has no place there
 * begins behind it; one that is too far back, or ahead (another ledger is there now), is
 * set to where it can go on and told that there is a gap. The place, or NULL.
 */
const struct ledger_place *event_stream_seen(struct event_stream *s, const char *database,
                                             int64_t top, int64_t now_ms);
void event_stream_away(struct event_stream *s, const char *database, const char *why,
                       int64_t now_ms);
/*
 * Entries of a page that begins behind `after` and has all up to `end`, in the order of
 * their ids: takes what is new to it as far as there is room. A stream that is not
 * within the page is left as it is.
 */
void event_stream_entries(struct event_stream *s, const char *database, int64_t after, int64_t end,
                          const struct event_entry *entries, int n, int64_t now_ms);
/* The state of a watch (JSON, one line); where there is no room all are sent later. */
void event_stream_watch(struct event_stream *s, const char *watch, const char *json,
                        int64_t now_ms);
/* Time passes: the beat, and the end of a client that takes nothing. */
void event_stream_tick(struct event_stream *s, int64_t now_ms);

#endif
