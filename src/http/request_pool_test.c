/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_pool_test.c: which calls run, which are refused, and that none waits for an unavailable
 * database.
 */
#include "http/request_pool.h"

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"

#include <stdatomic.h>
#include <unistd.h>

#define CALLS (REQUEST_THREADS + REQUEST_QUEUE + 1)

static char path[] = "/tmp/defib-pool-XXXXXX.db";
static char url[64];
static struct database databases[2] = {
	{.name = "main", .engine = STORE_SQLITE},
	{.name = "gone", .url = "sqlite:/nowhere/gone.db", .engine = STORE_SQLITE},
};
static struct watch watches[1];
static struct service http;

static struct live_settings_box box;
static struct api api;
static struct request_pools *pools;

/* A gate at which calls wait, so that a test knows which threads are busy. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
static bool shut;
static int inside;

struct test_call {
	struct api_call call;
	struct api_answer answer;
	struct pooled_request turn;
	atomic_bool done;
	bool ran;
};
static struct test_call calls[CALLS];

static struct live_settings *make_setup(int ndatabases)
{
	struct live_settings *s = live_settings_new();
	s->settings = (struct settings){
		.ndatabases = ndatabases, .databases = databases, .nwatches = 1, .watches = watches};
	s->settings.sections[SECTION_HTTP] = &http;
	return s;
}

static int before(void **state)
{
	int fd = mkstemps(path, 3);
	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(url, sizeof url, "sqlite:%s", path);
	databases[0].url = url;
	live_settings_box_init(&box, make_setup(2));
	api = (struct api){.setups = &box, .overview = overview_new()};
	pools = request_pools_new(&api, TEST_HANGS_MS);
	shut = false;
	inside = 0;
	memset(calls, 0, sizeof calls);
	return 0;
}

static void set_gate(bool to)
{
	pthread_mutex_lock(&gate_lock);
	shut = to;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&gate_lock);
}

static int after(void **state)
{
	(void)state;
	set_gate(false); /* a test that failed left it shut */
	request_pools_close(pools);
	request_pools_free(pools);
	for (int i = 0; i < CALLS; i++) {
		if (calls[i].call.setup)
			live_settings_drop(&box, calls[i].call.setup);
		arena_release(&calls[i].call.arena);
		api_answer_release(&calls[i].answer);
	}
	overview_free(api.overview);
	live_settings_box_release(&box);
	unlink(path);
	memcpy(strrchr(path, '-') + 1, "XXXXXX", 6);
	return 0;
}

static void pass_gate(struct api_call *c)
{
	calls[(struct test_call *)c->http - calls].ran = true;
	pthread_mutex_lock(&gate_lock);
	inside++;
	pthread_cond_broadcast(&gate);
	while (shut)
		pthread_cond_wait(&gate, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
}

static void wait_inside(int n)
{
	pthread_mutex_lock(&gate_lock);
	while (inside < n)
		pthread_cond_wait(&gate, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
}

static void on_done(void *ctx)
{
	atomic_store((atomic_bool *)ctx, true);
}

static void put(int i, const struct api_route *route, const struct database *d)
{
	struct test_call *t = &calls[i];
	api_answer_clear(&t->answer);
	if (t->call.setup)
		live_settings_drop(&box, t->call.setup);
	atomic_store(&t->done, false);
	t->call = (struct api_call){.api = &api,
	                            .route = route,
	                            .setup = live_settings_hold(&box),
	                            .arena = t->call.arena,
	                            .database = d,
	                            .watch = &watches[0],
	                            .body = json_null(),
	                            .out = &t->answer,
	                            .http = t};
	t->turn = (struct pooled_request){.call = &t->call, .done = on_done, .ctx = &t->done};
	request_pools_put(pools, &t->turn);
}

static void wait_done(int i)
{
	while (!atomic_load(&calls[i].done))
		usleep(1000);
}

static int status_of(int i, const struct api_route *route, const struct database *d)
{
	put(i, route, d);
	wait_done(i);
	return calls[i].answer.status;
}

static const struct api_route passes = {.where = API_DATABASE, .run = pass_gate};

/* ---- tests ---- */

static void a_call_is_done_with_a_session(void **state)
{
	(void)state;
	assert_int_equal(status_of(0, &passes, &databases[0]), 200);
	assert_true(calls[0].ran);
	assert_non_null(calls[0].call.session);
}

static void a_full_line_refuses_at_once(void **state)
{
	(void)state;
	set_gate(true);
	for (int i = 0; i < REQUEST_THREADS; i++)
		put(i, &passes, &databases[0]);
	wait_inside(REQUEST_THREADS);
	for (int i = REQUEST_THREADS; i < CALLS - 1; i++)
		put(i, &passes, &databases[0]);
	put(CALLS - 1, &passes, &databases[0]);
	assert_true(calls[CALLS - 1].done);
	assert_int_equal(calls[CALLS - 1].answer.status, 503);
	set_gate(false);
	for (int i = 0; i < CALLS - 1; i++) {
		wait_done(i);
		assert_int_equal(calls[i].answer.status, 200);
	}
}

static void who_waited_too_long_is_refused_and_not_run(void **state)
{
	(void)state;
	set_gate(true);
	for (int i = 0; i < REQUEST_THREADS; i++)
		put(i, &passes, &databases[0]);
	wait_inside(REQUEST_THREADS);
	put(REQUEST_THREADS, &passes, &databases[0]);
	request_pools_tick(pools);
	assert_false(calls[REQUEST_THREADS].done);
	calls[REQUEST_THREADS].turn.deadline_ms = 0;
	request_pools_tick(pools);
	assert_true(calls[REQUEST_THREADS].done);
	assert_int_equal(calls[REQUEST_THREADS].answer.status, 503);
	assert_false(calls[REQUEST_THREADS].ran);
	set_gate(false);
}

static void a_database_that_is_away_is_tried_once_a_second(void **state)
{
	int64_t begin = clock_boot_ms();
	(void)state;
	assert_int_equal(status_of(0, &passes, &databases[1]), 503);
	assert_null(strstr(buf_text(&calls[0].answer.body), "it is unavailable"));
	put(1, &passes, &databases[1]);
	if (clock_boot_ms() - begin < REQUEST_RETRY_MS) {
		assert_true(calls[1].done);
		assert_non_null(strstr(buf_text(&calls[1].answer.body), "it is unavailable"));
	}
	wait_done(1);
	assert_false(calls[0].ran || calls[1].ran);
	assert_int_equal(status_of(2, &passes, &databases[0]), 200);
}

static void what_the_board_says_is_down_is_tried_all_the_same(void **state)
{
	struct overview_database down = {"main", true, false, "away", 0, 0};
	(void)state;
	overview_put_database(api.overview, &down);
	assert_int_equal(status_of(0, &passes, &databases[0]), 200);
	assert_int_equal(status_of(1, &passes, &databases[0]), 200);
}

static void *open_gate(void *arg)
{
	while (!atomic_load(&calls[REQUEST_THREADS].done)) /* the close has begun */
		usleep(1000);
	set_gate(false);
	return arg;
}

static void a_close_answers_who_waits(void **state)
{
	pthread_t opener;
	(void)state;
	set_gate(true);
	for (int i = 0; i <= REQUEST_THREADS; i++)
		put(i, &passes, &databases[0]);
	wait_inside(REQUEST_THREADS);
	assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
	request_pools_close(pools);
	pthread_join(opener, NULL);
	for (int i = 0; i <= REQUEST_THREADS; i++)
		assert_true(calls[i].done);
	assert_int_equal(calls[0].answer.status, 200);
	assert_int_equal(calls[REQUEST_THREADS].answer.status, 503);
	assert_int_equal(status_of(0, &passes, &databases[0]), 503);
}

static void a_reload_closes_pools_of_databases_that_are_gone(void **state)
{
	(void)state;
	assert_int_equal(status_of(0, &passes, &databases[0]), 200);
	databases[0].url = "sqlite:/nowhere/moved.db";
	live_settings_box_put(&box, make_setup(1));
	assert_int_equal(status_of(1, &passes, &databases[0]), 503);
	databases[0].url = url;
	live_settings_box_put(&box, make_setup(1));
	request_pools_tick(pools);
	assert_int_equal(status_of(2, &passes, &databases[0]), 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_done_with_a_session),
		TEST(a_full_line_refuses_at_once),
		TEST(who_waited_too_long_is_refused_and_not_run),
		TEST(a_database_that_is_away_is_tried_once_a_second),
		TEST(what_the_board_says_is_down_is_tried_all_the_same),
		TEST(a_close_answers_who_waits),
		TEST(a_reload_closes_pools_of_databases_that_are_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
