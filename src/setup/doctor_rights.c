/* SPDX-License-Identifier: Apache-2.0
 * doctor_rights.c: whether the role has the privileges that the watch needs, and those on defib's
 * own tables, with the exact GRANT if not.
 *
 * For what a scan reads, the database itself is asked: EXPLAIN checks the privileges of a statement
 * without running it, in a read-only transaction. Statements get an empty relation of jobs. EXPLAIN
 * plans, and planning evaluates functions; so statements that write, in which the user may call any
 * function, are only compared with the catalog.
 */

#include "setup/doctor_rights.h"

#include "embedded.h"
#include "lib/advice.h"
#include "setup/doctor_check.h"

#include "ledger/schema.h"
#include "recover/census.h"
#include "setup/trust.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lexer.h"

const char *const doctor_commands_of[RIGHTS_GROUPS] = {
	[RIGHTS_VIEW] = "scan, list, show, explain, status, stats, top, ledger, report, whatif, doctor",
	[RIGHTS_ACT] = "scan --fix, requeue and the other acts by hand, undo, pause, raise, learn",
	[RIGHTS_DAEMON] = "daemon (without --work)",
	[RIGHTS_WORK] = "work, daemon --work, enqueue, workers in other languages",
	[RIGHTS_RUN] = "run, on a table that defib db attach was run for",
};

/* The statement without comments and the contents of strings, which only look like names. */
static void names_of(struct examination *x, const char *sql, struct buf *out)
{
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, sql, x->store->engine);
	while ((t = sql_next(&lx)).type != SQL_END)
		if (t.type == SQL_SPACE)
			buf_add(out, " ");
		else if (t.type == SQL_STRING)
			buf_add(out, "''");
		else
			buf_addn(out, t.text, t.len);
}

static const char *lacking_grants(struct examination *x, const char *sql, bool refused)
{
	AUTO_BUF names = BUF_INIT;
	struct store_rows rows;
	struct failure f = {0};
	names_of(x, sql, &names);
	struct store_param params[] = {P_TEXT(buf_text(&names)), P_INT(refused)};
	if (!store_dialect(x->store)->has_grants ||
	    ask(x, sql_postgres_doctor_grants, params, 2, &rows, &f))
		return NULL;
	return row_text(&rows, 0, 0);
}

const char *missing_grants(struct examination *x, const char *sql)
{
	return lacking_grants(x, sql, true);
}

/* Check a statement's privileges; `jobs` are its parameters, released here. */
static defib_err rights_explain(struct examination *x, const char *sql, struct relation *jobs,
                                struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX] = {P_INT(1)};
	AUTO_BUF explained = BUF_INIT;
	struct store_rows rows;
	int n = 1;
	if (jobs) {
		n = relation_nparams(jobs);
		relation_params(jobs, params);
	}
	buf_addf(&explained, "EXPLAIN %s", sql);
	defib_err err = ask(x, buf_text(&explained), params, n, &rows, f);
	if (jobs)
		relation_release(jobs);
	return err;
}

/* What a refused statement means: a FAIL with the GRANT, or a check that could not be made. */
static void refused(struct examination *x, struct failure *f, const char *grant, const char *what)
{
	if (store_blames_sql(f->code)) {
		found(x, FINDING_FAIL,
		      *failure_next(f) ? failure_next(f) : "correct the watch's expressions",
		      "%s fails: %s", what, f->what);
		return;
	}
	if (f->code != DEFIB_PERMISSION) {
		unclear(x, f);
		return;
	}
	found(x, FINDING_FAIL, grant ? grant : "grant this role the privilege that the message names",
	      "%s is not allowed: %s", what, f->what);
}

void check_read(struct examination *x)
{
	struct failure f = {0};
	struct relation keys;
	const char *sql = x->sql.look_first;
	if (!store_dialect(x->store)->has_grants) {
		x->stage = STAGE_READS; /* a role that can open the file may read all of it */
		return;
	}
	defib_err err = rights_explain(x, sql, NULL, &f);
	if (!err) {
		sql = x->sql.reread;
		keys_relation(&x->binding, &keys);
		err = rights_explain(x, sql, &keys, &f);
	}
	if (err) {
		refused(x, &f, missing_grants(x, sql), "reading the rows");
		return;
	}
	x->stage = STAGE_READS;
	found(x, FINDING_OK, NULL, "role %s may read the watched columns", x->role);
}

/* UPDATE on exactly the columns that SET lists write. */
static const char *column_grant(struct examination *x)
{
	AUTO_BUF names = BUF_INIT;
	struct store_rows rows;
	struct failure f = {0};
	buf_add(&names, "[");
	for (int i = 0; i < x->sql.nbefore; i++) {
		buf_add(&names, i ? "," : "");
		buf_add_json(&names, x->sql.before[i]);
	}
	buf_add(&names, "]");
	struct store_param params[] = {P_TEXT(x->table), P_TEXT(buf_text(&names))};
	defib_err err = ask(x,
	                    "SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c.place) FROM "
	                    "json_array_elements_text($2::json) WITH ORDINALITY AS c(name, place) "
	                    "WHERE NOT has_column_privilege(to_regclass($1), c.name, 'UPDATE')",
	                    params, 2, &rows, &f);
	if (err || !row_text(&rows, 0, 0))
		return NULL;
	return arena_printf(&x->arena, "GRANT UPDATE (%s) ON %s TO %s;", row_text(&rows, 0, 0),
	                    x->table, x->role);
}

/* Locking a row requires the privilege to update any column of it. */
static const char *lock_grant(struct examination *x)
{
	AUTO_BUF key = BUF_INIT;
	sql_ident(&key, x->watch->key.items[0]);
	return arena_printf(&x->arena, "GRANT UPDATE (%s) ON %s TO %s;", buf_text(&key), x->table,
	                    x->role);
}

static bool may_lock(struct examination *x)
{
	struct relation keys;
	struct failure f = {0};
	keys_relation(&x->binding, &keys);
	if (!rights_explain(x, x->sql.lock, &keys, &f))
		return true;
	refused(x, &f, lock_grant(x), "locking the rows");
	return false;
}

/* "… permission denied for table beats": the table, as the server names it. */
static const char *denied_table(struct examination *x, struct failure *f)
{
	static const char *const before = "permission denied for table ";
	const char *at = strstr(f->what, before);
	if (!at)
		return NULL;
	at += strlen(before);
	return arena_printf(&x->arena, "%.*s", (int)strcspn(at, " ;"), at);
}

/*
 * The state of a job in another table must be locked with it (apply_may_lock()), signs of life are
 * if that is allowed.
 */
static void check_lock_signs(struct examination *x)
{
	struct relation keys;
	struct failure f = {0};
	if (x->sql.unlockable)
		found(
			x, FINDING_FAIL,
			"write (SELECT … FROM … WHERE …) or EXISTS (SELECT …), with the job's key in its WHERE",
			"%s reads the state of a job in another table in a way that cannot be locked: nothing "
			"can be recovered",
			x->sql.unlockable);
	if (!x->sql.lock_signs)
		return;
	keys_relation(&x->binding, &keys);
	if (rights_explain(x, x->sql.lock_signs, &keys, &f) != DEFIB_PERMISSION)
		return;
	const char *table = denied_table(x, &f);
	if (x->sql.lock_states &&
	    rights_explain(x, x->sql.lock_states, &keys, &f) == DEFIB_PERMISSION) {
		table = denied_table(x, &f);
		found(x, FINDING_FAIL,
		      table ? arena_printf(&x->arena, "GRANT UPDATE ON %s TO %s;", table, x->role) : NULL,
		      "role %s may not lock the rows of other tables that hold the state of a job: nothing "
		      "can be recovered",
		      x->role);
		return;
	}
	found(x, FINDING_WARN,
	      table ? arena_printf(&x->arena, "GRANT UPDATE ON %s TO %s;", table, x->role) : NULL,
	      "role %s may not lock the rows that hold signs of life: a heartbeat at the moment of a "
	      "recovery can be missed",
	      x->role);
}

/* The columns of a SET list have been compared with the catalog; it may read other tables. */
static bool may_write(struct examination *x, int act)
{
	for (int i = 0; i < x->sql.nwrites[act]; i++) {
		const struct write_sql *w = &x->sql.writes[act][i];
		const char *grants = lacking_grants(x, w->set ? w->set : w->sql, false);
		if (!grants)
			continue;
		found(x, FINDING_FAIL, grants,
		      "role %s may not %s: it lacks privileges on what the statements name", x->role,
		      act_name(act));
		return false;
	}
	return true;
}

/* Whether this watch can do anything but report. */
static bool rights_acts(const struct watch *w)
{
	bool any = false;
	for (int r = 0; r < REMEDY_COUNT; r++)
		any = any || w->actions[r].form != ACTION_NONE;
	for (int i = 0; i < w->nrules; i++)
		any = any || w->rules[i].remedy != REMEDY_REPORT;
	return any;
}

void check_write(struct examination *x)
{
	if (!rights_acts(x->watch)) {
		found(x, FINDING_OK, NULL, "the watch only reports: nothing is written");
		return;
	}
	const char *grant = column_grant(x);
	if (grant) {
		found(
			x, FINDING_FAIL, grant,
			"role %s may not update the columns that the remedies write: nothing can be recovered",
			x->role);
		return;
	}
	bool good = may_lock(x);
	for (int act = 0; act < ACT_COUNT && good; act++)
		good = may_write(x, act);
	if (good)
		found(x, FINDING_OK, NULL, "role %s may write the columns of the remedies", x->role);
	if (good)
		check_lock_signs(x);
}

/* A policy that lets the role do it with every row. */
static const char *policy_for(struct examination *x, const char *command, const char *name)
{
	return arena_printf(&x->arena, "CREATE POLICY %s ON %s FOR %s TO %s USING (true);", name,
	                    x->table, command, x->role);
}

static void report_policies(struct examination *x, const struct store_rows *rows)
{
	const char *names = row_text(rows, 0, 0) ? row_text(rows, 0, 0) : "none";
	bool writes = rights_acts(x->watch);
	bool sees = row_bool(rows, 0, 1), may_write = row_bool(rows, 0, 2) || !writes;
	bool all = row_bool(rows, 0, 3) && (row_bool(rows, 0, 4) || !writes);
	const char *see = policy_for(x, "SELECT", "defib_select");
	const char *update = policy_for(x, "UPDATE", "defib_update");
	if (!sees)
		found(x, FINDING_FAIL, may_write ? see : arena_printf(&x->arena, "%s %s", see, update),
		      "row-level security hides every row of %s from role %s: no policy lets it SELECT "
		      "(policies that apply to it: %s)",
		      x->table, x->role, names);
	else if (!may_write)
		found(x, FINDING_FAIL, update,
		      "row-level security lets role %s see rows of %s that can never be locked or written: "
		      "no policy covers UPDATE (policies that apply to it: %s)",
		      x->role, x->table, names);
	else if (!all)
		found(x, FINDING_WARN,
		      "make sure that they let this role see and write every job, or give defib a role "
		      "that they do not apply to",
		      "row-level security applies to role %s on %s: hidden rows are not watched, or writes "
		      "to them are refused (policies that apply to it: %s)",
		      x->role, x->table, names);
	else
		found(x, FINDING_OK, NULL, "row-level security hides no row from role %s: %s", x->role,
		      names);
}

void check_policies(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param table = P_TEXT(x->table);
	bool on = false;
	if (row_security(x->store, x->watch, &on, &f))
		unclear(x, &f);
	else if (on && asked(x, sql_postgres_doctor_policies, &table, 1, &rows))
		report_policies(x, &rows);
}

/*
 * ---- defib's own tables ----
 *
 * One table (ledger/schema.h) defines what each command needs; the grants printed here are exactly
 * what the role lacks of it.
 */

#define WITHOUT "without it hold, undo and the crash budget are off"
#define BY_A_DBA                                                                                   \
	"have a DBA run the output of defib init --print: it creates the tables and grants this role " \
	"its rights"

/* What the role lacks; NULL: that could not be determined, which is reported. */
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
		if (asked(x, sql_postgres_doctor_own_tables, NULL, 0, &state))
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

/* The last id of one table; false: it could not be read, which is reported. */
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
	/* Naming an object in a schema without the USAGE privilege is an error. */
	if (!asked(x,
	           "SELECT 1 FROM pg_namespace WHERE nspname = 'defib' AND has_schema_privilege(oid, "
	           "'USAGE')",
	           NULL, 0, &rows) ||
	    rows.nrows == 0 || !asked(x, sql_postgres_doctor_sequences, NULL, 0, &rows) ||
	    rows.nrows == 0)
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

/* A table that shows whether those of a group exist; else whether they may be created. */
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
		      doctor_commands_of[group]);
		return;
	}
	if (!there) {
		found(x, FINDING_WARN, BY_A_DBA,
		      "the tables for %s do not exist, and this role may not create them: %s",
		      doctor_commands_of[group], lost);
		return;
	}
	const char *grants = lacking(x, group);
	if (grants && *grants)
		found(x, FINDING_WARN, grants, "role %s lacks rights for %s: %s", x->role,
		      doctor_commands_of[group], lost);
	else if (grants)
		found(x, FINDING_OK, NULL, "role %s may use the tables for %s", x->role,
		      doctor_commands_of[group]);
}

void check_daemon_tables(struct examination *x)
{
	check_group(x, RIGHTS_DAEMON, "leader",
	            "one daemon works without them, but several cannot agree on a leader, and pause, "
	            "status and alerts do not work");
}

/* Only if defib's workers are used, or one of our queues exists. */
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

bool check_code(struct examination *x)
{
	struct failure f = {0};
	defib_err err = trust_watch(x->store, x->watch, true, &f);
	x->check = "code";
	if (err == DEFIB_REFUSED)
		found(x, FINDING_FAIL, failure_next(&f), "%s; so nothing else was checked", f.what);
	return !err;
}

/* Functions of ours are called with the rights of workers and daemons. */
void check_schema(struct examination *x)
{
	struct store_rows rows;
	if (!asked(x, store_dialect(x->store)->ask.own_schema, NULL, 0, &rows) || rows.nrows == 0)
		return;
	if (row_text(&rows, 0, 0))
		found(x, FINDING_FAIL, row_text(&rows, 0, 1), "%s", row_text(&rows, 0, 0));
	else
		found(x, FINDING_OK, NULL, "only its owner, role %s, can create in schema defib",
		      row_text(&rows, 0, 2));
}
