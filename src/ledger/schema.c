/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/schema.h"

#include "embedded.h"
#include "ledger/jobs.h"
#include "store/dialect.h"
#include "watch/lexer.h"

#include <assert.h>

const char *schema_script(enum schema_part part, enum store_engine engine)
{
	static const char *const names[] = {"ledger", "daemon", "queue"};
	char name[64];
	snprintf(name, sizeof name, "sql/%s_%s.sql", dialect_of(engine)->name, names[part]);
	const char *text = embedded_text(name);
	assert(text != NULL);
	return text;
}

defib_err schema_run(struct store *s, const char *script, struct failure *f)
{
	AUTO_BUF statement = BUF_INIT;
	defib_err err = DEFIB_OK;
	while (!err && sql_next_statement(&script, s->engine, &statement))
		err = store_exec(s, buf_text(&statement), NULL, 0, NULL, NULL, f);
	return err;
}

defib_err schema_install(struct store *s, enum schema_part last, struct failure *f)
{
	assert(last < SCHEMA_PARTS);
	defib_err err = DEFIB_OK;
	for (int try = 0; try < 2; try++) {
		err = store_begin(s, TX_WRITE, f);
		if (!err)
			err = schema_lock(s, f);
		bool again = err == DEFIB_CONSTRAINT; /* another one created the schema meanwhile */
		for (int part = 0; part <= (int)last && !err; part++)
			err = schema_run(s, schema_script((enum schema_part)part, s->engine), f);
		err = s->in_tx ? store_end(s, err, f) : err;
		if (!again)
			break;
	}
	return err;
}

defib_err schema_refuse_shared(struct store *s, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	if (!store_dialect(s)->ask.own_schema)
		return DEFIB_OK;
	defib_err err = store_exec(s, store_dialect(s)->ask.own_schema, NULL, 0, &a, &rows, f);
	if (err || !row_text(&rows, 0, 0))
		return err;
	fail(f, DEFIB_PERMISSION, "%s", row_text(&rows, 0, 0));
	fail_next(f, "%s", row_text(&rows, 0, 1));
	return DEFIB_PERMISSION;
}

defib_err schema_lock(struct store *s, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	if (!store_dialect(s)->has_grants)
		return DEFIB_OK;
	defib_err err = store_exec(
		s, "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'defib'", NULL,
		0, &a, &rows, f);
	if (err)
		return err;
	if (rows.nrows == 0)
		return schema_run(s, "CREATE SCHEMA defib", f);
	/* Another transaction that does the same waits for the lock on the schema. */
	if (row_bool(&rows, 0, 0))
		err = schema_run(s, "COMMENT ON SCHEMA defib IS 'Tables and functions of defib'", f);
	return err ? err : schema_refuse_shared(s, f);
}

/*
 * The catalogs show the role's privileges without touching the tables: any other query would fail
 * on a schema that may not be used.
 */
defib_err schema_look(struct store *s, const char *table, bool write, enum schema_presence *out,
                      struct failure *f)
{
	struct store_param params[] = {P_TEXT(table), P_INT(write)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_exec(s, store_dialect(s)->ask.own_table, params, 2, &a, &rows, f);
	if (!err)
		*out = rows.nrows == 0         ? SCHEMA_MISSING
		       : row_bool(&rows, 0, 0) ? SCHEMA_THERE
		                               : SCHEMA_CLOSED;
	return err;
}

defib_err schema_has(struct store *s, const char *table, bool *there, struct failure *f)
{
	enum schema_presence presence = SCHEMA_MISSING;
	defib_err err = schema_look(s, table, false, &presence, f);
	*there = presence == SCHEMA_THERE;
	return err;
}

/*
 * Checked before trying: a role that may not create would fill the server's log with its attempts.
 */
defib_err schema_may_install(struct store *s, bool *may, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	*may = true;
	if (!store_dialect(s)->ask.may_create)
		return DEFIB_OK;
	defib_err err = store_exec(s, store_dialect(s)->ask.may_create, NULL, 0, &a, &rows, f);
	*may = row_bool(&rows, 0, 0);
	return err;
}

defib_err schema_refused(struct failure *f, const char *what)
{
	fail(f, DEFIB_PERMISSION, "%s", what);
	fail_advise(f, ADVISE_CREATE_TABLES, NULL);
	return DEFIB_PERMISSION;
}

defib_err schema_ready(struct store *s, const char *table, enum schema_part last, bool create,
                       bool *there, struct failure *f)
{
	enum schema_presence presence = SCHEMA_MISSING;
	bool may = false;
	*there = false;
	defib_err err = schema_look(s, table, create, &presence, f);
	if (!err && presence == SCHEMA_CLOSED)
		return schema_refused(f, create ? "this role may not write to defib's own tables"
		                                : "this role may not read defib's own tables");
	*there = presence == SCHEMA_THERE;
	if (err || *there || !create)
		return err;
	err = schema_may_install(s, &may, f);
	if (!err && !may)
		return schema_refused(f,
		                      "defib's own tables do not exist, and this role may not create them");
	if (!err)
		err = schema_install(s, last, f);
	*there = !err;
	return err;
}

/* ---- privileges ---- */

const char *const rights_names[] = {"view", "act", "daemon", "work", "run", NULL};

#define READ "SELECT"
#define ADD "SELECT, INSERT"
#define EDIT "SELECT, UPDATE"
#define REMOVE "SELECT, DELETE"
#define CHANGE "SELECT, INSERT, UPDATE"
#define ALL "SELECT, INSERT, UPDATE, DELETE"

/*
 * Leases are locked together with their workers, and whoever may lock a row must be allowed to
 * update one column of it: this one decides nothing. Only workers and daemons declare a worker
 * dead.
 */
#define LOCK_WORKER "SELECT, UPDATE (holding)"

enum right_on { ON_TABLE, ON_SEQUENCE };

/*
 * What is not listed is not needed. A role may only add to the ledger: a role that could change or
 * delete entries, or write seals, could do so unseen.
 */
static const struct right {
	enum right_on on;
	const char *name;
	const char *needs[RIGHTS_GROUPS];
} rights[] = {
	{ON_TABLE, "ledger", {READ, ADD, ADD, ADD, ADD}},
	{ON_TABLE, "ledger_seal", {READ, READ, READ, READ, READ}},
	{ON_TABLE, "ledger_order", {READ, EDIT, EDIT, EDIT, EDIT}}, /* to lock its row */
	{ON_SEQUENCE, "ledger_id", {NULL, "USAGE", "USAGE", "USAGE", "USAGE"}},
	{ON_TABLE, "hold", {READ, ALL, ALL, ALL, ALL}},
	{ON_TABLE, "retry", {READ, ALL, ALL, ALL, ALL}},
	{ON_TABLE, "seen", {READ, ALL, ALL, ALL, NULL}},
	{ON_TABLE, "leader", {READ, READ, ALL, READ, NULL}},
	{ON_TABLE, "setting", {READ, ALL, ALL, READ, NULL}},
	{ON_TABLE, "status", {READ, READ, ALL, READ, NULL}},
	{ON_TABLE, "learned", {READ, ALL, ALL, READ, NULL}},
	{ON_TABLE, "series", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "digest", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "kept", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "alert", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "delivery", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "act", {READ, CHANGE, ALL, NULL, NULL}},
	{ON_TABLE, "meta", {READ, READ, CHANGE, CHANGE, READ}}, /* retention keeps a floor there */
	{ON_TABLE, "worker", {READ, LOCK_WORKER, ALL, ALL, READ}},
	{ON_TABLE, "job", {READ, EDIT, ALL, ALL, READ}},
	{ON_SEQUENCE, "job_id_seq", {NULL, NULL, "USAGE", "USAGE", NULL}},
	{ON_TABLE, "job_data", {READ, READ, ALL, ALL, READ}},
	{ON_TABLE, "enqueued", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "progress", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "step", {READ, CHANGE, ALL, ALL, CHANGE}},
	{ON_TABLE, "step_attempt", {READ, CHANGE, ALL, ALL, CHANGE}},
	{ON_TABLE, "lease", {READ, CHANGE, ALL, ALL, CHANGE}},
	{ON_TABLE, "claimed_by", {READ, REMOVE, REMOVE, READ, REMOVE}}, /* a trigger writes them */
	{ON_TABLE, "program", {READ, READ, ALL, READ, ALL}},
};
#define NRIGHTS (int)(sizeof rights / sizeof *rights)

static const char *const on_words[] = {[ON_TABLE] = "TABLE", [ON_SEQUENCE] = "SEQUENCE"};

/* Created by defib attach, with its trigger: they may be missing. */
static bool is_of_attach(const struct right *r)
{
	return text_eq(r->name, "claimed_by") || text_eq(r->name, "program");
}

/*
 * Objects that need the same privileges are granted by one statement, at the position of the first.
 */
static void grant_alike(enum rights_group group, int first, const char *role, struct buf *out)
{
	const struct right *r = &rights[first];
	int n = 0;
	for (int i = 0; i < first; i++)
		if (rights[i].on == r->on && text_eq(rights[i].needs[group], r->needs[group]))
			return;
	for (int i = first; i < NRIGHTS; i++) {
		if (rights[i].on != r->on || !text_eq(rights[i].needs[group], r->needs[group]) ||
		    is_of_attach(&rights[i]))
			continue;
		if (n++ == 0)
			buf_addf(out, "GRANT %s ON %s ", r->needs[group], on_words[r->on]);
		else
			buf_add(out, ", ");
		buf_addf(out, "defib.%s", rights[i].name);
	}
	if (n)
		buf_addf(out, " TO %s;\n", role);
}

void rights_grants(enum rights_group group, const char *role, struct buf *out)
{
	buf_addf(out, "GRANT USAGE ON SCHEMA defib TO %s;\n", role);
	for (int i = 0; i < NRIGHTS; i++)
		if (rights[i].needs[group])
			grant_alike(group, i, role, out);
	for (int i = 0; i < NRIGHTS; i++)
		if (rights[i].needs[group] && is_of_attach(&rights[i]))
			buf_addf(out,
			         "DO $$ BEGIN IF to_regclass('defib.%s') IS NOT NULL THEN "
			         "GRANT %s ON defib.%s TO %s; END IF; END $$;\n",
			         rights[i].name, rights[i].needs[group], rights[i].name, role);
}

defib_err rights_lacking(struct store *s, enum rights_group group, struct arena *a,
                         const char **grants, struct failure *f)
{
	AUTO_BUF needs = BUF_INIT;
	struct store_rows rows;
	*grants = "";
	if (!store_dialect(s)->has_grants)
		return DEFIB_OK;
	for (int i = 0; i < NRIGHTS; i++)
		if (rights[i].needs[group])
			buf_addf(&needs, "%s{\"kind\":\"%s\",\"name\":\"%s\",\"privileges\":\"%s\"}",
			         needs.len ? "," : "[", on_words[rights[i].on], rights[i].name,
			         rights[i].needs[group]);
	buf_add(&needs, "]");
	struct store_param param = P_TEXT(buf_text(&needs));
	defib_err err = store_exec(s, sql_postgres_rights_lacking, &param, 1, a, &rows, f);
	if (!err && row_text(&rows, 0, 0))
		*grants = row_text(&rows, 0, 0);
	return err;
}
