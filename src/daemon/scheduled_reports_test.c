/* SPDX-License-Identifier: Apache-2.0 */
/* scheduled_reports_test.c: when a report is due, by the clock alone. */
#include "daemon/scheduled_reports.h"

#include "base/clock.h"
#include "base/test.h"

#define HOUR (INT64_C(3600) * US_PER_S)
#define DAY (24 * HOUR)

static int64_t at(const char *iso)
{
	int64_t us = 0;
	assert_true(time_parse(iso, &us));
	return us;
}

static void assert_due(const struct mailing *m, const char *now, const char *due)
{
	struct buf got = BUF_INIT;
	time_iso(mailing_due_us(m, at(now)), &got);
	assert_string_equal(buf_text(&got), due);
	buf_release(&got);
}

static const struct mailing weekly = {.name = "weekly", .every_us = 7 * DAY, .at = {0, 8 * HOUR}};

static void a_week_ends_at_its_weekday_and_minute(void **state)
{
	(void)state;
	/* 2026-11-16 is a Monday. */
	assert_due(&weekly, "2026-11-16T08:00:00.000Z", "2026-11-16T08:00:00.000Z");
	assert_due(&weekly, "2026-11-16T07:59:59.999Z", "2026-11-09T08:00:00.000Z");
	assert_due(&weekly, "2026-11-22T23:00:00.000Z", "2026-11-16T08:00:00.000Z");
}

static void each_weekday_is_found(void **state)
{
	static const char *const days[] = {"2026-11-16T00:00:00.000Z", "2026-11-17T00:00:00.000Z",
	                                   "2026-11-18T00:00:00.000Z", "2026-11-19T00:00:00.000Z",
	                                   "2026-11-20T00:00:00.000Z", "2026-11-21T00:00:00.000Z",
	                                   "2026-11-22T00:00:00.000Z"};
	(void)state;
	for (int i = 0; i < 7; i++) {
		struct mailing m = {.every_us = 7 * DAY, .at = {i, 0}};
		assert_due(&m, days[i], days[i]);
	}
}

static void a_day_begins_at_its_minute(void **state)
{
	struct mailing m = {.every_us = DAY, .at = {-1, 6 * HOUR + HOUR / 2}};
	(void)state;
	assert_due(&m, "2026-11-17T06:29:00.000Z", "2026-11-16T06:30:00.000Z");
	assert_due(&m, "2026-11-17T06:30:00.000Z", "2026-11-17T06:30:00.000Z");
}

static void several_weeks_have_one_phase_whoever_asks(void **state)
{
	struct mailing m = {.every_us = 14 * DAY, .at = {0, 8 * HOUR}};
	(void)state;
	int64_t due = mailing_due_us(&m, at("2026-11-16T09:00:00.000Z"));
	for (int64_t now = due; now < due + 14 * DAY; now += 3 * 3600 * US_PER_S)
		assert_true(mailing_due_us(&m, now) == due);
	assert_true(mailing_due_us(&m, due + 14 * DAY) == due + 14 * DAY);
}

static void an_id_is_of_one_report_and_one_time(void **state)
{
	struct buf id = BUF_INIT;
	(void)state;
	mailing_id(&weekly, at("2026-11-16T08:00:00.000Z"), &id);
	assert_string_equal(buf_text(&id), "report/weekly@2026-11-16T08:00:00.000Z");
	buf_release(&id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_week_ends_at_its_weekday_and_minute),
		cmocka_unit_test(each_weekday_is_found),
		cmocka_unit_test(a_day_begins_at_its_minute),
		cmocka_unit_test(several_weeks_have_one_phase_whoever_asks),
		cmocka_unit_test(an_id_is_of_one_report_and_one_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
