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
/*
 * What a role needs on each of our tables. Of the ledger it may only add: who could change or
 * delete entries, or write seals, could also do so unseen.
 */
#define NEEDS                                                                                      \
	"(SELECT c.oid, c.relkind, c.relname, CASE WHEN c.relkind = 'S' THEN ARRAY['USAGE'] "          \
	"WHEN c.relname = 'ledger' THEN ARRAY['SELECT', 'INSERT'] "                                    \
	"WHEN c.relname = 'ledger_seal' THEN ARRAY['SELECT'] "                                         \
	"ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END AS needs FROM pg_class c "             \
	"WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'defib') "               \
	"AND c.relkind IN ('r', 'S')) AS t"
static const char usable_sql[] =
	"SELECT has_schema_privilege('defib', 'USAGE'), (SELECT bool_and(CASE relkind WHEN 'S' THEN "
	"has_sequence_privilege(oid, p) ELSE has_table_privilege(oid, p) END) FROM " NEEDS
	", unnest(t.needs) AS p), has_schema_privilege('defib', 'CREATE')";
static const char grants_sql[] =
	"SELECT string_agg(format('GRANT %s ON %s TO %s;', needs, names, $1::text), ' ' "
	"ORDER BY needs DESC) "
	"FROM (SELECT array_to_string(needs, ', ') AS needs, CASE relkind WHEN 'S' THEN 'SEQUENCE ' "
	"ELSE '' END || string_agg(format('defib.%I', relname), ', ' ORDER BY relname) AS names "
	"FROM " NEEDS " GROUP BY needs, relkind) AS g";

static const char *grant_use(struct examination *x)
{
	struct store_rows rows;
	struct store_param role = P_TEXT(x->role);
	if (!asked(x, grants_sql, &role, 1, &rows))
		return NULL;
	return arena_printf(&x->arena, "GRANT USAGE ON SCHEMA defib TO %s; %s", x->role,
	                    row_text(&rows, 0, 0));
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

/* Our tables whose ids come from a sequence, and where the sequence is. */
static const char sequences_sql[] =
	"SELECT quote_ident(c.relname), quote_ident(a.attname), coalesce(s.last_value, 0), "
	"to_regclass(q.name)::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
	"AND a.attnum > 0 AND NOT a.attisdropped "
	"CROSS JOIN LATERAL (SELECT CASE c.relname WHEN 'ledger' THEN 'defib.ledger_id' ELSE "
	"pg_get_serial_sequence('defib.' || c.relname, a.attname) END AS name) q "
	"JOIN pg_sequences s ON to_regclass(format('%I.%I', s.schemaname, s.sequencename)) = "
	"to_regclass(q.name) WHERE c.relnamespace = to_regnamespace('defib') AND "
	"(c.relname, a.attname) IN (('job', 'id'), ('ledger', 'id'), ('worker', 'id'), "
	"('delivery', 'seq')) AND has_table_privilege(c.oid, 'SELECT') "
	"AND has_sequence_privilege(to_regclass(q.name), 'USAGE, SELECT') ORDER BY 1";

/* The last id of one table; false: it could not be asked, and that is said. */
static bool last_id(struct examination *x, const char *table, const char *column, int64_t *id)
{
	struct store_rows rows;
	const char *sql =
		arena_printf(&x->arena, "SELECT coalesce(max(%s), 0) FROM defib.%s", column, table);
	if (!asked(x, sql, NULL, 0, &rows))
		return false;
	*id = row_int(&rows, 0, 0, 0);
	return true;
}

void check_sequences(struct examination *x)
{
	struct store_rows rows;
	int behind = 0;
	if (!asked(x, sequences_sql, NULL, 0, &rows) || rows.nrows == 0)
		return;
	for (int i = 0; i < rows.nrows; i++) {
		const char *table = row_text(&rows, i, 0), *column = row_text(&rows, i, 1);
		int64_t given = row_int(&rows, i, 2, 0), last = 0;
		if (!last_id(x, table, column, &last))
			return;
		if (last <= given)
			continue;
		behind++;
		found(x, FINDING_FAIL,
		      arena_printf(&x->arena, "SELECT setval('%s', (SELECT max(%s) FROM defib.%s));",
		                   row_text(&rows, i, 3), column, table),
		      "the sequence of defib.%s is at %lld, the table at %lld: ids would be given twice, "
		      "and writing to it fails",
		      table, (long long)given, (long long)last);
	}
	if (!behind)
		found(x, FINDING_OK, NULL, "the sequences of defib's tables are not behind them");
}
