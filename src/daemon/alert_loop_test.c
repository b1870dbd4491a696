/* SPDX-License-Identifier: Apache-2.0 */
/* alert_loop_test.c: what the rules are given of the passes since their last evaluation. */
#include "daemon/alert_loop.h"

#include "base/test.h"
#include "daemon/watch_loop.h"

#define SECOND INT64_C(1000000)

static struct daemon_options options;
static struct live_settings setup;
static struct watch watch = {.name = (char *)"pages"};
static struct watch_loop pages;
static struct alert_loop loop;

static int fresh(void **state)
{
	(void)state;
	setup = (struct live_settings){.settings = {.watches = &watch, .nwatches = 1}};
	options = (struct daemon_options){.metrics = metrics_new()};
	pages = (struct watch_loop){.watch = &watch, .leads = true};
	loop = (struct alert_loop){.options = &options, .setup = &setup, .database = (char *)"main"};
	pthread_mutex_init(&loop.lock, NULL);
	/* The database as a whole comes first. */
	struct watch whole = {.name = (char *)ALERT_ANY};
	struct watch_loop first = {.watch = &whole};
	alert_loop_round(&loop, &(struct watch_loop *){&first}, 1, true);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < loop.nsubjects; i++) {
		free(loop.subjects[i]->watch);
		free(loop.subjects[i]);
	}
	free(loop.subjects);
	arena_release(&loop.arena);
	metrics_free(options.metrics);
	return 0;
}

/* A pass that found as many stuck, the oldest silent for as long. */
static void pass(int64_t stuck, int64_t oldest_s)
{
	pages.counts.passes++;
	pages.last = (struct scan_result){.found = stuck, .oldest_sign_us = oldest_s * SECOND};
	alert_loop_round(&loop, &(struct watch_loop *){&pages}, 1, true);
}

static const struct alert_facts *gathered(void)
{
	alert_loop_gather(&loop, SECOND);
	for (int i = 0; i < loop.nnow; i++)
		if (text_eq(loop.now[i]->watch, "pages"))
			return &loop.now[i]->counts.now;
	fail_msg("the loop has no subject for the watch");
	return NULL;
}

static void two_passes_before_an_evaluation_hide_nothing_of_the_first(void **state)
{
	(void)state;
	pass(3, 7200);
	pass(0, 0);
	const struct alert_facts *facts = gathered();
	assert_true(facts->stuck == 3);
	assert_true(facts->oldest_s == 7200);
}

static void what_was_evaluated_is_over(void **state)
{
	(void)state;
	pass(3, 7200);
	pass(1, 60);
	gathered();
	const struct alert_facts *facts = gathered();
	assert_true(facts->stuck == 1);
	assert_true(facts->oldest_s == 60);
}

static void what_could_not_be_recorded_is_evaluated_again(void **state)
{
	(void)state;
	pass(3, 7200);
	gathered();
	pass(0, 0);
	alert_loop_give_back(&loop);
	const struct alert_facts *facts = gathered();
	assert_true(facts->stuck == 3);
	assert_true(facts->oldest_s == 7200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_passes_before_an_evaluation_hide_nothing_of_the_first,
	                                    fresh, end),
		cmocka_unit_test_setup_teardown(what_was_evaluated_is_over, fresh, end),
		cmocka_unit_test_setup_teardown(what_could_not_be_recorded_is_evaluated_again, fresh, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
