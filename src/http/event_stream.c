/* SPDX-License-Identifier: Apache-2.0 */
#include "http/event_stream.h"

#include "view/output.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How long a browser waits before it reconnects. */
#define HELLO "retry: 2000\n\n"

void event_stream_init(struct event_stream *s, struct ledger_cursor *cursor, const char *watch,
                       const char *event, int64_t now_ms)
{
	*s = (struct event_stream){
		.watch = watch ? mem_strdup(watch) : NULL,
		.event = event ? mem_strdup(event) : NULL,
		.cursor = *cursor,
		.watches_due = true,
		.added_ms = now_ms,
		.taken_ms = now_ms,
	};
	*cursor = (struct ledger_cursor){0};
	buf_add(&s->out, HELLO);
}

void event_stream_release(struct event_stream *s)
{
	free(s->watch);
	free(s->event);
	ledger_cursor_release(&s->cursor);
	buf_release(&s->out);
}

/* ---- the buffer ---- */

bool event_stream_waits(const struct event_stream *s)
{
	return s->taken < s->out.len;
}

bool event_stream_has_room(const struct event_stream *s)
{
	return !s->over && s->out.len - s->taken < EVENT_ROOM;
}

ssize_t event_stream_take(struct event_stream *s, char *to, size_t max, int64_t now_ms)
{
	size_t n = s->out.len - s->taken;
	if (s->over)
		return -1;
	if (n == 0)
		return 0;
	n = n < max ? n : max;
	memcpy(to, s->out.data + s->taken, n);
	s->taken += n;
	s->taken_ms = now_ms;
	if (s->taken == s->out.len) {
		/* One large burst must not occupy memory for as long as the client is connected. */
		if (s->out.cap > EVENT_ROOM / 4)
			buf_release(&s->out);
		else
			buf_clear(&s->out);
		s->taken = 0;
	}
	return (ssize_t)n;
}

/* Data starts to wait: from now on the client can be too slow. */
static void event_stream_begin(struct event_stream *s, int64_t now_ms)
{
	if (!event_stream_waits(s))
		s->taken_ms = now_ms;
	s->added_ms = now_ms;
}

static void add_id(struct event_stream *s)
{
	AUTO_BUF id = BUF_INIT;
	ledger_cursor_text(&s->cursor, &id);
	if (id.len)
		buf_addf(&s->out, "id: %s\n", buf_text(&id));
}

/* With the id after it, so that a client that reconnects continues from here. */
static void add_event(struct event_stream *s, const char *event, const char *json, int64_t now_ms)
{
	assert(!strchr(json, '\n'));
	event_stream_begin(s, now_ms);
	add_id(s);
	buf_addf(&s->out, "event: %s\ndata: ", event);
	buf_add(&s->out, json);
	buf_add(&s->out, "\n\n");
}

/* ---- ledgers ---- */

static void tell_database(struct event_stream *s, int place, enum event_sent now, const char *state,
                          const char *why, int64_t now_ms)
{
	AUTO_BUF json = BUF_INIT;
	if (s->sent[place] == now)
		return;
	s->sent[place] = now;
	buf_add(&json, "{\"database\":");
	buf_add_json(&json, s->cursor.places[place].database);
	json_text(&json, "state", state);
	if (why)
		json_text(&json, "because", why);
	buf_add(&json, "}");
	add_event(s, "database", buf_text(&json), now_ms);
}

static void tell_gap(struct event_stream *s, const struct ledger_place *p, int64_t from,
                     const char *why, int64_t now_ms)
{
	AUTO_BUF json = BUF_INIT;
	buf_add(&json, "{\"database\":");
	buf_add_json(&json, p->database);
	buf_addf(&json, ",\"after\":%lld,\"up_to\":%lld,\"because\":\"%s\"}", (long long)from,
	         (long long)p->id, why);
	add_event(s, "gap", buf_text(&json), now_ms);
}

const struct ledger_place *event_stream_seen(struct event_stream *s, const char *database,
                                             const char *of, int64_t top, int64_t now_ms)
{
	struct ledger_place *p = s->over ? NULL : ledger_cursor_at(&s->cursor, database);
	if (!p)
		return NULL;
	int64_t from = p->id;
	int place = (int)(p - s->cursor.places);
	const char *why = NULL;
	bool other = *of && *p->of && !text_eq(of, p->of);
	if (*of)
		snprintf(p->of, sizeof p->of, "%s", of);
	if (from < 0) {
		p->id = top;
	} else if (other) {
		p->id = top;
		why = "this is another ledger: its tables were made again";
	} else if (from > top) {
		p->id = top;
		why = "the ledger ends before this entry: it was replaced";
	} else if (top - from > EVENT_CATCH_UP_MAX) {
		p->id = top - EVENT_CATCH_UP_MAX;
		why = "too many entries were added in the meantime; read the ledger";
	}
	tell_database(s, place, EVENT_SENT_UP, s->sent[place] == EVENT_SENT_AWAY ? "back" : "up", NULL,
	              now_ms);
	if (why)
		tell_gap(s, p, from, why, now_ms);
	return p;
}

void event_stream_away(struct event_stream *s, const char *database, const char *why,
                       int64_t now_ms)
{
	struct ledger_place *p = s->over ? NULL : ledger_cursor_at(&s->cursor, database);
	if (p)
		tell_database(s, (int)(p - s->cursor.places), EVENT_SENT_AWAY, "away", why, now_ms);
}

static bool event_stream_wanted(const struct event_stream *s, const struct event_entry *e)
{
	return (!s->watch || text_eq(s->watch, e->watch)) && (!s->event || text_eq(s->event, e->event));
}

void event_stream_entries(struct event_stream *s, const char *database, int64_t after, int64_t end,
                          const struct event_entry *entries, int n, int64_t now_ms)
{
	struct ledger_place *p = s->over ? NULL : ledger_cursor_at(&s->cursor, database);
	if (!p || p->id < after || p->id >= end)
		return;
	for (int i = 0; i < n; i++) {
		const struct event_entry *e = &entries[i];
		if (e->id <= p->id)
			continue;
		if (event_stream_wanted(s, e)) {
			if (!event_stream_has_room(s))
				return;
			p->id = e->id;
			add_event(s, "ledger", e->json[s->form], now_ms);
		}
		p->id = e->id;
	}
	p->id = end;
}

/* ---- the rest ---- */

void event_stream_watch(struct event_stream *s, const char *watch, const char *json, int64_t now_ms)
{
	if (s->over || (s->watch && !text_eq(s->watch, watch)))
		return;
	if (event_stream_has_room(s))
		add_event(s, "watch", json, now_ms);
	else
		s->watches_due = true;
}

void event_stream_tick(struct event_stream *s, int64_t now_ms)
{
	if (event_stream_waits(s)) {
		s->over = s->over || now_ms - s->taken_ms >= EVENT_STUCK_MS;
	} else if (now_ms - s->added_ms >= EVENT_BEAT_MS) {
		/* The id also advances with entries that the filter leaves out. */
		event_stream_begin(s, now_ms);
		buf_add(&s->out, ": beat\n");
		add_id(s);
		buf_add(&s->out, "\n");
	}
}

/* ---- a position in all ledgers ---- */

static bool event_stream_plain(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

static int event_stream_hex(char c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *at = c ? strchr(digits, toupper((unsigned char)c)) : NULL;
	return at ? (int)(at - digits) : -1;
}

static bool decode_name(const char *text, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (event_stream_plain(text[i])) {
			buf_addch(out, text[i]);
			continue;
		}
		int high = text[i] == '%' && i + 2 < n ? event_stream_hex(text[i + 1]) : -1;
		int low = high < 0 ? -1 : event_stream_hex(text[i + 2]);
		if (low < 0 || high + low == 0)
			return false;
		buf_addch(out, (char)(high * 16 + low));
		i += 2;
	}
	return n > 0;
}

static void encode_name(const char *name, struct buf *out)
{
	for (; *name; name++)
		if (event_stream_plain(*name))
			buf_addch(out, *name);
		else
			buf_addf(out, "%%%02X", (unsigned char)*name);
}

static bool is_of(const char *text)
{
	return strlen(text) == LEDGER_OF_SIZE - 1 && strspn(text, "0123456789abcdef") == strlen(text);
}

static bool event_stream_parse_place(struct ledger_cursor *c, const char *text, size_t n)
{
	const char *equals = memchr(text, '=', n);
	AUTO_BUF name = BUF_INIT, number = BUF_INIT, of = BUF_INIT;
	int64_t id = -1;
	bool good = equals && decode_name(text, (size_t)(equals - text), &name);
	if (good) {
		const char *after = equals + 1, *end = text + n;
		const char *at = memchr(after, '@', (size_t)(end - after));
		buf_addn(&number, after, (size_t)((at ? at : end) - after));
		if (at)
			buf_addn(&of, at + 1, (size_t)(end - at) - 1);
		good = isdigit((unsigned char)*buf_text(&number)) && int_parse(buf_text(&number), &id) &&
		       (!at || is_of(buf_text(&of)));
	}
	struct ledger_place *p = good ? ledger_cursor_at(c, buf_text(&name)) : NULL;
	good = p && p->id < 0; /* named once */
	if (good) {
		p->id = id;
		snprintf(p->of, sizeof p->of, "%s", buf_text(&of));
	}
	return good;
}

bool ledger_cursor_parse(struct ledger_cursor *c, const char *text)
{
	*c = (struct ledger_cursor){0};
	bool more = *text != '\0';
	while (more) {
		size_t n = strcspn(text, ",");
		if (!event_stream_parse_place(c, text, n)) {
			ledger_cursor_release(c);
			return false;
		}
		more = text[n] == ',';
		text += n + 1;
	}
	return true;
}

struct ledger_place *ledger_cursor_at(struct ledger_cursor *c, const char *database)
{
	for (int i = 0; i < c->n; i++)
		if (text_eq(c->places[i].database, database))
			return &c->places[i];
	if (c->n == LEDGER_CURSOR_MAX)
		return NULL;
	c->places[c->n] = (struct ledger_place){.database = mem_strdup(database), .id = -1};
	return &c->places[c->n++];
}

void ledger_cursor_text(const struct ledger_cursor *c, struct buf *out)
{
	const char *between = "";
	for (int i = 0; i < c->n; i++) {
		if (c->places[i].id < 0)
			continue;
		buf_add(out, between);
		encode_name(c->places[i].database, out);
		buf_addf(out, "=%lld", (long long)c->places[i].id);
		if (*c->places[i].of)
			buf_addf(out, "@%s", c->places[i].of);
		between = ",";
	}
}

void ledger_cursor_release(struct ledger_cursor *c)
{
	for (int i = 0; i < c->n; i++)
		free(c->places[i].database);
	*c = (struct ledger_cursor){0};
}
