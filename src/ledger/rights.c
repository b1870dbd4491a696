/* SPDX-License-Identifier: Apache-2.0 */
/* rights.c: see rights.h. */
#include "ledger/rights.h"

#include "base/text.h"
#include "store/dialect.h"

const char *const rights_names[] = {"view", "act", "daemon", "work", "run", NULL};
const char *const rights_of_commands[RIGHTS_GROUPS] = {
	[RIGHTS_VIEW] = "scan, list, show, explain, status, stats, top, ledger, report, whatif, doctor",
	[RIGHTS_ACT] = "scan --fix, requeue and the other acts by hand, undo, pause, raise, learn",
	[RIGHTS_DAEMON] = "daemon (without --work)",
	[RIGHTS_WORK] = "work, daemon --work, enqueue, workers in other languages",
	[RIGHTS_RUN] = "run, on a table that defib attach was run for",
};

#define READ "SELECT"
#define ADD "SELECT, INSERT"
#define CHANGE "SELECT, INSERT, UPDATE"
#define ALL "SELECT, INSERT, UPDATE, DELETE"

enum right_on { ON_TABLE, ON_SEQUENCE, ON_FUNCTION };

/*
 * What is not named here is not needed. A function is named without its arguments. Of the
 * ledger a role may only add: who could change or delete entries, or write seals, could also
 * do so unseen.
 */
static const struct right {
	enum right_on on;
	const char *name;
	const char *needs[RIGHTS_GROUPS];
} rights[] = {
	{ON_TABLE, "ledger", {READ, ADD, ADD, ADD, ADD}},
	{ON_TABLE, "ledger_seal", {READ, READ, READ, READ, READ}},
	{ON_SEQUENCE, "ledger_id", {NULL, "USAGE", "USAGE", "USAGE", "USAGE"}},
	{ON_TABLE, "hold", {READ, ALL, ALL, ALL, ALL}},
	{ON_TABLE, "retry", {READ, ALL, ALL, ALL, ALL}},
	{ON_TABLE, "leader", {READ, READ, ALL, READ, NULL}},
	{ON_TABLE, "setting", {READ, ALL, ALL, READ, NULL}},
	{ON_TABLE, "status", {READ, READ, ALL, READ, NULL}},
	{ON_TABLE, "learned", {READ, ALL, ALL, READ, NULL}},
	{ON_TABLE, "kept", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "alert", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "delivery", {READ, READ, ALL, NULL, NULL}},
	{ON_TABLE, "meta", {READ, READ, CHANGE, CHANGE, READ}}, /* retention keeps a floor there */
	{ON_TABLE, "worker", {READ, CHANGE, ALL, ALL, READ}},
	{ON_TABLE, "job", {READ, CHANGE, ALL, ALL, READ}},
	{ON_SEQUENCE, "job_id_seq", {NULL, NULL, "USAGE", "USAGE", NULL}},
	{ON_TABLE, "job_data", {READ, CHANGE, ALL, ALL, READ}},
	{ON_TABLE, "enqueued", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "progress", {READ, READ, ALL, ALL, NULL}},
	{ON_TABLE, "step", {READ, CHANGE, ALL, ALL, CHANGE}},
	{ON_TABLE, "lease", {READ, CHANGE, ALL, ALL, CHANGE}},
	{ON_TABLE, "claimed_by", {READ, ALL, ALL, READ, ALL}},
	{ON_TABLE, "program", {READ, READ, ALL, READ, ALL}},
};
#define NRIGHTS (int)(sizeof rights / sizeof *rights)

static const char *const on_words[] = {
	[ON_TABLE] = "TABLE", [ON_SEQUENCE] = "SEQUENCE", [ON_FUNCTION] = "FUNCTION"};

/* Made by defib attach, with its trigger: they need not be there. */
static bool is_of_attach(const struct right *r)
{
	return text_eq(r->name, "claimed_by") || text_eq(r->name, "program");
}

/* All that needs the same is granted by one statement, where the first of them stands. */
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

static const char lacking_sql[] =
	"WITH needs AS (SELECT n.kind, n.name, p.privilege, p.place FROM json_to_recordset($1::json) "
	"AS n(kind text, name text, privileges text), unnest(string_to_array(n.privileges, ', ')) "
	"WITH ORDINALITY AS p(privilege, place)), "
	"lacks AS (SELECT needs.kind, format('%I.%I', s.nspname, c.relname) AS object, privilege, "
	"place FROM needs JOIN pg_class c ON c.relname = needs.name JOIN pg_namespace s ON s.oid = "
	"c.relnamespace AND s.nspname = 'defib' WHERE needs.kind <> 'FUNCTION' AND NOT CASE "
	"needs.kind WHEN 'SEQUENCE' THEN has_sequence_privilege(c.oid, privilege) ELSE "
	"has_table_privilege(c.oid, privilege) END "
	"UNION ALL SELECT needs.kind, format('%I.%I(%s)', s.nspname, p.proname, "
	"pg_get_function_identity_arguments(p.oid)), privilege, place FROM needs JOIN pg_proc p ON "
	"p.proname = needs.name JOIN pg_namespace s ON s.oid = p.pronamespace AND s.nspname = 'defib' "
	"WHERE needs.kind = 'FUNCTION' AND NOT has_function_privilege(p.oid, privilege)), "
	"grants AS (SELECT kind, privileges, string_agg(object, ', ' ORDER BY object) AS objects FROM "
	"(SELECT kind, object, string_agg(privilege, ', ' ORDER BY place) AS privileges FROM lacks "
	"GROUP BY 1, 2) AS o GROUP BY 1, 2) "
	"SELECT concat_ws(' ', (SELECT format('GRANT USAGE ON SCHEMA defib TO %I;', current_user) FROM "
	"pg_namespace WHERE nspname = 'defib' AND NOT has_schema_privilege(oid, 'USAGE')), "
	"(SELECT string_agg(format('GRANT %s ON %s %s TO %I;', privileges, kind, objects, "
	"current_user), ' ' ORDER BY kind DESC, privileges) FROM grants))";

defib_err rights_lacking(struct store *s, enum rights_group group, struct arena *a,
                         const char **grants, struct failure *f)
{
	struct buf needs = BUF_INIT;
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
	defib_err err = store_exec(s, lacking_sql, &param, 1, a, &rows, f);
	buf_release(&needs);
	if (!err && row_text(&rows, 0, 0))
		*grants = row_text(&rows, 0, 0);
	return err;
}
