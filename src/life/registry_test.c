/* SPDX-License-Identifier: Apache-2.0
 * registry_test.c: one incarnation is one row: alive, then ended forever; and of several that
 * declare it dead, one wins.
 */
#include "life/registry.h"

#include "watch/queue_test.h"

#include <poll.h>
#include <pthread.h>

#define LEASE_MS 3600000

static struct incarnation fresh(void)
{
	struct incarnation who;
	struct failure f = {0};
	if (incarnation_self(&who, &f))
		fail_msg("%s", f.what);
	return who;
}

static int64_t enter(struct store *s)
{
	struct incarnation who = fresh();
	struct failure f = {0};
	int64_t id = 0;
	if (registry_register(s, "anna", &who, LEASE_MS, NULL, &id, &f))
		fail_msg("%s", f.what);
	assert_true(id > 0);
	return id;
}

/* `stamp_us`: only if that is still its last renewal; 0: in any case. */
static bool dead(struct store *s, int64_t id, int64_t stamp_us)
{
	struct failure f = {0};
	bool won = false;
	if (registry_declare_dead(s, id, &(struct death){.cause = "test", .stamp_us = stamp_us}, &won,
	                          &f))
		fail_msg("%s", f.what);
	return won;
}

static defib_err renew(struct store *s, int64_t id)
{
	struct failure f = {0};
	int64_t owned = -1;
	return registry_renew(s, id, NULL, 0, NULL, &owned, &f);
}

static void leave(struct store *s, int64_t id)
{
	struct failure f = {0};
	if (registry_leave(s, id, NULL, &f))
		fail_msg("%s", f.what);
}

/* Its lease ended a second ago. */
static void expire(const struct tables *t, int64_t id)
{
	char sql[240];
	snprintf(sql, sizeof sql,
	         t->engine == STORE_POSTGRES
	             ? "UPDATE defib.worker SET expires_at = clock_timestamp() - interval '1 second', "
	               "renewed_at = renewed_at - interval '1 minute' WHERE id = %lld"
	             : "UPDATE defib_worker SET expires_at = (julianday('now') - 2440587.5) * 86400000 "
	               "- 1000, renewed_at = renewed_at - 60000 WHERE id = %lld",
	         (long long)id);
	tables_script(t->store, sql);
}

static int listed(struct store *s, int64_t id, struct registered *out)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct registered *all;
	int n = 0, found = 0;
	if (registry_alive(s, &a, &all, &n, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++) {
		if (all[i].id != id)
			continue;
		found++;
		*out = all[i];
	}
	arena_release(&a);
	return found;
}

static int64_t stamp_of(struct store *s, int64_t id)
{
	struct registered row;
	assert_int_equal(listed(s, id, &row), 1);
	return row.stamp_us;
}

static void one_that_is_alive_is_listed_with_who_it_is(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation who = fresh();
	struct registered row;
	struct failure f = {0};
	int64_t id = 0;
	if (registry_register(t->store, "anna", &who, LEASE_MS, NULL, &id, &f))
		fail_msg("%s", f.what);
	assert_int_equal(listed(t->store, id, &row), 1);
	assert_string_equal(row.who.nonce, who.nonce);
	assert_true(incarnation_same_host(&row.who, &who));
	assert_false(row.expired);
}

static void a_lease_that_is_over_shows_until_it_is_renewed(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct registered row;
	expire(t, id);
	assert_int_equal(listed(t->store, id, &row), 1);
	assert_true(row.expired);
	assert_int_equal(renew(t->store, id), DEFIB_OK);
	assert_int_equal(listed(t->store, id, &row), 1);
	assert_false(row.expired);
}

/* After a failover that lost the last commits, the sequence assigns the id again. */
static void an_id_that_was_given_twice_is_its_last_owner_s(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation first = fresh(), second = fresh();
	struct failure f = {0};
	struct registered row;
	char sql[512], text[256];
	int64_t id = 0, owned;
	if (registry_register(t->store, "anna", &first, LEASE_MS, NULL, &id, &f))
		fail_msg("%s", f.what);
	assert_int_equal(registry_renew(t->store, id, &first, 0, NULL, &owned, &f), DEFIB_OK);
	incarnation_text(&second, text, sizeof text);
	snprintf(sql, sizeof sql, "UPDATE %sworker SET incarnation = '%s' WHERE id = %lld",
	         t->engine == STORE_POSTGRES ? "defib." : "defib_", text, (long long)id);
	tables_script(t->store, sql);
	int64_t stamp_us = stamp_of(t->store, id);
	assert_int_equal(registry_renew(t->store, id, &first, 0, NULL, &owned, &f), DEFIB_LEASE_LOST);
	assert_int_equal(stamp_of(t->store, id), stamp_us);
	assert_int_equal(registry_leave(t->store, id, &first, &f), DEFIB_OK);
	assert_int_equal(listed(t->store, id, &row), 1);
	assert_int_equal(registry_renew(t->store, id, &second, 0, NULL, &owned, &f), DEFIB_OK);
}

static void each_start_is_a_row_of_its_own(void **state)
{
	struct tables *t = tables_of(state);
	assert_true(enter(t->store) != enter(t->store));
}

static void a_registration_whose_answer_was_lost_can_be_repeated(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation who = fresh();
	struct failure f = {0};
	int64_t first = 0, second = 0;
	if (registry_register(t->store, "anna", &who, LEASE_MS, NULL, &first, &f) ||
	    registry_register(t->store, "anna", &who, LEASE_MS, NULL, &second, &f))
		fail_msg("%s", f.what);
	assert_int_equal(first, second);
	assert_true(dead(t->store, first, 0));
	assert_int_equal(registry_register(t->store, "anna", &who, LEASE_MS, NULL, &second, &f),
	                 DEFIB_LEASE_LOST);
}

static void one_that_was_declared_dead_never_comes_back(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct registered row;
	assert_true(dead(t->store, id, 0));
	assert_int_equal(renew(t->store, id), DEFIB_LEASE_LOST);
	assert_int_equal(listed(t->store, id, &row), 0);
	assert_false(dead(t->store, id, 0));
}

static void one_that_left_is_neither_alive_nor_dead(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct registered row;
	leave(t->store, id);
	assert_int_equal(listed(t->store, id, &row), 0);
	assert_int_equal(renew(t->store, id), DEFIB_LEASE_LOST);
	assert_false(dead(t->store, id, 0));
}

/* Its session disappeared twenty minutes ago; its old one may only have lingered until then. */
static void one_that_renewed_since_its_session_vanished_is_not_dead(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store), owned;
	struct death gone = {.cause = "session gone", .unheard_ms = 1200000};
	struct failure f = {0};
	bool won = true;
	assert_int_equal(registry_renew(t->store, id, NULL, 0, NULL, &owned, &f), DEFIB_OK);
	assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
	assert_false(won);
	assert_int_equal(renew(t->store, id), DEFIB_OK);
}

/* As if it had renewed this much earlier. */
static void heard_earlier(struct tables *t, int64_t id, int64_t ms)
{
	char sql[160];
	snprintf(sql, sizeof sql,
	         t->engine == STORE_POSTGRES ? "UPDATE defib.worker SET renewed_at = renewed_at - "
	                                       "%lld * interval '1 ms' WHERE id = %lld"
	                                     : "UPDATE defib_worker SET renewed_at = renewed_at - "
	                                       "%lld WHERE id = %lld",
	         (long long)ms, (long long)id);
	tables_script(t->store, sql);
}

/* By the database's clock, a moment ago. */
static int64_t clock_of(struct tables *t, int64_t id)
{
	struct registered row;
	assert_int_equal(listed(t->store, id, &row), 1);
	return row.now_us;
}

static void one_that_was_last_heard_before_its_session_vanished_is_dead(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct death gone = {.cause = "session gone", .unheard_ms = 2000};
	struct failure f = {0};
	bool won = false;
	heard_earlier(t, id, 3000);
	assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
	assert_true(won);
}

/*
 * Its session had been gone for two seconds when that was decided, a second ago; it has renewed
 * since. The deciding process was stopped meanwhile, or its statement was delayed.
 */
static void a_declaration_that_is_late_convicts_nobody_who_has_renewed_since(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct death gone = {.cause = "session gone", .unheard_ms = 2000};
	struct failure f = {0};
	bool won = true;
	gone.clock_us = clock_of(t, id) - INT64_C(1000000);
	int64_t gone_us = gone.clock_us - gone.unheard_ms * 1000;
	heard_earlier(t, id, (stamp_of(t->store, id) - gone_us) / 1000 - 500); /* half a second later */
	assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
	assert_false(won);
	heard_earlier(t, id, 1000);
	gone.clock_us = clock_of(t, id) - INT64_C(1000000);
	assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
	assert_true(won);
}

/* It renewed in time; only a clock that was set forward says that it was long ago. */
static void nobody_is_dead_by_a_clock_that_jumped(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	struct death gone = {.cause = "session gone", .unheard_ms = 2000};
	struct failure f = {0};
	bool won = true;
	expire(t, id);
	for (int64_t jump_us = -HOUR_US; jump_us <= HOUR_US; jump_us += 2 * HOUR_US) {
		gone.clock_us = clock_of(t, id) + jump_us;
		assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
		assert_false(won);
	}
	gone.clock_us = clock_of(t, id);
	assert_int_equal(registry_declare_dead(t->store, id, &gone, &won, &f), DEFIB_OK);
	assert_true(won);
}

/* Whatever the database's clock says: it may have jumped. */
static void silence_convicts_only_who_has_not_renewed_since_its_stamp_was_read(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store), stamp_us = stamp_of(t->store, id);
	expire(t, id);
	assert_int_equal(renew(t->store, id), DEFIB_OK);
	expire(t, id);
	assert_false(dead(t->store, id, stamp_us));
	assert_true(dead(t->store, id, stamp_of(t->store, id)));
}

/* Ids of registry_near() around one, in a text. */
static void assert_near(struct store *s, int64_t self, const char *wanted, int64_t first)
{
	struct arena a = ARENA_INIT;
	struct buf got = BUF_INIT;
	struct failure f = {0};
	struct registered *rows;
	int n = 0;
	if (registry_near(s, self, 2, &a, &rows, &n, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++)
		buf_addf(&got, "%lld ", (long long)(rows[i].id / WORKER_NONCES - first / WORKER_NONCES));
	assert_string_equal(buf_text(&got), wanted);
	buf_release(&got);
	arena_release(&a);
}

static void as_many_rows_are_read_however_many_workers_there_are(void **state)
{
	struct tables *t = tables_of(state);
	int64_t ids[20] = {enter(t->store)}, first = ids[0];
	assert_near(t->store, first, "0 ", first);
	for (int i = 1; i < 20; i++)
		ids[i] = enter(t->store);
	assert_near(t->store, ids[10], "0 1 8 9 10 11 12 18 19 ", first);
	assert_near(t->store, first, "0 1 2 18 19 ", first);
	assert_true(dead(t->store, ids[9], 0));
	assert_near(t->store, ids[10], "0 1 7 8 10 11 12 18 19 ", first);
}

static void a_registration_is_heard_of(void **state)
{
	struct tables *t = tables_of(state);
	struct store *life = tables_session(t);
	struct failure f = {0};
	if (registry_listen(life, &f))
		fail_msg("%s", f.what);
	assert_false(store_notified(life));
	(void)enter(t->store);
	struct pollfd readable = {store_fd(life), POLLIN, 0};
	assert_int_equal(poll(&readable, 1, TEST_HANGS_MS), 1);
	assert_true(store_notified(life));
	store_close(life);
}

static bool left_jobs(struct store *s)
{
	struct failure f = {0};
	bool any = false;
	if (registry_left_jobs(s, &any, &f))
		fail_msg("%s", f.what);
	return any;
}

static void jobs_of_those_who_are_not_alive_are_noticed(void **state)
{
	struct tables *t = tables_of(state);
	int64_t id = enter(t->store);
	char sql[200];
	assert_false(left_jobs(t->store));
	snprintf(sql, sizeof sql,
	         "INSERT INTO %s (queue, kind, state, owner%s) VALUES ('q', 'k', 'running', %lld%s)",
	         t->engine == STORE_POSTGRES ? "defib.job" : "defib_job",
	         t->engine == STORE_POSTGRES ? "" : ", created_at, run_at", (long long)id,
	         t->engine == STORE_POSTGRES ? "" : ", 1, 1");
	tables_script(t->store, sql);
	assert_false(left_jobs(t->store));
	leave(t->store, id);
	assert_true(left_jobs(t->store));
}

static void nobody_is_nobody(void **state)
{
	struct tables *t = tables_of(state);
	assert_false(dead(t->store, 4711, 0));
	assert_int_equal(renew(t->store, 4711), DEFIB_LEASE_LOST);
}

/* ---- races ---- */

#define JUDGES 4
#define WORKERS 25

struct judge {
	struct store *store;
	const int64_t *ids;
	pthread_barrier_t *start;
	int won[WORKERS];
	int errors;
};

static void *condemn_all(void *arg)
{
	struct judge *j = arg;
	struct failure f = {0};
	for (int i = 0; i < WORKERS; i++) {
		bool won = false;
		pthread_barrier_wait(j->start);
		j->errors += registry_declare_dead(j->store, j->ids[i], &(struct death){.cause = "race"},
		                                   &won, &f) != 0;
		j->won[i] = won;
	}
	return NULL;
}

static void of_those_who_declare_one_dead_at_once_one_wins(void **state)
{
	struct tables *t = tables_of(state);
	struct judge judges[JUDGES];
	pthread_t threads[JUDGES];
	pthread_barrier_t start;
	int64_t ids[WORKERS];
	for (int i = 0; i < WORKERS; i++)
		ids[i] = enter(t->store);
	pthread_barrier_init(&start, NULL, JUDGES);
	for (int k = 0; k < JUDGES; k++) {
		judges[k] = (struct judge){.store = tables_session(t), .ids = ids, .start = &start};
		assert_int_equal(pthread_create(&threads[k], NULL, condemn_all, &judges[k]), 0);
	}
	for (int k = 0; k < JUDGES; k++) {
		pthread_join(threads[k], NULL);
		assert_int_equal(judges[k].errors, 0);
		store_close(judges[k].store);
	}
	pthread_barrier_destroy(&start);
	for (int i = 0; i < WORKERS; i++) {
		int winners = 0;
		for (int k = 0; k < JUDGES; k++)
			winners += judges[k].won[i];
		assert_int_equal(winners, 1);
	}
}

struct breath {
	struct store *store;
	int64_t id;
	pthread_barrier_t *start;
	defib_err err;
};

static void *breathe(void *arg)
{
	struct breath *b = arg;
	pthread_barrier_wait(b->start);
	b->err = renew(b->store, b->id);
	return NULL;
}

static void a_renewal_and_a_verdict_of_silence_never_both_succeed(void **state)
{
	struct tables *t = tables_of(state);
	struct store *other = tables_session(t);
	pthread_barrier_t start;
	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < WORKERS; i++) {
		struct breath b = {.store = other, .id = enter(t->store), .start = &start};
		pthread_t thread;
		expire(t, b.id);
		int64_t stamp_us = stamp_of(t->store, b.id);
		assert_int_equal(pthread_create(&thread, NULL, breathe, &b), 0);
		pthread_barrier_wait(&start);
		bool won = dead(t->store, b.id, stamp_us);
		pthread_join(thread, NULL);
		assert_int_equal(b.err, won ? DEFIB_LEASE_LOST : DEFIB_OK);
	}
	pthread_barrier_destroy(&start);
	store_close(other);
}

/* ---- locks of sessions ---- */

static void a_session_s_lock_shows_until_the_session_ends(void **state)
{
	struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store *life = tables_session(t);
	int64_t *ids = NULL;
	bool held = false, leads = true;
	int n = 0;
	if (registry_hold_lock(life, 7, &held, &f) ||
	    registry_locks_held(t->store, &a, &ids, &n, &leads, &f))
		fail_msg("%s", f.what);
	assert_true(held);
	assert_int_equal(n, 1);
	assert_int_equal(ids[0], 7);
	store_close(life);
	/* The server frees it when it notices: wait for that by requesting the same lock. */
	tables_script(t->store, "SELECT pg_advisory_lock(1684366954, 7);"
	                        "SELECT pg_advisory_unlock(1684366954, 7)");
	if (registry_locks_held(t->store, &a, &ids, &n, &leads, &f))
		fail_msg("%s", f.what);
	assert_int_equal(n, 0);
	arena_release(&a);
}

static void a_worker_s_lock_is_held_while_one_of_its_sessions_is(void **state)
{
	struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store *life = tables_session(t), *turns = tables_session(t);
	int64_t *ids = NULL;
	bool held[2] = {false}, leads = true;
	int n = 0;
	if (registry_hold_lock(life, 7, &held[0], &f) || registry_hold_lock(turns, 7, &held[1], &f))
		fail_msg("%s", f.what);
	assert_true(held[0] && held[1]);
	store_close(life);
	if (registry_locks_held(t->store, &a, &ids, &n, &leads, &f))
		fail_msg("%s", f.what);
	assert_true(n > 0 && ids[0] == 7);
	store_close(turns);
	arena_release(&a);
}

/* Otherwise who let it go again would have a worker without a lock of its own declared dead. */
static void a_lock_of_a_role_that_registers_no_workers_does_not_count(void **state)
{
	struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	char url[640], sql[128], role[64];
	int64_t *ids = NULL;
	bool held = false, leads = true;
	int n = 0;
	snprintf(role, sizeof role, "stranger_%d", (int)getpid());
	snprintf(sql, sizeof sql, "CREATE ROLE %s LOGIN", role);
	tables_script(t->store, sql);
	snprintf(url, sizeof url, "%s%suser=%s", t->place.url, strchr(t->place.url, '?') ? "&" : "?",
	         role);
	struct store *stranger = open_with((struct store_options){.url = url});
	if (registry_hold_lock(stranger, 7, &held, &f) ||
	    registry_locks_held(t->store, &a, &ids, &n, &leads, &f))
		fail_msg("%s", f.what);
	store_close(stranger);
	snprintf(sql, sizeof sql, "DROP ROLE %s", role);
	tables_script(t->store, sql);
	assert_true(held);
	assert_int_equal(n, 0);
	arena_release(&a);
}

static void two_read_the_locks_and_no_third(void **state)
{
	struct tables *t = tables_of(state);
	struct arena a = ARENA_INIT;
	struct store *sessions[3];
	struct failure f = {0};
	bool leads[3] = {false};
	int64_t *ids;
	int n;
	for (int i = 0; i < 3; i++) {
		sessions[i] = tables_session(t);
		if (registry_locks_held(sessions[i], &a, &ids, &n, &leads[i], &f))
			fail_msg("%s", f.what);
		assert_int_equal(n, 0);
	}
	assert_true(leads[0] && leads[1] && !leads[2]);
	for (int i = 0; i < 3; i++)
		store_close(sessions[i]);
	arena_release(&a);
}

static void on_sqlite_every_lock_is_held(void **state)
{
	struct tables *t = tables_of(state);
	struct failure f = {0};
	bool held = false;
	if (registry_hold_lock(t->store, 1, &held, &f))
		fail_msg("%s", f.what);
	assert_true(held);
}

/* As in another database: the table is empty and its numbers begin at 1. */
static void begin_again(const struct tables *t)
{
	tables_script(t->store, t->engine == STORE_POSTGRES
	                            ? "TRUNCATE defib.worker RESTART IDENTITY"
	                            : "DELETE FROM defib_worker; DELETE FROM sqlite_sequence");
}

static void two_of_one_number_are_told_apart_by_their_nonces(void **state)
{
	struct tables *t = tables_of(state);
	int64_t before = enter(t->store);
	begin_again(t);
	int64_t now = enter(t->store);
	assert_int_equal(before / WORKER_NONCES, 1);
	assert_int_equal(now / WORKER_NONCES, 1);
	assert_int_not_equal(worker_nonce(before), worker_nonce(now));
	assert_int_equal(renew(t->store, before), DEFIB_LEASE_LOST);
	leave(t->store, before);
	assert_int_equal(renew(t->store, now), DEFIB_OK);
	assert_int_equal(enter(t->store) / WORKER_NONCES, 2);
}

#define BOTH(f) ON_POSTGRES(f), ON_SQLITE(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(one_that_is_alive_is_listed_with_who_it_is),
		BOTH(a_lease_that_is_over_shows_until_it_is_renewed),
		BOTH(an_id_that_was_given_twice_is_its_last_owner_s),
		BOTH(each_start_is_a_row_of_its_own),
		BOTH(two_of_one_number_are_told_apart_by_their_nonces),
		BOTH(a_registration_whose_answer_was_lost_can_be_repeated),
		BOTH(one_that_was_declared_dead_never_comes_back),
		BOTH(one_that_renewed_since_its_session_vanished_is_not_dead),
		BOTH(one_that_was_last_heard_before_its_session_vanished_is_dead),
		BOTH(a_declaration_that_is_late_convicts_nobody_who_has_renewed_since),
		BOTH(nobody_is_dead_by_a_clock_that_jumped),
		BOTH(one_that_left_is_neither_alive_nor_dead),
		BOTH(silence_convicts_only_who_has_not_renewed_since_its_stamp_was_read),
		BOTH(as_many_rows_are_read_however_many_workers_there_are),
		ON_POSTGRES(a_registration_is_heard_of),
		BOTH(jobs_of_those_who_are_not_alive_are_noticed),
		BOTH(nobody_is_nobody),
		BOTH(of_those_who_declare_one_dead_at_once_one_wins),
		BOTH(a_renewal_and_a_verdict_of_silence_never_both_succeed),
		ON_POSTGRES(a_session_s_lock_shows_until_the_session_ends),
		ON_POSTGRES(a_worker_s_lock_is_held_while_one_of_its_sessions_is),
		ON_POSTGRES(a_lock_of_a_role_that_registers_no_workers_does_not_count),
		ON_POSTGRES(two_read_the_locks_and_no_third),
		ON_SQLITE(on_sqlite_every_lock_is_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
