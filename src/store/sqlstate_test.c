/* SPDX-License-Identifier: Apache-2.0 */
/* sqlstate_test.c: each SQLSTATE has its class, and a reason where a caller asks for one. */
#include "base/test.h"
#include "store/sqlstate.h"

static void each_sqlstate_has_its_class_and_reason(void **state)
{
	static const struct {
		const char *sqlstate;
		defib_err class;
		enum failure_reason reason;
	} rows[] = {
		{"08000", DEFIB_CONNECTION, REASON_NONE},
		{"08006", DEFIB_CONNECTION, REASON_NONE},
		{"08P01", DEFIB_BAD_SQL, REASON_PROTOCOL},
		{"57P01", DEFIB_CONNECTION, REASON_NONE},
		{"57P02", DEFIB_CONNECTION, REASON_NONE},
		{"57P03", DEFIB_CONNECTION, REASON_NONE},
		{"57P05", DEFIB_CONNECTION, REASON_NONE},
		{"25P03", DEFIB_CONNECTION, REASON_NONE},
		{"3D000", DEFIB_CONNECTION, REASON_NO_DATABASE},
		{"40001", DEFIB_LOCKED, REASON_SERIALIZATION},
		{"40P01", DEFIB_LOCKED, REASON_NONE},
		{"55P03", DEFIB_LOCKED, REASON_NONE},
		{"40003", DEFIB_UNKNOWN_OUTCOME, REASON_NONE},
		{"57014", DEFIB_TIMEOUT, REASON_NONE},
		{"23505", DEFIB_CONSTRAINT, REASON_TAKEN},
		{"23502", DEFIB_CONSTRAINT, REASON_NONE},
		{"23514", DEFIB_CONSTRAINT, REASON_NONE},
		{"42501", DEFIB_PERMISSION, REASON_NONE},
		{"28000", DEFIB_PERMISSION, REASON_NONE},
		{"28P01", DEFIB_PERMISSION, REASON_NONE},
		{"25006", DEFIB_READ_ONLY, REASON_NONE},
		{"53100", DEFIB_FULL, REASON_NONE},
		{"53300", DEFIB_FULL, REASON_NONE},
		{"42601", DEFIB_BAD_SQL, REASON_NONE},
		{"42703", DEFIB_BAD_SQL, REASON_NONE},
		{"42P06", DEFIB_CONSTRAINT, REASON_TAKEN},
		{"42P01", DEFIB_BAD_SQL, REASON_NO_NAME},
		{"42883", DEFIB_BAD_SQL, REASON_NO_NAME},
		{"42704", DEFIB_BAD_SQL, REASON_NO_NAME},
		{"3F000", DEFIB_BAD_SQL, REASON_NO_SCHEMA},
		{"0A000", DEFIB_BAD_SQL, REASON_STALE_PLAN},
		{"26000", DEFIB_DATABASE, REASON_NOT_PREPARED},
		{"22P02", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE},
		{"22003", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE},
		{"22007", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE},
		{"22008", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE},
		{"22012", DEFIB_BAD_VALUE, REASON_NONE}, /* division by zero: no fault of the key */
		{"54000", DEFIB_BAD_VALUE, REASON_NONE},
		{"P0001", DEFIB_CONSTRAINT, REASON_NONE},
		{"DFB01", DEFIB_LEASE_LOST, REASON_NONE},
		{"DFB02", DEFIB_DATABASE, REASON_SEQUENCE_BEHIND},
		{"25P02", DEFIB_DATABASE, REASON_NONE},
		{"XX000", DEFIB_DATABASE, REASON_NONE},
		{"58030", DEFIB_DATABASE, REASON_NONE},
		{"", DEFIB_DATABASE, REASON_NONE},
		{NULL, DEFIB_DATABASE, REASON_NONE},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_string_equal(defib_err_name(sqlstate_class(rows[i].sqlstate)),
		                    defib_err_name(rows[i].class));
		assert_int_equal(sqlstate_reason(rows[i].sqlstate), rows[i].reason);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_sqlstate_has_its_class_and_reason)};
	return cmocka_run_group_tests_name("store/sqlstate", tests, NULL, NULL);
}
