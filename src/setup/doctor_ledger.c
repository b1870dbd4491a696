/* SPDX-License-Identifier: Apache-2.0
 * doctor_ledger.c: whether defib can keep its ledger in this database, whether this role may
 * use defib's other tables, and what is off where it may not.
 *
 * What each command needs is said in one table (ledger/rights.h); the grants that are printed
 * here are what the role lacks of it, no more and no less.
 */
#include "ledger/rights.h"
#include "ledger/schema.h"
#include "setup/doctor_check.h"
#include "store/dialect.h"

#define WITHOUT "without it hold, undo and the crash budget are off"
#define BY_A_DBA                                                                                   \
	"have a DBA run the output of defib init --print: it creates the tables and grants this role " \
	"its rights"

/* Whether all of it is there, and whether a schema may be made. */
static const char state_sql[] =
	"SELECT (SELECT count(*) = 3 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
	"WHERE n.nspname = 'defib' AND c.relname IN ('ledger', 'hold', 'retry')), "
	"has_database_privilege(current_database(), 'CREATE') AND coalesce((SELECT "
	"has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE') FROM pg_namespace "
	"WHERE nspname = 'defib'), true)";

/* What the role lacks; NULL: that could not be asked, which is said. */
static const char *lacking(struct examination *x, enum rights_group group)
{
	struct failure f = {0};
	const char *grants = NULL;
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (!err) {
		err = rights_lacking(x->store, group, &x->arena, &grants, &f);
		store_rollback(x->store); /* nothing was written */
	}
	if (!err)
		return grants;
	unclear(x, &f);
	return NULL;
}

static void check_tables(struct examination *x, const struct store_rows *state)
{
	bool create = row_bool(state, 0, 1);
	if (!row_bool(state, 0, 0)) {
		x->ledger_usable = create;
		x->ledger_fix = create ? NULL : BY_A_DBA;
		if (create)
			found(x, FINDING_OK, NULL, "the ledger does not exist yet; the first --fix creates it");
		else
			found(x, FINDING_WARN, BY_A_DBA,
			      "the ledger does not exist, and this role may not create it: " WITHOUT);
		return;
	}
	const char *grants = lacking(x, RIGHTS_ACT);
	if (!grants)
		return;
	x->ledger_usable = !*grants;
	x->ledger_fix = *grants ? grants : NULL;
	if (*grants)
		found(x, FINDING_WARN, grants, "the ledger exists, but this role may not use it: " WITHOUT);
	else
		found(x, FINDING_OK, NULL, "the ledger exists and is writable");
}

void check_ledger(struct examination *x)
{
	struct store_rows state;
	struct ledger ledger;
	struct failure f = {0};
	if (x->doctor->ledger_off) {
		x->ledger_fix = "remove ledger: off from the configuration";
		found(x, FINDING_WARN, x->ledger_fix, "the ledger is off by configuration: " WITHOUT);
	} else if (store_dialect(x->store)->has_grants) {
		if (asked(x, state_sql, NULL, 0, &state))
			check_tables(x, &state);
	} else if (ledger_open(x->store, false, &ledger, &f)) {
		unclear(x, &f);
	} else {
		x->ledger_usable = true;
		found(x, FINDING_OK, NULL,
		      ledger.ready ? "the ledger exists"
		                   : "the ledger does not exist yet; the first --fix creates it");
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
	/* To name anything in a schema that may not be used is an error. */
	if (!asked(x,
	           "SELECT 1 FROM pg_namespace WHERE nspname = 'defib' AND has_schema_privilege(oid, "
	           "'USAGE')",
	           NULL, 0, &rows) ||
	    rows.nrows == 0 || !asked(x, sequences_sql, NULL, 0, &rows) || rows.nrows == 0)
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
		      "the sequence of defib.%s is at %lld, the table at %lld: the next ids are already "
		      "taken, and inserts fail",
		      table, (long long)given, (long long)last);
	}
	if (!behind)
		found(x, FINDING_OK, NULL, "the sequences of defib's tables are up to date");
}

/* A table that tells whether those of a group are there; else whether they may be made. */
static bool is_there(struct examination *x, const char *table, bool *there, bool *create)
{
	struct failure f = {0};
	enum schema_presence presence = SCHEMA_MISSING;
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (!err) {
		err = schema_look(x->store, table, false, &presence, &f);
		if (!err)
			err = schema_may_install(x->store, create, &f);
		store_rollback(x->store); /* nothing was written */
	}
	if (err)
		unclear(x, &f);
	*there = presence != SCHEMA_MISSING;
	return !err;
}

static void check_group(struct examination *x, enum rights_group group, const char *table,
                        const char *lost)
{
	bool there = false, create = false;
	if (!is_there(x, table, &there, &create))
		return;
	if (!there && create) {
		found(x, FINDING_OK, NULL,
		      "the tables for %s do not exist yet; they are created when needed",
		      rights_of_commands[group]);
		return;
	}
	if (!there) {
		found(x, FINDING_WARN, BY_A_DBA,
		      "the tables for %s do not exist, and this role may not create them: %s",
		      rights_of_commands[group], lost);
		return;
	}
	const char *grants = lacking(x, group);
	if (grants && *grants)
		found(x, FINDING_WARN, grants, "role %s lacks rights for %s: %s", x->role,
		      rights_of_commands[group], lost);
	else if (grants)
		found(x, FINDING_OK, NULL, "role %s may use the tables for %s", x->role,
		      rights_of_commands[group]);
}

void check_daemon_tables(struct examination *x)
{
	check_group(x, RIGHTS_DAEMON, "leader",
	            "one daemon works without them, but several cannot agree on a leader, and pause, "
	            "status and alerts do not work");
}

/* Only where somebody works with defib's workers, or a queue of ours is there. */
void check_work_tables(struct examination *x)
{
	bool works = false, there = false, create = false;
	for (int i = 0; i < x->doctor->nwatches; i++)
		works = works || (x->doctor->watches[i]->enabled && x->doctor->watches[i]->work.given);
	if (!is_there(x, "worker", &there, &create) || (!works && !there))
		return;
	check_group(x, RIGHTS_WORK, "worker", "defib's workers cannot register");
	if (is_there(x, "claimed_by", &there, &create) && there)
		check_group(x, RIGHTS_RUN, "claimed_by",
		            "defib run cannot recover the jobs of an ended program");
}
