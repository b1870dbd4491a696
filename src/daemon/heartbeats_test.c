/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeats_test.c: what is remembered of beats, and how unobserved times are shown. */
#include "daemon/heartbeats.h"

#include "base/test.h"

#define SECOND INT64_C(1000)
#define CLOCK_US INT64_C(1700000000000000) /* the database's clock when ours is 0 */

static struct heartbeats *beats;

static int fresh(void **state)
{
	(void)state;
	beats = heartbeats_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	heartbeats_free(beats);
	return 0;
}

/* A look at `at_s`, which finds worker 1 and its renewal at `renewed_s`. */
static void look(int64_t at_s, int64_t renewed_s)
{
	struct roster_beat row = {1, CLOCK_US + renewed_s * 1000 * SECOND};
	heartbeats_note(beats, "main", &row, 1, at_s * SECOND, CLOCK_US + at_s * 1000 * SECOND);
}

static void assert_said(const char *database, int64_t worker, int64_t at_s, const char *expected)
{
	struct buf out = BUF_INIT;
	heartbeats_json(beats, database, worker, at_s * SECOND, &out);
	assert_string_equal(buf_text(&out), expected);
	buf_release(&out);
}

static void a_beat_that_is_seen_twice_counts_once(void **state)
{
	(void)state;
	look(10, 9);
	look(12, 9);
	look(14, 14);
	assert_said("main", 1, 15, "[6.0,1.0]");
}

static void silence_that_was_watched_is_no_blind_spot(void **state)
{
	(void)state;
	look(10, 10);
	for (int64_t at = 12; at < 40; at += 2)
		look(at, 10);
	look(40, 40);
	assert_said("main", 1, 40, "[30.0,0.0]");
}

static void what_came_while_nobody_looked_is_marked(void **state)
{
	(void)state;
	look(10, 10);
	look(30, 29);
	assert_said("main", 1, 30, "[20.0,null,1.0]");
}

static void the_oldest_beats_make_room(void **state)
{
	struct buf out = BUF_INIT;
	int n = 1;
	(void)state;
	for (int64_t at = 1; at <= BEATS_KEPT + 5; at++)
		look(at, at);
	heartbeats_json(beats, "main", 1, (BEATS_KEPT + 5) * SECOND, &out);
	for (const char *c = buf_text(&out); (c = strchr(c, ',')) != NULL; c++)
		n++;
	assert_int_equal(n, BEATS_KEPT);
	assert_non_null(strstr(buf_text(&out), "[59.0,58.0,"));
	buf_release(&out);
}

static void databases_and_workers_are_told_apart(void **state)
{
	(void)state;
	look(10, 10);
	assert_said("main", 2, 10, "[]");
	assert_said("other", 1, 10, "[]");
	heartbeats_forget(beats, "main");
	assert_said("main", 1, 10, "[]");
}

static void more_workers_than_there_is_room_for_are_left_out(void **state)
{
	struct roster_beat rows[BEATS_WORKERS_MAX + 1];
	(void)state;
	for (int i = 0; i <= BEATS_WORKERS_MAX; i++)
		rows[i] = (struct roster_beat){i + 1, CLOCK_US};
	heartbeats_note(beats, "main", rows, BEATS_WORKERS_MAX + 1, 0, CLOCK_US);
	assert_said("main", BEATS_WORKERS_MAX, 1, "[1.0]");
	assert_said("main", BEATS_WORKERS_MAX + 1, 1, "[]");
	/* … until others were not seen for a long time. */
	heartbeats_note(beats, "main", &rows[BEATS_WORKERS_MAX], 1, BEATS_MEMORY_MS + 1,
	                CLOCK_US + BEATS_MEMORY_MS * 1000);
	assert_said("main", 1, 1, "[]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_beat_that_is_seen_twice_counts_once, fresh, end),
		cmocka_unit_test_setup_teardown(silence_that_was_watched_is_no_blind_spot, fresh, end),
		cmocka_unit_test_setup_teardown(what_came_while_nobody_looked_is_marked, fresh, end),
		cmocka_unit_test_setup_teardown(the_oldest_beats_make_room, fresh, end),
		cmocka_unit_test_setup_teardown(databases_and_workers_are_told_apart, fresh, end),
		cmocka_unit_test_setup_teardown(more_workers_than_there_is_room_for_are_left_out, fresh,
	                                    end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
