/* SPDX-License-Identifier: Apache-2.0
 * starts_test.c: when jobs that are due count as not being started.
 */
#include "guard/starts.h"

#include "base/clock.h"
#include "base/test.h"

#define S US_PER_S
#define LIMIT (600 * S)
#define T0 (1000000 * S)
#define MINUTE (60 * S)

struct looks {
	struct starts_memory *memory;
	struct starts_kind kind;
	struct starts_row rows[4];
	struct starts_look look;
	struct starts_trend trend;
};

/* One kind, whose oldest row was due at that time. */
static void begin(struct looks *x, bool daemon, int64_t due_us)
{
	*x =
		(struct looks){.memory = daemon ? starts_new() : NULL,
	                   .kind = {.kind = "mail", .late = 3, .oldest_us = due_us, .limit_us = LIMIT}};
	for (int i = 0; i < 3; i++)
		x->rows[i] = (struct starts_row){(const char *[]){"1", "2", "3"}[i], "mail", due_us + i};
	x->look.limit_us = LIMIT;
	x->look.nrows = 3;
}

static enum starts look(struct looks *x, int64_t now_us)
{
	x->look.now_us = now_us;
	x->look.kinds = &x->kind;
	x->look.nkinds = 1;
	x->look.rows = x->rows;
	x->look.late = x->kind.late;
	starts_judge(x->memory, &x->look, &x->trend);
	return x->kind.starts;
}

static void one_look_judges_by_the_columns(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, false, T0);
	assert_int_equal(look(&x, T0 + LIMIT), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + LIMIT + 1), STARTS_NONE);
}

static void a_daemon_needs_two_looks(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	assert_int_equal(look(&x, T0 + 2 * LIMIT), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 2 * LIMIT + 1), STARTS_NONE);
	starts_free(x.memory);
}

static void a_deep_queue_before_busy_workers_is_being_started(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, false, T0);
	x.kind.running = 1;
	x.kind.claimed_us = T0 - 1;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_NONE);
	x.kind.claimed_us = T0;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_SEEN);
	/* A run that ended shows that a worker was there then. */
	x.kind.running = 0;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_NONE);
	x.kind.ended_us = T0 + 8 * LIMIT;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_SEEN);
	assert_int_equal(look(&x, T0 + 9 * LIMIT + 1), STARTS_NONE);
	assert_int_equal(x.kind.last_us, T0 + 8 * LIMIT);
}

static void a_row_that_moves_on_between_looks_was_started(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	look(&x, T0 + 2 * LIMIT);
	x.rows[0].job = "4";
	x.rows[0].due_us = T0 + 10;
	assert_int_equal(look(&x, T0 + 3 * LIMIT), STARTS_SEEN);
	assert_int_equal(x.trend.started, 1);
	assert_int_equal(look(&x, T0 + 4 * LIMIT), STARTS_SEEN);
	assert_int_equal(look(&x, T0 + 4 * LIMIT + 1), STARTS_NONE);
	assert_int_equal(x.kind.last_us, T0 + 3 * LIMIT);
	starts_free(x.memory);
}

static void a_row_that_a_remedy_changed_was_not_started(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	look(&x, T0 + 2 * LIMIT);
	starts_changed(x.memory, "1");
	x.rows[0].job = "4";
	assert_int_equal(look(&x, T0 + 3 * LIMIT), STARTS_NONE);
	starts_free(x.memory);
}

/* Rows behind the last one that was read may be there all the same. */
static void rows_out_of_reach_are_no_movement(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	look(&x, T0 + 2 * LIMIT);
	x.look.cut = true;
	x.rows[1].job = "older";
	x.rows[1].due_us = T0;
	x.look.nrows = 2;
	assert_int_equal(look(&x, T0 + 3 * LIMIT), STARTS_NONE);
	x.look.cut = false;
	look(&x, T0 + 3 * LIMIT + 1);
	x.look.nrows = 1;
	assert_int_equal(look(&x, T0 + 3 * LIMIT + 2), STARTS_SEEN);
	starts_free(x.memory);
}

static void a_longer_limit_is_no_movement(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	look(&x, T0 + 2 * LIMIT);
	x.look.limit_us *= 2;
	x.look.nrows = 1;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 9 * LIMIT + 1), STARTS_NONE);
	starts_free(x.memory);
}

static void an_outage_does_not_count(void **state)
{
	struct looks x;
	struct doubt d = {0};
	(void)state;
	begin(&x, true, T0);
	x.look.doubt = &d;
	doubt_well(&d, T0 + MINUTE);
	look(&x, T0 + MINUTE);
	doubt_outage(&d, T0 + 100 * MINUTE, "away");
	assert_int_equal(look(&x, T0 + 100 * MINUTE), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 99 * MINUTE + LIMIT), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 99 * MINUTE + LIMIT + 1), STARTS_NONE);
	starts_free(x.memory);
}

static void after_an_outage_of_unknown_length_workers_have_time_to_come_back(void **state)
{
	struct looks x;
	struct doubt d = {0};
	(void)state;
	begin(&x, true, T0);
	x.look.doubt = &d;
	doubt_outage(&d, T0 + 100 * MINUTE, "the server was started");
	look(&x, T0 + 100 * MINUTE);
	assert_int_equal(look(&x, T0 + 100 * MINUTE + 30 * S), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 100 * MINUTE + 30 * S + 1), STARTS_NONE);
	starts_free(x.memory);
}

static void time_in_which_nothing_can_be_claimed_does_not_count(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	look(&x, T0 + 2 * LIMIT);
	x.look.barred = true;
	assert_int_equal(look(&x, T0 + 3 * LIMIT), STARTS_UNKNOWN);
	x.look.barred = false;
	assert_int_equal(look(&x, T0 + 4 * LIMIT), STARTS_UNKNOWN);
	assert_int_equal(look(&x, T0 + 4 * LIMIT + 1), STARTS_NONE);
	starts_free(x.memory);
}

static void what_could_not_be_read_convicts_nobody(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, false, T0);
	x.kind.unread = true;
	assert_int_equal(look(&x, T0 + 9 * LIMIT), STARTS_UNKNOWN);
}

static void the_trend_tells_when_none_will_be_left(void **state)
{
	struct looks x;
	(void)state;
	begin(&x, true, T0);
	x.kind.late = 100;
	look(&x, T0);
	assert_false(x.trend.known);
	x.kind.late = 80;
	look(&x, T0 + 2 * MINUTE);
	assert_true(x.trend.known && x.trend.per_minute == -10);
	assert_int_equal(x.trend.drain_us, 8 * MINUTE);
	x.kind.late = 120;
	look(&x, T0 + 4 * MINUTE);
	assert_true(x.trend.per_minute == 5);
	assert_int_equal(x.trend.drain_us, 0);
	starts_free(x.memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_look_judges_by_the_columns),
		cmocka_unit_test(a_daemon_needs_two_looks),
		cmocka_unit_test(a_deep_queue_before_busy_workers_is_being_started),
		cmocka_unit_test(a_row_that_moves_on_between_looks_was_started),
		cmocka_unit_test(a_row_that_a_remedy_changed_was_not_started),
		cmocka_unit_test(rows_out_of_reach_are_no_movement),
		cmocka_unit_test(a_longer_limit_is_no_movement),
		cmocka_unit_test(an_outage_does_not_count),
		cmocka_unit_test(after_an_outage_of_unknown_length_workers_have_time_to_come_back),
		cmocka_unit_test(time_in_which_nothing_can_be_claimed_does_not_count),
		cmocka_unit_test(what_could_not_be_read_convicts_nobody),
		cmocka_unit_test(the_trend_tells_when_none_will_be_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
