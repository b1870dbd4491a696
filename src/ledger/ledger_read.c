/* SPDX-License-Identifier: Apache-2.0
 * ledger_read.c: the ledger read back, by filter and by cursor.
 *
 * Only the conditions that are asked for stand in the statement: a condition
 * that may or may not hold would keep SQLite from using an index.
 */
#include "ledger/ledger.h"
#include "ledger/schema.h"

#include "ledger/read_rows.h"
#include "ledger/tables.h"

#include <assert.h>

#define FILTER_PARAMS_MAX 12

/* A statement in the making, with its parameters. */
struct asking {
	struct buf sql;
	struct store_param params[FILTER_PARAMS_MAX];
	int nparams;
};

/* Add " AND <column> <op> $n". */
static void add_condition(struct asking *q, const char *column_op, struct store_param value)
{
	assert(q->nparams < FILTER_PARAMS_MAX);
	q->params[q->nparams++] = value;
	buf_addf(&q->sql, " AND %s $%d", column_op, q->nparams);
}

/* The parts of a scan are X.1, X.2 …; "/" is the character behind ".". */
static void add_batch(struct asking *q, const char *batch, struct arena *a)
{
	int first = q->nparams + 1;
	assert(q->nparams + 3 <= FILTER_PARAMS_MAX);
	q->params[q->nparams++] = P_TEXT(batch);
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s.", batch));
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s/", batch));
	/* By bytes, as the index is, whatever the database's collation. */
	buf_addf(&q->sql, " AND (batch = $%d OR {between_bytes batch|$%d|$%d})", first, first + 1,
	         first + 2);
}

static void add_filter(struct asking *q, const struct ledger_filter *filter, struct arena *a)
{
	const struct {
		const char *column_op, *value;
	} texts[] = {{"watch =", filter->watch},
	             {"job =", filter->job},
	             {"event =", filter->event},
	             {"actor =", filter->actor}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].value)
			add_condition(q, texts[i].column_op, P_TEXT(texts[i].value));
	if (filter->batch)
		add_batch(q, filter->batch, a);
	if (filter->after_id)
		add_condition(q, "id >", P_INT(filter->after_id));
	if (filter->up_to_id)
		add_condition(q, "id <=", P_INT(filter->up_to_id));
	if (filter->since_us) {
		q->params[q->nparams++] = P_INT(filter->since_us);
		buf_addf(&q->sql, " AND at >= {stamp_ago $%d}", q->nparams);
	}
}

defib_err ledger_read(struct store *s, const struct ledger_filter *filter, struct arena *a,
                      struct ledger_row **out, int *n, struct failure *f)
{
	struct asking q = {.sql = BUF_INIT};
	struct store_rows rows;
	buf_add(&q.sql, "SELECT " LEDGER_ROW_COLUMNS " FROM defib.ledger AS l WHERE true");
	add_filter(&q, filter, a);
	assert(q.nparams < FILTER_PARAMS_MAX);
	q.params[q.nparams++] = P_INT(filter->limit ? filter->limit : LEDGER_READ_MAX);
	/* The + keeps planners from walking the whole primary key for the sake of the order. */
	buf_addf(&q.sql, " ORDER BY %sid%s LIMIT $%d", filter->batch ? "+" : "",
	         filter->newest_first ? " DESC" : "", q.nparams);
	defib_err err = dialect_exec(s, buf_text(&q.sql), q.params, q.nparams, a, &rows, f);
	if (!err)
		*out = rows_decode(&rows, a, n);
	buf_release(&q.sql);
	return err;
}

defib_err ledger_exists(struct store *s, bool *exists, struct failure *f)
{
	*exists = s->ledger_seen;
	if (s->ledger_seen)
		return DEFIB_OK;
	defib_err err = schema_has(s, "ledger", exists, f);
	s->ledger_seen = !err && *exists;
	return err;
}

defib_err ledger_top(struct store *s, int64_t *id, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_exec(s, "SELECT max(id) FROM defib.ledger", NULL, 0, &a, &rows, f);
	s->ledger_seen = s->ledger_seen && !err; /* it may have been dropped */
	if (!err)
		*id = row_int(&rows, 0, 0, 0);
	arena_release(&a);
	return err;
}

struct ledger_row *rows_decode(const struct store_rows *rows, struct arena *a, int *n)
{
	struct ledger_row *all = ARENA_ARRAY(a, struct ledger_row, rows->nrows);
	*n = rows->nrows;
	for (int i = 0; i < rows->nrows; i++)
		all[i] = (struct ledger_row){
			.id = row_int(rows, i, 0, 0),
			.at = row_text(rows, i, 1),
			.batch = row_text(rows, i, 2),
			.watch = row_text(rows, i, 3),
			.job = row_text(rows, i, 4),
			.event = row_text(rows, i, 5),
			.actor = row_text(rows, i, 6),
			.verdict = row_text(rows, i, 7),
			.rule = row_text(rows, i, 8),
			.reason = row_text(rows, i, 9),
			.evidence = row_text(rows, i, 10),
			.before = row_text(rows, i, 11),
			.after = row_text(rows, i, 12),
			.has_epoch = row_text(rows, i, 13) != NULL,
			.epoch = row_int(rows, i, 13, 0),
		};
	return all;
}
