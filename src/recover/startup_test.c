/* SPDX-License-Identifier: Apache-2.0
 * startup_test.c: which rows a start-up takes, page by page, what it leaves to workers that came
 * meanwhile, and that a failing database causes no double effect.
 */
#include "recover/startup.h"

#include "ledger/schema.h"
#include "recover/recover_test.h"
#include "store/fault_test.h"

#define JOBS 6
#define SMALL RIG_REQUEUE "    batch: 2\n"

/* Tests do not wait for the pauses between tries. */
int usleep(useconds_t us)
{
	(void)us;
	return 0;
}

static struct fault_plan *plan;
static struct rig *deed_rig; /* if a rival acts before the first write, once */
static const char *deed;
static struct store_ops meddled;
static const struct store_ops *plain;

static defib_err begin_after_deed(struct store *s, enum store_tx mode, struct failure *f)
{
	if (mode != TX_READ && deed) {
		rig_sql(deed_rig, deed);
		deed = NULL;
	}
	return plain->begin(s, mode, f);
}

static defib_err open_for_test(const struct store_options *options, struct store **out,
                               struct failure *f)
{
	defib_err err = store_open(options, out, f);
	if (!err && deed) {
		plain = (*out)->ops;
		meddled = *plain;
		meddled.begin = begin_after_deed;
		(*out)->ops = &meddled;
	}
	if (!err && plan)
		*out = fault_wrap(*out, plan);
	return err;
}

static void prepare(struct rig *g)
{
	plan = NULL;
	deed = NULL;
	deed_rig = g;
	rig_fill(g, JOBS);
	rig_sql(g, "UPDATE jobs SET beat_at = beat_at + id");
}

RIG(prepare)

/* Every sign of life a moment old: by age alone nothing is stuck. */
static void freshen(struct rig *g)
{
	rig_sql(g, g->engine == STORE_POSTGRES
	               ? "UPDATE jobs SET beat_at = extract(epoch FROM now())::integer - 9 + id"
	               : "UPDATE jobs SET beat_at = CAST(strftime('%s', 'now') AS INTEGER) - 9 + id");
}

static defib_err start(struct rig *g, const char *more, const struct startup_options *o,
                       struct startup_result *r)
{
	struct session session = rig_session(g);
	session.open = open_for_test;
	struct failure f = {0};
	defib_err err = startup_reconcile(&session, rig_watch(g, "beat_at", more), o, r, &f);
	session_close(&session);
	return err;
}

static const struct startup_options worker = {.self = 1000000};

static void everything_that_runs_is_taken_when_nobody_lives(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	freshen(g);
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id = 3");
	assert_int_equal(start(g, SMALL "    startup: {do: requeue}\n", &worker, &r), DEFIB_OK);
	assert_true(r.all);
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED], JOBS - 1);
	assert_int_equal(rig_requeued(g), JOBS - 1);
	rig_agrees(g);
}

static void rows_without_a_sign_of_life_are_taken_too(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	rig_sql(g, "UPDATE jobs SET beat_at = NULL WHERE id > 2");
	assert_int_equal(start(g, SMALL "    startup: {do: requeue}\n", &worker, &r), DEFIB_OK);
	assert_int_equal(rig_requeued(g), JOBS);
}

/* They may belong to foreign workers. */
static void by_default_fresh_rows_that_never_had_a_lease_are_left(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	freshen(g);
	assert_int_equal(start(g, SMALL, &worker, &r), DEFIB_OK);
	assert_true(r.all);
	assert_int_equal(rig_requeued(g), 0);
}

static void a_daemon_takes_nothing_where_nobody_ever_registered(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_options nobody = {0};
	struct startup_result r;
	assert_int_equal(start(g, SMALL, &nobody, &r), DEFIB_OK);
	assert_false(r.all);
	assert_int_equal(r.found, 0);
	assert_int_equal(rig_requeued(g), 0);
}

static void off_is_off(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	assert_int_equal(start(g, SMALL "    startup: off\n", &worker, &r), DEFIB_OK);
	assert_int_equal(rig_requeued(g), 0);
}

static void a_remedy_without_words_is_refused_before_anything_is_done(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	assert_int_equal(start(g, SMALL "    startup: {do: fail}\n", &worker, &r), DEFIB_CONFIG);
	assert_int_equal(rig_requeued(g), 0);
}

static void a_worker_that_the_watch_knows_to_live_keeps_its_job(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	assert_int_equal(start(g, SMALL "    owner_alive: t.owner = 'w2'\n", &worker, &r), DEFIB_OK);
	assert_int_equal(rig_requeued(g), JOBS - 1);
	assert_int_equal(number(g->other, "SELECT id FROM jobs WHERE status = 'running'"), 2);
}

/* After the start-up has begun, a worker takes job 5, which it has already read. */
static bool claim_another(void *ctx)
{
	struct rig *g = ctx;
	rig_sql(g, g->engine == STORE_POSTGRES
	               ? "UPDATE jobs SET owner = 'new', beat_at = extract(epoch FROM now())::integer "
	                 "+ 600 WHERE id = 5"
	               : "UPDATE jobs SET owner = 'new', beat_at = CAST(strftime('%s', 'now') AS "
	                 "INTEGER) + 600 WHERE id = 5");
	return true;
}

static void what_was_heard_of_since_it_began_was_left_by_nobody(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	(void)claim_another(g);
	assert_int_equal(start(g, SMALL "    startup: {do: requeue}\n", &worker, &r), DEFIB_OK);
	assert_int_equal(r.found, JOBS - 1);
	assert_int_equal(number(g->other, "SELECT id FROM jobs WHERE status = 'running'"), 5);
}

static void a_job_that_was_claimed_since_it_began_is_left_alone(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_options o = {.self = worker.self, .go_on = claim_another, .ctx = g};
	struct startup_result r;
	assert_int_equal(start(g, SMALL "    startup: {do: requeue}\n", &o, &r), DEFIB_OK);
	assert_int_equal(rig_requeued(g), JOBS - 1);
	assert_int_equal(number(g->other, "SELECT id FROM jobs WHERE owner = 'new'"), 5);
}

/* Rows enough for two pages; those of the first belong to workers that live. */
static void fill_pages(struct rig *g, int n)
{
	static const char *const rows[] = {
		[STORE_POSTGRES] = "INSERT INTO jobs SELECT i, 'running', 'w', 'a', 1, 0, 1577836800 + i, "
						   "NULL FROM generate_series(%d, %d) AS i",
		[STORE_SQLITE] = "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i "
						 "< %d) INSERT INTO jobs SELECT i, 'running', 'w', 'a', 1, 0, 1577836800 + "
						 "i, NULL FROM n",
	};
	char sql[256];
	snprintf(sql, sizeof sql, rows[g->engine], JOBS + 1, n);
	rig_sql(g, sql);
	rig_sql(g, "UPDATE jobs SET owner = 'w'");
}

/* Job `last` is claimed once, at a whole second after the start-up began. */
static bool claim_the_last(void *ctx)
{
	struct rig *g = ctx;
	static const char *const now[] = {
		[STORE_POSTGRES] = "SELECT extract(epoch FROM clock_timestamp())::bigint",
		[STORE_SQLITE] = "SELECT CAST(strftime('%s', 'now') AS INTEGER)",
	};
	static const char *const claim[] = {
		[STORE_POSTGRES] = "UPDATE jobs SET owner = 'new', beat_at = floor(extract(epoch FROM "
						   "clock_timestamp()))::integer WHERE id = (SELECT max(id) FROM jobs)",
		[STORE_SQLITE] = "UPDATE jobs SET owner = 'new', beat_at = CAST(strftime('%s', 'now') AS "
						 "INTEGER) WHERE id = (SELECT max(id) FROM jobs)",
	};
	if (number(g->other, "SELECT count(*) FROM jobs WHERE owner = 'new'"))
		return true;
	int64_t began = number(g->other, now[g->engine]);
	EVENTUALLY(number(g->other, now[g->engine]) > began + 1);
	rig_sql(g, claim[g->engine]);
	return true;
}

static void a_job_of_a_later_page_that_was_claimed_since_it_began_is_left_alone(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_options o = {.self = worker.self, .go_on = claim_the_last, .ctx = g};
	struct startup_result r;
	fill_pages(g, PAGE_ROWS + 1);
	assert_int_equal(start(g,
	                       RIG_REQUEUE "    batch: 10000\n    owner_alive: t.owner = 'w'\n"
	                                   "    startup: {do: requeue}\n",
	                       &o, &r),
	                 DEFIB_OK);
	assert_int_equal(number(g->other, "SELECT count(*) FROM jobs WHERE owner = 'new'"), 1);
	assert_int_equal(rig_requeued(g), 0);
}

static void a_job_that_is_claimed_between_look_and_write_is_left_alone(void **state)
{
	struct rig *g = rig_of(state);
	struct startup_result r;
	/* The ledger is created by a separate write, which must not be disturbed. */
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id > 2");
	deed = "UPDATE jobs SET owner = 'new', attempts = 2 WHERE id = 1";
	assert_int_equal(start(g, SMALL, &worker, &r), DEFIB_OK);
	assert_null(deed);
	assert_int_equal(r.outcomes[OUTCOME_CHANGED] + r.outcomes[OUTCOME_RECOVERED], 2);
	assert_int_equal(number(g->other, "SELECT count(*) FROM jobs WHERE status = 'running' AND "
	                                  "owner = 'new'"),
	                 r.outcomes[OUTCOME_CHANGED]);
	assert_int_equal(r.outcomes[OUTCOME_CHANGED], 1);
}

static bool once(void *ctx)
{
	bool *asked = ctx, go = !*asked;
	*asked = true;
	return go;
}

static void a_stop_ends_it_after_the_batch_at_hand(void **state)
{
	struct rig *g = rig_of(state);
	bool asked = false;
	struct startup_options o = {.self = worker.self, .go_on = once, .ctx = &asked};
	struct startup_result r;
	assert_int_equal(start(g, SMALL, &o, &r), DEFIB_OK);
	assert_int_equal(rig_requeued(g), 2);
}

/* Whatever breaks, rows and ledger agree, and a second start does the rest. */
static void a_call_that_fails_makes_nothing_twice(void **state)
{
	static const defib_err codes[] = {DEFIB_CONNECTION, DEFIB_LOCKED, DEFIB_UNKNOWN_OUTCOME};
	struct rig *g = rig_of(state);
	struct startup_result r;
	for (int call = 0; call < FAULT_CALLS; call++)
		for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
			for (int nth = 1, fired = 1; fired && nth <= 30; nth += 2) {
				struct fault_plan p = {.call = (enum fault_call)call, .nth = nth, .code = codes[c]};
				p.when = codes[c] == DEFIB_UNKNOWN_OUTCOME ? FAULT_AFTER : FAULT_BEFORE;
				if (codes[c] == DEFIB_UNKNOWN_OUTCOME && call != FAULT_COMMIT)
					break;
				plan = &p;
				(void)start(g, SMALL, &worker, &r);
				rig_agrees(g);
				plan = NULL;
				fired = p.fired;
				assert_int_equal(start(g, SMALL, &worker, &r), DEFIB_OK);
				assert_int_equal(rig_requeued(g), JOBS);
				rig_agrees(g);
				rig_sql(g, "UPDATE jobs SET status = 'running', error = NULL, owner = 'w' || id, "
				           "attempts = 1");
				rig_sql(g, g->engine == STORE_POSTGRES ? "DROP SCHEMA defib CASCADE"
				                                       : "DROP TABLE defib_ledger");
			}
}

/* ---- what is logged ---- */

static int64_t counted(const struct startup_count *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, name))
			return all[i].n;
	return 0;
}

static void kinds_that_are_too_many_to_be_named_are_counted_together(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", RIG_REQUEUE);
	struct startup_report r;
	startup_report_init(&r, w);
	for (int i = 0; i < 2 * STARTUP_NAMES_MAX; i++) {
		char kind[16];
		snprintf(kind, sizeof kind, "kind%d", i);
		struct candidate c = {.outcome = OUTCOME_RECOVERED,
		                      .decision = {.remedy = REMEDY_REQUEUE},
		                      .facts = {.job = "1", .kind = kind}};
		startup_report_job(&r, w, &c, "running", 0);
		startup_report_job(&r, w, &c, "running", 0);
	}
	assert_int_equal(r.nkinds, STARTUP_NAMES_MAX + 1);
	assert_int_equal(counted(r.kinds, r.nkinds, "kind0"), 2);
	assert_int_equal(counted(r.kinds, r.nkinds, "other"), 2 * STARTUP_NAMES_MAX);
	assert_int_equal(r.nstates, 1);
	assert_int_equal(counted(r.states, r.nstates, "running_requeued"), 4 * STARTUP_NAMES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(everything_that_runs_is_taken_when_nobody_lives),
		BOTH(rows_without_a_sign_of_life_are_taken_too),
		BOTH(by_default_fresh_rows_that_never_had_a_lease_are_left),
		BOTH(a_daemon_takes_nothing_where_nobody_ever_registered),
		BOTH(off_is_off),
		BOTH(a_remedy_without_words_is_refused_before_anything_is_done),
		BOTH(a_worker_that_the_watch_knows_to_live_keeps_its_job),
		BOTH(what_was_heard_of_since_it_began_was_left_by_nobody),
		BOTH(a_job_that_was_claimed_since_it_began_is_left_alone),
		BOTH(a_job_of_a_later_page_that_was_claimed_since_it_began_is_left_alone),
		BOTH(a_job_that_is_claimed_between_look_and_write_is_left_alone),
		BOTH(a_stop_ends_it_after_the_batch_at_hand),
		BOTH(a_call_that_fails_makes_nothing_twice),
		ON_SQLITE(kinds_that_are_too_many_to_be_named_are_counted_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
