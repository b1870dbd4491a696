/* SPDX-License-Identifier: Apache-2.0 */
/* slots_test.c: when a pool may take a job; as cases, and as invariants of every step. */
#include "base/test.h"
#include "worker/claim_limits.h"

#include <stdlib.h>

static struct slots open_slots(struct slots_rules rules, int64_t now_ms)
{
	struct slots s;
	slots_init(&s, &rules, now_ms);
	return s;
}

static void free_slots_over_time(void **state)
{
	static const struct {
		const char *what;
		struct slots_rules rules;
		int64_t takes, after_ms, free, wait_ms;
	} cases[] = {
		{"none of none", {.count = 0}, 0, 0, 0, -1},
		{"all at once without a stagger", {.count = 6}, 0, 0, 6, -1},
		{"what is taken is not free", {.count = 6}, 4, 0, 2, -1},
		{"only the first at the start", {.count = 3, .stagger_ms = 1000}, 0, 0, 1, 1000},
		{"the second just before its time", {.count = 3, .stagger_ms = 1000}, 0, 999, 1, 1},
		{"the second at its time", {.count = 3, .stagger_ms = 1000}, 0, 1000, 2, 1000},
		{"all after the last one's time", {.count = 3, .stagger_ms = 1000}, 0, 2000, 3, -1},
		{"a busy slot is not waited for", {.count = 1, .stagger_ms = 1000}, 1, 500, 0, -1},
		{"a limit of none", {.count = 2, .burst_limit = 0, .burst_ms = 60000}, 0, 0, 2, -1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct slots s = open_slots(cases[i].rules, 5000);
		for (int64_t k = 0; k < cases[i].takes; k++)
			slots_take(&s, 5000);
		int64_t now = 5000 + cases[i].after_ms;
		if (slots_free(&s, now) != cases[i].free || slots_wait_ms(&s, now) != cases[i].wait_ms)
			fail_msg("%s: %lld free, %lld ms to wait", cases[i].what,
			         (long long)slots_free(&s, now), (long long)slots_wait_ms(&s, now));
		slots_release(&s);
	}
}

static void take_and_give(struct slots *s, int times, int64_t now_ms)
{
	for (int i = 0; i < times; i++)
		slots_give(s, slots_take(s, now_ms));
}

static void within_its_window_a_slot_takes_no_more_than_the_limit(void **state)
{
	struct slots s = open_slots((struct slots_rules){1, 0, 5, 60000}, 100);
	(void)state;
	take_and_give(&s, 5, 100);
	assert_int_equal(slots_free(&s, 100), 0);
	assert_int_equal(slots_wait_ms(&s, 40100), 20000);
	assert_int_equal(slots_free(&s, 60099), 0);
	slots_release(&s);
}

static void after_its_window_a_slot_takes_what_comes(void **state)
{
	struct slots s = open_slots((struct slots_rules){1, 0, 5, 60000}, 100);
	(void)state;
	take_and_give(&s, 5, 100);
	take_and_give(&s, 100, 60100);
	assert_int_equal(slots_free(&s, 60100), 1);
	slots_release(&s);
}

static void the_window_of_a_later_slot_begins_with_it(void **state)
{
	struct slots s = open_slots((struct slots_rules){2, 1000, 1, 500}, 0);
	(void)state;
	take_and_give(&s, 1, 0);
	take_and_give(&s, 1, 600); /* the first, past its window */
	slots_take(&s, 1000);
	take_and_give(&s, 1, 1000); /* the second, at its start */
	assert_int_equal(slots_free(&s, 1499), 0);
	assert_int_equal(slots_free(&s, 1500), 1);
	slots_release(&s);
}

static void a_smaller_size_lets_what_runs_finish(void **state)
{
	struct slots s = open_slots((struct slots_rules){.count = 3}, 0);
	(void)state;
	for (int i = 0; i < 3; i++)
		slots_take(&s, 0);
	slots_resize(&s, 1);
	assert_int_equal(slots_free(&s, 0), 0);
	slots_give(&s, 2);
	assert_int_equal(slots_free(&s, 0), 0);
	slots_give(&s, 0);
	assert_int_equal(slots_free(&s, 0), 0);
	slots_give(&s, 1);
	assert_int_equal(slots_free(&s, 0), 1);
	assert_int_equal(s.busy, 0);
	slots_release(&s);
}

static void a_greater_size_counts_at_once_and_keeps_what_runs(void **state)
{
	struct slots s = open_slots((struct slots_rules){.count = 2}, 0);
	(void)state;
	int64_t first = slots_take(&s, 0);
	slots_resize(&s, 1);
	slots_resize(&s, 5);
	assert_int_equal(slots_free(&s, 0), 4);
	slots_give(&s, first);
	assert_int_equal(slots_free(&s, 0), 5);
	slots_release(&s);
}

/* ---- what holds whatever happens ---- */

#define SLOTS_MAX 8

struct walk {
	struct slots s;
	bool busy[SLOTS_MAX];
	int64_t taken[SLOTS_MAX]; /* within the window of the slot */
	int64_t nbusy, now_ms;
};

static void walk_take(struct walk *w)
{
	const struct slots_rules *r = &w->s.rules;
	int64_t i = slots_take(&w->s, w->now_ms);
	int64_t begins = i * r->stagger_ms;
	assert_in_range(i, 0, r->count - 1);
	assert_false(w->busy[i]);
	assert_true(w->now_ms >= begins);
	if (w->now_ms < begins + r->burst_ms)
		w->taken[i]++;
	assert_true(r->burst_limit == 0 || w->taken[i] <= r->burst_limit);
	w->busy[i] = true;
	w->nbusy++;
}

static void walk_give(struct walk *w)
{
	int64_t i = rand() % SLOTS_MAX;
	if (!w->busy[i])
		return;
	int64_t then = slots_free_with(&w->s, 1, slots_again(&w->s, i, w->now_ms), w->now_ms);
	slots_give(&w->s, i);
	assert_int_equal(slots_free(&w->s, w->now_ms), then); /* as predicted */
	w->busy[i] = false;
	w->nbusy--;
}

/* What is said to be free can be taken; a wait ends with a free slot and not before. */
static void walk_check(struct walk *w)
{
	int64_t n = slots_free(&w->s, w->now_ms), wait = slots_wait_ms(&w->s, w->now_ms);
	assert_int_equal(w->s.busy, w->nbusy);
	assert_true(n >= 0);
	assert_true(n == 0 || n + w->nbusy <= w->s.rules.count);
	if (wait < 0)
		return;
	assert_true(wait > 0);
	assert_int_equal(slots_free(&w->s, w->now_ms + wait - 1), n);
	assert_true(slots_free(&w->s, w->now_ms + wait) > n);
}

static void no_walk_breaks_the_rules(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 300; seed++) {
		srand(seed);
		struct slots_rules rules = {1 + rand() % SLOTS_MAX, rand() % 3 * 100, rand() % 4,
		                            rand() % 1000};
		struct walk w = {.s = open_slots(rules, 0)};
		for (int step = 0; step < 500; step++) {
			int dice = rand() % 10;
			if (dice < 4 && slots_free(&w.s, w.now_ms) > 0)
				walk_take(&w);
			else if (dice < 8)
				walk_give(&w);
			else if (dice == 8)
				w.now_ms += rand() % 50;
			else if (rand() % 10 == 0)
				slots_resize(&w.s, rand() % (SLOTS_MAX + 1));
			walk_check(&w);
		}
		slots_release(&w.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_slots_over_time),
		cmocka_unit_test(within_its_window_a_slot_takes_no_more_than_the_limit),
		cmocka_unit_test(after_its_window_a_slot_takes_what_comes),
		cmocka_unit_test(the_window_of_a_later_slot_begins_with_it),
		cmocka_unit_test(a_smaller_size_lets_what_runs_finish),
		cmocka_unit_test(a_greater_size_counts_at_once_and_keeps_what_runs),
		cmocka_unit_test(no_walk_breaks_the_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
