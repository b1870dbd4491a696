/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/look.h"

#include "base/hash.h"
#include "ledger/history.h"
#include "ledger/jobs.h"
#include "recover/excuse.h"
#include "recover/masked.h"
#include "recover/seen.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

#include <assert.h>
#include <jansson.h>

const char *job_text(const char *const *key, int n, struct arena *a)
{
	if (n == 1)
		return key[0] ? key[0] : "";
	AUTO_BUF text = BUF_INIT;
	for (int k = 0; k < n; k++) {
		buf_add(&text, k ? "," : "[");
		buf_add_json(&text, key[k] ? key[k] : "");
	}
	buf_add(&text, "]");
	return arena_strdup(a, buf_text(&text));
}

bool job_key(const char *job, int n, struct arena *a, const char *key[WATCH_KEYS_MAX])
{
	if (n == 1) {
		key[0] = job;
		return true;
	}
	json_auto_t *list = json_read(job, 0);
	bool good = json_is_array(list) && json_array_size(list) == (size_t)n;
	for (int k = 0; k < n && good; k++) {
		const json_t *part = json_array_get(list, (size_t)k);
		char *text = json_is_string(part) ? NULL : json_dumps(part, JSON_ENCODE_ANY);
		key[k] = arena_strdup(a, text ? text : json_string_value(part));
		free(text);
	}
	return good;
}

void jobs_keys(const struct binding *b, const char *const *jobs, int n, struct arena *a,
               struct relation *r)
{
	keys_relation(b, r);
	for (int i = 0; i < n; i++) {
		const char *key[WATCH_KEYS_MAX];
		if (!job_key(jobs[i], b->watch->key.n, a, key))
			continue;
		for (int k = 0; k < b->watch->key.n; k++)
			relation_text(r, key[k]);
		relation_end_row(r);
	}
}

static enum known known(const struct store_rows *rows, int row, int col)
{
	if (!row_text(rows, row, col))
		return KNOWN_NOT;
	return row_bool(rows, row, col) ? KNOWN_YES : KNOWN_NO;
}

static bool read_number(const struct store_rows *rows, int row, int col, int64_t *out)
{
	*out = row_int(rows, row, col, 0);
	return row_text(rows, row, col) != NULL;
}

/* What everybody's mask hides leaves the database's rows here: nothing below can show it. */
static void mask_shown(const struct watch *w, struct arena *a, struct facts *f)
{
	AUTO_SECRETS secrets = {0};
	AUTO_BUF shown = BUF_INIT;
	if (w->mask.n == 0)
		return;
	secrets_facts(&secrets, w, f);
	for (int i = 0; i < w->show.n; i++) {
		if (!f->show[i])
			continue;
		buf_clear(&shown);
		masked_text(w, &secrets, w->show.items[i], f->show[i], &shown);
		f->show[i] = arena_strdup(a, buf_text(&shown));
	}
}

/* A long value is not kept; that it changed shows by its hash. */
static const char *look_seen_value(const char *value, struct arena *a)
{
	char hex[SHA256_HEX];
	if (!value || strlen(value) <= SEEN_VALUE_MOST)
		return value;
	sha256_hex(value, strlen(value), hex);
	return arena_printf(a, SEEN_HASH "%s", hex);
}

void facts_decode(const struct watch_sql *q, const struct store_rows *rows, int row,
                  struct arena *a, struct facts *out)
{
	const struct watch *w = q->binding->watch;
	const struct fact_columns *c = &q->cols;
	assert(rows->ncols == c->count);
	*out = (struct facts){
		.owner = row_text(rows, row, c->owner),
		.owner_alive = known(rows, row, c->owner_alive),
		.kind = row_text(rows, row, c->kind),
		.now_us = row_int(rows, row, c->now, 0),
		.running = row_bool(rows, row, c->running),
		.position = row_text(rows, row, c->position),
		.steps_done = row_text(rows, row, c->steps_done),
		.late = row_bool(rows, row, c->late),
		.before = row_text(rows, row, c->before),
	};
	for (int k = 0; k < w->key.n; k++)
		out->key[k] = row_text(rows, row, c->key + k);
	if (c->state >= 0)
		out->state = row_text(rows, row, c->state);
	if (c->waiting >= 0) {
		out->waiting = row_bool(rows, row, c->waiting) && !out->running;
		out->has_due = read_number(rows, row, c->due, &out->due_us);
		out->has_last_run = read_number(rows, row, c->last_run, &out->last_run_us);
	}
	if (c->progress >= 0)
		out->progress = look_seen_value(row_text(rows, row, c->progress), a);
	out->job = job_text(out->key, w->key.n, a);
	out->has_attempts = read_number(rows, row, c->attempts, &out->attempts);
	out->has_epoch = read_number(rows, row, c->epoch, &out->epoch);
	out->has_max_attempts = read_number(rows, row, c->max_attempts, &out->max_attempts);
	for (int s = 0; s < SIGN_COUNT; s++)
		out->has_sign[s] = read_number(rows, row, c->sign + s, &out->sign_us[s]);
	for (int s = 0; s < SIGN_COUNT; s++)
		out->has_own[s] = c->own[s] >= 0 && read_number(rows, row, c->own[s], &out->own_us[s]);
	out->has_lost = read_number(rows, row, c->lost, &out->lost_us);
	for (int i = 0; i < w->nrules; i++)
		if (row_bool(rows, row, c->when + i))
			out->when |= 1U << i;
	out->nmasked = q->binding->nmasked;
	out->masked_names = q->binding->masked;
	out->masked = ARENA_ARRAY(a, const char *, out->nmasked + 1);
	for (int i = 0; i < out->nmasked; i++)
		out->masked[i] = row_text(rows, row, c->masked + i);
	for (int i = 0; i < w->show.n; i++)
		out->show[i] = row_text(rows, row, c->show + i);
	mask_shown(w, a, out);
}

static enum hold_state hold_of(const struct binding *b, const struct history *h,
                               const struct facts *f, const struct owner_sign *now)
{
	const struct watch *w = b->watch;
	/* An excuse holds nothing; its row ends with the next act on the job. */
	if (h->excuse.verdict)
		return HOLD_STATE_OVER;
	return hold_state(&(struct hold_facts){
		.recorded = h->held,
		.cause = h->hold_cause,
		.made = {h->hold_owner, h->hold_has_sign, h->hold_sign_us},
		.now = *now,
		.by_other = h->hold_watch && !text_eq(h->hold_watch, w->name),
		.at_us = h->hold_at_us,
		.in_words = watch_writes_hold(w),
		.running = f->running,
		.moved = !columns_same_in(w->running.text, b->engine, h->hold_after, f->before),
	});
}

/* For this owner, and for the sign of life that was judged then. */
static bool is_noted(const struct watch *w, const struct history *h, const struct facts *f,
                     const struct owner_sign *now)
{
	struct owner_sign noted = {h->noted.owner, h->noted.has_sign, h->noted.sign_us};
	bool same = owner_sign_same(&noted, now);
	for (int s = 0; s < SIGN_COUNT && !same; s++)
		if (watch_measures(w, (enum sign)s) && f->has_sign[s] && !sign_kinds[s].refuted)
			same = owner_sign_same(&noted, &(struct owner_sign){f->owner, true, f->sign_us[s]});
	return h->noted.is && same;
}

static void take_history(const struct binding *b, const struct history *h, struct facts *f)
{
	enum sign s = watch_first_sign(b->watch);
	struct owner_sign now = {f->owner, f->has_sign[s], f->sign_us[s]};
	struct owner_sign released = {h->released.owner, h->released.has_sign, h->released.sign_us};
	f->crashes = h->recoveries;
	f->hold = hold_of(b, h, f, &now);
	f->noted = is_noted(b->watch, h, f, &now);
	f->released = h->released.of_job && owner_sign_same(&released, &now) &&
	              h->released.has_attempts == f->has_attempts &&
	              h->released.attempts == f->attempts;
	if (hold_in_force(f->hold)) {
		f->hold_cause = h->hold_cause;
		f->hold_reason = h->hold_reason;
	}
	f->excused = excuse_covers(b->watch, h, f);
	if (f->excused) {
		f->excused_by = h->excuse.actor;
		f->excuse_reason = h->hold_reason;
		f->excused_at_us = h->hold_at_us;
	}
}

/*
 * From this number on, the transaction looks up jobs by key, one by one. A planner that believes
 * the ledger to be small would read all of it for each job, also after it has grown.
 */
#define MANY_JOBS 100
static defib_err by_index(struct store *s, int n, struct failure *f)
{
	if (!store_dialect(s)->by_key || n < MANY_JOBS)
		return DEFIB_OK;
	return store_exec(s, store_dialect(s)->by_key, NULL, 0, NULL, NULL, f);
}

static defib_err look_add_history(struct store *s, const struct binding *b, const struct ledger *l,
                                  struct arena *a, struct facts *facts, int n, struct failure *f)
{
	const struct watch *w = b->watch;
	if (!l->ready || n == 0)
		return DEFIB_OK;
	struct history *history = ARENA_ARRAY(a, struct history, n);
	const char **jobs = JOBS_OF(facts, job, n, a);
	defib_err err = by_index(s, n, f);
	if (!err)
		err = ledger_history(s, w->name, b->table_key, jobs, n, w->crash_budget.within_us, a,
		                     history, f);
	for (int i = 0; !err && i < n; i++)
		take_history(b, &history[i], &facts[i]);
	return err;
}

/* Run a query, and read what the ledger knows about its rows, in one read-only transaction. */
static defib_err read_facts_only(const struct look *l, const char *sql,
                                 const struct store_param *params, int nparams, bool history,
                                 struct facts **out, int *n, struct failure *f)
{
	struct store_rows rows;
	defib_err err = store_begin(l->store, TX_READ, f);
	if (err)
		return err;
	err = store_exec(l->store, sql, params, nparams, l->arena, &rows, f);
	if (!err) {
		*n = rows.nrows;
		*out = ARENA_ARRAY(l->arena, struct facts, rows.nrows);
		for (int i = 0; i < rows.nrows; i++)
			facts_decode(l->sql, &rows, i, l->arena, &(*out)[i]);
	}
	if (!err && history)
		err = seen_recall(l, *out, *n, f);
	if (!err && history)
		err = look_add_history(l->store, l->sql->binding, l->ledger, l->arena, *out, *n, f);
	masked_failure(l->sql->binding->watch, f);
	store_rollback(l->store); /* nothing was written */
	return err;
}

static defib_err read_facts(const struct look *l, const char *sql, const struct store_param *params,
                            int nparams, struct facts **out, int *n, struct failure *f)
{
	return read_facts_only(l, sql, params, nparams, true, out, n, f);
}

defib_err look_seen(const struct look *l, int64_t limit, struct facts **out, int *n,
                    struct failure *f)
{
	struct store_param param = P_INT(limit);
	assert(l->sql->look_seen != NULL);
	return read_facts_only(l, l->sql->look_seen, &param, 1, false, out, n, f);
}

defib_err look_waiting(const struct look *l, int64_t limit, struct facts **out, int *n,
                       struct failure *f)
{
	struct store_param param = P_INT(limit);
	assert(l->sql->look_waiting != NULL);
	return read_facts_only(l, l->sql->look_waiting, &param, 1, false, out, n, f);
}

defib_err look_history(const struct look *l, struct facts *facts, int n, struct failure *f)
{
	defib_err err = store_begin(l->store, TX_READ, f);
	if (err)
		return err;
	err = look_add_history(l->store, l->sql->binding, l->ledger, l->arena, facts, n, f);
	store_rollback(l->store);
	return err;
}

defib_err look_page(const struct look *l, const char *owner, int64_t limit,
                    const struct facts *after, struct facts **out, int *n, struct failure *f)
{
	struct store_param params[3 + WATCH_KEYS_MAX] = {P_INT(limit)};
	int nparams = 1;
	assert(limit > 0);
	/* One owner has few jobs: a single page, and the rest is not read. */
	if (owner) {
		assert(l->sql->look_owner != NULL);
		*n = 0;
		params[nparams++] = P_TEXT(owner);
		return after ? DEFIB_OK : read_facts(l, l->sql->look_owner, params, nparams, out, n, f);
	}
	if (after) {
		params[nparams++] = P_TEXT(after->position);
		for (int k = 0; k < l->sql->binding->watch->key.n; k++)
			params[nparams++] = P_TEXT(after->key[k]);
	}
	return read_facts(l, after ? l->sql->look_next : l->sql->look_first, params, nparams, out, n,
	                  f);
}

defib_err look_one(const struct look *l, const char *const *key, struct facts *out, bool *found,
                   struct failure *f)
{
	struct store_param params[WATCH_KEYS_MAX];
	struct facts *facts = NULL;
	int n = 0, nkeys = l->sql->binding->watch->key.n;
	for (int k = 0; k < nkeys; k++)
		params[k] = P_TEXT(key[k]);
	defib_err err = read_facts(l, l->sql->look_one, params, nkeys, &facts, &n, f);
	*found = !err && n > 0;
	if (*found)
		*out = facts[0];
	return err;
}

defib_err look_jobs(const struct look *l, const char *const *jobs, int njobs, struct facts **out,
                    int *n, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_RELATION r = {0};
	jobs_keys(l->sql->binding, jobs, njobs, l->arena, &r);
	relation_params(&r, params);
	*n = 0;
	defib_err err = DEFIB_OK;
	if (r.nrows > 0)
		err = read_facts(l, l->sql->reread, params, relation_nparams(&r), out, n, f);
	return err;
}

defib_err look_each(const struct look *l, const char *const *jobs, int n, struct facts **out,
                    struct failure *f)
{
	struct job_index index;
	struct facts *found = NULL;
	int nfound = 0;
	*out = ARENA_ARRAY(l->arena, struct facts, n + 1);
	job_index_init(&index, jobs, n, l->arena);
	defib_err err = look_jobs(l, jobs, n, &found, &nfound, f);
	for (int i = 0; !err && i < nfound; i++) {
		int at = job_index_find(&index, found[i].job);
		if (at >= 0) /* keys that are equal in the database need not be equal here */
			(*out)[at] = found[i];
	}
	return err;
}

defib_err look_unreadable(struct store *s, const struct watch_sql *q, struct arena *a,
                          struct unreadable **out, int *n, struct failure *f)
{
	struct store_rows rows;
	int nkeys = q->binding->watch->key.n;
	*n = 0;
	if (!q->unreadable)
		return DEFIB_OK;
	defib_err err = store_read(s, q->unreadable, NULL, 0, a, &rows, f);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct unreadable, rows.nrows);
	for (*n = 0; *n < rows.nrows; (*n)++) {
		struct unreadable *one = &(*out)[*n];
		for (int k = 0; k < nkeys; k++)
			one->key[k] = row_text(&rows, *n, k);
		one->job = job_text(one->key, nkeys, a);
		for (int sign = SIGN_COUNT - 1; sign >= 0; sign--)
			if (row_text(&rows, *n, nkeys + sign)) {
				one->sign = (enum sign)sign;
				one->value = row_text(&rows, *n, nkeys + sign);
			}
	}
	return DEFIB_OK;
}

defib_err look_number(struct store *s, const char *sql, int64_t *n, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_read(s, sql, NULL, 0, &a, &rows, f);
	*n = row_int(&rows, 0, 0, 0);
	return err;
}

defib_err look_running(struct store *s, const struct watch_sql *q, int64_t *n, struct failure *f)
{
	return look_number(s, q->count_running, n, f);
}

defib_err look_stuck(struct store *s, const struct watch_sql *q, int64_t *n, struct failure *f)
{
	return look_number(s, q->count_stuck, n, f);
}

/* ---- the oldest jobs ---- */

/* The jobs that are not over: running, or waiting for one of our workers. */
static void open_rows(const struct watch *w, struct buf *out)
{
	buf_addf(out, "((%s)", w->running.text);
	if (w->work.ready.text)
		buf_addf(out, " OR (%s)", w->work.ready.text);
	buf_add(out, ")");
}

static void alive_column(const struct binding *b, struct buf *out)
{
	if (b->owner_alive)
		buf_addf(out, ", (%s) IS TRUE", b->owner_alive);
	else
		buf_add(out, ", false");
}

/* Age, is its worker alive, and the key. */
static void aged_sql(const struct binding *b, int64_t older_us, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct threshold older = {.given = true, .standard_us = older_us};
	enum sign sign = watch_first_sign(w);
	const char *expr = watch_sign(w, sign)->text;
	AUTO_BUF comparable = BUF_INIT;
	sql_time_comparable(b, b->sign_time[sign], expr, &comparable);
	buf_addf(out, "SELECT %s - ", sql_now_us(b->engine));
	sql_time_us(b, b->sign_time[sign], expr, out);
	alive_column(b, out);
	buf_add(out, ", ");
	key_list(b, "t.", out);
	buf_add(out, "\nFROM ");
	sql_table(out, w->table);
	buf_add(out, " AS t\nWHERE ");
	open_rows(w, out);
	buf_addf(out, "\n  AND %s < ", buf_text(&comparable));
	sql_time_cutoff(b, b->sign_time[sign], &older, NULL, out);
	buf_addf(out, "\nORDER BY %s", buf_text(&comparable));
	for (int k = 0; k < w->key.n; k++) {
		buf_add(out, ", t.");
		sql_ident(out, w->key.items[k]);
	}
	dialect_add(dialect_of(b->engine), out, "\nLIMIT $1::bigint");
}

defib_err aged_jobs(const struct binding *b, struct store *s, int64_t older_us, int64_t limit,
                    struct arena *a, struct aged **out, int *n, struct failure *f)
{
	struct store_param param = P_INT(limit);
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	assert(limit > 0 && older_us >= 0);
	*n = 0;
	aged_sql(b, older_us, &sql);
	defib_err err = store_exec(s, buf_text(&sql), &param, 1, a, &rows, f);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct aged, rows.nrows);
	for (int i = 0; i < rows.nrows; i++) {
		struct aged *job = &(*out)[i];
		job->age_us = row_int(&rows, i, 0, 0);
		job->alive = row_bool(&rows, i, 1);
		for (int k = 0; k < b->watch->key.n; k++)
			job->key[k] = row_text(&rows, i, 2 + k);
		job->job = job_text(job->key, b->watch->key.n, a);
	}
	*n = rows.nrows;
	return DEFIB_OK;
}

/* ---- columns ---- */

static const char *look_describe(struct arena *a, const char *name, const json_t *now)
{
	char *value = json_dumps(now, JSON_ENCODE_ANY);
	const char *text = arena_printf(a, "%s is %s", name, value ? value : "gone");
	free(value);
	return text;
}

static bool is_in(const struct column_set *set, const char *name)
{
	bool found = !set->names;
	for (int i = 0; i < set->n && !found; i++)
		found = strcmp(set->names[i], name) == 0;
	return found;
}

bool columns_same(const char *expected, const char *now, const struct column_set *only,
                  struct arena *a, const char **first)
{
	json_auto_t *was = expected ? json_read(expected, 0) : NULL;
	json_auto_t *is = now ? json_read(now, 0) : NULL;
	bool same = was && is;
	const char *name;
	json_t *value;
	json_object_foreach(was, name, value)
	{
		json_t *other = json_object_get(is, name);
		if (!same || !other || !is_in(only, name) || json_equal(value, other))
			continue;
		same = false;
		if (first)
			*first = look_describe(a, name, other);
	}
	return same;
}

bool columns_same_in(const char *expression, enum store_engine engine, const char *expected,
                     const char *now)
{
	json_auto_t *was = expected ? json_read(expected, 0) : NULL;
	json_auto_t *is = now ? json_read(now, 0) : NULL;
	bool same = true;
	const char *name;
	json_t *value;
	json_object_foreach(was, name, value)
	{
		json_t *other = json_object_get(is, name);
		if (other && !json_equal(value, other) && sql_names(expression, engine, name))
			same = false;
	}
	return same;
}
