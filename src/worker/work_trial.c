/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/work_trial.h"

#include "recover/look.h"
#include "store/dialect.h"
#include "watch/lexer.h"
#include "worker/source_table.h"
#include "worker/source_table_settle.h"
#include "worker/source_table_sql.h"

#include <assert.h>

#define RETRY_IN_US (60 * US_PER_S)

/* A row to try a list on. */
enum sample_row { SAMPLE_READY, SAMPLE_RUNNING, SAMPLE_UNDO, SAMPLES };

struct work_trial {
	struct table_source src;   /* first: it is what table_free() frees */
	const char *pick[SAMPLES]; /* its key; NULL: the watch has no such rows */
};

static_assert(LIST_CLAIM == WORK_TRIAL_CLAIM, "its number is in the header");

/* What a worker would have decided. */
static const enum step_after afters[] = {
	[LIST_CLAIM] = AFTER_NEXT,       [LIST_DONE] = AFTER_DONE,
	[LIST_FAILED] = AFTER_FAILED,    [LIST_TIMED_OUT] = AFTER_TIMED_OUT,
	[LIST_RELEASE] = AFTER_RELEASED, [LIST_RETRY] = AFTER_RETRY,
	[LIST_STEP] = AFTER_NEXT,        [LIST_ROLLED_BACK] = AFTER_ROLLED_BACK,
};

static const char *pick_sql(const struct binding *b, const char *condition, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	if (!condition)
		return NULL;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	from_table(b, &sql);
	buf_addf(&sql, "\nWHERE (%s)\nLIMIT 1", condition);
	if (dialect_of(b->engine)->has_row_locks)
		buf_add(&sql, "\nFOR NO KEY UPDATE OF t SKIP LOCKED");
	return arena_strdup(a, buf_text(&sql));
}

defib_err work_trial_open(const struct watch *w, struct store *s, struct work_trial **out,
                          struct failure *f)
{
	struct work_trial *t = mem_alloc(sizeof *t);
	*out = NULL;
	defib_err err = table_open(&t->src, w, NULL, s, f);
	if (err) /* which freed it */
		return err;
	const struct binding *b = &t->src.sql.binding;
	t->pick[SAMPLE_READY] = pick_sql(b, w->work.ready.text, &t->src.arena);
	t->pick[SAMPLE_RUNNING] = pick_sql(b, w->running.text, &t->src.arena);
	t->pick[SAMPLE_UNDO] = pick_sql(b, w->work.rollback_ready.text, &t->src.arena);
	*out = t;
	return DEFIB_OK;
}

void work_trial_close(struct work_trial *t)
{
	if (t)
		table_free(&t->src.base);
}

int work_trial_count(void)
{
	return LIST_NONE;
}

const char *work_trial_option(const struct work_trial *t, int list)
{
	assert(list >= 0 && list < LIST_NONE);
	return t->src.sql.lists[list].sql ? work_list_options[list] : NULL;
}

/* A claim is tried on a ready row, a rollback on a row to be undone, another end on a claimed one.
 */
static enum sample_row work_trial_sample_of(int list, bool claims)
{
	return list == LIST_ROLLED_BACK       ? SAMPLE_UNDO
	       : list == LIST_CLAIM || claims ? SAMPLE_READY
	                                      : SAMPLE_RUNNING;
}

/* Whether the row is claimed before the list is written. */
static bool claims_first(const struct work_trial *t, int list, bool claims)
{
	return work_trial_sample_of(list, claims) == SAMPLE_READY && list != LIST_CLAIM &&
	       t->src.sql.lists[LIST_CLAIM].sql;
}

void work_trial_reads(struct work_trial *t, int list, bool claims, struct arena *a,
                      struct work_trial_reads *out)
{
	const struct table_sql *q = &t->src.sql;
	const struct write_sql *sets[] = {&q->lists[list],
	                                  claims_first(t, list, claims) ? &q->lists[LIST_CLAIM] : NULL};
	int n = 0;
	*out = (struct work_trial_reads){.columns = ARENA_ARRAY(a, const char *, 1)};
	const char *pick = t->pick[work_trial_sample_of(list, claims)];
	if (pick)
		out->statements[n++] = pick;
	out->statements[n++] = q->facts;
	for (int i = 0; i < 2 && sets[i]; i++) {
		const char **columns, **all;
		struct failure ignored = {0};
		int ncolumns = 0;
		out->statements[n++] = sets[i]->sql;
		out->sets[i] = sets[i]->set;
		if (!sets[i]->set ||
		    sql_set_targets(sets[i]->set, q->binding.engine, a, &columns, &ncolumns, &ignored))
			continue;
		all = ARENA_ARRAY(a, const char *, out->ncolumns + ncolumns + 1);
		for (int k = 0; k < out->ncolumns; k++)
			all[k] = out->columns[k];
		for (int k = 0; k < ncolumns; k++)
			all[out->ncolumns++] = columns[k];
		out->columns = all;
	}
	assert(n < WORK_TRIAL_STATEMENTS);
}

/* ---- a trial ---- */

struct list_trial {
	struct work_trial *t;
	struct store *store;
	struct arena *arena;
	struct work_row row;
};

static defib_err pick_row(struct list_trial *x, enum sample_row from, bool *there,
                          struct failure *f)
{
	struct store_rows rows;
	int nkeys = x->t->src.watch->key.n;
	*there = false;
	if (!x->t->pick[from])
		return DEFIB_OK;
	defib_err err = store_exec(x->store, x->t->pick[from], NULL, 0, x->arena, &rows, f);
	*there = !err && rows.nrows > 0;
	for (int k = 0; *there && k < nkeys; k++)
		x->row.key[k] = row_text(&rows, 0, k);
	if (*there)
		x->row.job = job_text(x->row.key, nkeys, x->arena);
	return err;
}

/* The row as it is now; false: it is gone, or its key has changed. */
static defib_err work_trial_read_row(struct list_trial *x, struct work_left *now, bool *there,
                                     struct failure *f)
{
	struct work_row *rows[] = {&x->row};
	struct store_rows back;
	struct relation r;
	int col = x->t->src.watch->key.n;
	work_keys(&x->t->src.sql, rows, 1, &r);
	defib_err err = work_over(x->store, x->t->src.sql.facts, 0, &r, x->arena, &back, f);
	*there = !err && back.nrows > 0;
	if (!*there)
		return err;
	*now = work_left(&back, 0, col);
	x->row.kind = row_text(&back, 0, col + WORK_KIND);
	x->row.attempt = row_int(&back, 0, col + WORK_ATTEMPTS, 1);
	x->row.now_us = row_int(&back, 0, col + WORK_NOW, 0);
	return DEFIB_OK;
}

/* The values of a worker that ended the job this way, and gave no result. */
static void set_values(struct list_trial *x, int list)
{
	bool wrong = list == LIST_FAILED || list == LIST_TIMED_OUT || list == LIST_RETRY;
	x->row.worker = "doctor";
	x->row.epoch = 1;
	x->row.error = wrong ? "tried, and rolled back" : NULL;
	x->row.reason = wrong ? x->row.error : "done";
	x->row.retry_us = list == LIST_RETRY ? x->row.now_us + RETRY_IN_US : 0;
}

/* Write a list, and read the row again. *wrong: the list does not do what its name says. */
static defib_err write_list(struct list_trial *x, int list, bool *wrong, struct failure *f)
{
	struct work_row *rows[] = {&x->row};
	const struct table_source *src = &x->t->src;
	struct work_left now;
	bool there = false;
	*wrong = false;
	set_values(x, list);
	defib_err err = work_write(&src->sql, x->store, (enum work_list)list, rows, 1, x->arena, f);
	if (!err)
		err = work_trial_read_row(x, &now, &there, f);
	if (err)
		return err;
	if (!x->row.written || !there) {
		*wrong = true;
		fail(f, DEFIB_CONFIG, "watch %s: %s does not change job %s, or changes its key",
		     src->watch->name, work_list_options[list], x->row.job);
		return DEFIB_OK;
	}
	const struct table_ending end = {
		.row = x->row, .after = afters[list], .list = (enum work_list)list};
	err = list == LIST_CLAIM ? work_check_claim(src, &x->row, &now, f)
	                         : work_check_end(src, &end, &now, f);
	*wrong = err != DEFIB_OK;
	return DEFIB_OK;
}

static defib_err work_trial_in_trial(struct list_trial *x, int list, bool claims,
                                     enum work_tried *as, struct failure *f)
{
	struct work_left now;
	bool there = false, wrong = false;
	defib_err err = pick_row(x, work_trial_sample_of(list, claims), &there, f);
	if (!err && there)
		err = work_trial_read_row(x, &now, &there, f);
	if (err || !there)
		return err;
	if (claims_first(x->t, list, claims)) {
		err = write_list(x, LIST_CLAIM, &wrong, f);
		/* That is reported of the claim itself: of this end, nothing is known. */
		if (err || wrong)
			return err;
	}
	x->row.undoing = list == LIST_ROLLED_BACK;
	err = write_list(x, list, &wrong, f);
	if (!err)
		*as = wrong ? WORK_WRONG : WORK_TRIED;
	return err;
}

defib_err work_trial_try(struct work_trial *t, struct store *s, int list, bool claims,
                         struct arena *a, enum work_tried *as, const char **job, struct failure *f)
{
	struct list_trial x = {.t = t, .store = s, .arena = a};
	*as = WORK_NO_ROW;
	*job = NULL;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = work_trial_in_trial(&x, list, claims, as, f);
	store_rollback(s);
	*job = x.row.job;
	return err;
}
