/* SPDX-License-Identifier: Apache-2.0
 * scan_test.c: a scan whose database fails at any call, in any way.
 *
 * Each class of failure is injected before and after each begin, statement and commit of a scan of
 * six jobs. Whatever the result, rows and ledger must agree, nothing may be recovered twice, what
 * is reported is what was done, and a second scan must finish the rest.
 */
#include "recover/scan.h"

#include "recover/recover_test.h"
#include "store/fault_test.h"

#define JOBS 6

/* Tests do not wait for the pauses between tries. */
int usleep(useconds_t us)
{
	(void)us;
	return 0;
}

/* The faults of the next session that is opened. */
static struct fault_plan *plan;
static int opened, refused;

static defib_err open_faulty(const struct store_options *options, struct store **out,
                             struct failure *f)
{
	if (opened++ < refused && opened > 1) {
		*out = NULL;
		return fail(f, DEFIB_CONNECTION, "rig: refused");
	}
	defib_err err = store_open(options, out, f);
	if (!err && plan)
		*out = fault_wrap(*out, plan);
	return err;
}

static void prepare(struct rig *g)
{
	plan = NULL;
	opened = refused = 0;
	rig_fill(g, JOBS);
}

/* A scan makes the tables that it needs, also under faults. */
RIG_IN(place_open, prepare)

static const struct watch *watch_of(struct rig *g)
{
	return rig_watch(g, "beat_at", "    batch: 2\n" RIG_REQUEUE);
}

static struct scan_result scan(struct rig *g, struct fault_plan *with, bool ledger_off)
{
	struct session session = rig_session(g);
	session.open = open_faulty;
	struct scan_options o = {.fix = true, .actor = "test", .ledger_off = ledger_off};
	struct scan_result r;
	plan = with;
	opened = 0;
	scan_watch(&session, &g->settings.watches[0], &o, &r);
	store_close(session.store);
	plan = NULL;
	return r;
}

static void start_over(struct rig *g)
{
	rig_sql(g, "UPDATE jobs SET status = 'running', owner = 'w' || id, error = NULL");
	if (g->engine == STORE_POSTGRES) {
		/* Without its triggers, and without a lock on the table that autovacuum could hold. */
		rig_sql(g, "SET session_replication_role = replica");
		rig_sql(g, "DELETE FROM defib.ledger");
		rig_sql(g, "SET session_replication_role = origin");
		return;
	}
	rig_sql(g, "DELETE FROM defib_ledger_seal WHERE next_id IS NOT NULL");
	rig_sql(g, "DELETE FROM defib_ledger");
}

/* What must hold after a scan that met a failure, and after the one that follows it. */
static void holds_after(struct rig *g, const struct scan_result *r, const struct fault_plan *p)
{
	const int64_t *n = r->outcomes;
	char where[160];
	snprintf(where, sizeof where, "%s %s call %d of kind %d", defib_err_name(p->code),
	         p->when == FAULT_BEFORE ? "before" : "after", p->nth, (int)p->call);
	if (!p->fired)
		fail_msg("%s: it never came", where);
	rig_agrees(g);
	if (n[OUTCOME_RECOVERED] != rig_entries(g))
		fail_msg("%s: %d reported, %d in the ledger", where, (int)n[OUTCOME_RECOVERED],
		         (int)rig_entries(g));
	if (r->failure.code && r->failure.code != p->code)
		fail_msg("%s: surfaced as %s: %s", where, defib_err_name(r->failure.code), r->failure.what);
	struct scan_result again = scan(g, NULL, false);
	if (again.failure.code || n[OUTCOME_RECOVERED] + again.outcomes[OUTCOME_RECOVERED] != JOBS)
		fail_msg("%s: the next scan did not finish: %s", where, again.failure.what);
	rig_agrees(g);
	assert_int_equal(rig_entries(g), JOBS);
}

static bool helped_by_trying(defib_err code)
{
	return code == DEFIB_LOCKED || code == DEFIB_CONNECTION || code == DEFIB_UNKNOWN_OUTCOME;
}

/* By the store's contract only an unknown outcome can come after a commit that was done. */
static bool possible(enum fault_call call, int when, defib_err code)
{
	return call != FAULT_COMMIT || when == FAULT_BEFORE || code == DEFIB_UNKNOWN_OUTCOME;
}

/*
 * The tested code is above the store and the same on both engines. A scan on PostgreSQL costs ten
 * times as much, so there each call fails in each way, but not every failure comes before and after
 * each call.
 */
static bool left_to_sqlite(const struct rig *g, const struct fault_plan *p)
{
	return g->engine == STORE_POSTGRES && p->call != FAULT_COMMIT &&
	       (p->nth + (int)p->when + (int)p->code) % 2 == 0;
}

/* `code` at every call of a kind. */
static void everywhere(struct rig *g, enum fault_call call, defib_err code)
{
	struct fault_plan count = {.nth = 0, .code = code};
	assert_int_equal(scan(g, NULL, false).failure.code, DEFIB_OK); /* makes the ledger */
	start_over(g);
	assert_int_equal(scan(g, &count, false).failure.code, DEFIB_OK);
	for (int nth = 1; nth <= count.seen[call]; nth++)
		for (int when = FAULT_BEFORE; when <= FAULT_AFTER; when++) {
			struct fault_plan p = {
				.call = call, .nth = nth, .when = (enum fault_when)when, .code = code};
			if (!possible(call, when, code) || left_to_sqlite(g, &p))
				continue;
			start_over(g);
			struct scan_result r = scan(g, &p, false);
			if (helped_by_trying(code) && r.failure.code)
				fail_msg("%s at call %d was not tried again: %s", defib_err_name(code), nth,
				         r.failure.what);
			holds_after(g, &r, &p);
		}
}

/* One code for each reaction, then those that are handled like one of these. */
static const defib_err codes[] = {
	DEFIB_CONNECTION, DEFIB_LOCKED,     DEFIB_CONSTRAINT, DEFIB_IO,   DEFIB_UNKNOWN_OUTCOME,
	DEFIB_TIMEOUT,    DEFIB_PERMISSION, DEFIB_READ_ONLY,  DEFIB_FULL, DEFIB_BAD_SQL,
	DEFIB_DATABASE,
};
enum { REACTIONS = 4, WITH_UNKNOWN = 5, CODES = sizeof codes / sizeof *codes };

static void with_codes(struct rig *g, enum fault_call call, int most)
{
	watch_of(g);
	for (int i = 0; i < most && !(g->engine == STORE_POSTGRES && i >= WITH_UNKNOWN); i++)
		everywhere(g, call, codes[i]);
}

static void any_failure_of_a_commit_is_sorted_out(void **state)
{
	with_codes(*state, FAULT_COMMIT, CODES);
}

static void any_failure_of_a_begin_is_sorted_out(void **state)
{
	with_codes(*state, FAULT_BEGIN, CODES);
}

/* There are many statements. */
static void any_failure_of_a_statement_is_sorted_out(void **state)
{
	with_codes(*state, FAULT_EXEC, REACTIONS);
}

static void lost_reply_while_the_ledger_is_made_is_sorted_out(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	for (int when = FAULT_AFTER; when >= FAULT_BEFORE; when--) {
		struct fault_plan p = {.call = FAULT_COMMIT,
		                       .nth = 1,
		                       .when = (enum fault_when)when,
		                       .code = DEFIB_UNKNOWN_OUTCOME};
		struct scan_result r = scan(g, &p, false);
		assert_int_equal(r.failure.code, DEFIB_OK);
		assert_int_equal(r.outcomes[OUTCOME_RECOVERED], JOBS);
		rig_agrees(g);
		rig_sql(g, "UPDATE jobs SET status = 'running', owner = 'w' || id, error = NULL");
		rig_sql(g, g->engine == STORE_POSTGRES ? "DROP SCHEMA defib CASCADE"
		                                       : "DROP TABLE defib_ledger");
	}
}

/*
 * The reply to a commit is lost and the database is unavailable for a moment: still counted, once.
 */
static void lost_reply_is_resolved_after_a_failed_reconnection(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	assert_int_equal(scan(g, NULL, false).failure.code, DEFIB_OK);
	start_over(g);
	struct fault_plan p = {
		.call = FAULT_COMMIT, .nth = 2, .when = FAULT_AFTER, .code = DEFIB_UNKNOWN_OUTCOME};
	refused = 2;
	struct scan_result r = scan(g, &p, false);
	assert_int_equal(r.failure.code, DEFIB_OK);
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED], JOBS);
	assert_int_equal(r.outcomes[OUTCOME_CHANGED], 0);
	rig_agrees(g);
}

/* It stays unavailable: the result says that the outcome of a batch is unknown, and which. */
static void unresolved_outcome_is_said(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	assert_int_equal(scan(g, NULL, false).failure.code, DEFIB_OK);
	start_over(g);
	struct fault_plan p = {
		.call = FAULT_COMMIT, .nth = 2, .when = FAULT_AFTER, .code = DEFIB_UNKNOWN_OUTCOME};
	refused = 100;
	struct scan_result r = scan(g, &p, false);
	assert_int_equal(r.failure.code, DEFIB_UNKNOWN_OUTCOME);
	assert_non_null(strstr(r.failure.what, r.batch));
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED], 2);
	rig_agrees(g);
}

/* Without a ledger nothing can be read again, but nothing is written twice either. */
static void lost_reply_without_a_ledger_writes_once(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	rig_sql(g, "UPDATE jobs SET attempts = 0");
	g->settings.watches[0].actions[REMEDY_REQUEUE].set.text =
		"status = 'queued', error = :reason, owner = NULL, attempts = attempts + 1";
	struct fault_plan p = {
		.call = FAULT_COMMIT, .nth = 1, .when = FAULT_AFTER, .code = DEFIB_UNKNOWN_OUTCOME};
	struct scan_result r = scan(g, &p, true);
	assert_int_equal(r.failure.code, DEFIB_OK);
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED] + r.outcomes[OUTCOME_CHANGED], JOBS);
	assert_int_equal(rig_requeued(g), JOBS);
	assert_int_equal(number(g->other, "SELECT max(attempts) FROM jobs"), 1);
}

static void row_that_a_constraint_refuses_does_not_hold_up_the_others(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	rig_sql(g, "CREATE UNIQUE INDEX one ON jobs (kind) WHERE status = 'queued' AND id IN (3, 4)");
	struct scan_result r = scan(g, NULL, false);
	assert_int_equal(r.failure.code, DEFIB_OK);
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED], JOBS - 1);
	assert_int_equal(r.outcomes[OUTCOME_REFUSED], 1);
	rig_agrees(g);
}

static void dry_run_writes_nothing(void **state)
{
	struct rig *g = *state;
	watch_of(g);
	struct session session = rig_session(g);
	struct scan_options o = {.actor = "test"};
	struct scan_result r;
	assert_int_equal(scan_watch(&session, &g->settings.watches[0], &o, &r), DEFIB_OK);
	store_close(session.store);
	assert_int_equal(r.found, JOBS);
	assert_int_equal(rig_requeued(g), 0);
	static const char *const made[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM pg_namespace WHERE nspname = 'defib'",
		[STORE_SQLITE] = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'defib%'",
	};
	assert_int_equal(number(g->other, made[g->engine]), 0);
}

struct told {
	int jobs, changes;
};

static void note_change(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct told *told = ctx;
	(void)w;
	told->jobs++;
	if (!c->before || !c->after)
		return;
	told->changes++;
	assert_non_null(strstr(c->before, "running"));
	assert_non_null(strstr(c->after, "queued"));
}

/* Several batches are written by lanes, and reported while the next ones are in progress. */
static void what_was_written_can_still_be_read_when_it_is_told(void **state)
{
	struct rig *g = *state;
	(void)watch_of(g);
	if (g->engine == STORE_POSTGRES) { /* then each row is read, and its change is known */
		rig_sql(g, "CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; "
		           "END$$");
		rig_sql(g,
		        "CREATE TRIGGER kept BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION kept()");
	}
	struct told told = {0};
	struct session session = rig_session(g);
	struct scan_options o = {.fix = true, .actor = "test", .observer = {note_change, NULL, &told}};
	struct scan_result r;
	scan_watch(&session, &g->settings.watches[0], &o, &r);
	store_close(session.store);
	assert_int_equal(r.failure.code, DEFIB_OK);
	assert_int_equal(told.jobs, JOBS);
	assert_int_equal(told.changes, JOBS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(any_failure_of_a_commit_is_sorted_out),
		BOTH(any_failure_of_a_begin_is_sorted_out),
		BOTH(any_failure_of_a_statement_is_sorted_out),
		BOTH(lost_reply_while_the_ledger_is_made_is_sorted_out),
		BOTH(lost_reply_is_resolved_after_a_failed_reconnection),
		BOTH(unresolved_outcome_is_said),
		BOTH(lost_reply_without_a_ledger_writes_once),
		BOTH(row_that_a_constraint_refuses_does_not_hold_up_the_others),
		BOTH(dry_run_writes_nothing),
		BOTH(what_was_written_can_still_be_read_when_it_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
