/* SPDX-License-Identifier: Apache-2.0
 * source_turn_test.c: a turn of each source: ends, claims and queries in one call, with one result
 * for each.
 */
#include "worker/source_queue.h"
#include "worker/tables_test.h"

static void ready(struct bench *b, int n)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql,
	         b->rig.engine == STORE_POSTGRES
	             ? "INSERT INTO defib.job (queue, kind) SELECT 'q', 'k' FROM generate_series(1, %d)"
	             : "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
	               "INSERT INTO defib_job (queue, kind, created_at, run_at) SELECT 'q', 'k', 0, 0 "
	               "FROM n",
	         n);
	rig_sql(&b->rig, buf_text(&sql));
	buf_release(&sql);
}

static struct bench *queue_of(void **state, int jobs)
{
	struct bench *b = bench_of(state);
	b->source = source_queue("q", NULL);
	ready(b, jobs);
	return b;
}

static int64_t in_state(struct bench *b, const char *name)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = '%s'", name);
	return bench_number(b, sql);
}

static struct turn_part turn(struct bench *b, struct turn_part p)
{
	if (source_turn(b->source, b->rig.other, &p, &b->arena))
		fail_msg("%s", p.f.what);
	return p;
}

static struct turn_part claim(struct bench *b, int64_t worker, int64_t room)
{
	return turn(b, (struct turn_part){.claimer = worker, .room = room});
}

/* How all jobs of a turn ended. */
static struct settlement *ends_of(struct bench *b, const struct turn_part *p, enum settle_as as)
{
	struct settlement *ends = ARENA_ARRAY(&b->arena, struct settlement, p->nclaims);
	for (int i = 0; i < p->nclaims; i++)
		ends[i] = (struct settlement){
			.key = p->claims[i].key, .epoch = p->claims[i].epoch, .as = as, .delay_ms = -1};
	return ends;
}

static void a_thousand_ends_and_claims_are_one_turn(void **state)
{
	struct bench *b = queue_of(state, 2500);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 1000);
	assert_int_equal(first.nclaims, 1000);
	assert_string_equal(first.claims[999].key, "1000");
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 1000,
	                                                .claimer = w,
	                                                .room = 1000});
	for (int i = 0; i < p.nends; i++)
		assert_true(p.ends[i].accepted);
	assert_int_equal(p.nclaims, 1000);
	assert_string_equal(p.claims[0].key, "1001");
	assert_int_equal(p.claims[0].epoch, 1);
	assert_int_equal(p.claims[0].attempt, 1);
	assert_int_equal(p.claims[0].max_attempts, 5);
	assert_string_equal(p.claims[0].queue, "q");
	assert_string_equal(p.claims[0].kind, "k");
	assert_int_equal(in_state(b, "done"), 1000);
	assert_int_equal(in_state(b, "running"), 1000);
	assert_int_equal(bench_late(b), 0);
}

static void only_ends_claim_nothing(void **state)
{
	struct bench *b = queue_of(state, 2);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 1);
	struct turn_part p =
		turn(b, (struct turn_part){
					.worker = w, .ends = ends_of(b, &first, SETTLE_DONE), .nends = 1, .room = 5});
	assert_true(p.ends[0].accepted);
	assert_int_equal(p.nclaims, 0);
	assert_int_equal(in_state(b, "queued"), 1);
}

static void every_end_is_written_as_it_is(void **state)
{
	struct bench *b = queue_of(state, SETTLE_COUNT);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, SETTLE_COUNT);
	struct settlement *ends = ends_of(b, &first, SETTLE_DONE);
	for (int i = 0; i < SETTLE_COUNT; i++) {
		ends[i].as = (enum settle_as)i;
		ends[i].error = i == SETTLE_FAILED ? "e" : NULL;
		ends[i].result = i == SETTLE_DONE ? "{\"n\":7}" : NULL;
		ends[i].delay_ms = i == SETTLE_RETRY ? 60000 : -1;
	}
	struct turn_part p =
		turn(b, (struct turn_part){.worker = w, .ends = ends, .nends = SETTLE_COUNT});
	for (int i = 0; i < p.nends; i++)
		assert_true(p.ends[i].accepted);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(in_state(b, "scheduled"), 4);
	assert_int_equal(in_state(b, "failed"), 1);
	assert_int_equal(in_state(b, "queued"), 2);
	assert_int_equal(bench_number(b, "SELECT result->>'n' FROM "
	                                 "PG(defib.job_data|defib_job_data)"),
	                 7);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'scheduled' AND error = "
	                                 "'e' AND cause = 'error'"),
	                 1);
}

static void a_turn_whose_answer_was_lost_is_accepted_when_repeated(void **state)
{
	struct bench *b = queue_of(state, 8);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 4);
	struct turn_part p = {
		.worker = w, .ends = ends_of(b, &first, SETTLE_DONE), .nends = 4, .claimer = w, .room = 1};
	p.ends[2].as = SETTLE_FAILED;
	p.ends[3].as = SETTLE_RELEASED;
	for (int again = 0; again < 2; again++) {
		p = turn(b, p);
		for (int i = 0; i < 3; i++)
			assert_true(p.ends[i].accepted);
	}
	/* The released one was claimed again since. */
	assert_int_equal(in_state(b, "done"), 2);
	assert_int_equal(in_state(b, "scheduled"), 1);
	assert_int_equal(bench_late(b), 0);
}

static void refused_ends_are_answered_one_by_one(void **state)
{
	struct bench *b = queue_of(state, 4);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 3);
	struct settlement *ends = ends_of(b, &first, SETTLE_DONE);
	ends[1].epoch = 9;
	struct turn_part p =
		turn(b, (struct turn_part){.worker = w, .ends = ends, .nends = 3, .claimer = w, .room = 9});
	assert_true(p.ends[0].accepted && !p.ends[1].accepted && p.ends[2].accepted);
	assert_int_equal(p.nclaims, 1);
	assert_int_equal(bench_late(b), 1);
	/* The same among ends of all kinds. */
	ends[0].as = SETTLE_FAILED;
	p = turn(b, (struct turn_part){.worker = w, .ends = ends, .nends = 3});
	assert_true(!p.ends[0].accepted && !p.ends[1].accepted && p.ends[2].accepted);
	assert_int_equal(bench_late(b), 3);
}

static void two_epochs_of_a_job_in_one_turn_are_told_apart(void **state)
{
	struct bench *b = queue_of(state, 1);
	int64_t w = bench_worker(b);
	(void)claim(b, w, 1);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'queued', owner = NULL, cause = 'lost'");
	(void)claim(b, w, 1);
	struct settlement ends[] = {{.key = "1", .epoch = 1, .delay_ms = -1},
	                            {.key = "1", .epoch = 2, .delay_ms = -1}};
	struct turn_part p = turn(b, (struct turn_part){.worker = w, .ends = ends, .nends = 2});
	assert_true(!p.ends[0].accepted && p.ends[1].accepted);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(bench_late(b), 1);
}

static void ends_of_another_incarnation_are_recorded_beside_claims_of_this_one(void **state)
{
	struct bench *b = queue_of(state, 4);
	int64_t old = bench_worker(b), new = bench_worker(b);
	struct turn_part first = claim(b, old, 2);
	bench_dies(b, old);
	struct turn_part p = turn(b, (struct turn_part){.worker = old,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 2,
	                                                .claimer = new,
	                                                .room = 9});
	assert_true(p.ends[0].accepted && p.ends[1].accepted);
	assert_false(p.gone);
	assert_int_equal(p.nclaims, 2);
	/* It is not theirs. */
	struct settlement *ends = ends_of(b, &p, SETTLE_DONE);
	p = turn(b, (struct turn_part){.worker = old, .ends = ends, .nends = 2});
	assert_true(!p.ends[0].accepted && !p.ends[1].accepted);
}

static void claimer_that_is_gone_gets_nothing_and_its_ends_count(void **state)
{
	struct bench *b = queue_of(state, 3);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 2);
	bench_dies(b, w);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 2,
	                                                .claimer = w,
	                                                .room = 9});
	assert_true(p.gone);
	assert_true(p.ends[0].accepted && p.ends[1].accepted);
	assert_int_equal(p.nclaims, 0);
	assert_int_equal(in_state(b, "done"), 2);
	assert_int_equal(in_state(b, "queued"), 1);
	p = claim(b, w, 9);
	assert_true(p.gone);
}

static void what_comes_due_is_claimed_in_the_turn_that_promotes_it(void **state)
{
	struct bench *b = queue_of(state, 3);
	int64_t w = bench_worker(b);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'scheduled', run_at = PG('2026-01-01'|0) "
	             "WHERE id < 3");
	bench_sql(b, "UPDATE " JOBS_TABLE " SET run_at = PG('2999-01-01'|32472144000000) WHERE id = 2");
	assert_string_equal(claim(b, w, 1).claims[0].key, "3");
	assert_int_equal(claim(b, w, 9).nclaims, 0);
	struct turn_part p = turn(b, (struct turn_part){.claimer = w, .room = 9, .promote = true});
	assert_int_equal(p.nclaims, 1);
	assert_string_equal(p.claims[0].key, "1");
	assert_int_equal(in_state(b, "scheduled"), 1);
}

static void what_is_handed_back_can_be_claimed_in_the_same_turn(void **state)
{
	struct bench *b = queue_of(state, 2);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 2);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_RELEASED),
	                                                .nends = 1,
	                                                .claimer = w,
	                                                .room = 9});
	assert_int_equal(p.nclaims, 1);
	assert_string_equal(p.claims[0].key, first.claims[0].key);
	assert_int_equal(p.claims[0].epoch, 2);
	assert_int_equal(p.claims[0].attempt, 1);
}

static void a_turn_tells_what_is_to_stop_and_what_is_held(void **state)
{
	struct bench *b = queue_of(state, 4);
	int64_t w = bench_worker(b), other = bench_worker(b);
	(void)claim(b, w, 3);
	(void)claim(b, other, 1);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'cancelling' WHERE id IN (2, 4)");
	struct turn_part p = turn(b, (struct turn_part){.claimer = w, .cancels = true});
	assert_int_equal(p.nhas, 0);
	assert_int_equal(p.ncancelling, 1);
	assert_string_equal(p.cancelling[0].key, "2");
	assert_int_equal(p.cancelling[0].epoch, 1);
	p = turn(b, (struct turn_part){.claimer = w, .cancels = true, .compares = true});
	assert_int_equal(p.ncancelling, 1);
	assert_int_equal(p.nhas, 3);
	p = turn(b, (struct turn_part){.claimer = w, .compares = true});
	assert_int_equal(p.ncancelling, 0);
	assert_int_equal(p.nhas, 3);
}

static void job_that_was_lost_twice_runs_alone(void **state)
{
	struct bench *b = queue_of(state, 4);
	int64_t w = bench_worker(b);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET cause = 'lost', crashes = id - 1 WHERE id < 4");
	/* Its own process crashed, and no other. */
	bench_sql(b, "UPDATE " JOBS_TABLE " SET cause = 'crash', crashes = 3 WHERE id = 4");
	struct turn_part p = claim(b, w, 4);
	assert_true(!p.claims[0].alone && !p.claims[1].alone && p.claims[2].alone &&
	            !p.claims[3].alone);
}

static void urgent_job_behind_the_floor_is_found_when_nothing_else_is(void **state)
{
	struct bench *b = queue_of(state, 2);
	int64_t w = bench_worker(b);
	assert_int_equal(claim(b, w, 2).nclaims, 2);
	ready(b, 1);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET priority = 9 WHERE id = 3");
	assert_int_equal(claim(b, w, 2).nclaims, 1);
}

static void payload_and_progress_of_an_earlier_attempt_come_with_the_claim(void **state)
{
	struct bench *b = queue_of(state, 1);
	struct failure f = {0};
	int64_t w = bench_worker(b);
	bench_sql(b, "INSERT INTO PG(defib.job_data|defib_job_data) (job, payload) VALUES (1, "
	             "'{\"a\": 1}')");
	struct turn_part first = claim(b, w, 1);
	assert_string_equal(first.claims[0].payload, "{\"a\": 1}");
	assert_null(first.claims[0].step);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, "1", 1, "parse", "50", &f), 0);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_RELEASED),
	                                                .nends = 1,
	                                                .claimer = w,
	                                                .room = 1});
	assert_string_equal(p.claims[0].step, "parse");
}

/*
 * Jobs that others claimed meanwhile are skipped, without an error, whatever the database's
 * default.
 */
static void default_of_the_database_does_not_change_how_a_turn_runs(void **state)
{
	struct bench *b = queue_of(state, 1);
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	rig_sql(&b->rig, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET "
	                 "default_transaction_isolation = serializable'; END $$");
	struct store *s = open_with((struct store_options){.url = b->rig.url});
	assert_int_equal(store_exec(s, "SHOW transaction_isolation", NULL, 0, &a, &rows, NULL), 0);
	assert_string_equal(row_text(&rows, 0, 0), "read committed");
	store_close(s);
	arena_release(&a);
}

/* ---- a user's table ---- */

static void table_is_settled_and_claimed_in_one_turn(void **state)
{
	struct bench *b = bench_of(state);
	open_labs(b);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 2);
	assert_int_equal(first.nclaims, 2);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 2,
	                                                .claimer = w,
	                                                .room = 1,
	                                                .promote = true,
	                                                .cancels = true,
	                                                .compares = true});
	assert_true(p.ends[0].accepted && p.ends[1].accepted);
	assert_int_equal(p.nclaims, 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 1);
	p = turn(b, (struct turn_part){.claimer = w, .compares = true});
	assert_int_equal(p.nhas, 1);
}

static void gone_claimer_of_a_table_gets_nothing_and_its_ends_count(void **state)
{
	struct bench *b = bench_of(state);
	open_labs(b);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 2);
	bench_dies(b, w);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 2,
	                                                .claimer = w,
	                                                .room = 9});
	assert_true(p.gone && p.ends[0].accepted && p.ends[1].accepted);
	assert_int_equal(p.nclaims, 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 0);
}

/* The user's table takes ends, but no row can be claimed. */
static void refuse_claims(struct bench *b)
{
	if (b->rig.engine == STORE_POSTGRES)
		rig_sql(&b->rig, "ALTER TABLE sitemap_files ADD CHECK (sitemap_import_status <> "
		                 "'Processing') NOT VALID");
	else
		rig_sql(&b->rig, "CREATE TRIGGER refuse BEFORE UPDATE ON sitemap_files WHEN "
		                 "new.sitemap_import_status = 'Processing' BEGIN SELECT RAISE(ABORT, "
		                 "'no claims today'); END");
}

static void claims_that_fail_cost_the_ends_nothing(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	struct turn_part first = claim(b, w, 1);
	refuse_claims(b);
	struct turn_part p = turn(b, (struct turn_part){.worker = w,
	                                                .ends = ends_of(b, &first, SETTLE_DONE),
	                                                .nends = 1,
	                                                .claimer = w,
	                                                .room = 9});
	assert_true(p.ends[0].accepted);
	assert_int_equal(p.nclaims, 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 0);
	/* Alone they fail by themselves. */
	p = (struct turn_part){.claimer = w, .room = 9};
	assert_int_not_equal(source_turn(b->source, b->rig.other, &p, &b->arena), DEFIB_OK);
	assert_int_equal(p.err, p.f.code);
	assert_int_equal(p.nclaims, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(a_thousand_ends_and_claims_are_one_turn),
		BOTH(only_ends_claim_nothing),
		BOTH(every_end_is_written_as_it_is),
		BOTH(a_turn_whose_answer_was_lost_is_accepted_when_repeated),
		BOTH(refused_ends_are_answered_one_by_one),
		BOTH(two_epochs_of_a_job_in_one_turn_are_told_apart),
		BOTH(ends_of_another_incarnation_are_recorded_beside_claims_of_this_one),
		BOTH(claimer_that_is_gone_gets_nothing_and_its_ends_count),
		BOTH(what_comes_due_is_claimed_in_the_turn_that_promotes_it),
		BOTH(what_is_handed_back_can_be_claimed_in_the_same_turn),
		BOTH(a_turn_tells_what_is_to_stop_and_what_is_held),
		BOTH(job_that_was_lost_twice_runs_alone),
		BOTH(urgent_job_behind_the_floor_is_found_when_nothing_else_is),
		BOTH(payload_and_progress_of_an_earlier_attempt_come_with_the_claim),
		{"default_of_the_database_does_not_change_how_a_turn_runs",
	     default_of_the_database_does_not_change_how_a_turn_runs, setup_postgres, teardown, NULL},
		BOTH(table_is_settled_and_claimed_in_one_turn),
		BOTH(gone_claimer_of_a_table_gets_nothing_and_its_ends_count),
		BOTH(claims_that_fail_cost_the_ends_nothing),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reading_release(&reading);
	return failed;
}
