/* SPDX-License-Identifier: Apache-2.0 */
/* incidents_test.c: how entries of the ledger become incidents, and how these read. */
#include "insight/incidents.h"

#include "base/clock.h"
#include "base/test.h"
#include "ledger/events.h"

static struct arena arena;

static int fresh(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static struct incident_entry lost(int s, const char *job, const char *worker, const char *host)
{
	return (struct incident_entry){.at_us = s * US_PER_S,
	                               .watch = "queue",
	                               .job = job,
	                               .event = ENTRY_REQUEUED,
	                               .verdict = VERDICT_DEAD,
	                               .owner = worker,
	                               .worker = worker,
	                               .host = host,
	                               .lost_us = 9000};
}

/* "what, outcome; what, outcome", the latest first. */
static const char *told(const struct incident_entry *entries, int n)
{
	struct incident *all;
	struct buf out = BUF_INIT;
	int found = 0;
	incidents_group(entries, n, &arena, &all, &found);
	for (int i = 0; i < found; i++) {
		buf_add(&out, i ? "; " : "");
		incident_what(&all[i], &out);
		buf_add(&out, ", ");
		incident_outcome(&all[i], &out);
	}
	return buf_to_arena(&out, &arena);
}

static void workers_of_one_host_are_one_incident(void **state)
{
	struct incident_entry e[] = {lost(10, "1", "w1", "b"), lost(11, "2", "w2", "b"),
	                             lost(11, "3", "w3", "b"), lost(12, "4", "w3", "b")};
	(void)state;
	e[3].event = ENTRY_HELD;
	assert_string_equal(told(e, 4), "host b lost 3 workers, 3 jobs recovered in 9 ms, 1 held");
}

static void watches_of_one_host_are_one_incident(void **state)
{
	struct incident_entry e[] = {lost(10, "1", "w1", "b"), lost(11, "1", "w1", "b")};
	struct incident *all;
	int n = 0;
	(void)state;
	e[1].watch = "pages";
	incidents_group(e, 2, &arena, &all, &n);
	assert_int_equal(n, 1);
	assert_int_equal(all[0].nwatches, 2);
	assert_int_equal(all[0].nworkers, 1);
	assert_int_equal(all[0].jobs, 2);
}

static void hosts_are_incidents_of_their_own_and_the_latest_comes_first(void **state)
{
	const struct incident_entry e[] = {lost(10, "1", "w1", "a"), lost(12, "2", "w2", "b")};
	(void)state;
	assert_string_equal(told(e, 2), "host b lost 1 worker, 1 job recovered in 9 ms; "
	                                "host a lost 1 worker, 1 job recovered in 9 ms");
}

static void a_minute_without_an_entry_ends_an_incident(void **state)
{
	const struct incident_entry together[] = {lost(10, "1", "w1", "b"), lost(70, "2", "w2", "b")};
	const struct incident_entry apart[] = {lost(10, "1", "w1", "b"), lost(71, "2", "w2", "b")};
	(void)state;
	assert_string_equal(told(together, 2), "host b lost 2 workers, 2 jobs recovered in 9 ms");
	assert_string_equal(told(apart, 2), "host b lost 1 worker, 1 job recovered in 9 ms; "
	                                    "host b lost 1 worker, 1 job recovered in 9 ms");
}

static void the_order_of_entries_does_not_matter(void **state)
{
	const struct incident_entry e[] = {lost(50, "3", "w3", "b"), lost(10, "1", "w1", "b"),
	                                   lost(30, "2", "w2", "b")};
	struct incident *all;
	int n = 0;
	(void)state;
	incidents_group(e, 3, &arena, &all, &n);
	assert_int_equal(n, 1);
	assert_int_equal(all[0].from_us, 10 * US_PER_S);
	assert_int_equal(all[0].to_us, 50 * US_PER_S);
}

static void a_job_that_is_lost_again_counts_once_by_its_last_entry(void **state)
{
	struct incident_entry e[] = {lost(10, "1", "w1", "b"), lost(20, "1", "w2", "b")};
	(void)state;
	e[1].event = ENTRY_HELD;
	assert_string_equal(told(e, 2), "host b lost 2 workers, 1 job held");
}

static void without_a_host_the_watch_is_the_cause(void **state)
{
	struct incident_entry e[] = {lost(10, "1", "crawler-0", NULL), lost(11, "2", "crawler-1", NULL),
	                             lost(11, "3", NULL, NULL)};
	(void)state;
	for (int i = 0; i < 3; i++) {
		e[i].watch = i < 2 ? "crawl" : "imports";
		e[i].verdict = i < 2 ? VERDICT_SILENT : VERDICT_OVERDUE;
		e[i].event = i < 2 ? ENTRY_ZOMBIE_DETECTED : ENTRY_FAILED;
	}
	assert_string_equal(told(e, 2), "crawl: 2 workers fell silent, 2 jobs reported only");
	assert_string_equal(told(e + 2, 1),
	                    "imports: 1 job ran too long, 1 job recovered in 9 ms (1 ended as failed)");
}

static void the_time_is_the_median_of_those_known(void **state)
{
	struct incident_entry e[] = {lost(10, "1", "w1", "b"), lost(10, "2", "w1", "b"),
	                             lost(10, "3", "w1", "b"), lost(10, "4", "w1", "b")};
	(void)state;
	e[0].lost_us = -1;
	e[1].lost_us = 1000;
	e[2].lost_us = 2000000;
	e[3].lost_us = 7000;
	assert_string_equal(told(e, 4), "host b lost 1 worker, 4 jobs recovered in 7 ms");
	e[1].lost_us = e[2].lost_us = e[3].lost_us = -1;
	assert_string_equal(told(e, 4), "host b lost 1 worker, 4 jobs recovered");
}

static void many_are_written_with_commas(void **state)
{
	const struct incident i = {
		.host = "b", .nworkers = 1, .verdict = VERDICT_DEAD, .recovered = 12345, .median_us = -1};
	AUTO_BUF out = BUF_INIT;
	(void)state;
	incident_outcome(&i, &out);
	assert_string_equal(buf_text(&out), "12,345 jobs recovered");
}

static void nothing_is_no_incident(void **state)
{
	struct incident *all;
	int n = 1;
	(void)state;
	incidents_group(NULL, 0, &arena, &all, &n);
	assert_int_equal(n, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(workers_of_one_host_are_one_incident),
		TEST(watches_of_one_host_are_one_incident),
		TEST(hosts_are_incidents_of_their_own_and_the_latest_comes_first),
		TEST(a_minute_without_an_entry_ends_an_incident),
		TEST(the_order_of_entries_does_not_matter),
		TEST(a_job_that_is_lost_again_counts_once_by_its_last_entry),
		TEST(without_a_host_the_watch_is_the_cause),
		TEST(the_time_is_the_median_of_those_known),
		TEST(many_are_written_with_commas),
		TEST(nothing_is_no_incident),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_release(&arena);
	return failed;
}
