/* SPDX-License-Identifier: Apache-2.0 */
/* schema_test.c: an SQLite database of an older installation is upgraded. */
#include "ledger/schema.h"
#include "store/fault_test.h"
#include "store/patient_test.h"

#include <unistd.h>

static char path[64];

static struct store *open_it(void)
{
	char url[80];
	struct store *s = NULL;
	snprintf(url, sizeof url, "sqlite:%s", path);
	struct store_options opt = patient((struct store_options){.url = url, .create = true});
	assert_int_equal(store_open(&opt, &s, NULL), DEFIB_OK);
	return s;
}

static int make_file(void **state)
{
	(void)state;
	snprintf(path, sizeof path, "/tmp/defib-schema-XXXXXX");
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void run(struct store *s, const char *script)
{
	struct failure f = {0};
	if (schema_run(s, script, &f))
		fail_msg("%s", f.what);
}

static void install(struct store *s)
{
	struct failure f = {0};
	if (schema_install(s, SCHEMA_QUEUE, &f))
		fail_msg("%s", f.what);
}

static int64_t number(struct store *s, const char *sql)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	assert_int_equal(store_exec(s, sql, NULL, 0, &a, &rows, NULL), DEFIB_OK);
	int64_t n = row_int(&rows, 0, 0, -1);
	arena_release(&a);
	return n;
}

/* Lists of at most two are compared one by one. */
static const char lists[] =
	"SELECT count(*) FROM sqlite_master WHERE name LIKE 'defib%' AND "
	"instr(replace(sql, 'state IN (''running'', ''cancelling'')', ''), ' IN (') > 0";

/* As it was before: lists in the checks and in the predicates of two indexes. */
static const char old_tables[] =
	"CREATE TABLE IF NOT EXISTS defib_job (id INTEGER PRIMARY KEY AUTOINCREMENT, epoch INTEGER NOT "
	"NULL DEFAULT 0, owner INTEGER, created_at INTEGER NOT NULL, run_at INTEGER NOT NULL, "
	"claimed_at INTEGER, finished_at INTEGER, attempts INTEGER NOT NULL DEFAULT 0, max_attempts "
	"INTEGER NOT NULL DEFAULT 5, crashes INTEGER NOT NULL DEFAULT 0, timeout_ms INTEGER, priority "
	"INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'queued', queue TEXT NOT NULL, kind "
	"TEXT NOT NULL, unique_key TEXT, cause TEXT, error TEXT, "
	"CHECK (state IN ('scheduled', 'queued', 'running', 'cancelling', 'done', 'failed', "
	"'timed_out',\n                     'cancelled', 'held', 'rolled_back')), CHECK ((owner IS NOT "
	"NULL) = (state IN ('running', 'cancelling'))));"
	"CREATE UNIQUE INDEX IF NOT EXISTS defib_job_unique ON defib_job (queue, unique_key) WHERE "
	"unique_key IS NOT NULL AND state IN ('scheduled', 'queued', 'running', 'cancelling');"
	"CREATE INDEX IF NOT EXISTS defib_job_failed_at ON defib_job (finished_at)\n"
	"    WHERE state IN ('failed', 'timed_out', 'cancelled', 'rolled_back');"
	"CREATE TABLE IF NOT EXISTS defib_step (watch TEXT NOT NULL, job TEXT NOT NULL, step TEXT NOT "
	"NULL, position INTEGER NOT NULL, state TEXT NOT NULL, epoch INTEGER NOT NULL, output TEXT, "
	"error TEXT, started_at INTEGER, finished_at INTEGER NOT NULL, PRIMARY KEY (watch, job, step), "
	"CHECK (state IN ('done', 'undone', 'undo_failed', 'again')));";

static const char insert[] = "INSERT INTO defib_job (created_at, run_at, queue, kind, unique_key, "
							 "state) VALUES (0, 0, 'q', 'k', 'one', 'queued')";

static void new_tables_have_no_lists_that_every_row_pays_for(void **state)
{
	struct store *s = open_it();
	(void)state;
	install(s);
	assert_int_equal(number(s, lists), 0);
	install(s);
	assert_int_equal(number(s, lists), 0);
	store_close(s);
}

static void lists_of_an_older_installation_are_exchanged_and_hold(void **state)
{
	struct store *s = open_it(), *other = open_it();
	struct failure f = {0};
	(void)state;
	run(s, old_tables);
	run(other, insert);
	assert_int_equal(number(s, lists), 4);
	install(s);
	assert_int_equal(number(s, lists), 0);
	assert_int_equal(number(s, "SELECT count(*) FROM defib_job WHERE unique_key = 'one'"), 1);
	assert_int_equal(number(s, "SELECT count(attempt) + count(worker) FROM defib_step"), 0);
	assert_int_equal(number(s, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
	/* In a session that was open meanwhile, and in this one, the same is refused as before. */
	assert_int_equal(schema_run(other, insert, &f), DEFIB_CONSTRAINT);
	assert_int_equal(schema_run(s, insert, &f), DEFIB_CONSTRAINT);
	assert_int_equal(schema_run(s, "UPDATE defib_job SET state = 'lost'", &f), DEFIB_CONSTRAINT);
	assert_int_equal(schema_run(other, "UPDATE defib_job SET state = 'lost'", &f),
	                 DEFIB_CONSTRAINT);
	run(s, "UPDATE defib_job SET state = 'rolled_back'");
	run(other, insert);
	/* The schema is protected again. */
	assert_int_not_equal(schema_run(s, "UPDATE sqlite_master SET sql = sql", &f), DEFIB_OK);
	store_close(other);
	store_close(s);
}

/* Without `create` it only looks; with it, the tables are made in one transaction. */
static void tables_are_not_there_if_a_statement_failed(void **state)
{
	(void)state;
	struct store *inner = open_it();
	for (int create = 0; create < 2; create++)
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
			struct fault_store *s = (struct fault_store *)fault_wrap(inner, &plan);
			struct failure f = {0};
			bool there = true;
			defib_err err = schema_ready(&s->base, "ledger", SCHEMA_LEDGER, create, &there, &f);
			fired = plan.fired;
			assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
			assert_int_equal(there, create && !fired);
			free(s);
		}
	store_close(inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(new_tables_have_no_lists_that_every_row_pays_for, make_file,
	                                    remove_file),
		cmocka_unit_test_setup_teardown(lists_of_an_older_installation_are_exchanged_and_hold,
	                                    make_file, remove_file),
		cmocka_unit_test_setup_teardown(tables_are_not_there_if_a_statement_failed, make_file,
	                                    remove_file),
	};
	return cmocka_run_group_tests_name("ledger/schema", tests, NULL, NULL);
}
