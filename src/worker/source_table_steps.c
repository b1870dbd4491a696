/*
 * source_table_steps.c: the steps of workflows whose jobs are rows of a user's
 * own table. They are recorded beside the lease, in defib's table of steps,
 * under the watch's name and in the transaction of the settlement.
 *
 * Which rows are to be undone the user's own predicate says, so nothing is
 * kept here about that: a row is undone while it matches, step by step.
 */
#include "base/text.h"
#include "ledger/jobs.h"
#include "worker/source_table_sql.h"

#include <assert.h>
#include <jansson.h>

/* ---- what is recorded ---- */

static defib_err read_steps(const struct table_sql *q, struct store *s, const char *const *jobs,
                            int n, struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct relation r;
	jobs_only_relation(s->engine, &r);
	for (int i = 0; i < n; i++) {
		relation_text(&r, jobs[i]);
		relation_end_row(&r);
	}
	return work_over(s, q->steps, 0, &r, a, rows, f);
}

/* One element of claimed.steps. */
static void add_step(struct buf *out, const struct store_rows *rows, int i)
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

/* Rows come job by job, each in the order of its steps. */
static void keep_steps(struct work_row *const *rows, const struct job_index *index,
                       const struct store_rows *back, struct arena *a)
{
	for (int i = 0; i < back->nrows;) {
		struct buf json = BUF_INIT;
		const char *job = row_text(back, i, STEP_JOB);
		int at = job_index_find(index, job);
		assert(at >= 0);
		for (; i < back->nrows && text_eq(row_text(back, i, STEP_JOB), job); i++)
			add_step(&json, back, i);
		rows[at]->steps = arena_printf(a, "%s]", buf_text(&json));
		buf_release(&json);
	}
}

/* ---- what is next ---- */

/* That of the row's kind goes first. */
static const struct workflow *workflow_of(const struct work *work, const struct work_row *row)
{
	const struct workflow *own = workflow_named(&work->workflows, row->kind);
	return own ? own : workflow_named(&work->workflows, work->workflow);
}

static void choose(const struct work *work, struct work_row *row, struct arena *a)
{
	struct step_records recorded;
	row->workflow = workflow_of(work, row);
	if (row->workflow && step_records_parse(row->steps, a, &recorded))
		row->step = workflow_choose(row->workflow, &recorded, row->undoing, a).end.name;
}

defib_err steps_plan_rows(const struct table_source *src, struct store *s,
                          struct work_row *const *rows, int n, struct arena *a, struct failure *f)
{
	const struct work *work = &src->watch->work;
	const char **jobs = ARENA_ARRAY(a, const char *, n);
	struct store_rows back;
	struct job_index index;
	if (work->workflows.n == 0)
		return DEFIB_OK;
	for (int i = 0; i < n; i++)
		jobs[i] = rows[i]->job;
	defib_err err = read_steps(&src->sql, s, jobs, n, a, &back, f);
	if (err)
		return err;
	job_index_init(&index, jobs, n, a);
	keep_steps(rows, &index, &back, a);
	for (int i = 0; i < n; i++)
		choose(work, rows[i], a);
	return DEFIB_OK;
}

/* ---- what a settlement changes ---- */

static void add_mark(struct step_marks *marks, const struct step_mark *one, struct arena *a)
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

/* Steps that end with it, with nothing run. */
static void mark_passed(const struct settlement *g, const struct work_row *row, struct arena *a,
                        struct step_marks *out)
{
	json_t *passed = g->step.passed ? json_loads(g->step.passed, 0, NULL) : NULL, *one;
	size_t i;
	json_array_foreach(passed, i, one)
	{
		const char *step = json_string_value(json_object_get(one, "step"));
		const char *state = json_string_value(json_object_get(one, "state"));
		const char *error = json_string_value(json_object_get(one, "error"));
		struct step_mark mark = {.job = row->job, .epoch = g->epoch};
		mark.step = step ? arena_strdup(a, step) : NULL;
		mark.error = error ? arena_strdup(a, error) : NULL;
		mark.state = state && text_eq(state, step_state_names[STEP_UNDO_FAILED]) ? STEP_UNDO_FAILED
		                                                                         : STEP_UNDONE;
		if (step)
			add_mark(out, &mark, a);
	}
	json_decref(passed);
}

void steps_mark(const struct settlement *g, const struct work_row *row, enum step_after after,
                struct arena *a, struct step_marks *out)
{
	bool undo = g->step.side == STEP_SIDE_UNDO, done = g->as == SETTLE_DONE;
	bool over = after == AFTER_NEXT || after == AFTER_ROLLED_BACK;
	struct step_mark mark = {
		.job = row->job,
		.step = g->step.name,
		.position = g->step.position,
		.epoch = g->epoch,
		.ran = !undo,
	};
	if (undo && !over && after != AFTER_RETRY)
		return;
	if (undo) {
		mark.state = !over ? STEP_DONE : done ? STEP_UNDONE : STEP_UNDO_FAILED;
		mark.error = done ? NULL : row->error ? row->error : settle_names[g->as];
	} else {
		mark.state = STEP_DONE;
		mark.output = row->result;
	}
	if (mark.step && (undo || done))
		add_mark(out, &mark, a);
	if (undo && over)
		mark_passed(g, row, a, out);
}

static defib_err record(const struct table_sql *q, struct store *s, const struct step_marks *marks,
                        bool ran, struct arena *a, struct failure *f)
{
	struct relation r;
	int n = 0;
	if (ran)
		runs_relation(s->engine, &r);
	else
		undos_relation(s->engine, &r);
	for (int i = 0; i < marks->n; i++) {
		const struct step_mark *m = &marks->items[i];
		if (m->ran != ran)
			continue;
		relation_text(&r, m->job);
		relation_text(&r, m->step);
		if (ran) {
			relation_int(&r, m->position);
			relation_int(&r, m->epoch);
			relation_text(&r, m->output);
		} else {
			relation_text(&r, step_state_names[m->state]);
			relation_text(&r, m->error);
			relation_int(&r, m->epoch);
		}
		relation_end_row(&r);
		n++;
	}
	if (n > 0)
		return work_over(s, ran ? q->record_runs : q->record_undos, 0, &r, a, NULL, f);
	relation_release(&r);
	return DEFIB_OK;
}

defib_err steps_record(const struct table_sql *q, struct store *s, const struct step_marks *marks,
                       struct arena *a, struct failure *f)
{
	defib_err err = record(q, s, marks, true, a, f);
	return err ? err : record(q, s, marks, false, a, f);
}

/* ---- a rollback that is over ---- */

static const struct step_mark *mark_of(const struct step_marks *marks, const char *job,
                                       const char *step)
{
	for (int i = 0; i < marks->n; i++)
		if (text_eq(marks->items[i].job, job) && text_eq(marks->items[i].step, step))
			return &marks->items[i];
	return NULL;
}

/* What is known of one recorded step, the mark that is about to be recorded included. */
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
	struct buf undone = BUF_INIT, not_undone = BUF_INIT, error = BUF_INIT;
	struct store_rows rows;
	defib_err err = read_steps(q, s, &job, 1, a, &rows, f);
	*out = (struct undo_report){0};
	/* The last step was undone first. */
	for (int i = err ? -1 : rows.nrows - 1; i >= 0; i--)
		report_step(&rows, i, mark_of(marks, job, row_text(&rows, i, STEP_NAME)), &undone,
		            &not_undone, &error);
	if (error.len)
		out->error = arena_strdup(a, buf_text(&error));
	out->evidence = arena_printf(a, "{\"undone\":[%s],\"not_undone\":[%s]}", buf_text(&undone),
	                             buf_text(&not_undone));
	buf_release(&undone);
	buf_release(&not_undone);
	buf_release(&error);
	return err;
}
