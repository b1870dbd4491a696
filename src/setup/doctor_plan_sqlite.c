/* SPDX-License-Identifier: Apache-2.0
 * doctor_plan_sqlite.c: whether the scan has an index to use on SQLite, from what
 * EXPLAIN QUERY PLAN says. SQLite takes an index that fits whatever the size
 * of the table, so one plan tells all.
 */
#include "setup/doctor_check.h"

#include "base/text.h"

#define LOOK_LIMIT 1000

/* "SCAN t USING INDEX name", "SEARCH t USING COVERING INDEX name (a<?)": the name, or NULL. */
static const char *index_of(struct examination *x, const char *detail)
{
	const char *at = strstr(detail, " INDEX ");
	if (!at)
		return NULL;
	at += strlen(" INDEX ");
	const char *end = strstr(at, " (");
	return end ? arena_strndup(&x->arena, at, (size_t)(end - at)) : arena_strdup(&x->arena, at);
}

static bool is_partial(struct examination *x, const char *index)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param params[] = {P_TEXT(bare_table(x)), P_TEXT(index)};
	return !ask(x, "SELECT partial FROM pragma_index_list(?1) WHERE name = ?2", params, 2, &rows,
	            &f) &&
	       rows.nrows > 0 && row_bool(&rows, 0, 0);
}

/* The index that serves, or NULL when all rows, or a whole index, are read. */
static const char *serving(struct examination *x, const struct store_rows *plan)
{
	const char *index = NULL;
	for (int i = 0; i < plan->nrows; i++) {
		const char *detail = row_text(plan, i, 3);
		bool scan = text_eq(detail, "SCAN t") || text_starts(detail, "SCAN t ");
		if (!scan && !text_starts(detail, "SEARCH t "))
			continue;
		const char *name = index_of(x, detail);
		if (scan && (!name || !is_partial(x, name)))
			return NULL;
		index = name ? name : "of the primary key";
	}
	return index;
}

void check_plan_sqlite(struct examination *x)
{
	struct store_rows plan, size;
	struct store_param limit = P_INT(LOOK_LIMIT);
	const char *sql = arena_printf(&x->arena, "EXPLAIN QUERY PLAN %s", x->sql.look_first);
	const char *count = arena_printf(&x->arena, "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %d)",
	                                 x->table, LARGE_TABLE_ROWS + 1);
	if (!asked(x, sql, &limit, 1, &plan) || !asked(x, count, NULL, 0, &size))
		return;
	const char *index = serving(x, &plan);
	bool large = row_int(&size, 0, 0, 0) > LARGE_TABLE_ROWS;
	if (index || all_rows_run(x->watch) || !large)
		x->stage = STAGE_BOUNDED;
	if (index)
		found(x, FINDING_OK, NULL, "the scan uses index %s", index);
	else if (all_rows_run(x->watch))
		found(x, FINDING_OK, NULL, "every row of the table is running: a scan reads them all");
	else if (large)
		found(x, FINDING_FAIL, index_statement(x), "a scan reads the whole table (over %s rows)",
		      grouped(x, LARGE_TABLE_ROWS));
	else
		found(x, FINDING_WARN, index_statement(x),
		      "the scan has no index to use: the table is small (%s rows), but once it grows, a "
		      "scan reads all of it",
		      grouped(x, row_int(&size, 0, 0, 0)));
}
