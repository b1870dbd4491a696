/* SPDX-License-Identifier: Apache-2.0 */
#include "life/locks.h"

#include "base/test.h"

static const struct locks_rules rules = {.grace_ms = 250, .quiet_ms = 10000, .gap_ms = 2000};
#define START 1000000

/* Two workers, 1 and 2, both seen holding their lock at START. */
static struct locks two_seen(void)
{
	struct locks x;
	struct locks_gone gone[2];
	locks_init(&x, &rules);
	locks_set(&x, (int64_t[]){2, 1}, 2);
	assert_int_equal(locks_reading(&x, (int64_t[]){1, 2}, 2, START, gone), 0);
	return x;
}

/* Readings every 20 ms from `from` up to and including `to`; how many were reported. */
static int read_through(struct locks *x, const int64_t *held, int nheld, int64_t from, int64_t to)
{
	struct locks_gone gone[64];
	int n = 0;
	for (int64_t now = from; now <= to; now += 20)
		n += locks_reading(x, held, nheld, now, gone);
	return n;
}

static void a_lock_that_stays_away_is_reported_once_after_the_grace(void **state)
{
	(void)state;
	struct locks x = two_seen();
	struct locks_gone gone[2];
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 20, START + 260), 0);
	assert_int_equal(locks_reading(&x, (int64_t[]){1}, 1, START + 270, gone), 1);
	assert_int_equal(gone[0].id, 2);
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 290, START + 9000), 0);
	locks_release(&x);
}

/* Under load the reader is slow, and so is a worker that reconnects. */
static void late_readings_stretch_the_grace(void **state)
{
	(void)state;
	struct locks x = two_seen();
	struct locks_gone gone[2];
	x.rules.step_ms = 40;
	for (int64_t now = START + 200; now <= START + 1400; now += 200)
		assert_int_equal(locks_reading(&x, (int64_t[]){1}, 1, now, gone), 0);
	assert_int_equal(locks_reading(&x, (int64_t[]){1}, 1, START + 1600, gone), 1);
	assert_int_equal(gone[0].since_ms, START + 200);
	locks_release(&x);
}

static void a_worker_that_reconnects_within_the_grace_is_not_reported(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 20, START + 260), 0);
	assert_int_equal(read_through(&x, (int64_t[]){1, 2}, 2, START + 280, START + 280), 0);
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 300, START + 540), 0);
	locks_release(&x);
}

static void one_that_came_back_after_its_report_can_vanish_again(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 20, START + 400), 1);
	assert_int_equal(read_through(&x, (int64_t[]){1, 2}, 2, START + 420, START + 440), 0);
	assert_int_equal(read_through(&x, (int64_t[]){1}, 1, START + 460, START + 900), 1);
	locks_release(&x);
}

static void a_lock_that_was_never_seen_cannot_vanish(void **state)
{
	(void)state;
	struct locks x = two_seen();
	locks_set(&x, (int64_t[]){1, 2, 3}, 3);
	assert_int_equal(read_through(&x, (int64_t[]){1, 2}, 2, START + 20, START + 60000), 0);
	locks_release(&x);
}

static void locks_of_strangers_are_ignored(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, (int64_t[]){9, 2, 1, 1}, 4, START + 20, START + 100), 0);
	assert_int_equal(x.n, 2);
	assert_int_equal(read_through(&x, (int64_t[]){2, 1}, 2, START + 120, START + 900), 0);
	locks_release(&x);
}

static void after_an_outage_nobody_is_reported_within_the_quiet_time(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, NULL, 0, START + 20, START + 240), 0);
	locks_outage(&x, START + 250);
	/* The quiet time counts from the first reading after it. */
	assert_int_equal(read_through(&x, NULL, 0, START + 1000, START + 10999), 0);
	assert_int_equal(read_through(&x, NULL, 0, START + 11000, START + 11000), 2);
	locks_release(&x);
}

static void those_who_return_within_the_quiet_time_are_not_reported(void **state)
{
	(void)state;
	struct locks x = two_seen();
	struct locks_gone gone[2];
	locks_outage(&x, START + 250);
	assert_int_equal(read_through(&x, NULL, 0, START + 1000, START + 10900), 0);
	assert_int_equal(locks_reading(&x, (int64_t[]){2}, 1, START + 11000, gone), 1);
	assert_int_equal(gone[0].id, 1);
	locks_release(&x);
}

static void a_gap_in_the_readings_is_an_outage(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, NULL, 0, START + 20, START + 100), 0);
	assert_int_equal(read_through(&x, NULL, 0, START + 2101, START + 12100), 0);
	assert_int_equal(read_through(&x, NULL, 0, START + 12101, START + 12101), 2);
	locks_release(&x);
}

static void a_new_set_keeps_what_is_known_and_drops_the_rest(void **state)
{
	(void)state;
	struct locks x = two_seen();
	assert_int_equal(read_through(&x, NULL, 0, START + 20, START + 100), 0);
	locks_set(&x, (int64_t[]){7, 2, 2}, 3);
	assert_int_equal(x.n, 2);
	assert_int_equal(read_through(&x, NULL, 0, START + 120, START + 400), 1);
	locks_set(&x, NULL, 0);
	assert_int_equal(read_through(&x, NULL, 0, START + 420, START + 900), 0);
	locks_set(&x, (int64_t[]){2}, 1);
	assert_int_equal(read_through(&x, NULL, 0, START + 920, START + 1900), 0);
	locks_release(&x);
}

static uint64_t seed;
static int64_t roll(int64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)below);
}

/*
 * Random schedules. A live worker's session breaks now and then and is back before the grace is
 * over, long enough to be seen by a reading; a mortal one dies at some time; a secret one never
 * takes its lock. The reader has outages and gaps.
 */
enum fate { LIVING, MORTAL, SECRET };
#define WORKERS 12

struct actor {
	enum fate fate;
	int64_t dies_ms;       /* MORTAL */
	int64_t away_until_ms; /* LIVING: reconnecting */
	bool seen;             /* by a reading */
	int64_t absent_ms; /* first reading without it, since it was held or the last outage ended */
	int reported;
};

struct world {
	struct locks x;
	struct actor actors[WORKERS];
	int64_t now_ms, trouble_ms; /* trouble: when the reader's last outage or gap ended */
};

static void world_init(struct world *w)
{
	int64_t ids[WORKERS];
	*w = (struct world){.now_ms = START, .trouble_ms = START - rules.quiet_ms};
	locks_init(&w->x, &rules);
	for (int i = 0; i < WORKERS; i++) {
		ids[i] = (int64_t)(WORKERS - i);
		w->actors[i].fate = (enum fate)roll(3);
		w->actors[i].dies_ms = START + roll(60000);
	}
	locks_set(&w->x, ids, WORKERS);
}

static bool holds(struct actor *a, int64_t now)
{
	switch (a->fate) {
	case LIVING:
		if (a->absent_ms == 0 && roll(50) == 0)
			a->away_until_ms = now + 1 + roll(rules.grace_ms);
		return now >= a->away_until_ms;
	case MORTAL:
		return now < a->dies_ms;
	case SECRET:
		break;
	}
	return false;
}

/* The reader's time passes: usually about 20 ms, sometimes an outage or a gap. */
static void pass_time(struct world *w)
{
	int64_t before = w->now_ms;
	bool outage = roll(700) == 0;
	if (outage) {
		locks_outage(&w->x, w->now_ms + roll(10));
		w->now_ms += 10 + roll(3000);
	} else {
		w->now_ms += roll(600) == 0 ? 1500 + roll(2000) : 5 + roll(40);
	}
	if (outage || w->now_ms - before > rules.gap_ms) {
		w->trouble_ms = w->now_ms;
		for (int i = 0; i < WORKERS; i++) {
			w->actors[i].absent_ms = 0;
			w->actors[i].reported = 0; /* earlier reports prove nothing: again */
		}
	}
}

static void check_report(struct world *w, int64_t id)
{
	struct actor *a = &w->actors[id - 1];
	assert_int_equal(a->fate, MORTAL);
	assert_true(a->seen);
	assert_true(w->now_ms >= w->trouble_ms + rules.quiet_ms);
	assert_true(w->now_ms - a->dies_ms >= rules.grace_ms);
	assert_int_equal(++a->reported, 1);
}

static void world_step(struct world *w)
{
	int64_t held[WORKERS];
	struct locks_gone gone[WORKERS];
	int nheld = 0;
	pass_time(w);
	for (int i = 0; i < WORKERS; i++) {
		struct actor *a = &w->actors[i];
		if (holds(a, w->now_ms)) {
			held[nheld++] = i + 1;
			a->seen = true;
			a->absent_ms = 0;
		} else if (a->absent_ms == 0) {
			a->absent_ms = w->now_ms;
		}
	}
	int ngone = locks_reading(&w->x, held, nheld, w->now_ms, gone);
	for (int i = 0; i < ngone; i++)
		check_report(w, gone[i].id);
	for (int i = 0; i < WORKERS; i++) {
		const struct actor *a = &w->actors[i];
		bool due = a->fate == MORTAL && a->seen && a->absent_ms != 0 &&
		           w->now_ms >= a->absent_ms + rules.grace_ms &&
		           w->now_ms >= w->trouble_ms + rules.quiet_ms;
		assert_true(!due || a->reported == 1);
	}
}

static void random_schedules_report_the_dead_in_time_and_nobody_else(void **state)
{
	(void)state;
	int reported = 0;
	for (uint64_t round = 1; round <= 300; round++) {
		struct world w;
		seed = round * 0x9e3779b97f4a7c15u;
		world_init(&w);
		while (w.now_ms < START + 80000)
			world_step(&w);
		for (int i = 0; i < WORKERS; i++)
			reported += w.actors[i].reported;
		locks_release(&w.x);
	}
	assert_true(reported > 200); /* the schedules were interesting enough */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_that_stays_away_is_reported_once_after_the_grace),
		cmocka_unit_test(late_readings_stretch_the_grace),
		cmocka_unit_test(a_worker_that_reconnects_within_the_grace_is_not_reported),
		cmocka_unit_test(one_that_came_back_after_its_report_can_vanish_again),
		cmocka_unit_test(a_lock_that_was_never_seen_cannot_vanish),
		cmocka_unit_test(locks_of_strangers_are_ignored),
		cmocka_unit_test(after_an_outage_nobody_is_reported_within_the_quiet_time),
		cmocka_unit_test(those_who_return_within_the_quiet_time_are_not_reported),
		cmocka_unit_test(a_gap_in_the_readings_is_an_outage),
		cmocka_unit_test(a_new_set_keeps_what_is_known_and_drops_the_rest),
		cmocka_unit_test(random_schedules_report_the_dead_in_time_and_nobody_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
