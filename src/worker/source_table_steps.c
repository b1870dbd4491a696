/* SPDX-License-Identifier: Apache-2.0
 * source_table_steps.c: the steps of workflows whose jobs are rows of a user's own table. They are
 * recorded in defib's table of steps, under the watch's name and in the transaction of the
 * settlement.
 *
 * The user's own predicate selects the rows to be undone, so nothing is stored about that: a row is
 * undone step by step while it matches.
 */

#include "worker/source_table_steps.h"

#include "base/log.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/ledger.h"
#include "ledger/retries.h"
#include "watch/facts.h"
#include "worker/source_table.h"
#include "worker/source_table_sql.h"

#include <assert.h>
#include <jansson.h>

/* ---- recorded steps ---- */

static defib_err table_steps_read_steps(const struct table_sql *q, struct store *s,
                                        const char *const *jobs, int n, struct arena *a,
                                        struct store_rows *rows, struct failure *f)
{
	struct relation r;
	own_relation(ROWS_JOBS, s->engine, &r);
	for (int i = 0; i < n; i++) {
		relation_text(&r, jobs[i]);
		relation_end_row(&r);
	}
	return work_over(s, q->steps, 0, &r, a, rows, f);
}

/* One element of claimed.steps. */
static void table_steps_add_step(struct buf *out, const struct store_rows *rows, int i)
{
	const char *output = row_text(rows, i, STEP_OUTPUT);
	buf_add(out, out->len ? ",{\"step\":" : "[{\"step\":");
	buf_add_json(out, row_text(rows, i, STEP_NAME));
	buf_addf(out, ",\"state\":\"%s\",\"output\":", row_text(rows, i, STEP_STATE));
	if (output)
		buf_add_json(out, output);
	else
		buf_add(out, "null");
	buf_add(out, "}");
}

/* Rows are sorted by job, each in the order of its steps. */
static void keep_steps(struct work_row *const *rows, const struct job_index *index,
                       const struct store_rows *back, struct arena *a)
{
	for (int i = 0; i < back->nrows;) {
		AUTO_BUF json = BUF_INIT;
		const char *job = row_text(back, i, STEP_JOB);
		int at = job_index_find(index, job);
		assert(at >= 0);
		for (; i < back->nrows && text_eq(row_text(back, i, STEP_JOB), job); i++)
			table_steps_add_step(&json, back, i);
		rows[at]->steps = arena_printf(a, "%s]", buf_text(&json));
	}
}

/* ---- the next step ---- */

static void table_steps_choose(struct work_row *row, struct arena *a)
{
	struct step_records recorded;
	if (row->workflow && step_records_parse(row->steps, a, &recorded))
		row->step = workflow_choose(row->workflow, &recorded, row->undoing, a).end.name;
}

/* ---- steps that foreign workers have finished ---- */

/* Steps that the row says are finished, and that are not recorded. False: it does not say. */
static bool finished_elsewhere(const struct work_row *row, struct arena *a, struct step_known **out,
                               int *n)
{
	struct finished_step *done;
	struct step_records recorded;
	int ndone = 0;
	*n = 0;
	if (!steps_done_parse(row->workflow, row->steps_done, a, &done, &ndone) ||
	    !step_records_parse(row->steps, a, &recorded))
		return false;
	*out = ARENA_ARRAY(a, struct step_known, ndone + 1);
	for (int i = 0; i < ndone; i++) {
		bool known = false;
		for (int k = 0; k < recorded.n; k++)
			known = known || text_eq(recorded.items[k].name, done[i].name);
		if (!known)
			(*out)[(*n)++] = (struct step_known){done[i].name, done[i].position, false};
	}
	return true;
}

/* A row that defib has recovered has run; for any other row the first step may be next. */
static defib_err has_run(const struct table_source *src, struct store *s,
                         const struct work_row *row, struct arena *a, bool *yes, struct failure *f)
{
	struct ledger_filter filter = {.watch = src->watch->name, .job = row->job, .limit = 1};
	struct ledger_row *rows;
	int n = 0;
	*yes = row->undoing;
	if (row->undoing)
		return DEFIB_OK;
	defib_err err = ledger_read(s, &filter, a, &rows, &n, f);
	*yes = !err && n > 0;
	return err;
}

#define UNKNOWN                                                                                    \
	"which steps it has finished in another worker is not known: add steps_done: to the watch, "   \
	"or retry the job from a step"

static defib_err hold_rows(const struct table_source *src, struct store *s, int64_t worker,
                           struct work_row *const *rows, int n, struct arena *a, struct failure *f)
{
	struct ledger_context ctx = {src->watch->name, "workflow",
	                             arena_printf(a, "worker:%lld", (long long)worker)};
	struct hold *holds = ARENA_ARRAY(a, struct hold, n + 1);
	struct ledger_entry *entries = ARENA_ARRAY(a, struct ledger_entry, n + 1);
	for (int i = 0; i < n; i++) {
		holds[i] = (struct hold){.job = rows[i]->job,
		                         .cause = HOLD_STEPS,
		                         .reason = UNKNOWN,
		                         .owner = rows[i]->owner,
		                         .has_sign = rows[i]->has_sign,
		                         .sign_us = rows[i]->sign_us};
		entries[i] = (struct ledger_entry){.job = rows[i]->job,
		                                   .event = ENTRY_HELD,
		                                   .rule = "steps-not-known",
		                                   .reason = UNKNOWN,
		                                   .evidence = rows[i]->undoing ? "{\"undo\":true}"
		                                                                : "{\"undo\":false}"};
		log_event(LOG_WARN, "job is held: its finished steps are unknown",
		          LOG_STR("watch", src->watch->name), LOG_STR("job", rows[i]->job));
	}
	defib_err err = n ? ledger_hold(s, &ctx, src->sql.binding.table_key, holds, n, a, f) : DEFIB_OK;
	return err || n == 0 ? err : ledger_append(s, &ctx, entries, n, a, f);
}

/* The claimed rows of one call. */
struct planning {
	const struct table_source *src;
	struct store *s;
	struct arena *a;
	struct work_row **rows;
	int n;
	struct work_row **unknown; /* taken out of `rows`: which steps they have finished is unknown */
	int nunknown;
	bool recorded; /* what rows say was recorded */
};

/* Record what rows say, and separate those about which nothing is known. */
static defib_err take_finished(struct planning *p, struct failure *f)
{
	int kept = 0;
	defib_err err = DEFIB_OK;
	for (int i = 0; i < p->n && !err; i++) {
		struct step_known *done;
		int ndone = 0;
		bool ran = false;
		struct work_row *row = p->rows[i];
		bool stated = row->workflow && finished_elsewhere(row, p->a, &done, &ndone);
		if (stated && ndone) {
			p->recorded = true;
			err = steps_put(p->s, p->src->watch->name, row->job, done, ndone, p->a, f);
		} else if (row->workflow && !stated && !row->steps && !row->leased) {
			err = has_run(p->src, p->s, row, p->a, &ran, f);
		}
		if (ran)
			p->unknown[p->nunknown++] = row;
		else
			p->rows[kept++] = row;
	}
	p->n = kept;
	return err;
}

static defib_err read_into(const struct planning *p, struct failure *f)
{
	const char **jobs = ARENA_ARRAY(p->a, const char *, p->n + 1);
	struct store_rows back;
	struct job_index index;
	for (int i = 0; i < p->n; i++)
		jobs[i] = p->rows[i]->job;
	if (p->n == 0)
		return DEFIB_OK;
	defib_err err = table_steps_read_steps(&p->src->sql, p->s, jobs, p->n, p->a, &back, f);
	if (err)
		return err;
	job_index_init(&index, jobs, p->n, p->a);
	keep_steps(p->rows, &index, &back, p->a);
	return DEFIB_OK;
}

defib_err steps_plan_rows(const struct table_source *src, struct store *s, int64_t worker,
                          struct work_row **rows, int *n, struct arena *a, struct failure *f)
{
	const struct work *work = &src->watch->work;
	struct planning p = {.src = src,
	                     .s = s,
	                     .a = a,
	                     .rows = rows,
	                     .n = *n,
	                     .unknown = ARENA_ARRAY(a, struct work_row *, *n + 1)};
	if (work->workflows.n == 0)
		return DEFIB_OK;
	for (int i = 0; i < *n; i++)
		rows[i]->workflow = work_workflow(work, rows[i]->kind);
	defib_err err = read_into(&p, f);
	if (!err)
		err = take_finished(&p, f);
	if (!err && p.recorded)
		err = read_into(&p, f);
	*n = p.n;
	for (int i = 0; i < *n && !err; i++)
		table_steps_choose(rows[i], a);
	return err ? err : hold_rows(src, s, worker, p.unknown, p.nunknown, a, f);
}

/* ---- changes by a settlement ---- */

static void table_steps_add_mark(struct step_marks *marks, const struct step_mark *one,
                                 struct arena *a)
{
	if (marks->n == marks->cap) {
		int cap = marks->cap ? marks->cap * 2 : 8;
		struct step_mark *items = ARENA_ARRAY(a, struct step_mark, cap);
		for (int i = 0; i < marks->n; i++)
			items[i] = marks->items[i];
		marks->items = items;
		marks->cap = cap;
	}
	marks->items[marks->n++] = *one;
}

/* Steps that end with it without running anything. */
static void mark_passed(const struct settlement *g, const struct work_row *row, struct arena *a,
                        struct step_marks *out)
{
	json_t *passed = g->step.passed ? json_read(g->step.passed, 0) : NULL, *one;
	size_t i;
	json_array_foreach(passed, i, one)
	{
		const char *step = json_string_value(json_object_get(one, "step"));
		const char *state = json_string_value(json_object_get(one, "state"));
		const char *error = json_string_value(json_object_get(one, "error"));
		struct step_mark mark = {
			.kind = MARK_UNDO, .job = row->job, .epoch = g->epoch, .passed = true};
		mark.step = step ? arena_strdup(a, step) : NULL;
		mark.error = error ? arena_strdup(a, error) : NULL;
		mark.state = state && text_eq(state, step_state_names[STEP_UNDO_FAILED]) ? STEP_UNDO_FAILED
		                                                                         : STEP_UNDONE;
		if (step)
			table_steps_add_mark(out, &mark, a);
	}
	json_decref(passed);
}

void steps_mark(const struct settlement *g, const struct work_row *row, enum step_after after,
                struct arena *a, struct step_marks *out)
{
	bool undo = g->step.side == STEP_SIDE_UNDO, done = g->as == SETTLE_DONE;
	bool over = after == AFTER_NEXT || after == AFTER_ROLLED_BACK;
	struct step_mark mark = {
		.kind = MARK_ATTEMPT,
		.job = row->job,
		.step = g->step.name,
		.position = g->step.position,
		.epoch = g->epoch,
		.as = g->as,
		.undo = undo,
		.error = row->error,
	};
	/* An undo that failed permanently is in the step's own record. */
	if (mark.step && !done && !(undo && over))
		table_steps_add_mark(out, &mark, a);
	if (undo && !over && after != AFTER_RETRY)
		return;
	mark.kind = undo ? MARK_UNDO : MARK_RUN;
	if (undo) {
		mark.state = !over ? STEP_DONE : done ? STEP_UNDONE : STEP_UNDO_FAILED;
		mark.error = done ? NULL : row->error ? row->error : settle_names[g->as];
	} else {
		mark.state = STEP_DONE;
		mark.error = NULL;
		mark.output = row->result;
	}
	if (mark.step && (undo || done))
		table_steps_add_mark(out, &mark, a);
	if (undo && over)
		mark_passed(g, row, a, out);
}

static void table_steps_add_row(struct relation *r, const struct step_mark *m)
{
	relation_text(r, m->job);
	relation_text(r, m->step);
	switch (m->kind) {
	case MARK_RUN:
		relation_int(r, m->position);
		relation_int(r, m->epoch);
		relation_text(r, m->output);
		break;
	case MARK_UNDO:
		relation_text(r, step_state_names[m->state]);
		relation_text(r, m->error);
		relation_int(r, m->epoch);
		relation_int(r, !m->passed);
		break;
	case MARK_ATTEMPT:
		relation_int(r, m->position);
		relation_int(r, m->epoch);
		relation_int(r, m->undo);
		relation_text(r, settle_names[m->as]);
		relation_text(r, m->error);
		break;
	}
	relation_end_row(r);
}

/* One statement over the marks of a kind, if there are any. */
static defib_err table_steps_record(struct store *s, const char *sql,
                                    const struct step_marks *marks, enum step_mark_kind kind,
                                    struct arena *a, struct failure *f)
{
	static const enum own_rows rows[] = {
		[MARK_RUN] = ROWS_RUNS, [MARK_UNDO] = ROWS_UNDOS, [MARK_ATTEMPT] = ROWS_ATTEMPTS};
	AUTO_RELATION r = {0};
	int n = 0;
	own_relation(rows[kind], s->engine, &r);
	for (int i = 0; i < marks->n; i++) {
		if (marks->items[i].kind != kind)
			continue;
		table_steps_add_row(&r, &marks->items[i]);
		n++;
	}
	return n > 0 ? work_over(s, sql, 0, &r, a, NULL, f) : DEFIB_OK;
}

defib_err steps_record(const struct table_sql *q, struct store *s, const struct step_marks *marks,
                       struct arena *a, struct failure *f)
{
	const struct {
		enum step_mark_kind kind;
		const char *sql;
	} writes[] = {
		{MARK_RUN, q->record_runs},       {MARK_UNDO, q->keep_runs},
		{MARK_UNDO, q->record_undos},     {MARK_ATTEMPT, q->record_attempts},
		{MARK_ATTEMPT, q->drop_attempts},
	};
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof writes / sizeof *writes && !err; i++)
		err = table_steps_record(s, writes[i].sql, marks, writes[i].kind, a, f);
	return err;
}

/* ---- a completed rollback ---- */

static const struct step_mark *table_steps_mark_of(const struct step_marks *marks, const char *job,
                                                   const char *step)
{
	for (int i = 0; i < marks->n; i++)
		if (marks->items[i].kind != MARK_ATTEMPT && text_eq(marks->items[i].job, job) &&
		    text_eq(marks->items[i].step, step))
			return &marks->items[i];
	return NULL;
}

/* What is known about one recorded step, including the mark that is about to be recorded. */
static void report_step(const struct store_rows *rows, int i, const struct step_mark *m,
                        struct buf *undone, struct buf *not_undone, struct buf *error)
{
	const char *name = row_text(rows, i, STEP_NAME);
	const char *why = m ? m->error : row_text(rows, i, STEP_ERROR);
	const char *state = m ? step_state_names[m->state] : row_text(rows, i, STEP_STATE);
	if (text_eq(state, step_state_names[STEP_UNDONE])) {
		buf_add(undone, undone->len ? "," : "");
		buf_add_json(undone, name);
		return;
	}
	if (!text_eq(state, step_state_names[STEP_UNDO_FAILED]))
		return;
	buf_add(not_undone, not_undone->len ? ",{\"step\":" : "{\"step\":");
	buf_add_json(not_undone, name);
	buf_add(not_undone, ",\"error\":");
	buf_add_json(not_undone, why ? why : "");
	buf_add(not_undone, "}");
	buf_addf(error, error->len ? ", %s" : "could not undo: %s", name);
	if (why)
		buf_addf(error, " (%s)", why);
}

defib_err steps_report(const struct table_sql *q, struct store *s, const char *job,
                       const struct step_marks *marks, struct arena *a, struct undo_report *out,
                       struct failure *f)
{
	AUTO_BUF undone = BUF_INIT, not_undone = BUF_INIT, error = BUF_INIT;
	struct store_rows rows;
	defib_err err = table_steps_read_steps(q, s, &job, 1, a, &rows, f);
	*out = (struct undo_report){0};
	/* The last step was undone first. */
	for (int i = err ? -1 : rows.nrows - 1; i >= 0; i--)
		report_step(&rows, i, table_steps_mark_of(marks, job, row_text(&rows, i, STEP_NAME)),
		            &undone, &not_undone, &error);
	if (error.len)
		out->error = arena_strdup(a, buf_text(&error));
	out->evidence = arena_printf(
		a, "{\"undone\":[%s],\"not_undone\":[%s]%s}", buf_text(&undone), buf_text(&not_undone),
		undone.len + not_undone.len ? "" : ",\"note\":\"no step has finished: nothing to undo\"");
	return err;
}
