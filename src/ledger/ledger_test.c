/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_test.c: the ledger is created, appended to, detected, and read back. */
#include "ledger/ledger_test.h"
#include "ledger/events.h"
#include "ledger/history.h"
#include "ledger/schema.h"
#include "store/fault_test.h"
#include "watch/watch.h"

/* ---- behaviours, each on both engines ---- */

static void it_is_made_once_and_found_again(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	struct ledger again;
	open_place(&p, engine);
	assert_true(p.ledger.made);
	assert_int_equal(ledger_open(p.store, true, &again, &f), DEFIB_OK);
	assert_true(again.ready);
	assert_false(again.made);
	close_place(&p);
}

/* Whichever statement fails; a role that may not run it works without. */
static void it_is_made_as_a_whole_or_not_at_all(enum store_engine engine)
{
	static const defib_err codes[] = {DEFIB_BAD_SQL, DEFIB_TIMEOUT, DEFIB_PERMISSION};
	struct place p;
	open_store(&p, engine);
	for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
		erase(&p);
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = codes[c]};
			struct fault_store *s = (struct fault_store *)fault_wrap(p.store, &plan);
			struct failure f = {0};
			struct ledger l;
			bool there;
			defib_err err = ledger_open(&s->base, true, &l, &f);
			fired = plan.fired;
			assert_true(err == (fired ? codes[c] : DEFIB_OK) ||
			            (err == DEFIB_OK && codes[c] == DEFIB_PERMISSION && *l.off_because));
			assert_int_equal(!err && l.ready, !fired);
			assert_int_equal(schema_has(p.store, "ledger", &there, &f), DEFIB_OK);
			assert_int_equal(there, !fired);
			free(s);
		}
	}
	close_place(&p);
}

static void it_is_not_made_unasked(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	open_store(&p, engine);
	erase(&p);
	assert_int_equal(ledger_open(p.store, false, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_string_equal(p.ledger.off_because, "it does not exist yet");
	close_place(&p);
}

static void entries_are_kept_as_they_were_given(enum store_engine engine)
{
	static const char *const hostile = "o'x\"; -- {größe} \\ ,";
	struct ledger_entry e[] = {{.job = "1",
	                            .event = "REQUEUED",
	                            .verdict = "silent",
	                            .rule = "rule-1",
	                            .reason = hostile,
	                            .evidence = "{\"a\": [1, null]}",
	                            .before = "{}"},
	                           {.job = hostile, .event = "HELD"}};
	struct place p;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_string_equal(
		cell(&p, "SELECT count(*) FROM %s WHERE batch = 'batch-1' AND actor = 'test'"), "2");
	assert_string_equal(cell(&p, "SELECT reason FROM %s WHERE job = '1'"), hostile);
	assert_string_equal(cell(&p, "SELECT evidence FROM %s WHERE job = '1'"), "{\"a\": [1, null]}");
	assert_string_equal(cell(&p, "SELECT job FROM %s WHERE event = 'HELD' AND verdict IS NULL "
	                             "AND evidence IS NULL"),
	                    hostile);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE at IS NOT NULL"), "2");
	close_place(&p);
}

static void an_epoch_is_kept_where_there_is_one(enum store_engine engine)
{
	struct ledger_entry e[] = {
		{.job = "1", .event = "REQUEUED", .has_epoch = true, .epoch = INT64_C(1) << 40},
		{.job = "2", .event = "REQUEUED", .epoch = 7}};
	struct place p;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_string_equal(cell(&p, "SELECT epoch FROM %s WHERE job = '1'"), "1099511627776");
	assert_null(cell(&p, "SELECT epoch FROM %s WHERE job = '2'"));
	close_place(&p);
}

static void drop_part_of_it(struct place *p)
{
	bool postgres = p->engine == STORE_POSTGRES;
	run(p, postgres ? "DROP TABLE defib.retry" : "DROP TABLE defib_retry");
	run(p, postgres ? "DROP FUNCTION defib.ledger_append_only, defib.ledger_deleted CASCADE"
	                : "DROP TRIGGER defib_ledger_kept");
}

static void what_is_missing_of_it_is_created(enum store_engine engine)
{
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct failure f = {0};
	struct place p;
	open_place(&p, engine);
	append(&p, &e, 1, true);
	drop_part_of_it(&p);
	assert_int_equal(ledger_open(p.store, true, &p.ledger, &f), DEFIB_OK);
	assert_true(p.ledger.ready && p.ledger.made);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s"), "1");
	assert_true(store_exec(p.store, on_table(&p, "DELETE FROM %s"), NULL, 0, NULL, NULL, &f) !=
	            DEFIB_OK);
	close_place(&p);
}

static void nothing_is_created_unless_asked(enum store_engine engine)
{
	struct failure f = {0};
	struct place p;
	open_place(&p, engine);
	drop_part_of_it(&p);
	assert_int_equal(ledger_open(p.store, false, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_non_null(strstr(p.ledger.off_because, "does not exist"));
	close_place(&p);
}

static void ids_rise_in_the_order_of_entries(enum store_engine engine)
{
	struct ledger_entry e[] = {{.job = "b", .event = "FAILED"}, {.job = "a", .event = "FAILED"}};
	struct place p;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_string_equal(cell(&p, "SELECT job FROM %s ORDER BY id LIMIT 1"), "b");
	close_place(&p);
}

static void a_batch_is_known_once_it_is_committed(enum store_engine engine)
{
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct place p;
	struct failure f = {0};
	bool found = true;
	open_place(&p, engine);
	append(&p, &e, 1, false);
	assert_int_equal(ledger_has_batch(p.store, "batch-1", &found, &f), DEFIB_OK);
	assert_false(found);
	append(&p, &e, 1, true);
	assert_int_equal(ledger_has_batch(p.store, "batch-1", &found, &f), DEFIB_OK);
	assert_true(found);
	assert_int_equal(ledger_has_batch(p.store, "batch-2", &found, &f), DEFIB_OK);
	assert_false(found);
	close_place(&p);
}

static void nothing_to_write_or_ask_is_no_statement(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	struct history none;
	open_place(&p, engine);
	assert_int_equal(ledger_append(p.store, &context, NULL, 0, &p.arena, &f), DEFIB_OK);
	assert_int_equal(ledger_hold(p.store, &context, HELD_TABLE, NULL, 0, &p.arena, &f), DEFIB_OK);
	assert_int_equal(
		ledger_history(p.store, "pages", HELD_TABLE, NULL, 0, DAY, &p.arena, &none, &f), DEFIB_OK);
	close_place(&p);
}

/* ---- */

static void a_read_only_file_is_said_to_be_one(void **state)
{
	struct place p;
	struct failure f = {0};
	struct ledger l;
	struct store *s = NULL;
	char url[128];
	(void)state;
	open_store(&p, STORE_SQLITE);
	erase(&p);
	snprintf(url, sizeof url, "sqlite:%s/l.db", dir);
	struct store_options opt =
		patient((struct store_options){.url = url, .name = "t", .read_only = true});
	assert_int_equal(store_open(&opt, &s, &f), DEFIB_OK);
	assert_int_equal(ledger_open(s, true, &l, &f), DEFIB_READ_ONLY);
	assert_false(l.ready);
	store_close(s);
	close_place(&p);
}

static void a_role_that_may_not_create_works_without_and_is_told_why(void **state)
{
	struct place p;
	struct failure f = {0};
	(void)state;
	open_store(&p, STORE_POSTGRES);
	erase(&p);
	run(&p, "SET ROLE pg_monitor"); /* a role of every server that may create nothing */
	assert_int_equal(ledger_open(p.store, true, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_int_equal(p.ledger.off_advice, ADVISE_CREATE_TABLES);
	run(&p, "RESET ROLE");
	close_place(&p);
}

static void a_role_that_may_not_write_to_it_works_without_and_is_told_why(void **state)
{
	struct place p;
	struct failure f = {0};
	(void)state;
	open_place(&p, STORE_POSTGRES);
	run(&p, "SET ROLE pg_monitor");
	assert_int_equal(ledger_open(p.store, true, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_int_equal(p.ledger.off_advice, ADVISE_GRANT);
	run(&p, "RESET ROLE");
	close_place(&p);
}

/* ---- reading ---- */

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

/* The jobs of the entries that a filter selects, in order. */
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
	X(it_is_made_once_and_found_again)                                                             \
	X(it_is_made_as_a_whole_or_not_at_all)                                                         \
	X(it_is_not_made_unasked)                                                                      \
	X(entries_are_kept_as_they_were_given)                                                         \
	X(an_epoch_is_kept_where_there_is_one)                                                         \
	X(what_is_missing_of_it_is_created)                                                            \
	X(nothing_is_created_unless_asked)                                                             \
	X(ids_rise_in_the_order_of_entries)                                                            \
	X(a_batch_is_known_once_it_is_committed)                                                       \
	X(nothing_to_write_or_ask_is_no_statement)                                                     \
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
		BEHAVIOURS(ROWS_OF) cmocka_unit_test(a_read_only_file_is_said_to_be_one),
		cmocka_unit_test(a_role_that_may_not_create_works_without_and_is_told_why),
		cmocka_unit_test(a_role_that_may_not_write_to_it_works_without_and_is_told_why),
		cmocka_unit_test(a_slip_in_an_event_gets_the_nearest_name),
		cmocka_unit_test(what_remedies_and_acts_are_called_is_an_event),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
