/* SPDX-License-Identifier: Apache-2.0 */
/* stored_jobs_test.c: stored jobs are enqueued once and in order, whatever happens. */
#include "worker/stored_jobs.h"

#include "base/clock.h"
#include "store/fault_test.h"
#include "store/spool.h"
#include "worker/source_test.h"

#include <ftw.h>
#include <signal.h>
#include <sys/wait.h>

#define TOKENS "PG(defib.enqueued|defib_enqueued)"
#define CHILDREN 4
#define PUTS 10

static char base[] = "/tmp/defib-side-XXXXXX", folder[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* The directory lives as long as the program; each test begins with an empty one. */
static struct stored_jobs queue_of(struct bench *b)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return (struct stored_jobs){.folder = folder, .url = b->rig.url, .wait_ms = TEST_HANGS_MS};
}

static struct enqueue job_of(const char *kind, const char *payload)
{
	return (struct enqueue){.queue = "q", .kind = kind, .payload = payload};
}

static void put(const struct stored_jobs *q, const char *kind)
{
	struct enqueue job = job_of(kind, "{\"n\": 1}");
	struct failure f = {0};
	char token[STORED_TOKEN_SIZE];
	stored_token(token);
	if (stored_jobs_put(q, token, &job, 1, &f))
		fail_msg("%s", f.what);
}

static struct stored_drained drained(const struct stored_jobs *q, struct store *s)
{
	struct stored_drained out = {0};
	struct failure f = {0};
	while (stored_jobs_waits(q))
		if (stored_jobs_drain(q, s, &out, &f))
			fail_msg("%s", f.what);
	return out;
}

/* The kinds of all jobs in the order of their ids. */
static void assert_kinds(struct bench *b, const char *all)
{
	struct store_rows rows;
	struct buf text = BUF_INIT;
	struct failure f = {0};
	if (store_exec(b->rig.other, bench_text(b, "SELECT kind FROM " JOBS_TABLE " ORDER BY id"), NULL,
	               0, &b->arena, &rows, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < rows.nrows; i++)
		buf_add(&text, row_text(&rows, i, 0));
	assert_string_equal(buf_text(&text), all);
	buf_release(&text);
}

static void refuse_kind_x(struct bench *b)
{
	bench_sql(b, b->rig.engine == STORE_POSTGRES
	                 ? "ALTER TABLE defib.job ADD CHECK (kind <> 'x')"
	                 : "CREATE TRIGGER no_x BEFORE INSERT ON defib_job WHEN new.kind = 'x' BEGIN "
	                   "SELECT raise(ABORT, 'no x'); END");
}

static void what_waits_goes_in_oldest_first(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	assert_false(stored_jobs_waits(&q));
	put(&q, "a");
	put(&q, "b");
	put(&q, "c");
	assert_true(stored_jobs_waits(&q));
	assert_int_equal(drained(&q, b->rig.other).jobs, 3);
	assert_false(stored_jobs_waits(&q));
	assert_kinds(b, "abc");
}

static void a_drain_that_ends_between_commit_and_take_puts_nothing_in_twice(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	struct stored_drained out = {0};
	struct failure f = {0};
	struct fault_plan plan = {.call = FAULT_COMMIT, .nth = 1, .when = FAULT_AFTER};
	plan.code = DEFIB_UNKNOWN_OUTCOME;
	struct store *s = fault_wrap(open_with((struct store_options){.url = b->rig.url}), &plan);
	put(&q, "a");
	put(&q, "b");
	assert_int_equal(stored_jobs_drain(&q, s, &out, &f), DEFIB_UNKNOWN_OUTCOME);
	assert_true(plan.fired && stored_jobs_waits(&q));
	store_close(s);
	assert_kinds(b, "ab");
	assert_int_equal(drained(&q, b->rig.other).jobs, 0);
	assert_kinds(b, "ab");
}

static void what_was_sent_and_may_be_committed_is_kept_and_goes_in_once(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	static const enum fault_when moments[] = {FAULT_BEFORE, FAULT_AFTER};
	for (int i = 0; i < 2; i++) {
		struct fault_plan plan = {.call = FAULT_COMMIT, .nth = 1, .when = moments[i]};
		struct enqueue job = job_of(i ? "b" : "a", NULL);
		struct stored_sent sent = {.ids = (int64_t[1]){0}};
		struct failure f = {0};
		plan.code = DEFIB_UNKNOWN_OUTCOME;
		struct store *s = fault_wrap(open_with((struct store_options){.url = b->rig.url}), &plan);
		assert_int_equal(stored_jobs_send(&q, s, &job, 1, &sent, &f), DEFIB_OK);
		assert_true(sent.stored && sent.why.code == DEFIB_UNKNOWN_OUTCOME);
		store_close(s);
		drained(&q, b->rig.other);
	}
	assert_kinds(b, "ab");
}

static void what_is_refused_for_ever_moves_aside_whole(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	struct enqueue two[] = {job_of("b", NULL), job_of("x", "{\"to\": \"ann\"}")};
	struct failure f = {0};
	struct spool *refused;
	struct spool_record one;
	struct arena a = ARENA_INIT;
	char aside[80];
	refuse_kind_x(b);
	put(&q, "a");
	assert_int_equal(stored_jobs_put(&q, "token-of-two", two, 2, &f), DEFIB_OK);
	put(&q, "c");
	struct stored_drained out = drained(&q, b->rig.other);
	assert_int_equal(out.jobs, 2);
	assert_int_equal(out.refused, 1);
	assert_kinds(b, "ac");
	snprintf(aside, sizeof aside, "%s/refused", folder);
	struct spool_options o = {.folder = aside};
	assert_int_equal(spool_open(&o, &refused, &f), DEFIB_OK);
	assert_int_equal(spool_count(refused, "jobs", false), 1);
	assert_int_equal(spool_peek(refused, "jobs", false, &one, 1, 1000, &a), 1);
	assert_non_null(strstr(one.bytes, "ann"));
	spool_close(refused);
	arena_release(&a);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " TOKENS " WHERE token LIKE '%two'"), 0);
}

/* A child process: stores, drains now and then, and reports by its exit code. */
static void be_a_process(struct bench *b, struct stored_jobs q, int number)
{
	struct store *s = open_with((struct store_options){.url = b->rig.url});
	char kind[24], token[STORED_TOKEN_SIZE];
	for (int i = 0; i < PUTS; i++) {
		struct stored_drained out = {0};
		struct failure f = {0};
		snprintf(kind, sizeof kind, "%d-%02d", number, i);
		struct enqueue job = job_of(kind, NULL);
		stored_token(token);
		if (stored_jobs_put(&q, token, &job, 1, &f) ||
		    (i % 5 == number && stored_jobs_drain(&q, s, &out, &f))) {
			fprintf(stderr, "%s\n", f.what);
			_exit(1);
		}
	}
	_exit(0);
}

static void several_processes_fill_and_drain_it_at_once(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	pid_t pids[CHILDREN];
	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			be_a_process(b, q, i);
	}
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	drained(&q, b->rig.other);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE), CHILDREN * PUTS);
	/* Each sender's jobs in order, and each once. */
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE " AS a JOIN " JOBS_TABLE
	                                 " AS b ON substr(a.kind, 1, 2) = substr(b.kind, 1, 2) WHERE "
	                                 "a.id < b.id AND a.kind >= b.kind"),
	                 0);
}

static void who_owns_the_folder_for_long_is_told(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	struct spool_options o = {.folder = folder};
	struct stored_drained out = {0};
	struct failure f = {0};
	struct spool *owned;
	put(&q, "a");
	q.wait_ms = 30;
	assert_int_equal(spool_open(&o, &owned, &f), DEFIB_OK);
	assert_int_equal(stored_jobs_drain(&q, b->rig.other, &out, &f), DEFIB_REFUSED);
	assert_non_null(strstr(f.what, "another process has held it"));
	spool_close(owned);
	assert_int_equal(drained(&q, b->rig.other).jobs, 1);
}

static void jobs_of_another_database_are_left_alone(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b), other = q;
	struct enqueue job = job_of("b", NULL);
	struct stored_drained out = {0};
	struct failure f = {0};
	other.url = "sqlite:/nowhere/other.db";
	put(&other, "a");
	assert_int_equal(stored_jobs_drain(&q, b->rig.other, &out, &f), DEFIB_USAGE);
	assert_non_null(strstr(f.what, "holds jobs for file /nowhere/other.db"));
	assert_int_equal(stored_jobs_put(&q, "t", &job, 1, &f), DEFIB_USAGE);
	assert_true(stored_jobs_waits(&q));
	assert_kinds(b, "");
}

static void send(const struct stored_jobs *q, struct store *s, const char *kind)
{
	struct enqueue job = job_of(kind, NULL);
	int64_t ids[1];
	struct stored_sent sent = {.ids = ids};
	struct failure f = {0};
	if (stored_jobs_send(q, s, &job, 1, &sent, &f))
		fail_msg("%s", f.what);
	assert_false(sent.stored);
}

/* The database was created again: its address is the same, its id is not. */
static void begin_again(struct bench *b, const char *id)
{
	bench_sql(b, bench_text(b, arena_printf(&b->arena,
	                                        "UPDATE PG(defib.meta|defib_meta) SET value = '%s' "
	                                        "WHERE name = 'database'",
	                                        id)));
}

static void assert_set_aside(const char *kind)
{
	char aside[80];
	struct spool *refused;
	struct spool_record one;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	snprintf(aside, sizeof aside, "%s/refused", folder);
	struct spool_options o = {.folder = aside};
	assert_int_equal(spool_open(&o, &refused, &f), DEFIB_OK);
	assert_int_equal(spool_peek(refused, "jobs", false, &one, 1, 1000, &a), 1);
	assert_non_null(strstr(one.bytes, kind));
	assert_int_equal(spool_count(refused, "jobs", false), 1);
	spool_close(refused);
	arena_release(&a);
}

static void jobs_of_another_database_at_the_address_are_set_aside(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	begin_again(b, "first");
	send(&q, b->rig.other, "a");
	put(&q, "was-for-first");
	begin_again(b, "second");
	put(&q, "too");
	struct stored_drained out = drained(&q, b->rig.other);
	assert_int_equal(out.jobs, 0);
	assert_int_equal(out.refused, 2);
	/* Since then it is known here. */
	put(&q, "b");
	assert_int_equal(drained(&q, b->rig.other).jobs, 1);
	assert_kinds(b, "ab");
}

static void a_put_of_another_database_delays_no_other(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	put(&q, "a"); /* not reached from here yet: only the address is known */
	begin_again(b, "first");
	struct stored_drained out = drained(&q, b->rig.other);
	assert_int_equal(out.jobs, 1);
	put(&q, "was-for-first");
	begin_again(b, "second");
	send(&q, b->rig.other, "b"); /* drains first */
	put(&q, "c");
	assert_int_equal(drained(&q, b->rig.other).jobs, 1);
	assert_kinds(b, "abc");
	assert_set_aside("was-for-first");
}

static void what_is_known_of_another_address_is_not_used(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b), moved = q;
	struct spool *spool;
	struct spool_record one;
	struct arena a = ARENA_INIT;
	struct spool_options o = {.folder = folder};
	static const char *const wrong[] = {"", "x", "\xff\xff", "first and no more of the line\n"};
	begin_again(b, "first");
	send(&q, b->rig.other, "a");
	moved.url = "sqlite:/nowhere/other.db";
	for (size_t i = 0; i < 1 + sizeof wrong / sizeof *wrong; i++) {
		char path[80];
		put(i ? &q : &moved, "b");
		assert_int_equal(spool_open(&o, &spool, NULL), DEFIB_OK);
		assert_int_equal(spool_peek(spool, "jobs", false, &one, 1, 1000, &a), 1);
		assert_string_equal(one.database, "");
		assert_int_equal(spool_finish(spool, "jobs", &one, 1, NULL, NULL), DEFIB_OK);
		spool_close(spool);
		if (i == sizeof wrong / sizeof *wrong)
			break;
		snprintf(path, sizeof path, "%s/database", folder);
		FILE *file = fopen(path, "we");
		assert_non_null(file);
		fputs(wrong[i], file);
		fclose(file);
	}
	arena_release(&a);
}

static void without_its_table_nothing_is_taken_for_refused(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	struct stored_drained out = {0};
	struct failure f = {0};
	bench_sql(b, "DROP TABLE " TOKENS);
	put(&q, "a");
	assert_int_equal(stored_jobs_drain(&q, b->rig.other, &out, &f), DEFIB_BAD_SQL);
	assert_int_equal(f.advice, ADVISE_CREATE_QUEUE);
	assert_int_equal(out.refused, 0);
	assert_true(stored_jobs_waits(&q));
}

static void what_is_sent_stands_behind_what_waits(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	struct enqueue jobs[] = {job_of("b", NULL), job_of("c", NULL)};
	int64_t ids[2] = {0};
	struct stored_sent sent = {.ids = ids};
	struct failure f = {0};
	put(&q, "a");
	assert_int_equal(stored_jobs_send(&q, b->rig.other, jobs, 2, &sent, &f), DEFIB_OK);
	assert_false(sent.stored);
	assert_true(ids[0] > 0 && ids[1] == ids[0] + 1);
	assert_kinds(b, "abc");
}

static void more_than_a_batch_goes_in_in_order(void **state)
{
	struct bench *b = bench_of(state);
	struct stored_jobs q = queue_of(b);
	char kind[16];
	for (int i = 0; i < 210; i++) {
		snprintf(kind, sizeof kind, "%04d", i);
		put(&q, kind);
	}
	assert_int_equal(drained(&q, b->rig.other).jobs, 210);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE " AS a JOIN " JOBS_TABLE
	                                 " AS b ON b.id > a.id AND b.kind < a.kind"),
	                 0);
}

static void a_record_keeps_every_member(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	struct buf record = BUF_INIT;
	struct stored_put got;
	struct enqueue job = {.queue = "q\"\n",
	                      .kind = "k",
	                      .payload = "{\"a\": \"\\u0000é\"}",
	                      .delay_ms = 7,
	                      .priority = -3,
	                      .max_attempts = 9,
	                      .timeout_ms = 11,
	                      .unique_key = "u",
	                      .tags = "[\"t\"]"};
	struct stored_put put = {"token", "file /x", "5e4f", 1234, &job, 1};
	stored_put_write(&put, &record);
	assert_true(stored_put_read(buf_text(&record), record.len, &a, &got));
	assert_string_equal(got.token, "token");
	assert_string_equal(got.address, "file /x");
	assert_string_equal(got.database, "5e4f");
	assert_int_equal(got.at_ms, 1234);
	assert_string_equal(got.jobs->queue, job.queue);
	assert_string_equal(got.jobs->kind, job.kind);
	assert_string_equal(got.jobs->payload, job.payload);
	assert_string_equal(got.jobs->unique_key, job.unique_key);
	assert_string_equal(got.jobs->tags, job.tags);
	assert_int_equal(got.jobs->delay_ms, 7);
	assert_int_equal(got.jobs->priority, -3);
	assert_int_equal(got.jobs->max_attempts, 9);
	assert_int_equal(got.jobs->timeout_ms, 11);
	assert_false(stored_put_read("{\"token\":\"t\"}", 13, &a, &got));
	buf_release(&record);
	arena_release(&a);
}

static void a_delay_counts_from_the_put(void **state)
{
	(void)state;
	static const int64_t cases[][2] = {{1000, 500}, {1200, 300}, {1500, 0}, {9000, 0}, {10, 500}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct enqueue job = {.delay_ms = 500};
		struct stored_put put = {"t", "d", "", 1000, &job, 1};
		stored_put_count_delays(&put, cases[i][0]);
		assert_int_equal(job.delay_ms, cases[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(what_waits_goes_in_oldest_first),
		BOTH(a_drain_that_ends_between_commit_and_take_puts_nothing_in_twice),
		BOTH(what_was_sent_and_may_be_committed_is_kept_and_goes_in_once),
		BOTH(what_is_refused_for_ever_moves_aside_whole),
		BOTH(several_processes_fill_and_drain_it_at_once),
		BOTH(who_owns_the_folder_for_long_is_told),
		BOTH(jobs_of_another_database_are_left_alone),
		BOTH(jobs_of_another_database_at_the_address_are_set_aside),
		BOTH(a_put_of_another_database_delays_no_other),
		BOTH(what_is_known_of_another_address_is_not_used),
		BOTH(without_its_table_nothing_is_taken_for_refused),
		BOTH(what_is_sent_stands_behind_what_waits),
		BOTH(more_than_a_batch_goes_in_in_order),
		cmocka_unit_test(a_record_keeps_every_member),
		cmocka_unit_test(a_delay_counts_from_the_put),
	};
	assert_non_null(mkdtemp(base));
	snprintf(folder, sizeof folder, "%s/new", base);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return failed;
}
