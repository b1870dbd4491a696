/* SPDX-License-Identifier: Apache-2.0 */
/* propose_test.c: what is proposed for which table, from facts to lines. */
#include "setup/propose.h"

#include "base/test.h"
#include "setup/propose_test.h"
#include "setup/propose_try.h"

#define STATES "id number! | status text! =queued,running,done,failed @queued | "

struct expected {
	const char *key, *value; /* value NULL: no such line */
};

/* Lines that are not named may be anything. */
static const struct {
	const char *what, *table, *key, *columns;
	struct expected lines[8];
} known[] = {
	{"ScraperSky's pages",
     "pages",
     "id",
     "id other! | url text! | page_processing_status text! =Queued,Processing,Complete,Failed "
     "@Queued | page_processing_error text | updated_at instant! @CURRENT_TIMESTAMP",
     {{"running", "page_processing_status = 'Processing'"},
      {"alive_at", "updated_at"},
      {"requeue",
       "page_processing_status = 'Queued', page_processing_error = :reason, updated_at = :now"},
      {"show", "[url]"},
      {"time_type", NULL}}},
	{"Scristill's jobs",
     "jobs",
     "id",
     "id other! | project_id other! | type text! =scrape,crawl,extract | status text! "
     "=queued,running,cancelling,completed,failed,cancelled @queued | payload other! | "
     "error text | created_at instant! | updated_at instant! | completed_at instant",
     {{"kind", "type"},
      {"running", "status = 'running'"},
      {"requeue", "status = 'queued', error = :reason, updated_at = :now"},
      {"fail", "status = 'failed', error = :reason, updated_at = :now, completed_at = :now"}}},
	{"OctoLab's labs: what rows begin with is not what a worker makes of them",
     "labs",
     "id",
     "id other! | owner_id other! | status text! =running,ending,finished,failed @running | "
     "error text | updated_at instant! | finished_at instant",
     {{"running", "status = 'ending'"}, {"remedies", "[{do: report}]"}, {"owner", NULL}}},
	{"OCR's queue: codes that nobody has named",
     "extraction_queue",
     "id",
     "id text! | status_id number! =3,5,6 @3 | document_number text! | ocr_worker_id text | "
     "ocr_attempts number! | ocr_max_attempts number | ocr_started_at instant | "
     "ocr_completed_at instant | ocr_error text | ocr_last_error_at instant | updated_at instant!",
     {{"running", "ocr_started_at IS NOT NULL AND ocr_completed_at IS NULL"},
      {"owner", "ocr_worker_id"},
      {"attempts", "ocr_attempts"},
      {"max_attempts", "ocr_max_attempts"},
      {"requeue", NULL},
      {"remedies", "[{do: report}]"},
      {"show", "[document_number]"}}},
	{"River",
     "river_job",
     "id",
     "id number! | args other! | attempt number! | attempted_at instant | attempted_by list | "
     "errors other | finalized_at instant | kind text! | max_attempts number! | queue text! | "
     "state text! =available,cancelled,completed,discarded,pending,retryable,running,scheduled "
     "@available",
     {{"running", "state = 'running'"},
      {"alive_at", "attempted_at"},
      {"owner", "attempted_by[array_length(attempted_by, 1)]"},
      {"attempts", "attempt"},
      {"requeue", "state = 'available', attempted_at = NULL"},
      {"fail", "state = 'discarded', attempted_at = NULL, finalized_at = :now"},
      {"kind", "kind"}}},
	{"Oban, whose worker is a module",
     "oban_jobs",
     "id",
     "id number! | state text! =available,scheduled,executing,retryable,completed,discarded,"
     "cancelled @available | queue text! | worker text! | attempt number! | max_attempts number! | "
     "attempted_at naive ~2020-01-01T00:00:00 | attempted_by list | inserted_at naive!",
     {{"running", "state = 'executing'"},
      {"alive_at", "attempted_at"},
      {"time_type", "utc"},
      {"owner", "attempted_by[array_length(attempted_by, 1)]"},
      {"requeue", "state = 'available', attempted_at = NULL"}}},
	{"Graphile Worker, in a schema of its own",
     "graphile_worker._private_jobs",
     "id",
     "id number! | task_id number! | attempts number! | max_attempts number! | last_error text | "
     "locked_at instant | locked_by text | run_at instant! | updated_at instant!",
     {{"table", "graphile_worker._private_jobs"},
      {"running", "locked_at IS NOT NULL"},
      {"alive_at", "locked_at"},
      {"owner", "locked_by"},
      {"requeue", "locked_at = NULL, locked_by = NULL, last_error = :reason, updated_at = :now"}}},
	{"pg-boss, with a key of two columns",
     "pgboss.job",
     "name id",
     "id other! | name text! | state text! =created,retry,active,completed,cancelled,failed "
     "@created | retry_count number! | retry_limit number! | started_on instant | completed_on "
     "instant | heartbeat_on instant",
     {{"key", "[name, id]"},
      {"running", "state = 'active'"},
      {"alive_at", "heartbeat_on"},
      {"attempts", "retry_count"},
      {"max_attempts", "retry_limit"},
      {"requeue", "state = 'retry'"}}},
	{"GoodJob",
     "good_jobs",
     "id",
     "id other! | performed_at instant | finished_at instant | locked_by_id other | locked_at "
     "instant | error text | updated_at instant!",
     {{"running", "locked_at IS NOT NULL AND finished_at IS NULL"},
      {"owner", "locked_by_id"},
      {"requeue", "locked_at = NULL, locked_by_id = NULL, error = :reason, updated_at = :now"}}},
	{"Procrastinate",
     "procrastinate_jobs",
     "id",
     "id number! | task_name text! | status text! =todo,doing,succeeded,failed,cancelled,aborting "
     "@todo | attempts number! | started_at instant",
     {{"running", "status = 'doing'"},
      {"started_at", "started_at"},
      {"overdue_after", "4h"},
      {"attempts", "attempts"},
      {"max_attempts", "5"},
      {"requeue", "status = 'todo'"}}},
	{"Laravel, in seconds since 1970",
     "jobs",
     "id",
     "id number! | queue text! | attempts number! | reserved_at number ~1731700000 | available_at "
     "number! ~1731700000",
     {{"running", "reserved_at IS NOT NULL"},
      {"alive_at", "reserved_at"},
      {"time_type", "epoch"},
      {"requeue", "reserved_at = NULL"}}},
	{"milliseconds since 1970",
     "tasks",
     "id",
     STATES "heartbeat number! ~1731700000000",
     {{"alive_at", "heartbeat"}, {"time_type", "epoch_ms"}}},
	{"a lease that ends",
     "tasks",
     "id",
     STATES "locked_until instant | locked_by text | updated_at instant!",
     {{"expires_at", "locked_until"},
      {"stuck_after", "1m"},
      {"requeue", "status = 'queued', locked_by = NULL, locked_until = NULL, updated_at = :now"},
      {"remedies", NULL}}},
	{"only a flag",
     "mails",
     "id",
     "id number! | processing bool! | sent bool! | updated_at instant!",
     {{"running", "processing"}, {"requeue", "processing = false, updated_at = :now"}}},
	{"mixed case, and words that SQL has for itself",
     "Work Items",
     "Id",
     "Id number! | order text! | Status text! =Queued,InProgress,Done @Queued | UpdatedAt instant!",
     {{"table", "Work Items"},
      {"key", "Id"},
      {"running", "\"Status\" = 'InProgress'"},
      {"alive_at", "\"UpdatedAt\""},
      {"requeue", "\"Status\" = 'Queued', \"UpdatedAt\" = :now"}}},
	{"a column that is named by a word of SQL",
     "tasks",
     "id",
     "id number! | end text! | state text! =new,processing @new | start_time instant",
     {{"running", "state = 'processing'"}, {"started_at", "start_time"}}},
	{"codes with names in another table",
     "orders",
     "id",
     "id number! | status_id number! =1/Waiting,2/Processing,3/Failed @1 | updated_at instant!",
     {{"running", "status_id = 2"},
      {"requeue", "status_id = 1, updated_at = :now"},
      {"fail", "status_id = 3, updated_at = :now"}}},
	{"a quote in a value",
     "odd",
     "id",
     "id number! | state text! =it's_queued,it's_running | updated_at instant!",
     {{"running", "state = 'it''s_running'"}}},
};

static void each_known_table_gets_its_watch(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct arena a = ARENA_INIT;
		struct proposal p;
		struct table_facts t = told_facts(known[i].table, known[i].key, known[i].columns, &a);
		propose(&t, &a, &p);
		if (p.nmissing)
			fail_msg("%s: %s", known[i].what, p.missing[0]);
		for (const struct expected *e = known[i].lines; e->key; e++) {
			const struct proposed_line *line = proposal_line(&p, e->key);
			if (!text_eq(line ? line->value : NULL, e->value))
				fail_msg("%s: %s is \"%s\", not \"%s\"", known[i].what, e->key,
				         line ? line->value : "(none)", e->value ? e->value : "(none)");
		}
		arena_release(&a);
	}
}

static struct proposal proposed(struct table_facts t, struct arena *a)
{
	struct proposal p;
	propose(&t, a, &p);
	return p;
}

static void without_a_sign_of_life_there_is_no_watch(void **state)
{
	struct arena a = ARENA_INIT;
	struct proposal p = proposed(told_facts("tasks", "id", STATES "created_at instant!", &a), &a);
	(void)state;
	assert_int_equal(p.nmissing, 1);
	assert_non_null(strstr(p.missing[0], "no column could be a sign of life"));
	assert_null(proposal_line(&p, "alive_at"));
	assert_false(p.queue);
	arena_release(&a);
}

static void without_a_key_there_is_no_watch(void **state)
{
	struct arena a = ARENA_INIT;
	struct proposal p = proposed(told_facts("tasks", "", STATES "updated_at instant!", &a), &a);
	(void)state;
	assert_int_equal(p.nmissing, 1);
	assert_non_null(strstr(p.missing[0], "no primary key"));
	arena_release(&a);
}

static void a_table_of_customers_is_no_queue(void **state)
{
	static const char *const tables[] = {
		"id number! | name text! | status text! =active,inactive @active | updated_at instant!",
		"id number! | state text! =CA,NY,WA | updated_at instant!",
		"id number! | name text! | phase text | updated_at instant!",
	};
	(void)state;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		struct arena a = ARENA_INIT;
		struct proposal p = proposed(told_facts("customers", "id", tables[i], &a), &a);
		assert_true(p.nmissing > 0);
		assert_false(p.queue);
		arena_release(&a);
	}
}

/* As if 10 rows of the table, 4 of them running, had been read. */
static void tell_contents(struct table_facts *t, const char *name, int64_t filled, int64_t in_work,
                          int64_t least)
{
	struct table_column *c = facts_column(t, name);
	t->rows = 10;
	t->counted_in_work = true;
	t->in_work = 4;
	c->counted = true;
	c->filled = filled;
	c->in_work = in_work;
	c->least_in_work = least;
}

static const char *line_of(struct proposal *p, const char *key)
{
	const struct proposed_line *line = proposal_line(p, key);
	return line ? line->value : NULL;
}

static void a_column_that_nobody_writes_is_no_sign_of_life(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t =
		told_facts("a", "id", STATES "claimed_at instant | updated_at instant!", &a);
	(void)state;
	tell_contents(&t, "claimed_at", 0, 0, 0);
	tell_contents(&t, "updated_at", 10, 4, 0);
	struct proposal p = proposed(t, &a);
	assert_string_equal(line_of(&p, "alive_at"), "updated_at");
	assert_int_equal(proposal_line(&p, "alive_at")->nothers, 0);
	/* Written once, but not in running rows. */
	tell_contents(&t, "claimed_at", 6, 1, 0);
	p = proposed(t, &a);
	assert_string_equal(line_of(&p, "alive_at"), "updated_at");
	tell_contents(&t, "claimed_at", 6, 4, 0);
	p = proposed(t, &a);
	assert_string_equal(line_of(&p, "alive_at"), "claimed_at");
	arena_release(&a);
}

static void where_no_row_in_work_has_any_sign_there_is_none(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t = told_facts("a", "id", STATES "expires_at instant", &a);
	(void)state;
	tell_contents(&t, "expires_at", 6, 0, 0);
	struct proposal p = proposed(t, &a);
	assert_int_equal(p.nmissing, 1);
	/* If no row is running, the name decides, and the user must check it. */
	t.in_work = 0;
	facts_column(&t, "expires_at")->filled = 0;
	p = proposed(t, &a);
	assert_int_equal(p.nmissing, 0);
	assert_non_null(proposal_line(&p, "expires_at")->check);
	arena_release(&a);
}

static void attempts_are_raised_by_requeue_where_only_failures_are_counted(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t =
		told_facts("a", "id", STATES "locked_until instant | retry_count number ~3", &a);
	(void)state;
	tell_contents(&t, "retry_count", 10, 4, 1);
	struct proposal p = proposed(t, &a);
	assert_string_equal(line_of(&p, "attempts"), "retry_count");
	assert_string_equal(line_of(&p, "requeue"), "status = 'queued', locked_until = NULL");
	tell_contents(&t, "retry_count", 10, 4, 0);
	p = proposed(t, &a);
	assert_string_equal(
		line_of(&p, "requeue"),
		"status = 'queued', retry_count = coalesce(retry_count, 0) + 1, locked_until = NULL");
	/* The right maximum cannot be guessed. */
	assert_string_equal(line_of(&p, "max_attempts"), "5");
	assert_non_null(proposal_line(&p, "max_attempts")->check);
	facts_column(&t, "retry_count")->newest = "25";
	p = proposed(t, &a);
	assert_string_equal(line_of(&p, "max_attempts"), "25");
	arena_release(&a);
}

static void pending_is_in_work_only_beside_what_waits_and_who_has_it(void **state)
{
	static const struct {
		const char *columns, *running;
	} cases[] = {
		{"id number! | status text! =PENDING,ENQUEUED,SUCCESS | executor_id text | updated_at "
	     "instant!",
	     "status = 'PENDING'"},
		{"id number! | status text! =PENDING,SUCCESS | executor_id text | updated_at instant!",
	     NULL},
		{"id number! | status text! =PENDING,ENQUEUED,SUCCESS | updated_at instant!", NULL},
		{"id number! | status text! =pending,queued,running | worker_id text | updated_at instant!",
	     "status = 'running'"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena a = ARENA_INIT;
		struct proposal p = proposed(told_facts("a", "id", cases[i].columns, &a), &a);
		assert_true(text_eq(line_of(&p, "running"), cases[i].running));
		arena_release(&a);
	}
}

static void marks_that_other_things_have_too_make_no_queue(void **state)
{
	static const struct {
		const char *columns;
		bool queue;
	} cases[] = {
		/* An account that was locked after too many passwords; a seat; a mail that
	       arrived. */
		{"id number! | email text! | failed_attempts number! | locked_at instant", false},
		{"id number! | name text! | locked bool! | updated_at instant!", false},
		{"id number! | seat text! | reserved bool! | updated_at instant!", false},
		{"id number! | to text! | body text! | delivered_at instant", false},
		/* The same with further evidence of work. */
		{"id number! | locked_at instant | locked_by text", true},
		{"id number! | queue text! | reserved_at number ~1731700000", true},
		{"id number! | picked bool! | picked_by text | last_heartbeat instant", true},
		{"id number! | body text! | queue_name text! | delivered_at instant", true},
		{"id number! | jobid number! | queue text! | fetchedat instant", true},
		{"id number! | processing bool! | updated_at instant!", true},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena a = ARENA_INIT;
		struct proposal p = proposed(told_facts("t", "id", cases[i].columns, &a), &a);
		if (p.queue != cases[i].queue)
			fail_msg("%s: %s", cases[i].columns, p.queue ? "a queue" : "no queue");
		arena_release(&a);
	}
}

static void a_view_is_only_reported(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t = told_facts("open_tasks", "", STATES "locked_until instant", &a);
	t.view = true;
	struct proposal p = proposed(t, &a);
	(void)state;
	assert_int_equal(p.nmissing, 0);
	assert_non_null(proposal_line(&p, "key")->check);
	assert_string_equal(proposal_line(&p, "remedies")->value, "[{do: report}]");
	arena_release(&a);
}

static void a_beat_in_a_table_beside_it_is_its_sign_of_life(void **state)
{
	struct arena a = ARENA_INIT;
	struct related_table beats = {.table = "workflow_heartbeats",
	                              .their_column = "workflow_id",
	                              .our_column = "id",
	                              .beat = "last_heartbeat",
	                              .owner = "worker_id",
	                              .beat_class = CLASS_INSTANT};
	struct table_facts t = told_facts(
		"workflow_executions", "id",
		"id other! | status text! =ACTIVE,PENDING_ASYNC,COMPLETED @ACTIVE | updated_at instant!",
		&a);
	t.related = &beats;
	t.nrelated = 1;
	struct proposal p = proposed(t, &a);
	(void)state;
	assert_string_equal(proposal_line(&p, "running")->value, "status = 'PENDING_ASYNC'");
	assert_string_equal(
		proposal_line(&p, "alive_at")->value,
		"(SELECT h.last_heartbeat FROM workflow_heartbeats h WHERE h.workflow_id = t.id)");
	assert_string_equal(
		proposal_line(&p, "owner")->value,
		"(SELECT h.worker_id FROM workflow_heartbeats h WHERE h.workflow_id = t.id)");
	assert_string_equal(proposal_line(&p, "requeue")->value,
	                    "status = 'ACTIVE', updated_at = :now");
	assert_non_null(proposal_line(&p, "requeue")->check);
	arena_release(&a);
}

static void what_is_to_be_checked_makes_it_only_report(void **state)
{
	struct arena a = ARENA_INIT;
	struct proposal sure = proposed(told_facts("a", "id", STATES "locked_until instant", &a), &a);
	struct proposal naive =
		proposed(told_facts("a", "id", STATES "locked_until naive ~2020-01-01T00:00:00", &a), &a);
	(void)state;
	assert_int_equal(sure.nchecks, 0);
	assert_null(proposal_line(&sure, "remedies"));
	assert_int_equal(naive.nchecks, 1);
	assert_non_null(strstr(proposal_line(&naive, "time_type")->check, "write UTC"));
	assert_non_null(proposal_line(&naive, "remedies"));
	arena_release(&a);
}

static void a_naive_time_of_this_moment_shows_that_it_is_utc(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t =
		told_facts("a", "id", STATES "locked_until naive ~2026-01-02T03:04:05", &a);
	(void)state;
	t.columns[2].newest = "2026-01-02 03:04:05.123";
	t.now_us = INT64_C(1767323100) * 1000000; /* 03:05:00 */
	assert_int_equal(proposed(t, &a).nchecks, 0);
	t.now_us += INT64_C(7200) * 1000000;
	assert_int_equal(proposed(t, &a).nchecks, 1);
	arena_release(&a);
}

static void other_readings_stand_beside_the_line(void **state)
{
	struct arena a = ARENA_INIT;
	struct proposal p = proposed(told_facts("a", "id",
	                                        "id number! | status text! =new,running,cancelling | "
	                                        "started_at instant | updated_at instant!",
	                                        &a),
	                             &a);
	struct buf yaml = BUF_INIT;
	(void)state;
	proposal_yaml(&p, "second", &yaml);
	assert_non_null(strstr(buf_text(&yaml), "    # 7 of 70 rows say 'running'\n"
	                                        "    running: status = 'running'\n"
	                                        "    # or running: status = 'cancelling'\n"));
	assert_non_null(strstr(buf_text(&yaml), "    # or started_at: started_at\n"));
	assert_non_null(strstr(buf_text(&yaml), "  - name: a\n    database: second\n"));
	buf_release(&yaml);
	arena_release(&a);
}

static void scalars_are_quoted_where_yaml_would_read_something_else(void **state)
{
	static const struct {
		const char *text, *yaml;
	} cases[] = {
		{"status = 'x'", "status = 'x'"},
		{"\"Status\" = 'x'", "\"\\\"Status\\\" = 'x'\""},
		{"a: b", "\"a: b\""},
		{"a #b", "\"a #b\""},
		{"a\nb", "\"a\\nb\""},
		{"${HOME}", "\"${HOME}\""},
		{"\303\266", "\"\303\266\""},
		{"", "\"\""},
		{"'x'", "\"'x'\""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf out = BUF_INIT;
		yaml_scalar(cases[i].text, &out);
		assert_string_equal(buf_text(&out), cases[i].yaml);
		buf_release(&out);
	}
}

static void a_value_cannot_leave_its_comment(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t = told_facts("a", "id", STATES "updated_at instant!", &a);
	struct buf yaml = BUF_INIT;
	(void)state;
	t.columns[1].values[1].value = "running\nremedies: [{do: fail}]\033[2J\302\233\377";
	t.columns[1].values[1].label = "running";
	struct proposal p = proposed(t, &a);
	proposal_yaml(&p, NULL, &yaml);
	assert_null(strstr(buf_text(&yaml), "\nremedies: [{do: fail}]"));
	assert_null(strpbrk(buf_text(&yaml), "\033\302\377"));
	buf_release(&yaml);
	arena_release(&a);
}

static void what_a_catalog_writes_as_a_default_is_read(void **state)
{
	static const struct {
		const char *sql, *value;
	} cases[] = {
		{"'queued'::job_state", "queued"},
		{"('it''s')", "it's"},
		{"3", "3"},
		{"(-1)", "-1"},
		{"now()", "CURRENT_TIMESTAMP"},
		{"(datetime('now'))", "CURRENT_TIMESTAMP"},
		{"gen_random_uuid()", NULL},
		{NULL, NULL},
	};
	struct arena a = ARENA_INIT;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_true(text_eq(default_value(cases[i].sql, &a), cases[i].value));
	arena_release(&a);
}

static void values_of_a_constraint_belong_to_the_one_column_that_it_names(void **state)
{
	struct arena a = ARENA_INIT;
	struct table_facts t =
		told_facts("a", "id", "id number! | status text! | origin text! | at instant", &a);
	(void)state;
	declared_values(&t,
	                "CREATE TABLE a (status text CHECK (status IN ('queued', 'it''s running')), "
	                "CHECK (origin <> 'x' OR status = 'y'))",
	                &a);
	assert_int_equal(t.columns[1].nvalues, 2);
	assert_string_equal(t.columns[1].values[1].value, "it's running");
	assert_int_equal(t.columns[2].nvalues, 0);
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_known_table_gets_its_watch),
		cmocka_unit_test(without_a_sign_of_life_there_is_no_watch),
		cmocka_unit_test(without_a_key_there_is_no_watch),
		cmocka_unit_test(a_table_of_customers_is_no_queue),
		cmocka_unit_test(a_column_that_nobody_writes_is_no_sign_of_life),
		cmocka_unit_test(where_no_row_in_work_has_any_sign_there_is_none),
		cmocka_unit_test(attempts_are_raised_by_requeue_where_only_failures_are_counted),
		cmocka_unit_test(pending_is_in_work_only_beside_what_waits_and_who_has_it),
		cmocka_unit_test(marks_that_other_things_have_too_make_no_queue),
		cmocka_unit_test(a_view_is_only_reported),
		cmocka_unit_test(a_beat_in_a_table_beside_it_is_its_sign_of_life),
		cmocka_unit_test(what_is_to_be_checked_makes_it_only_report),
		cmocka_unit_test(a_naive_time_of_this_moment_shows_that_it_is_utc),
		cmocka_unit_test(other_readings_stand_beside_the_line),
		cmocka_unit_test(scalars_are_quoted_where_yaml_would_read_something_else),
		cmocka_unit_test(a_value_cannot_leave_its_comment),
		cmocka_unit_test(what_a_catalog_writes_as_a_default_is_read),
		cmocka_unit_test(values_of_a_constraint_belong_to_the_one_column_that_it_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
