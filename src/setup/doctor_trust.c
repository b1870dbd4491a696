/* SPDX-License-Identifier: Apache-2.0
 * doctor_trust.c: whose code runs with the rights of this role.
 *
 * Reading or writing a table runs code of its owner's: functions of index expressions and policies,
 * triggers, casts. PostgreSQL runs it as the role that reads.
 */
#include "setup/doctor_check.h"

#include "store/dialect.h"

static const char owner_sql[] =
	"SELECT quote_ident(o.rolname) FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner "
	"WHERE c.oid = to_regclass($1) AND NOT o.rolsuper AND o.rolname <> current_user AND "
	"(SELECT bool_or(r.rolsuper) FROM pg_roles r WHERE r.rolname IN (current_user, session_user))";

bool check_code(struct examination *x)
{
	struct store_rows rows;
	struct store_param table = P_TEXT(x->table);
	struct failure f = {0};
	x->check = "code";
	if (!store_dialect(x->store)->has_grants)
		return true;
	/* A role that may not look the table up is no superuser. */
	if (ask(x, owner_sql, &table, 1, &rows, &f))
		return !x->store->lost;
	if (rows.nrows)
		found(x, FINDING_FAIL,
		      "connect as a role of its own: defib init --print --for daemon prints its grants",
		      "role %s is a superuser, and the table belongs to role %s, whose functions in index "
		      "expressions, triggers and policies run with all rights when defib reads it; so "
		      "nothing else was checked",
		      x->role, row_text(&rows, 0, 0));
	return rows.nrows == 0;
}

/* Functions of ours are called with the rights of workers and daemons. */
void check_schema(struct examination *x)
{
	static const struct store_param ours = {PARAM_TEXT, "{defib}", 0};
	struct store_rows rows;
	if (!asked(x, store_dialect(x->store)->ask.hidden, &ours, 1, &rows))
		return;
	if (rows.nrows)
		found(x, FINDING_FAIL, row_text(&rows, 0, 1),
		      "other roles can create functions in schema defib, which could stand in for those "
		      "of defib");
	else
		found(x, FINDING_OK, NULL, "only its owner can create in schema defib");
}
