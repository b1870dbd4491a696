/* SPDX-License-Identifier: Apache-2.0
 * source_settle_test.c: the rules of what an end means exist in C (workflow.h) and as SQL: they
 * must agree for every outcome, state and number of attempts, on both engines.
 */
#include "worker/source_queue.h"
#include "worker/source_test.h"
#include "worker/workflow.h"

#define MAX_ATTEMPTS 3
#define DELAY_MS 3600000
#define ENDS (2 * MAX_ATTEMPTS * 2 * SETTLE_COUNT)

/* The nth combination. */
static struct settle_facts nth_facts(int n)
{
	return (struct settle_facts){
		.as = (enum settle_as)(n % SETTLE_COUNT),
		.cancelling = n / SETTLE_COUNT % 2,
		.delay_ms = n / (2 * SETTLE_COUNT) % 2 ? DELAY_MS : -1,
		.attempts = n / (4 * SETTLE_COUNT) + 2,
		.max_attempts = MAX_ATTEMPTS,
	};
}

static void add_job(struct bench *b, int id, int64_t worker, const struct settle_facts *f)
{
	char sql[512];
	snprintf(sql, sizeof sql,
	         "INSERT INTO " JOBS_TABLE
	         " (id, queue, kind, created_at, run_at, epoch, owner, attempts, "
	         "max_attempts, state, cause, error) VALUES (%d, 'q', 'k', "
	         "PG('2001-01-01'|0), PG('2001-01-01'|0), 4, %lld, %lld, %d, '%s', 'lost', 'before')",
	         id, (long long)worker, (long long)f->attempts, MAX_ATTEMPTS,
	         f->cancelling ? "cancelling" : "running");
	bench_sql(b, sql);
}

/* The resulting state of a job, as text. */
static const char *became(struct bench *b, int id)
{
	const char *sql = bench_text(
		b, "SELECT state || ' attempts ' || attempts || ' crashes ' || crashes || ' over ' || "
		   "CASE WHEN finished_at IS NULL THEN 0 ELSE 1 END || ' cause ' || coalesce(cause, '-') "
		   "|| ' error ' || coalesce(error, '-') || ' owner ' || coalesce(PG(owner::text|owner), "
		   "'-') || CASE WHEN run_at < PG('2002-01-01'|1000) THEN '' WHEN run_at > ");
	struct buf all = BUF_INIT;
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};
	buf_addf(&all, "%s%s THEN ' waits as told' ELSE ' waits' END FROM %s WHERE id = %d", sql,
	         b->rig.engine == STORE_POSTGRES ? "clock_timestamp() + interval '50 minutes'"
	                                         : SQLITE_NOW " + 3000000",
	         b->rig.engine == STORE_POSTGRES ? "defib.job" : "defib_job", id);
	if (store_exec(b->two, buf_text(&all), NULL, 0, &a, &rows, &f))
		fail_msg("%s", f.what);
	const char *text = arena_strdup(&b->arena, row_text(&rows, 0, 0));
	buf_release(&all);
	arena_release(&a);
	return text;
}

static const char *expected(struct bench *b, const struct settle_facts *f)
{
	const struct settle_result r = settle_after(f);
	const char *waits = r.after != AFTER_RETRY ? "" : r.wait_ms >= 0 ? " waits as told" : " waits";
	return arena_printf(&b->arena,
	                    "%s attempts %lld crashes %d over %d cause %s error %s owner -%s", r.state,
	                    (long long)r.attempts, r.crashed, r.over,
	                    r.keeps_cause ? "lost"
	                    : r.cause     ? r.cause
	                                  : "-",
	                    r.keeps_cause ? "before" : "after", waits);
}

static void ends_are_written_as_the_rule_says(void **state)
{
	struct bench *b = bench_of(state);
	struct settlement ends[ENDS];
	struct failure f = {0};
	b->source = source_queue("q", NULL);
	int64_t w = bench_worker(b);
	for (int i = 0; i < ENDS; i++) {
		const struct settle_facts facts = nth_facts(i);
		add_job(b, i + 1, w, &facts);
		ends[i] = (struct settlement){.key = arena_printf(&b->arena, "%d", i + 1),
		                              .epoch = 4,
		                              .as = facts.as,
		                              .error = "after",
		                              .delay_ms = facts.delay_ms};
	}
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, ends, ENDS, &b->arena, &f), 0);
	for (int i = 0; i < ENDS; i++) {
		const struct settle_facts facts = nth_facts(i);
		assert_true(ends[i].accepted);
		assert_string_equal(became(b, i + 1), expected(b, &facts));
	}
}

/* The short path for ends that are simply done gives the same result. */
static void plain_ends_are_written_as_the_rule_says(void **state)
{
	struct bench *b = bench_of(state);
	struct settlement ends[2];
	b->source = source_queue("q", NULL);
	int64_t w = bench_worker(b);
	for (int i = 0; i < 2; i++) {
		struct settle_facts facts = {.as = SETTLE_DONE, .cancelling = i, .attempts = 1};
		add_job(b, i + 1, w, &facts);
		ends[i] = (struct settlement){.key = i ? "2" : "1", .epoch = 4, .delay_ms = -1};
	}
	struct turn_part p = {.worker = w, .ends = ends, .nends = 2};
	assert_int_equal(source_turn(b->source, b->two, &p, &b->arena), DEFIB_OK);
	for (int i = 0; i < 2; i++)
		assert_string_equal(became(b, i + 1),
		                    "done attempts 1 crashes 0 over 1 cause - error - owner -");
}

/* Jobs 1 has a step that is done, job 2 has none. */
static const char *step_after_in_sql(struct bench *b, const struct step_facts *f)
{
	struct store_param params[] = {
		P_TEXT(settle_names[f->as]),
		P_TEXT(f->more ? "{\"more\": true}" : "{\"more\": false}"),
		P_TEXT(arena_printf(&b->arena,
	                        "{\"id\": %d, \"state\": \"%s\", \"undoing\": %s, \"saga\": %s, "
	                        "\"attempts\": %d, \"max_attempts\": 3}",
	                        f->any_done ? 1 : 2, f->cancelling ? "cancelling" : "running",
	                        f->undoing ? "true" : "false", f->saga ? "true" : "false",
	                        f->attempts_left ? 2 : 3)),
	};
	struct store_rows rows;
	struct failure why = {0};
	if (store_exec(b->two,
	               "SELECT defib.step_after($1, $2::jsonb, jsonb_populate_record(NULL::defib.job, "
	               "$3::jsonb))",
	               params, 3, &b->arena, &rows, &why))
		fail_msg("%s", why.what);
	return row_text(&rows, 0, 0);
}

static void step_after_is_the_same_in_sql(void **state)
{
	struct bench *b = bench_of(state);
	bench_sql(b, "INSERT INTO defib.step (watch, job, step, position, state, epoch) VALUES "
	             "('queue', '1', 'a', 1, 'done', 1)");
	for (int n = 0; n < SETTLE_COUNT * 64; n++) {
		int bits = n / SETTLE_COUNT;
		const struct step_facts f = {
			.as = (enum settle_as)(n % SETTLE_COUNT),
			.more = bits & 1,
			.undoing = bits & 2,
			.cancelling = bits & 4,
			.saga = bits & 8,
			.any_done = bits & 16,
			.attempts_left = bits & 32,
		};
		assert_string_equal(step_after_in_sql(b, &f), step_after_names[step_after(&f)]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(ends_are_written_as_the_rule_says),
		BOTH(plain_ends_are_written_as_the_rule_says),
		{"step_after_is_the_same_in_sql", step_after_is_the_same_in_sql, setup_postgres, teardown,
	     NULL},
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
