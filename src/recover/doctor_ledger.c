/*
 * doctor_ledger.c: whether defib can keep its ledger in this database, and
 * what is off where it cannot.
 *
 * ledger_open asks for what reading and appending take. Here everything that
 * a --fix will do with the ledger is asked for, so that none fails half-way.
 */
#include "recover/doctor_check.h"

#define WITHOUT "without it hold, undo and the crash budget are off"

/* Whether all of it is there, whether its schema is, and whether a schema may be made. */
static const char state_sql[] =
	"SELECT (SELECT count(*) = 3 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
	"WHERE n.nspname = 'defib' AND c.relname IN ('ledger', 'hold', 'retry')), "
	"EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'defib'), "
	"has_database_privilege(current_database(), 'CREATE')";
static const char usable_sql[] =
	"SELECT has_schema_privilege('defib', 'USAGE'), "
	"(SELECT bool_and(CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE') ELSE "
	"has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') AND "
	"has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE') END) FROM pg_class "
	"WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'defib') AND "
	"relkind IN ('r', 'S')), has_schema_privilege('defib', 'CREATE')";

static const char *grant_use(struct examination *x)
{
	return arena_printf(&x->arena,
	                    "GRANT USAGE ON SCHEMA defib TO %s; "
	                    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA defib TO %s; "
	                    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA defib TO %s;",
	                    x->role, x->role, x->role);
}

static void may_be_made(struct examination *x, bool allowed, const char *grant)
{
	x->ledger_usable = allowed;
	if (allowed) {
		found(x, FINDING_OK, NULL, "the ledger is not there yet; the first --fix creates it");
		return;
	}
	x->ledger_fix = grant;
	found(x, FINDING_WARN, grant,
	      "the ledger is not there and may not be created by this role: " WITHOUT);
}

static void check_tables(struct examination *x, const struct store_rows *state)
{
	struct store_rows use;
	bool there = row_bool(state, 0, 0), schema = row_bool(state, 0, 1),
		 create = row_bool(state, 0, 2);
	const char *grant =
		arena_printf(&x->arena, "GRANT CREATE ON DATABASE %s TO %s;", x->dbname, x->role);
	if (!schema) {
		may_be_made(x, create, grant);
		return;
	}
	if (!asked(x, usable_sql, NULL, 0, &use))
		return;
	if (!there) {
		/* CREATE SCHEMA IF NOT EXISTS asks for the privilege also where the schema is there. */
		may_be_made(x, create && row_bool(&use, 0, 0) && row_bool(&use, 0, 2),
		            arena_printf(&x->arena, "%s GRANT USAGE, CREATE ON SCHEMA defib TO %s;", grant,
		                         x->role));
		return;
	}
	x->ledger_usable = row_bool(&use, 0, 0) && row_bool(&use, 0, 1);
	if (x->ledger_usable) {
		found(x, FINDING_OK, NULL, "the ledger is there and can be written");
		return;
	}
	x->ledger_fix = grant_use(x);
	found(x, FINDING_WARN, x->ledger_fix,
	      "the ledger is there, but this role may not use it: " WITHOUT);
}

void check_ledger(struct examination *x)
{
	struct store_rows state;
	struct ledger ledger;
	struct failure f = {0};
	if (x->doctor->ledger_off) {
		x->ledger_fix = "remove ledger: off from the configuration";
		found(x, FINDING_WARN, x->ledger_fix, "the ledger is off by configuration: " WITHOUT);
	} else if (x->store->engine == STORE_POSTGRES) {
		if (asked(x, state_sql, NULL, 0, &state))
			check_tables(x, &state);
	} else if (ledger_open(x->store, false, &ledger, &f)) {
		unclear(x, &f);
	} else {
		x->ledger_usable = true;
		found(x, FINDING_OK, NULL,
		      ledger.ready ? "the ledger is there"
		                   : "the ledger is not there yet; the first --fix creates it");
	}
}
