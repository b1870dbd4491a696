/* SPDX-License-Identifier: Apache-2.0 */
/* retention_test.c: what is removed from defib's own tables, and what never is, on both engines. */
#include "ledger/retention.h"

#include "ledger/ledger_test.h"
#include "ledger/schema.h"
#include "store/fault_test.h"

#define HOUR (INT64_C(3600) * 1000000)

/* Everything is old after an hour, except the ledger. */
static const struct retention policy = {
	.enabled = true,
	.every_us = HOUR,
	.done_us = HOUR,
	.failed_us = 24 * HOUR,
	.workers_us = HOUR,
	.leases_us = HOUR,
	.tokens_us = HOUR,
	.messages_us = HOUR,
	.learned_us = HOUR,
	.ledger_us = 90 * DAY,
};

/* SQL for both: @ is the prefix, {n} the time n minutes ago. */
static const char *both(struct place *p, const char *text)
{
	struct buf out = BUF_INIT;
	bool pg = p->engine == STORE_POSTGRES;
	for (; *text; text++) {
		if (*text == '@') {
			buf_add(&out, pg ? "defib." : "defib_");
		} else if (*text == '{') {
			char *end;
			long n = strtol(text + 1, &end, 10);
			buf_addf(&out,
			         pg ? "(now() - %ld * interval '1 minute')"
			            : "(" SQLITE_NOW_MS " - %ld * 60000)",
			         n);
			text = end;
		} else {
			buf_addch(&out, *text);
		}
	}
	const char *sql = arena_strdup(&p->arena, buf_text(&out));
	buf_release(&out);
	return sql;
}

static int64_t number(struct place *p, const char *text)
{
	struct failure f = {0};
	struct store_rows rows;
	if (store_exec(p->store, both(p, text), NULL, 0, &p->arena, &rows, &f))
		fail_msg("%s", f.what);
	return row_int(&rows, 0, 0, 0);
}

static void open_queue(struct place *p, enum store_engine engine)
{
	static const char *const tables[] = {"job",      "job_data",    "worker", "lease",    "step",
	                                     "progress", "enqueued",    "meta",   "delivery", "learned",
	                                     "kept",     "alert",       "status", "setting",  "leader",
	                                     "act",      "step_attempt"};
	struct failure f = {0};
	open_place(p, engine);
	for (size_t i = 0; engine == STORE_SQLITE && i < sizeof tables / sizeof *tables; i++)
		run(p, arena_printf(&p->arena, "DROP TABLE IF EXISTS defib_%s", tables[i]));
	if (schema_install(p->store, SCHEMA_QUEUE, &f))
		fail_msg("%s", f.what);
}

static struct retention_round round_of(struct place *p, bool force)
{
	struct retention_round r;
	struct failure f = {0};
	if (retention_round(p->store, &policy, "test", force, 60000, &r, &f))
		fail_msg("%s", f.what);
	return r;
}

/* A job in a state, this many minutes after its end, with everything that can belong to it. */
static void put_job(struct place *p, int id, const char *state, int minutes)
{
	bool runs = strcmp(state, "running") == 0 || strcmp(state, "cancelling") == 0;
	run(p,
	    both(p, arena_printf(&p->arena,
	                         "INSERT INTO @job (id, queue, kind, state, owner, created_at, run_at, "
	                         "finished_at) VALUES (%d, 'q', 'k', '%s', %s, {%d}, {%d}, {%d})",
	                         id, state, runs ? "1" : "NULL", minutes, minutes, minutes)));
	run(p, both(p, arena_printf(&p->arena, "INSERT INTO @job_data (job, payload) VALUES (%d, '[]')",
	                            id)));
	run(p, both(p, arena_printf(&p->arena,
	                            "INSERT INTO @progress (job, epoch, at) VALUES (%d, 1, {0})", id)));
	run(p, both(p, arena_printf(&p->arena,
	                            "INSERT INTO @step (watch, job, step, position, state, epoch, "
	                            "finished_at) VALUES ('queue', '%d', 's', 1, 'done', 1, {%d})",
	                            id, minutes)));
	run(p,
	    both(p, arena_printf(&p->arena,
	                         "INSERT INTO @step_attempt (watch, job, step, position, outcome, "
	                         "epoch, ended_at) VALUES ('queue', '%d', 's', 1, 'failed', 1, {%d})",
	                         id, minutes)));
}

static void what_is_over_goes_and_the_rest_stays(enum store_engine engine)
{
	static const char *const counts[] = {"scheduled", "queued", "running", "cancelling", "held"};
	static const char *const bad[] = {"failed", "timed_out", "cancelled", "rolled_back"};
	struct place p;
	int id = 1;
	open_queue(&p, engine);
	put_job(&p, id++, "done", 90);
	put_job(&p, id++, "done", 30);
	for (int i = 0; i < 5; i++)
		put_job(&p, id++, counts[i], 100000);
	for (int i = 0; i < 4; i++)
		put_job(&p, id++, bad[i], 90);
	put_job(&p, id++, "failed", 25 * 60);
	struct retention_round r = round_of(&p, true);
	assert_int_equal(r.removed[RETAIN_DONE], 1);
	assert_int_equal(r.removed[RETAIN_FAILED], 1);
	assert_int_equal(number(&p, "SELECT count(*) FROM @job"), id - 3);
	assert_int_equal(number(&p, "SELECT count(*) FROM @job WHERE id IN (1, 12)"), 0);
	assert_int_equal(number(&p, "SELECT count(*) FROM @job_data"), id - 3);
	assert_int_equal(number(&p, "SELECT count(*) FROM @progress"), id - 3);
	assert_int_equal(number(&p, "SELECT count(*) FROM @step"), id - 3);
	assert_int_equal(number(&p, "SELECT count(*) FROM @step_attempt"), id - 3);
	close_place(&p);
}

/* An id is never reused, whatever was removed. */
static void ids_go_on_after_the_last_job_went(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	run(&p, both(&p, "INSERT INTO @job (queue, kind, state, created_at, run_at, finished_at) "
	                 "VALUES ('q', 'k', 'done', {90}, {90}, {90})"));
	int64_t last = number(&p, "SELECT max(id) FROM @job");
	round_of(&p, true);
	assert_int_equal(number(&p, "SELECT count(*) FROM @job"), 0);
	run(&p, both(&p, "INSERT INTO @job (queue, kind, created_at, run_at) VALUES ('q', 'k', {0}, "
	                 "{0})"));
	assert_true(number(&p, "SELECT max(id) FROM @job") > last);
	close_place(&p);
}

static void put_lease(struct place *p, const char *job, int epoch, const char *owner, int minutes)
{
	run(p, both(p, arena_printf(&p->arena,
	                            "INSERT INTO @lease (watch, job, epoch, owner, claimed_at) VALUES "
	                            "('w', '%s', %d, %s, {%d})",
	                            job, epoch, owner, minutes)));
}

static void put_step(struct place *p, const char *job, const char *step, int minutes)
{
	run(p, both(p, arena_printf(&p->arena,
	                            "INSERT INTO @step (watch, job, step, position, state, epoch, "
	                            "finished_at) VALUES ('w', '%s', '%s', 1, 'done', 1, {%d})",
	                            job, step, minutes)));
}

/* Epochs of a job always rise: its lease is removed only when its epoch is in the floor. */
static void leases_leave_their_epoch_as_a_floor(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	put_lease(&p, "old", 7, "NULL", 90);
	put_lease(&p, "young", 9, "NULL", 10);
	put_lease(&p, "owned", 3, "1", 90);
	put_lease(&p, "held", 2, "NULL", 90);
	run(&p, both(&p, "INSERT INTO @hold (table_key, watch, job, cause, batch) VALUES "
	                 "('" HELD_TABLE "', 'w', 'held', 'c', 'b')"));
	assert_int_equal(round_of(&p, true).removed[RETAIN_LEASES], 0);
	assert_int_equal(number(&p, "SELECT value FROM @meta WHERE name = 'lease_floor'"), 7);
	assert_int_equal(round_of(&p, true).removed[RETAIN_LEASES], 1);
	assert_int_equal(number(&p, "SELECT count(*) FROM @lease WHERE job = 'old'"), 0);
	assert_int_equal(number(&p, "SELECT count(*) FROM @lease"), 3);
	/* The floor never falls, whatever is left after a step: these are more than one removes. */
	run(&p,
	    both(&p, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= "
	             "1000) INSERT INTO @lease (watch, job, epoch, claimed_at) SELECT 'w', 'later-' "
	             "|| i, 5, {90} FROM n"));
	assert_int_equal(round_of(&p, true).removed[RETAIN_LEASES], 1001);
	assert_int_equal(number(&p, "SELECT value FROM @meta WHERE name = 'lease_floor'"), 7);
	close_place(&p);
}

static void attempts_at_steps_of_other_tables_go_by_their_age(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	for (int i = 1; i <= 2; i++)
		run(&p, both(&p, arena_printf(&p.arena,
		                              "INSERT INTO @step_attempt (watch, job, step, position, "
		                              "outcome, epoch, ended_at) VALUES ('w', '1', 's', 1, "
		                              "'failed', %d, {%d})",
		                              i, 100 - 40 * i)));
	assert_int_equal(round_of(&p, true).removed[RETAIN_ATTEMPTS], 1);
	assert_int_equal(number(&p, "SELECT epoch FROM @step_attempt"), 2);
	close_place(&p);
}

static void steps_of_a_job_go_together_or_stay(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	put_step(&p, "over", "a", 90);
	put_step(&p, "over", "b", 80);
	put_step(&p, "busy", "a", 90);
	put_step(&p, "busy", "b", 10);
	put_step(&p, "owned", "a", 90);
	put_lease(&p, "owned", 1, "1", 90);
	assert_int_equal(round_of(&p, true).removed[RETAIN_STEPS], 2);
	assert_int_equal(number(&p, "SELECT count(*) FROM @step WHERE job = 'over'"), 0);
	assert_int_equal(number(&p, "SELECT count(*) FROM @step"), 3);
	close_place(&p);
}

static void workers_go_when_nothing_is_theirs(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	const char *const rows[] = {"'left', {90}", "'dead', {90}", "'dead', {10}", "'alive', NULL",
	                            "'dead', {90}"};
	for (int i = 0; i < 5; i++)
		run(&p, both(&p, arena_printf(&p.arena,
		                              "INSERT INTO @worker (name, incarnation, started_at, "
		                              "renewed_at, expires_at, state, ended_at) VALUES ('w', '%d', "
		                              "{99}, {99}, {99}, %s)",
		                              i, rows[i])));
	int64_t last = number(&p, "SELECT max(id) FROM @worker");
	run(&p,
	    both(&p, arena_printf(&p.arena,
	                          "INSERT INTO @job (queue, kind, state, owner, created_at, run_at) "
	                          "VALUES ('q', 'k', 'running', %lld, {99}, {99})",
	                          (long long)last)));
	assert_int_equal(round_of(&p, true).removed[RETAIN_WORKERS], 2);
	assert_int_equal(number(&p, "SELECT count(*) FROM @worker"), 3);
	close_place(&p);
}

static void tokens_and_messages_go_by_their_age(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	run(&p, both(&p, "INSERT INTO @enqueued (token, at) VALUES ('a', {90}), ('b', {10})"));
	run(&p, both(&p, "INSERT INTO @delivery (sink, id, kind, document, made_at, due_at, ended, "
	                 "ended_at) VALUES ('s', 'a', 'k', '[]', {90}, {90}, 'sent', {90}), "
	                 "('s', 'b', 'k', '[]', {90}, {90}, NULL, NULL)"));
	run(&p,
	    both(&p, "INSERT INTO @learned (watch, kind, at, buckets) VALUES ('w', '', {90}, '[]'), "
	             "('w', 'k', {90}, '[]')"));
	struct retention_round r = round_of(&p, true);
	assert_int_equal(r.removed[RETAIN_TOKENS], 1);
	assert_int_equal(r.removed[RETAIN_MESSAGES], 1);
	assert_int_equal(r.removed[RETAIN_LEARNED], 1);
	close_place(&p);
}

static void a_round_is_done_by_one_and_leaves_its_numbers(enum store_engine engine)
{
	struct retention_state st;
	struct failure f = {0};
	struct place p;
	open_queue(&p, engine);
	for (int i = 1; i <= 3; i++)
		put_job(&p, i, "done", 30 * i);
	assert_true(round_of(&p, false).claimed);
	assert_false(round_of(&p, false).claimed);
	assert_int_equal(retention_read(p.store, &st, &f), DEFIB_OK);
	assert_true(st.known && st.ago_us >= 0 && st.ago_us < TEST_HANGS_MS * 1000LL);
	assert_int_equal(st.counts[RETAIN_DONE].removed, 2);
	assert_int_equal(st.counts[RETAIN_DONE].rows, 1);
	assert_true(st.counts[RETAIN_DONE].oldest_us >= HOUR / 2);
	assert_int_equal(st.counts[RETAIN_FAILED].rows, 0);
	assert_int_equal(st.counts[RETAIN_FAILED].oldest_us, -1);
	close_place(&p);
}

/* Whichever statement fails. What is removed before it stays removed, and in whole. */
static void a_round_whose_statement_fails_is_an_error(enum store_engine engine)
{
	struct place p;
	open_queue(&p, engine);
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_TIMEOUT};
		struct fault_store *s = (struct fault_store *)fault_wrap(p.store, &plan);
		struct retention_round r;
		struct failure f = {0};
		if (number(&p, "SELECT count(*) FROM @job") == 0)
			put_job(&p, nth, "done", 90);
		run(&p, both(&p, "DELETE FROM @lease"));
		put_lease(&p, "a", 7, "NULL", 90);
		defib_err err = retention_round(&s->base, &policy, "test", true, HOUR / 1000, &r, &f);
		fired = plan.fired;
		assert_int_equal(err, fired ? DEFIB_TIMEOUT : DEFIB_OK);
		assert_int_equal(number(&p, "SELECT count(*) FROM @job"),
		                 number(&p, "SELECT count(*) FROM @job_data"));
		free(s);
	}
	assert_int_equal(number(&p, "SELECT count(*) FROM @job"), 0);
	close_place(&p);
}

/*
 * Otherwise the last rule would get no turn on a slow database, and no round would be the last one.
 */
static void a_round_without_time_does_one_step_of_each_rule(enum store_engine engine)
{
	struct failure f = {0};
	struct retention_round r;
	struct place p;
	open_queue(&p, engine);
	put_job(&p, 1, "done", 90);
	run(&p,
	    both(&p, "INSERT INTO @learned (watch, kind, at, buckets) VALUES ('w', 'k', {90}, '[]')"));
	assert_int_equal(retention_round(p.store, &policy, "test", true, 0, &r, &f), DEFIB_OK);
	assert_int_equal(r.removed[RETAIN_DONE], 1);
	assert_int_equal(r.removed[RETAIN_LEARNED], 1);
	assert_false(r.more);
	close_place(&p);
}

static void the_ledger_is_pruned_when_it_is_a_day_late(enum store_engine engine)
{
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct place p;
	open_queue(&p, engine);
	append(&p, &e, 1, true);
	append(&p, &e, 1, true);
	make_older(&p, 90, "true");
	assert_int_equal(round_of(&p, false).removed[RETAIN_LEDGER], 0);
	run(&p, both(&p, "DELETE FROM @kept"));
	make_older(&p, 2, "id = 1");
	make_older(&p, 1, "id = 2");
	int64_t before = clock_wall_us() / US_PER_S;
	assert_int_equal(round_of(&p, false).removed[RETAIN_LEDGER], 2);
	assert_string_equal(cell(&p, "SELECT event FROM %s"), "PRUNED");
	/* Named by its time, so that each has a name of its own. */
	int64_t named = strtoll(cell(&p, "SELECT substr(batch, 11) FROM %s"), NULL, 10);
	assert_in_range(named, before, clock_wall_us() / US_PER_S);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(what_is_over_goes_and_the_rest_stays)                                                        \
	X(ids_go_on_after_the_last_job_went)                                                           \
	X(leases_leave_their_epoch_as_a_floor)                                                         \
	X(steps_of_a_job_go_together_or_stay)                                                          \
	X(attempts_at_steps_of_other_tables_go_by_their_age)                                           \
	X(workers_go_when_nothing_is_theirs)                                                           \
	X(tokens_and_messages_go_by_their_age)                                                         \
	X(a_round_is_done_by_one_and_leaves_its_numbers)                                               \
	X(a_round_whose_statement_fails_is_an_error)                                                   \
	X(a_round_without_time_does_one_step_of_each_rule)                                             \
	X(the_ledger_is_pruned_when_it_is_a_day_late)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
