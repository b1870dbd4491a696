/* SPDX-License-Identifier: Apache-2.0 */
/* schema_test.c: the tables of an SQLite database, and failures while they are created. */
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

static void tables_have_no_lists_that_every_row_pays_for(void **state)
{
	struct store *s = open_it();
	(void)state;
	install(s);
	assert_int_equal(number(s, lists), 0);
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
		cmocka_unit_test_setup_teardown(tables_have_no_lists_that_every_row_pays_for, make_file,
	                                    remove_file),
		cmocka_unit_test_setup_teardown(tables_are_not_there_if_a_statement_failed, make_file,
	                                    remove_file),
	};
	return cmocka_run_group_tests_name("ledger/schema", tests, NULL, NULL);
}
