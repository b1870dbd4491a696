/* SPDX-License-Identifier: Apache-2.0 */
/* leader_test.c: one of several daemons leads, and another takes over when its lease ends. */
#include "life/leader.h"

#include "watch/queue_test.h"

static const char *const both[] = {"pages", "jobs"};

static bool leads(struct store *s, const char *holder, const char *watch)
{
	struct failure f = {0};
	bool answer = true; /* what it was before does not count */
	if (leader_ask(s, holder, &watch, 1, &answer, &f))
		fail_msg("%s", f.what);
	return answer;
}

/* The leader's lease expired a second ago. */
static void expire(const struct tables *t)
{
	tables_script(t->store, t->engine == STORE_POSTGRES
	                            ? "UPDATE defib.leader SET expires_at = clock_timestamp() - "
	                              "interval '1 second'"
	                            : "UPDATE defib_leader SET expires_at = expires_at - 1000000");
}

static int64_t epoch(const struct tables *t)
{
	return number(t->store, t->engine == STORE_POSTGRES ? "SELECT max(epoch) FROM defib.leader"
	                                                    : "SELECT max(epoch) FROM defib_leader");
}

static void the_first_to_ask_leads(void **state)
{
	const struct tables *t = tables_of(state);
	assert_true(leads(t->store, "anna", "pages"));
	assert_false(leads(t->store, "bert", "pages"));
}

static void a_leader_goes_on_leading(void **state)
{
	const struct tables *t = tables_of(state);
	assert_true(leads(t->store, "anna", "pages"));
	assert_true(leads(t->store, "anna", "pages"));
	assert_int_equal(epoch(t), 1);
}

static void another_leads_when_the_lease_is_over(void **state)
{
	const struct tables *t = tables_of(state);
	assert_true(leads(t->store, "anna", "pages"));
	expire(t);
	assert_true(leads(t->store, "bert", "pages"));
	assert_false(leads(t->store, "anna", "pages"));
	assert_int_equal(epoch(t), 2);
}

static void each_watch_has_its_own_leader(void **state)
{
	const struct tables *t = tables_of(state);
	struct failure f = {0};
	bool answers[2];
	assert_true(leads(t->store, "anna", "pages"));
	assert_int_equal(leader_ask(t->store, "bert", both, 2, answers, &f), DEFIB_OK);
	assert_false(answers[0]);
	assert_true(answers[1]);
}

static void who_leaves_need_not_be_waited_for(void **state)
{
	const struct tables *t = tables_of(state);
	struct failure f = {0};
	assert_true(leads(t->store, "anna", "pages"));
	assert_int_equal(leader_leave(t->store, "anna", &f), DEFIB_OK);
	assert_true(leads(t->store, "bert", "pages"));
}

static void who_follows_cannot_send_the_leader_away(void **state)
{
	const struct tables *t = tables_of(state);
	struct failure f = {0};
	assert_true(leads(t->store, "anna", "pages"));
	assert_int_equal(leader_leave(t->store, "bert", &f), DEFIB_OK);
	assert_true(leads(t->store, "anna", "pages"));
	assert_false(leads(t->store, "bert", "pages"));
}

static void anybody_can_read_who_leads(void **state)
{
	const struct tables *t = tables_of(state);
	struct leader_row *rows = NULL;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	int n = 0;
	assert_true(leads(t->store, "anna", "pages"));
	assert_int_equal(leader_read(t->store, &a, &rows, &n, &f), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].watch, "pages");
	assert_string_equal(rows[0].holder, "anna");
	assert_true(rows[0].leads);
	assert_true(rows[0].led_us >= 0 && rows[0].led_us < TEST_HANGS_MS * 1000LL &&
	            rows[0].since_us > 0);
	arena_release(&a);
}

static int64_t renewed(const struct tables *t, const char *holder, const char *watch)
{
	struct failure f = {0};
	int64_t held = -1;
	if (leader_renew(t->store, holder, watch, &held, &f))
		fail_msg("%s", f.what);
	return held;
}

static void one_row_renews_all_that_a_daemon_leads(void **state)
{
	const struct tables *t = tables_of(state);
	struct leader_row *rows = NULL;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	int n = 0;
	assert_true(leads(t->store, "anna", "pages") && leads(t->store, "anna", "jobs"));
	tables_script(t->store, "UPDATE defib.leader SET expires_at = clock_timestamp() - interval '1 "
	                        "second' WHERE watch = 'jobs'");
	assert_int_equal(renewed(t, "anna", "pages"), 2);
	assert_false(leads(t->store, "bert", "jobs"));
	assert_int_equal(leader_read(t->store, &a, &rows, &n, &f), DEFIB_OK);
	assert_true(n == 2 && rows[0].leads && rows[1].leads);
	assert_true(rows[0].expires_us == rows[1].expires_us);
	arena_release(&a);
}

static void a_lease_that_is_over_is_not_renewed(void **state)
{
	const struct tables *t = tables_of(state);
	assert_true(leads(t->store, "anna", "pages") && leads(t->store, "anna", "jobs"));
	expire(t);
	assert_int_equal(renewed(t, "anna", "pages"), 0);
	assert_true(leads(t->store, "bert", "jobs"));
	/* A daemon that asks again gets what no other has taken. */
	assert_true(leads(t->store, "anna", "pages"));
	assert_false(leads(t->store, "anna", "jobs"));
	assert_int_equal(renewed(t, "anna", "pages"), 1);
	assert_int_equal(renewed(t, "anna", "jobs"), 0);
}

#define BOTH(f) ON_POSTGRES(f), ON_SQLITE(f)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(the_first_to_ask_leads),
		BOTH(a_leader_goes_on_leading),
		BOTH(another_leads_when_the_lease_is_over),
		BOTH(each_watch_has_its_own_leader),
		BOTH(who_leaves_need_not_be_waited_for),
		BOTH(who_follows_cannot_send_the_leader_away),
		BOTH(anybody_can_read_who_leads),
		ON_POSTGRES(one_row_renews_all_that_a_daemon_leads),
		ON_POSTGRES(a_lease_that_is_over_is_not_renewed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
