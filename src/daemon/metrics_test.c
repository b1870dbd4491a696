/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics.h"

#include "base/test.h"
#include "base/text.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

static struct metrics *m;

static int begin(void **state)
{
	(void)state;
	m = metrics_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	metrics_free(m);
	return 0;
}

static void assert_says(bool openmetrics, const char *expected)
{
	struct buf out = BUF_INIT;
	metrics_write(m, NULL, openmetrics, &out);
	assert_string_equal(buf_text(&out), expected);
	buf_release(&out);
}

static void a_counter_adds_up_by_its_labels(void **state)
{
	(void)state;
	double v = 0;
	metrics_add(m, METRIC_RECOVERED, 2, LABELS("pages", "main", "requeue"));
	metrics_add(m, METRIC_RECOVERED, 3, LABELS("pages", "main", "requeue"));
	metrics_add(m, METRIC_RECOVERED, 1, LABELS("pages", "main", "fail"));
	assert_true(metrics_value(m, METRIC_RECOVERED, LABELS("pages", "main", "requeue"), &v, NULL));
	assert_true(v == 5);
	assert_false(metrics_value(m, METRIC_RECOVERED, LABELS("pages", "other", "requeue"), &v, NULL));
	assert_true(metrics_total(m, METRIC_RECOVERED, LABELS("pages", NULL, NULL)) == 6);
}

static void text_names_a_counter_with_total(void **state)
{
	(void)state;
	metrics_add(m, METRIC_HTTP_DENIED, 1, NO_LABELS);
	assert_says(false, "# HELP defib_http_denied_total Requests whose token or worker's secret was "
	                   "wrong or missing.\n"
	                   "# TYPE defib_http_denied_total counter\n"
	                   "defib_http_denied_total 1\n");
}

static void openmetrics_names_its_family_without_and_ends_with_eof(void **state)
{
	(void)state;
	metrics_add(m, METRIC_HTTP_DENIED, 1, NO_LABELS);
	assert_says(
		true,
		"# HELP defib_http_denied Requests whose token or worker's secret was wrong or missing.\n"
		"# TYPE defib_http_denied counter\n"
		"defib_http_denied_total 1\n"
		"# EOF\n");
}

static void openmetrics_says_the_unit(void **state)
{
	(void)state;
	metrics_set(m, METRIC_STARTED, 1700000000.25, NO_LABELS);
	assert_says(true, "# HELP defib_start_time_seconds Unix time at which the daemon started.\n"
	                  "# TYPE defib_start_time_seconds gauge\n"
	                  "# UNIT defib_start_time_seconds seconds\n"
	                  "defib_start_time_seconds 1700000000.25\n"
	                  "# EOF\n");
}

static void an_alias_adds_up_what_differs_in_other_labels(void **state)
{
	(void)state;
	struct metric_alias items[] = {{METRIC_RECOVERED, "zombies_recovered_total"},
	                               {METRIC_JOB, "zombie_seconds"}};
	AUTO_BUF out = BUF_INIT;
	metrics_add(m, METRIC_RECOVERED, 2, LABELS("b", "main", "requeue", "automation"));
	metrics_add(m, METRIC_RECOVERED, 5, LABELS("a", "main", "fail", "person"));
	metrics_add(m, METRIC_RECOVERED, 1, LABELS("b", "main", "fail", "automation"));
	metrics_observe(m, METRIC_JOB, 3, LABELS("a", "main", "x"));
	metrics_observe(m, METRIC_JOB, 4, LABELS("a", "main", "y"));
	metrics_write(m, &(struct metric_aliases){2, items}, true, &out);
	const char *text = strstr(buf_text(&out), "# HELP zombies");
	assert_non_null(text);
	assert_non_null(strstr(text, "# TYPE zombies_recovered counter\n"
	                             "zombies_recovered_total{watch=\"a\",database=\"main\"} 5\n"
	                             "zombies_recovered_total{watch=\"b\",database=\"main\"} 3\n"));
	assert_non_null(strstr(text, "# UNIT zombie_seconds seconds\n"));
	assert_non_null(strstr(text, "zombie_seconds_sum{watch=\"a\",database=\"main\"} 7\n"
	                             "zombie_seconds_count{watch=\"a\",database=\"main\"} 2\n# EOF\n"));
}

static void label_values_are_escaped(void **state)
{
	(void)state;
	struct buf out = BUF_INIT;
	metrics_set(m, METRIC_DATABASE_UP, 1, LABELS("a\\b\"c\nd\xff"));
	metrics_write(m, NULL, false, &out);
	assert_non_null(strstr(buf_text(&out), "defib_database_up{database=\"a\\\\b\\\"c\\nd?\"} 1\n"));
	buf_release(&out);
}

static void buckets_add_up_and_include_their_bound(void **state)
{
	(void)state;
	struct buf out = BUF_INIT;
	metrics_observe(m, METRIC_HTTP_SECONDS, 0.001, NO_LABELS);
	metrics_observe(m, METRIC_HTTP_SECONDS, 0.4, NO_LABELS);
	metrics_observe(m, METRIC_HTTP_SECONDS, -3, NO_LABELS);
	metrics_observe(m, METRIC_HTTP_SECONDS, 1000, NO_LABELS);
	metrics_write(m, NULL, false, &out);
	const char *const lines[] = {
		"_bucket{le=\"0.001\"} 2\n",
		"_bucket{le=\"0.25\"} 2\n",
		"_bucket{le=\"0.5\"} 3\n",
		"_bucket{le=\"30.0\"} 3\n",
		"_bucket{le=\"+Inf\"} 4\n",
		"_sum 1000.401\n",
		"_count 4\n",
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		assert_non_null(strstr(buf_text(&out), lines[i]));
	buf_release(&out);
}

static void buckets_that_another_counts_are_taken_as_they_are(void **state)
{
	(void)state;
	double counts[JOB_TIME_BUCKETS] = {[0] = 2, [JOB_TIME_BUCKETS - 1] = 1}, n = 0, sum = 0;
	const char *const *labels = LABELS("anna", "main");
	for (int i = 0; i < 2; i++)
		metrics_set_buckets(m, METRIC_WORKER_TOOK, counts, 99.5, labels);
	assert_true(metrics_value(m, METRIC_WORKER_TOOK, labels, &n, &sum));
	assert_true(n == 3 && sum == 99.5);
}

static void a_forgotten_watch_leaves_nothing_behind(void **state)
{
	(void)state;
	metrics_set(m, METRIC_STUCK, 3, LABELS("pages", "main"));
	metrics_observe(m, METRIC_DETECTION, 3, LABELS("pages", "main"));
	metrics_set(m, METRIC_STUCK, 4, LABELS("pages", "other"));
	metrics_set(m, METRIC_DATABASE_UP, 1, LABELS("main"));
	metrics_forget(m, "main", "pages");
	assert_true(metrics_total(m, METRIC_STUCK, LABELS(NULL)) == 4);
	assert_true(metrics_total(m, METRIC_DETECTION, LABELS(NULL)) == 0);
	assert_true(metrics_total(m, METRIC_DATABASE_UP, LABELS(NULL)) == 1);
	metrics_forget(m, "main", NULL);
	assert_true(metrics_total(m, METRIC_DATABASE_UP, LABELS(NULL)) == 0);
	metrics_forget(m, "other", NULL);
	assert_says(false, "");
}

static void a_dropped_state_goes_and_its_neighbours_stay(void **state)
{
	(void)state;
	metrics_set(m, METRIC_QUEUE, 1, LABELS("q", "main", "queued"));
	metrics_set(m, METRIC_QUEUE, 2, LABELS("q", "main", "running"));
	metrics_set(m, METRIC_QUEUE, 4, LABELS("r", "main", "queued"));
	metrics_drop(m, METRIC_QUEUE, LABELS("q", "main", NULL));
	assert_true(metrics_total(m, METRIC_QUEUE, LABELS(NULL)) == 4);
	metrics_set(m, METRIC_QUEUE, 8, LABELS("q", "main", "queued"));
	assert_true(metrics_total(m, METRIC_QUEUE, LABELS(NULL)) == 12);
}

static void one_metric_cannot_grow_without_end(void **state)
{
	(void)state;
	for (int i = 0; i < METRICS_FAMILY_MAX + 7; i++) {
		char name[32];
		const char *worker = name;
		snprintf(name, sizeof name, "worker-%d", i);
		metrics_set(m, METRIC_WORKER_UP, 1, LABELS(worker, "main"));
	}
	assert_true(metrics_total(m, METRIC_WORKER_UP, LABELS(NULL)) == METRICS_FAMILY_MAX);
	assert_true(metrics_total(m, METRIC_SERIES_DROPPED, NO_LABELS) == 7);
}

static void nobody_counts_without_a_registry(void **state)
{
	(void)state;
	double v;
	struct buf out = BUF_INIT;
	metrics_add(NULL, METRIC_HTTP_DENIED, 1, NO_LABELS);
	metrics_observe(NULL, METRIC_HTTP_SECONDS, 1, NO_LABELS);
	metrics_forget(NULL, "main", "pages");
	assert_false(metrics_value(NULL, METRIC_HTTP_DENIED, NO_LABELS, &v, NULL));
	metrics_write(NULL, NULL, false, &out);
	assert_string_equal(buf_text(&out), "");
}

static void *count_much(void *arg)
{
	const char *mine = arg;
	for (int i = 0; i < 5000; i++) {
		metrics_add(m, METRIC_DELIVERIES, 1, LABELS("all", "ok"));
		metrics_add(m, METRIC_DELIVERIES, 1, LABELS(mine, "ok"));
		if (i % 100 == 0)
			metrics_drop(m, METRIC_DELIVERIES, LABELS(mine, NULL));
	}
	return NULL;
}

static void threads_lose_nothing(void **state)
{
	(void)state;
	static char names[4][8] = {"a", "b", "c", "d"};
	pthread_t threads[4];
	double v = 0;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_much, names[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(metrics_value(m, METRIC_DELIVERIES, LABELS("all", "ok"), &v, NULL));
	assert_true(v == 20000);
}

/* ---- the table itself */

static bool name_ok(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!islower((unsigned char)*c) && *c != '_')
			return false;
	return text_starts(name, "defib_");
}

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);
	return n > k && text_eq(name + n - k, end);
}

static void every_row_of_the_table_is_well_formed(void **state)
{
	(void)state;
	for (int id = 0; id < METRIC_COUNT; id++) {
		const struct metric_about *a = metric_about((enum metric)id);
		assert_true(name_ok(a->name));
		assert_int_equal(ends_in(a->name, "_total"), a->kind == METRIC_COUNTER);
		assert_int_equal(a->nbounds > 0, a->kind == METRIC_HISTOGRAM);
		assert_true(a->kind != METRIC_HISTOGRAM || ends_in(a->name, "_seconds"));
		assert_true(ends_in(a->help, "."));
		assert_null(strpbrk(a->help, "\\\"\n|"));
		for (int i = 1; i < a->nbounds; i++)
			assert_true(a->bounds[i] > a->bounds[i - 1]);
		for (int other = 0; other < id; other++)
			assert_string_not_equal(a->name, metric_about((enum metric)other)->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_counter_adds_up_by_its_labels, begin, end),
		cmocka_unit_test_setup_teardown(text_names_a_counter_with_total, begin, end),
		cmocka_unit_test_setup_teardown(openmetrics_names_its_family_without_and_ends_with_eof,
	                                    begin, end),
		cmocka_unit_test_setup_teardown(openmetrics_says_the_unit, begin, end),
		cmocka_unit_test_setup_teardown(an_alias_adds_up_what_differs_in_other_labels, begin, end),
		cmocka_unit_test_setup_teardown(label_values_are_escaped, begin, end),
		cmocka_unit_test_setup_teardown(buckets_add_up_and_include_their_bound, begin, end),
		cmocka_unit_test_setup_teardown(buckets_that_another_counts_are_taken_as_they_are, begin,
	                                    end),
		cmocka_unit_test_setup_teardown(a_forgotten_watch_leaves_nothing_behind, begin, end),
		cmocka_unit_test_setup_teardown(a_dropped_state_goes_and_its_neighbours_stay, begin, end),
		cmocka_unit_test_setup_teardown(one_metric_cannot_grow_without_end, begin, end),
		cmocka_unit_test(nobody_counts_without_a_registry),
		cmocka_unit_test_setup_teardown(threads_lose_nothing, begin, end),
		cmocka_unit_test(every_row_of_the_table_is_well_formed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
