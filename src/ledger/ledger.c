/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/ledger.h"

#include "base/clock.h"
#include "base/window.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "ledger/seal.h"

#include <assert.h>

static void turn_off(struct ledger *l, const char *why, enum failure_advice advice)
{
	l->off_advice = advice;
	l->ready = false;
	snprintf(l->off_because, sizeof l->off_because, "%.255s", why);
}

/* If this role may not create it, another one must. */
static defib_err ledger_make(struct store *s, struct ledger *out, struct failure *f)
{
	bool may = false;
	defib_err err = schema_may_install(s, &may, f);
	if (!err && !may) {
		turn_off(out, "it does not exist and this role may not create it", ADVISE_CREATE_TABLES);
		return DEFIB_OK;
	}
	if (!err)
		err = schema_install(s, SCHEMA_LEDGER, f);
	out->ready = out->made = !err;
	if (err != DEFIB_PERMISSION)
		return err;
	turn_off(out, f->what, f->advice);
	fail_clear(f);
	return DEFIB_OK;
}

/*
 * The catalogs show the role's privileges without touching the tables. A reader needs no privilege
 * to write.
 */
defib_err ledger_open(struct store *s, bool create, struct ledger *out, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_param param = P_INT(create);
	struct store_rows rows;
	*out = (struct ledger){0};
	defib_err err = store_exec(s, store_dialect(s)->ask.ledger, &param, 1, &a, &rows, f);
	if (err)
		return err;
	if (rows.nrows == 0 && create)
		return ledger_make(s, out, f);
	out->ready = row_bool(&rows, 0, 0);
	if (rows.nrows == 0)
		turn_off(out, "it does not exist yet", ADVISE_NONE);
	else if (!out->ready)
		turn_off(out,
		         create ? "this role may not write to the ledger"
		                : "this role may not read the ledger",
		         ADVISE_GRANT);
	return DEFIB_OK;
}

defib_err ledger_append(struct store *s, const struct ledger_context *ctx,
                        const struct ledger_entry *entries, int n, struct arena *a,
                        struct failure *f)
{
	static const char *const names[] = {"watch", "batch",  "actor",    "job",    "event", "verdict",
	                                    "rule",  "reason", "evidence", "before", "after"};
	AUTO_RELATION r = {.engine = s->engine};
	if (n == 0)
		return DEFIB_OK;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], i < 8 ? "text" : RELATION_JSON);
	relation_column(&r, "epoch", "bigint");
	for (int i = 0; i < n; i++) {
		const struct ledger_entry *e = &entries[i];
		const char *const values[] = {ctx->watch,  ctx->batch, ctx->actor, e->job,
		                              e->event,    e->verdict, e->rule,    e->reason,
		                              e->evidence, e->before,  e->after};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		relation_number(&r, e->has_epoch, e->epoch);
		relation_end_row(&r);
	}
	/* On engines with sequences, ids are drawn under the lock. */
	bool draws = store_dialect(s)->has_sequences;
	const char *head =
		arena_printf(a,
	                 "INSERT INTO defib.ledger (%swatch, batch, actor, job, event, "
	                 "verdict, rule, reason, evidence, before, after, epoch) SELECT "
	                 "%su.* FROM (",
	                 draws ? "id, " : "", draws ? "nextval('defib.ledger_id'), " : "");
	defib_err err = ledger_lock(s, a, f);
	if (!err)
		err = run_over(s, &r, head, ") AS u", NULL, 0, a, NULL, f);
	return err ? err : seal_added(s, a, f);
}

defib_err ledger_try_lock(struct store *s, bool *got, struct arena *a, struct failure *f)
{
	struct store_rows rows = {0};
	*got = true;
	if (!store_dialect(s)->has_session_locks)
		return DEFIB_OK;
	defib_err err = store_exec(s, LEDGER_TRY_LOCK, NULL, 0, a, &rows, f);
	*got = row_bool(&rows, 0, 0);
	return err;
}

/* The lock is taken after all rows are written, and ids are drawn under it. */
void ledger_with(struct buf *sql, int first)
{
	buf_addf(sql,
	         ", defib_l AS MATERIALIZED (SELECT count(*) AS n, count(*) FILTER (WHERE "
	         "defib_running) AS runs, " LEDGER_LOCKED " AS locked FROM defib_w), "
	         "defib_i AS (INSERT INTO defib.ledger (id, watch, batch, actor, job, event, verdict, "
	         "rule, reason, evidence, before, after, epoch) SELECT nextval('defib.ledger_id'), "
	         "$%d, $%d, $%d, w.defib_job, $%d, w.defib_verdict, w.defib_rule, w.defib_reason, "
	         "w.defib_evidence, w.defib_before, w.defib_after, w.defib_epoch FROM defib_w AS w, "
	         "defib_l AS l WHERE l.n = $%d::bigint AND l.runs = 0 AND l.locked) SELECT l.n, "
	         "l.runs, w.defib_at, w.defib_before, w.defib_after FROM defib_l AS l LEFT JOIN "
	         "defib_w AS w ON w.defib_at < $%d::bigint",
	         first, first + 1, first + 2, first + 3, first + 4, first + 5);
}

void ledger_with_params(const struct ledger_context *ctx, const char *event, int64_t expected,
                        int64_t returned, struct store_param *params)
{
	const struct store_param own[LEDGER_WITH_PARAMS] = {P_TEXT(ctx->watch), P_TEXT(ctx->batch),
	                                                    P_TEXT(ctx->actor), P_TEXT(event),
	                                                    P_INT(expected),    P_INT(returned)};
	memcpy(params, own, sizeof own);
}

defib_err ledger_has_batch(struct store *s, const char *batch, bool *found, struct failure *f)
{
	struct store_param param = P_TEXT(batch);
	int64_t any = 0;
	defib_err err =
		dialect_int(s, "SELECT 1 FROM defib.ledger WHERE batch = $1 LIMIT 1", &param, 1, &any, f);
	*found = any;
	return err;
}

/* ---- reading ---- */

#define FILTER_PARAMS_MAX 12

/*
 * A statement being built, with its parameters. It contains only the conditions that apply: an
 * optional condition would keep SQLite from using an index.
 */
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

/* The parts of a scan are X.1, X.2 …; "/" is the character after ".". */
static void add_batch(struct asking *q, const char *batch, struct arena *a)
{
	int first = q->nparams + 1;
	assert(q->nparams + 3 <= FILTER_PARAMS_MAX);
	q->params[q->nparams++] = P_TEXT(batch);
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s.", batch));
	q->params[q->nparams++] = P_TEXT(arena_printf(a, "%s/", batch));
	/* By bytes, as in the index, whatever the database's collation. */
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
	/* The + keeps planners from walking the whole primary key just for the order. */
	buf_addf(&q.sql, " ORDER BY %sid%s LIMIT $%d", filter->batch ? "+" : "",
	         filter->newest_first ? " DESC" : "", q.nparams);
	defib_err err = dialect_exec(s, buf_text(&q.sql), q.params, q.nparams, a, &rows, f);
	*out = rows_decode(&rows, a, n);
	buf_release(&q.sql);
	return err;
}

defib_err ledger_roles(struct store *s, const struct ledger_row *entries, int n, struct arena *a,
                       const char ***out, struct failure *f)
{
	AUTO_BUF ids = BUF_INIT;
	struct store_rows rows;
	*out = ARENA_ARRAY(a, const char *, n + 1);
	if (!store_dialect(s)->has_grants || n == 0)
		return DEFIB_OK;
	for (int i = 0; i < n; i++)
		buf_addf(&ids, "%s%lld", i ? "," : "{", (long long)entries[i].id);
	buf_add(&ids, "}");
	const struct store_param param = P_TEXT(buf_text(&ids));
	defib_err err = store_exec(
		s,
		"SELECT (SELECT s.role FROM defib.ledger_seal AS s WHERE s.last_id >= u.id ORDER BY "
		"s.last_id LIMIT 1) FROM unnest($1::bigint[]) WITH ORDINALITY AS u(id, place) ORDER BY "
		"u.place",
		&param, 1, a, &rows, f);
	for (int i = 0; !err && i < n; i++)
		(*out)[i] = row_text(&rows, i, 0);
	return err;
}

/* ---- a search that may be slow ---- */

/* Ids that were not read yet. */
struct ledger_search {
	struct store *store;
	struct ledger_bound *bound;
	struct arena *arena;
	struct ledger_filter left;
	struct ledger_row *rows;
	int n;
	int64_t until_us; /* 0: no limit */
};

static defib_err read_within(struct ledger_search *q, const struct ledger_filter *filter,
                             int64_t within_ms, struct ledger_row **out, int *n, struct failure *f)
{
	defib_err err =
		within_ms ? store_begin_within(q->store, within_ms, f) : store_begin(q->store, TX_READ, f);
	if (!err) {
		err = ledger_read(q->store, filter, q->arena, out, n, f);
		store_rollback(q->store); /* nothing was written */
	}
	return err;
}

/* Read so many ids, and leave them out from now on. */
static defib_err ledger_read_window(struct ledger_search *q, int64_t ids, struct failure *f)
{
	struct ledger_filter window = q->left;
	int64_t *low = &window.after_id, *high = &window.up_to_id;
	struct ledger_row *found;
	int n = 0;
	if (*high - *low > ids && window.newest_first)
		*low = *high - ids;
	else if (*high - *low > ids)
		*high = *low + ids;
	defib_err err =
		read_within(q, &window, ids > 1 ? q->bound->for_ms * WINDOW_PATIENCE : 0, &found, &n, f);
	if (err)
		return err;
	memcpy(q->rows + q->n, found, sizeof *found * (size_t)n);
	q->n += n;
	q->left.limit -= n;
	if (q->left.newest_first)
		q->left.up_to_id = *low;
	else
		q->left.after_id = *high;
	return DEFIB_OK;
}

static bool search_is_over(const struct ledger_search *q)
{
	return q->left.limit <= 0 || q->left.up_to_id <= q->left.after_id;
}

static defib_err ledger_read_windows(struct ledger_search *q, struct failure *f)
{
	int64_t ids = WINDOW_FIRST;
	bool read = false;
	while (!search_is_over(q) && !q->bound->cut) {
		int64_t begun_us = clock_boot_us();
		defib_err err = ledger_read_window(q, ids, f);
		int64_t now_us = clock_boot_us(), left_us = q->until_us ? q->until_us - now_us : WINDOW_US;
		bool can_end = q->until_us && (read || !err);
		if (err && (err != DEFIB_TIMEOUT || q->store->lost || (ids == 1 && !can_end)))
			return err;
		fail_clear(f);
		read = read || !err;
		q->bound->cut = can_end && !search_is_over(q) && (left_us <= 0 || (err && ids == 1));
		ids = err ? window_smaller(ids)
		          : window_next(ids, now_us - begun_us, left_us < WINDOW_US ? left_us : WINDOW_US);
	}
	q->bound->end_id = q->left.newest_first ? q->left.up_to_id + 1 : q->left.after_id;
	return DEFIB_OK;
}

defib_err ledger_search(struct store *s, const struct ledger_filter *filter,
                        struct ledger_bound *bound, struct arena *a, struct ledger_row **out,
                        int *n, struct failure *f)
{
	struct ledger_search q = {.store = s, .bound = bound, .arena = a, .left = *filter};
	int64_t top = 0;
	bound->cut = false;
	if (bound->for_ms)
		q.until_us = clock_boot_us() + (bound->within_ms + bound->for_ms) * 1000;
	defib_err err = read_within(&q, filter, bound->within_ms, out, n, f);
	if (err != DEFIB_TIMEOUT || s->lost)
		return err;
	fail_clear(f);
	err = ledger_top(s, &top, f);
	if (err)
		return err;
	if (!filter->up_to_id || top < filter->up_to_id)
		q.left.up_to_id = top;
	q.left.limit = filter->limit ? filter->limit : LEDGER_READ_MAX;
	q.rows = ARENA_ARRAY(a, struct ledger_row, (int)q.left.limit);
	err = ledger_read_windows(&q, f);
	*out = q.rows;
	*n = q.n;
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
	defib_err err = dialect_int(s, "SELECT max(id) FROM defib.ledger", NULL, 0, id, f);
	s->ledger_seen = s->ledger_seen && !err; /* it may have been dropped */
	return err;
}

defib_err ledger_top_after(struct store *s, int64_t *place, int64_t *id, struct failure *f)
{
	defib_err err = ledger_top(s, id, f);
	if (!err && *id < *place)
		*place = *id;
	return err;
}

defib_err ledger_end(struct store *s, int64_t *top, char of[LEDGER_OF_SIZE], struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	bool named = false;
	of[0] = '\0';
	defib_err err = schema_has(s, "meta", &named, f);
	if (!err && !named)
		return ledger_top(s, top, f);
	if (!err)
		err = dialect_exec(s,
		                   "SELECT (SELECT max(l.id) FROM defib.ledger AS l), (SELECT m.value FROM "
		                   "defib.meta AS m WHERE m.name = 'database')",
		                   NULL, 0, &a, &rows, f);
	s->ledger_seen = s->ledger_seen && !err;
	if (err)
		return err;
	*top = row_int(&rows, 0, 0, 0);
	const char *id = row_text(&rows, 0, 1);
	if (id && strspn(id, "0123456789abcdef") >= LEDGER_OF_SIZE - 1)
		snprintf(of, LEDGER_OF_SIZE, "%s", id);
	return DEFIB_OK;
}

struct ledger_row *rows_decode(const struct store_rows *rows, struct arena *a, int *n)
{
#define M(member) ROW_MEMBER(struct ledger_row, member)
	static const struct row_member members[] = {
		M(id),       M(at),
		M(batch),    M(watch),
		M(job),      M(event),
		M(actor),    M(verdict),
		M(rule),     M(reason),
		M(evidence), M(before),
		M(after),    ROW_GIVEN(struct ledger_row, has_epoch),
		M(epoch)};
#undef M
	return ROWS_READ(rows, members, struct ledger_row, a, n);
}

/* ---- holds ---- */

defib_err ledger_hold(struct store *s, const struct ledger_context *ctx, const char *table_key,
                      const struct hold *holds, int n, struct arena *a, struct failure *f)
{
	static const char *const names[] = {"table_key", "watch",  "batch",    "job",
	                                    "cause",     "reason", "owner",    "verdict",
	                                    "sign",      "state",  "progress", "actor"};
	AUTO_RELATION r = {.engine = s->engine};
	if (n == 0)
		return DEFIB_OK;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], "text");
	relation_column(&r, "sign_us", "bigint");
	relation_column(&r, "attempts", "bigint");
	for (int i = 0; i < n; i++) {
		const struct hold *h = &holds[i];
		const char *const values[] = {table_key,       ctx->watch,         ctx->batch,
		                              h->job,          h->cause,           h->reason,
		                              h->owner,        h->excuse.verdict,  h->excuse.sign,
		                              h->excuse.state, h->excuse.progress, h->excuse.actor};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		relation_number(&r, h->has_sign, h->sign_us);
		relation_number(&r, h->excuse.has_attempts, h->excuse.attempts);
		relation_end_row(&r);
	}
	/* SQLite needs a WHERE to distinguish ON CONFLICT from a join. */
	return run_over(
		s, &r,
		"INSERT INTO defib.hold (table_key, watch, batch, job, cause, reason, owner, verdict, "
		"sign, "
		"state, progress, actor, sign_us, attempts) SELECT u.* FROM (",
		") AS u WHERE true ON CONFLICT (table_key, job) DO UPDATE SET watch = excluded.watch, "
		"batch = excluded.batch, cause = excluded.cause, reason = excluded.reason, "
		"owner = excluded.owner, sign_us = excluded.sign_us, at = excluded.at, "
		"verdict = excluded.verdict, sign = excluded.sign, state = excluded.state, "
		"progress = excluded.progress, attempts = excluded.attempts, actor = excluded.actor",
		NULL, 0, a, NULL, f);
}

#define HOLDS                                                                                      \
	"SELECT watch, job, cause, reason, owner, batch, {iso at}, sign_us, table_key, verdict, "      \
	"sign, "                                                                                       \
	"state, progress, attempts, actor FROM defib.hold "                                            \
	"WHERE "

static struct held_job *take_holds(const struct store_rows *rows, struct arena *a, int *n)
{
#define M(member) ROW_MEMBER(struct held_job, member)
	static const struct row_member members[] = {M(watch),
	                                            M(job),
	                                            M(cause),
	                                            M(reason),
	                                            M(owner),
	                                            M(batch),
	                                            M(at),
	                                            ROW_GIVEN(struct held_job, has_sign),
	                                            M(sign_us),
	                                            M(table_key),
	                                            M(excuse.verdict),
	                                            M(excuse.sign),
	                                            M(excuse.state),
	                                            M(excuse.progress),
	                                            ROW_GIVEN(struct held_job, excuse.has_attempts),
	                                            M(excuse.attempts),
	                                            M(excuse.actor)};
#undef M
	return ROWS_READ(rows, members, struct held_job, a, n);
}

defib_err ledger_holds_page(struct store *s, enum hold_rows which, const char *watch,
                            const char *table_key, const char *after, int limit, struct arena *a,
                            struct held_job **out, int *n, struct failure *f)
{
#define PAGE(of) HOLDS of " AND job > $2 ORDER BY job LIMIT $3"
	static const char *const pages[] = {
		[HOLDS_OWN] = PAGE("watch = $1 AND verdict IS NULL"),
		[HOLDS_OF_OTHERS] = PAGE("table_key = $4 AND watch <> $1 AND verdict IS NULL"),
		[HOLDS_EXCUSES] = PAGE("table_key = $1 AND verdict IS NOT NULL"),
	};
#undef PAGE
	struct store_param params[] = {P_TEXT(which == HOLDS_EXCUSES ? table_key : watch),
	                               P_TEXT(after ? after : ""), P_INT(limit), P_TEXT(table_key)};
	struct store_rows rows;
	assert(watch && table_key && limit > 0);
	defib_err err =
		dialect_exec(s, pages[which], params, which == HOLDS_OF_OTHERS ? 4 : 3, a, &rows, f);
	*out = take_holds(&rows, a, n);
	return err;
}

defib_err ledger_holds_list(struct store *s, const char *watch, const char *job, int limit,
                            struct arena *a, struct held_job **out, int *n, struct failure *f)
{
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	struct store_param params[3];
	int nparams = 0;
	assert(limit > 0);
	buf_add(&sql, HOLDS "true");
	if (watch) {
		params[nparams++] = P_TEXT(watch);
		buf_addf(&sql, " AND watch = $%d", nparams);
	}
	if (job) {
		params[nparams++] = P_TEXT(job);
		buf_addf(&sql, " AND job = $%d", nparams);
	}
	params[nparams++] = P_INT(limit);
	buf_addf(&sql, " ORDER BY at, watch, job LIMIT $%d", nparams);
	defib_err err = dialect_exec(s, buf_text(&sql), params, nparams, a, &rows, f);
	*out = take_holds(&rows, a, n);
	return err;
}

/* A relation u(table_key, job). */
static void held_relation(struct relation *r, enum store_engine engine, const char *table_key,
                          const char *const *jobs, int n)
{
	relation_init(r, engine);
	r->brief = true;
	relation_column(r, "table_key", "text");
	relation_column(r, "job", "text");
	for (int i = 0; i < n; i++) {
		relation_text(r, table_key);
		relation_text(r, jobs[i]);
		relation_end_row(r);
	}
}

defib_err ledger_holds_of(struct store *s, const char *table_key, const char *const *jobs,
                          int njobs, struct arena *a, struct held_job **out, int *n,
                          struct failure *f)
{
	struct store_param param = P_TEXT(table_key);
	struct store_rows rows = {0};
	AUTO_RELATION r = {0};
	*n = 0;
	if (njobs == 0)
		return DEFIB_OK;
	/* Most tables have none: checking that costs less than passing a thousand jobs. */
	defib_err err = dialect_exec(s, "SELECT 1 FROM defib.hold WHERE table_key = $1 LIMIT 1", &param,
	                             1, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	held_relation(&r, s->engine, table_key, jobs, njobs);
	err = run_over(s, &r, HOLDS "(table_key, job) IN (", ")", NULL, 0, a, &rows, f);
	if (!err)
		*out = take_holds(&rows, a, n);
	return err;
}

defib_err ledger_holds_drop(struct store *s, const char *table_key, const char *const *jobs, int n,
                            struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {0};
	if (n == 0)
		return DEFIB_OK;
	held_relation(&r, s->engine, table_key, jobs, n);
	return run_over(s, &r, "DELETE FROM defib.hold WHERE (table_key, job) IN (", ")", NULL, 0, a,
	                NULL, f);
}

defib_err ledger_hold_forget(struct store *s, const struct held_job *h, struct arena *a,
                             struct failure *f)
{
	struct store_param params[] = {P_TEXT(h->table_key), P_TEXT(h->job), P_TEXT(h->batch)};
	return dialect_write(s,
	                     "DELETE FROM defib.hold WHERE table_key = $1 AND job = $2 AND batch = $3",
	                     params, 3, a, NULL, f);
}
