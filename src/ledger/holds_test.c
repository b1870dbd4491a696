/* SPDX-License-Identifier: Apache-2.0 */
/* holds_test.c: holds are created, found with their job, listed and deleted. */
#include "ledger/ledger_test.h"

static void a_hold_remembers_owner_and_sign(enum store_engine engine)
{
	static const char *const jobs[] = {"2", "1", "3"};
	struct hold holds[] = {{.job = "1",
	                        .cause = "poison",
	                        .reason = "again and again",
	                        .owner = "w-1",
	                        .has_sign = true,
	                        .sign_us = 1767323045000001},
	                       {.job = "2", .cause = "rule"}};
	struct history h[3];
	struct place p;
	open_place(&p, engine);
	hold(&p, holds, 2);
	history(&p, jobs, 3, DAY, h);
	assert_true(h[0].held && !h[0].hold_owner && !h[0].hold_has_sign);
	assert_true(h[1].held && h[1].hold_has_sign);
	assert_string_equal(h[1].hold_owner, "w-1");
	assert_string_equal(h[1].hold_cause, "poison");
	assert_string_equal(h[1].hold_reason, "again and again");
	assert_int_equal(h[1].hold_sign_us, 1767323045000001);
	assert_false(h[2].held);
	close_place(&p);
}

static void a_second_hold_replaces_the_first(enum store_engine engine)
{
	static const char *const jobs[] = {"1"};
	struct history h;
	struct place p;
	open_place(&p, engine);
	hold(&p, &(struct hold){.job = "1", .cause = "rule", .owner = "w-1"}, 1);
	hold(&p, &(struct hold){.job = "1", .cause = "poison", .owner = "w-2"}, 1);
	history(&p, jobs, 1, DAY, &h);
	assert_string_equal(h.hold_owner, "w-2");
	close_place(&p);
}

static int listed(struct place *p, const char *watch, const char *job, struct held_job **out)
{
	struct failure f = {0};
	int n = 0;
	if (ledger_holds_list(p->store, watch, job, 10, &p->arena, out, &n, &f))
		fail_msg("%s", f.what);
	return n;
}

static void holds_are_listed_by_watch_and_job(enum store_engine engine)
{
	struct hold holds[] = {{.job = "1",
	                        .cause = "poison",
	                        .reason = "why",
	                        .owner = "w",
	                        .has_sign = true,
	                        .sign_us = 7},
	                       {.job = "2", .cause = "rule"}};
	struct held_job *all;
	struct place p;
	open_place(&p, engine);
	hold(&p, holds, 2);
	assert_int_equal(listed(&p, NULL, NULL, &all), 2);
	assert_int_equal(listed(&p, "other", NULL, &all), 0);
	assert_int_equal(listed(&p, "pages", "2", &all), 1);
	assert_true(!all->has_sign && !all->reason && !all->owner);
	assert_int_equal(listed(&p, NULL, "1", &all), 1);
	assert_string_equal(all->watch, "pages");
	assert_string_equal(all->cause, "poison");
	assert_string_equal(all->reason, "why");
	assert_string_equal(all->owner, "w");
	assert_string_equal(all->batch, "batch-1");
	assert_true(all->has_sign && all->sign_us == 7 && strchr(all->at, 'Z'));
	close_place(&p);
}

/* One row at most, after this job; returns how many. */
static int page(struct place *p, enum hold_rows which, const char *watch, const char *after,
                struct held_job **all)
{
	struct failure f = {0};
	int n = 0;
	assert_int_equal(
		ledger_holds_page(p->store, which, watch, HELD_TABLE, after, 1, &p->arena, all, &n, &f),
		DEFIB_OK);
	return n;
}

static void holds_behind_a_page_come_next(enum store_engine engine)
{
	struct hold holds[] = {{.job = "2", .cause = "rule"}, {.job = "10", .cause = "poison"}};
	struct held_job *all;
	struct place p;
	open_place(&p, engine);
	hold(&p, holds, 2);
	assert_int_equal(page(&p, HOLDS_OWN, "pages", NULL, &all), 1);
	assert_true(strcmp(all->job, "10") == 0 && strcmp(all->cause, "poison") == 0);
	assert_int_equal(page(&p, HOLDS_OWN, "pages", "10", &all), 1);
	assert_string_equal(all->job, "2");
	assert_int_equal(page(&p, HOLDS_OWN, "pages", "2", &all), 0);
	assert_int_equal(page(&p, HOLDS_OWN, "other", NULL, &all), 0);
	/* For the other watches of the table. */
	assert_int_equal(page(&p, HOLDS_OF_OTHERS, "other", "10", &all), 1);
	assert_true(strcmp(all->job, "2") == 0 && strcmp(all->watch, "pages") == 0);
	assert_int_equal(page(&p, HOLDS_OF_OTHERS, "pages", NULL, &all), 0);
	close_place(&p);
}

/* In one table with the holds, and never taken for one. */
static void an_excuse_is_no_hold(enum store_engine engine)
{
	static const char *const job = "1";
	struct hold made = {.job = "1",
	                    .cause = HOLD_EXCUSE,
	                    .owner = "w-1",
	                    .excuse = {.verdict = "silent",
	                               .sign = "alive",
	                               .state = "s",
	                               .progress = "p",
	                               .has_attempts = true,
	                               .attempts = 3,
	                               .actor = "cli:ana"}};
	struct hold held = {.job = "1", .cause = "rule"};
	struct held_job *all;
	struct history known;
	struct place p;
	open_place(&p, engine);
	hold(&p, &made, 1);
	assert_int_equal(page(&p, HOLDS_OWN, "pages", NULL, &all), 0);
	assert_int_equal(page(&p, HOLDS_OF_OTHERS, "other", NULL, &all), 0);
	assert_int_equal(page(&p, HOLDS_EXCUSES, "other", NULL, &all), 1);
	assert_string_equal(all->excuse.verdict, "silent");
	assert_true(all->excuse.has_attempts && all->excuse.attempts == 3);
	history(&p, &job, 1, 0, &known);
	assert_string_equal(known.excuse.sign, "alive");
	assert_string_equal(known.excuse.state, "s");
	assert_string_equal(known.excuse.progress, "p");
	assert_string_equal(known.excuse.actor, "cli:ana");
	assert_true(known.excuse.has_attempts && known.excuse.attempts == 3);
	/* A hold that takes its place is no excuse. */
	hold(&p, &held, 1);
	assert_int_equal(page(&p, HOLDS_EXCUSES, "pages", NULL, &all), 0);
	assert_int_equal(page(&p, HOLDS_OWN, "pages", NULL, &all), 1);
	assert_true(!all->excuse.verdict && !all->excuse.has_attempts && !all->excuse.actor);
	close_place(&p);
}

static void dropped_holds_are_gone_and_others_stay(enum store_engine engine)
{
	static const char *const jobs[] = {"1", "9"};
	struct hold holds[] = {{.job = "1", .cause = "rule"}, {.job = "2", .cause = "rule"}};
	struct held_job *all;
	struct failure f = {0};
	struct place p;
	open_place(&p, engine);
	hold(&p, holds, 2);
	assert_int_equal(ledger_holds_drop(p.store, "other", jobs, 2, &p.arena, &f), DEFIB_OK);
	assert_int_equal(listed(&p, NULL, NULL, &all), 2);
	assert_int_equal(ledger_holds_drop(p.store, HELD_TABLE, jobs, 2, &p.arena, &f), DEFIB_OK);
	assert_int_equal(ledger_holds_drop(p.store, HELD_TABLE, NULL, 0, &p.arena, &f), DEFIB_OK);
	assert_int_equal(listed(&p, NULL, NULL, &all), 1);
	assert_string_equal(all->job, "2");
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(a_hold_remembers_owner_and_sign)                                                             \
	X(a_second_hold_replaces_the_first)                                                            \
	X(holds_are_listed_by_watch_and_job)                                                           \
	X(holds_behind_a_page_come_next)                                                               \
	X(an_excuse_is_no_hold)                                                                        \
	X(dropped_holds_are_gone_and_others_stay)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
