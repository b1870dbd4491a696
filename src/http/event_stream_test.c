/* SPDX-License-Identifier: Apache-2.0 */
/* event_stream_test.c: what a client gets, in which order, and what happens when it is slow. */
#include "base/test.h"
#include "http/event_stream.h"

#include <stdlib.h>
#include <string.h>

#define HELLO "retry: 2000\n\n"
#define UP "event: database\ndata: {\"database\":\"main\",\"state\":\"up\"}\n\n"

static void open_at(struct event_stream *s, const char *cursor, const char *watch,
                    const char *event)
{
	struct ledger_cursor c;
	assert_true(ledger_cursor_parse(&c, cursor));
	event_stream_init(s, &c, watch, event, 0);
	assert_int_equal(c.n, 0);
}

/* Everything in the buffer; the caller frees it. */
static char *all_of(struct event_stream *s, int64_t now_ms)
{
	struct buf got = BUF_INIT;
	char piece[7];
	ssize_t n;
	while ((n = event_stream_take(s, piece, sizeof piece, now_ms)) > 0)
		buf_addn(&got, piece, (size_t)n);
	return got.data ? buf_detach(&got) : calloc(1, 1);
}

static void reads(struct event_stream *s, const char *wanted)
{
	char *got = all_of(s, 0);
	assert_string_equal(got, wanted);
	free(got);
}

static struct event_entry entry(int64_t id, const char *watch, const char *event)
{
	return (struct event_entry){id, watch, event, {"{}"}};
}

static void a_new_listener_begins_behind_what_is_there(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(7, "w", "HELD"), entry(8, "w", "HELD")};
	open_at(&s, "", NULL, NULL);
	assert_int_equal(event_stream_seen(&s, "main", "", 7, 0)->id, 7);
	event_stream_entries(&s, "main", 5, 8, page, 2, 0);
	reads(&s, HELLO "id: main=7\n" UP "id: main=8\nevent: ledger\ndata: {}\n\n");
	event_stream_release(&s);
}

static void who_comes_back_gets_each_entry_once(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(4, "w", "HELD"), entry(5, "w", "HELD")};
	open_at(&s, "main=4", NULL, NULL);
	event_stream_seen(&s, "main", "", 5, 0);
	event_stream_entries(&s, "main", 3, 5, page, 2, 0);
	event_stream_entries(&s, "main", 3, 5, page, 2, 0);
	reads(&s, HELLO "id: main=4\n" UP "id: main=5\nevent: ledger\ndata: {}\n\n");
	event_stream_release(&s);
}

static void a_page_that_begins_ahead_is_not_taken(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(9, "w", "HELD")};
	open_at(&s, "main=4", NULL, NULL);
	event_stream_seen(&s, "main", "", 9, 0);
	event_stream_entries(&s, "main", 8, 9, page, 1, 0);
	reads(&s, HELLO "id: main=4\n" UP);
	event_stream_release(&s);
}

static void filters_pass_what_they_name_and_the_place_moves_on(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(1, "w", "HELD"), entry(2, "v", "FAILED"),
	                             entry(3, "v", "HELD"), entry(4, "w", "HELD")};
	open_at(&s, "main=0", "v", "HELD");
	event_stream_seen(&s, "main", "", 9, 0);
	event_stream_entries(&s, "main", 0, 9, page, 4, 0);
	event_stream_watch(&s, "w", "{}", 0);
	reads(&s, HELLO "id: main=0\n" UP "id: main=3\nevent: ledger\ndata: {}\n\n");
	event_stream_tick(&s, EVENT_BEAT_MS);
	reads(&s, ": beat\nid: main=9\n\n");
	event_stream_release(&s);
}

static void an_id_names_all_databases(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(3, "w", "HELD")};
	open_at(&s, "", NULL, NULL);
	event_stream_seen(&s, "a b", "", 2, 0);
	event_stream_seen(&s, "main", "", 7, 0);
	free(all_of(&s, 0));
	event_stream_entries(&s, "a b", 2, 3, page, 1, 0);
	reads(&s, "id: a%20b=3,main=7\nevent: ledger\ndata: {}\n\n");
	event_stream_release(&s);
}

static void who_is_too_far_back_is_told_of_the_gap(void **state)
{
	(void)state;
	struct event_stream s;
	open_at(&s, "main=5", NULL, NULL);
	const struct ledger_place *p = event_stream_seen(&s, "main", "", EVENT_CATCH_UP_MAX + 6, 0);
	assert_int_equal(p->id, 6);
	char *got = all_of(&s, 0);
	assert_non_null(strstr(got, "id: main=6\nevent: gap\ndata: {\"database\":\"main\",\"after\":5,"
	                            "\"up_to\":6,"));
	free(got);
	event_stream_release(&s);
}

static void another_ledger_than_the_cursors_is_a_gap(void **state)
{
	(void)state;
	struct event_stream s;
	open_at(&s, "main=50", NULL, NULL);
	assert_int_equal(event_stream_seen(&s, "main", "", 3, 0)->id, 3);
	char *got = all_of(&s, 0);
	assert_non_null(strstr(got, "event: gap"));
	free(got);
	event_stream_release(&s);
}

/* Numbers begin again in a database that was made again: this one is further than the client. */
static void a_ledger_that_was_made_again_is_a_gap_at_any_number(void **state)
{
	(void)state;
	struct event_stream s;
	struct event_entry page[] = {entry(8, "w", "HELD")};
	open_at(&s, "main=5@0123abcd", NULL, NULL);
	assert_int_equal(event_stream_seen(&s, "main", "fedc9876", 7, 0)->id, 7);
	event_stream_entries(&s, "main", 7, 8, page, 1, 0);
	reads(&s, HELLO "id: main=7@fedc9876\nevent: database\ndata: {\"database\":\"main\","
	                "\"state\":\"up\"}\n\n"
	                "id: main=7@fedc9876\nevent: gap\ndata: {\"database\":\"main\",\"after\":5,"
	                "\"up_to\":7,\"because\":\"this is another ledger: its tables were made "
	                "again\"}\n\n"
	                "id: main=8@fedc9876\nevent: ledger\ndata: {}\n\n");
	/* Also beneath a stream that is open; not if it is unknown now, or in an older client's id. */
	event_stream_seen(&s, "main", "", 8, 0);
	event_stream_seen(&s, "main", "fedc9876", 8, 0);
	reads(&s, "");
	event_stream_seen(&s, "main", "0123abcd", 9, 0);
	char *got = all_of(&s, 0);
	assert_non_null(strstr(got, "id: main=9@0123abcd\nevent: gap\n"));
	free(got);
	event_stream_release(&s);
	open_at(&s, "main=5", NULL, NULL);
	assert_int_equal(event_stream_seen(&s, "main", "fedc9876", 7, 0)->id, 5);
	event_stream_release(&s);
}

static void away_and_back_are_told_once(void **state)
{
	(void)state;
	struct event_stream s;
	open_at(&s, "main=1", NULL, NULL);
	event_stream_away(&s, "main", "no \"way\"", 0);
	event_stream_away(&s, "main", "still not", 0);
	event_stream_seen(&s, "main", "", 1, 0);
	event_stream_seen(&s, "main", "", 1, 0);
	reads(&s, HELLO
	      "id: main=1\nevent: database\n"
	      "data: {\"database\":\"main\",\"state\":\"away\",\"because\":\"no \\\"way\\\"\"}\n\n"
	      "id: main=1\nevent: database\ndata: {\"database\":\"main\",\"state\":\"back\"}\n\n");
	event_stream_release(&s);
}

/* A page that is larger than the room is sent in parts, by reading again from where it stopped. */
static void a_full_stream_falls_behind_and_loses_nothing(void **state)
{
	(void)state;
	enum { N = 300 };
	static char text[1024];
	struct event_entry page[N];
	struct event_stream s;
	struct buf got = BUF_INIT;
	memset(text, 'x', sizeof text - 1);
	for (int i = 0; i < N; i++)
		page[i] = (struct event_entry){i + 1, "w", "HELD", {text}};
	open_at(&s, "main=0", NULL, NULL);
	const struct ledger_place *p = event_stream_seen(&s, "main", "", N, 0);
	int rounds = 0;
	for (; p->id < N && rounds < 100; rounds++) {
		event_stream_entries(&s, "main", p->id, N, page + p->id, (int)(N - p->id), 0);
		assert_true(s.out.len - s.taken < EVENT_ROOM + 2 * sizeof text);
		char *piece = all_of(&s, 0);
		buf_add(&got, piece);
		free(piece);
	}
	assert_true(rounds > 3);
	const char *at = buf_text(&got);
	for (int i = 1; i <= N; i++) {
		char id[40];
		snprintf(id, sizeof id, "id: main=%d\nevent: ledger\n", i);
		at = strstr(at, id);
		assert_non_null(at);
		assert_null(strstr(at + 1, id));
	}
	buf_release(&got);
	event_stream_release(&s);
}

static void watches_that_found_no_room_are_told_later(void **state)
{
	(void)state;
	static char text[EVENT_ROOM + 1];
	struct event_stream s;
	memset(text, 'x', sizeof text - 1);
	open_at(&s, "", NULL, NULL);
	assert_true(s.watches_due);
	s.watches_due = false;
	event_stream_watch(&s, "w", text, 0);
	assert_false(s.watches_due);
	event_stream_watch(&s, "w", "{}", 0);
	assert_true(s.watches_due);
	event_stream_release(&s);
}

static void who_takes_nothing_is_over(void **state)
{
	(void)state;
	struct event_stream s;
	char byte;
	open_at(&s, "", NULL, NULL);
	event_stream_tick(&s, EVENT_STUCK_MS - 1);
	assert_int_equal(event_stream_take(&s, &byte, 1, EVENT_STUCK_MS - 1), 1);
	event_stream_tick(&s, EVENT_STUCK_MS + 1000);
	assert_false(s.over);
	event_stream_tick(&s, 2 * EVENT_STUCK_MS);
	assert_true(s.over);
	assert_int_equal(event_stream_take(&s, &byte, 1, 0), -1);
	event_stream_release(&s);
}

static void who_has_taken_all_may_be_silent_for_ever(void **state)
{
	(void)state;
	struct event_stream s;
	open_at(&s, "", NULL, NULL);
	free(all_of(&s, 0));
	for (int64_t now = 0; now < 10 * EVENT_STUCK_MS; now += EVENT_BEAT_MS) {
		event_stream_tick(&s, now);
		free(all_of(&s, now));
	}
	event_stream_tick(&s, 20 * EVENT_STUCK_MS);
	event_stream_tick(&s, 20 * EVENT_STUCK_MS + 1);
	assert_false(s.over);
	event_stream_release(&s);
}

/* ---- a position is read as it was written, or refused ---- */

static void round_trip(const char *text)
{
	struct ledger_cursor c;
	struct buf out = BUF_INIT;
	assert_true(ledger_cursor_parse(&c, text));
	ledger_cursor_text(&c, &out);
	assert_string_equal(buf_text(&out), text);
	buf_release(&out);
	ledger_cursor_release(&c);
}

static void what_was_said_is_read_back(void **state)
{
	(void)state;
	round_trip("");
	round_trip("main=123");
	round_trip("main=123@0123abcd,other=4,third=5@ffffffff");
	round_trip("main=0,other-1=45,c.d_e=9223372036854775807");
	round_trip("a%20b%2C%3D%C3%A9=7");
}

static void names_of_any_kind_are_kept(void **state)
{
	(void)state;
	struct ledger_cursor c = {0}, again;
	struct buf out = BUF_INIT;
	ledger_cursor_at(&c, "a, b=1\n%é")->id = 5;
	ledger_cursor_text(&c, &out);
	assert_null(strpbrk(buf_text(&out), " \n,"));
	assert_true(ledger_cursor_parse(&again, buf_text(&out)));
	assert_int_equal(again.n, 1);
	assert_string_equal(again.places[0].database, "a, b=1\n%é");
	buf_release(&out);
	ledger_cursor_release(&c);
	ledger_cursor_release(&again);
}

static void anything_else_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"main",         "=5",
	                                  "main=",        "main=x",
	                                  "main=-1",      "main=+1",
	                                  "a=1,",         ",a=1",
	                                  "a=1,,b=2",     "a=1,a=2",
	                                  "a b=1",        "a%2=1",
	                                  "a%=1",         "a%zz=1",
	                                  "a%00=1",       "main=99999999999999999999",
	                                  "a=1=2",        "a=1;b=2",
	                                  "a=1\r\nx: y",  "a=1@",
	                                  "a=1@0123abc",  "a=1@0123abcde",
	                                  "a=1@0123abcX", "a@0123abcd=1",
	                                  "a=@0123abcd"};
	struct ledger_cursor c;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (ledger_cursor_parse(&c, bad[i]))
			fail_msg("taken for a cursor: %s", bad[i]);
		assert_int_equal(c.n, 0);
	}
}

static void more_databases_than_there_is_room_for_are_refused(void **state)
{
	(void)state;
	struct ledger_cursor c;
	struct buf text = BUF_INIT;
	for (int i = 0; i < LEDGER_CURSOR_MAX; i++)
		buf_addf(&text, "%sd%d=%d", i ? "," : "", i, i);
	assert_true(ledger_cursor_parse(&c, buf_text(&text)));
	assert_null(ledger_cursor_at(&c, "one more"));
	ledger_cursor_release(&c);
	buf_add(&text, ",more=1");
	assert_false(ledger_cursor_parse(&c, buf_text(&text)));
	buf_release(&text);
}

static void a_database_that_was_not_seen_is_not_named(void **state)
{
	(void)state;
	struct ledger_cursor c = {0};
	struct buf text = BUF_INIT;
	assert_int_equal(ledger_cursor_at(&c, "a")->id, -1);
	ledger_cursor_at(&c, "b")->id = 3;
	ledger_cursor_text(&c, &text);
	assert_string_equal(buf_text(&text), "b=3");
	buf_release(&text);
	ledger_cursor_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_listener_begins_behind_what_is_there),
		cmocka_unit_test(who_comes_back_gets_each_entry_once),
		cmocka_unit_test(a_page_that_begins_ahead_is_not_taken),
		cmocka_unit_test(filters_pass_what_they_name_and_the_place_moves_on),
		cmocka_unit_test(an_id_names_all_databases),
		cmocka_unit_test(who_is_too_far_back_is_told_of_the_gap),
		cmocka_unit_test(another_ledger_than_the_cursors_is_a_gap),
		cmocka_unit_test(a_ledger_that_was_made_again_is_a_gap_at_any_number),
		cmocka_unit_test(away_and_back_are_told_once),
		cmocka_unit_test(a_full_stream_falls_behind_and_loses_nothing),
		cmocka_unit_test(watches_that_found_no_room_are_told_later),
		cmocka_unit_test(who_takes_nothing_is_over),
		cmocka_unit_test(who_has_taken_all_may_be_silent_for_ever),
		cmocka_unit_test(what_was_said_is_read_back),
		cmocka_unit_test(names_of_any_kind_are_kept),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(more_databases_than_there_is_room_for_are_refused),
		cmocka_unit_test(a_database_that_was_not_seen_is_not_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
