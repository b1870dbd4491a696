/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlstate.h"

#include "base/text.h"

/* The first match counts: full codes come before their families. */
static const struct meaning {
	const char *prefix;
	defib_err class;
	enum failure_reason reason;
} meanings[] = {
	{"08P01", DEFIB_BAD_SQL, REASON_PROTOCOL}, /* as an error: a wrong number of parameters */
	{"08", DEFIB_CONNECTION, REASON_NONE},
	{"57P", DEFIB_CONNECTION, REASON_NONE},   /* shutting down, starting up, terminated */
	{"25P03", DEFIB_CONNECTION, REASON_NONE}, /* idle in a transaction for too long: terminated */
	{"3D", DEFIB_CONNECTION, REASON_NO_DATABASE},
	{"40001", DEFIB_LOCKED, REASON_SERIALIZATION},
	{"40P01", DEFIB_LOCKED, REASON_NONE},
	{"55P03", DEFIB_LOCKED, REASON_NONE},
	{"40003", DEFIB_UNKNOWN_OUTCOME, REASON_NONE}, /* statement_completion_unknown */
	{"57014", DEFIB_TIMEOUT, REASON_NONE},
	{"23505", DEFIB_CONSTRAINT, REASON_TAKEN},
	{"23", DEFIB_CONSTRAINT, REASON_NONE},
	{"44", DEFIB_CONSTRAINT, REASON_NONE},    /* the check option of a view */
	{"DFB01", DEFIB_LEASE_LOST, REASON_NONE}, /* raised by our own functions, as the next one */
	{"DFB02", DEFIB_DATABASE, REASON_SEQUENCE_BEHIND},
	{"42501", DEFIB_PERMISSION, REASON_NONE},
	{"28", DEFIB_PERMISSION, REASON_NONE},
	{"25006", DEFIB_READ_ONLY, REASON_NONE},
	{"53", DEFIB_FULL, REASON_NONE},
	{"42P06", DEFIB_CONSTRAINT, REASON_TAKEN}, /* a schema that is already there */
	{"42P01", DEFIB_BAD_SQL, REASON_NO_NAME},  /* a table … */
	{"42883", DEFIB_BAD_SQL, REASON_NO_NAME},  /* … a function or operator … */
	{"42704", DEFIB_BAD_SQL, REASON_NO_NAME},  /* … a type */
	{"42", DEFIB_BAD_SQL, REASON_NONE},
	{"3F", DEFIB_BAD_SQL, REASON_NO_SCHEMA},
	{"0A000", DEFIB_BAD_SQL, REASON_STALE_PLAN}, /* also where a feature is not supported */
	{"0A", DEFIB_BAD_SQL, REASON_NONE},
	{"26", DEFIB_DATABASE, REASON_NOT_PREPARED},
	{"22P02", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE}, /* not the text of a number, a UUID, … */
	{"22003", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE}, /* a number out of range */
	{"22007", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE}, /* not the text of a time */
	{"22008", DEFIB_BAD_VALUE, REASON_NOT_OF_TYPE}, /* a time out of range */
	{"22", DEFIB_BAD_VALUE, REASON_NONE},
	{"54", DEFIB_BAD_VALUE, REASON_NONE},  /* too large for an index, nested too deeply */
	{"P0", DEFIB_CONSTRAINT, REASON_NONE}, /* a trigger or function refuses: RAISE without a code */
};

static const struct meaning *meaning_of(const char *sqlstate)
{
	static const struct meaning unknown = {"", DEFIB_DATABASE, REASON_NONE};
	for (size_t i = 0; sqlstate && i < sizeof meanings / sizeof *meanings; i++)
		if (text_starts(sqlstate, meanings[i].prefix))
			return &meanings[i];
	return &unknown;
}

defib_err sqlstate_class(const char *sqlstate)
{
	return meaning_of(sqlstate)->class;
}

enum failure_reason sqlstate_reason(const char *sqlstate)
{
	return meaning_of(sqlstate)->reason;
}
