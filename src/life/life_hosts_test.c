/* SPDX-License-Identifier: Apache-2.0
 * life_hosts_test.c: the life of a worker with workers on other hosts: locks and sessions.
 */
#include "life/life_test.h"

static void with_far(struct world *w)
{
	begin(w, 3);
	for (int64_t id = 1; id <= 2; id++)
		enter(w, id, true);
	w->leads = true;
	tell(w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	tell(w, &(struct life_event){.what = LIFE_STARTED});
	run(w, 2 * LEASE_MS);
}

static void a_lock_that_is_gone_is_a_death_after_its_grace(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	w.beats[1] = w.locked[1] = false;
	run(&w, 200);
	assert_int_equal(w.ndead, 0);
	run(&w, 100);
	assert_int_equal(w.ndead, 1);
	assert_string_equal(w.causes[0], "session gone");
	life_release(&w.life);
}

static void one_that_renewed_since_its_lock_was_gone_lives(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	w.locked[1] = false;
	run(&w, 100);
	renew_row(&w, 2);
	run(&w, 2 * LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/* By the clock that was set forward it seems to have renewed long before. */
static void one_that_renewed_since_its_lock_was_gone_lives_also_when_the_clock_jumps(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	w.beats[1] = w.locked[1] = false;
	run(&w, 100);
	renew_row(&w, 2);
	w.clock_us += 60000000;
	run(&w, 1000);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

static void locks_are_read_only_where_there_is_somebody_to_look_for(void **state)
{
	struct world w;
	(void)state;
	live(&w, 6);
	run(&w, 60000);
	assert_int_equal(w.done[LIFE_LOCKS], 0);
	life_release(&w.life);
	with_far(&w);
	memset(w.done, 0, sizeof w.done);
	run(&w, 1000);
	assert_true(w.done[LIFE_LOCKS] >= 45);
	w.leads = false;
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	memset(w.done, 0, sizeof w.done);
	run(&w, 10000);
	assert_true(w.done[LIFE_LOCKS] >= 9 && w.done[LIFE_LOCKS] <= 11);
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = false});
	memset(w.done, 0, sizeof w.done);
	run(&w, 10000);
	assert_int_equal(w.done[LIFE_LOCKS], 0);
	life_release(&w.life);
}

static void a_lock_is_no_evidence_after_an_outage_of_our_own(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	w.locked[1] = false;
	run(&w, 5000);
	assert_int_equal(w.ndead, 0);
	w.locked[1] = true;
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/* Too short to be a stop of ours, too long to know what happened to sessions meanwhile. */
static void a_lock_is_no_evidence_after_a_gap_between_readings(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	w.now_ms += 3000;
	w.beats[1] = w.locked[1] = false;
	run(&w, 1000);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

static void a_lock_that_was_gone_before_an_outage_of_our_own_is_no_evidence(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	run(&w, 1000);
	w.writes = false; /* it cannot be declared dead, and no worker can renew */
	w.locked[1] = false;
	run(&w, 2000);
	assert_int_equal(w.ndead, 0);
	lease_renew_soon(&w.life.lease, w.now_ms);
	run(&w, 1000);
	w.writes = true;
	run(&w, 1000);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/*
 * A worker that could not renew closes its session, and its lock disappears: it had no time to
 * renew.
 */
static void a_lock_that_is_gone_while_the_server_takes_no_writes_is_no_evidence(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	run(&w, 1000);
	w.writes = w.beats[1] = w.locked[1] = false;
	run(&w, 240);
	w.writes = true;
	run(&w, 100);
	assert_int_equal(w.ndead, 0);
	w.beats[1] = w.locked[1] = true;
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/*
 * With a long lease, renewals that fail are further apart than the quiet time after an outage. If
 * the server takes writes again just then, we are the first to know, and the worker has not tried
 * yet.
 */
static void a_lock_is_no_evidence_before_a_renewal_of_our_own(void **state)
{
	struct world w;
	struct life_rules rules = {.lease = lease_rules_of(60000), .look_ms = 5000};
	(void)state;
	begin(&w, 3);
	life_release(&w.life);
	life_init(&w.life, &rules);
	for (int64_t id = 1; id <= 2; id++)
		enter(&w, id, true);
	w.leads = true;
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	tell(&w, &(struct life_event){.what = LIFE_STARTED});
	run(&w, 30000);
	w.writes = w.beats[1] = false;
	lease_renew_soon(&w.life.lease, w.now_ms);
	run(&w, 15800); /* 250, 500, 1000, 2000, 4000 and 8000 ms: the next try is 16 s later */
	assert_int_equal(w.life.lease.failed, 7);
	run(&w, 11000);
	w.locked[1] = false;
	run(&w, 400);
	w.writes = true;
	run(&w, 1000);
	assert_int_equal(w.ndead, 0);
	w.beats[1] = w.locked[1] = true;
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

/* It could not be written then; meanwhile the worker may have been as far away as we were. */
static void a_death_that_could_not_be_declared_before_an_outage_is_forgotten(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	run(&w, 1000);
	w.beats[1] = w.locked[1] = false;
	run(&w, 200);
	w.writes = false;
	run(&w, 100);
	assert_int_equal(w.life.nends, 1);
	w.reads = false;
	run(&w, 1000);
	w.reads = w.writes = true;
	run(&w, 1000);
	assert_int_equal(w.ndead, 0);
	w.beats[1] = w.locked[1] = true;
	run(&w, LEASE_MS);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

static void a_server_that_takes_no_writes_is_asked_less_and_less_often(void **state)
{
	struct world w;
	(void)state;
	with_far(&w);
	w.writes = w.beats[1] = w.locked[1] = false;
	run(&w, 3000);
	/* At once, and after 250, 500, 1000 ms. */
	assert_in_range(w.life.lease.failed, 2, 5);
	assert_int_equal(w.ndead, 0);
	life_release(&w.life);
}

static void a_session_that_is_lost_is_opened_at_once_and_tried_for_often(void **state)
{
	struct world w;
	(void)state;
	live(&w, 3);
	w.reads = false;
	tell(&w, &(struct life_event){.what = LIFE_ENDED});
	struct life_action a = life_next(&w.life, w.now_ms);
	assert_int_equal(a.what, LIFE_OPEN);
	tell(&w, &(struct life_event){.what = LIFE_FAILED});
	/* Within the grace of the worker that reads our lock. */
	int tries = 0;
	for (int64_t end = w.now_ms + 200; w.now_ms < end;) {
		a = life_next(&w.life, w.now_ms);
		tries += a.what == LIFE_OPEN;
		w.now_ms += a.what == LIFE_WAIT ? a.wait_ms : 0;
		tell(&w, &(struct life_event){.what = a.what == LIFE_WAIT ? LIFE_TIME : LIFE_FAILED});
	}
	assert_true(tries >= 3);
	tell(&w, &(struct life_event){.what = LIFE_OPENED, .locks = true});
	w.reads = true;
	run(&w, 1000);
	assert_int_equal(w.done[LIFE_OPEN], 0);
	life_release(&w.life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_that_is_gone_is_a_death_after_its_grace),
		cmocka_unit_test(one_that_renewed_since_its_lock_was_gone_lives),
		cmocka_unit_test(one_that_renewed_since_its_lock_was_gone_lives_also_when_the_clock_jumps),
		cmocka_unit_test(locks_are_read_only_where_there_is_somebody_to_look_for),
		cmocka_unit_test(a_lock_is_no_evidence_after_an_outage_of_our_own),
		cmocka_unit_test(a_lock_is_no_evidence_after_a_gap_between_readings),
		cmocka_unit_test(a_lock_that_was_gone_before_an_outage_of_our_own_is_no_evidence),
		cmocka_unit_test(a_lock_that_is_gone_while_the_server_takes_no_writes_is_no_evidence),
		cmocka_unit_test(a_lock_is_no_evidence_before_a_renewal_of_our_own),
		cmocka_unit_test(a_death_that_could_not_be_declared_before_an_outage_is_forgotten),
		cmocka_unit_test(a_server_that_takes_no_writes_is_asked_less_and_less_often),
		cmocka_unit_test(a_session_that_is_lost_is_opened_at_once_and_tried_for_often),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
