/* SPDX-License-Identifier: Apache-2.0
 * source_table_notes.c: what the ledger keeps of settlements on a user's table:
 * rollbacks from their beginning to their end, undos that failed for good, and
 * what came too late.
 */
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "worker/source_table_ending.h"

/* ---- steps ---- */

static struct ledger_entry undo_failed(const struct step_mark *m, struct arena *a)
{
	struct buf evidence = BUF_INIT;
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
	buf_release(&evidence);
	return e;
}

/* A step that failed for good; whether its row is to be undone now only the row can say. */
static bool may_begin(const struct ending *e)
{
	return writable(e) && e->given->accepted && is_step(e) && !e->undoing &&
	       (e->after == AFTER_FAILED || e->after == AFTER_TIMED_OUT);
}

static struct ledger_entry rollback_started(const struct ending *e, struct arena *a)
{
	struct buf evidence = BUF_INIT;
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
	buf_release(&evidence);
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

/* What a person must hear of. */
defib_err note_steps(struct settling *z, struct failure *f)
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
		const struct ending *e = &z->all[i];
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

/* ---- what came too late ---- */

static bool late(const struct ending *e)
{
	return !e->given->accepted && !handed_back(e);
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
	         : e->found ? "the table prevented the write"
	                    : "the row had changed",
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

defib_err note_late(struct settling *z, struct failure *f)
{
	struct ledger_context ctx = {z->src->watch->name, "late",
	                             arena_printf(z->arena, "worker:%lld", (long long)z->worker)};
	struct ledger_entry *entries = ARENA_ARRAY(z->arena, struct ledger_entry, z->n);
	struct store_rows rows;
	int n;
	settling_rows(z, late, &n);
	if (n == 0)
		return DEFIB_OK;
	defib_err err = settling_over(z, z->src->sql.now_held, 0, late, &rows, f);
	if (err)
		return err;
	for (int i = 0; i < rows.nrows; i++) {
		const struct ending *e = &z->all[row_int(&rows, i, 0, 0)];
		entries[i] = (struct ledger_entry){
			.job = e->given->key,
			.event = ENTRY_LATE_COMPLETION,
			.evidence = late_evidence(e, &rows, i, z->arena),
		};
	}
	return ledger_append(z->store, &ctx, entries, rows.nrows, z->arena, f);
}
