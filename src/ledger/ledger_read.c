/*
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
	enum store_engine engine;
	struct buf sql;
	struct store_param params[FILTER_PARAMS_MAX];
	int nparams;
};

/* Add " AND <column> <op> $n". */
static void add_condition(struct asking *q, const char *column_op, struct store_param value)
{
	assert(q->nparams < FILTER_PARAMS_MAX);
	q->params[q->nparams++] = value;
	buf_addf(&q->sql, " AND %s %c%d", column_op, param_mark(q->engine), q->nparams);
}

/* The parts of a scan are X.1, X.2 …; "/" is the character behind ".". */
static void add_batch(struct asking *q, const char *batch, struct arena *a)
{
	static const char *const forms[] = {
		/* By bytes, as the index is, whatever the database's collation. */
		[STORE_POSTGRES] = " AND (batch = $%d OR batch ~>=~ $%d AND batch ~<~ $%d)",
		[STORE_SQLITE] = " AND (batch = ?%d OR batch >= ?%d AND batch < ?%d)"};
	int first = q->nparams + 1;
	assert(q->nparams + 3 <= FILTER_PARAMS_MAX);
	q->params[q->nparams++] = P_TEXT(batch);
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s.", batch));
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s/", batch));
	buf_addf(&q->sql, q->engine == STORE_POSTGRES ? forms[STORE_POSTGRES] : forms[STORE_SQLITE],
	         first, first + 1, first + 2);
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
		buf_add(&q->sql, " AND at >= ");
		add_ago(&q->sql, q->engine, q->nparams);
	}
}

defib_err ledger_read(struct store *s, const struct ledger_filter *filter, struct arena *a,
                      struct ledger_row **out, int *n, struct failure *f)
{
	struct asking q = {.engine = s->engine, .sql = BUF_INIT};
	struct store_rows rows;
	buf_add(&q.sql, "SELECT ");
	add_row_columns(&q.sql, s->engine);
	buf_addf(&q.sql, " FROM %s AS l WHERE true", ledger_table[s->engine]);
	add_filter(&q, filter, a);
	assert(q.nparams < FILTER_PARAMS_MAX);
	q.params[q.nparams++] = P_INT(filter->limit ? filter->limit : LEDGER_READ_MAX);
	/* The + keeps planners from walking the whole primary key for the sake of the order. */
	buf_addf(&q.sql, " ORDER BY %sid%s LIMIT %c%d", filter->batch ? "+" : "",
	         filter->newest_first ? " DESC" : "", param_mark(s->engine), q.nparams);
	defib_err err = store_exec(s, buf_text(&q.sql), q.params, q.nparams, a, &rows, f);
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
	const char *sql = arena_printf(&a, "SELECT max(id) FROM %s", ledger_table[s->engine]);
	defib_err err = store_exec(s, sql, NULL, 0, &a, &rows, f);
	s->ledger_seen = s->ledger_seen && !err; /* it may have been dropped */
	if (!err)
		*id = row_int(&rows, 0, 0, 0);
	arena_release(&a);
	return err;
}

void add_row_columns(struct buf *out, enum store_engine engine)
{
	buf_add(out, "l.id, ");
	add_iso(out, engine, "l.at");
	buf_add(out, ", l.batch, l.watch, l.job, l.event, l.actor, l.verdict, l.rule, l.reason, "
	             "l.evidence, l.before, l.after, l.epoch");
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
