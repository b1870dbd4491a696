/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spooling_test.c: what goes into the spools, and how it is drained, with a database that follows a
 * plan.
 */
#include "store/spool_test.h"

#include "base/text.h"
#include "worker/spool_results.h"
#include "worker/spooling.h"
#include "worker/spools.h"

#define MINUTE 60000

static struct spools *spools;

/* How the database answers, and what it accepted. */
static struct {
	bool away;
	const char *barred, *source_barred; /* a key that is refused; the reason for which all are */
	struct buf took;
	int calls;
} base;

static const struct failure gone = {.code = DEFIB_CONNECTION, .what = "away"};
static const struct failure row = {.code = DEFIB_CONSTRAINT, .what = "not this one"};
static const struct failure right = {.code = DEFIB_PERMISSION, .what = "permission denied"};

static void settle(void *ctx, const struct spooled_ends *o, struct arena *a)
{
	struct settlement *ends = o->ends;
	(void)ctx, (void)a;
	base.calls++;
	for (int i = 0; i < o->n; i++) {
		assert_int_equal(o->worker, ends[i].epoch); /* a batch is of one incarnation */
		o->why[i] = base.away                           ? &gone
		            : base.source_barred                ? &right
		            : text_eq(ends[i].key, base.barred) ? &row
		                                                : NULL;
		ends[i].accepted = true;
		if (!o->why[i])
			buf_add(&base.took, ends[i].key);
	}
}

static int begin(void **state)
{
	int failed = setup(state);
	memset(&base, 0, sizeof base);
	base.barred = "";
	return failed ? failed : (int)spools_open(folder, 0, &spools, NULL);
}

static int end(void **state)
{
	spools_close(spools);
	buf_release(&base.took);
	return teardown(state);
}

static void keep(const char *key, int64_t worker, const struct failure *why)
{
	struct spool_result r = {
		.source = "mail", .worker = worker, .end = {.key = key, .epoch = worker}};
	bool kept = false;
	struct failure f = {0};
	spooling_keep(spools, "mail", &r, &why, 1, &kept, &f);
	assert_true(kept);
}

static void drain(int64_t now_ms)
{
	(void)spooling_drain(spools, "mail", now_ms, settle, NULL);
}

static void assert_now(const char *took, int64_t waiting, int64_t aside)
{
	assert_string_equal(buf_text(&base.took), took);
	assert_int_equal(spools_waiting(spools, "mail"), waiting);
	assert_int_equal(spools_aside(spools, "mail"), aside);
}

static void what_the_database_could_not_take_waits_in_order(void **state)
{
	(void)state;
	keep("a", 1, &gone);
	keep("b", 2, &gone);
	keep("c", 2, &gone);
	base.away = true;
	drain(0);
	assert_now("", 3, 0);
	base.away = false;
	drain(0);
	assert_now("abc", 0, 0);
}

/* A breaker was open, for instance. */
static void what_was_not_asked_waits(void **state)
{
	(void)state;
	static const struct failure nothing;
	keep("a", 1, &nothing);
	assert_now("", 1, 0);
}

static void what_is_refused_steps_aside(void **state)
{
	(void)state;
	keep("a", 1, &gone);
	keep("b", 1, &gone);
	keep("c", 1, &gone);
	base.barred = "b";
	drain(0);
	assert_now("ac", 0, 1);
}

static void what_is_set_aside_is_offered_every_minute(void **state)
{
	(void)state;
	keep("a", 1, &row);
	base.barred = "a";
	drain(0);
	int calls = base.calls;
	drain(MINUTE - 1);
	assert_int_equal(base.calls, calls);
	drain(MINUTE);
	assert_int_equal(base.calls, calls + 1);
	base.barred = "";
	drain(2 * MINUTE);
	assert_now("a", 0, 0);
}

static void a_source_that_takes_one_again_is_offered_what_it_refused(void **state)
{
	(void)state;
	keep("a", 1, &right);
	base.source_barred = "all";
	drain(0);
	base.source_barred = NULL;
	drain(1);
	assert_now("", 0, 1);
	spooling_taken(spools, "mail");
	drain(2);
	assert_now("a", 0, 0);
}

/* It may be busy forever and never accept that row. */
static void a_row_that_was_refused_waits_for_its_minute(void **state)
{
	(void)state;
	keep("a", 1, &row);
	base.barred = "a";
	drain(0);
	int calls = base.calls;
	spooling_taken(spools, "mail");
	drain(1);
	assert_int_equal(base.calls, calls);
}

static void of_many_that_are_refused_again_each_is_offered_once(void **state)
{
	(void)state;
	char key[8];
	for (int i = 0; i < 1200; i++) {
		snprintf(key, sizeof key, "%04d", i);
		keep(key, 1, &row);
	}
	base.source_barred = "all";
	drain(0);
	assert_int_equal(base.calls, 3);
	assert_now("", 0, 1200);
	base.source_barred = NULL;
	base.barred = "0700";
	drain(MINUTE);
	assert_int_equal(base.took.len, 1199 * 4);
	assert_int_equal(spools_aside(spools, "mail"), 1);
}

static void nothing_passes_what_waits_while_the_database_is_away(void **state)
{
	(void)state;
	keep("a", 1, &row);
	keep("b", 1, &gone);
	base.away = true;
	drain(0);
	assert_now("", 1, 1);
	base.away = false;
	drain(1);
	assert_now("ba", 0, 0);
}

static void of_a_batch_that_is_too_much_for_the_spool_some_are_kept(void **state)
{
	(void)state;
	struct spool_result all[3];
	const struct failure *why[3] = {&gone, &gone, &gone};
	bool kept[3] = {false};
	struct failure f = {0};
	static char large[4000];
	memset(large, 'x', sizeof large - 1);
	spools_close(spools);
	assert_int_equal(spools_open(folder, 1000, &spools, NULL), DEFIB_OK);
	for (int i = 0; i < 3; i++)
		all[i] = (struct spool_result){.source = "mail", .end = {.key = i == 1 ? large : "k"}};
	spooling_keep(spools, "mail", all, why, 3, kept, &f);
	assert_true(kept[0] && !kept[1] && kept[2]);
	assert_int_equal(f.code, DEFIB_FULL);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_the_database_could_not_take_waits_in_order),
		TEST(what_was_not_asked_waits),
		TEST(what_is_refused_steps_aside),
		TEST(what_is_set_aside_is_offered_every_minute),
		TEST(a_source_that_takes_one_again_is_offered_what_it_refused),
		TEST(a_row_that_was_refused_waits_for_its_minute),
		TEST(of_many_that_are_refused_again_each_is_offered_once),
		TEST(nothing_passes_what_waits_while_the_database_is_away),
		TEST(of_a_batch_that_is_too_much_for_the_spool_some_are_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
