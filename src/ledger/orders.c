/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/orders.h"

#include "embedded.h"
#include "store/dialect.h"
#include "watch/grants.h"

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
	defib_err err = store_exec(s, sql_postgres_rights_refusal, params, 4, a, &rows, f);
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
