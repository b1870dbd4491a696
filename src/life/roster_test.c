/* SPDX-License-Identifier: Apache-2.0
 * roster_test.c: a worker's description of itself can be read while it is alive and for a while
 * after.
 */
#include "life/roster.h"

#include "base/clock.h"
#include "life/registry.h"
#include "watch/queue_test.h"

#include <string.h>

static int64_t enter(struct store *s, const char *name)
{
	struct incarnation who;
	struct failure f = {0};
	int64_t id = 0;
	if (incarnation_self(&who, &f) || registry_register(s, name, &who, 60000, "queue", &id, &f))
		fail_msg("%s", f.what);
	return id;
}

static void say(struct store *s, int64_t id, const char *info)
{
	struct failure f = {0};
	int64_t owned;
	if (registry_renew(s, id, NULL, 2, info, &owned, &f))
		fail_msg("%s", f.what);
}

static bool listed(struct store *s, int64_t id, struct arena *a, struct roster_row *row)
{
	struct failure f = {0};
	struct roster_row *all;
	int n = 0;
	if (roster_recent(s, 1800 * US_PER_S, 200, a, &all, &n, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++) {
		*row = all[i];
		if (row->id == id)
			return true;
	}
	return false;
}

static void what_a_worker_says_at_its_renewal_can_be_read(void **state)
{
	struct tables *t = tables_of(state);
	struct roster_row row;
	AUTO_ARENA a = ARENA_INIT;
	int64_t id = enter(t->store, "anna");
	say(t->store, id, "{\"claims\": 7}");
	assert_true(listed(t->store, id, &a, &row));
	assert_string_equal(row.state, "alive");
	assert_true(!row.expired && !row.again);
	assert_int_equal(row.holding, 2);
	assert_non_null(strstr(row.info, "\"claims\": 7"));
	assert_true(llabs(row.renewed_us - clock_wall_us()) < TEST_HANGS_MS * 1000LL);
}

static void a_renewal_that_says_nothing_leaves_what_was_said(void **state)
{
	struct tables *t = tables_of(state);
	struct roster_row row;
	AUTO_ARENA a = ARENA_INIT;
	int64_t id = enter(t->store, "anna");
	say(t->store, id, "{\"claims\": 7}");
	say(t->store, id, NULL);
	assert_true(listed(t->store, id, &a, &row));
	assert_non_null(strstr(row.info, "\"claims\": 7"));
}

static void one_that_starts_again_is_known_by_its_name(void **state)
{
	struct tables *t = tables_of(state);
	struct roster_row row;
	AUTO_ARENA a = ARENA_INIT;
	(void)enter(t->store, "anna");
	int64_t second = enter(t->store, "anna"), other = enter(t->store, "bert");
	assert_true(listed(t->store, second, &a, &row) && row.again);
	assert_true(listed(t->store, other, &a, &row) && !row.again);
}

static void the_dead_are_shown_for_a_while(void **state)
{
	struct tables *t = tables_of(state);
	struct roster_row row;
	struct failure f = {0};
	AUTO_ARENA a = ARENA_INIT;
	bool won = false;
	int64_t id = enter(t->store, "anna");
	assert_int_equal(
		registry_declare_dead(t->store, id, &(struct death){.cause = "test"}, &won, &f), DEFIB_OK);
	assert_true(listed(t->store, id, &a, &row));
	assert_string_equal(row.state, "dead");
	tables_script(t->store, t->engine == STORE_POSTGRES
	                            ? "UPDATE defib.worker SET ended_at = ended_at - interval '1 hour'"
	                            : "UPDATE defib_worker SET ended_at = ended_at - 3600000");
	assert_false(listed(t->store, id, &a, &row));
}

static void beats_are_those_of_the_living_up_to_a_limit(void **state)
{
	struct tables *t = tables_of(state);
	struct roster_beat *beats;
	struct failure f = {0};
	AUTO_ARENA a = ARENA_INIT;
	bool there = false;
	int n = 4711;
	int64_t now_us = 0, ids[] = {enter(t->store, "a"), enter(t->store, "b"), enter(t->store, "c")};
	assert_int_equal(registry_leave(t->store, ids[0], NULL, &f), DEFIB_OK);
	for (int limit = 1; limit <= 3; limit++) {
		assert_int_equal(roster_beats(t->store, limit, &a, &there, &beats, &n, &now_us, &f),
		                 DEFIB_OK);
		assert_true(there);
		assert_int_equal(n, limit < 2 ? limit : 2);
		for (int i = 0; i < n; i++) {
			assert_int_equal(beats[i].worker, ids[i + 1]);
			assert_in_range(now_us - beats[i].renewed_us, 0, TEST_HANGS_MS * 1000LL);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_POSTGRES(what_a_worker_says_at_its_renewal_can_be_read),
		ON_SQLITE(what_a_worker_says_at_its_renewal_can_be_read),
		ON_POSTGRES(a_renewal_that_says_nothing_leaves_what_was_said),
		ON_SQLITE(a_renewal_that_says_nothing_leaves_what_was_said),
		ON_POSTGRES(one_that_starts_again_is_known_by_its_name),
		ON_SQLITE(one_that_starts_again_is_known_by_its_name),
		ON_POSTGRES(the_dead_are_shown_for_a_while),
		ON_SQLITE(the_dead_are_shown_for_a_while),
		ON_POSTGRES(beats_are_those_of_the_living_up_to_a_limit),
		ON_SQLITE(beats_are_those_of_the_living_up_to_a_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
