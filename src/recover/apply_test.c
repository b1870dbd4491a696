/* SPDX-License-Identifier: Apache-2.0
 * apply_test.c: a row that changes at any point of apply is left alone.
 *
 * The session under test is wrapped: right before a chosen statement of apply another session acts,
 * like a worker that comes back at the worst moment. The tests also show what it can no longer do
 * at that point, because the row is locked.
 */
#include "recover/apply.h"

#include "base/text.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "recover/recover_test.h"

/* The moments at which the other session may act. */
enum point { BEFORE_BEGIN, BEFORE_LOCK, BEFORE_REREAD, BEFORE_WRITE, NEVER };

struct hooked {
	struct store base;
	struct store *inner;
	struct store *rival; /* the other session; gives up soon where a lock is held */
	const struct watch_sql *sql;
	enum point point;
	const char *act; /* what the other session does then */
	bool fired;
	int wholes; /* statements that did all at once */
	defib_err answer;
};

static struct hooked *of(struct store *s)
{
	return (struct hooked *)s;
}

static void fire(struct hooked *h, bool now)
{
	struct failure f = {0};
	if (!now || h->fired)
		return;
	h->fired = true;
	h->answer = run(h->rival, h->act, &f);
}

/* Batches are written as a whole if possible, otherwise singly: each test runs both ways. */
static bool singly;

/* Lock, second reading and write in one. */
static bool is_whole(const char *sql)
{
	return text_starts(sql, "WITH defib_w");
}

static bool is_write(const struct watch_sql *q, const char *sql)
{
	for (int r = 0; r < REMEDY_COUNT; r++)
		for (int i = 0; i < q->nwrites[r]; i++)
			if (q->writes[r][i].sql == sql)
				return true;
	return false;
}

static defib_err hooked_exec(struct store *s, const char *sql, const struct store_param *params,
                             int nparams, struct arena *a, struct store_rows *rows,
                             struct failure *f)
{
	struct hooked *h = of(s);
	h->wholes += is_whole(sql);
	fire(h, h->point == BEFORE_LOCK &&
	            (sql == h->sql->lock || sql == h->sql->lock_signs || is_whole(sql)));
	fire(h, h->point == BEFORE_REREAD && sql == h->sql->reread);
	fire(h, h->point == BEFORE_WRITE && is_write(h->sql, sql));
	return store_exec(h->inner, sql, params, nparams, a, rows, f);
}

static defib_err hooked_describe(struct store *s, const char *sql, struct arena *a,
                                 struct store_column **cols, int *ncols, struct failure *f)
{
	return store_describe(of(s)->inner, sql, a, cols, ncols, f);
}

static defib_err hooked_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	fire(of(s), of(s)->point == BEFORE_BEGIN && mode != TX_READ);
	return store_begin(of(s)->inner, mode, f);
}

static defib_err hooked_commit(struct store *s, struct failure *f)
{
	return store_commit(of(s)->inner, f);
}

static void hooked_rollback(struct store *s)
{
	store_rollback(of(s)->inner);
}

static void hooked_close(struct store *s)
{
	store_close(of(s)->inner);
}

static const struct store_ops hooked_ops = {
	.exec = hooked_exec,
	.describe = hooked_describe,
	.begin = hooked_begin,
	.commit = hooked_commit,
	.rollback = hooked_rollback,
	.close = hooked_close,
};

/* One job, looked at, judged and decided, with apply about to begin. */
struct trial {
	struct rig rig;
	struct hooked store;
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger;
	struct candidate job;
};

RIG_SETUP(struct trial, place_open_with_tables, NULL)

static int teardown(void **state)
{
	struct trial *t = *state;
	if (t->store.inner) {
		store_close(&t->store.base);
		store_close(t->store.rival);
	}
	return rig_teardown(state);
}

/* Everything up to the decision, over a table with one stuck job. */
static void decide_on_job(struct trial *t, const char *sign, const char *rules)
{
	struct rig *g = &t->rig;
	struct failure f = {0};
	struct facts *facts;
	int n = 0;
	if (!g->other)
		need_env("DEFIB_TEST_PG");
	rig_fill(g, 1);
	const struct watch *w = rig_watch(g, sign, rules);
	struct store *inner = open_with((struct store_options){.url = g->url});
	t->store =
		(struct hooked){.base = *inner,
	                    .inner = inner,
	                    .rival = open_with((struct store_options){.url = g->url, .lock_ms = 50}),
	                    .sql = &t->sql,
	                    .point = NEVER};
	t->store.base.ops = &hooked_ops;
	struct store *s = &t->store.base;
	assert_int_equal(watch_bind(w, s, &g->arena, &t->binding, &f), DEFIB_OK);
	assert_int_equal(watch_compile(&t->binding, &g->arena, &t->sql, &f), DEFIB_OK);
	if (singly)
		memset(t->sql.whole, 0, sizeof t->sql.whole);
	assert_int_equal(ledger_open(s, true, &t->ledger, &f), DEFIB_OK);
	assert_int_equal(look_page(&(struct look){s, &t->sql, &t->ledger, &g->arena}, NULL, 10, NULL,
	                           &facts, &n, &f),
	                 DEFIB_OK);
	assert_int_equal(n, 1);
	struct judgement j = judge(w, &facts[0]);
	struct scan_options o = {.fix = true};
	candidate_prepare(w, &facts[0], &j, &o, true, &g->arena, &t->job);
	assert_true(t->job.decision.act);
}

static struct apply apply_of(struct trial *t)
{
	return (struct apply){.store = &t->store.base,
	                      .sql = &t->sql,
	                      .ledger = &t->ledger,
	                      .actor = "test",
	                      .batch = "batch",
	                      .lock_signs = t->sql.lock_signs != NULL};
}

static enum outcome apply_with(struct trial *t, enum point point, const char *act)
{
	struct failure f = {0};
	struct apply ap = apply_of(t);
	t->store.point = point;
	t->store.act = act;
	t->store.fired = false;
	defib_err err = apply_batch(&ap, &t->job, 1, &t->rig.arena, &f);
	if (err)
		fail_msg("%s", f.what);
	assert_true(point == NEVER || t->store.fired);
	return t->job.outcome;
}

#define RULES                                                                                      \
	"    remedies: [{when: \"flag = 0\", do: requeue}, {do: fail}]\n" RIG_REQUEUE                  \
	"    fail: status = 'failed'\n"

static void leaves(struct trial *t, enum point point, const char *act)
{
	assert_int_equal(apply_with(t, point, act), OUTCOME_CHANGED);
	assert_int_equal(t->store.answer, DEFIB_OK);
	assert_int_equal(rig_requeued(&t->rig), 0);
	assert_int_equal(number(t->rig.other, "SELECT count(*) FROM jobs WHERE status = 'failed'"), 0);
	assert_int_equal(rig_entries(&t->rig), 0);
}

/* The change comes at the last moment at which another session can make it. */
static void left_when(void **state, const char *act)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	leaves(t, t->rig.engine == STORE_POSTGRES ? BEFORE_LOCK : BEFORE_BEGIN, act);
}

static void same_row_is_recovered(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_RECOVERED);
	assert_int_equal(rig_requeued(&t->rig), 1);
	assert_int_equal(t->store.wholes, t->rig.engine == STORE_POSTGRES && !singly);
	rig_agrees(&t->rig);
}

/* What the write of the user reads: facts of the job, and when a retry is due. */
#define SAYS_SO                                                                                    \
	"status = 'queued', owner = NULL, kind = :owner, flag = :attempt, error = CASE WHEN "          \
	":retry_at IS NULL THEN 'no time' ELSE :verdict END"

static void write_reads_the_facts_of_its_job(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", "    remedies: [{do: retry}]\n    retry: \"" SAYS_SO "\"\n");
	t->job.retry_us = t->job.facts.now_us;
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_RECOVERED);
	assert_int_equal(number(t->rig.other, "SELECT count(*) FROM jobs WHERE kind = 'w1' AND "
	                                      "flag = 1 AND error = 'silent'"),
	                 1);
}

static void write_of_a_requeue_has_no_time_of_a_retry(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", "    requeue: \"" SAYS_SO "\"\n");
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_RECOVERED);
	assert_int_equal(number(t->rig.other, "SELECT count(*) FROM jobs WHERE error = 'no time'"), 1);
}

static void new_owner_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET owner = 'w9'");
}

static void owner_that_went_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET owner = NULL");
}

static void new_attempt_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET attempts = 2");
}

static void new_sign_of_life_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET beat_at = beat_at + 1");
}

static void row_that_is_done_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET status = 'done'");
}

static void new_rule_condition_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET flag = 1");
}

static void new_kind_is_left(void **state)
{
	left_when(state, "UPDATE jobs SET kind = 'b'");
}

static void deleted_row_is_left(void **state)
{
	left_when(state, "DELETE FROM jobs");
}

/* An undo, and the second phase of a retry, depend on columns that are not facts. */
static void column_that_was_expected_otherwise_is_left(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	t->job.expected = "{\"error\": null}";
	leaves(t, t->rig.engine == STORE_POSTGRES ? BEFORE_LOCK : BEFORE_BEGIN,
	       "UPDATE jobs SET error = 'a note'");
}

static void column_that_is_as_expected_is_no_hindrance(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	t->job.expected = "{\"error\": null}";
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_RECOVERED);
	assert_int_equal(rig_requeued(&t->rig), 1);
}

/* An operator's hold is a row of ours, and leaves the job's row unchanged. */
static void job_that_was_put_on_hold_is_left(void **state)
{
	struct trial *t = *state;
	bool pg = t->rig.engine == STORE_POSTGRES;
	decide_on_job(t, "beat_at", RULES);
	leaves(t, pg ? BEFORE_LOCK : BEFORE_BEGIN,
	       pg ? "INSERT INTO defib.hold (table_key, watch, job, cause, batch) VALUES ('public.jobs "
	            "(id)', 'jobs', '1', 'operator', 'b')"
	          : "INSERT INTO defib_hold (table_key, watch, job, cause, batch) VALUES ('jobs (id)', "
	            "'jobs', '1', 'operator', 'b')");
}

static void change_before_begin_is_left(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	leaves(t, BEFORE_BEGIN, "UPDATE jobs SET owner = 'w9'");
}

/* Columns that are not judged may change: the row is recovered and keeps the change. */
static void other_columns_do_not_matter(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	assert_int_equal(apply_with(t, BEFORE_BEGIN, "UPDATE jobs SET error = 'a note'"),
	                 OUTCOME_RECOVERED);
	rig_agrees(&t->rig);
}

#define BEATS "(SELECT b.at FROM beats b WHERE b.job = t.id)"
#define BEAT "UPDATE beats SET at = at + 1"

static void beat_in_another_table_before_begin_is_seen(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, BEATS, RULES);
	leaves(t, BEFORE_BEGIN, BEAT);
}

/* The lock statement has an older snapshot: only a new statement sees this beat. */
static void beat_in_another_table_that_may_not_be_locked_is_seen(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, BEATS, RULES);
	t->sql.lock_signs = NULL;
	leaves(t, BEFORE_REREAD, BEAT);
}

/* The row of the beat is locked with the job: until the commit no beat can arrive. */
static void beat_in_another_table_waits_for_the_commit(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, BEATS, RULES);
	assert_int_equal(apply_with(t, BEFORE_REREAD, BEAT), OUTCOME_RECOVERED);
	assert_int_equal(t->store.answer, DEFIB_LOCKED);
}

static void beat_in_another_table_that_is_under_way_is_left(void **state)
{
	struct trial *t = *state;
	struct failure f = {0};
	decide_on_job(t, BEATS, RULES);
	struct store *beating = open_with((struct store_options){.url = t->rig.url});
	assert_int_equal(store_begin(beating, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(run(beating, BEAT, &f), DEFIB_OK);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_LOCKED);
	store_close(beating);
	assert_int_equal(rig_requeued(&t->rig), 0);
}

#define STATES                                                                                     \
	"    remedies: [{when: \"EXISTS (SELECT 1 FROM beats b WHERE b.job = t.id AND b.at = "         \
	"1577836800)\", do: requeue}, {do: fail}]\n" RIG_REQUEUE "    fail: status = 'failed'\n"

static void state_in_another_table_that_is_being_written_is_left(void **state)
{
	struct trial *t = *state;
	struct failure f = {0};
	decide_on_job(t, "beat_at", STATES);
	struct store *ending = open_with((struct store_options){.url = t->rig.url});
	assert_int_equal(store_begin(ending, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(run(ending, BEAT, &f), DEFIB_OK);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_LOCKED);
	store_close(ending);
	assert_int_equal(rig_requeued(&t->rig), 0);
}

static void state_in_another_table_cannot_change_before_the_commit(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, "beat_at", STATES);
	assert_int_equal(apply_with(t, BEFORE_WRITE, BEAT), OUTCOME_RECOVERED);
	assert_int_equal(t->store.answer, DEFIB_LOCKED);
}

/* A row that nobody locked for the user's own statement, and that changed since the snapshot. */
static void a_statement_does_not_overwrite_what_was_committed_meanwhile(void **state)
{
	struct trial *t = *state;
	struct failure f = {0};
	decide_on_job(t, "beat_at",
	              "    requeue: {sql: [\"UPDATE beats SET at = 1 FROM stuck s WHERE job = s.id\", "
	              "\"UPDATE jobs SET status = 'queued' WHERE id IN (SELECT id FROM stuck)\"]}\n");
	struct apply ap = apply_of(t);
	t->store.point = BEFORE_WRITE;
	t->store.act = "UPDATE beats SET at = 2";
	assert_int_equal(apply_batch(&ap, &t->job, 1, &t->rig.arena, &f), DEFIB_LOCKED);
	assert_true(t->store.fired && ap.unlocked_row);
	assert_int_equal(f.reason, REASON_SERIALIZATION);
	assert_int_equal(number(t->rig.other, "SELECT at FROM beats"), 2);
	assert_int_equal(rig_entries(&t->rig), 0);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_RECOVERED);
}

/*
 * From the lock to the commit no other session can change the row, so nothing is missed. Only the
 * single statements leave a moment between them.
 */
static void locked_row_cannot_change(void **state)
{
	static const enum point points[] = {BEFORE_REREAD, BEFORE_WRITE};
	static const char *const acts[] = {"UPDATE jobs SET owner = 'w9'", "DELETE FROM jobs"};
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	memset(t->sql.whole, 0, sizeof t->sql.whole);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(apply_with(t, points[i % 2], acts[i / 2]), OUTCOME_RECOVERED);
		assert_int_equal(t->store.answer, DEFIB_LOCKED);
		assert_int_equal(rig_requeued(&t->rig), 1);
		rig_sql(&t->rig, "UPDATE jobs SET status = 'running', owner = 'w1', error = NULL");
	}
}

/* On SQLite the whole database is locked, including the tables of beats. */
static void no_beat_comes_between_on_sqlite(void **state)
{
	struct trial *t = *state;
	decide_on_job(t, BEATS, RULES);
	assert_int_equal(apply_with(t, BEFORE_REREAD, BEAT), OUTCOME_RECOVERED);
	assert_int_equal(t->store.answer, DEFIB_LOCKED);
}

static void locked_row_is_skipped_and_its_holder_named(void **state)
{
	struct trial *t = *state;
	struct failure f = {0};
	decide_on_job(t, "beat_at", RULES);
	struct store *holder = open_with((struct store_options){.url = t->rig.url});
	int64_t pid = number(holder, "SELECT pg_backend_pid()");
	assert_int_equal(store_begin(holder, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(run(holder, "SELECT 1 FROM jobs FOR UPDATE", &f), DEFIB_OK);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_LOCKED);
	struct apply ap = apply_of(t);
	apply_blockers(&ap, &t->job, 1, &t->rig.arena);
	assert_int_equal(t->job.blocker_pid, pid);
	store_close(holder);
	assert_int_equal(rig_requeued(&t->rig), 0);
	assert_int_equal(rig_entries(&t->rig), 0);
}

static void write_that_fails_leaves_no_entry(void **state)
{
	static const char *const refuse[] = {
		[STORE_POSTGRES] = "ALTER TABLE jobs ADD CHECK (status <> 'queued')",
		[STORE_SQLITE] =
			"CREATE TRIGGER no BEFORE UPDATE ON jobs BEGIN SELECT raise(ABORT, 'no'); END",
	};
	struct trial *t = *state;
	struct failure f = {0};
	decide_on_job(t, "beat_at", RULES);
	rig_sql(&t->rig, refuse[t->rig.engine]);
	struct apply ap = apply_of(t);
	assert_int_equal(apply_batch(&ap, &t->job, 1, &t->rig.arena, &f), DEFIB_CONSTRAINT);
	assert_false(t->store.base.in_tx);
	assert_int_equal(rig_requeued(&t->rig), 0);
	assert_int_equal(rig_entries(&t->rig), 0);
}

static void write_kept_back_by_a_trigger_is_refused(void **state)
{
	static const char *const keep[] = {
		[STORE_POSTGRES] =
			"CREATE TRIGGER keep BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION keep()",
		[STORE_SQLITE] =
			"CREATE TRIGGER keep BEFORE UPDATE ON jobs BEGIN SELECT raise(IGNORE); END",
	};
	struct trial *t = *state;
	decide_on_job(t, "beat_at", RULES);
	if (t->rig.engine == STORE_POSTGRES)
		rig_sql(&t->rig, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS "
		                 "'BEGIN RETURN NULL; END'");
	rig_sql(&t->rig, keep[t->rig.engine]);
	assert_int_equal(apply_with(t, NEVER, NULL), OUTCOME_REFUSED);
	assert_non_null(t->job.refusal);
	assert_int_equal(rig_entries(&t->rig), 0);
}

#define POSTGRES(f)                                                                                \
	{                                                                                              \
#f, f, setup_postgres, teardown, NULL                                                      \
	}
#define SQLITE(f)                                                                                  \
	{                                                                                              \
#f, f, setup_sqlite, teardown, NULL                                                        \
	}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(same_row_is_recovered),
		BOTH(write_reads_the_facts_of_its_job),
		BOTH(write_of_a_requeue_has_no_time_of_a_retry),
		BOTH(new_owner_is_left),
		BOTH(owner_that_went_is_left),
		BOTH(new_attempt_is_left),
		BOTH(new_sign_of_life_is_left),
		BOTH(row_that_is_done_is_left),
		BOTH(new_rule_condition_is_left),
		BOTH(new_kind_is_left),
		BOTH(deleted_row_is_left),
		BOTH(column_that_was_expected_otherwise_is_left),
		BOTH(column_that_is_as_expected_is_no_hindrance),
		BOTH(job_that_was_put_on_hold_is_left),
		BOTH(change_before_begin_is_left),
		BOTH(other_columns_do_not_matter),
		POSTGRES(state_in_another_table_that_is_being_written_is_left),
		POSTGRES(state_in_another_table_cannot_change_before_the_commit),
		POSTGRES(a_statement_does_not_overwrite_what_was_committed_meanwhile),
		BOTH(beat_in_another_table_before_begin_is_seen),
		POSTGRES(beat_in_another_table_that_may_not_be_locked_is_seen),
		POSTGRES(beat_in_another_table_waits_for_the_commit),
		POSTGRES(beat_in_another_table_that_is_under_way_is_left),
		BOTH(locked_row_cannot_change),
		SQLITE(no_beat_comes_between_on_sqlite),
		POSTGRES(locked_row_is_skipped_and_its_holder_named),
		BOTH(write_that_fails_leaves_no_entry),
		BOTH(write_kept_back_by_a_trigger_is_refused),
	};
	int failed = cmocka_run_group_tests_name("whole", tests, NULL, NULL);
	singly = true;
	return failed + cmocka_run_group_tests_name("singly", tests, NULL, NULL);
}
