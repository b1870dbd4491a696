/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/story.h"

#include "insight/step_attempts.h"
#include "watch/timesql.h"

struct telling {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const struct workflow_list *flows;
	const char *job, *key[WATCH_KEYS_MAX];
	struct arena *arena;
};

/* SELECT … of the one row. */
static defib_err select_row(struct telling *t, const char *list, struct store_rows *rows,
                            struct failure *f)
{
	const struct binding *b = t->sql->binding;
	struct store_param params[WATCH_KEYS_MAX];
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql, "SELECT %s", list);
	from_table(b, &sql);
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(&sql, k ? " AND " : "\nWHERE ");
		key_column(b, k, &sql);
		buf_add(&sql, " = ");
		parameter(b, k + 1, b->key_type[k], &sql);
		params[k] = P_TEXT(t->key[k]);
	}
	return store_exec(t->store, buf_text(&sql), params, b->watch->key.n, t->arena, rows, f);
}

static defib_err story_read_columns(struct telling *t, struct story *out, struct failure *f)
{
	struct store_rows rows;
	defib_err err = select_row(t, "t.*", &rows, f);
	if (err || rows.nrows == 0)
		return err;
	out->ncolumns = rows.ncols;
	out->names = rows.names;
	out->values = rows.cells;
	return DEFIB_OK;
}

static defib_err read_moments(struct telling *t, struct story *out, struct failure *f)
{
	const struct binding *b = t->sql->binding;
	const struct watch *w = b->watch;
	const struct sql_text *started =
		w->stats.started_at.text ? &w->stats.started_at : &w->started_at;
	const struct sql_text *const moments[] = {&w->since, started, &w->stats.finished_at};
	struct store_rows rows;
	AUTO_BUF list = BUF_INIT;
	for (int m = 0; m < MOMENT_COUNT; m++) {
		buf_add(&list, m ? ", " : "");
		if (moments[m]->text)
			sql_time_us(b, b->time, moments[m]->text, &list);
		else
			buf_add(&list, "NULL");
	}
	buf_addf(&list, ", (%s), (%s)", w->stats.failed.text ? w->stats.failed.text : "false",
	         w->work.ready.text ? w->work.ready.text : "NULL");
	defib_err err = select_row(t, buf_text(&list), &rows, f);
	for (int m = 0; !err && rows.nrows > 0 && m < MOMENT_COUNT; m++) {
		out->has[m] = row_text(&rows, 0, m) != NULL;
		out->at_us[m] = row_int(&rows, 0, m, 0);
		out->failed = row_bool(&rows, 0, MOMENT_COUNT);
		out->ready = row_text(&rows, 0, MOMENT_COUNT + 1) && row_bool(&rows, 0, MOMENT_COUNT + 1);
	}
	return err;
}

/* Which of our own tables exist and may be read. */
struct own_tables {
	bool step, step_attempt, progress, job_data;
};

static defib_err tables_there(struct telling *t, struct own_tables *out, struct failure *f)
{
	const struct {
		const char *name;
		bool *there;
	} tables[] = {{"step", &out->step},
	              {"step_attempt", &out->step_attempt},
	              {"progress", &out->progress},
	              {"job_data", &out->job_data}};
	defib_err err = DEFIB_OK;
	for (size_t i = 0; !err && i < sizeof tables / sizeof *tables; i++)
		err = dialect_own_table(t->store, tables[i].name, tables[i].there, f);
	return err;
}

static defib_err story_read_steps(struct telling *t, struct story *out, struct failure *f)
{
	static const char sql[] =
		"SELECT step, position, state, epoch, output, error, {us started_at}, {us finished_at}, "
		"attempt, worker FROM defib.step WHERE watch = $1 AND job = $2 ORDER BY position, step";
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(t->sql->binding->watch->name), P_TEXT(t->job)};
	defib_err err = dialect_exec(t->store, sql, params, 2, t->arena, &rows, f);
	if (err)
		return err;
	out->nsteps = rows.nrows;
	out->steps = ARENA_ARRAY(t->arena, struct story_step, rows.nrows);
	for (int i = 0; i < rows.nrows; i++)
		out->steps[i] = (struct story_step){
			.name = row_text(&rows, i, 0),
			.position = row_int(&rows, i, 1, 0),
			.state = row_text(&rows, i, 2),
			.epoch = row_int(&rows, i, 3, 0),
			.output = row_text(&rows, i, 4),
			.error = row_text(&rows, i, 5),
			.has_started = row_text(&rows, i, 6) != NULL,
			.started_us = row_int(&rows, i, 6, 0),
			.has_finished = true,
			.finished_us = row_int(&rows, i, 7, 0),
			.attempt = row_int(&rows, i, 8, 0),
			.worker = row_text(&rows, i, 9),
		};
	return DEFIB_OK;
}

/* Only jobs of the built-in queue have it. */
static defib_err read_progress(struct telling *t, struct story *out, struct failure *f)
{
	static const char sql[] =
		"SELECT step, progress, epoch, {us at} FROM defib.progress WHERE job = $1::bigint";
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(t->job)};
	defib_err err = dialect_exec(t->store, sql, params, 1, t->arena, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	out->progress = (struct story_progress){
		.there = true,
		.step = row_text(&rows, 0, 0),
		.text = row_text(&rows, 0, 1),
		.epoch = row_int(&rows, 0, 2, 0),
		.at_us = row_int(&rows, 0, 3, 0),
	};
	return DEFIB_OK;
}

static defib_err read_data(struct telling *t, struct story *out, struct failure *f)
{
	static const char sql[] =
		"SELECT payload, result, {list_json tags} FROM defib.job_data WHERE job = $1::bigint";
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(t->job)};
	defib_err err = dialect_exec(t->store, sql, params, 1, t->arena, &rows, f);
	if (err)
		return err;
	out->data.there = true;
	if (rows.nrows > 0)
		out->data = (struct story_data){.there = true,
		                                .payload = row_text(&rows, 0, 0),
		                                .result = row_text(&rows, 0, 1),
		                                .tags = row_text(&rows, 0, 2)};
	return DEFIB_OK;
}

static bool is_queue(const struct watch *w)
{
	return text_eq(w->table, "defib.job") || text_eq(w->table, "defib_job");
}

static const struct workflow *story_workflow_of(const struct telling *t, const struct story *s)
{
	const struct watch *w = t->sql->binding->watch;
	const char *kind = s->row.facts.kind;
	if (is_queue(w))
		return t->flows && kind ? workflow_named(t->flows, kind) : NULL;
	return work_workflow(&w->work, kind);
}

static defib_err read_work(struct telling *t, struct story *out, struct failure *f)
{
	struct own_tables own = {0};
	const struct watch *w = t->sql->binding->watch;
	bool queue = is_queue(w);
	defib_err err = tables_there(t, &own, f);
	if (!err && own.step)
		err = story_read_steps(t, out, f);
	if (!err && own.step_attempt)
		err = step_attempts_read(t->store, w, queue, story_workflow_of(t, out), t->arena, out, f);
	if (!err && own.progress && queue)
		err = read_progress(t, out, f);
	if (!err && own.job_data && queue)
		err = read_data(t, out, f);
	return err;
}

static defib_err story_read_ledger(struct telling *t, struct story *out, struct failure *f)
{
	const char *watch = t->sql->binding->watch->name;
	struct ledger_filter filter = {
		.watch = watch, .job = t->job, .limit = STORY_ENTRIES_MAX, .newest_first = true};
	struct ledger_row *newest = NULL;
	struct held_job *holds = NULL;
	struct pending_retry *retries = NULL;
	int n = 0, nholds = 0, nretries = 0;
	if (!t->ledger->ready)
		return DEFIB_OK;
	defib_err err = ledger_read(t->store, &filter, t->arena, &newest, &n, f);
	if (!err)
		err = ledger_holds_list(t->store, watch, t->job, 1, t->arena, &holds, &nholds, f);
	if (!err)
		err = ledger_retries_of(t->store, watch, &t->job, 1, t->arena, &retries, &nretries, f);
	if (err)
		return err;
	out->nentries = n;
	out->entries = ARENA_ARRAY(t->arena, struct ledger_row, n);
	for (int i = 0; i < n; i++)
		out->entries[i] = newest[n - 1 - i];
	out->has_hold = nholds > 0;
	if (nholds > 0)
		out->hold = holds[0];
	out->has_retry = nretries > 0;
	if (nretries > 0)
		out->retry = retries[0];
	return DEFIB_OK;
}

defib_err story_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                     const struct workflow_list *flows, const char *job, struct arena *a,
                     struct story *out, bool *found, struct failure *f)
{
	struct telling t = {.store = s, .sql = q, .ledger = l, .flows = flows, .arena = a};
	struct browse one = {.jobs = &job, .njobs = 1, .facts = true};
	struct browsed *rows = NULL;
	bool more;
	int n = 0;
	*out = (struct story){0};
	*found = false;
	defib_err err = browse_jobs(&(struct look){s, q, l, a}, &one, &rows, &n, &more, f);
	if (err || n == 0)
		return err;
	*found = true;
	out->row = rows[0];
	t.job = out->row.job;
	for (int k = 0; k < q->binding->watch->key.n; k++)
		t.key[k] = out->row.at.key[k];
	err = story_read_columns(&t, out, f);
	if (!err)
		err = read_moments(&t, out, f);
	if (!err)
		err = story_read_ledger(&t, out, f);
	if (!err)
		err = read_work(&t, out, f);
	return err ? err : claim_of(s, q->binding->watch, t.job, a, &out->claim, &out->has_claim, f);
}
