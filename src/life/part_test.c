/* SPDX-License-Identifier: Apache-2.0 */
/* part_test.c: every worker is watched, and none reads more than a few rows for it. */
#include "life/part.h"

#include "base/test.h"

#define MANY 300

static struct registered all[MANY];
static int nall;

/* Workers 1…n on this many hosts, in turn; they serve "a" and "b" in turn. */
static void world(int n, int hosts)
{
	nall = n;
	for (int i = 0; i < n; i++) {
		all[i] = (struct registered){.id = i + 1, .serves = i % 2 ? "queue\nb" : "queue\na"};
		all[i].who = (struct incarnation){.pid = 1000 + i, .pid_ns = 1, .start = 1};
		snprintf(all[i].who.host, sizeof all[i].who.host, "host%d", i % hosts);
		snprintf(all[i].who.boot_id, sizeof all[i].who.boot_id, "boot%d", i % hosts);
	}
}

static void drop(int64_t id)
{
	int kept = 0;
	for (int i = 0; i < nall; i++)
		if (all[i].id != id)
			all[kept++] = all[i];
	nall = kept;
}

static int at_of(int64_t id)
{
	int at = 0;
	while (all[at].id != id)
		at++;
	return at;
}

/* What registry_near() would read. */
static int near(int64_t self, struct registered *out)
{
	int n = 0, at = at_of(self);
	for (int i = 0; i < nall; i++)
		if (i < PART_SIDE || i >= nall - PART_SIDE || (i >= at - PART_SIDE && i <= at + PART_SIDE))
			out[n++] = all[i];
	return n;
}

static void join(struct part *p, int64_t self)
{
	part_init(p);
	part_self(p, self, &all[at_of(self)].who);
	assert_true(part_look(p, all, nall, true).whole);
}

static struct part_seen look_near(struct part *p)
{
	struct registered rows[4 * PART_SIDE + 1];
	return part_look(p, rows, near(p->self, rows), false);
}

static bool watches(const struct part *p, int64_t id)
{
	struct incarnation who[2 * PART_SIDE];
	int64_t ids[2 * PART_SIDE];
	int n = part_fellows(p, ids, who);
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static int watchers_of(int64_t id)
{
	int n = 0;
	for (int i = 0; i < nall; i++) {
		struct part p;
		join(&p, all[i].id);
		n += watches(&p, id);
		part_release(&p);
	}
	return n;
}

static void each_process_is_watched_by_six_of_its_host(void **state)
{
	(void)state;
	world(60, 3);
	for (int i = 0; i < nall; i++)
		assert_int_equal(watchers_of(all[i].id), 2 * PART_SIDE);
}

static void few_of_a_host_watch_each_other(void **state)
{
	(void)state;
	for (int n = 1; n <= 7; n++) {
		world(n, 1);
		for (int i = 0; i < nall; i++)
			assert_int_equal(watchers_of(all[i].id), n - 1);
	}
}

static void nobody_watches_itself_or_another_host_s_process(void **state)
{
	struct part p;
	(void)state;
	world(20, 2);
	join(&p, 5);
	assert_false(watches(&p, 5));
	for (int64_t id = 2; id <= 20; id += 2)
		assert_false(watches(&p, id));
	part_release(&p);
}

/*
 * All but one are killed at once: it sees the ends of those that it watches, then of the next ones.
 */
static void one_that_is_left_comes_to_all(void **state)
{
	struct part p;
	int rounds = 0;
	(void)state;
	world(100, 1);
	join(&p, 50);
	while (p.n > 1 && rounds++ < 100) {
		struct incarnation who[2 * PART_SIDE];
		int64_t ids[2 * PART_SIDE];
		int n = part_fellows(&p, ids, who);
		for (int i = 0; i < n; i++)
			part_forget(&p, ids[i]);
	}
	assert_int_equal(p.n, 1);
	assert_true(rounds <= 17);
	part_release(&p);
}

static void a_newcomer_is_seen_by_a_look_at_a_few(void **state)
{
	struct part p;
	(void)state;
	world(100, 1);
	nall = 98;
	join(&p, 1);
	nall = 100;
	struct part_seen seen = look_near(&p);
	assert_false(seen.missed);
	assert_false(seen.whole);
	assert_true(part_knows(&p, 99) && part_knows(&p, 100));
	assert_true(watches(&p, 100));
	part_release(&p);
}

static void more_newcomers_than_a_look_shows_make_one_look_at_all(void **state)
{
	struct part p;
	(void)state;
	world(100, 1);
	nall = 90;
	join(&p, 40);
	nall = 100;
	assert_true(look_near(&p).missed);
	assert_true(look_near(&p).missed); /* until it was done */
	assert_false(part_look(&p, all, nall, true).missed);
	assert_int_equal(p.n, 100);
	assert_false(look_near(&p).missed);
	part_release(&p);
}

static void a_neighbour_that_is_gone_is_missed_and_one_out_of_sight_is_not(void **state)
{
	struct part p;
	(void)state;
	world(100, 1);
	join(&p, 50);
	drop(52);
	drop(70);
	drop(2);
	struct part_seen seen = look_near(&p);
	assert_int_equal(seen.gone, 2);
	assert_false(part_knows(&p, 52) || part_knows(&p, 2));
	assert_true(part_knows(&p, 70));
	assert_int_equal(part_look(&p, all, nall, true).gone, 1);
	assert_false(part_knows(&p, 70));
	part_release(&p);
}

static void six_at_most_are_all_at_any_look(void **state)
{
	struct part p;
	(void)state;
	world(6, 1);
	join(&p, 3);
	assert_true(look_near(&p).whole);
	world(7, 1);
	assert_false(look_near(&p).whole);
	part_release(&p);
}

static void the_first_three_and_two_of_each_host_stand_ready_for_locks(void **state)
{
	static const int each[] = {0, 3, 2, 2, 2}; /* by the number of hosts */
	(void)state;
	for (int hosts = 1; hosts <= 4; hosts++) {
		int ready[4] = {0};
		world(28, hosts);
		for (int i = 0; i < nall; i++) {
			struct part p;
			join(&p, all[i].id);
			ready[i % hosts] += part_reads_locks(&p);
			part_release(&p);
		}
		for (int i = 0; i < hosts; i++)
			assert_int_equal(ready[i], each[hosts]);
	}
}

static int sweepers(const char *watch, const struct silence *s)
{
	int n = 0;
	for (int i = 0; i < nall; i++) {
		struct part p;
		join(&p, all[i].id);
		n += part_sweeps(&p, s, watch) && serves_watch(all[i].serves, watch ? watch : "queue");
		part_release(&p);
	}
	return n;
}

static void each_watch_is_swept_by_one(void **state)
{
	struct silence s;
	(void)state;
	world(30, 2);
	silence_init(&s, 15000, 0);
	assert_int_equal(sweepers(NULL, &s), 1);
	assert_int_equal(sweepers("a", &s), 1);
	assert_int_equal(sweepers("b", &s), 1);
	silence_release(&s);
}

/* Its id is lower than ours until it is declared dead. */
static void one_that_is_silent_or_recovers_nothing_does_not_stand_before_us(void **state)
{
	struct silence s;
	struct part p;
	(void)state;
	world(3, 1);
	all[0].serves = NULL; /* a client in another language */
	silence_init(&s, 15000, 0);
	for (int i = 0; i < 3; i++)
		all[i].lease_us = 15000000;
	silence_look(&s, all, 3, true, 1000);
	join(&p, 3);
	assert_false(part_sweeps(&p, &s, NULL));
	silence_look(&s, all, 3, true, 10000);
	assert_true(part_sweeps(&p, &s, NULL));
	part_release(&p);
	silence_release(&s);
}

static void the_workers_of_other_hosts_are_told_apart(void **state)
{
	struct part p;
	int64_t ids[MANY];
	(void)state;
	world(10, 2);
	join(&p, 1);
	assert_int_equal(part_remote(&p, ids), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ids[i], 2 * i + 2);
	part_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_process_is_watched_by_six_of_its_host),
		cmocka_unit_test(few_of_a_host_watch_each_other),
		cmocka_unit_test(nobody_watches_itself_or_another_host_s_process),
		cmocka_unit_test(one_that_is_left_comes_to_all),
		cmocka_unit_test(a_newcomer_is_seen_by_a_look_at_a_few),
		cmocka_unit_test(more_newcomers_than_a_look_shows_make_one_look_at_all),
		cmocka_unit_test(a_neighbour_that_is_gone_is_missed_and_one_out_of_sight_is_not),
		cmocka_unit_test(six_at_most_are_all_at_any_look),
		cmocka_unit_test(the_first_three_and_two_of_each_host_stand_ready_for_locks),
		cmocka_unit_test(each_watch_is_swept_by_one),
		cmocka_unit_test(one_that_is_silent_or_recovers_nothing_does_not_stand_before_us),
		cmocka_unit_test(the_workers_of_other_hosts_are_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
