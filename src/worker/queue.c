/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/queue.h"

#include "embedded.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "worker/queue_statements.h"
#include "worker/wake.h"

/* What a batch needs: most jobs use only the tables' defaults, and cost no more than that. */
enum enqueue_shape { BATCH_PLAIN, BATCH_FULL, BATCH_UNIQUE };

static enum enqueue_shape batch_of(const struct enqueue *jobs, int n)
{
	enum enqueue_shape is = BATCH_PLAIN;
	for (int i = 0; i < n; i++) {
		if (jobs[i].unique_key)
			return BATCH_UNIQUE;
		if (jobs[i].delay_ms || jobs[i].priority || jobs[i].max_attempts || jobs[i].timeout_ms ||
		    jobs[i].tags)
			is = BATCH_FULL;
	}
	return is;
}

static void relation_more(struct relation *r, const struct enqueue *j)
{
	relation_int(r, j->delay_ms);
	relation_int(r, j->priority);
	relation_int(r, j->max_attempts ? j->max_attempts : 5);
	relation_number(r, j->timeout_ms != 0, j->timeout_ms);
	relation_text(r, j->unique_key);
	relation_text(r, j->tags);
}

static void jobs_relation(struct relation *r, enum store_engine engine, enum enqueue_shape is,
                          const struct enqueue *jobs, int n)
{
	static const char *const plain[] = {"at",   "bigint",  "queue", "text", "kind",
	                                    "text", "payload", "jsonb", NULL};
	static const char *const full[] = {
		"at",         "bigint",   "queue",      "text",     "kind",    "text",         "payload",
		"jsonb",      "delay_ms", "bigint",     "priority", "integer", "max_attempts", "integer",
		"timeout_ms", "integer",  "unique_key", "text",     "tags",    "jsonb",        NULL};
	relation_make(r, engine, is == BATCH_PLAIN ? plain : full);
	for (int i = 0; i < n; i++) {
		relation_int(r, i);
		relation_text(r, jobs[i].queue);
		relation_text(r, jobs[i].kind);
		relation_text(r, jobs[i].payload);
		if (is != BATCH_PLAIN)
			relation_more(r, &jobs[i]);
		relation_end_row(r);
	}
}

static const char *const batch_inserts[] = {
	[BATCH_PLAIN] = sql_postgres_enqueue_plain,
	[BATCH_FULL] = sql_postgres_enqueue_full,
	[BATCH_UNIQUE] = sql_postgres_enqueue_unique,
};

struct enqueueing {
	struct store *s;
	bool wake; /* also wake the workers, in the same round trip */
	struct arena *a;
};

static defib_err queue_insert(const struct enqueueing *x, const char *sql,
                              const struct store_param *params, int nparams,
                              struct store_rows *rows, struct failure *f)
{
	return x->wake ? store_exec_then(x->s, sql, params, nparams, wake_statement, x->a, rows, f)
	               : store_exec(x->s, sql, params, nparams, x->a, rows, f);
}

static defib_err queue_insert_batch(const struct enqueueing *x, enum enqueue_shape is,
                                    const struct enqueue *jobs, int n, int64_t *ids,
                                    struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT, rows_sql = BUF_INIT;
	jobs_relation(&r, x->s->engine, is, jobs, n);
	relation_select(&r, 1, &rows_sql);
	const struct sql_piece pieces[] = {{"rows", buf_text(&rows_sql)}, {0}};
	sql_fill(&sql, batch_inserts[is], pieces);
	relation_params(&r, params);
	defib_err err = queue_insert(x, buf_text(&sql), params, relation_nparams(&r), &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		ids[row_int(&rows, i, 0, 0)] = row_int(&rows, i, 1, 0);
	return err;
}

/* A job with defaults only: no list to unpack, no id to draw. */
static defib_err insert_one(const struct enqueueing *x, const struct enqueue *j, int64_t *id,
                            struct failure *f)
{
	static const char bare[] = "INSERT INTO defib.job (queue, kind) VALUES ($1, $2) RETURNING id";
	static const char with_payload[] =
		"WITH u AS (INSERT INTO defib.job (queue, kind) VALUES ($1, $2) RETURNING id) INSERT INTO "
		"defib.job_data (job, payload) SELECT u.id, $3::jsonb FROM u RETURNING job";
	struct store_param params[] = {P_TEXT(j->queue), P_TEXT(j->kind), P_TEXT(j->payload)};
	struct store_rows rows;
	defib_err err =
		queue_insert(x, j->payload ? with_payload : bare, params, j->payload ? 3 : 2, &rows, f);
	if (!err && rows.nrows == 1)
		*id = row_int(&rows, 0, 0, 0);
	return err;
}

/* Whatever the database answered: without an id nothing was enqueued. */
static defib_err need_ids(const struct enqueue *jobs, int n, const int64_t *ids, struct failure *f)
{
	for (int i = 0; i < n; i++)
		if (ids[i] <= 0)
			return fail(f, DEFIB_DATABASE,
			            "the database gave no number to a job of kind %s in queue %s: nothing was "
			            "enqueued",
			            jobs[i].kind, jobs[i].queue);
	return DEFIB_OK;
}

defib_err enqueue_check(const struct enqueue *job, struct failure *f)
{
	const struct {
		const char *name;
		int64_t value, least, most;
	} limits[] = {
		{"the priority", job->priority, PRIORITY_LEAST, PRIORITY_MOST},
		{"the delay in milliseconds", job->delay_ms, 0, DELAY_MOST_MS},
		{"the time limit in milliseconds", job->timeout_ms, 0, TIMEOUT_MOST_MS},
		{"the number of attempts", job->max_attempts, 0, ATTEMPTS_MOST},
	};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (limits[i].value < limits[i].least || limits[i].value > limits[i].most)
			return fail(f, DEFIB_USAGE, "%s of a job must be from %lld to %lld, not %lld",
			            limits[i].name, (long long)limits[i].least, (long long)limits[i].most,
			            (long long)limits[i].value);
	return DEFIB_OK;
}

/* *woke: the workers were woken with it; NULL: do not wake them. */
static defib_err queue_put(struct store *s, const struct enqueue *jobs, int n, int64_t *ids,
                           bool *woke, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	/* One statement is a transaction by itself; BEGIN and COMMIT are two more round trips. */
	enum enqueue_shape is = batch_of(jobs, n);
	bool alone = store_dialect(s)->has_functions && is != BATCH_UNIQUE;
	bool own = !s->in_tx && !alone;
	const struct enqueueing x = {.s = s, .wake = woke && alone, .a = &a};
	memset(ids, 0, (size_t)n * sizeof *ids);
	for (int i = 0; i < n; i++)
		if (enqueue_check(&jobs[i], f))
			return DEFIB_USAGE;
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (!err && store_dialect(s)->has_functions)
		err = is == BATCH_PLAIN && n == 1 ? insert_one(&x, jobs, ids, f)
		                                  : queue_insert_batch(&x, is, jobs, n, ids, f);
	for (int i = 0; !err && !store_dialect(s)->has_functions && i < n; i++)
		err = queue_statements_enqueue(s, &jobs[i], &a, &ids[i], f);
	if (!err)
		err = need_ids(jobs, n, ids, f);
	if (own)
		err = store_end(s, err, f);
	if (woke)
		*woke = x.wake;
	return err;
}

defib_err enqueue_jobs(struct store *s, const struct enqueue *jobs, int n, int64_t *ids,
                       struct failure *f)
{
	return queue_put(s, jobs, n, ids, NULL, f);
}

defib_err enqueue_and_wake(struct store *s, const char *url, const struct enqueue *jobs, int n,
                           int64_t *ids, struct failure *f)
{
	bool woke = false;
	defib_err err = queue_put(s, jobs, n, ids, &woke, f);
	if (!err && !woke)
		wake_send(s, url);
	return err;
}

defib_err cancel_job(struct store *s, int64_t id, char state[16], struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	bool own = !s->in_tx;
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (!err)
		err = queue_statements_cancel(s, id, &a, &rows, f);
	const char *text = !err && rows.nrows ? row_text(&rows, 0, 0) : NULL;
	snprintf(state, 16, "%s", text ? text : "");
	if (own)
		err = store_end(s, err, f);
	return err;
}
