/* SPDX-License-Identifier: Apache-2.0 */
/* suggest_test.c: what run times suggest, and the texts. */
#include "insight/run_times.h"

#include "base/clock.h"
#include "base/test.h"

#define S US_PER_S
#define MIN (60 * US_PER_S)

/* `n` runs, all of this length, and `more` of another. */
static struct run_times runs(int n, int64_t us, int more, int64_t other_us)
{
	struct run_times t = {0};
	for (int i = 0; i < n; i++)
		run_times_add(&t, us, 1);
	for (int i = 0; i < more; i++)
		run_times_add(&t, other_us, 1);
	return t;
}

static struct watch aged(int64_t stuck_us)
{
	return (struct watch){.name = "jobs",
	                      .alive_at = {.text = "updated_at"},
	                      .stuck_after = {.given = true, .standard_us = stuck_us}};
}

static void says(const struct watch *w, const struct run_times *t, enum advice advice,
                 const char *sentence)
{
	struct suggestion s;
	struct buf text = BUF_INIT;
	suggest(w, "crawl", t, &s);
	suggestion_sentence(&s, "crawl", &text);
	assert_string_equal(buf_text(&text), sentence);
	assert_int_equal(s.advice, advice);
	buf_release(&text);
}

static void a_long_threshold_could_be_shorter(void **state)
{
	struct run_times t = runs(200, 250 * S, 0, 0);
	struct watch w = aged(30 * MIN);
	(void)state;
	says(&w, &t, ADVICE_LOWER, "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s");
}

static void a_threshold_that_runs_exceed_will_recover_living_work(void **state)
{
	struct run_times t = runs(996, 10 * S, 4, 600 * S);
	struct watch w = aged(5 * MIN);
	(void)state;
	says(&w, &t, ADVICE_RAISE,
	     "crawl: 0.4 % of runs take longer than stuck_after 5m: it will recover jobs that are "
	     "still running; 10m leaves room");
}

static void one_that_no_run_reached_but_nearly_has_little_room(void **state)
{
	struct run_times t = runs(200, 250 * S, 0, 0);
	struct watch w = aged(5 * MIN);
	(void)state;
	says(&w, &t, ADVICE_NEAR, "crawl: p99 is 4m 10s, close to stuck_after 5m; 6m 15s leaves room");
}

static void one_that_fits_is_left(void **state)
{
	struct run_times t = runs(200, 250 * S, 0, 0);
	struct watch w = aged(7 * MIN);
	struct suggestion s;
	(void)state;
	says(&w, &t, ADVICE_FITS, "crawl: p99 is 4m 10s; stuck_after 7m fits");
	suggest(&w, NULL, &t, &s);
	assert_false(s.has_us);
}

static void ninety_nine_runs_are_too_few(void **state)
{
	struct run_times t = runs(99, 250 * S, 0, 0);
	struct watch w = aged(30 * MIN);
	struct suggestion s;
	(void)state;
	says(&w, &t, ADVICE_FEW, "crawl: 99 runs are recorded; a suggestion needs 100");
	run_times_add(&t, 250 * S, 1);
	suggest(&w, NULL, &t, &s);
	assert_true(s.has_us);
}

static void nothing_is_suggested_beyond_the_ceiling(void **state)
{
	struct run_times t = runs(200, 3600 * S, 0, 0);
	struct watch w = aged(5 * MIN);
	struct suggestion s;
	(void)state;
	suggest(&w, NULL, &t, &s);
	assert_int_equal(s.advice, ADVICE_BEYOND);
	assert_false(s.has_us);
}

static void it_is_never_under_ten_seconds_nor_twice_the_beat(void **state)
{
	struct run_times t = runs(200, S / 10, 0, 0);
	struct watch w = aged(30 * MIN);
	struct suggestion s;
	(void)state;
	suggest(&w, NULL, &t, &s);
	assert_true(s.us == SUGGEST_FLOOR_US);
	w.beat_us = 30 * S;
	w.overdue_after = (struct threshold){.given = true, .standard_us = 60 * MIN};
	suggest(&w, NULL, &t, &s);
	assert_true(s.us == 60 * S);
}

static void it_is_never_so_short_that_one_run_in_a_thousand_exceeds_it(void **state)
{
	struct watch w = aged(60 * MIN);
	(void)state;
	for (int tail = 0; tail <= 40; tail++) {
		struct run_times t = runs(4000 - tail, 10 * S, tail, 20 * MIN);
		struct suggestion s;
		suggest(&w, NULL, &t, &s);
		assert_true(s.over <= 0.0011);
	}
}

static void where_workers_beat_silence_is_no_matter_of_run_times(void **state)
{
	struct run_times t = runs(200, 250 * S, 0, 0);
	struct watch w = aged(2 * MIN);
	(void)state;
	w.beat_us = 30 * S;
	says(&w, &t, ADVICE_NEW,
	     "crawl: p99 is 4m 10s; overdue_after could be 6m 15s: there is none, so work that hangs "
	     "while its worker is alive is not found");
	w.overdue_after = (struct threshold){.given = true, .standard_us = 30 * MIN};
	says(&w, &t, ADVICE_LOWER, "crawl: p99 is 4m 10s; overdue_after 30m could be 6m 15s");
}

static void each_kind_is_measured_by_its_own_threshold(void **state)
{
	static const char *kinds[] = {"crawl"};
	static int64_t us[] = {30 * MIN};
	struct run_times t = runs(200, 250 * S, 0, 0);
	struct watch w = aged(MIN);
	struct suggestion s;
	(void)state;
	w.stuck_after.n = 1;
	w.stuck_after.kinds = kinds;
	w.stuck_after.us = us;
	suggest(&w, "crawl", &t, &s);
	assert_int_equal(s.advice, ADVICE_LOWER);
	suggest(&w, "scrape", &t, &s);
	assert_int_equal(s.advice, ADVICE_RAISE);
	assert_true(s.over_today == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_threshold_could_be_shorter),
		cmocka_unit_test(a_threshold_that_runs_exceed_will_recover_living_work),
		cmocka_unit_test(one_that_no_run_reached_but_nearly_has_little_room),
		cmocka_unit_test(one_that_fits_is_left),
		cmocka_unit_test(ninety_nine_runs_are_too_few),
		cmocka_unit_test(nothing_is_suggested_beyond_the_ceiling),
		cmocka_unit_test(it_is_never_under_ten_seconds_nor_twice_the_beat),
		cmocka_unit_test(it_is_never_so_short_that_one_run_in_a_thousand_exceeds_it),
		cmocka_unit_test(where_workers_beat_silence_is_no_matter_of_run_times),
		cmocka_unit_test(each_kind_is_measured_by_its_own_threshold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
