/* SPDX-License-Identifier: Apache-2.0
 * source_table_settle.c: records how jobs of a user's table ended.
 *
 * One transaction. Our leases are locked first, then their rows, and only then is anything read: in
 * the statement that waited for a lock, sub-selects would still see the earlier state. A settlement
 * without a lease, or whose row is no longer as the claim left it, came too late: the ledger
 * records it, and the row is left alone.
 */

#include "worker/source_table_settle.h"

#include "ledger/events.h"
#include "ledger/ledger.h"
#include "recover/decide.h"
#include "recover/look.h"
#include "worker/source_table.h"
#include "worker/source_table_sql.h"
#include "worker/source_table_steps.h"

#include <jansson.h>

/* ---- the worker's texts ---- */

/* Text that any database accepts: bytes that are not UTF-8 must not prevent a settlement. */
static const char *clean(const char *text, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
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
	return arena_strdup(a, buf_text(&out));
}

/* A result that is not JSON becomes a JSON string. */
static const char *document(const char *text, struct arena *a)
{
	if (!text)
		return NULL;
	json_auto_t *parsed = json_read(text, JSON_DECODE_ANY);
	if (parsed)
		return text;
	AUTO_BUF out = BUF_INIT;
	buf_add_json(&out, text);
	return arena_strdup(a, buf_text(&out));
}

/* ---- lock and read ---- */

/* The rows of `all` that are wanted. */
static struct work_row **settling_rows(struct settling *z,
                                       bool (*want)(const struct table_ending *), int *n)
{
	struct work_row **rows = ARENA_ARRAY(z->arena, struct work_row *, z->n);
	*n = 0;
	for (int i = 0; i < z->n; i++)
		if (want(&z->all[i]))
			rows[(*n)++] = &z->all[i].row;
	return rows;
}

/* Run a statement over those that are wanted, as a relation of given; `want` NULL: all. */
static defib_err settling_over(struct settling *z, const char *sql, int64_t worker,
                               bool (*want)(const struct table_ending *), struct store_rows *rows,
                               struct failure *f)
{
	struct relation r;
	own_relation(ROWS_GIVEN, z->store->engine, &r);
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

static defib_err settle_lock_leases(struct settling *z, struct failure *f)
{
	const struct watch *w = z->src->watch;
	struct store_rows rows;
	defib_err err = settling_over(z, z->src->sql.lock_leases, z->worker, NULL, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct table_ending *e = &z->all[row_int(&rows, i, LEASE_POS, 0)];
		e->lease_attempts = row_int(&rows, i, LEASE_ATTEMPTS, 0);
		e->row.worker = row_text(&rows, i, LEASE_WORKER);
		e->row.now_us = row_int(&rows, i, LEASE_NOW, 0);
		e->leased = job_key(e->row.job, w->key.n, z->arena, e->row.key);
	}
	return err;
}

/* A settlement that is repeated because its reply was lost was accepted. */
static defib_err find_repeated(struct settling *z, struct failure *f)
{
	struct store_rows rows;
	int n;
	settling_rows(z, leased, &n);
	if (n == z->n)
		return DEFIB_OK;
	defib_err err = settling_over(z, z->src->sql.repeated, z->worker, NULL, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		z->all[row_int(&rows, i, 0, 0)].given->accepted = true;
	return err;
}

static struct table_ending *ending_of(struct work_row *row)
{
	return (struct table_ending *)((char *)row - offsetof(struct table_ending, row));
}

/* The current row. One that is to be undone is not running. */
static void take_facts(const struct table_sql *q, struct table_ending *e,
                       const struct store_rows *rows, int i)
{
	struct work_row *row = &e->row;
	int col = q->binding.watch->key.n;
	bool running = row_bool(rows, i, col + WORK_RUNNING), undo = row_bool(rows, i, col + WORK_UNDO);
	enum step_side side = e->given->step.side;
	row->kind = row_text(rows, i, col + WORK_KIND);
	row->attempt = row_int(rows, i, col + WORK_ATTEMPTS, e->lease_attempts);
	row->now_us = row_int(rows, i, col + WORK_NOW, 0);
	e->limited = row_text(rows, i, col + WORK_MAX) != NULL;
	e->max_attempts = row_int(rows, i, col + WORK_MAX, 0);
	e->undoing = side == STEP_SIDE_UNDO || (side == STEP_SIDE_NONE && undo && !running);
	e->cancelled = !e->undoing && row_bool(rows, i, col + WORK_CANCEL);
	/* Without a claim list nothing in the row shows that it is claimed: it only has to exist. */
	e->found = e->undoing ? undo : !q->lists[LIST_CLAIM].sql || running;
}

/* The current rows, as enum work_column after the key. */
static defib_err settling_facts(struct settling *z, struct work_row *const *rows, int n,
                                struct store_rows *back, struct failure *f)
{
	struct relation r;
	work_keys(&z->src->sql, rows, n, &r);
	return work_over(z->store, z->src->sql.facts, 0, &r, z->arena, back, f);
}

static defib_err settle_read_rows(struct settling *z, struct failure *f)
{
	const struct table_sql *q = &z->src->sql;
	struct store_rows back;
	struct relation r;
	int n;
	defib_err err = DEFIB_OK;
	struct work_row **rows = settling_rows(z, leased, &n);
	if (n == 0)
		return DEFIB_OK;
	if (q->lock_rows) {
		work_keys(q, rows, n, &r);
		err = work_over(z->store, q->lock_rows, 0, &r, z->arena, &back, f);
	}
	if (!err)
		err = settling_facts(z, rows, n, &back, f);
	const struct work_index *x = work_index(q, rows, n, z->arena);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct work_row *row = work_find(x, &back, i, z->arena);
		if (row)
			take_facts(q, ending_of(row), &back, i);
	}
	return err;
}

/* ---- write ---- */

static int64_t attempts_after(const struct table_ending *e)
{
	if (e->over)
		return 0;
	return handed_back(e) && e->lease_attempts > 0 ? e->lease_attempts - 1 : e->lease_attempts;
}

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
	/* A job that is released after its row moved on needs no write. */
	for (int i = 0; i < z->n && !err; i++) {
		struct table_ending *e = &z->all[i];
		if (e->leased)
			e->given->accepted = e->row.written || handed_back(e);
	}
	return err;
}

/* ---- ledger entries about steps ---- */

static struct ledger_entry undo_failed(const struct step_mark *m, struct arena *a)
{
	AUTO_BUF evidence = BUF_INIT;
	buf_add(&evidence, "{\"step\":");
	buf_add_json(&evidence, m->step);
	buf_add(&evidence, ",\"error\":");
	buf_add_json(&evidence, m->error ? m->error : "");
	buf_add(&evidence, "}");
	struct ledger_entry e = {.job = m->job,
	                         .event = ENTRY_UNDO_FAILED,
	                         .reason = m->error,
	                         .evidence = arena_strdup(a, buf_text(&evidence)),
	                         .has_epoch = true,
	                         .epoch = m->epoch};
	return e;
}

static const char *own_error(const struct table_ending *e)
{
	return e->report.evidence ? e->error : e->row.error;
}

/* A step that failed permanently; only the row can say whether it must be undone now. */
static bool may_begin(const struct table_ending *e)
{
	return writable(e) && e->given->accepted && is_step(e) && !e->undoing &&
	       (e->after == AFTER_FAILED || e->after == AFTER_TIMED_OUT);
}

static struct ledger_entry rollback_started(const struct table_ending *e, struct arena *a)
{
	AUTO_BUF evidence = BUF_INIT;
	buf_add(&evidence, "{\"step\":");
	buf_add_json(&evidence, e->row.step ? e->row.step : "");
	buf_addf(&evidence,
	         ",\"outcome\":\"%s\",\"attempts\":%lld,\"error\":", settle_names[e->given->as],
	         (long long)e->lease_attempts);
	buf_add_json(&evidence, e->row.error ? e->row.error : "");
	buf_add(&evidence, "}");
	struct ledger_entry entry = {.job = e->row.job,
	                             .event = ENTRY_ROLLBACK_STARTED,
	                             .reason = e->row.error,
	                             .evidence = arena_strdup(a, buf_text(&evidence)),
	                             .has_epoch = true,
	                             .epoch = e->given->epoch};
	return entry;
}

static defib_err add_started(struct settling *z, struct ledger_entry *entries, int *n,
                             struct failure *f)
{
	struct store_rows back;
	int nrows;
	struct work_row **rows = settling_rows(z, may_begin, &nrows);
	if (nrows == 0 || !z->src->watch->work.rollback_ready.text)
		return DEFIB_OK;
	defib_err err = settling_facts(z, rows, nrows, &back, f);
	const struct work_index *x = work_index(&z->src->sql, rows, nrows, z->arena);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct work_row *row = work_find(x, &back, i, z->arena);
		if (row && row_bool(&back, i, z->src->watch->key.n + WORK_UNDO))
			entries[(*n)++] = rollback_started(ending_of(row), z->arena);
	}
	return err;
}

/* What an operator must know. */
static defib_err note_steps(struct settling *z, struct failure *f)
{
	struct ledger_context ctx = {z->src->watch->name, "workflow",
	                             arena_printf(z->arena, "worker:%lld", (long long)z->worker)};
	struct ledger_entry *entries = ARENA_ARRAY(z->arena, struct ledger_entry, z->marks.n + z->n);
	int n = 0;
	defib_err err = add_started(z, entries, &n, f);
	for (int i = 0; i < z->marks.n; i++)
		if (z->marks.items[i].state == STEP_UNDO_FAILED)
			entries[n++] = undo_failed(&z->marks.items[i], z->arena);
	for (int i = 0; i < z->n; i++) {
		const struct table_ending *e = &z->all[i];
		if (e->report.evidence && e->given->accepted)
			entries[n++] = (struct ledger_entry){.job = e->row.job,
			                                     .event = ENTRY_ROLLED_BACK,
			                                     .reason = e->report.error,
			                                     .evidence = e->report.evidence,
			                                     .has_epoch = true,
			                                     .epoch = e->given->epoch};
	}
	return err || n == 0 ? err : ledger_append(z->store, &ctx, entries, n, z->arena, f);
}

/* ---- ledger entries about late settlements ---- */

static bool settle_late(const struct table_ending *e)
{
	return !e->given->accepted && !handed_back(e);
}

static const char *late_evidence(const struct table_ending *e, const struct store_rows *rows,
                                 int row, struct arena *a)
{
	const char *epoch = row_text(rows, row, 1), *owner = row_text(rows, row, 2);
	AUTO_BUF out = BUF_INIT;
	buf_addf(&out,
	         "{\"outcome\":\"%s\",\"why\":\"%s\",\"epoch\":%lld,\"current_epoch\":%s,\"owner\":%s",
	         settle_names[e->given->as],
	         !e->leased ? "the lease was lost"
	         : e->found ? "the table prevented the write"
	                    : "the row had changed",
	         (long long)e->given->epoch, epoch ? epoch : "null", owner ? owner : "null");
	if (own_error(e)) {
		buf_add(&out, ",\"error\":");
		buf_add_json(&out, own_error(e));
	}
	if (e->row.result)
		buf_addf(&out, ",\"result\":%s", e->row.result);
	buf_add(&out, "}");
	return arena_strdup(a, buf_text(&out));
}

static defib_err note_late(struct settling *z, struct failure *f)
{
	struct ledger_context ctx = {z->src->watch->name, "late",
	                             arena_printf(z->arena, "worker:%lld", (long long)z->worker)};
	struct ledger_entry *entries = ARENA_ARRAY(z->arena, struct ledger_entry, z->n);
	struct store_rows rows;
	int n;
	settling_rows(z, settle_late, &n);
	if (n == 0)
		return DEFIB_OK;
	defib_err err = settling_over(z, z->src->sql.now_held, 0, settle_late, &rows, f);
	if (err)
		return err;
	for (int i = 0; i < rows.nrows; i++) {
		const struct table_ending *e = &z->all[row_int(&rows, i, 0, 0)];
		entries[i] = (struct ledger_entry){
			.job = e->given->key,
			.event = ENTRY_LATE_COMPLETION,
			.evidence = late_evidence(e, &rows, i, z->arena),
		};
	}
	return ledger_append(z->store, &ctx, entries, rows.nrows, z->arena, f);
}

/* ---- steps ---- */

/* The list of a rolled-back row can report what could not be undone. */
static defib_err report_rollbacks(struct settling *z, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < z->n && !err; i++) {
		struct table_ending *e = &z->all[i];
		struct step_marks own = {0};
		if (!writable(e) || !is_step(e) || e->after != AFTER_ROLLED_BACK)
			continue;
		steps_mark(e->given, &e->row, e->after, z->arena, &own);
		err = steps_report(&z->src->sql, z->store, e->row.job, &own, z->arena, &e->report, f);
		e->error = e->row.error;
		e->row.error = e->report.error;
	}
	return err;
}

static defib_err record_steps(struct settling *z, struct failure *f)
{
	for (int i = 0; i < z->n; i++) {
		struct table_ending *e = &z->all[i];
		struct work_row own = e->row;
		own.error = own_error(e);
		if (writable(e) && e->given->accepted && is_step(e))
			steps_mark(e->given, &own, e->after, z->arena, &z->marks);
	}
	return steps_record(&z->src->sql, z->store, &z->marks, z->arena, f);
}

/* Every lease of ours ends here, even if its row had moved on. */
static defib_err end_leases(struct settling *z, struct failure *f)
{
	AUTO_RELATION r = {0};
	int n = 0;
	own_relation(ROWS_ENDED, z->store->engine, &r);
	for (int i = 0; i < z->n; i++) {
		const struct table_ending *e = &z->all[i];
		if (!e->leased)
			continue;
		relation_text(&r, e->row.job);
		relation_number(&r, e->given->accepted, e->given->epoch);
		relation_int(&r, attempts_after(e));
		relation_number(&r, e->pause_ms > 0, e->pause_ms);
		relation_end_row(&r);
		n++;
	}
	if (n > 0)
		return work_over(z->store, z->src->sql.end_leases, z->worker, &r, z->arena, NULL, f);
	return DEFIB_OK;
}

/* The user's statements for jobs that we settle, even if their row had moved on. */
static defib_err run_after(struct settling *z, struct failure *f)
{
	const struct table_sql *q = &z->src->sql;
	int n;
	struct work_row **rows = settling_rows(z, leased, &n);
	return work_run(q, z->store, q->after, q->nafter, rows, n, z->arena, f);
}

/* ---- the rows after the writes ---- */

static bool written(const struct table_ending *e)
{
	return writable(e) && e->given->accepted && (!e->undoing || e->after == AFTER_ROLLED_BACK);
}

/*
 * Why it would be found stuck, or run again, although this end is recorded; NULL: it would not.
 * Without a claim list a row that is to run again stays as it was; after an error, the user's own
 * list may make the row ready again while attempts are left.
 */
static const char *not_ended(const struct table_source *src, const struct table_ending *e,
                             const struct work_left *now)
{
	bool again = e->after == AFTER_RETRY || e->after == AFTER_RELEASED || e->after == AFTER_NEXT;
	bool failed = e->after == AFTER_FAILED || e->after == AFTER_TIMED_OUT;
	bool success = e->after == AFTER_DONE || e->after == AFTER_ROLLED_BACK;
	if (now->running && (!again || src->sql.lists[LIST_CLAIM].sql))
		return "running";
	if (now->ready && (success || (failed && attempts_exhausted(src, e))))
		return "ready";
	return now->undo && e->after == AFTER_ROLLED_BACK ? "rollback_ready" : NULL;
}

static defib_err settle_still(const struct table_source *src, const struct table_ending *e,
                              const char *what, struct failure *f)
{
	const char *option = work_list_options[e->list];
	bool runs = text_eq(what, "running");
	fail(f, DEFIB_CONSTRAINT, "watch %s: after %s job %s still matches %s%s", src->watch->name,
	     option, e->row.job, runs ? "" : "work.", what);
	if (src->sql.lists[e->list].sql)
		fail_next(f, "change %s, or what prevents its write, so that the row no longer matches",
		          option);
	else
		fail_next(f, "add %s to the watch: the SET list that ends a job this way", option);
	return DEFIB_CONSTRAINT;
}

defib_err work_check_end(const struct table_source *src, const struct table_ending *e,
                         const struct work_left *now, struct failure *f)
{
	const char *what = not_ended(src, e, now);
	return what ? settle_still(src, e, what, f) : DEFIB_OK;
}

/* The rows after all writes: an end that does not show would be recorded again and again. */
static defib_err check_ended(struct settling *z, struct failure *f)
{
	struct store_rows back;
	int n, col = z->src->watch->key.n;
	struct work_row **rows = settling_rows(z, written, &n);
	if (n == 0)
		return DEFIB_OK;
	defib_err err = settling_facts(z, rows, n, &back, f);
	const struct work_index *x = work_index(&z->src->sql, rows, n, z->arena);
	for (int i = 0; !err && i < back.nrows; i++) {
		struct work_row *row = work_find(x, &back, i, z->arena);
		const struct work_left now = work_left(&back, i, col);
		if (row)
			err = work_check_end(z->src, ending_of(row), &now, f);
		if (!err && row && now.ready)
			wait_if_failed(z, ending_of(row));
	}
	return err;
}

static defib_err settle_write_all(struct settling *z, struct failure *f)
{
	defib_err err = report_rollbacks(z, f);
	if (!err)
		err = write_rows(z, f);
	if (!err)
		err = record_steps(z, f);
	if (!err)
		err = run_after(z, f);
	if (!err)
		err = check_ended(z, f);
	if (!err)
		err = end_leases(z, f);
	if (!err)
		err = note_steps(z, f);
	return err ? err : note_late(z, f);
}

static defib_err settle_in_tx(struct settling *z, struct failure *f)
{
	defib_err err = settle_lock_leases(z, f);
	if (!err)
		err = find_repeated(z, f);
	if (!err)
		err = settle_read_rows(z, f);
	if (err)
		return err;
	decide_endings(z);
	return settle_write_all(z, f);
}

defib_err table_settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                       int n, struct arena *a, struct failure *f)
{
	struct settling z = {.src = (struct table_source *)src,
	                     .store = s,
	                     .worker = worker,
	                     .all = ARENA_ARRAY(a, struct table_ending, n),
	                     .n = n,
	                     .arena = a};
	for (int i = 0; i < n; i++) {
		all[i].accepted = false;
		z.all[i] =
			(struct table_ending){.given = &all[i],
		                          .list = LIST_NONE,
		                          .over = all[i].as == SETTLE_DONE || all[i].as == SETTLE_PERMANENT,
		                          .row = {.job = all[i].key,
		                                  .epoch = all[i].epoch,
		                                  .step = all[i].step.name,
		                                  .error = clean(all[i].error, a),
		                                  .result = document(all[i].result, a)}};
	}
	if (n == 0)
		return DEFIB_OK;
	/* In a transaction of its own, or in the caller's if one is open. */
	bool own = !s->in_tx;
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (err)
		return err;
	err = settle_in_tx(&z, f);
	if (own)
		err = store_end(s, err, f);
	return err;
}

/* ---- what follows from the end of a job ---- */

/*
 * What follows from the end of a job of a user's table: which of the user's lists is written,
 * whether it is retried, and when. The facts were read under lock; nothing here uses a database or
 * a clock.
 */

/* ---- decide ---- */

static bool went_wrong(const struct table_ending *e)
{
	return e->given->as == SETTLE_FAILED || e->given->as == SETTLE_TIMED_OUT ||
	       e->given->as == SETTLE_CRASHED;
}

static int64_t attempts_of(const struct table_source *src, const struct table_ending *e)
{
	return work_attempts(&src->sql, e->row.attempt, e->lease_attempts);
}

/*
 * Of a step, the lease counts the attempts at it, and the row its own runs, which do not limit how
 * often steps are undone.
 */
bool attempts_exhausted(const struct table_source *src, const struct table_ending *e)
{
	if (!e->limited)
		return false;
	if (is_step(e))
		return e->lease_attempts >= e->max_attempts ||
		       (!e->undoing && e->row.attempt >= e->max_attempts);
	return attempts_of(src, e) >= e->max_attempts;
}

/* A job that asks to be run again has attempts like any other. */
static enum settle_as ended_as(const struct table_ending *e, bool is_exhausted)
{
	return e->given->as == SETTLE_RETRY && is_exhausted ? SETTLE_FAILED : e->given->as;
}

/* Whether a failed row is rolled back depends on its own predicate. */
static enum step_after after_end(const struct table_source *src, const struct table_ending *e)
{
	bool is_exhausted = attempts_exhausted(src, e);
	const struct step_facts facts = {
		.as = ended_as(e, is_exhausted),
		.more = is_step(e) && e->given->step.more,
		.undoing = e->undoing,
		.cancelling = e->cancelled,
		.attempts_left = e->limited && !is_exhausted,
	};
	return step_after(&facts);
}

/*
 * Replacements for lists that are not given; a row that is being undone is not written until the
 * end.
 */
static enum work_list list_for(const struct table_sql *q, const struct table_ending *e)
{
	static const enum work_list lists[] = {
		[AFTER_NEXT] = LIST_STEP,
		[AFTER_RELEASED] = LIST_RELEASE,
		[AFTER_RETRY] = LIST_RETRY,
		[AFTER_ROLLBACK] = LIST_FAILED,
		[AFTER_DONE] = LIST_DONE,
		[AFTER_FAILED] = LIST_FAILED,
		[AFTER_TIMED_OUT] = LIST_TIMED_OUT,
		[AFTER_CANCELLED] = LIST_FAILED,
		[AFTER_ROLLED_BACK] = LIST_ROLLED_BACK,
	};
	enum work_list list = lists[e->after];
	if (e->undoing && e->after != AFTER_ROLLED_BACK)
		return LIST_NONE;
	if (q->lists[list].sql)
		return list;
	return list == LIST_STEP ? LIST_RELEASE : list == LIST_TIMED_OUT ? LIST_FAILED : list;
}

/* As for the built-in queue. */
static const struct backoff usual_backoff = {
	.base_us = US_PER_S, .factor = 2, .cap_us = 3600 * US_PER_S, .jitter = true};

/* The attempt that just failed is already counted: the first wait is the base. */
static int64_t settle_pause_ms(struct table_source *src, const struct table_ending *e)
{
	const struct backoff *b = &src->watch->backoff;
	int64_t attempts = is_step(e) ? e->lease_attempts : attempts_of(src, e);
	if (e->given->delay_ms >= 0)
		return e->given->delay_ms;
	return backoff_us(b->given ? b : &usual_backoff, attempts > 0 ? attempts - 1 : 0,
	                  chance_draw(&src->chance)) /
	       1000;
}

static void decide_one(const struct table_source *src, struct table_ending *e)
{
	e->after = after_end(src, e);
	e->retry = e->after == AFTER_RETRY;
	e->list = list_for(&src->sql, e);
	e->over = e->after != AFTER_RETRY && e->after != AFTER_RELEASED;
	/*
	 * Finished attempts do not count against the job when it is started again. If we do not retry,
	 * someone else does: then those attempts count.
	 */
	if (!is_step(e) && went_wrong(e) && !e->limited && !e->cancelled)
		e->over = false;
}

/* The user's own list made a failed job ready again: that attempt counts, and the next one waits.
 */
void wait_if_failed(struct settling *z, struct table_ending *e)
{
	if (e->after != AFTER_FAILED && e->after != AFTER_TIMED_OUT)
		return;
	e->over = false;
	e->pause_ms = settle_pause_ms(z->src, e);
}

void decide_endings(struct settling *z)
{
	for (int i = 0; i < z->n; i++) {
		struct table_ending *e = &z->all[i];
		if (!writable(e))
			continue;
		decide_one(z->src, e);
		e->pause_ms = e->retry ? settle_pause_ms(z->src, e) : 0;
		if (e->pause_ms > 0)
			e->row.retry_us = e->row.now_us + e->pause_ms * 1000;
		if (e->cancelled && !e->row.error && e->given->as != SETTLE_DONE)
			e->row.error = "cancelled";
		e->row.reason = e->row.error ? e->row.error : settle_names[e->given->as];
	}
}
