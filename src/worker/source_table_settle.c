/*
 * source_table_settle.c: recording how jobs of a user's table ended.
 *
 * One transaction. The leases that are ours are locked first, then their rows,
 * and only then is anything read: in the statement that waited for a lock,
 * sub-selects would still see what was before it. Whoever has no lease, or
 * whose row is no longer as the claim left it, came too late: that is kept in
 * the ledger, and the row is left alone.
 */
#include "base/text.h"
#include "ledger/ledger.h"
#include "recover/decide.h"
#include "worker/source_table_sql.h"

#include <assert.h>
#include <jansson.h>

struct ending {
	struct settlement *given;
	struct work_row row;
	bool leased; /* the lease is ours, and locked */
	bool found;  /* the row is there, and as the claim left it */
	bool cancelled;
	int64_t lease_attempts, max_attempts;
	int64_t pause_ms; /* before it may be claimed again */
	bool retry;       /* it will be tried again */
	enum work_list list;
};

struct settling {
	struct table_source *src;
	struct store *store;
	int64_t worker;
	struct ending *all;
	int n;
	struct arena *arena;
};

/* ---- what a worker hands in ---- */

/* Text that any database takes: what is not UTF-8 must not keep a job from being settled. */
static const char *clean(const char *text, struct arena *a)
{
	struct buf out = BUF_INIT;
	if (!text)
		return NULL;
	while (*text) {
		size_t n = utf8_len(text);
		if (n)
			buf_addn(&out, text, n);
		else
			buf_add(&out, "\xef\xbf\xbd");
		text += n ? n : 1;
	}
	const char *copy = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return copy;
}

/* A result that is no JSON becomes a JSON string. */
static const char *document(const char *text, struct arena *a)
{
	if (!text)
		return NULL;
	json_t *parsed = json_loads(text, JSON_DECODE_ANY, NULL);
	bool valid = parsed != NULL;
	json_decref(parsed);
	if (valid)
		return text;
	struct buf out = BUF_INIT;
	buf_add_json(&out, text);
	const char *copy = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return copy;
}

/* The key columns from the job's text; false when it is not a job of this table. */
static bool split_key(const struct watch *w, struct work_row *row, struct arena *a)
{
	if (w->key.n == 1) {
		row->key[0] = row->job;
		return true;
	}
	json_t *array = json_loads(row->job, 0, NULL);
	bool fits = json_array_size(array) == (size_t)w->key.n;
	for (int k = 0; k < w->key.n && fits; k++) {
		const char *text = json_string_value(json_array_get(array, (size_t)k));
		fits = text != NULL;
		row->key[k] = text ? arena_strdup(a, text) : NULL;
	}
	json_decref(array);
	return fits;
}

/* ---- lock and read ---- */

static bool leased(const struct ending *e)
{
	return e->leased;
}

static bool writable(const struct ending *e)
{
	return e->leased && e->found;
}

static bool not_accepted(const struct ending *e)
{
	return !e->given->accepted;
}

static struct work_row **rows_of(struct settling *z, bool (*want)(const struct ending *), int *n)
{
	struct work_row **rows = ARENA_ARRAY(z->arena, struct work_row *, z->n);
	*n = 0;
	for (int i = 0; i < z->n; i++)
		if (want(&z->all[i]))
			rows[(*n)++] = &z->all[i].row;
	return rows;
}

static defib_err over_given(struct settling *z, const char *sql, int64_t worker,
                            bool (*want)(const struct ending *), struct store_rows *rows,
                            struct failure *f)
{
	struct relation r;
	given_relation(z->store->engine, &r);
	for (int i = 0; i < z->n; i++) {
		if (want && !want(&z->all[i]))
			continue;
		relation_int(&r, i);
		relation_text(&r, z->all[i].given->key);
		relation_int(&r, z->all[i].given->epoch);
		relation_end_row(&r);
	}
	return work_over(z->store, sql, worker, &r, z->arena, rows, f);
}

static defib_err lock_leases(struct settling *z, struct failure *f)
{
	const struct watch *w = z->src->watch;
	struct store_rows rows;
	defib_err err = over_given(z, z->src->sql.lock_leases, z->worker, NULL, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct ending *e = &z->all[row_int(&rows, i, 0, 0)];
		e->lease_attempts = row_int(&rows, i, 1, 0);
		e->row.worker = row_text(&rows, i, 2);
		e->leased = split_key(w, &e->row, z->arena);
	}
	return err;
}

/* A settlement that is only repeated, because its answer was lost, was accepted. */
static defib_err find_repeated(struct settling *z, struct failure *f)
{
	struct store_rows rows;
	int n;
	rows_of(z, leased, &n);
	if (n == z->n)
		return DEFIB_OK;
	defib_err err = over_given(z, z->src->sql.repeated, z->worker, NULL, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		z->all[row_int(&rows, i, 0, 0)].given->accepted = true;
	return err;
}

static struct ending *ending_of(struct work_row *row)
{
	return (struct ending *)((char *)row - offsetof(struct ending, row));
}

static defib_err read_rows(struct settling *z, struct failure *f)
{
	const struct table_sql *q = &z->src->sql;
	struct store_rows back;
	struct relation r;
	int n, col = z->src->watch->key.n;
	defib_err err = DEFIB_OK;
	struct work_row **rows = rows_of(z, leased, &n);
	if (n == 0)
		return DEFIB_OK;
	if (q->lock_rows) {
		work_keys(q, rows, n, &r);
		err = work_over(z->store, q->lock_rows, 0, &r, z->arena, &back, f);
	}
	if (!err) {
		work_keys(q, rows, n, &r);
		err = work_over(z->store, q->facts, 0, &r, z->arena, &back, f);
	}
	const struct work_index *x = work_index(q, rows, n, z->arena);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct work_row *row = work_find(x, &back, i, z->arena);
		if (!row)
			continue;
		struct ending *e = ending_of(row);
		row->kind = row_text(&back, i, col + WORK_KIND);
		row->attempt = row_int(&back, i, col + WORK_ATTEMPTS, e->lease_attempts);
		row->now_us = row_int(&back, i, col + WORK_NOW, 0);
		e->max_attempts = row_int(&back, i, col + WORK_MAX, 0);
		e->cancelled = row_bool(&back, i, col + WORK_CANCEL);
		/* Without a claim list nothing in the row tells a claimed one: it has to be there. */
		e->found = !q->lists[LIST_CLAIM].sql || row_bool(&back, i, col + WORK_RUNNING);
	}
	return err;
}

/* ---- decide ---- */

static bool handed_back(const struct ending *e)
{
	return e->given->as == SETTLE_RELEASED || e->given->as == SETTLE_STOPPED;
}

static bool went_wrong(const struct ending *e)
{
	return e->given->as == SETTLE_FAILED || e->given->as == SETTLE_TIMED_OUT ||
	       e->given->as == SETTLE_CRASHED;
}

static bool is_retried(const struct watch *w, const struct ending *e)
{
	if (e->cancelled)
		return false;
	if (e->given->as == SETTLE_RETRY)
		return true;
	return went_wrong(e) && w->backoff.given && e->row.attempt < e->max_attempts;
}

static enum work_list list_for(const struct table_sql *q, const struct ending *e)
{
	static const enum work_list lists[SETTLE_COUNT] = {
		[SETTLE_DONE] = LIST_DONE,           [SETTLE_FAILED] = LIST_FAILED,
		[SETTLE_RETRY] = LIST_RELEASE,       [SETTLE_PERMANENT] = LIST_FAILED,
		[SETTLE_TIMED_OUT] = LIST_TIMED_OUT, [SETTLE_CRASHED] = LIST_FAILED,
		[SETTLE_STOPPED] = LIST_RELEASE,     [SETTLE_RELEASED] = LIST_RELEASE,
	};
	enum work_list list = lists[e->given->as];
	if (e->cancelled && e->given->as != SETTLE_DONE)
		return LIST_FAILED;
	if (e->retry)
		return q->lists[LIST_RELEASE].sql ? LIST_RELEASE
		       : q->lists[LIST_CLAIM].sql ? LIST_FAILED
		                                  : LIST_NONE;
	return list == LIST_TIMED_OUT && !q->lists[list].sql ? LIST_FAILED : list;
}

static int64_t pause_ms(struct table_source *src, const struct ending *e)
{
	const struct backoff *b = &src->watch->backoff;
	if (!e->retry && !(went_wrong(e) && !b->given))
		return 0;
	if (e->given->delay_ms >= 0)
		return e->given->delay_ms;
	/* The attempt that just failed is counted already: the first wait is the base. */
	int64_t before = e->row.attempt > 0 ? e->row.attempt - 1 : 0;
	return b->given ? backoff_us(b, before, erand48(src->chance)) / 1000 : 0;
}

static void decide_endings(struct settling *z)
{
	for (int i = 0; i < z->n; i++) {
		struct ending *e = &z->all[i];
		if (!writable(e))
			continue;
		e->retry = is_retried(z->src->watch, e);
		e->list = list_for(&z->src->sql, e);
		e->pause_ms = pause_ms(z->src, e);
		if (e->pause_ms > 0)
			e->row.retry_us = e->row.now_us + e->pause_ms * 1000;
		if (e->cancelled && !e->row.error && e->given->as != SETTLE_DONE)
			e->row.error = "cancelled";
		e->row.reason = e->row.error ? e->row.error : settle_names[e->given->as];
		e->row.epoch = e->given->epoch;
	}
}

/* Attempts that are over are not held against the job when somebody starts it anew. */
static int64_t attempts_after(const struct watch *w, const struct ending *e)
{
	bool over = e->given->as == SETTLE_DONE || e->given->as == SETTLE_PERMANENT || e->cancelled ||
	            (went_wrong(e) && w->backoff.given && !e->retry);
	if (over)
		return 0;
	return handed_back(e) && e->lease_attempts > 0 ? e->lease_attempts - 1 : e->lease_attempts;
}

/* ---- write ---- */

static defib_err write_rows(struct settling *z, struct failure *f)
{
	struct work_row **rows = ARENA_ARRAY(z->arena, struct work_row *, z->n);
	defib_err err = DEFIB_OK;
	for (int list = 0; list <= LIST_NONE && !err; list++) {
		int n = 0;
		for (int i = 0; i < z->n; i++)
			if (writable(&z->all[i]) && (int)z->all[i].list == list)
				rows[n++] = &z->all[i].row;
		err = work_write(&z->src->sql, z->store, (enum work_list)list, rows, n, z->arena, f);
	}
	/* What is handed back after its row moved on has nothing to write, and that is as well. */
	for (int i = 0; i < z->n && !err; i++) {
		struct ending *e = &z->all[i];
		if (e->leased)
			e->given->accepted = e->row.written || handed_back(e);
	}
	return err;
}

/* Every lease that was ours ends here, also where its row had moved on. */
static defib_err end_leases(struct settling *z, struct failure *f)
{
	struct relation r;
	int n = 0;
	ended_relation(z->store->engine, &r);
	for (int i = 0; i < z->n; i++) {
		const struct ending *e = &z->all[i];
		if (!e->leased)
			continue;
		relation_text(&r, e->row.job);
		if (e->given->accepted)
			relation_int(&r, e->given->epoch);
		else
			relation_text(&r, NULL);
		relation_int(&r, attempts_after(z->src->watch, e));
		if (e->pause_ms > 0)
			relation_int(&r, e->pause_ms);
		else
			relation_text(&r, NULL);
		relation_end_row(&r);
		n++;
	}
	if (n > 0)
		return work_over(z->store, z->src->sql.end_leases, z->worker, &r, z->arena, NULL, f);
	relation_release(&r);
	return DEFIB_OK;
}

/* ---- what came too late ---- */

static bool late(const struct ending *e)
{
	return not_accepted(e) && !handed_back(e);
}

static const char *late_evidence(const struct ending *e, const struct store_rows *rows, int row,
                                 struct arena *a)
{
	const char *epoch = row_text(rows, row, 1), *owner = row_text(rows, row, 2);
	struct buf out = BUF_INIT;
	buf_addf(&out,
	         "{\"outcome\":\"%s\",\"why\":\"%s\",\"epoch\":%lld,\"current_epoch\":%s,\"owner\":%s",
	         settle_names[e->given->as],
	         !e->leased ? "the lease was lost"
	         : e->found ? "the table kept the write back"
	                    : "the row had moved on",
	         (long long)e->given->epoch, epoch ? epoch : "null", owner ? owner : "null");
	if (e->row.error) {
		buf_add(&out, ",\"error\":");
		buf_add_json(&out, e->row.error);
	}
	if (e->row.result)
		buf_addf(&out, ",\"result\":%s", e->row.result);
	buf_add(&out, "}");
	const char *text = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return text;
}

static defib_err note_late(struct settling *z, struct failure *f)
{
	struct ledger_context ctx = {z->src->watch->name, "late",
	                             arena_printf(z->arena, "worker:%lld", (long long)z->worker)};
	struct ledger_entry *entries = ARENA_ARRAY(z->arena, struct ledger_entry, z->n);
	struct store_rows rows;
	int n;
	rows_of(z, late, &n);
	if (n == 0)
		return DEFIB_OK;
	defib_err err = over_given(z, z->src->sql.now_held, 0, late, &rows, f);
	if (err)
		return err;
	for (int i = 0; i < rows.nrows; i++) {
		const struct ending *e = &z->all[row_int(&rows, i, 0, 0)];
		entries[i] = (struct ledger_entry){
			.job = e->given->key,
			.event = "LATE_COMPLETION",
			.evidence = late_evidence(e, &rows, i, z->arena),
		};
	}
	return ledger_append(z->store, &ctx, entries, rows.nrows, z->arena, f);
}

static defib_err settle_in_tx(struct settling *z, struct failure *f)
{
	defib_err err = lock_leases(z, f);
	if (!err)
		err = find_repeated(z, f);
	if (!err)
		err = read_rows(z, f);
	if (err)
		return err;
	decide_endings(z);
	err = write_rows(z, f);
	if (!err)
		err = end_leases(z, f);
	return err ? err : note_late(z, f);
}

defib_err table_settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                       int n, struct arena *a, struct failure *f)
{
	struct settling z = {(struct table_source *)src,       s, worker,
	                     ARENA_ARRAY(a, struct ending, n), n, a};
	for (int i = 0; i < n; i++) {
		all[i].accepted = false;
		z.all[i] = (struct ending){.given = &all[i],
		                           .list = LIST_NONE,
		                           .row = {.job = all[i].key,
		                                   .error = clean(all[i].error, a),
		                                   .result = document(all[i].result, a)}};
	}
	if (n == 0)
		return DEFIB_OK;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = settle_in_tx(&z, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}
