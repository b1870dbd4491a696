/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/orders.h"

#include "store/dialect.h"
#include "watch/grants.h"

/* $1 the role, $2 what it needs, $3 whether that is all, $4 whether it must exist. */
static const char refusal_sql[] =
	"WITH r AS (SELECT oid, rolsuper, rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = "
	"$1::text), n AS (SELECT x.\"table\" AS name, x.privilege, x.\"column\" AS part, "
	"to_regclass(x.\"table\") AS oid FROM json_to_recordset($2::json) AS x(\"table\" text, "
	"privilege "
	"text, \"column\" text)), "
	"lacks AS (SELECT CASE WHEN n.part IS NULL THEN format('%s on %s', n.privilege, n.name) ELSE "
	"format('%s on column %I of %s', n.privilege, n.part, n.name) END AS what FROM n, r WHERE "
	"(CASE "
	"WHEN n.part IS NULL THEN has_table_privilege(r.oid, n.oid, n.privilege) ELSE "
	"has_column_privilege(r.oid, n.oid, n.part, n.privilege) END) IS NOT TRUE UNION ALL SELECT "
	"format('USAGE on schema %I', s.nspname) FROM n, r, pg_catalog.pg_class c, "
	"pg_catalog.pg_namespace s WHERE c.oid = n.oid AND s.oid = c.relnamespace AND NOT "
	"has_schema_privilege(r.oid, s.oid, 'USAGE')), "
	"policed AS (SELECT n.name FROM n, r, pg_catalog.pg_class c WHERE c.oid = n.oid AND "
	"c.relrowsecurity AND NOT r.rolbypassrls) "
	"SELECT CASE WHEN $1::text = session_user OR (SELECT rolsuper FROM r) THEN NULL "
	"WHEN $1::text IS NULL THEN 'it names no role' "
	"WHEN NOT EXISTS (SELECT FROM r) THEN CASE WHEN $4::bigint = 1 THEN format('role %s does not "
	"exist', $1::text) END "
	"WHEN $3::bigint = 0 THEN format('role %s may not order it: remedies of the watch are more "
	"than "
	"SET lists', $1::text) "
	"WHEN EXISTS (SELECT FROM lacks) THEN format('role %s lacks %s', $1::text, (SELECT what FROM "
	"lacks ORDER BY what LIMIT 1)) "
	"WHEN EXISTS (SELECT FROM policed) THEN format('role %s may not order it: %s has row "
	"security', "
	"$1::text, (SELECT name FROM policed ORDER BY name LIMIT 1)) END";

static void add_need(void *ctx, const char *table, const char *privilege, const char *column)
{
	struct buf *out = ctx;
	buf_add(out, out->len ? ",{\"table\":" : "[{\"table\":");
	buf_add_json(out, table);
	buf_add(out, ",\"privilege\":");
	buf_add_json(out, privilege);
	if (column) {
		buf_add(out, ",\"column\":");
		buf_add_json(out, column);
	}
	buf_add(out, "}");
}

static bool only_sets(const struct watch *w)
{
	for (int act = 0; act < ACT_COUNT; act++)
		if (w->actions[act].form != ACTION_NONE && w->actions[act].form != ACTION_SET)
			return false;
	return w->also.n == 0;
}

static defib_err orders_check(struct store *s, const struct watch *w, const char *role,
                              bool all_known, bool must_exist, struct arena *a,
                              const char **refusal, struct failure *f)
{
	AUTO_BUF needs = BUF_INIT;
	struct store_rows rows;
	*refusal = NULL;
	if (!store_dialect(s)->has_grants)
		return DEFIB_OK;
	watch_each_need(w, WATCH_RECOVER, a, add_need, &needs);
	buf_add(&needs, "]");
	const struct store_param params[] = {P_TEXT(role), P_TEXT(buf_text(&needs)), P_INT(all_known),
	                                     P_INT(must_exist)};
	defib_err err = store_exec(s, refusal_sql, params, 4, a, &rows, f);
	*refusal = row_text(&rows, 0, 0);
	return err;
}

defib_err order_check(struct store *s, const struct watch *w, const char *role, struct arena *a,
                      const char **refusal, struct failure *f)
{
	return orders_check(s, w, role, only_sets(w), true, a, refusal, f);
}

defib_err order_check_entry(struct store *s, const struct watch *w, const char *role,
                            struct arena *a, const char **refusal, struct failure *f)
{
	return orders_check(s, w, role, true, false, a, refusal, f);
}
