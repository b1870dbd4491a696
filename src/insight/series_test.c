/* SPDX-License-Identifier: Apache-2.0
 * series_test.c: points add up as series.h says; the table counts everything once, whichever writer
 * wins, and keeps no more than its ranges.
 */
#include "insight/series.h"

#include "ledger/ledger_test.h"
#include "ledger/schema.h"
#include "store/dialect.h"

#define NOW_S INT64_C(1800000000)
#define MINUTE (NOW_S / 60)

static struct series_point reading(int64_t waiting, int64_t running)
{
	struct series_point p = series_none;
	p.waiting = waiting;
	p.running = running;
	return p;
}

static struct series_point ended(int64_t done, int64_t failed)
{
	struct series_point p = series_none;
	p.done = done;
	p.failed = failed;
	return p;
}

/* ---- pure ---- */

static void a_step_has_the_highest_reading_and_the_sum_of_counts(void **state)
{
	(void)state;
	struct series_point p = reading(7, 2), more = reading(3, 5), counts = ended(10, 1);
	series_add(&p, &more);
	series_add(&p, &counts);
	series_add(&p, &counts);
	assert_int_equal(p.waiting, 7);
	assert_int_equal(p.running, 5);
	assert_int_equal(p.done, 20);
	assert_int_equal(p.failed, 2);
	assert_int_equal(p.oldest_ms, SERIES_UNKNOWN);
}

static void readings_of_several_watches_add_up_but_the_oldest_is_the_oldest(void **state)
{
	(void)state;
	struct series_point p = reading(7, 2), other = reading(3, SERIES_UNKNOWN);
	p.oldest_ms = 5000;
	other.oldest_ms = 9000;
	series_join(&p, &other);
	assert_int_equal(p.waiting, 10);
	assert_int_equal(p.running, 2);
	assert_int_equal(p.oldest_ms, 9000);
	assert_int_equal(p.done, SERIES_UNKNOWN);
}

/* 90 of 100 within 1 ms, 10 within 1 s to 2 s. */
static void quantiles_are_interpolated_within_their_bucket(void **state)
{
	(void)state;
	struct series_point p = series_none;
	assert_true(series_detection(&p, 0.5) < 0);
	p.detection[0] = 90;
	p.detection[10] = 10;
	assert_true(series_bounds.upper[10] == 2);
	assert_float_equal(series_detection(&p, 0.5), 0.001 * 50 / 90, 1e-9);
	assert_float_equal(series_detection(&p, 0.95), 1.5, 1e-9);
	p.detection[SERIES_BUCKETS - 1] = 1000;
	assert_float_equal(series_detection(&p, 0.95), 86400, 1e-9);
}

static void a_point_survives_its_document(void **state)
{
	(void)state;
	struct series_point p = reading(7, 0), back;
	AUTO_BUF text = BUF_INIT, again = BUF_INIT;
	p.oldest_ms = 12;
	p.recovered[VERDICT_DEAD] = 3;
	p.detection[0] = 4;
	p.detection[SERIES_BUCKETS - 1] = 5;
	series_json(&p, &text);
	series_parse(buf_text(&text), &back);
	series_json(&back, &again);
	assert_string_equal(buf_text(&text), buf_text(&again));
	assert_int_equal(back.recovered[VERDICT_DEAD], 3);
	assert_int_equal(back.detection[SERIES_BUCKETS - 1], 5);
	assert_int_equal(back.done, SERIES_UNKNOWN);
}

static void what_is_no_document_is_unknown(void **state)
{
	(void)state;
	static const char *const wrong[] = {NULL, "", "[]", "{\"waiting\":-4,\"recovered\":7}"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct series_point p;
		series_parse(wrong[i], &p);
		assert_int_equal(p.waiting, SERIES_UNKNOWN);
		assert_int_equal(series_recovered(&p), 0);
	}
}

/* ---- the table ---- */

static void open_series(struct place *p, enum store_engine engine)
{
	struct failure f = {0};
	open_place(p, engine);
	if (schema_install(p->store, SCHEMA_DAEMON, &f))
		fail_msg("%s", f.what);
	if (engine == STORE_SQLITE)
		run(p, "DELETE FROM defib_series");
}

static struct series_place place_of(struct place *p, const char *watch)
{
	struct failure f = {0};
	struct series_place *all;
	int n = 0;
	if (series_places(p->store, &p->arena, &all, &n, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].watch, watch))
			return all[i];
	return (struct series_place){.watch = watch};
}

static void put(struct place *p, struct series_place at, int64_t minute, struct series_point point,
                int64_t now_s)
{
	struct series_minute one = {minute, point};
	struct series_news news = {.place = at, .minutes = &one, .n = 1};
	struct failure f = {0};
	if (series_write(p->store, &news, 1, now_s, &p->arena, &f))
		fail_msg("%s", f.what);
}

static struct series read_back(struct place *p, enum series_range range, const char *watch)
{
	struct failure f = {0};
	struct series s;
	if (series_read(p->store, range, watch, NOW_S, &p->arena, &s, &f))
		fail_msg("%s", f.what);
	return s;
}

static void a_minute_is_in_a_step_of_each_range(enum store_engine engine)
{
	struct place p;
	open_series(&p, engine);
	put(&p, place_of(&p, "pages"), MINUTE - 1, ended(4, 1), NOW_S);
	put(&p, place_of(&p, "pages"), MINUTE, ended(6, 0), NOW_S);
	struct series hour = read_back(&p, SERIES_HOUR, "pages");
	assert_int_equal(hour.points[59].done, 6);
	assert_int_equal(hour.points[58].done, 4);
	assert_int_equal(hour.points[57].done, SERIES_UNKNOWN);
	struct series week = read_back(&p, SERIES_WEEK, "pages");
	int64_t sum = 0;
	for (int i = 0; i < week.about->steps; i++)
		sum += week.points[i].done > 0 ? week.points[i].done : 0;
	assert_int_equal(sum, 10);
	close_place(&p);
}

static void of_two_that_read_the_same_place_one_counts(enum store_engine engine)
{
	struct place p;
	open_series(&p, engine);
	struct series_place before = place_of(&p, "pages");
	before.ledger = 17;
	put(&p, before, MINUTE, ended(4, 0), NOW_S);
	put(&p, before, MINUTE, ended(4, 0), NOW_S);
	struct series_place after = place_of(&p, "pages");
	assert_int_equal(after.ledger, 17);
	assert_int_equal(after.turn, 1);
	assert_int_equal(read_back(&p, SERIES_HOUR, "pages").points[59].done, 4);
	put(&p, after, MINUTE, ended(4, 0), NOW_S);
	assert_int_equal(read_back(&p, SERIES_HOUR, "pages").points[59].done, 8);
	close_place(&p);
}

static void all_watches_together_add_up(enum store_engine engine)
{
	static const char *const names[] = {"pages", "mails", "none"};
	struct failure f = {0};
	struct series *each;
	struct place p;
	open_series(&p, engine);
	put(&p, place_of(&p, "pages"), MINUTE, reading(4, 1), NOW_S);
	put(&p, place_of(&p, "mails"), MINUTE, reading(6, 2), NOW_S);
	assert_int_equal(read_back(&p, SERIES_DAY, NULL).points[95].waiting, 10);
	if (series_read_each(p.store, SERIES_DAY, names, 3, NOW_S, &p.arena, &each, &f))
		fail_msg("%s", f.what);
	assert_int_equal(each[0].points[95].waiting, 4);
	assert_int_equal(each[1].points[95].waiting, 6);
	assert_int_equal(each[2].points[95].waiting, SERIES_UNKNOWN);
	close_place(&p);
}

/* A reading each minute for nine days, in time-lapse: every tenth. */
static void it_keeps_no_more_than_its_ranges(enum store_engine engine)
{
	struct place p;
	open_series(&p, engine);
	for (int64_t minute = MINUTE - 9 * 1440; minute <= MINUTE;
	     minute += minute < MINUTE - 90 ? 60 : 1)
		put(&p, place_of(&p, "pages"), minute, reading(1, 1), minute * 60);
	struct failure f = {0};
	int64_t rows = 0;
	if (dialect_int(p.store, "SELECT count(*) FROM defib.series", NULL, 0, &rows, &f))
		fail_msg("%s", f.what);
	assert_true(rows > 100 && rows <= SERIES_ROWS);
	put(&p, place_of(&p, "pages"), MINUTE - 8 * 1440, ended(9, 9), NOW_S);
	assert_int_equal(read_back(&p, SERIES_WEEK, "pages").points[0].done, SERIES_UNKNOWN);
	close_place(&p);
}

static void without_a_table_there_are_no_numbers(enum store_engine engine)
{
	struct place p;
	open_series(&p, engine);
	run(&p, engine == STORE_SQLITE ? "DROP TABLE defib_series" : "DROP TABLE defib.series");
	assert_int_equal(read_back(&p, SERIES_HOUR, NULL).points[59].running, SERIES_UNKNOWN);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(a_minute_is_in_a_step_of_each_range)                                                         \
	X(of_two_that_read_the_same_place_one_counts)                                                  \
	X(all_watches_together_add_up)                                                                 \
	X(it_keeps_no_more_than_its_ranges)                                                            \
	X(without_a_table_there_are_no_numbers)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_has_the_highest_reading_and_the_sum_of_counts),
		cmocka_unit_test(readings_of_several_watches_add_up_but_the_oldest_is_the_oldest),
		cmocka_unit_test(quantiles_are_interpolated_within_their_bucket),
		cmocka_unit_test(a_point_survives_its_document),
		cmocka_unit_test(what_is_no_document_is_unknown),
		BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
