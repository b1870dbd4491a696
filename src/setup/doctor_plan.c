/* SPDX-License-Identifier: Apache-2.0
 * doctor_plan.c: whether the scan has an index to use, according to EXPLAIN.
 *
 * On PostgreSQL a look must read running rows only. An index does that if it is partial (the
 * planner uses it only if our condition implies its own) or narrows by a condition. If a table is
 * too small for the planner to use an index, it is asked again with a high cost for sequential
 * scans.
 *
 * An index is proposed only if the planner would use it: it is created on an empty copy of the
 * table, a temporary one, in a transaction that is rolled back.
 */

#include "setup/doctor_plan.h"

#include "embedded.h"
#include "setup/doctor_check.h"

#include "store/dialect.h"

#include <ctype.h>
#include <jansson.h>

#define LOOK_LIMIT 1000
#define INDEXES_MAX 16
#define OTHERS_MAX 8

struct used_index {
	const char *schema, *name;
	bool narrows;
	double cost;
};

struct other_scan {
	const char *schema, *table, *filter;
};

/* What a plan does with the watched table, and which other tables it reads completely. */
struct scan_plan {
	bool whole;
	double matching; /* rows that the planner expects to pass the condition then */
	int nindexes;
	struct used_index indexes[INDEXES_MAX];
	int nothers;
	struct other_scan others[OTHERS_MAX];
};

static const char *plan_text_of(const json_t *node, const char *key)
{
	const char *text = json_string_value(json_object_get(node, key));
	return text ? text : "";
}

/* The watched table is t; its partitions are t_1, t_2, … */
static bool is_watched(const json_t *node)
{
	const char *alias = plan_text_of(node, "Alias");
	if (alias[0] != 't' || !json_object_get(node, "Relation Name"))
		return false;
	return alias[1] == '\0' || (alias[1] == '_' && isdigit((unsigned char)alias[2]));
}

static void note_index(struct examination *x, const json_t *node, const char *schema, double cost,
                       struct scan_plan *p)
{
	if (p->nindexes == INDEXES_MAX)
		return;
	p->indexes[p->nindexes++] = (struct used_index){
		.schema = arena_strdup(&x->arena, schema),
		.name = arena_strdup(&x->arena, plan_text_of(node, "Index Name")),
		.narrows = json_object_get(node, "Index Cond") != NULL,
		.cost = cost,
	};
}

static void note_other(struct examination *x, const json_t *node, struct scan_plan *p)
{
	if (p->nothers == OTHERS_MAX)
		return;
	p->others[p->nothers++] = (struct other_scan){
		.schema = arena_strdup(&x->arena, plan_text_of(node, "Schema")),
		.table = arena_strdup(&x->arena, plan_text_of(node, "Relation Name")),
		.filter = arena_strdup(&x->arena, plan_text_of(node, "Filter")),
	};
}

/* `heap` is the bitmap scan above, if any: its index nodes do not name their table. */
static void plan_walk(struct examination *x, const json_t *node, const json_t *heap,
                      struct scan_plan *p)
{
	const char *type = plan_text_of(node, "Node Type");
	double cost = json_number_value(json_object_get(node, "Total Cost"));

	if (text_eq(type, "Seq Scan") && is_watched(node)) {
		p->whole = true;
		p->matching += json_number_value(json_object_get(node, "Plan Rows"));
	} else if (text_eq(type, "Seq Scan")) {
		note_other(x, node, p);
	} else if (text_eq(type, "Bitmap Index Scan") && heap) {
		note_index(x, node, plan_text_of(heap, "Schema"), cost, p);
	} else if (is_watched(node) && json_object_get(node, "Index Name")) {
		note_index(x, node, plan_text_of(node, "Schema"), cost, p);
	}
	if (text_eq(type, "Bitmap Heap Scan"))
		heap = is_watched(node) ? node : NULL;
	const json_t *children = json_object_get(node, "Plans");
	for (size_t i = 0; i < json_array_size(children); i++)
		plan_walk(x, json_array_get(children, i), heap, p);
}

/*
 * EXPLAIN a query in the open transaction of a session; returns the root of its plan, inside
 * *document.
 */
static const json_t *explain_in(struct examination *x, struct store *s, const char *sql,
                                bool dear_scans, json_t **document, struct failure *f)
{
	AUTO_BUF text = BUF_INIT;
	struct store_rows rows;
	struct store_param limit = P_INT(LOOK_LIMIT);
	defib_err err = DEFIB_OK;
	*document = NULL;
	if (dear_scans)
		err = store_exec(s, "SELECT set_config('enable_seqscan', 'off', true)", NULL, 0, &x->arena,
		                 NULL, f);
	buf_addf(&text, "EXPLAIN (FORMAT JSON, VERBOSE) %s", sql);
	if (!err)
		err = store_exec(s, buf_text(&text), &limit, 1, &x->arena, &rows, f);
	if (!err)
		*document = json_loads(row_text(&rows, 0, 0), 0, NULL);
	return json_object_get(json_array_get(*document, 0), "Plan");
}

static const json_t *explain_statement(struct examination *x, const char *sql, bool dear_scans,
                                       json_t **document, struct failure *f)
{
	*document = NULL;
	if (store_begin(x->store, TX_READ, f))
		return NULL;
	const json_t *root = explain_in(x, x->store, sql, dear_scans, document, f);
	store_rollback(x->store);
	return root;
}

static bool plan_explain_look(struct examination *x, bool dear_scans, struct scan_plan *p)
{
	struct failure f = {0};
	json_auto_t *document = NULL;
	const json_t *root = explain_statement(x, x->sql.look_first, dear_scans, &document, &f);
	*p = (struct scan_plan){0};
	if (root)
		plan_walk(x, root, NULL, p);
	else
		unclear(x, &f);
	return root != NULL;
}

/* The planner's estimate of the table's rows, even if it was never analysed. */
static bool estimate(struct examination *x, int64_t *rows, double *cost)
{
	struct failure f = {0};
	json_auto_t *document = NULL;
	const char *sql = arena_printf(&x->arena, "SELECT * FROM %s LIMIT $1::bigint", x->table);
	const json_t *root = explain_statement(x, sql, false, &document, &f);
	const json_t *scan = json_array_get(json_object_get(root, "Plans"), 0);
	if (!root)
		unclear(x, &f);
	*rows = (int64_t)json_number_value(json_object_get(scan, "Plan Rows"));
	*cost = json_number_value(json_object_get(scan, "Total Cost"));
	return root != NULL;
}

static bool is_partial(struct examination *x, const struct used_index *index)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param params[] = {P_TEXT(index->schema), P_TEXT(index->name)};
	if (ask(x,
	        "SELECT i.indpred IS NOT NULL FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
	        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
	        params, 2, &rows, &f))
		return false;
	return rows.nrows > 0 && row_bool(&rows, 0, 0);
}

/* Whether every index of a plan skips most of the table. */
static bool plan_serves(struct examination *x, const struct scan_plan *p, double whole_cost,
                        bool large)
{
	if (p->whole || p->nindexes == 0)
		return false;
	for (int i = 0; i < p->nindexes; i++) {
		const struct used_index *index = &p->indexes[i];
		bool dear = large && index->cost > whole_cost / 2;
		if ((!index->narrows || dear) && !is_partial(x, index))
			return false;
	}
	return true;
}

static void check_others(struct examination *x, const struct scan_plan *p)
{
	for (int i = 0; i < p->nothers; i++) {
		const struct other_scan *o = &p->others[i];
		struct store_param params[] = {P_TEXT(o->schema), P_TEXT(o->table)};
		struct store_rows rows;
		if (!asked(x, sql_postgres_doctor_table_size, params, 2, &rows) || rows.nrows == 0 ||
		    row_int(&rows, 0, 0, 0) <= LARGE_TABLE_ROWS)
			continue;
		found(x, FINDING_FAIL,
		      arena_printf(&x->arena, "create an index on %s for %s", row_text(&rows, 0, 1),
		                   o->filter[0] ? o->filter : "the watch's expressions"),
		      "a scan also reads all of %s (about %s rows)", row_text(&rows, 0, 1),
		      grouped(x, row_int(&rows, 0, 0, 0)));
	}
}

/* If every row is running, there is nothing that an index could skip. */
static bool all_rows_run(const struct watch *w)
{
	return strcasecmp(w->running.text, "true") == 0 || text_eq(w->running.text, "1");
}

/* The catalog's answer about the table; false if it has none. */
static bool table_is(struct examination *x, const char *question)
{
	AUTO_BUF name = BUF_INIT;
	struct store_rows rows;
	if (!question)
		return false;
	store_dialect(x->store)->catalog_name(&name, x->watch->table);
	struct store_param table = P_TEXT(buf_text(&name));
	return asked(x, question, &table, 1, &rows) && rows.nrows == 1 && row_bool(&rows, 0, 0);
}

bool indexes_concurrently(struct examination *x)
{
	return table_is(x, store_dialect(x->store)->ask.index_online);
}

static bool is_view(struct examination *x)
{
	return table_is(x, store_dialect(x->store)->catalog.relation);
}

const char *index_advice(struct examination *x, const char *statement)
{
	if (!is_view(x))
		return statement;
	return arena_printf(&x->arena, "%s is a view: on the table behind it, %s", x->table, statement);
}

/* ---- SQLite uses a suitable index whatever the size of the table: one plan is enough ---- */

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

static bool sqlite_index_is_partial(struct examination *x, const char *index)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param params[] = {P_TEXT(bare_table(x)), P_TEXT(index)};
	return !ask(x, "SELECT partial FROM pragma_index_list(?1) WHERE name = ?2", params, 2, &rows,
	            &f) &&
	       rows.nrows > 0 && row_bool(&rows, 0, 0);
}

/*
 * The index that the plan uses, or NULL if it reads all rows, or a whole index. `partial`: whether
 * the indexes are; NULL: ask.
 */
static const char *serving(struct examination *x, const struct store_rows *plan,
                           const bool *partial)
{
	const char *index = NULL;
	for (int i = 0; i < plan->nrows; i++) {
		const char *detail = row_text(plan, i, 3);
		bool scan = text_eq(detail, "SCAN t") || text_starts(detail, "SCAN t ");
		if (!scan && !text_starts(detail, "SEARCH t "))
			continue;
		const char *name = index_of(x, detail);
		if (scan && (!name || !(partial ? *partial : sqlite_index_is_partial(x, name))))
			return NULL;
		index = name ? name : "of the primary key";
	}
	return index;
}

/* ---- which index to propose ---- */

#define TRIAL_TABLE "defib_trial"

/* What creating the index on a copy of the table showed. */
struct index_trial {
	bool serves;
	const char *same; /* the table has it already: its name */
};

/* Whether the plan of a look reads the copy through the new index, and only part of it. */
static defib_err trial_serves(struct examination *x, struct store *s, const char *look,
                              bool partial, bool *serves, struct failure *f)
{
	struct store_param limit = P_INT(LOOK_LIMIT);
	*serves = false;
	if (store_dialect(s)->is_file) {
		struct store_rows plan;
		const char *sql = arena_printf(&x->arena, "EXPLAIN QUERY PLAN %s", look);
		defib_err err = store_exec(s, sql, &limit, 1, &x->arena, &plan, f);
		*serves = !err && serving(x, &plan, &partial);
		return err;
	}
	json_auto_t *document = NULL;
	const json_t *root = explain_in(x, s, look, true, &document, f);
	struct scan_plan p = {0};
	if (!root)
		return f->code ? f->code : DEFIB_DATABASE;
	plan_walk(x, root, NULL, &p);
	*serves = !p.whole && p.nindexes > 0;
	for (int i = 0; i < p.nindexes; i++)
		*serves = *serves && (partial || p.indexes[i].narrows);
	return DEFIB_OK;
}

/* On a copy that is created, indexed and asked about in the open transaction. */
static defib_err try_on_copy(struct examination *x, struct store *s, struct index_trial *out,
                             struct failure *f)
{
	struct watch copy = *x->watch;
	struct binding binding = x->binding;
	struct watch_sql q;
	struct store_rows rows;
	AUTO_BUF index = BUF_INIT, table = BUF_INIT;
	binding.watch = &copy;
	copy.table = TRIAL_TABLE;
	store_dialect(s)->catalog_name(&table, x->watch->table);
	struct store_param tables[] = {P_TEXT(TRIAL_TABLE), P_TEXT(buf_text(&table))};
	(void)watch_index(&binding, false, &index);
	const char *create = arena_printf(
		&x->arena, "CREATE TEMP TABLE " TRIAL_TABLE " AS SELECT * FROM %s LIMIT 0", x->table);
	defib_err err = watch_compile(&binding, &x->arena, &q, f);
	if (!err)
		err = store_exec(s, create, NULL, 0, &x->arena, NULL, f);
	if (!err)
		err = store_exec(s, buf_text(&index), NULL, 0, &x->arena, NULL, f);
	if (!err)
		err = store_exec(s, store_dialect(s)->ask.same_index, tables, 2, &x->arena, &rows, f);
	if (err)
		return err;
	out->same = row_text(&rows, 0, 0);
	return trial_serves(x, s, q.look_first, row_bool(&rows, 0, 1), &out->serves, f);
}

/* A trigger of the database on CREATE TABLE would run, and its effects might stay. */
static bool may_create_copy(struct examination *x)
{
	const char *question = store_dialect(x->store)->ask.ddl_triggers;
	struct store_rows rows;
	struct failure f = {0};
	return x->doctor->trial != TRIAL_NONE &&
	       (!question || (!ask(x, question, NULL, 0, &rows, &f) && !row_bool(&rows, 0, 0)));
}

/* If it cannot be tried, an index that narrows anything is taken for one that serves. */
static void try_index(struct examination *x, struct index_trial *out)
{
	struct store_options options = x->doctor->store;
	struct failure f = {0};
	AUTO_STORE s = NULL;
	AUTO_BUF index = BUF_INIT;
	*out = (struct index_trial){.serves = watch_index(&x->binding, false, &index)};
	options.read_only = false;
	options.create = false;
	if (!out->serves || !may_create_copy(x) || x->doctor->open(&options, &s, &f) ||
	    store_begin(s, TX_WRITE, &f))
		return;
	defib_err err = try_on_copy(x, s, out, &f);
	store_rollback(s);
	/* The database refuses such an index: an expression is not immutable, a type has no order. */
	if (err && err != DEFIB_PERMISSION && err != DEFIB_READ_ONLY && err != DEFIB_LOCKED &&
	    err != DEFIB_TIMEOUT)
		out->serves = false;
}

/* What to do about a scan that has no index to use: a statement with its ';', or words. */
static const char *index_fix(struct examination *x)
{
	AUTO_BUF sql = BUF_INIT;
	struct index_trial trial;
	try_index(x, &trial);
	if (!trial.serves)
		return "no index can serve this watch: let running or the sign of life test a column of "
			   "the table, without functions of the clock";
	if (trial.same)
		return arena_printf(&x->arena, "ANALYZE %s;", x->table);
	(void)watch_index(&x->binding, indexes_concurrently(x), &sql);
	return index_advice(x, arena_printf(&x->arena, "%s;", buf_text(&sql)));
}

static void not_served(struct examination *x, const struct scan_plan *p, int64_t rows)
{
	struct scan_plan forced;
	if (rows > LARGE_TABLE_ROWS) {
		const char *most = "no index would be used, because most rows are running and past their "
						   "limit: recover them, or correct running: in the watch";
		const char *fix = p->matching > (double)rows / 2 ? most : index_fix(x);
		found(x, FINDING_FAIL, fix, "a scan reads %s table (about %s rows)%s%s",
		      p->whole ? "the whole" : "most of the", grouped(x, rows),
		      p->nindexes ? " through index " : "", p->nindexes ? p->indexes[0].name : "");
		return;
	}
	x->stage = STAGE_BOUNDED;
	if (!plan_explain_look(x, true, &forced))
		return;
	if (plan_serves(x, &forced, 0, false))
		found(x, FINDING_OK, NULL, "the table is small; the scan uses index %s when it grows",
		      forced.indexes[0].name);
	else
		found(x, FINDING_WARN, index_fix(x),
		      "the scan has no index to use: the table is small (about %s rows), but once it "
		      "grows, a scan reads all of it",
		      grouped(x, rows));
}

void check_plan(struct examination *x)
{
	struct scan_plan p;
	int64_t rows;
	double whole_cost;
	if (!plan_explain_look(x, false, &p) || !estimate(x, &rows, &whole_cost))
		return;
	if (all_rows_run(x->watch)) {
		x->stage = STAGE_BOUNDED;
		found(x, FINDING_OK, NULL, "every row of the table is running: a scan reads them all");
	} else if (plan_serves(x, &p, whole_cost, rows > LARGE_TABLE_ROWS)) {
		x->stage = STAGE_BOUNDED;
		found(x, FINDING_OK, NULL, "the scan uses index %s", p.indexes[0].name);
	} else {
		not_served(x, &p, rows);
	}
	check_others(x, &p);
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
	const char *index = serving(x, &plan, NULL);
	bool large = row_int(&size, 0, 0, 0) > LARGE_TABLE_ROWS;
	if (index || all_rows_run(x->watch) || !large)
		x->stage = STAGE_BOUNDED;
	if (index)
		found(x, FINDING_OK, NULL, "the scan uses index %s", index);
	else if (all_rows_run(x->watch))
		found(x, FINDING_OK, NULL, "every row of the table is running: a scan reads them all");
	else if (large)
		found(x, FINDING_FAIL, index_fix(x), "a scan reads the whole table (over %s rows)",
		      grouped(x, LARGE_TABLE_ROWS));
	else
		found(x, FINDING_WARN, index_fix(x),
		      "the scan has no index to use: the table is small (%s rows), but once it grows, a "
		      "scan reads all of it",
		      grouped(x, row_int(&size, 0, 0, 0)));
}
