/* SPDX-License-Identifier: Apache-2.0
 * source_table.c: see source.h. Claiming, and queries about leases; settling is in
 * source_table_settle.c.
 */

#include "worker/source_table.h"

#include "ledger/jobs.h"
#include "recover/look.h"
#include "watch/compile_write.h"
#include "worker/source_table_settle.h"
#include "worker/source_table_sql.h"
#include "worker/source_table_steps.h"

#include <assert.h>

static struct table_source *table_of(struct source *src)
{
	return (struct table_source *)src;
}

/* ---- statements over rows, for claiming and settling ---- */

defib_err work_over(struct store *s, const char *sql, int64_t worker, struct relation *r,
                    struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct store_param params[1 + RELATION_COLUMNS_MAX];
	int n = 0;
	if (worker)
		params[n++] = P_INT(worker);
	relation_params(r, params + n);
	n += relation_nparams(r);
	defib_err err = store_exec(s, sql, params, n, a, rows, f);
	relation_release(r);
	return err;
}

static void add_key(const struct table_sql *q, const struct work_row *row, struct relation *r)
{
	for (int k = 0; k < q->binding.watch->key.n; k++)
		relation_text(r, row->key[k]);
}

void work_keys(const struct table_sql *q, struct work_row *const *rows, int n, struct relation *r)
{
	keys_relation(&q->binding, r);
	for (int i = 0; i < n; i++) {
		add_key(q, rows[i], r);
		relation_end_row(r);
	}
}

struct work_index {
	struct job_index jobs;
	struct work_row *const *rows;
	int nkeys;
};

struct work_index *work_index(const struct table_sql *q, struct work_row *const *rows, int n,
                              struct arena *a)
{
	struct work_index *x = ARENA_NEW(a, struct work_index);
	const char **jobs = ARENA_ARRAY(a, const char *, n);
	for (int i = 0; i < n; i++)
		jobs[i] = rows[i]->job;
	x->rows = rows;
	x->nkeys = q->binding.watch->key.n;
	job_index_init(&x->jobs, jobs, n, a);
	return x;
}

struct work_row *work_find(const struct work_index *x, const struct store_rows *rows, int row,
                           struct arena *a)
{
	const char *key[WATCH_KEYS_MAX];
	for (int k = 0; k < x->nkeys; k++)
		key[k] = row_text(rows, row, k);
	int at = job_index_find(&x->jobs, job_text(key, x->nkeys, a));
	return at < 0 ? NULL : x->rows[at];
}

static void table_add_values(const struct write_sql *w, const struct work_row *row,
                             struct relation *r)
{
	const struct write_value values[WRITE_COLUMNS] = {
		[STUCK_OWNER] = {row->worker, false, 0},
		[STUCK_KIND] = {row->kind, false, 0},
		[STUCK_ATTEMPT] = {NULL, true, row->attempt},
		[STUCK_REASON] = {row->reason, false, 0},
		[STUCK_RETRY_AT] = {NULL, row->retry_us != 0, row->retry_us},
		[STUCK_NOW] = {NULL, true, row->now_us},
		[STUCK_STEP] = {row->step, false, 0},
		[WORK_WORKER] = {row->worker, false, 0},
		[WORK_ERROR] = {row->error, false, 0},
		[WORK_RESULT] = {row->result, false, 0},
		[WORK_EPOCH] = {NULL, row->epoch != 0, row->epoch},
		[WORK_METADATA] = {row->metadata, false, 0},
	};
	write_values(w->uses, values, WRITE_COLUMNS, r);
}

static void rows_relation(const struct table_sql *q, const struct write_sql *w,
                          struct work_row *const *rows, int n, struct relation *r)
{
	write_relation(&q->binding, w, r);
	for (int i = 0; i < n; i++) {
		add_key(q, rows[i], r);
		table_add_values(w, rows[i], r);
		relation_end_row(r);
	}
}

defib_err work_run(const struct table_sql *q, struct store *s, const struct write_sql *statements,
                   int nstatements, struct work_row *const *rows, int n, struct arena *a,
                   struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < nstatements && n > 0 && !err; i++) {
		struct relation r;
		rows_relation(q, &statements[i], rows, n, &r);
		err = work_over(s, statements[i].sql, 0, &r, a, NULL, f);
	}
	return err;
}

defib_err work_write(const struct table_sql *q, struct store *s, enum work_list list,
                     struct work_row *const *rows, int n, struct arena *a, struct failure *f)
{
	const struct write_sql *w = list == LIST_NONE ? NULL : &q->lists[list];
	bool given = w && w->sql;
	struct store_rows back;
	struct relation r;
	for (int i = 0; i < n; i++)
		rows[i]->written = !given;
	if (!given || n == 0)
		return DEFIB_OK;
	rows_relation(q, w, rows, n, &r);
	defib_err err = work_over(s, w->sql, 0, &r, a, &back, f);
	if (err)
		return err;
	const struct work_index *x = work_index(q, rows, n, a);
	for (int i = 0; i < back.nrows; i++) {
		struct work_row *row = work_find(x, &back, i, a);
		if (row)
			row->written = true;
	}
	return DEFIB_OK;
}

/* ---- claim ---- */

/* A claim in progress: rows[0..n-1] in the order of work. */
struct claim_under_way {
	const struct table_source *src;
	struct store *store;
	int64_t worker, now_us;
	const char *name; /* the worker's */
	struct work_row **rows;
	int n;
	bool held; /* some were put on hold instead */
	struct arena *arena;
};

static defib_err table_must_live(struct claim_under_way *c, struct failure *f)
{
	struct store_param param = P_INT(c->worker);
	struct store_rows rows;
	defib_err err = store_exec(c->store, c->src->sql.live, &param, 1, c->arena, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST, "worker %lld is not alive", (long long)c->worker);
	if (!err) {
		c->name = row_text(&rows, 0, 0);
		c->now_us = row_int(&rows, 0, 1, 0);
	}
	return err;
}

/* Add rows of one side to those that were picked. */
static defib_err pick_rows(struct claim_under_way *c, bool undoing, int64_t limit,
                           struct failure *f)
{
	struct store_param param = P_INT(limit);
	struct store_rows rows;
	int nkeys = c->src->watch->key.n;
	const char *sql = c->src->sql.pick[undoing];
	if (!sql || limit <= 0)
		return DEFIB_OK;
	defib_err err = store_exec(c->store, sql, &param, 1, c->arena, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct work_row *row = c->rows[c->n++] = ARENA_NEW(c->arena, struct work_row);
		for (int k = 0; k < nkeys; k++)
			row->key[k] = row_text(&rows, i, k);
		row->job = job_text(row->key, nkeys, c->arena);
		row->kind = row_text(&rows, i, nkeys + PICK_KIND);
		row->steps_done = row_text(&rows, i, nkeys + PICK_STEPS_DONE);
		row->leased = row_bool(&rows, i, nkeys + PICK_LEASED);
		row->owner = row_text(&rows, i, nkeys + PICK_OWNER);
		row->has_sign = row_text(&rows, i, nkeys + PICK_SIGN) != NULL;
		row->sign_us = row_int(&rows, i, nkeys + PICK_SIGN, 0);
		row->undoing = undoing;
		row->worker = c->name;
		row->now_us = c->now_us;
	}
	return err;
}

/* Rows whose lease another worker has by now are dropped. */
static defib_err take_leases(struct claim_under_way *c, struct failure *f)
{
	struct store_rows rows;
	struct job_index index;
	struct relation r;
	const char **jobs = ARENA_ARRAY(c->arena, const char *, c->n);
	own_relation(ROWS_JOBS, c->store->engine, &r);
	for (int i = 0; i < c->n; i++) {
		jobs[i] = c->rows[i]->job;
		relation_text(&r, jobs[i]);
		relation_end_row(&r);
	}
	defib_err err = work_over(c->store, c->src->sql.take, c->worker, &r, c->arena, &rows, f);
	if (err)
		return err;
	job_index_init(&index, jobs, c->n, c->arena);
	for (int i = 0; i < rows.nrows; i++) {
		int at = job_index_find(&index, row_text(&rows, i, TAKE_JOB));
		assert(at >= 0);
		c->rows[at]->epoch = row_int(&rows, i, TAKE_EPOCH, 0);
		c->rows[at]->attempt = row_int(&rows, i, TAKE_ATTEMPTS, 0);
		c->rows[at]->alone = row_bool(&rows, i, TAKE_ALONE);
	}
	int taken = 0;
	for (int i = 0; i < c->n; i++)
		if (c->rows[i]->epoch > 0)
			c->rows[taken++] = c->rows[i];
	c->n = taken;
	return DEFIB_OK;
}

/*
 * A claimed row must be running, so that a scan sees it if its worker is gone, and not ready, so
 * that nothing else that reads the table takes it too. Without a claim list a row runs from the
 * moment it is ready, and only the lease says who has it.
 */
defib_err work_check_claim(const struct table_source *src, const struct work_row *row,
                           const struct work_left *now, struct failure *f)
{
	const char *watch = src->watch->name;
	bool writes = src->sql.lists[LIST_CLAIM].sql != NULL;
	if (row->undoing || (now->running && !(now->ready && writes)))
		return DEFIB_OK;
	if (writes && now->running)
		fail(f, DEFIB_CONFIG, "watch %s: job %s still matches work.ready after work.claim", watch,
		     row->job);
	else if (writes)
		fail(f, DEFIB_CONFIG, "watch %s: job %s is not running after work.claim", watch, row->job);
	else
		fail(f, DEFIB_CONFIG,
		     "watch %s: job %s is ready but not running, and the watch has no work.claim", watch,
		     row->job);
	fail_next(f, "work.claim must make the row match running and no longer work.ready, and no "
	             "trigger may prevent the write");
	return DEFIB_CONFIG;
}

/* A row to be undone is not written: only its lease shows that it is being worked on. */
static defib_err write_claim(struct claim_under_way *c, struct failure *f)
{
	struct work_row **rows = ARENA_ARRAY(c->arena, struct work_row *, c->n);
	int n = 0;
	for (int i = 0; i < c->n; i++)
		if (!c->rows[i]->undoing)
			rows[n++] = c->rows[i];
	return work_write(&c->src->sql, c->store, LIST_CLAIM, rows, n, c->arena, f);
}

/* The rows after the claim; if the claim does not make a row running, it is not one. */
static defib_err read_claimed(struct claim_under_way *c, struct claimed *out, struct failure *f)
{
	const struct table_sql *q = &c->src->sql;
	const struct watch *w = c->src->watch;
	const struct work_index *x = work_index(q, c->rows, c->n, c->arena);
	struct store_rows rows;
	struct relation r;
	work_keys(q, c->rows, c->n, &r);
	defib_err err = work_over(c->store, q->claimed, 0, &r, c->arena, &rows, f);
	for (int i = 0; i < c->n; i++)
		out[i] = (struct claimed){
			.key = c->rows[i]->job,
			.queue = w->name,
			.workflow = c->rows[i]->workflow ? c->rows[i]->workflow->name : NULL,
			.undoing = c->rows[i]->undoing,
			.steps = c->rows[i]->steps,
			.alone = c->rows[i]->alone,
		};
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct work_row *row = work_find(x, &rows, i, c->arena);
		int at = 0, col = w->key.n;
		assert(row != NULL);
		while (c->rows[at] != row)
			at++;
		const struct work_left now = work_left(&rows, i, col);
		err = work_check_claim(c->src, row, &now, f);
		if (err)
			return err;
		out[at].epoch = row->epoch;
		/* The row's own attempts count its runs. */
		if (!row->undoing && row->workflow)
			row->attempt = row_int(&rows, i, col + WORK_ATTEMPTS, row->attempt);
		else if (!row->undoing)
			row->attempt = work_attempts(q, row_int(&rows, i, col + WORK_ATTEMPTS, row->attempt),
			                             row->attempt);
		out[at].attempt = row->attempt;
		out[at].max_attempts = row_int(&rows, i, col + WORK_MAX, 0);
		out[at].timeout_ms = ms_from_us(w->work.timeout_us);
		out[at].kind = row_text(&rows, i, col + WORK_KIND);
		out[at].payload = row_text(&rows, i, col + WORK_PAYLOAD);
	}
	return err;
}

static defib_err claim_in_tx(struct claim_under_way *c, int64_t limit, struct claimed **out,
                             struct failure *f)
{
	const struct table_sql *q = &c->src->sql;
	c->rows = ARENA_ARRAY(c->arena, struct work_row *, limit);
	defib_err err = table_must_live(c, f);
	/* Rows to be undone go first: they hold resources, and are few. */
	if (!err)
		err = pick_rows(c, true, limit, f);
	if (!err)
		err = pick_rows(c, false, limit - c->n, f);
	int picked = c->n;
	if (!err && c->n > 0)
		err = steps_plan_rows(c->src, c->store, c->worker, c->rows, &c->n, c->arena, f);
	c->held = picked > c->n;
	if (!err && c->n > 0)
		err = take_leases(c, f);
	if (err || c->n == 0)
		return err;
	*out = ARENA_ARRAY(c->arena, struct claimed, c->n);
	if (!err)
		err = write_claim(c, f);
	if (!err)
		err = read_claimed(c, *out, f);
	return err ? err : work_run(q, c->store, q->beat, q->nbeat, c->rows, c->n, c->arena, f);
}

static defib_err anything_there(const struct table_sql *q, struct store *s, struct arena *a,
                                bool *there, struct failure *f)
{
	defib_err err = DEFIB_OK;
	*there = false;
	for (int undoing = 0; undoing < 2 && !err && !*there; undoing++) {
		struct store_rows rows;
		if (!q->peek[undoing])
			continue;
		err = store_exec(s, q->peek[undoing], NULL, 0, a, &rows, f);
		*there = !err && rows.nrows > 0;
	}
	return err;
}

static defib_err table_claim(struct source *src, struct store *s, int64_t worker, int64_t n,
                             struct arena *a, struct claimed **out, int *nout, struct failure *f)
{
	struct table_source *t = table_of(src);
	struct claim_under_way c = {.src = t, .store = s, .worker = worker, .arena = a};
	int64_t batch = t->watch->work.batch, limit = batch && batch < n ? batch : n;
	bool there, own = !s->in_tx; /* in a transaction of its own, or in the caller's */
	assert(n > 0);
	*nout = 0;
	/* An idle check takes no lock; on SQLite that would lock the whole database. */
	defib_err err = anything_there(&t->sql, s, a, &there, f);
	if (err || !there)
		return err;
	/* Rows that were put on hold instead of being claimed make room for others. */
	do {
		c.n = 0;
		c.held = false;
		err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
		if (err)
			return err;
		err = claim_in_tx(&c, limit, out, f);
		if (err || (c.n == 0 && !c.held)) {
			if (own)
				store_rollback(s);
			return err;
		}
		err = own ? store_commit(s, f) : DEFIB_OK;
		*nout = err ? 0 : c.n;
	} while (!err && c.n == 0);
	return err;
}

/* ---- the rest ---- */

static defib_err table_owned(struct source *src, struct store *s, int64_t worker, struct arena *a,
                             struct settlement **out, int *n, struct failure *f)
{
	return source_keys(s, table_of(src)->sql.owned, worker, a, out, n, f);
}

static defib_err table_cancelling(struct source *src, struct store *s, int64_t worker,
                                  struct arena *a, struct settlement **out, int *n,
                                  struct failure *f)
{
	*n = 0;
	if (!table_of(src)->sql.cancelling)
		return DEFIB_OK;
	return source_keys(s, table_of(src)->sql.cancelling, worker, a, out, n, f);
}

/* A waiting lease becomes claimable by itself when its time has come. */
static defib_err table_promote(struct source *src, struct store *s, struct failure *f)
{
	(void)src;
	(void)s;
	(void)f;
	return DEFIB_OK;
}

/* The user's table has no place for progress: the result is only whether the job is still ours. */
static defib_err table_progress(struct source *src, struct store *s, int64_t worker,
                                const char *key, int64_t epoch, const char *step, const char *text,
                                struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_param params[] = {P_INT(worker), P_TEXT(key), P_INT(epoch)};
	struct store_rows rows;
	(void)step;
	(void)text;
	defib_err err = store_exec(s, table_of(src)->sql.holds, params, 3, &a, &rows, f);
	bool ours = !err && rows.nrows > 0;
	if (!err && !ours)
		return fail(f, DEFIB_LEASE_LOST, "job %s no longer belongs to this worker", key);
	return err;
}

/* ---- statements while a job is in hand, and at its end ---- */

static void add_given(struct relation *r, const struct beat *all, int n)
{
	for (int i = 0; i < n; i++) {
		relation_int(r, i);
		relation_text(r, all[i].key);
		relation_int(r, all[i].epoch);
		relation_end_row(r);
	}
}

/* The heartbeats of one call. */
struct table_beating {
	const struct table_source *src;
	struct store *s;
	int64_t worker;
	struct beat *all;
	int n;
	struct arena *a;
};

/* Lock the rows of jobs whose lease is ours. */
static defib_err lock_own(const struct table_beating *x, struct work_row **rows, int *nrows,
                          struct failure *f)
{
	struct store_rows back;
	struct relation r;
	*nrows = 0;
	own_relation(ROWS_GIVEN, x->s->engine, &r);
	add_given(&r, x->all, x->n);
	defib_err err = work_over(x->s, x->src->sql.beat_leases, x->worker, &r, x->a, &back, f);
	for (int i = 0; !err && i < back.nrows; i++) {
		const struct beat *b = &x->all[row_int(&back, i, LEASE_POS, 0)];
		struct work_row *row = ARENA_NEW(x->a, struct work_row);
		*row = (struct work_row){
			.job = b->key,
			.epoch = b->epoch,
			.attempt = b->attempt,
			.step = b->step,
			.worker = row_text(&back, i, LEASE_WORKER),
			.now_us = row_int(&back, i, LEASE_NOW, 0),
		};
		if (job_key(row->job, x->src->watch->key.n, x->a, row->key))
			rows[(*nrows)++] = row;
	}
	return err;
}

/* Which of them are lost, and not only locked. */
static defib_err find_lost(const struct table_beating *x, struct failure *f)
{
	struct store_rows back;
	struct relation r;
	own_relation(ROWS_GIVEN, x->s->engine, &r);
	add_given(&r, x->all, x->n);
	defib_err err = work_over(x->s, x->src->sql.now_held, 0, &r, x->a, &back, f);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct beat *b = &x->all[row_int(&back, i, 0, 0)];
		b->lost = row_int(&back, i, 1, 0) != b->epoch || row_int(&back, i, 2, 0) != x->worker;
	}
	return err;
}

static defib_err beat_in_tx(const struct table_beating *x, struct failure *f)
{
	const struct table_sql *q = &x->src->sql;
	struct work_row **rows = ARENA_ARRAY(x->a, struct work_row *, x->n);
	int nrows = 0;
	defib_err err = lock_own(x, rows, &nrows, f);
	if (!err && nrows < x->n)
		err = find_lost(x, f);
	return err ? err : work_run(q, x->s, q->beat, q->nbeat, rows, nrows, x->a, f);
}

static defib_err table_beat(struct source *src, struct store *s, int64_t worker, struct beat *all,
                            int n, struct arena *a, struct failure *f)
{
	assert(n > 0);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = beat_in_tx(&(struct table_beating){table_of(src), s, worker, all, n, a}, f);
	return store_end(s, err, f);
}

void table_free(struct source *src)
{
	arena_release(&table_of(src)->arena);
	free(src);
}

defib_err table_open(struct table_source *t, const struct watch *w, const char *kind,
                     struct store *s, struct failure *f)
{
	static const struct source_ops ops = {
		.claim = table_claim,
		.settle = table_settle,
		.owned = table_owned,
		.cancelling = table_cancelling,
		.promote = table_promote,
		.progress = table_progress,
		.free = table_free,
		.beat = table_beat,
	};
	*t = (struct table_source){.base = {.ops = &ops, .name = w->name, .keys = w->name}, .watch = w};
	chance_seed(&t->chance);
	t->base.beat_ms = w->work.beat.n > 0 ? w->beat_us / 1000 : 0;
	defib_err err = table_sql_compile(w, kind, s, &t->arena, &t->sql, f);
	if (err)
		table_free(&t->base);
	return err;
}

defib_err source_table(const struct watch *w, const char *kind, struct store *s,
                       struct source **out, struct failure *f)
{
	struct table_source *t = mem_alloc(sizeof *t);
	defib_err err = table_open(t, w, kind, s, f);
	*out = err ? NULL : &t->base;
	return err;
}
