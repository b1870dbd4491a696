/* SPDX-License-Identifier: Apache-2.0
 * source_queue.c: the built-in queue as a source of jobs.
 *
 * On engines with functions, those of sql/postgres_queue.sql do the work, which workers in other
 * languages use too; otherwise queue_statements.c does.
 */

#include "worker/source_queue.h"

#include "base/clock.h"
#include "embedded.h"
#include "store/dialect.h"
#include "worker/queue.h"
#include "worker/queue_statements.h"
#include "worker/workflow.h"

#include <assert.h>

#define PROMOTE_MAX 1000

/* How long claims may skip the head of the index before they read all of it again. */
#define FLOOR_MS 200

struct queue_source {
	struct source base;
	char *queue;
	char *kinds; /* a JSON array; NULL: all */
	/* Everything above this position was claimed a moment ago (PostgreSQL only). */
	int64_t floor_priority, floor_id, floor_until_ms;
	atomic_bool gave_back; /* a job was released outside a turn, and may be above it */
};

static struct queue_source *queue_source_of(struct source *src)
{
	return (struct queue_source *)src;
}

/* ---- claim ---- */

static void reset_floor(struct queue_source *q)
{
	q->floor_priority = INT16_MAX;
	q->floor_id = 0;
	q->floor_until_ms = clock_boot_ms() + FLOOR_MS;
}

static void check_floor(struct queue_source *q)
{
	if (atomic_exchange(&q->gave_back, false) || clock_boot_ms() >= q->floor_until_ms)
		reset_floor(q);
}

static int by_priority_then_id(const void *a, const void *b)
{
	const struct claimed *x = a, *y = b;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	/* Keys are decimal numbers: the shorter one is smaller. */
	size_t lx = strlen(x->key), ly = strlen(y->key);
	if (lx != ly)
		return lx < ly ? -1 : 1;
	return strcmp(x->key, y->key);
}

/* A job in the columns from `at` on, as defib.claim() returns it; turns return more. */
static struct claimed decode_claim(const struct queue_source *q, const struct store_rows *rows,
                                   int i, int at)
{
	return (struct claimed){
		.key = row_text(rows, i, at),
		.epoch = row_limited(rows, i, at + 1, 0),
		.attempt = row_limited(rows, i, at + 2, 0),
		.max_attempts = row_limited(rows, i, at + 3, 0),
		.kind = row_text(rows, i, at + 4),
		.priority = row_limited(rows, i, at + 5, 0),
		.timeout_ms = row_within(rows, i, at + 6, 0, INT32_MAX, 0),
		.payload = row_text(rows, i, at + 7),
		.step = row_text(rows, i, at + 8),
		.undoing = row_bool(rows, i, at + 9),
		.steps = row_text(rows, i, at + 10),
		.alone = rows->ncols > at + 11 && row_bool(rows, i, at + 11),
		.queue = q->queue,
	};
}

static void decode_claims(const struct queue_source *q, const struct store_rows *rows,
                          struct arena *a, struct claimed **out, int *n)
{
	*n = rows->nrows;
	*out = ARENA_ARRAY(a, struct claimed, rows->nrows);
	for (int i = 0; i < rows->nrows; i++)
		(*out)[i] = decode_claim(q, rows, i, 0);
	qsort(*out, (size_t)*n, sizeof **out, by_priority_then_id);
}

/* The lowest position that was claimed: for a moment, nothing above it is ready. */
static void raise_floor(struct queue_source *q, const struct claimed *claims, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t id = 0;
		int_parse(claims[i].key, &id);
		if (claims[i].priority < q->floor_priority) {
			q->floor_priority = claims[i].priority;
			q->floor_id = id;
		} else if (claims[i].priority == q->floor_priority && id > q->floor_id) {
			q->floor_id = id;
		}
	}
}

static defib_err claim_by_function(struct queue_source *q, struct store *s, int64_t worker,
                                   int64_t n, struct arena *a, struct store_rows *rows,
                                   struct failure *f)
{
	static const char of_all[] =
		"SELECT * FROM defib.claim($1::bigint, $2::text, $3::integer, NULL::text, $4::integer, "
		"$5::bigint, NULL::text[])";
	static const char of_kinds[] =
		"SELECT * FROM defib.claim($1::bigint, $2::text, $3::integer, NULL::text, $4::integer, "
		"$5::bigint, "
		"ARRAY(SELECT jsonb_array_elements_text($6::jsonb)))";
	struct store_param params[] = {P_INT(worker),      P_TEXT(q->queue),
	                               P_INT(n),           P_INT(q->floor_priority),
	                               P_INT(q->floor_id), P_TEXT(q->kinds)};
	return store_exec(s, q->kinds ? of_kinds : of_all, params, q->kinds ? 6 : 5, a, rows, f);
}

static defib_err queue_claim(struct source *src, struct store *s, int64_t worker, int64_t n,
                             struct arena *a, struct claimed **out, int *nout, struct failure *f)
{
	struct store_rows rows = {0};
	assert(n > 0);
	check_floor(queue_source_of(src));
	defib_err err =
		store_dialect(s)->has_functions
			? claim_by_function(queue_source_of(src), s, worker, n, a, &rows, f)
			: queue_statements_claim(s, queue_source_of(src)->queue, queue_source_of(src)->kinds,
	                                 worker, n, a, &rows, f);
	*nout = 0;
	if (!err) {
		decode_claims(queue_source_of(src), &rows, a, out, nout);
		raise_floor(queue_source_of(src), *out, *nout);
	}
	return err;
}

/* ---- settle ---- */

static void queue_source_add_step(struct relation *r, const struct step_end *step)
{
	AUTO_BUF text = BUF_INIT;
	if (step->side != STEP_SIDE_NONE)
		step_end_json(step, &text);
	relation_text(r, text.len ? buf_text(&text) : NULL);
}

static void settle_relation(struct relation *r, enum store_engine engine,
                            const struct settlement *all, int n)
{
	static const char *const columns[] = {"id",       "bigint", "epoch", "bigint", "outcome",
	                                      "text",     "result", "jsonb", "error",  "text",
	                                      "delay_ms", "bigint", "step",  "jsonb",  NULL};
	relation_make(r, engine, columns);
	for (int i = 0; i < n; i++) {
		relation_text(r, all[i].key);
		relation_int(r, all[i].epoch);
		relation_text(r, settle_names[all[i].as]);
		relation_text(r, all[i].result);
		relation_text(r, all[i].error);
		relation_number(r, all[i].delay_ms >= 0, all[i].delay_ms);
		queue_source_add_step(r, &all[i].step);
		relation_end_row(r);
	}
}

static void note_accepted(const struct store_rows *rows, struct settlement *all, int n)
{
	/* The result has one row per settlement, in the same order. */
	for (int i = 0; i < n && i < rows->nrows; i++)
		all[i].accepted = row_bool(rows, i, 1);
}

static defib_err settle_by_function(struct store *s, int64_t worker, struct settlement *all, int n,
                                    struct arena *a, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX + 1] = {P_INT(worker)};
	struct store_rows rows;
	AUTO_RELATION r = {0};
	settle_relation(&r, s->engine, all, n);
	relation_params(&r, params + 1);
	defib_err err =
		store_exec(s,
	               "SELECT * FROM defib.settle($1::bigint, $2::bigint[], $3::bigint[], $4::text[], "
	               "$5::jsonb[], $6::text[], $7::bigint[], $8::jsonb[])",
	               params, 1 + relation_nparams(&r), a, &rows, f);
	if (!err)
		note_accepted(&rows, all, n);
	return err;
}

/* A released job may be where claims do not look for a moment. */
static bool queue_source_gives_back(const struct settlement *all, int n)
{
	for (int i = 0; i < n; i++)
		if (all[i].as != SETTLE_DONE || all[i].step.side != STEP_SIDE_NONE)
			return true;
	return false;
}

/* In a transaction of its own, or in the caller's if one is open. */
static defib_err queue_settle(struct source *src, struct store *s, int64_t worker,
                              struct settlement *all, int n, struct arena *a, struct failure *f)
{
	bool own = !s->in_tx;
	for (int i = 0; i < n; i++)
		all[i].accepted = false;
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (err)
		return err;
	err = store_dialect(s)->has_functions ? settle_by_function(s, worker, all, n, a, f)
	                                      : queue_statements_settle(s, worker, all, n, a, f);
	if (own)
		err = store_end(s, err, f);
	if (queue_source_gives_back(all, n))
		atomic_store(&queue_source_of(src)->gave_back, true);
	return err;
}

defib_err source_queue_hold(struct store *s, int64_t worker, const char *key, int64_t epoch,
                            struct failure *f)
{
	struct store_param params[] = {P_TEXT(key), P_INT(epoch), P_INT(worker)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = dialect_exec(
		s, "SELECT 1 FROM defib.job WHERE id = $1 AND epoch = $2 AND owner = $3{lock_row}", params,
		3, &a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST,
		            "job %s no longer belongs to this worker, or was already settled", key);
	return err;
}

/* ---- the rest ---- */

static defib_err queue_owned(struct source *src, struct store *s, int64_t worker, struct arena *a,
                             struct settlement **out, int *n, struct failure *f)
{
	(void)src;
	return source_keys(
		s,
		"SELECT id, epoch FROM defib.job WHERE owner = $1 AND (state = 'running' OR state = "
		"'cancelling')",
		worker, a, out, n, f);
}

static defib_err queue_cancelling(struct source *src, struct store *s, int64_t worker,
                                  struct arena *a, struct settlement **out, int *n,
                                  struct failure *f)
{
	(void)src;
	return source_keys(
		s,
		"SELECT id, epoch FROM defib.job WHERE owner = $1 AND (state = 'running' OR state = "
		"'cancelling') AND state = 'cancelling'",
		worker, a, out, n, f);
}

static defib_err queue_promote(struct source *src, struct store *s, struct failure *f)
{
	(void)src;
	return queue_statements_promote(s, PROMOTE_MAX, f);
}

static defib_err queue_progress(struct source *src, struct store *s, int64_t worker,
                                const char *key, int64_t epoch, const char *step, const char *text,
                                struct failure *f)
{
	bool accepted;
	(void)src;
	defib_err err = queue_statements_progress(s, worker, key, epoch, step, text, &accepted, f);
	if (!err && !accepted)
		return fail(f, DEFIB_LEASE_LOST, "job %s no longer belongs to this worker", key);
	return err;
}

/* ---- a turn ---- */

/* Whether the ends need no details besides their job: all of them are simply done. */
static bool all_plain(const struct settlement *all, int n)
{
	for (int i = 0; i < n; i++)
		if (all[i].as != SETTLE_DONE || all[i].result || all[i].error ||
		    all[i].step.side != STEP_SIDE_NONE)
			return false;
	return true;
}

static void plain_relation(struct store *s, struct relation *r, const struct settlement *all, int n)
{
	static const char *const columns[] = {"id", "bigint", "epoch", "bigint", NULL};
	relation_make(r, s->engine, columns);
	for (int i = 0; i < n; i++) {
		relation_text(r, all[i].key);
		relation_int(r, all[i].epoch);
		relation_end_row(r);
	}
}

/* The result of defib.turn(), row by row. */
static void decode_turn(struct queue_source *q, const struct store_rows *rows, struct turn_part *p,
                        struct arena *a)
{
	for (int i = 0; i < p->nends; i++)
		p->ends[i].accepted = true;
	p->claims = ARENA_ARRAY(a, struct claimed, rows->nrows);
	p->cancelling = ARENA_ARRAY(a, struct settlement, rows->nrows);
	p->has = ARENA_ARRAY(a, struct settlement, rows->nrows);
	for (int i = 0; i < rows->nrows; i++) {
		const char *what = row_text(rows, i, 0);
		struct settlement job = {.key = row_text(rows, i, 1), .epoch = row_int(rows, i, 2, 0)};
		if (text_eq(what, "claimed"))
			p->claims[p->nclaims++] = decode_claim(q, rows, i, 1);
		else if (text_eq(what, "refused"))
			p->ends[row_int(rows, i, 1, 0) - 1].accepted = false;
		else if (text_eq(what, "gone"))
			p->gone = true;
		else if (p->compares)
			p->has[p->nhas++] = job;
		if (text_eq(what, "cancelling") && p->cancels)
			p->cancelling[p->ncancelling++] = job;
	}
	qsort(p->claims, (size_t)p->nclaims, sizeof *p->claims, by_priority_then_id);
	raise_floor(q, p->claims, p->nclaims);
}

static defib_err turn_by_function(struct queue_source *q, struct store *s, struct turn_part *p,
                                  struct arena *a, struct failure *f)
{
	struct store_param params[17] = {[0] = P_INT(p->worker)};
	struct store_rows rows;
	AUTO_RELATION r = {0};
	bool plain = all_plain(p->ends, p->nends), asks = p->claimer != 0;
	check_floor(q);
	if (p->promote || queue_source_gives_back(p->ends, p->nends))
		reset_floor(q);
	if (plain)
		plain_relation(s, &r, p->ends, p->nends);
	else
		settle_relation(&r, s->engine, p->ends, p->nends);
	relation_params(&r, params + 1);
	params[8] = asks ? P_INT(p->claimer) : P_TEXT(NULL);
	params[9] = P_TEXT(q->queue);
	params[10] = P_INT(p->room);
	params[11] = P_TEXT(q->kinds);
	params[12] = P_INT(q->floor_priority);
	params[13] = P_INT(q->floor_id);
	params[14] = P_INT(p->promote ? PROMOTE_MAX : 0);
	params[15] = P_INT(p->cancels);
	params[16] = P_INT(p->compares);
	defib_err err = store_exec(s, sql_postgres_turn_turn, params, 17, a, &rows, f);
	if (!err)
		decode_turn(q, &rows, p, a);
	return err;
}

static defib_err queue_turn(struct source *src, struct store *s, struct turn_part *p,
                            struct arena *a, struct failure *f)
{
	return store_dialect(s)->has_functions ? turn_by_function(queue_source_of(src), s, p, a, f)
	                                       : source_turn_by_parts(src, s, p, a, f);
}

static void queue_free(struct source *src)
{
	free(queue_source_of(src)->queue);
	free(queue_source_of(src)->kinds);
	free(src);
}

static char *kinds_json(const char *const *kinds, int n)
{
	struct buf out = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_add(&out, i ? "," : "[");
		buf_add_json(&out, kinds[i]);
	}
	buf_add(&out, "]");
	return buf_detach(&out);
}

struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n)
{
	static const struct source_ops ops = {
		.claim = queue_claim,
		.settle = queue_settle,
		.owned = queue_owned,
		.cancelling = queue_cancelling,
		.promote = queue_promote,
		.progress = queue_progress,
		.free = queue_free,
		.turn = queue_turn,
	};
	struct queue_source *q = mem_alloc(sizeof *q);
	q->base.ops = &ops;
	q->queue = mem_strdup(queue);
	q->base.name = q->queue;
	q->base.announced = true;
	q->base.keys = ""; /* one table has the jobs of all queues, and no watch has this name */
	q->kinds = n > 0 ? kinds_json(kinds, n) : NULL;
	return &q->base;
}

struct source *source_queue(const char *queue, const char *kind)
{
	return source_queue_kinds(queue, &kind, kind ? 1 : 0);
}
