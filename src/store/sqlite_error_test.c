/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_error_test.c: SQLite's result codes to classes. */
#include "base/test.h"
#include "store/sqlite.h"

#include <sqlite3.h>

static void each_result_code_has_its_class(void **state)
{
	static const struct {
		int code;
		defib_err class;
	} rows[] = {
		{SQLITE_BUSY, DEFIB_LOCKED},
		{SQLITE_BUSY_SNAPSHOT, DEFIB_LOCKED},
		{SQLITE_LOCKED_SHAREDCACHE, DEFIB_LOCKED},
		{SQLITE_FULL, DEFIB_FULL},
		{SQLITE_IOERR_NOMEM, DEFIB_FULL},
		{SQLITE_READONLY, DEFIB_READ_ONLY},
		{SQLITE_READONLY_DIRECTORY, DEFIB_READ_ONLY},
		{SQLITE_READONLY_DBMOVED, DEFIB_CONNECTION},
		{SQLITE_CANTOPEN_ISDIR, DEFIB_CONNECTION},
		{SQLITE_IOERR_FSYNC, DEFIB_IO},
		{SQLITE_CONSTRAINT_UNIQUE, DEFIB_CONSTRAINT},
		{SQLITE_CONSTRAINT_FOREIGNKEY, DEFIB_CONSTRAINT},
		{SQLITE_PERM, DEFIB_PERMISSION},
		{SQLITE_AUTH, DEFIB_PERMISSION},
		{SQLITE_CORRUPT_INDEX, DEFIB_DATABASE},
		{SQLITE_NOTADB, DEFIB_DATABASE},
		{SQLITE_ERROR, DEFIB_BAD_SQL},
		{SQLITE_INTERRUPT, DEFIB_TIMEOUT},
		{SQLITE_INTERNAL, DEFIB_DATABASE},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_string_equal(defib_err_name(sqlite_class(rows[i].code)),
		                    defib_err_name(rows[i].class));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_result_code_has_its_class)};
	return cmocka_run_group_tests_name("store/sqlite_error", tests, NULL, NULL);
}
