/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retries_test.c: pending retries are stored, become due by the database's clock, and are removed.
 */
#include "ledger/retries.h"

#include "base/clock.h"
#include "ledger/ledger_test.h"

#define HOUR (INT64_C(3600) * US_PER_S)

static void add(struct place *p, const struct pending_retry *all, int n)
{
	struct failure f = {0};
	assert_int_equal(store_begin(p->store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_retry_add(p->store, &context, all, n, &p->arena, &f))
		fail_msg("%s", f.what);
	assert_int_equal(store_commit(p->store, &f), DEFIB_OK);
}

static int due_behind(struct place *p, const struct pending_retry *after, int limit,
                      struct pending_retry **out)
{
	struct failure f = {0};
	int n = -1;
	if (ledger_retries_due(p->store, "pages", after, limit, &p->arena, out, &n, &f))
		fail_msg("%s", f.what);
	return n;
}

static int due(struct place *p, int limit, struct pending_retry **out)
{
	return due_behind(p, NULL, limit, out);
}

static int listed(struct place *p, const char *watch, struct pending_retry **out)
{
	static const char *const jobs[] = {"1", "2", "9"};
	struct failure f = {0};
	int n = -1;
	if (ledger_retries_of(p->store, watch, jobs, 3, &p->arena, out, &n, &f))
		fail_msg("%s", f.what);
	return n;
}

static void those_that_are_due_come_oldest_first(enum store_engine engine)
{
	int64_t now = clock_wall_us();
	struct pending_retry all[] = {{.job = "late", .due_us = now - HOUR, .attempt = 1},
	                              {.job = "later", .due_us = now + HOUR, .attempt = 1},
	                              {.job = "first", .due_us = now - 2 * HOUR, .attempt = 3}};
	struct pending_retry *out;
	struct place p;
	open_place(&p, engine);
	assert_int_equal(due(&p, 10, &out), 0);
	add(&p, all, 3);
	assert_int_equal(due(&p, 10, &out), 2);
	assert_string_equal(out[0].job, "first");
	assert_string_equal(out[1].job, "late");
	assert_int_equal(due(&p, 1, &out), 1);
	assert_string_equal(out[0].job, "first");
	close_place(&p);
}

/* Also retries that are due at the same time: a page may end between them. */
static void those_behind_a_page_come_next(enum store_engine engine)
{
	int64_t now = clock_wall_us();
	struct pending_retry all[] = {{.job = "a", .due_us = now - HOUR, .attempt = 1},
	                              {.job = "b", .due_us = now - HOUR, .attempt = 1},
	                              {.job = "0", .due_us = now - HOUR / 2, .attempt = 1}};
	struct pending_retry *out;
	struct place p;
	open_place(&p, engine);
	add(&p, all, 3);
	assert_int_equal(due(&p, 1, &out), 1);
	assert_string_equal(out->job, "a");
	assert_int_equal(due_behind(&p, out, 1, &out), 1);
	assert_string_equal(out->job, "b");
	assert_int_equal(due_behind(&p, out, 2, &out), 1);
	assert_string_equal(out->job, "0");
	assert_int_equal(due_behind(&p, out, 2, &out), 0);
	close_place(&p);
}

static void what_was_noted_comes_back_whole(enum store_engine engine)
{
	int64_t when = (clock_wall_us() / 1000 - 5000) * 1000;
	struct pending_retry one = {.job = "[\"a\",\"b\"]",
	                            .reason = "it's \"gone\"",
	                            .expected = "{\"status\": \"x\"}",
	                            .due_us = when,
	                            .attempt = 2};
	struct pending_retry *out;
	struct place p;
	open_place(&p, engine);
	add(&p, &one, 1);
	assert_int_equal(due(&p, 10, &out), 1);
	assert_string_equal(out->job, one.job);
	assert_string_equal(out->reason, one.reason);
	assert_string_equal(out->expected, one.expected);
	assert_string_equal(out->batch, "batch-1");
	assert_string_equal(out->watch, "pages");
	assert_true(out->due_us == when && out->attempt == 2 && strchr(out->at, 'Z'));
	close_place(&p);
}

static void a_job_has_one_at_most_and_the_last_counts(enum store_engine engine)
{
	int64_t now = clock_wall_us();
	struct pending_retry *out;
	struct place p;
	open_place(&p, engine);
	add(&p, &(struct pending_retry){.job = "1", .due_us = now - HOUR, .attempt = 1}, 1);
	add(&p, &(struct pending_retry){.job = "1", .due_us = now + HOUR, .attempt = 2}, 1);
	assert_int_equal(due(&p, 10, &out), 0);
	assert_int_equal(listed(&p, "pages", &out), 1);
	assert_int_equal(out->attempt, 2);
	close_place(&p);
}

static void it_is_never_due_early(enum store_engine engine)
{
	int64_t when = clock_wall_us() / 1000 * 1000 + HOUR + 1;
	struct pending_retry *out;
	struct place p;
	open_place(&p, engine);
	add(&p, &(struct pending_retry){.job = "1", .due_us = when}, 1);
	assert_int_equal(listed(&p, "pages", &out), 1);
	assert_true(out->due_us >= when && out->due_us < when + 1000);
	close_place(&p);
}

static void dropped_ones_are_gone_and_others_stay(enum store_engine engine)
{
	static const char *const jobs[] = {"1", "9"};
	struct pending_retry all[] = {{.job = "1", .due_us = 1}, {.job = "2", .due_us = 1}};
	struct pending_retry *out;
	struct failure f = {0};
	struct place p;
	open_place(&p, engine);
	add(&p, all, 2);
	assert_int_equal(ledger_retries_drop(p.store, "other", jobs, 2, &p.arena, &f), DEFIB_OK);
	assert_int_equal(listed(&p, "pages", &out), 2);
	assert_int_equal(ledger_retries_drop(p.store, "pages", jobs, 2, &p.arena, &f), DEFIB_OK);
	assert_int_equal(listed(&p, "pages", &out), 1);
	assert_string_equal(out->job, "2");
	assert_int_equal(listed(&p, "other", &out), 0);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(those_that_are_due_come_oldest_first)                                                        \
	X(those_behind_a_page_come_next)                                                               \
	X(what_was_noted_comes_back_whole)                                                             \
	X(a_job_has_one_at_most_and_the_last_counts)                                                   \
	X(it_is_never_due_early)                                                                       \
	X(dropped_ones_are_gone_and_others_stay)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
