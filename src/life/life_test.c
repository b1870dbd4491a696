/* SPDX-License-Identifier: Apache-2.0 */
/* life_test.c: every rule of a worker's life, with injected time. */
#include "life/life_test.h"

/* ---- itself ---- */

static void it_registers_takes_its_lock_and_only_lives_until_the_start_up_is_over(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 3);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_GOOD); /* not lost: not begun */
	run(&w, 2 * LEASE_MS);
	assert_int_equal(w.done[LIFE_REGISTER], 1);
	assert_int_equal(w.done[LIFE_LOCK], 1);
	assert_true(w.done[LIFE_RENEW] >= 5);
	assert_int_equal(w.done[LIFE_LOOK] + w.done[LIFE_SWEEP] + w.done[LIFE_LEFT], 0);
	tell(&w, &(struct life_event){.what = LIFE_STARTED});
	run(&w, 1);
	assert_int_equal(w.done[LIFE_LOOK], 1);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_GOOD);
	life_release(&w.life);
}

static int asked(const struct world *w)
{
	int all = 0;
	for (int i = LIFE_REGISTER; i <= LIFE_LEFT; i++)
		all += i == LIFE_FELLOWS || i == LIFE_RETURN ? 0 : w->done[i];
	return all;
}

/* Ten minutes of one worker among 10 to 1,000: statements and rows of the list of workers. */
static void the_cost_of_an_idle_worker_does_not_grow_with_their_number(void **state)
{
	static const int numbers[] = {10, 100, 300, MANY};
	int64_t first_read = 0;
	(void)state;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		struct world w;
		live(&w, numbers[i]);
		run(&w, 600000);
		first_read = i == 0 ? w.rows_read : first_read;
		print_message("%d workers: %.2f statements, %.1f rows a second\n", numbers[i],
		              asked(&w) / 600.0, (double)w.rows_read / 600);
		assert_true(asked(&w) <= 600 * 0.45);
		assert_true(w.rows_read <= 2 * first_read);
		life_release(&w.life);
	}
}

static void a_renewal_that_fails_is_tried_again_and_contact_is_lost_meanwhile(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.writes = false;
	run(&w, 6000);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_LOST);
	run(&w, LEASE_MS);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_EXPIRED);
	w.writes = true;
	run(&w, 5000);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_GOOD);
	life_release(&w.life);
}

static void who_was_declared_dead_says_so_and_registers_anew(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.dead_self = true;
	w.gone[SELF - 1] = true;
	run(&w, 5000);
	assert_int_equal(w.done[LIFE_RETURN], 1);
	assert_int_equal(w.done[LIFE_REGISTER], 1);
	assert_int_equal(w.done[LIFE_LOCK], 1);
	assert_true(w.life.worker > SELF);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_GOOD);
	life_release(&w.life);
}

static void a_registration_that_fails_is_tried_again_and_nothing_else_is_done(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.dead_self = w.gone[SELF - 1] = w.closed = true;
	run(&w, 5000);
	assert_int_equal(w.done[LIFE_RETURN], 1);
	memset(w.done, 0, sizeof w.done);
	run(&w, 3000);
	assert_int_equal(w.done[LIFE_LOOK] + w.done[LIFE_RENEW], 0);
	assert_int_equal(life_contact(&w.life, w.now_ms), CONTACT_TAKEN);
	w.closed = false;
	run(&w, 1000);
	assert_int_equal(w.done[LIFE_REGISTER], 1);
	life_release(&w.life);
}

/* Between two sessions others saw no lock: a fresh sign outweighs it, within their grace. */
static void a_new_session_renews_at_once(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	run(&w, 1000); /* the next renewal is seconds away */
	memset(w.done, 0, sizeof w.done);
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	run(&w, 0);
	assert_int_equal(w.done[LIFE_LOCK], 1);
	assert_int_equal(w.done[LIFE_RENEW], 1);
	assert_int_equal(w.rows[SELF - 1].stamp_us, w.now_ms * 1000 + w.clock_us);
	life_release(&w.life);
}

/* Its old session lingers with the lock, and ends at some time. */
static void a_lock_that_an_old_session_has_is_tried_for_and_renewed_beside(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.lock_taken = true;
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	run(&w, 3000);
	assert_true(w.done[LIFE_LOCK] >= 25);
	assert_true(w.done[LIFE_RENEW] >= 25);
	w.lock_taken = false;
	run(&w, 200);
	int locks = w.done[LIFE_LOCK], renewals = w.done[LIFE_RENEW];
	run(&w, 4000);
	assert_int_equal(w.done[LIFE_LOCK], locks);
	assert_true(w.done[LIFE_RENEW] <= renewals + 1);
	life_release(&w.life);
}

static void jobs_are_compared_when_counts_differ_for_two_beats(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	run(&w, 20000);
	assert_int_equal(w.done[LIFE_COMPARE], 0);
	w.owned = 3;
	w.holding = 2;
	run(&w, 5000);
	assert_int_equal(w.done[LIFE_COMPARE], 0);
	run(&w, 5000);
	assert_int_equal(w.done[LIFE_COMPARE], 1);
	life_release(&w.life);
}

/* ---- silence ---- */

static void one_that_falls_silent_is_declared_dead_after_its_lease(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	w.beats[1] = false;
	run(&w, LEASE_MS - 5001);
	assert_int_equal(w.ndead, 0);
	run(&w, 5001 + 5000 + 2000);
	assert_int_equal(w.ndead, 1);
	assert_int_equal(w.dead[0], 2);
	assert_string_equal(w.causes[0], "silent");
	assert_int_equal(w.done[LIFE_RECOVER], 1);
	life_release(&w.life);
}

static void one_of_a_hundred_is_found_by_its_neighbours(void **state)
{
	struct world w;
	(void)state;
	live(&w, 100);
	w.beats[SELF - 1 + 2] = false;
	run(&w, LEASE_MS + 5000 + 2000);
	assert_int_equal(w.ndead, 1);
	life_release(&w.life);
}

static void one_that_nobody_reads_is_found_by_a_look_at_all(void **state)
{
	struct world w;
	(void)state;
	live(&w, 100);
	w.beats[49] = false;
	run(&w, 300000);
	assert_int_equal(w.ndead, 1);
	assert_int_equal(w.dead[0], 50);
	life_release(&w.life);
}

static void a_newcomer_convicts_nobody_before_a_lease_of_its_own(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 6);
	w.beats[1] = false;
	w.rows[1].stamp_us -= 3600000000;
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	tell(&w, &(struct life_event){.what = LIFE_STARTED});
	run(&w, LEASE_MS - 1);
	assert_int_equal(w.ndead, 0);
	run(&w, 4000);
	assert_int_equal(w.ndead, 1);
	life_release(&w.life);
}

/* Another process holds SQLite's write lock, or the disk is full: reading still works. */
static void nobody_is_convicted_when_nobody_could_write(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	for (int k = 0; k < 3; k++) {
		w.writes = false;
		run(&w, 5 * LEASE_MS);
		w.writes = true;
		run(&w, 3 * LEASE_MS);
		assert_int_equal(w.ndead, 0);
	}
	life_release(&w.life);
}

static void nobody_is_convicted_after_we_could_not_read(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.reads = false;
	w.beats[0] = w.beats[1] = false;
	run(&w, 5 * LEASE_MS);
	w.reads = true;
	run(&w, LEASE_MS - 1000);
	w.beats[0] = w.beats[1] = true;
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

static void nobody_is_convicted_after_we_were_suspended(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.beats[0] = false;
	run(&w, LEASE_MS - 5500);
	w.now_ms += 3600000;
	w.beats[0] = true; /* it slept as we did */
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/* During a stop of less than two seconds others may be silent for a whole short lease. */
static void a_short_stop_is_an_outage_where_the_lease_is_short(void **state)
{
	static const struct {
		int64_t lease_ms, late_ms, outages;
	} cases[] = {{1500, 501, 1}, {1500, 500, 0}, {15000, 2001, 1}, {15000, 2000, 0}};
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct life_rules rules = {.lease = lease_rules_of(cases[i].lease_ms), .look_ms = 500};
		struct life l;
		life_init(&l, &rules);
		assert_int_equal(life_next(&l, 1000).what, LIFE_REGISTER);
		life_tell(&l, &(struct life_event){.what = LIFE_FAILED}, 1000 + cases[i].late_ms);
		assert_int_equal(l.outages, cases[i].outages);
		life_release(&l);
	}
}

static void a_clock_that_jumps_convicts_nobody_and_is_an_outage(void **state)
{
	static const int64_t jumps_s[] = {60, 86400, -7200};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct world w;
		live(&w, 4);
		int64_t outages = w.life.outages;
		w.clock_us += jumps_s[i] * 1000000;
		run(&w, 5001);
		assert_true(w.life.outages > outages);
		run(&w, 10 * LEASE_MS);
		assert_int_equal(w.ndead, 0);
		life_release(&w.life);
	}
}

/* So that observers that judge by the clock hear from us at once. */
static void a_clock_that_jumps_makes_us_renew(void **state)
{
	struct world w;
	(void)state;
	live(&w, 4);
	run(&w, w.life.lease.next_ms - w.now_ms + 10);
	w.clock_us += 60000000;
	memset(w.done, 0, sizeof w.done);
	while (w.done[LIFE_LOOK] == 0)
		run(&w, 10);
	assert_true(w.done[LIFE_RENEW] >= 1);
	life_release(&w.life);
}

/* Our own lease is an hour: otherwise we would not write for twenty minutes. */
static void who_renews_seldom_renews_before_it_convicts(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 6);
	life_release(&w.life);
	life_init(&w.life, &(struct life_rules){.lease = lease_rules_of(3600000), .look_ms = 5000});
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	tell(&w, &(struct life_event){.what = LIFE_STARTED});
	run(&w, 20000);
	int renewals = w.done[LIFE_RENEW];
	w.beats[1] = false;
	run(&w, 40000);
	assert_int_equal(w.ndead, 1);
	assert_int_equal(w.done[LIFE_RENEW], renewals + 1);
	life_release(&w.life);
}

static void most_that_fall_silent_at_once_are_held_also_among_a_hundred(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct world w;
		live(&w, i ? 100 : 6);
		for (int id = 1; id <= w.n; id++)
			w.beats[id - 1] = id == 1;
		run(&w, 10 * LEASE_MS);
		assert_int_equal(w.ndead, 0);
		assert_true(silence_holds(&w.life.silence));
		assert_true(w.last_sweep.dead_only);
		run(&w, SILENCE_CEILING_MS);
		assert_int_equal(w.ndead, w.n - 2);
		life_release(&w.life);
	}
}

/* ---- ends that are seen ---- */

static void an_exit_is_declared_at_once_and_its_jobs_are_recovered(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	ends(&w, 2);
	run(&w, 0);
	assert_int_equal(w.ndead, 1);
	assert_string_equal(w.causes[0], "exit seen");
	assert_int_equal(w.done[LIFE_RECOVER], 1);
	assert_true(w.done[LIFE_LOOK] >= 1);
	assert_true(w.done[LIFE_FELLOWS] >= 1);
	life_release(&w.life);
}

static void an_exit_that_could_not_be_told_is_told_later(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	w.writes = false;
	ends(&w, 2);
	run(&w, 3000);
	assert_int_equal(w.ndead, 0);
	w.writes = true;
	run(&w, 300);
	assert_int_equal(w.ndead, 1);
	assert_in_range(w.last_death.ago_us, 3000000, 3300000); /* when it was seen, not told */
	life_release(&w.life);
}

static void one_that_left_is_forgotten_and_what_it_left_is_asked_for(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	w.gone[1] = true;
	w.left = true;
	ends(&w, 2);
	run(&w, 100);
	assert_int_equal(w.ndead, 0);
	assert_false(part_knows(&w.life.part, 2));
	assert_true(w.done[LIFE_LEFT] >= 1);
	assert_true(w.last_sweep.queue);
	life_release(&w.life);
}

static void three_that_end_within_half_a_second_are_one_event(void **state)
{
	struct world w;
	(void)state;
	live(&w, 7);
	for (int64_t id = 1; id <= 3; id++) {
		ends(&w, id);
		run(&w, 100);
	}
	assert_int_equal(w.nmass, 3);
	assert_false(w.mass[0] || w.mass[1]);
	assert_true(w.mass[2]);
	run(&w, 1000);
	ends(&w, 5);
	run(&w, 100);
	assert_false(w.mass[3]);
	life_release(&w.life);
}

/* Each registers, takes the job that killed the previous one, and dies of it. */
static void newcomers_that_die_one_after_the_other_are_no_mass_event(void **state)
{
	struct world w;
	(void)state;
	live(&w, 7);
	for (int64_t id = 8; id < 28; id++) {
		enter(&w, id, false);
		tell(&w, &(struct life_event){.what = LIFE_NEWCOMER});
		run(&w, 50);
		ends(&w, id);
		run(&w, 50);
	}
	assert_int_equal(w.nmass, 20);
	for (int i = 0; i < 20; i++)
		assert_false(w.mass[i]);
	life_release(&w.life);
}

static void a_newcomer_is_looked_at_when_it_is_told_of(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	enter(&w, 7, false);
	tell(&w, &(struct life_event){.what = LIFE_NEWCOMER});
	run(&w, 0);
	assert_true(part_knows(&w.life.part, 7));
	life_release(&w.life);
}

/* ---- deaths that others declare ---- */

/* Its tables are swept, for lost jobs only, and its own sweep is not put off. */
static void swept_for_the_dead(struct world *w)
{
	int64_t due_ms = w->life.sweep_ms;
	assert_int_equal(w->done[LIFE_SWEEP], 1);
	assert_true(w->last_sweep.died && w->last_sweep.tables && w->last_sweep.dead_only);
	assert_false(w->last_sweep.queue);
	assert_true(due_ms > w->now_ms);
}

static void begin_with_tables(struct world *w, int n)
{
	live(w, n);
	w->life.rules.tables = true;
	/* Right after a sweep that was due. */
	do
		run(w, 100);
	while (w->done[LIFE_SWEEP] == 0);
	w->done[LIFE_SWEEP] = 0;
}

static void an_exit_that_another_declared_first_sweeps_tables(void **state)
{
	struct world w;
	(void)state;
	begin_with_tables(&w, 6);
	w.gone[4] = true;
	ends(&w, 5);
	run(&w, 0);
	assert_int_equal(w.ndead, 0);
	swept_for_the_dead(&w);
	life_release(&w.life);
}

static void a_death_that_is_told_of_sweeps_tables(void **state)
{
	struct world w;
	(void)state;
	begin_with_tables(&w, 100);
	w.gone[49] = true; /* none of its neighbours */
	tell(&w, &(struct life_event){.what = LIFE_DEATH});
	run(&w, 0);
	assert_false(part_knows(&w.life.part, 50));
	swept_for_the_dead(&w);
	life_release(&w.life);
}

/* ---- jobs ---- */

static void the_first_asks_now_and_then_for_jobs_of_nobody(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3); /* we are the fourth */
	run(&w, 60000);
	assert_int_equal(w.done[LIFE_LEFT], 0);
	assert_false(w.last_sweep.upkeep);
	for (int64_t id = 1; id <= 3; id++) {
		ends(&w, id);
		run(&w, 1000);
	}
	memset(w.done, 0, sizeof w.done);
	run(&w, 60000);
	assert_true(w.done[LIFE_LEFT] >= 3 && w.done[LIFE_LEFT] <= 5);
	assert_true(w.last_sweep.upkeep);
	assert_false(w.last_sweep.queue);
	w.left = true;
	run(&w, 16000);
	w.left = false;
	assert_true(w.last_sweep.queue);
	life_release(&w.life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_registers_takes_its_lock_and_only_lives_until_the_start_up_is_over),
		cmocka_unit_test(the_cost_of_an_idle_worker_does_not_grow_with_their_number),
		cmocka_unit_test(a_renewal_that_fails_is_tried_again_and_contact_is_lost_meanwhile),
		cmocka_unit_test(who_was_declared_dead_says_so_and_registers_anew),
		cmocka_unit_test(a_registration_that_fails_is_tried_again_and_nothing_else_is_done),
		cmocka_unit_test(a_new_session_renews_at_once),
		cmocka_unit_test(a_lock_that_an_old_session_has_is_tried_for_and_renewed_beside),
		cmocka_unit_test(jobs_are_compared_when_counts_differ_for_two_beats),
		cmocka_unit_test(one_that_falls_silent_is_declared_dead_after_its_lease),
		cmocka_unit_test(one_of_a_hundred_is_found_by_its_neighbours),
		cmocka_unit_test(one_that_nobody_reads_is_found_by_a_look_at_all),
		cmocka_unit_test(a_newcomer_convicts_nobody_before_a_lease_of_its_own),
		cmocka_unit_test(nobody_is_convicted_when_nobody_could_write),
		cmocka_unit_test(nobody_is_convicted_after_we_could_not_read),
		cmocka_unit_test(nobody_is_convicted_after_we_were_suspended),
		cmocka_unit_test(a_short_stop_is_an_outage_where_the_lease_is_short),
		cmocka_unit_test(a_clock_that_jumps_convicts_nobody_and_is_an_outage),
		cmocka_unit_test(a_clock_that_jumps_makes_us_renew),
		cmocka_unit_test(who_renews_seldom_renews_before_it_convicts),
		cmocka_unit_test(most_that_fall_silent_at_once_are_held_also_among_a_hundred),
		cmocka_unit_test(an_exit_is_declared_at_once_and_its_jobs_are_recovered),
		cmocka_unit_test(an_exit_that_could_not_be_told_is_told_later),
		cmocka_unit_test(one_that_left_is_forgotten_and_what_it_left_is_asked_for),
		cmocka_unit_test(three_that_end_within_half_a_second_are_one_event),
		cmocka_unit_test(newcomers_that_die_one_after_the_other_are_no_mass_event),
		cmocka_unit_test(a_newcomer_is_looked_at_when_it_is_told_of),
		cmocka_unit_test(an_exit_that_another_declared_first_sweeps_tables),
		cmocka_unit_test(a_death_that_is_told_of_sweeps_tables),
		cmocka_unit_test(the_first_asks_now_and_then_for_jobs_of_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
