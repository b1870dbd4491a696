/* SPDX-License-Identifier: Apache-2.0
 * events_test.c: the threads behind the stream, on a real ledger in an SQLite file: listeners join
 * and leave while entries are committed. Also run under the thread sanitizer.
 */
#include "base/clock.h"
#include "http/events.h"
#include "ledger/ledger.h"
#include "store/patient_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

struct world {
	char url[128];
	struct database database;
	struct watch watch;
	struct live_settings_box setups;
	struct service http;
	struct overview *overview;
	struct events *events;
	struct store *store;
	char of[LEDGER_OF_SIZE]; /* which ledger it is */
	struct arena arena;
};

static void open_ledger(struct world *w)
{
	struct store_options opt =
		patient((struct store_options){.url = w->url, .name = "main", .create = true});
	struct ledger ledger;
	struct failure f = {0};
	if (store_open(&opt, &w->store, &f) || ledger_open(w->store, true, &ledger, &f))
		fail_msg("%s", f.what);
	int64_t top;
	assert_true(ledger.ready);
	assert_int_equal(ledger_end(w->store, &top, w->of, &f), DEFIB_OK);
	assert_int_equal(strlen(w->of), LEDGER_OF_SIZE - 1);
}

static void begin(struct world *w)
{
	static int number;
	struct live_settings *s = live_settings_new();
	memset(w, 0, sizeof *w);
	snprintf(w->url, sizeof w->url, "sqlite:%s/l%d.db", folder, number++);
	w->database = (struct database){.name = "main", .url = w->url, .engine = STORE_SQLITE};
	s->settings.databases = &w->database;
	s->settings.ndatabases = 1;
	w->watch = (struct watch){.name = "pages", .database = "main", .table = "pages"};
	s->settings.watches = &w->watch;
	s->settings.nwatches = 1;
	s->settings.sections[SECTION_HTTP] = &w->http;
	live_settings_box_init(&w->setups, s);
	w->overview = overview_new();
	w->events = events_new(&w->setups, w->overview);
}

static void end(struct world *w)
{
	events_free(w->events);
	overview_free(w->overview);
	live_settings_box_release(&w->setups);
	store_close(w->store);
	arena_release(&w->arena);
}

static void commit(struct world *w, const char *watch, const char *job)
{
	struct ledger_context ctx = {watch, "batch", "test"};
	struct ledger_entry e = {.job = job, .event = "HELD"};
	struct failure f = {0};
	if (store_begin(w->store, TX_WRITE, &f) ||
	    ledger_append(w->store, &ctx, &e, 1, &w->arena, &f) || store_commit(w->store, &f))
		fail_msg("%s", f.what);
}

static struct listener *come(struct world *w, const char *cursor)
{
	struct listener *l = mem_alloc(sizeof *l);
	struct ledger_cursor c;
	assert_true(ledger_cursor_parse(&c, cursor));
	l->events = w->events;
	l->setup = w->setups.now->number;
	event_stream_init(&l->stream, &c, NULL, NULL, clock_boot_ms());
	pthread_mutex_lock(&w->events->lock);
	w->events->n++;
	pthread_mutex_unlock(&w->events->lock);
	events_join(w->events, l);
	return l;
}

/* Takes what is there. */
static void take(struct listener *l, struct buf *got)
{
	char piece[4096];
	ssize_t n;
	do {
		pthread_mutex_lock(&l->events->lock);
		n = event_stream_take(&l->stream, piece, sizeof piece, clock_boot_ms());
		pthread_mutex_unlock(&l->events->lock);
		if (n > 0)
			buf_addn(got, piece, (size_t)n);
	} while (n > 0);
}

static bool has(struct listener *l, struct buf *got, const char *text)
{
	take(l, got);
	return strstr(buf_text(got), text) != NULL;
}

/* From all, because one that is not taken from for half a minute is disconnected. */
static int how_many_have(struct listener **all, struct buf *got, int n, const char *text)
{
	int have = 0;
	for (int i = 0; i < n; i++)
		have += has(all[i], &got[i], text);
	return have;
}

/* Takes until the taken bytes contain `text`. */
static void until(struct listener *l, struct buf *got, const char *text)
{
	EVENTUALLY(has(l, got, text));
}

static int times(const char *text, const char *part)
{
	int n = 0;
	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

static void everybody_gets_each_entry_once(void **state)
{
	(void)state;
	enum { LISTENERS = 4, ENTRIES = 60 };
	struct world w;
	struct listener *all[LISTENERS];
	struct buf got[LISTENERS] = {0};
	char id[48];
	begin(&w);
	open_ledger(&w);
	for (int i = 0; i < LISTENERS; i++)
		all[i] = come(&w, "main=0");
	for (int i = 1; i <= ENTRIES; i++) {
		commit(&w, "w", "1");
		(void)how_many_have(all, got, LISTENERS, "");
		/* One leaves in the middle and reconnects at its position. */
		if (i % 20 == 0) {
			snprintf(id, sizeof id, "id: main=%d@%s\n", i - 5, w.of);
			EVENTUALLY(how_many_have(all, got, LISTENERS, id) && strstr(buf_text(&got[0]), id));
			char *cut = strstr(got[0].data, id);
			got[0].len = (size_t)(strstr(cut, "\n\n") + 2 - got[0].data);
			got[0].data[got[0].len] = '\0';
			events_leave(w.events, all[0]);
			snprintf(id, sizeof id, "main=%d@%s", i - 5, w.of);
			all[0] = come(&w, id);
		}
	}
	snprintf(id, sizeof id, "id: main=60@%s\nevent: ledger", w.of);
	EVENTUALLY(how_many_have(all, got, LISTENERS, id) == LISTENERS);
	for (int i = 0; i < LISTENERS; i++) {
		for (int k = 1; k <= ENTRIES; k++) {
			snprintf(id, sizeof id, "data: {\"id\":%d,", k);
			assert_int_equal(times(buf_text(&got[i]), id), 1);
		}
		buf_release(&got[i]);
		events_leave(w.events, all[i]);
	}
	assert_int_equal(events_listeners(w.events), 0);
	end(&w);
}

static void a_ledger_that_comes_later_is_told(void **state)
{
	(void)state;
	struct world w;
	struct buf got = BUF_INIT;
	begin(&w);
	struct listener *l = come(&w, "");
	until(l, &got, "\"state\":\"away\"");
	open_ledger(&w);
	until(l, &got, "\"state\":\"back\"");
	commit(&w, "w", "1");
	until(l, &got, "event: ledger");
	buf_release(&got);
	events_leave(w.events, l);
	end(&w);
}

static void watches_are_told_at_first_and_when_they_change(void **state)
{
	(void)state;
	struct world w;
	struct buf got = BUF_INIT;
	struct overview_watch watch = {.name = "pages", .database = "main", .info = "{\"passes\":1}"};
	begin(&w);
	open_ledger(&w);
	overview_put_watch(w.overview, &watch);
	struct listener *l = come(&w, "");
	until(l, &got, "\"passes\":1");
	watch.info = "{\"passes\":2}";
	overview_put_watch(w.overview, &watch);
	until(l, &got, "\"passes\":2");
	assert_int_equal(times(buf_text(&got), "event: watch"), 2);
	buf_release(&got);
	events_leave(w.events, l);
	end(&w);
}

static void without_listeners_nothing_runs(void **state)
{
	(void)state;
	struct world w;
	begin(&w);
	assert_false(w.events->ticking);
	assert_int_equal(w.events->ntailers, 0);
	end(&w);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/defib-events-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	(void)state;
	for (int i = 0; i < 4; i++)
		for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
			char path[128];
			snprintf(path, sizeof path, "%s/l%d.db%s", folder, i, ends[k]);
			unlink(path);
		}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everybody_gets_each_entry_once),
		cmocka_unit_test(a_ledger_that_comes_later_is_told),
		cmocka_unit_test(watches_are_told_at_first_and_when_they_change),
		cmocka_unit_test(without_listeners_nothing_runs),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
