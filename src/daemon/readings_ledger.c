/*
 * readings_ledger.c: what the ledger gained of the watches that this daemon leads, added to
 * their counters. Every change is in the ledger in its own transaction, whoever made it, so
 * that the counters move by exactly the number of jobs: nothing is told from passes.
 *
 * Each watch has a place in the ledger up to which it was counted. Whoever leads it writes
 * that place into its status, and whoever leads it next goes on there: nothing is left out
 * and nothing counted twice when the lead passes on. A watch that never had a leader is
 * counted from the moment at which this daemon was started.
 */
#include "daemon/readings.h"

#include "base/clock.h"
#include "base/text.h"
#include "daemon/watch_loop.h"
#include "ledger/counts.h"
#include "ledger/ledger.h"

#include <jansson.h>

/* ---- where to begin ---- */

static bool any_begins(struct watch_loop **posts, int n)
{
	bool any = false;
	for (int i = 0; i < n; i++) {
		if (!posts[i]->leads)
			posts[i]->reading.counts = false;
		any = any || (posts[i]->leads && !posts[i]->reading.counts);
	}
	return any;
}

/* The place that the last leader of this watch wrote down; -1: none, or of another ledger. */
static int64_t place_left(const struct status_row *rows, int n, const char *watch, int64_t top)
{
	int64_t place = -1;
	for (int i = 0; i < n; i++) {
		if (!text_eq(rows[i].watch, watch))
			continue;
		json_t *info = json_loads(rows[i].info, 0, NULL);
		const json_t *counted = json_object_get(info, READINGS_PLACE);
		place = json_is_integer(counted) ? json_integer_value(counted) : -1;
		json_decref(info);
	}
	return place <= top ? place : -1;
}

static defib_err begin(struct store *s, int64_t top, int64_t started_ms, struct watch_loop **posts,
                       int n, struct arena *a, struct failure *f)
{
	struct status_row *rows = NULL;
	int nrows = 0;
	int64_t start = 0;
	defib_err err = status_read(s, a, &rows, &nrows, f);
	if (!err && top > 0)
		err = ledger_id_before(s, (clock_boot_ms() - started_ms) * 1000, &start, f);
	for (int i = 0; i < n && !err; i++) {
		struct reading *r = &posts[i]->reading;
		if (!posts[i]->leads || r->counts)
			continue;
		int64_t left = place_left(rows, nrows, posts[i]->watch->name, top);
		r->ledger_id = left >= 0 ? left : start;
		r->counts = true;
	}
	return err;
}

/* ---- reading on ---- */

/* The least place of all, and how far it may be read without passing another's; false: none. */
static bool next_part(struct watch_loop **posts, int n, int64_t top, int64_t *from, int64_t *to)
{
	bool any = false;
	for (int i = 0; i < n; i++) {
		int64_t at = posts[i]->reading.ledger_id;
		if (!posts[i]->leads || at >= top || (any && at >= *from))
			continue;
		*from = at;
		any = true;
	}
	*to = any && top - *from > LEDGER_COUNT_IDS ? *from + LEDGER_COUNT_IDS : top;
	for (int i = 0; i < n && any; i++) {
		int64_t at = posts[i]->reading.ledger_id;
		if (posts[i]->leads && at > *from && at < *to)
			*to = at;
	}
	return any;
}

static void count_part(struct watch_loop *p, int64_t from, int64_t to,
                       const struct event_count *counts, int n)
{
	if (!p->leads || p->reading.ledger_id != from)
		return;
	for (int i = 0; i < n; i++)
		if (text_eq(counts[i].watch, p->watch->name)) {
			watch_loop_count(p, &counts[i]);
			p->reading.gained = true;
		}
	p->reading.ledger_id = to;
}

static defib_err read_on(struct store *s, int64_t top, struct watch_loop **posts, int n,
                         struct arena *a, struct failure *f)
{
	int64_t from = 0, to = 0;
	defib_err err = DEFIB_OK;
	while (!err && next_part(posts, n, top, &from, &to)) {
		struct event_count *counts = NULL;
		int ncounts = 0;
		err = ledger_events_between(s, from, to, a, &counts, &ncounts, f);
		for (int i = 0; i < n && !err; i++)
			count_part(posts[i], from, to, counts, ncounts);
	}
	return err;
}

defib_err readings_ledger(struct store *s, int64_t started_ms, struct watch_loop **posts, int n,
                          struct failure *f)
{
	struct arena a = ARENA_INIT;
	bool there = false;
	int64_t top = 0;
	defib_err err = ledger_exists(s, &there, f);
	if (!err && there)
		err = ledger_top(s, &top, f);
	if (!err && any_begins(posts, n))
		err = begin(s, top, started_ms, posts, n, &a, f);
	if (!err)
		err = read_on(s, top, posts, n, &a, f);
	arena_release(&a);
	return err;
}
