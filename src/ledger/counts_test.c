/* SPDX-License-Identifier: Apache-2.0
 * counts_test.c: numbers from the ledger's tables: a caller that continues where its last call
 * ended counts each entry once.
 */
#include "ledger/counts.h"

#include "ledger/events.h"
#include "ledger/ledger_test.h"
#include "ledger/retries.h"

/* "pages REQUEUED 2" in the order of the names, and where the next call continues. */
static const char *counted(struct place *p, int64_t *from)
{
	struct event_count *all;
	struct failure f = {0};
	struct buf text = BUF_INIT;
	int n = 0;
	if (ledger_events_since(p->store, *from, &p->arena, &all, &n, from, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++)
		buf_addf(&text, "%s %s %lld;", all[i].watch, all[i].event, (long long)all[i].n);
	const char *copy = arena_strdup(&p->arena, buf_text(&text));
	buf_release(&text);
	return copy;
}

/* As after a restore of the database: what is added from now on would be passed over otherwise. */
static void a_ledger_that_ends_before_the_place_is_read_on_at_its_end(enum store_engine engine)
{
	static const struct ledger_entry two[] = {{.job = "a", .event = "REQUEUED"},
	                                          {.job = "b", .event = "REQUEUED"}};
	struct failure f = {0};
	struct place p;
	int64_t from = 0, top = 0;
	open_place(&p, engine);
	append(&p, two, 2, true);
	assert_int_equal(ledger_top(p.store, &top, &f), DEFIB_OK);
	from = top + 100;
	assert_string_equal(counted(&p, &from), "");
	assert_int_equal(from, top);
	append(&p, two, 2, true);
	assert_string_equal(counted(&p, &from), "pages REQUEUED 2;");
	close_place(&p);
}

static void each_entry_is_counted_once(enum store_engine engine)
{
	static const struct ledger_entry two[] = {{.job = "a", .event = "REQUEUED"},
	                                          {.job = "b", .event = "REQUEUED"}};
	struct place p;
	int64_t from = 0;
	open_place(&p, engine);
	assert_string_equal(counted(&p, &from), "");
	append(&p, two, 2, true);
	assert_string_equal(counted(&p, &from), "pages REQUEUED 2;");
	assert_string_equal(counted(&p, &from), "");
	append(&p, two, 2, false);
	append(&p, two, 1, true);
	assert_string_equal(counted(&p, &from), "pages REQUEUED 1;");
	close_place(&p);
}

static void who_is_far_behind_comes_again(enum store_engine engine)
{
	static const struct ledger_entry one = {.job = "a", .event = "REQUEUED"};
	struct place p;
	int64_t from = -LEDGER_COUNT_IDS;
	open_place(&p, engine);
	append(&p, &one, 1, true);
	assert_string_equal(counted(&p, &from), "");
	assert_int_equal(from, 0);
	assert_string_equal(counted(&p, &from), "pages REQUEUED 1;");
	close_place(&p);
}

static void what_waits_is_counted_by_watch(enum store_engine engine)
{
	static const struct hold holds[] = {
		{.job = "a", .cause = "poison"},
		{.job = "b", .cause = "poison"},
		{.job = "d", .cause = HOLD_EXCUSE, .excuse = {.verdict = "silent"}}};
	struct pending_retry retry = {.job = "c", .reason = "later", .due_us = 1};
	struct place p;
	struct failure f = {0};
	struct held_rows rows = {-1, -1, -1, -1};
	open_place(&p, engine);
	hold(&p, holds, 3);
	assert_int_equal(store_begin(p.store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_retry_add(p.store, &context, &retry, 1, &p.arena, &f) || store_commit(p.store, &f))
		fail_msg("%s", f.what);
	assert_int_equal(ledger_count_held(p.store, "pages", HELD_TABLE, &rows, &f), DEFIB_OK);
	assert_true(rows.own == 2 && rows.others == 0 && rows.retries == 1 && rows.excuses == 1);
	/* Of another watch on that table, and of one on another. */
	assert_int_equal(ledger_count_held(p.store, "mails", HELD_TABLE, &rows, &f), DEFIB_OK);
	assert_true(rows.own == 0 && rows.others == 2 && rows.retries == 0 && rows.excuses == 1);
	assert_int_equal(ledger_count_held(p.store, "mails", "mails (id)", &rows, &f), DEFIB_OK);
	assert_true(rows.own == 0 && rows.others == 0 && rows.retries == 0 && rows.excuses == 0);
	struct retries_of *all = NULL;
	int n = 0;
	assert_int_equal(ledger_retries_all(p.store, &p.arena, &all, &n, &f), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_string_equal(all[0].watch, "pages");
	assert_int_equal(all[0].retries, 1);
	close_place(&p);
}

/* Every event, judged and not, by an operator and not: SQL and C give the same result. */
static void the_database_counts_as_the_table_of_events_does(enum store_engine engine)
{
	static const unsigned numbers[] = {COUNTS_DETECTED, COUNTS_RECOVERED, COUNTS_HELD,
	                                   COUNTS_ROLLED_BACK};
	struct place p;
	int64_t want[4] = {0}, got[4] = {0}, asked, last;
	struct event_count *all;
	struct failure f = {0};
	int n = 0;
	open_place(&p, engine);
	for (const struct event_name *e = event_names; e->name; e++)
		for (int k = 0; k < 4; k++) {
			bool judged = k & 1, hand = (k & 2) || (e->marks & MARK_PERSONS);
			struct ledger_entry one = {.job = "a",
			                           .event = e->name,
			                           .verdict = judged ? "silent" : NULL,
			                           .rule = k & 2 ? RULE_BY_HAND : "attempts-left"};
			append(&p, &one, 1, true);
			/* Detected by scans only, and only with a verdict; recovered by both. */
			bool detects = judged && !hand && (e->counts & COUNTS_DETECTED);
			bool recovers = judged && (e->counts & COUNTS_RECOVERED);
			unsigned counted = event_counts(e->name, judged, hand);
			assert_int_equal((counted & COUNTS_DETECTED) != 0, detects);
			assert_int_equal((counted & COUNTS_RECOVERED) != 0, recovers);
			for (int i = 0; i < 4; i++)
				want[i] += (counted & numbers[i]) != 0;
		}
	assert_int_equal(ledger_events_since(p.store, 0, &p.arena, &all, &n, &last, &f), DEFIB_OK);
	for (int i = 0; i < 4; i++) {
		struct buf sql = BUF_INIT;
		buf_add(&sql, "SELECT count(*) FROM %s AS l WHERE ");
		event_counts_sql(&sql, "l", numbers[i], BY_ANYBODY);
		asked = strtoll(cell(&p, buf_text(&sql)), NULL, 10);
		buf_release(&sql);
		for (int k = 0; k < n; k++)
			got[i] += all[k].counts & numbers[i] ? all[k].n : 0;
		assert_int_equal(asked, want[i]);
		assert_int_equal(got[i], want[i]);
		assert_true(want[i] > 0);
	}
	close_place(&p);
}

/* From the evidence alone, so that it does not matter who found the job. */
static void times_to_detection_are_counted_by_bucket(enum store_engine engine)
{
	static const double bounds[] = {0.5, 60};
	static const struct time_bounds both[] = {{bounds, 2}, {bounds, 2}};
	static const char *const signs[] = {"2026-01-02T03:04:05.500Z", "2026-01-02T03:03:06.000Z",
	                                    "2026-01-02T03:03:05.999Z"};
	struct ledger_entry e = {.job = "a", .event = "REQUEUED", .verdict = "silent"};
	struct detection_count *all;
	struct place p;
	struct failure f = {0};
	int64_t top;
	int n = 0;
	open_place(&p, engine);
	for (int i = 0; i < 3; i++) {
		e.evidence = arena_printf(&p.arena,
		                          "{\"now\":\"2026-01-02T03:04:06.000Z\",\"lost_at\":"
		                          "\"%s\"}",
		                          signs[i]);
		append(&p, &e, 1, true);
	}
	e.rule = RULE_BY_HAND; /* found by an operator: not a detection */
	append(&p, &e, 1, true);
	e = (struct ledger_entry){
		.job = "b", .event = "HELD", .verdict = "silent", .evidence = "{\"now\":\"?\"}"};
	append(&p, &e, 1, true);
	assert_int_equal(ledger_top(p.store, &top, &f), DEFIB_OK);
	if (ledger_detections_between(p.store, 0, top, both, &p.arena, &all, &n, &f))
		fail_msg("%s", f.what);
	assert_int_equal(n, 4);
	for (int i = 0; i < n; i++) {
		bool known = all[i].bucket[TO_DETECTION] >= 0;
		assert_string_equal(all[i].watch, "pages");
		assert_int_equal(all[i].n, 1);
		/* Years later: these entries are of now. */
		assert_int_equal(all[i].bucket[TO_RECOVERY], known ? 2 : -1);
		assert_int_equal(all[i].sum_ms[TO_RECOVERY] > 0, known);
		static const int64_t sums[] = {500, 60000, 60001};
		if (known)
			assert_int_equal(all[i].sum_ms[TO_DETECTION], sums[all[i].bucket[TO_DETECTION]]);
	}
	close_place(&p);
}

static void the_entry_before_a_moment_is_found(enum store_engine engine)
{
	static const struct ledger_entry one = {.job = "a", .event = "REQUEUED"},
									 two = {.job = "b", .event = "REQUEUED"};
	struct place p;
	struct failure f = {0};
	int64_t id = -1, top = 0;
	open_place(&p, engine);
	assert_int_equal(ledger_id_before(p.store, DAY, &id, &f), DEFIB_OK);
	assert_int_equal(id, 0);
	for (int i = 0; i < 5; i++)
		append(&p, &one, 1, true);
	assert_int_equal(ledger_top(p.store, &top, &f), DEFIB_OK);
	make_older(&p, 2, "job = 'a'");
	for (int i = 0; i < 4; i++)
		append(&p, &two, 1, true);
	assert_int_equal(ledger_id_before(p.store, DAY, &id, &f), DEFIB_OK);
	assert_int_equal(id, top);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(each_entry_is_counted_once)                                                                  \
	X(a_ledger_that_ends_before_the_place_is_read_on_at_its_end)                                   \
	X(who_is_far_behind_comes_again)                                                               \
	X(what_waits_is_counted_by_watch)                                                              \
	X(the_database_counts_as_the_table_of_events_does)                                             \
	X(times_to_detection_are_counted_by_bucket)                                                    \
	X(the_entry_before_a_moment_is_found)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
