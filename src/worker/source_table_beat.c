/* SPDX-License-Identifier: Apache-2.0
 * source_table_beat.c: the beats of jobs that our workers have in hand, in the
 * user's own words: his statements over the relation `work`.
 *
 * A beat is fenced like a settlement: the leases are locked first, and only
 * jobs whose lease is still ours beat. A lease that somebody has locked is
 * passed over, because its job is at its end: a beat never waits, and never
 * writes a sign of life over what the settlement removed.
 */
#include "worker/source_table_sql.h"

#include <assert.h>

static void add_given(struct relation *r, const struct beat *all, int n)
{
	for (int i = 0; i < n; i++) {
		relation_int(r, i);
		relation_text(r, all[i].key);
		relation_int(r, all[i].epoch);
		relation_end_row(r);
	}
}

/* The rows of jobs whose lease is ours, and locked by us now. */
static defib_err lock_own(const struct table_source *src, struct store *s, int64_t worker,
                          const struct beat *all, int n, struct work_row **rows, int *nrows,
                          struct arena *a, struct failure *f)
{
	struct store_rows back;
	struct relation r;
	*nrows = 0;
	given_relation(s->engine, &r);
	add_given(&r, all, n);
	defib_err err = work_over(s, src->sql.beat_leases, worker, &r, a, &back, f);
	for (int i = 0; !err && i < back.nrows; i++) {
		const struct beat *b = &all[row_int(&back, i, LEASE_POS, 0)];
		struct work_row *row = ARENA_NEW(a, struct work_row);
		*row = (struct work_row){
			.job = b->key,
			.epoch = b->epoch,
			.attempt = b->attempt,
			.step = b->step,
			.worker = row_text(&back, i, LEASE_WORKER),
			.now_us = row_int(&back, i, LEASE_NOW, 0),
		};
		if (work_split_key(src->watch, row, a))
			rows[(*nrows)++] = row;
	}
	return err;
}

/* Which of them are lost, and not only locked. */
static defib_err find_lost(const struct table_source *src, struct store *s, int64_t worker,
                           struct beat *all, int n, struct arena *a, struct failure *f)
{
	struct store_rows back;
	struct relation r;
	given_relation(s->engine, &r);
	add_given(&r, all, n);
	defib_err err = work_over(s, src->sql.now_held, 0, &r, a, &back, f);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct beat *b = &all[row_int(&back, i, 0, 0)];
		b->lost = row_int(&back, i, 1, 0) != b->epoch || row_int(&back, i, 2, 0) != worker;
	}
	return err;
}

static defib_err beat_in_tx(const struct table_source *src, struct store *s, int64_t worker,
                            struct beat *all, int n, struct arena *a, struct failure *f)
{
	const struct table_sql *q = &src->sql;
	struct work_row **rows = ARENA_ARRAY(a, struct work_row *, n);
	int nrows = 0;
	defib_err err = lock_own(src, s, worker, all, n, rows, &nrows, a, f);
	if (!err && nrows < n)
		err = find_lost(src, s, worker, all, n, a, f);
	return err ? err : work_run(q, s, q->beat, q->nbeat, rows, nrows, a, f);
}

defib_err table_beat(struct source *src, struct store *s, int64_t worker, struct beat *all, int n,
                     struct arena *a, struct failure *f)
{
	assert(n > 0);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = beat_in_tx((struct table_source *)src, s, worker, all, n, a, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}
