/* SPDX-License-Identifier: Apache-2.0 */
/* history_test.c: which recoveries count, and the last report of a job. */
#include "ledger/history.h"
#include "ledger/ledger_test.h"

#define MASS "{\"mass\": true}"

static void recoveries_are_counted_within_the_time(enum store_engine engine)
{
	static const char *const jobs[] = {"1", "2", "3"};
	struct ledger_entry e[] = {{.job = "1", .event = "REQUEUED"},
	                           {.job = "1", .event = "RETRY_SCHEDULED"},
	                           {.job = "1", .event = "HELD"},
	                           {.job = "2", .event = "FAILED"},
	                           {.job = "9", .event = "REQUEUED"}};
	struct history h[3];
	struct place p;
	open_place(&p, engine);
	append(&p, e, 5, true);
	history(&p, jobs, 3, DAY, h);
	assert_int_equal(h[0].recoveries, 2);
	assert_int_equal(h[1].recoveries, 0);
	assert_int_equal(h[2].recoveries, 0);
	make_older(&p, 2, "event = 'REQUEUED'");
	history(&p, jobs, 3, DAY, h);
	assert_int_equal(h[0].recoveries, 1);
	history(&p, jobs, 3, 3 * DAY, h);
	assert_int_equal(h[0].recoveries, 2);
	close_place(&p);
}

static void another_watch_does_not_count(enum store_engine engine)
{
	static const char *const jobs[] = {"1"};
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct history h;
	struct place p;
	struct failure f = {0};
	open_place(&p, engine);
	append(&p, &e, 1, true);
	hold(&p, &(struct hold){.job = "1", .cause = "rule"}, 1);
	assert_int_equal(ledger_history(p.store, "other", "other", jobs, 1, DAY, &p.arena, &h, &f),
	                 DEFIB_OK);
	assert_int_equal(h.recoveries, 0);
	assert_false(h.held);
	close_place(&p);
}

static int64_t counted(struct place *p, const struct ledger_entry *entries, int n)
{
	static const char *const jobs[] = {"1"};
	struct history h;
	append(p, entries, n, true);
	history(p, jobs, 1, DAY, &h);
	return h.recoveries;
}

static void a_release_wipes_the_slate(enum store_engine engine)
{
	struct ledger_entry e[] = {{.job = "1", .event = "REQUEUED"},
	                           {.job = "1", .event = "REQUEUED"},
	                           {.job = "1", .event = "RELEASED"},
	                           {.job = "2", .event = "RELEASED"}};
	struct place p;
	open_place(&p, engine);
	assert_int_equal(counted(&p, e, 2), 2);
	assert_int_equal(counted(&p, &e[3], 1), 2);
	assert_int_equal(counted(&p, &e[2], 1), 0);
	assert_int_equal(counted(&p, e, 2), 2);
	close_place(&p);
}

/* An undone recovery, and an operator's requeue, are not crashes of the job. */
static void a_persons_acts_wipe_the_slate_too(enum store_engine engine)
{
	struct ledger_entry recovered = {.job = "1", .event = "REQUEUED", .rule = "attempts-left"};
	struct ledger_entry spoken[] = {{.job = "1", .event = "UNDONE", .rule = "undone-by-hand"},
	                                {.job = "1", .event = "REQUEUED", .rule = "chosen-by-hand"},
	                                {.job = "1", .event = "RETRIED", .rule = "chosen-by-hand"}};
	struct place p;
	open_place(&p, engine);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(counted(&p, &recovered, 1), 1);
		assert_int_equal(counted(&p, &spoken[i], 1), 0);
	}
	close_place(&p);
}

static void a_mass_event_is_not_the_fault_of_the_job(enum store_engine engine)
{
	struct ledger_entry e[] = {{.job = "1", .event = "REQUEUED", .evidence = MASS},
	                           {.job = "1", .event = "REQUEUED", .evidence = "{\"mass\": false}"},
	                           {.job = "1", .event = "REQUEUED", .evidence = "{\"mass\": 1}"},
	                           {.job = "1", .event = "REQUEUED", .evidence = "[\"mass\"]"}};
	struct place p;
	open_place(&p, engine);
	assert_int_equal(counted(&p, e, 1), 0);
	assert_int_equal(counted(&p, &e[1], 3), 3);
	close_place(&p);
}

static void recoveries_that_count_are_told_oldest_first(enum store_engine engine)
{
	struct ledger_entry e[] = {
		{.job = "1", .event = "REQUEUED"},
		{.job = "1", .event = "RELEASED"},
		{.job = "1", .event = "REQUEUED", .verdict = "dead", .evidence = "{\"n\": 1}"},
		{.job = "1", .event = "REQUEUED", .evidence = MASS},
		{.job = "1", .event = "RETRY_SCHEDULED", .verdict = "silent", .has_epoch = true},
		{.job = "2", .event = "REQUEUED"}};
	struct ledger_row *rows;
	struct failure f = {0};
	struct place p;
	int n = 0;
	open_place(&p, engine);
	append(&p, e, 6, true);
	if (ledger_recoveries(p.store, "pages", "1", DAY, &p.arena, &rows, &n, &f))
		fail_msg("%s", f.what);
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].verdict, "dead");
	assert_string_equal(rows[0].evidence, "{\"n\": 1}");
	assert_string_equal(rows[0].batch, "batch-1");
	assert_string_equal(rows[1].event, "RETRY_SCHEDULED");
	assert_true(rows[1].has_epoch && !rows[0].has_epoch);
	make_older(&p, 2, "verdict = 'dead'");
	assert_int_equal(ledger_recoveries(p.store, "pages", "1", DAY, &p.arena, &rows, &n, &f),
	                 DEFIB_OK);
	assert_int_equal(n, 1);
	close_place(&p);
}

static void the_latest_note_of_a_stuck_job_counts(enum store_engine engine)
{
	static const char *const jobs[] = {"1", "2", "3", "4"};
	struct ledger_entry e[] = {
		{.job = "1", .event = "ZOMBIE_DETECTED", .after = "{\"owner\": \"w-1\", \"sign_us\": 5}"},
		{.job = "1",
	     .event = "ZOMBIE_DETECTED",
	     .after = "{\"owner\": \"w-2\", \"sign_us\": 1767323045000001}"},
		{.job = "2", .event = "ZOMBIE_DETECTED", .after = "{\"owner\": null, \"sign_us\": null}"},
		{.job = "3", .event = "ZOMBIE_DETECTED"},
		{.job = "1", .event = "HELD", .after = "{\"owner\": \"w-3\"}"}};
	struct history h[4];
	struct place p;
	open_place(&p, engine);
	append(&p, e, 5, true);
	history(&p, jobs, 4, DAY, h);
	assert_true(h[0].noted.is && h[0].noted.has_sign);
	assert_string_equal(h[0].noted.owner, "w-2");
	assert_int_equal(h[0].noted.sign_us, 1767323045000001);
	assert_true(h[1].noted.is && !h[1].noted.owner && !h[1].noted.has_sign);
	assert_true(h[2].noted.is && !h[2].noted.owner && !h[2].noted.has_sign);
	assert_false(h[3].noted.is);
	close_place(&p);
}

/*
 * For an empty ledger all indexes look equally good to the planner, but others may fill it
 * meanwhile.
 */
static void an_empty_ledger_is_asked_by_job(void **state)
{
	static const char *const jobs[] = {"1", "2", "3"};
	struct history h[3];
	struct failure f = {0};
	struct place p;
	(void)state;
	open_place(&p, STORE_POSTGRES);
	assert_int_equal(store_begin(p.store, TX_READ, &f), DEFIB_OK);
	history(&p, jobs, 3, DAY, h);
	assert_string_equal(cell(&p, "SELECT pg_stat_get_xact_numscans('%s_of_job'::regclass)"), "3");
	store_rollback(p.store);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(recoveries_are_counted_within_the_time)                                                      \
	X(another_watch_does_not_count)                                                                \
	X(a_release_wipes_the_slate)                                                                   \
	X(a_persons_acts_wipe_the_slate_too)                                                           \
	X(a_mass_event_is_not_the_fault_of_the_job)                                                    \
	X(recoveries_that_count_are_told_oldest_first)                                                 \
	X(the_latest_note_of_a_stuck_job_counts)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)
	                                       cmocka_unit_test(an_empty_ledger_is_asked_by_job)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
