/* SPDX-License-Identifier: Apache-2.0
 * source_table_steps_test.c: workflows on a user's own table: one step per claim, recorded with the
 * settlement; rows that are undone under a lease alone; and the user's statements that run while a
 * job is in hand, and at its end.
 */
#include "worker/source_table.h"
#include "worker/tables_test.h"
#include "worker/workflow.h"

#define STEPS "PG(defib.step|defib_step)"
#define ATTEMPTS "PG(defib.step_attempt|defib_step_attempt)"

/* ---- a table of orders ---- */

static const char orders_yaml[] =
	"databases: [{name: main, url: 'sqlite:jobs.db'}]\n"
	"workflows:\n"
	"  - name: order\n"
	"    steps:\n"
	"      - {name: reserve, run: [a], undo: [b]}\n"
	"      - {name: charge, run: [a], undo: [b]}\n"
	"      - {name: ship, run: [a]}\n"
	"  - {name: parcel, steps: [{name: weigh, run: [a]}]}\n"
	"watches:\n"
	"  - name: orders\n"
	"    table: orders\n"
	"    key: id\n"
	"    kind: kind\n"
	"    running: status = 'running'\n"
	"    alive_at: updated_at\n"
	"    beat: 30s\n"
	"    stuck_after: 10m\n"
	"    requeue: status = 'new'\n"
	"    max_attempts: 2\n"
	"    backoff: {base: 60s}\n"
	"    work:\n"
	"      workflow: order\n"
	"      ready: status = 'new'\n"
	"      order: id\n"
	"      claim: status = 'running', step = :step\n"
	"      step: status = 'new', said = :result.id, ended = :step\n"
	"      done: status = 'done', said = :result.id, ended = :step\n"
	"      failed: status = 'failed', error = :error\n"
	"      release: status = 'new'\n"
	"      rollback_ready: status = 'failed' AND saga = 1\n"
	"      rolled_back: status = 'undone', error = :error\n"
	"      beat: [\"INSERT INTO beats SELECT id, worker, epoch, attempt, step, now FROM work\"]\n"
	"      after: [\"INSERT INTO ends SELECT id, step FROM work\"]\n";

static void open_orders(struct bench *b)
{
	static const char *const sql[] = {
		"CREATE TABLE orders (id PG(bigint|INTEGER) PRIMARY KEY, kind TEXT, status TEXT, step "
		"TEXT, "
		"ended TEXT, said TEXT, error TEXT, saga INTEGER, updated_at " TIME ")",
		"CREATE TABLE beats (id PG(bigint|INTEGER), worker TEXT, epoch INTEGER, attempt INTEGER, "
		"step TEXT, at " TIME ")",
		"CREATE TABLE ends (id PG(bigint|INTEGER), step TEXT)",
		"INSERT INTO orders VALUES (1, NULL, 'new', NULL, NULL, NULL, NULL, 1, NULL)", NULL};
	run_all(b, sql);
	read_yaml(orders_yaml);
	open_source(b, "orders", NULL);
}

/* What a worker would do with a claim, and how it ended. */
static bool end_step(struct bench *b, int64_t worker, const struct claimed *c, enum settle_as as,
                     const char *result, const char *error)
{
	struct failure f = {0};
	struct step_records recorded;
	assert_non_null(c->workflow);
	const struct workflow *w = workflow_named(&reading.settings.workflows, c->workflow);
	assert_true(step_records_parse(c->steps, &b->arena, &recorded));
	struct step_choice choice = workflow_choose(w, &recorded, c->undoing, &b->arena);
	struct settlement s = {.key = c->key,
	                       .epoch = c->epoch,
	                       .as = as,
	                       .result = result,
	                       .error = error,
	                       .delay_ms = -1,
	                       .step = choice.end};
	if (b->source->ops->settle(b->source, b->two, worker, &s, 1, &b->arena, &f))
		fail_msg("%s", f.what);
	return s.accepted;
}

static struct claimed run_one(struct bench *b, int64_t worker, const char *result)
{
	struct claimed c = bench_one(b, worker);
	assert_true(end_step(b, worker, &c, SETTLE_DONE, result, NULL));
	return c;
}

static void is(struct bench *b, const char *condition)
{
	char sql[512];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE %s", condition);
	if (bench_number(b, sql) != 1)
		fail_msg("not so: %s", condition);
}

static void recorded(struct bench *b, const char *step, const char *state)
{
	char sql[512];
	snprintf(sql, sizeof sql,
	         "SELECT count(*) FROM " STEPS " WHERE watch = 'orders' AND job = '1' AND step = '%s' "
	         "AND state = '%s'",
	         step, state);
	if (bench_number(b, sql) != 1)
		fail_msg("%s is not %s", step, state);
}

static void no_wait(struct bench *b)
{
	bench_sql(b, "UPDATE " LEASES " SET run_at = NULL");
}

/* An order whose first two steps are done and whose last one failed permanently. */
static int64_t open_failed(struct bench *b)
{
	open_orders(b);
	int64_t w = bench_worker(b);
	run_one(b, w, "{\"id\":\"r1\"}");
	run_one(b, w, "{\"id\":\"c1\"}");
	struct claimed c = bench_one(b, w);
	assert_true(end_step(b, w, &c, SETTLE_PERMANENT, NULL, "no such address"));
	is(b, "status = 'failed' AND error = 'no such address'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = "
	                                 "'ROLLBACK_STARTED' AND job = '1' AND reason = 'no such "
	                                 "address'"),
	                 1);
	return w;
}

/* ---- running ---- */

static void each_claim_runs_the_next_step_in_the_users_words(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_orders(b);
	int64_t w = bench_worker(b);
	struct claimed c = bench_one(b, w);
	assert_null(c.steps);
	is(b, "status = 'running' AND step = 'reserve'");
	assert_true(end_step(b, w, &c, SETTLE_DONE, "{\"id\":\"r1\"}", NULL));
	is(b, "status = 'new' AND said = 'r1' AND ended = 'reserve'");
	recorded(b, "reserve", "done");
	c = run_one(b, w, "{\"id\":\"c1\"}");
	assert_non_null(strstr(c.steps, "r1"));
	assert_int_equal(c.attempt, 1);
	run_one(b, w, "{\"id\":\"s1\"}");
	is(b, "status = 'done' AND said = 's1' AND ended = 'ship'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS " WHERE state = 'done'"), 3);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

static void kind_that_is_a_workflow_goes_before_the_one_of_the_watch(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	bench_sql(b, "UPDATE orders SET kind = 'parcel'");
	int64_t w = bench_worker(b);
	assert_string_equal(run_one(b, w, NULL).workflow, "parcel");
	is(b, "status = 'done' AND ended = 'weigh'");
}

static void failed_step_is_tried_again_and_then_fails_the_row(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_orders(b);
	bench_sql(b, "UPDATE orders SET saga = 0");
	int64_t w = bench_worker(b);
	run_one(b, w, NULL);
	struct claimed c = bench_one(b, w);
	assert_true(end_step(b, w, &c, SETTLE_FAILED, NULL, "busy"));
	is(b, "status = 'new' AND step = 'charge'");
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0); /* it waits for its backoff */
	no_wait(b);
	c = bench_one(b, w);
	assert_int_equal(c.attempt, 2);
	assert_true(end_step(b, w, &c, SETTLE_FAILED, NULL, "busy"));
	is(b, "status = 'failed' AND error = 'busy'");
	recorded(b, "reserve", "done");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS), 1);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'ROLLBACK_STARTED'"), 0);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

static void step_of_a_lost_lease_is_not_recorded(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	int64_t one = bench_worker(b);
	struct claimed c = bench_one(b, one);
	bench_dies(b, one);
	assert_int_equal(scan(b, "orders").outcomes[OUTCOME_RECOVERED], 1);
	assert_false(end_step(b, one, &c, SETTLE_DONE, "{\"id\":\"late\"}", NULL));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS), 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM ends"), 0);
	is(b, "status = 'new' AND said IS NULL");
}

static void repeated_settlement_of_a_step_is_accepted_once(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	int64_t w = bench_worker(b);
	struct claimed c = bench_one(b, w);
	assert_true(end_step(b, w, &c, SETTLE_DONE, "{\"id\":\"r1\"}", NULL));
	assert_true(end_step(b, w, &c, SETTLE_DONE, "{\"id\":\"r2\"}", NULL));
	is(b, "said = 'r1'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM ends"), 1);
}

static void released_step_is_the_next_one_again(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	int64_t w = bench_worker(b);
	struct claimed c = bench_one(b, w);
	assert_true(end_step(b, w, &c, SETTLE_STOPPED, NULL, NULL));
	is(b, "status = 'new'");
	c = bench_one(b, w);
	assert_int_equal(c.attempt, 1);
	is(b, "status = 'running' AND step = 'reserve'");
}

/* ---- attempts ---- */

static void tried(struct bench *b, const char *step, int n, const char *condition)
{
	char sql[512];
	snprintf(sql, sizeof sql,
	         "SELECT count(*) FROM " ATTEMPTS " WHERE watch = 'orders' AND job = '1' AND step = "
	         "'%s' AND started_at <= ended_at AND worker IS NOT NULL AND %s",
	         step, condition);
	assert_int_equal(bench_number(b, sql), n);
}

static void newest_20_attempts_that_finish_no_step_are_kept(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	int64_t w = bench_worker(b);
	for (int i = 0; i < 22; i++) {
		struct claimed c = bench_one(b, w);
		assert_true(end_step(b, w, &c, i ? SETTLE_RELEASED : SETTLE_FAILED, NULL, "busy"));
		if (i == 0)
			tried(b, "reserve", 1,
			      "epoch = 1 AND attempt = 1 AND outcome = 'failed' AND error = "
			      "'busy' AND NOT undo");
		no_wait(b);
	}
	tried(b, "reserve", 20, "epoch > 2 AND outcome = 'released'");
	tried(b, "reserve", 0, "epoch <= 2");
}

static void run_of_an_undone_step_is_kept_beside_its_undos(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b);
	struct claimed c = bench_one(b, w);
	tried(b, "ship", 1, "outcome = 'permanent' AND error = 'no such address'");
	assert_true(end_step(b, w, &c, SETTLE_FAILED, NULL, "bank is closed"));
	tried(b, "charge", 1, "NOT undo AND outcome = 'done' AND epoch = 2");
	tried(b, "charge", 1, "undo AND outcome = 'failed' AND epoch = 4 AND error = 'bank is closed'");
	no_wait(b);
	run_one(b, w, NULL);
	tried(b, "charge", 2, "true");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS " WHERE step = 'charge' AND "
	                                 "state = 'undone' AND attempt = 2 AND epoch = 5 AND worker IS "
	                                 "NOT NULL"),
	                 1);
}

/* ---- undoing ---- */

static void failed_row_is_undone_backwards_under_its_lease_alone(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	int64_t w = open_failed(b);
	struct claimed c = bench_one(b, w);
	assert_true(c.undoing);
	is(b, "status = 'failed' AND step = 'ship'"); /* the claim list is for what is run */
	assert_true(end_step(b, w, &c, SETTLE_DONE, NULL, NULL));
	recorded(b, "charge", "undone");
	recorded(b, "reserve", "done");
	is(b, "status = 'failed'");
	run_one(b, w, NULL);
	recorded(b, "reserve", "undone");
	is(b, "status = 'undone' AND error IS NULL");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'ROLLED_BACK' "
	                                 "AND job = '1' AND epoch = 5"),
	                 1);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

static void rollback_of_a_dead_worker_goes_on_where_it_was(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b), two = bench_worker(b);
	struct claimed *jobs, c;
	run_one(b, w, NULL);
	c = bench_one(b, w);
	assert_int_equal(bench_claim(b, two, 9, &jobs), 0);
	bench_dies(b, w);
	assert_int_equal(scan(b, "orders").found, 0); /* it is not running */
	struct claimed again = bench_one(b, two);
	assert_true(again.undoing && again.epoch == c.epoch + 1);
	assert_false(end_step(b, w, &c, SETTLE_DONE, NULL, NULL));
	recorded(b, "reserve", "done");
	assert_true(end_step(b, two, &again, SETTLE_DONE, NULL, NULL));
	is(b, "status = 'undone'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM ends WHERE step = 'charge'"), 2);
}

static void undo_that_fails_for_good_is_told_and_the_rest_goes_on(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b);
	for (int attempt = 1; attempt <= 2; attempt++) {
		struct claimed c = bench_one(b, w);
		assert_int_equal(c.attempt, attempt);
		assert_true(end_step(b, w, &c, SETTLE_FAILED, NULL, "bank is closed"));
		no_wait(b);
	}
	recorded(b, "charge", "undo_failed");
	run_one(b, w, NULL);
	recorded(b, "reserve", "undone");
	is(b, "status = 'undone' AND error = 'could not undo: charge (bank is closed)'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'UNDO_FAILED' "
	                                 "AND reason = 'bank is closed'"),
	                 1);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'ROLLED_BACK' AND reason "
	                    "LIKE 'could not undo%' AND PG(evidence::text|evidence) LIKE '%reserve%'"),
		1);
}

static void last_undo_that_fails_keeps_its_own_error(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b);
	run_one(b, w, NULL);
	struct claimed c = bench_one(b, w);
	assert_true(end_step(b, w, &c, SETTLE_PERMANENT, NULL, "shelf is gone"));
	is(b, "status = 'undone' AND error = 'could not undo: reserve (shelf is gone)'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS " WHERE step = 'reserve' AND "
	                                 "state = 'undo_failed' AND error = 'shelf is gone'"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'UNDO_FAILED' "
	                                 "AND reason = 'shelf is gone'"),
	                 1);
}

static void row_that_needs_no_undo_any_more_is_left_alone(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b);
	struct claimed c = bench_one(b, w);
	bench_sql(b, "UPDATE orders SET status = 'settled by hand'");
	assert_false(end_step(b, w, &c, SETTLE_DONE, NULL, NULL));
	recorded(b, "charge", "done");
	is(b, "status = 'settled by hand'");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 0);
}

/* A worker that does not know the workflow must not write `release` over a row to be undone. */
static void undo_that_is_handed_back_without_a_step_leaves_the_row(void **state)
{
	struct bench *b = bench_of(state);
	int64_t w = open_failed(b);
	struct claimed c = bench_one(b, w);
	assert_true(bench_settle(b, w, &c, SETTLE_RETRY, NULL, "not known here"));
	is(b, "status = 'failed' AND error = 'no such address'");
	no_wait(b);
	c = bench_one(b, w);
	assert_true(bench_settle(b, w, &c, SETTLE_RELEASED, NULL, NULL));
	is(b, "status = 'failed'");
	assert_true(bench_one(b, w).undoing);
}

/* ---- beats ---- */

static void beat_all(struct bench *b, int64_t worker, struct beat *all, int n)
{
	struct failure f = {0};
	if (b->source->ops->beat(b->source, b->rig.other, worker, all, n, &b->arena, &f))
		fail_msg("%s", f.what);
}

static void claim_beats_in_its_own_transaction_and_the_end_is_told(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	assert_int_equal(b->source->beat_ms, 30000);
	int64_t w = bench_worker(b);
	run_one(b, w, NULL);
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM beats WHERE id = 1 AND worker = 'w1' AND "
	                              "epoch = 1 AND attempt = 1 AND step = 'reserve' AND at IS NOT "
	                              "NULL"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM ends WHERE id = 1 AND step = 'reserve'"),
	                 1);
}

static void one_beat_is_for_all_jobs_in_hand(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_orders(b);
	bench_sql(b, "INSERT INTO orders (id, status) VALUES (2, 'new')");
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 2);
	bench_sql(b, "DELETE FROM beats");
	struct beat all[] = {{.key = "1", .epoch = 1, .attempt = 1, .step = "reserve"},
	                     {.key = "2", .epoch = 1, .attempt = 1}};
	beat_all(b, w, all, 2);
	assert_false(all[0].lost || all[1].lost);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM beats WHERE worker = 'w1'"), 2);
}

static void job_that_is_not_ours_does_not_beat(void **state)
{
	struct bench *b = bench_of(state);
	open_orders(b);
	int64_t one = bench_worker(b), two = bench_worker(b);
	bench_one(b, one);
	bench_dies(b, one);
	assert_int_equal(scan(b, "orders").outcomes[OUTCOME_RECOVERED], 1);
	bench_one(b, two);
	bench_sql(b, "DELETE FROM beats");
	struct beat late = {.key = "1", .epoch = 1, .attempt = 1, .step = "reserve"};
	beat_all(b, one, &late, 1);
	assert_true(late.lost);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM beats"), 0);
}

/* PostgreSQL: a job that is being settled is at its end. */
static void beat_passes_over_a_lease_that_is_being_settled(void **state)
{
	struct bench *b = bench_of(state);
	struct failure f = {0};
	open_orders(b);
	int64_t w = bench_worker(b);
	bench_one(b, w);
	bench_sql(b, "DELETE FROM beats");
	assert_int_equal(store_begin(b->two, TX_WRITE, &f), 0);
	assert_int_equal(run(b->two, "SELECT 1 FROM defib.lease FOR UPDATE", &f), 0);
	struct beat one = {.key = "1", .epoch = 1, .attempt = 1};
	beat_all(b, w, &one, 1);
	assert_false(one.lost);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM beats"), 0);
	store_rollback(b->two);
}

static void bad_statement_is_named_with_its_option(void **state)
{
	struct bench *b = bench_of(state);
	struct source *none;
	struct failure f = {0};
	open_orders(b);
	bench_sql(b, "DROP TABLE ends");
	assert_int_equal(source_table(named("orders"), NULL, b->two, &none, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "work.after"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(each_claim_runs_the_next_step_in_the_users_words),
		BOTH(kind_that_is_a_workflow_goes_before_the_one_of_the_watch),
		BOTH(failed_step_is_tried_again_and_then_fails_the_row),
		BOTH(step_of_a_lost_lease_is_not_recorded),
		BOTH(repeated_settlement_of_a_step_is_accepted_once),
		BOTH(released_step_is_the_next_one_again),
		BOTH(newest_20_attempts_that_finish_no_step_are_kept),
		BOTH(run_of_an_undone_step_is_kept_beside_its_undos),
		BOTH(failed_row_is_undone_backwards_under_its_lease_alone),
		BOTH(rollback_of_a_dead_worker_goes_on_where_it_was),
		BOTH(undo_that_fails_for_good_is_told_and_the_rest_goes_on),
		BOTH(last_undo_that_fails_keeps_its_own_error),
		BOTH(row_that_needs_no_undo_any_more_is_left_alone),
		BOTH(undo_that_is_handed_back_without_a_step_leaves_the_row),
		BOTH(claim_beats_in_its_own_transaction_and_the_end_is_told),
		BOTH(one_beat_is_for_all_jobs_in_hand),
		BOTH(job_that_is_not_ours_does_not_beat),
		{"beat_passes_over_a_lease_that_is_being_settled",
	     beat_passes_over_a_lease_that_is_being_settled, setup_postgres, teardown, NULL},
		BOTH(bad_statement_is_named_with_its_option),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reading_release(&reading);
	return failed;
}
