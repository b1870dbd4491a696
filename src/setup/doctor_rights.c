/* SPDX-License-Identifier: Apache-2.0
 * doctor_rights.c: whether the role may do what the watch asks for, and the
 * exact GRANT where it may not.
 *
 * The database itself is asked: EXPLAIN checks the privileges of a statement
 * without running it, also of one that writes, in a read-only transaction.
 * Statements are given an empty relation of jobs.
 */
#include "setup/doctor_check.h"

#include "recover/census.h"
#include "store/dialect.h"

/*
 * Relations that a statement names, by where it names them, and the privileges
 * on them that the role lacks. Tables of which it may use some columns come
 * last: another one is more likely to be the trouble.
 */
static const char grants_sql[] =
	"WITH named AS (SELECT c.oid, n.nspname, c.relname, "
	"'(\"([^\"]|\"\")+\"\\.|\\w+\\.)?(\"' || regexp_replace(replace(c.relname, '\"', '\"\"'), "
	"'(\\W)', "
	"'\\\\\\1', 'g') || '\"|' || regexp_replace(c.relname, '(\\W)', '\\\\\\1', 'g') || "
	"'(?![\\w\"]))' AS pattern FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
	"WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (pg_table_is_visible(c.oid) OR "
	"strpos($1, n.nspname) > 0) AND strpos($1, replace(c.relname, '\"', '\"\"')) > 0), "
	"lacks AS (SELECT nspname, relname, p.privilege, "
	"has_any_column_privilege(oid, 'SELECT') AND p.privilege = 'SELECT' AS partly FROM named, "
	"(VALUES ('SELECT', '\\m(from|join|using)\\s+(only\\s+)?|,\\s*'), ('INSERT', "
	"'\\minto\\s+'), ('UPDATE', '\\mupdate\\s+(only\\s+)?'), ('DELETE', "
	"'\\mdelete\\s+from\\s+(only\\s+)?')) AS p(privilege, place) "
	"WHERE $1 ~* ('(' || p.place || ')' || pattern) AND NOT has_table_privilege(oid, p.privilege)) "
	"SELECT string_agg(format('GRANT %s ON %I.%I TO %I;', privileges, nspname, relname, "
	"current_user), ' ') FROM (SELECT nspname, relname, string_agg(privilege, ', ' ORDER BY "
	"privilege DESC) AS privileges FROM lacks WHERE NOT partly OR NOT EXISTS (SELECT 1 FROM "
	"lacks WHERE NOT partly) GROUP BY 1, 2) AS g";

const char *missing_grants(struct examination *x, const char *sql)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param text = P_TEXT(sql);
	if (!store_dialect(x->store)->has_grants || ask(x, grants_sql, &text, 1, &rows, &f))
		return NULL;
	return row_text(&rows, 0, 0);
}

/* Ask for a statement's privileges; `jobs` are the parameters it takes, released here. */
static defib_err explain(struct examination *x, const char *sql, struct relation *jobs,
                         struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX] = {P_INT(1)};
	struct buf explained = BUF_INIT;
	struct store_rows rows;
	int n = 1;
	if (jobs) {
		n = relation_nparams(jobs);
		relation_params(jobs, params);
	}
	buf_addf(&explained, "EXPLAIN %s", sql);
	defib_err err = ask(x, buf_text(&explained), params, n, &rows, f);
	buf_release(&explained);
	if (jobs)
		relation_release(jobs);
	return err;
}

/* What a refused statement means: a FAIL with the GRANT, or a check that could not be made. */
static void refused(struct examination *x, const struct failure *f, const char *grant,
                    const char *what)
{
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
		x->stage = STAGE_READS; /* who has the file may read all of it */
		return;
	}
	defib_err err = explain(x, sql, NULL, &f);
	if (!err) {
		sql = x->sql.reread;
		keys_relation(&x->binding, &keys);
		err = explain(x, sql, &keys, &f);
	}
	if (err) {
		refused(x, &f, missing_grants(x, sql), "reading the rows");
		return;
	}
	x->stage = STAGE_READS;
	found(x, FINDING_OK, NULL, "role %s may read the watched columns", x->role);
}

/* UPDATE on the columns that SET lists write, of which there is none to spare. */
static const char *column_grant(struct examination *x)
{
	struct buf names = BUF_INIT;
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
	buf_release(&names);
	if (err || !row_text(&rows, 0, 0))
		return NULL;
	return arena_printf(&x->arena, "GRANT UPDATE (%s) ON %s TO %s;", row_text(&rows, 0, 0),
	                    x->table, x->role);
}

/* A row can be locked by who may update any column of it. */
static const char *lock_grant(struct examination *x)
{
	struct buf key = BUF_INIT;
	sql_ident(&key, x->watch->key.items[0]);
	const char *grant = arena_printf(&x->arena, "GRANT UPDATE (%s) ON %s TO %s;", buf_text(&key),
	                                 x->table, x->role);
	buf_release(&key);
	return grant;
}

static bool may_lock(struct examination *x)
{
	struct relation keys;
	struct failure f = {0};
	keys_relation(&x->binding, &keys);
	if (!explain(x, x->sql.lock, &keys, &f))
		return true;
	refused(x, &f, lock_grant(x), "locking the rows");
	return false;
}

/* "… permission denied for table beats": the table, as the server names it. */
static const char *denied_table(struct examination *x, const struct failure *f)
{
	static const char *const before = "permission denied for table ";
	const char *at = strstr(f->what, before);
	if (!at)
		return NULL;
	at += strlen(before);
	return arena_printf(&x->arena, "%.*s", (int)strcspn(at, " ;"), at);
}

/* Signs of life in other tables are locked with the job where that is allowed. */
static void check_lock_signs(struct examination *x)
{
	struct relation keys;
	struct failure f = {0};
	if (!x->sql.lock_signs)
		return;
	keys_relation(&x->binding, &keys);
	if (explain(x, x->sql.lock_signs, &keys, &f) != DEFIB_PERMISSION)
		return;
	const char *table = denied_table(x, &f);
	found(x, FINDING_WARN,
	      table ? arena_printf(&x->arena, "GRANT UPDATE ON %s TO %s;", table, x->role) : NULL,
	      "role %s may not lock the rows that hold signs of life: a heartbeat at the moment of a "
	      "recovery can be missed",
	      x->role);
}

static bool may_write(struct examination *x, int act)
{
	for (int i = 0; i < x->sql.nwrites[act]; i++) {
		const struct write_sql *w = &x->sql.writes[act][i];
		struct relation jobs;
		struct failure f = {0};
		write_relation(&x->binding, w, &jobs);
		if (!explain(x, w->sql, &jobs, &f))
			continue;
		refused(x, &f, missing_grants(x, w->sql), arena_printf(&x->arena, "to %s", act_name(act)));
		return false;
	}
	return true;
}

/* Whether anything but a report can come of this watch. */
static bool acts(const struct watch *w)
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
	if (!acts(x->watch)) {
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

/*
 * The policies that apply to this role when it reads and updates; whether it may do either at all,
 * and with every row. Reading what is to be written takes both.
 */
static const char policies_sql[] =
	"SELECT string_agg(format('%I (%s%s)', polname, CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'w' "
	"THEN 'UPDATE' ELSE 'ALL' END, CASE WHEN polpermissive THEN '' ELSE ', restrictive' END), "
	"', ' ORDER BY polname), coalesce(bool_or(reads AND polpermissive), false), "
	"coalesce(bool_or(writes AND polpermissive), false), coalesce(bool_or(reads AND polpermissive "
	"AND every) AND NOT bool_or(reads AND NOT polpermissive), false), "
	"coalesce(bool_or(writes AND polpermissive AND every) AND NOT bool_or(writes AND NOT "
	"polpermissive), false) FROM (SELECT p.*, polcmd IN ('r', '*') AS reads, polcmd IN ('w', '*') "
	"AS writes, pg_get_expr(polqual, polrelid) = 'true' AND "
	"coalesce(pg_get_expr(polwithcheck, polrelid), 'true') = 'true' AS every FROM pg_policy p "
	"WHERE polrelid = to_regclass($1) AND polcmd IN ('r', 'w', '*') AND EXISTS (SELECT FROM "
	"unnest(polroles) AS r(id) WHERE r.id = 0 OR pg_has_role(r.id, 'USAGE'))) AS p";

/* A policy that lets the role do it with every row. */
static const char *policy_for(struct examination *x, const char *command, const char *name)
{
	return arena_printf(&x->arena, "CREATE POLICY %s ON %s FOR %s TO %s USING (true);", name,
	                    x->table, command, x->role);
}

static void tell_policies(struct examination *x, const struct store_rows *rows)
{
	const char *names = row_text(rows, 0, 0) ? row_text(rows, 0, 0) : "none";
	bool writes = acts(x->watch);
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
	else if (on && asked(x, policies_sql, &table, 1, &rows))
		tell_policies(x, &rows);
}
