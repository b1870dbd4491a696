/* SPDX-License-Identifier: Apache-2.0
 * source_table_test.c: which worker gets which rows of a user's table, and what does not fit it.
 */
#include "worker/source_table.h"
#include "worker/source_table_sql.h"
#include "worker/tables_test.h"

#include <pthread.h>

/* ---- claiming ---- */

static void claim_takes_the_oldest_and_writes_the_claim_list(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 2, &jobs), 2);
	assert_string_equal(jobs[0].key, "2");
	assert_string_equal(jobs[1].key, "3");
	assert_int_equal(jobs[0].epoch, 1);
	assert_int_equal(jobs[0].attempt, 1);
	assert_string_equal(jobs[0].queue, "sitemaps");
	assert_non_null(strstr(jobs[0].payload, "\"domain\""));
	assert_non_null(strstr(jobs[0].payload, "Processing"));
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM sitemap_files WHERE sitemap_import_status = "
	                    "'Processing' AND sitemap_import_error IS NULL AND id IN (2, 3) "
	                    "AND updated_at > '2026-02-01'"),
		2);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 2);
}

static void what_a_user_asked_for_goes_first_and_a_batch_is_bounded(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_labs(b);
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 100, &jobs), 3);
	assert_string_equal(jobs[0].key, "5");
	assert_string_equal(jobs[1].key, "3");
	assert_string_equal(jobs[2].key, "1");
	assert_int_equal(jobs[0].timeout_ms, 600000);
	assert_non_null(strstr(jobs[0].payload, "secret"));
	assert_non_null(strstr(jobs[0].payload, "owner_id"));
	/* Unknown origin goes last. */
	assert_int_equal(bench_claim(b, w, 100, &jobs), 2);
	assert_string_equal(jobs[1].key, "4");
}

static void two_workers_never_get_the_same_row(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	int n = 0;
	open_labs(b);
	int64_t one = bench_worker(b), two = bench_worker(b);
	assert_int_equal(bench_claim(b, one, 2, &jobs), 2);
	assert_int_equal(b->source->ops->claim(b->source, b->two, two, 9, &b->arena, &jobs, &n, &f), 0);
	assert_int_equal(n, 3);
	assert_int_equal(bench_claim(b, one, 9, &jobs), 0);
	assert_int_equal(bench_number(b, "SELECT count(DISTINCT job) FROM " LEASES), 5);
	assert_int_equal(bench_number(b, "SELECT max(epoch) FROM " LEASES), 1);
}

/* PostgreSQL: a row that another session has locked is skipped, without waiting. */
static void locked_rows_are_skipped(void **state)
{
	struct bench *b = bench_of(state);
	struct failure f = {0};
	open_labs(b);
	int64_t w = bench_worker(b);
	assert_int_equal(store_begin(b->two, TX_WRITE, &f), 0);
	assert_int_equal(run(b->two, "SELECT 1 FROM labs WHERE id = 5 FOR UPDATE", &f), 0);
	assert_string_equal(bench_one(b, w).key, "3");
	store_rollback(b->two);
	assert_string_equal(bench_one(b, w).key, "5");
}

#define LABS 120

/* One of several that claim everything, each with its own session and source. */
struct claimer {
	const char *url;
	int64_t worker;
	int claimed, bad;
};

static void *claim_all(void *arg)
{
	struct claimer *c = arg;
	struct store_options o = patient((struct store_options){.url = c->url, .name = "rig"});
	struct arena a = ARENA_INIT;
	struct source *src = NULL;
	struct store *s = NULL;
	struct failure f = {0};
	int n = 0;
	c->bad = store_open(&o, &s, &f) || source_table(named("labs"), NULL, s, &src, &f);
	while (!c->bad && c->claimed < LABS) {
		struct claimed *jobs;
		c->bad = src->ops->claim(src, s, c->worker, 2, &a, &jobs, &n, &f) != 0;
		if (n == 0)
			break;
		c->claimed += n;
	}
	if (src)
		src->ops->free(src);
	store_close(s);
	arena_release(&a);
	return NULL;
}

/* Labs have no column that a claim changes: the leases alone keep claimers apart. */
static void claimers_at_once_share_the_rows(void **state)
{
	struct bench *b = bench_of(state);
	struct claimer all[3];
	pthread_t threads[3];
	int total = 0;
	open_labs(b);
	bench_sql(b, "DELETE FROM labs");
	bench_sql(
		b, "INSERT INTO labs (id, status, updated_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
		   "SELECT i + 1 FROM n WHERE i < 120) SELECT i, 'ending', '2026-01-01 00:00:00' FROM n");
	for (int i = 0; i < 3; i++)
		all[i] = (struct claimer){.url = b->rig.url, .worker = bench_worker(b)};
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, claim_all, &all[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_false(all[i].bad);
		total += all[i].claimed;
	}
	/* One that finds the last rows locked may end before they are claimed. */
	assert_int_equal(total, LABS);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " LEASES " WHERE epoch = 1 AND attempts = 1"), LABS);
}

static void only_the_kind_that_was_asked_for_is_claimed(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_jobs(b, "scrape");
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 1);
	assert_string_equal(jobs[0].key, "b");
	assert_string_equal(jobs[0].kind, "scrape");
}

static void dead_worker_claims_nothing(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	int n = 0;
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	bench_dies(b, w);
	assert_int_equal(b->source->ops->claim(b->source, b->two, w, 9, &b->arena, &jobs, &n, &f),
	                 DEFIB_LEASE_LOST);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES), 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM sitemap_files WHERE "
	                                 "sitemap_import_status = 'Queued'"),
	                 3);
}

/* Labs stay `ending` until they are done: only the dead worker's lease protects them. */
static struct claimed lose_and_claim_again(struct bench *b, int64_t *worker)
{
	bench_dies(b, *worker);
	*worker = bench_worker(b);
	return bench_one(b, *worker);
}

static void a_job_that_two_workers_in_a_row_died_with_runs_alone(void **state)
{
	struct bench *b = bench_of(state);
	open_labs(b);
	int64_t w = bench_worker(b);
	assert_false(bench_one(b, w).alone);
	assert_false(lose_and_claim_again(b, &w).alone);
	struct claimed third = lose_and_claim_again(b, &w);
	assert_true(third.alone);
	/* One that comes to an end is like any other. */
	assert_true(bench_settle(b, w, &third, SETTLE_RETRY, NULL, "not now"));
	bench_sql(b, "UPDATE labs SET status = 'ending' WHERE id = 5");
	bench_sql(b, "UPDATE " LEASES " SET run_at = NULL");
	struct claimed fourth = bench_one(b, w);
	assert_string_equal(fourth.key, third.key);
	assert_false(fourth.alone);
	assert_false(lose_and_claim_again(b, &w).alone);
	assert_true(lose_and_claim_again(b, &w).alone);
}

/* Another session writes meanwhile: on SQLite that locks the whole database. */
static void idle_look_takes_no_lock(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	int n = 1;
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	bench_sql(b, "DELETE FROM sitemap_files");
	assert_int_equal(store_begin(b->rig.other, TX_WRITE, &f), 0);
	assert_int_equal(run(b->rig.other, "DELETE FROM sitemap_files", &f), 0);
	assert_int_equal(b->source->ops->claim(b->source, b->two, w, 9, &b->arena, &jobs, &n, &f), 0);
	assert_int_equal(n, 0);
	store_rollback(b->rig.other);
}

static void claim_that_does_not_make_a_row_running_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	int n = 0;
	fill_labs(b);
	labs_with("    work: {" ENDS HANDS_BACK
	          "ready: \"status = 'running'\", claim: \"status = lower('X')\"}\n");
	open_source(b, "labs", NULL);
	int64_t w = bench_worker(b);
	assert_int_equal(b->source->ops->claim(b->source, b->two, w, 9, &b->arena, &jobs, &n, &f),
	                 DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "work.claim"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES), 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM labs WHERE status = 'x'"), 0);
}

static void refuses_to_claim(struct bench *b, const char *work, const char *said)
{
	struct claimed *jobs;
	struct failure f = {0};
	int n = 0;
	labs_with(work);
	open_source(b, "labs", NULL);
	int64_t w = bench_worker(b);
	assert_int_equal(b->source->ops->claim(b->source, b->two, w, 9, &b->arena, &jobs, &n, &f),
	                 DEFIB_CONFIG);
	if (!strstr(f.what, said))
		fail_msg("%s", f.what);
	assert_int_equal(n, 0);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES), 0);
}

/* Otherwise whatever else reads the table would take it too. */
static void a_claim_that_leaves_a_row_ready_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	fill_labs(b);
	refuses_to_claim(b,
	                 "    work: {" ENDS HANDS_BACK "ready: \"status <> 'failed'\", claim: "
	                 "\"status = lower('ENDING')\"}\n",
	                 "still matches work.ready after work.claim");
}

static void ready_rows_that_no_claim_makes_running_are_refused(void **state)
{
	struct bench *b = bench_of(state);
	fill_labs(b);
	refuses_to_claim(b, "    work: {" ENDS "ready: \"status <> 'ending'\"}\n",
	                 "ready but not running, and the watch has no work.claim");
}

/* ---- owning ---- */

static void cancelled_job_is_told_and_ends_failed(void **state)
{
	struct bench *b = bench_of(state);
	struct settlement *asked;
	struct failure f = {0};
	int n = -1;
	open_jobs(b, NULL);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_int_equal(b->source->ops->cancelling(b->source, b->two, w, &b->arena, &asked, &n, &f),
	                 0);
	assert_int_equal(n, 0);
	bench_sql(b, "UPDATE jobs SET status = 'cancelling' WHERE id = 'a'");
	assert_int_equal(b->source->ops->cancelling(b->source, b->two, w, &b->arena, &asked, &n, &f),
	                 0);
	assert_int_equal(n, 1);
	assert_string_equal(asked[0].key, "a");
	assert_int_equal(asked[0].epoch, 1);
	assert_true(bench_settle(b, w, &job, SETTLE_STOPPED, NULL, NULL));
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM jobs WHERE id = 'a' AND status = 'failed' "
	                              "AND error = 'cancelled' AND completed_at IS NOT NULL"),
	                 1);
}

static void owned_and_progress_follow_the_lease(void **state)
{
	struct bench *b = bench_of(state);
	struct settlement *mine;
	struct failure f = {0};
	int n = 0;
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_int_equal(b->source->ops->owned(b->source, b->two, w, &b->arena, &mine, &n, &f), 0);
	assert_int_equal(n, 1);
	assert_string_equal(mine[0].key, job.key);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, "2", 1, "s", "50", &f), 0);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, "2", 2, "s", "50", &f),
	                 DEFIB_LEASE_LOST);
	assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, "2", 1, "s", "50", &f),
	                 DEFIB_LEASE_LOST);
	assert_int_equal(b->source->ops->owned(b->source, b->two, w, &b->arena, &mine, &n, &f), 0);
	assert_int_equal(n, 0);
}

/* Keys of several columns, with characters that mean something in SQL and JSON. */
static void composite_keys_are_one_job(void **state)
{
	struct bench *b = bench_of(state);
	struct settlement *asked;
	struct failure f = {0};
	int n = 0;
	bench_sql(
		b, "CREATE TABLE tasks (name TEXT, part PG(bigint|INTEGER), attempts INTEGER, owner TEXT, "
		   "at " TIME ", PRIMARY KEY (name, part))");
	bench_sql(b, "INSERT INTO tasks VALUES ('a \"b\" \\ ''c'' \xc3\xa9', 7, 0, NULL, NULL)");
	read_yaml("databases: [{name: main, url: 'sqlite:jobs.db'}]\nwatches:\n  - name: it's tasks\n"
	          "    table: tasks\n    key: [name, part]\n    running: owner > ''\n"
	          "    alive_at: at\n    stuck_after: 1h\n    cancel: attempts = 9, at = :now\n"
	          "    requeue: owner = NULL\n    work:\n      ready: owner IS NULL\n"
	          "      claim: owner = :worker, at = :now\n      done: owner = '', attempts = 100\n"
	          "      failed: owner = NULL\n");
	open_source(b, "it's tasks", NULL);
	int64_t one = bench_worker(b), two = bench_worker(b);
	struct claimed job = bench_one(b, one);
	bench_sql(b, "UPDATE tasks SET attempts = 9");
	assert_int_equal(b->source->ops->cancelling(b->source, b->two, one, &b->arena, &asked, &n, &f),
	                 0);
	assert_int_equal(n, 1);
	assert_string_equal(asked[0].key, job.key);
	bench_dies(b, one);
	assert_int_equal(scan(b, "it's tasks").outcomes[OUTCOME_RECOVERED], 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NULL"), 1);
	struct claimed again = bench_one(b, two);
	assert_string_equal(again.key, job.key);
	assert_int_equal(again.epoch, 2);
	assert_false(bench_settle(b, one, &job, SETTLE_DONE, NULL, NULL));
	assert_true(bench_settle(b, two, &again, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT attempts FROM tasks"), 100);
}

/* ---- the order of work ---- */

/* Texts of these sort differently: 1, 10, 100, 2. */
static void open_numbered(struct bench *b, const char *order, int n)
{
	struct buf yaml = BUF_INIT, sql = BUF_INIT;
	bench_sql(b, "CREATE TABLE numbered (id PG(bigint|INTEGER) PRIMARY KEY, kind INTEGER, status "
	             "TEXT DEFAULT 'queued', at " TIME ")");
	buf_addf(&sql,
	         "INSERT INTO numbered (id, kind) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
	         "+ 1 FROM n WHERE i < %d) SELECT i, i / 4 FROM n",
	         n);
	bench_sql(b, buf_text(&sql));
	buf_addf(&yaml,
	         "databases: [{name: main, url: 'sqlite:jobs.db'}]\nwatches:\n  - name: numbered\n"
	         "    table: numbered\n    key: id\n    kind: kind\n    running: status = 'running'\n"
	         "    alive_at: at\n    stuck_after: 1h\n    requeue: status = 'queued'\n    work:\n"
	         "      ready: status = 'queued'\n      claim: status = 'running'\n"
	         "      done: status = 'done'\n      failed: status = 'failed'\n      order: %s\n",
	         order);
	read_yaml(buf_text(&yaml));
	open_source(b, "numbered", NULL);
	buf_release(&yaml);
	buf_release(&sql);
}

static void the_order_of_work_is_that_of_the_columns_not_of_their_texts(void **state)
{
	static const char *const orders[] = {"id", "kind, id", "(id)", "t.id", "\"id\""};
	struct bench *b = bench_of(state);
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
		struct claimed *jobs;
		open_numbered(b, orders[i], 111);
		assert_int_equal(bench_claim(b, bench_worker(b), 111, &jobs), 111);
		for (int k = 0; k < 111; k++)
			assert_string_equal(jobs[k].key, arena_printf(&b->arena, "%d", k + 1));
		bench_sql(b, "DROP TABLE numbered");
		bench_sql(b, "DELETE FROM " LEASES);
	}
}

/* PostgreSQL: what its index gives in order is not sorted, and only a few rows are read. */
static void the_order_of_work_is_served_by_the_index_of_the_key(void **state)
{
	struct bench *b = bench_of(state);
	struct store_param limit = P_INT(5);
	struct store_rows rows;
	struct failure f = {0};
	open_numbered(b, "id", 20000);
	bench_sql(b, "ANALYZE numbered");
	const char *pick = ((struct table_source *)b->source)->sql.pick[false];
	const char *sql = arena_printf(&b->arena, "EXPLAIN %s", pick);
	if (store_exec(b->two, sql, &limit, 1, &b->arena, &rows, &f))
		fail_msg("%s", f.what);
	bool index = false;
	for (int i = 0; i < rows.nrows; i++) {
		const char *line = row_text(&rows, i, 0);
		index = index || strstr(line, "Index Scan using numbered_pkey");
		if (strstr(line, "Sort") || strstr(line, "Seq Scan on numbered"))
			fail_msg("%s", line);
	}
	assert_true(index);
}

/* ---- what does not fit ---- */

static void bad_sql_of_the_work_part_is_named(void **state)
{
	struct bench *b = bench_of(state);
	static const char *const parts[][2] = {
		{"work: {" ENDS "ready: nothing = 1}", "work.ready"},
		{"work: {" ENDS "ready: \"true\", order: nothing}", "work.order"},
		{"work: {" ENDS "ready: \"true\", priority: nothing}", "work.priority"},
		{"work: {ready: \"true\", done: nothing = 1, failed: status = NULL}", "work.done"},
		{"work: {" ENDS HANDS_BACK "ready: \"true\", claim: status = nothing}", "work.claim"},
	};
	fill_labs(b);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		struct source *none;
		struct failure f = {0};
		char more[256];
		snprintf(more, sizeof more, "    %s\n", parts[i][0]);
		labs_with(more);
		assert_int_equal(source_table(named("labs"), NULL, b->rig.other, &none, &f), DEFIB_CONFIG);
		assert_null(none);
		assert_non_null(strstr(f.what, parts[i][1]));
	}
}

static void what_is_missing_is_said(void **state)
{
	struct bench *b = bench_of(state);
	struct source *none;
	struct failure f = {0};
	fill_labs(b);
	labs_with("    work: {" ENDS "ready: \"true\"}\n");
	assert_int_equal(source_table(named("labs"), "a", b->rig.other, &none, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "kind"));
	bench_sql(b, "DROP TABLE " LEASES);
	assert_int_equal(source_table(named("labs"), NULL, b->rig.other, &none, &f), DEFIB_CONFIG);
	assert_int_equal(f.advice, ADVISE_CREATE_LEASES);
	/* A scan continues without. */
	assert_int_equal(scan(b, "labs").found, 5);
	labs_with("");
	assert_int_equal(source_table(named("labs"), NULL, b->rig.other, &none, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "no work: section"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(claim_takes_the_oldest_and_writes_the_claim_list),
		BOTH(what_a_user_asked_for_goes_first_and_a_batch_is_bounded),
		BOTH(two_workers_never_get_the_same_row),
		{"locked_rows_are_skipped", locked_rows_are_skipped, setup_postgres, teardown, NULL},
		BOTH(claimers_at_once_share_the_rows),
		BOTH(only_the_kind_that_was_asked_for_is_claimed),
		BOTH(dead_worker_claims_nothing),
		BOTH(a_job_that_two_workers_in_a_row_died_with_runs_alone),
		BOTH(idle_look_takes_no_lock),
		BOTH(claim_that_does_not_make_a_row_running_is_refused),
		BOTH(a_claim_that_leaves_a_row_ready_is_refused),
		BOTH(ready_rows_that_no_claim_makes_running_are_refused),
		BOTH(cancelled_job_is_told_and_ends_failed),
		BOTH(owned_and_progress_follow_the_lease),
		BOTH(composite_keys_are_one_job),
		BOTH(the_order_of_work_is_that_of_the_columns_not_of_their_texts),
		{"the_order_of_work_is_served_by_the_index_of_the_key",
	     the_order_of_work_is_served_by_the_index_of_the_key, setup_postgres, teardown, NULL},
		BOTH(bad_sql_of_the_work_part_is_named),
		BOTH(what_is_missing_is_said),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reading_release(&reading);
	return failed;
}
