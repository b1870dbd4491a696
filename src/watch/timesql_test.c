/* SPDX-License-Identifier: Apache-2.0
 * timesql_test.c: the SQL of each form of time, on each engine, word for word: cutoffs,
 * microseconds and values.
 */
#include "watch/timesql.h"

#include "base/clock.h"
#include "base/test.h"

static const struct threshold hour = {.given = true, .standard_us = 3600 * US_PER_S};

static void assert_cutoff(enum store_engine engine, enum time_type time, const struct threshold *t,
                          const char *kind, const char *want)
{
	struct buf out = BUF_INIT;
	const struct binding b = {.engine = engine};
	sql_time_cutoff(&b, time, t, kind, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void cutoffs_on_postgres_are_in_the_columns_own_form(void **state)
{
	const enum store_engine pg = STORE_POSTGRES;
	(void)state;
	assert_cutoff(pg, TIME_TYPE_TIMESTAMPTZ, &hour, NULL,
	              "statement_timestamp() - 3600 * interval '1 second'");
	assert_cutoff(pg, TIME_TYPE_UTC, &hour, NULL,
	              "(statement_timestamp() AT TIME ZONE 'UTC') - 3600 * interval '1 second'");
	assert_cutoff(pg, TIME_TYPE_EPOCH, &hour, NULL,
	              "ceil(extract(epoch FROM statement_timestamp()) - 3600)::bigint");
	assert_cutoff(pg, TIME_TYPE_EPOCH_MS, &hour, NULL,
	              "ceil(extract(epoch FROM statement_timestamp()) * 1000 - 3600000)::bigint");
	assert_cutoff(pg, TIME_TYPE_TEXT, &hour, NULL,
	              "statement_timestamp() - 3600 * interval '1 second'");
}

static void cutoffs_on_sqlite_are_in_the_columns_own_form(void **state)
{
	static const char text[] = "julianday('now') - 3600 / 86400.0";
	(void)state;
	assert_cutoff(STORE_SQLITE, TIME_TYPE_TEXT, &hour, NULL, text);
	assert_cutoff(STORE_SQLITE, TIME_TYPE_UTC, &hour, NULL, text);
	assert_cutoff(STORE_SQLITE, TIME_TYPE_TIMESTAMPTZ, &hour, NULL, text);
	assert_cutoff(STORE_SQLITE, TIME_TYPE_EPOCH, &hour, NULL,
	              "CAST(strftime('%s', 'now') AS INTEGER) + 1 - 3600");
	assert_cutoff(STORE_SQLITE, TIME_TYPE_EPOCH_MS, &hour, NULL,
	              "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 1 - 3600000");
}

static void fractions_of_a_second_are_kept_or_rounded_towards_more_rows(void **state)
{
	static const struct threshold t = {.given = true, .standard_us = 1500250};
	(void)state;
	assert_cutoff(STORE_POSTGRES, TIME_TYPE_TIMESTAMPTZ, &t, NULL,
	              "statement_timestamp() - 1.500250 * interval '1 second'");
	assert_cutoff(STORE_POSTGRES, TIME_TYPE_EPOCH, &t, NULL,
	              "ceil(extract(epoch FROM statement_timestamp()) - 1.500250)::bigint");
	assert_cutoff(STORE_POSTGRES, TIME_TYPE_EPOCH_MS, &t, NULL,
	              "ceil(extract(epoch FROM statement_timestamp()) * 1000 - 1500)::bigint");
	assert_cutoff(STORE_SQLITE, TIME_TYPE_TEXT, &t, NULL, "julianday('now') - 1.500250 / 86400.0");
	assert_cutoff(STORE_SQLITE, TIME_TYPE_EPOCH, &t, NULL,
	              "CAST(strftime('%s', 'now') AS INTEGER) + 1 - 1");
}

static void kinds_become_a_case_with_quoted_literals(void **state)
{
	static const char *kinds[] = {"scrape", "o'brien"};
	static int64_t us[] = {300 * US_PER_S, 60 * US_PER_S};
	const struct threshold t = {
		.given = true, .standard_us = 1800 * US_PER_S, .n = 2, .kinds = kinds, .us = us};
	(void)state;
	assert_cutoff(
		STORE_POSTGRES, TIME_TYPE_TIMESTAMPTZ, &t, "type",
		"statement_timestamp() - CASE (type) WHEN 'scrape' THEN 300 * interval '1 second' "
		"WHEN 'o''brien' THEN 60 * interval '1 second' ELSE 1800 * interval '1 second' END");
	assert_cutoff(STORE_SQLITE, TIME_TYPE_EPOCH, &t, "type",
	              "CAST(strftime('%s', 'now') AS INTEGER) + 1 - CASE (type) WHEN 'scrape' THEN 300 "
	              "WHEN 'o''brien' THEN 60 ELSE 1800 END");
	/* Without the expression it is the smallest limit of all: an index can use it. */
	assert_cutoff(STORE_POSTGRES, TIME_TYPE_TIMESTAMPTZ, &t, NULL,
	              "statement_timestamp() - 60 * interval '1 second'");
}

static void assert_us(enum store_engine engine, enum time_type time, const char *want)
{
	struct buf out = BUF_INIT;
	const struct binding b = {.engine = engine};
	sql_time_us(&b, time, "a", &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void every_time_leaves_as_microseconds(void **state)
{
	static const char stamp[] = "CASE WHEN isfinite((a)) THEN (least(extract(epoch FROM (a)), "
								"9000000000000) * 1000000)::bigint END";
	static const char text[] =
		"CAST(round((julianday((a)) - 2440587.5) * 86400000) AS INTEGER) * 1000";
	(void)state;
	assert_us(STORE_POSTGRES, TIME_TYPE_TIMESTAMPTZ, stamp);
	assert_us(STORE_POSTGRES, TIME_TYPE_UTC, stamp);
	assert_us(STORE_POSTGRES, TIME_TYPE_EPOCH,
	          "CASE WHEN (a) BETWEEN -9000000000000 AND 9000000000000 THEN "
	          "((a) * 1000000::numeric)::bigint END");
	assert_us(STORE_POSTGRES, TIME_TYPE_EPOCH_MS,
	          "CASE WHEN (a) BETWEEN -9000000000000000 AND 9000000000000000 THEN "
	          "((a) * 1000::numeric)::bigint END");
	assert_us(STORE_SQLITE, TIME_TYPE_TEXT, text);
	assert_us(STORE_SQLITE, TIME_TYPE_EPOCH,
	          "CASE WHEN +(a) BETWEEN -9000000000000 AND 9000000000000 THEN CAST((a) * 1000000 AS "
	          "INTEGER) END");
	assert_us(STORE_SQLITE, TIME_TYPE_EPOCH_MS,
	          "CASE WHEN +(a) BETWEEN -9000000000000000 AND 9000000000000000 THEN CAST((a) * 1000 "
	          "AS INTEGER) END");
}

static void assert_value(enum store_engine engine, enum time_type time, bool iso_t,
                         const char *want)
{
	const struct binding b = {.engine = engine, .time = time, .iso_t = iso_t};
	struct buf out = BUF_INIT;
	sql_time_value(&b, "u", &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void values_are_written_as_the_table_writes_time(void **state)
{
	(void)state;
	assert_value(STORE_POSTGRES, TIME_TYPE_TIMESTAMPTZ, false,
	             "timestamptz 'epoch' + u * interval '1 microsecond'");
	assert_value(STORE_POSTGRES, TIME_TYPE_UTC, false,
	             "timestamp 'epoch' + u * interval '1 microsecond'");
	assert_value(STORE_POSTGRES, TIME_TYPE_EPOCH, false, "u / 1000000");
	assert_value(STORE_POSTGRES, TIME_TYPE_EPOCH_MS, false, "u / 1000");
	assert_value(STORE_POSTGRES, TIME_TYPE_TEXT, false,
	             "to_char(timestamp 'epoch' + u * interval '1 microsecond', "
	             "'YYYY-MM-DD HH24:MI:SS.MS')");
	assert_value(STORE_POSTGRES, TIME_TYPE_TEXT, true,
	             "to_char(timestamp 'epoch' + u * interval '1 microsecond', "
	             "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')");
	assert_value(STORE_SQLITE, TIME_TYPE_EPOCH, false, "u / 1000000");
	assert_value(STORE_SQLITE, TIME_TYPE_EPOCH_MS, false, "u / 1000");
	assert_value(STORE_SQLITE, TIME_TYPE_TEXT, false,
	             "strftime('%Y-%m-%d %H:%M:%f', u / 1000000.0, 'unixepoch')");
	assert_value(STORE_SQLITE, TIME_TYPE_TEXT, true,
	             "strftime('%Y-%m-%dT%H:%M:%fZ', u / 1000000.0, 'unixepoch')");
}

static void a_position_of_text_is_compared_as_a_time(void **state)
{
	(void)state;
	assert_string_equal(sql_time_comparable_type(TIME_TYPE_TEXT, "text"), "timestamptz");
	assert_string_equal(sql_time_comparable_type(TIME_TYPE_EPOCH, "integer"), "integer");
}

/* Local times were read by an expression, and :now wrote UTC into the column beside it. */
static void a_time_without_a_zone_is_read_compared_and_written_in_that_of_the_watch(void **state)
{
	struct store_column columns[] = {{.name = "at", .base = "timestamp"},
	                                 {.name = "with_zone", .base = "timestamptz"},
	                                 {.name = "note", .base = "text"}};
	const struct binding b = {.engine = STORE_POSTGRES,
	                          .time = TIME_TYPE_UTC,
	                          .zone = "'America/New_York'",
	                          .ncolumns = 3,
	                          .columns = columns};
	static const char local[] =
		"(timestamptz 'epoch' + u * interval '1 microsecond') AT TIME ZONE 'America/New_York'";
	const struct {
		const char *column, *want;
	} writes[] = {{"at", local},
	              {"with_zone", "timestamptz 'epoch' + u * interval '1 microsecond'"},
	              {"note", local},
	              {NULL, local}};
	struct buf out = BUF_INIT;
	(void)state;
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		sql_time_value_for(&b, writes[i].column, "u", &out);
		assert_string_equal(buf_text(&out), writes[i].want);
		buf_clear(&out);
	}
	sql_time_cutoff(&b, TIME_TYPE_UTC, &hour, NULL, &out);
	assert_string_equal(buf_text(&out), "((statement_timestamp() - 3600 * interval '1 second') AT "
	                                    "TIME ZONE 'America/New_York')");
	buf_clear(&out);
	sql_time_us(&b, TIME_TYPE_UTC, "a", &out);
	assert_non_null(strstr(buf_text(&out), "(a)::timestamp AT TIME ZONE 'America/New_York'"));
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cutoffs_on_postgres_are_in_the_columns_own_form),
		cmocka_unit_test(a_time_without_a_zone_is_read_compared_and_written_in_that_of_the_watch),
		cmocka_unit_test(cutoffs_on_sqlite_are_in_the_columns_own_form),
		cmocka_unit_test(fractions_of_a_second_are_kept_or_rounded_towards_more_rows),
		cmocka_unit_test(kinds_become_a_case_with_quoted_literals),
		cmocka_unit_test(every_time_leaves_as_microseconds),
		cmocka_unit_test(values_are_written_as_the_table_writes_time),
		cmocka_unit_test(a_position_of_text_is_compared_as_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
