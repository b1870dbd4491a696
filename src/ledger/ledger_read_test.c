/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_read_test.c: entries are read back whole, by filter and by cursor. */
#include "ledger/events.h"
#include "ledger/ledger_test.h"
#include "watch/words.h"

static void append_as(struct place *p, const struct ledger_context *ctx, const char *job,
                      const char *event)
{
	struct ledger_entry e = {.job = job, .event = event};
	struct failure f = {0};
	assert_int_equal(store_begin(p->store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_append(p->store, ctx, &e, 1, &p->arena, &f) || store_commit(p->store, &f))
		fail_msg("%s", f.what);
}

/* Six entries; a test names them by their jobs, a letter each. */
static void fill(struct place *p)
{
	static const struct {
		struct ledger_context ctx;
		const char *job, *event;
	} all[] = {{{"pages", "X", "cli:me"}, "a", "REQUEUED"},
	           {{"pages", "X.1", "daemon"}, "b", "HELD"},
	           {{"pages", "X.10", "daemon"}, "c", "REQUEUED"},
	           {{"mails", "X1", "daemon"}, "d", "REQUEUED"},
	           {{"mails", "X-1", "cli:me"}, "e", "FAILED"},
	           {{"mails", "x.1", "daemon"}, "f", "REQUEUED"}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		append_as(p, &all[i].ctx, all[i].job, all[i].event);
}

/* The jobs of what a filter gives, in its order. */
static const char *asked(struct place *p, struct ledger_filter filter)
{
	struct ledger_row *rows;
	struct failure f = {0};
	struct buf jobs = BUF_INIT;
	int n = 0;
	if (ledger_read(p->store, &filter, &p->arena, &rows, &n, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++)
		buf_add(&jobs, rows[i].job);
	const char *text = arena_strdup(&p->arena, buf_text(&jobs));
	buf_release(&jobs);
	return text;
}
#define ASKED(...) asked(&p, (struct ledger_filter){__VA_ARGS__})

static void filters_give_what_they_name(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	assert_string_equal(ASKED(0), "");
	fill(&p);
	assert_string_equal(ASKED(0), "abcdef");
	assert_string_equal(ASKED(.watch = "mails"), "def");
	assert_string_equal(ASKED(.watch = "mails", .job = "e"), "e");
	assert_string_equal(ASKED(.event = "REQUEUED"), "acdf");
	assert_string_equal(ASKED(.actor = "cli:me"), "ae");
	assert_string_equal(ASKED(.watch = "mails", .event = "REQUEUED", .actor = "cli:me"), "");
	assert_string_equal(ASKED(.job = "' OR true --"), "");
	close_place(&p);
}

static void a_batch_is_itself_and_the_parts_of_its_scan(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	assert_string_equal(ASKED(.batch = "X"), "abc");
	assert_string_equal(ASKED(.batch = "X.1"), "b");
	assert_string_equal(ASKED(.batch = "x"), "f");
	assert_string_equal(ASKED(.batch = "X%"), "");
	assert_string_equal(ASKED(.batch = ""), "");
	close_place(&p);
}

static void a_limit_takes_the_oldest_or_the_newest(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	assert_string_equal(ASKED(.limit = 2), "ab");
	assert_string_equal(ASKED(.limit = 2, .newest_first = true), "fe");
	close_place(&p);
}

static void a_cursor_goes_on_behind_what_was_read(enum store_engine engine)
{
	struct failure f = {0};
	struct place p;
	int64_t top = -1;
	open_place(&p, engine);
	assert_int_equal(ledger_top(p.store, &top, &f), DEFIB_OK);
	assert_int_equal(top, 0);
	fill(&p);
	assert_int_equal(ledger_top(p.store, &top, &f), DEFIB_OK);
	assert_string_equal(ASKED(.after_id = top), "");
	assert_string_equal(ASKED(.after_id = top - 2), "ef");
	assert_string_equal(ASKED(.after_id = top - 4, .up_to_id = top - 2), "cd");
	close_place(&p);
}

static void entries_older_than_asked_are_left_out(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p);
	make_older(&p, 2, "job IN ('a', 'b')");
	assert_string_equal(ASKED(.since_us = DAY), "cdef");
	assert_string_equal(ASKED(.since_us = 3 * DAY), "abcdef");
	close_place(&p);
}

static void every_column_comes_back(enum store_engine engine)
{
	struct ledger_entry e[] = {{.job = "1",
	                            .event = "REQUEUED",
	                            .verdict = "silent",
	                            .rule = "r",
	                            .reason = "why\n\"so\"",
	                            .evidence = "{\"a\": 1}",
	                            .before = "{\"b\": 2}",
	                            .after = "{\"c\": 3}",
	                            .has_epoch = true,
	                            .epoch = 4},
	                           {.job = "2", .event = "HELD"}};
	struct ledger_filter all = {0};
	struct ledger_row *r;
	struct failure f = {0};
	struct place p;
	int n = 0;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_int_equal(ledger_read(p.store, &all, &p.arena, &r, &n, &f), DEFIB_OK);
	assert_int_equal(n, 2);
	assert_true(r[0].id > 0 && r[1].id > r[0].id);
	assert_int_equal(strlen(r->at), strlen("2026-01-02T03:04:05.123Z"));
	const char *const got[] = {r->batch, r->watch,  r->job,      r->event,  r->actor, r->verdict,
	                           r->rule,  r->reason, r->evidence, r->before, r->after};
	const char *const want[] = {"batch-1",    "pages",      "1",         "REQUEUED",
	                            "test",       "silent",     "r",         "why\n\"so\"",
	                            "{\"a\": 1}", "{\"b\": 2}", "{\"c\": 3}"};
	for (size_t i = 0; i < sizeof got / sizeof *got; i++)
		assert_string_equal(got[i], want[i]);
	assert_true(r->has_epoch && r->epoch == 4);
	assert_true(!r[1].verdict && !r[1].rule && !r[1].reason && !r[1].has_epoch);
	assert_true(!r[1].evidence && !r[1].before && !r[1].after);
	close_place(&p);
}

static void a_slip_in_an_event_gets_the_nearest_name(void **state)
{
	const char *near = NULL;
	(void)state;
	assert_true(event_known("REQUEUED", &near));
	assert_false(event_known("requeued", &near));
	assert_string_equal(near, "REQUEUED");
	assert_false(event_known("late-completion", &near));
	assert_string_equal(near, "LATE_COMPLETION");
	assert_false(event_known("banana split", &near));
	assert_null(near);
}

static void what_remedies_and_acts_are_called_is_an_event(void **state)
{
	const char *near;
	(void)state;
	for (int act = 0; act < ACT_COUNT; act++)
		if (!event_known(act_event(act), &near))
			fail_msg("%s is not in EVENT_LIST", act_event(act));
}

#define BEHAVIOURS(X)                                                                              \
	X(filters_give_what_they_name)                                                                 \
	X(a_batch_is_itself_and_the_parts_of_its_scan)                                                 \
	X(a_limit_takes_the_oldest_or_the_newest)                                                      \
	X(a_cursor_goes_on_behind_what_was_read)                                                       \
	X(entries_older_than_asked_are_left_out)                                                       \
	X(every_column_comes_back)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BEHAVIOURS(ROWS_OF) cmocka_unit_test(a_slip_in_an_event_gets_the_nearest_name),
		cmocka_unit_test(what_remedies_and_acts_are_called_is_an_event),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
