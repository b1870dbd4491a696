/* SPDX-License-Identifier: Apache-2.0
 * instances_test.c: which workers count as alive for one that starts.
 */
#include "life/instances.h"

#include "life/process.h"
#include "watch/queue_test.h"

#include <sys/wait.h>

#define LEASE_MS 3600000

static int64_t enter(const struct tables *t, const struct incarnation *who, const char *serves)
{
	struct failure f = {0};
	int64_t id = 0;
	if (registry_register(t->store, "anna", who, LEASE_MS, serves, &id, &f))
		fail_msg("%s", f.what);
	return id;
}

static struct incarnation here(void)
{
	struct incarnation who;
	struct failure f = {0};
	if (incarnation_self(&who, &f))
		fail_msg("%s", f.what);
	return who;
}

static struct incarnation elsewhere(void)
{
	struct incarnation who = here();
	who.pid_ns++;
	return who;
}

/* A process of this host that has ended. */
static struct incarnation gone(void)
{
	struct incarnation who = here();
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	assert_true(child > 0);
	who.start = process_start(child);
	who.pid = child;
	assert_int_equal(waitpid(child, NULL, 0), child);
	return who;
}

static void expire(const struct tables *t)
{
	tables_script(t->store, t->engine == STORE_POSTGRES
	                            ? "UPDATE defib.worker SET expires_at = now() - interval '1 hour', "
	                              "lease_ms = -1000000000"
	                            : "UPDATE defib_worker SET expires_at = 0");
}

static struct instances of(const struct tables *t, const char *watch, int64_t self)
{
	struct failure f = {0};
	struct instances out;
	if (instances_of(t->store, watch, self, &out, &f))
		fail_msg("%s", f.what);
	return out;
}

static void a_name_is_a_whole_line(void **state)
{
	(void)state;
	assert_true(serves_watch("jobs", "jobs"));
	assert_true(serves_watch("mails\njobs", "jobs"));
	assert_true(serves_watch("jobs\nmails", "jobs"));
	assert_false(serves_watch("jobs2\nmy jobs", "jobs"));
	assert_false(serves_watch("", "jobs"));
	assert_true(serves_watch(NULL, "jobs"));
}

static void nobody_lives_and_nobody_ever_did(void **state)
{
	struct tables *t = tables_of(state);
	assert_int_equal(of(t, "jobs", 0).live, 0);
	assert_false(of(t, "jobs", 0).ever);
}

static void whoever_serves_the_watch_and_renews_lives(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = elsewhere(), two = elsewhere();
	enter(t, &one, "jobs");
	enter(t, &two, "mails");
	assert_int_equal(of(t, "jobs", 0).live, 1);
	assert_true(of(t, "jobs", 0).ever);
	assert_int_equal(of(t, "other", 0).live, 0);
	assert_false(of(t, "other", 0).ever);
}

static void one_that_says_nothing_counts_for_every_watch(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = elsewhere();
	enter(t, &one, NULL);
	assert_int_equal(of(t, "jobs", 0).live, 1);
	assert_false(of(t, "jobs", 0).ever);
}

static void neither_oneself_counts_nor_who_came_later(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = elsewhere(), self = here(), two = elsewhere();
	enter(t, &one, "jobs");
	int64_t id = enter(t, &self, "jobs");
	enter(t, &two, "jobs");
	assert_int_equal(of(t, "jobs", id).live, 1);
	assert_int_equal(of(t, "jobs", 0).live, 3);
}

static void a_lease_that_is_over_is_no_life_on_another_host(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = elsewhere();
	enter(t, &one, "jobs");
	expire(t);
	assert_int_equal(of(t, "jobs", 0).live, 0);
	assert_int_equal(of(t, "jobs", 0).silent, 1);
	assert_true(of(t, "jobs", 0).ever);
}

/* The database's clock was set forward: only by that clock is its lease over. */
static void one_whose_session_is_open_lives_whatever_its_lease_says(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = elsewhere();
	struct failure f = {0};
	bool held = false;
	int64_t id = enter(t, &one, "jobs");
	expire(t);
	assert_int_equal(registry_hold_lock(t->store, id, &held, &f), DEFIB_OK);
	assert_true(held);
	assert_int_equal(of(t, "jobs", 0).live, 1);
	assert_int_equal(of(t, "jobs", 0).silent, 0);
}

static void a_process_of_this_host_lives_whatever_its_lease_says(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = here();
	enter(t, &one, "jobs");
	expire(t);
	assert_int_equal(of(t, "jobs", 0).live, 1);
}

/* Another process may have its pid by now. */
static void a_process_that_cannot_be_told_is_judged_by_its_lease(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = here();
	one.start = 0;
	enter(t, &one, "jobs");
	assert_int_equal(of(t, "jobs", 0).live, 1);
	expire(t);
	assert_int_equal(of(t, "jobs", 0).live, 0);
	assert_int_equal(of(t, "jobs", 0).silent, 1);
}

static void a_process_of_this_host_that_is_gone_is_declared_dead(void **state)
{
	struct tables *t = tables_of(state);
	struct incarnation one = gone();
	enter(t, &one, "jobs");
	assert_int_equal(of(t, "jobs", 0).live, 0);
	assert_int_equal(number(t->store, t->engine == STORE_POSTGRES
	                                      ? "SELECT count(*) FROM defib.worker WHERE state = 'dead'"
	                                      : "SELECT count(*) FROM defib_worker WHERE state = "
	                                        "'dead'"),
	                 1);
}

static void without_a_registry_nobody_is_known(void **state)
{
	struct tables *t = tables_of(state);
	tables_script(t->store, t->engine == STORE_POSTGRES ? "DROP TABLE defib.worker CASCADE"
	                                                    : "DROP TABLE defib_worker");
	assert_int_equal(of(t, "jobs", 0).live, 0);
	assert_false(of(t, "jobs", 0).ever);
}

#define BOTH(f) ON_POSTGRES(f), ON_SQLITE(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_a_whole_line),
		BOTH(nobody_lives_and_nobody_ever_did),
		BOTH(whoever_serves_the_watch_and_renews_lives),
		BOTH(one_that_says_nothing_counts_for_every_watch),
		BOTH(neither_oneself_counts_nor_who_came_later),
		BOTH(a_lease_that_is_over_is_no_life_on_another_host),
		ON_POSTGRES(one_whose_session_is_open_lives_whatever_its_lease_says),
		BOTH(a_process_of_this_host_lives_whatever_its_lease_says),
		BOTH(a_process_that_cannot_be_told_is_judged_by_its_lease),
		BOTH(a_process_of_this_host_that_is_gone_is_declared_dead),
		BOTH(without_a_registry_nobody_is_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
