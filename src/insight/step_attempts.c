/* SPDX-License-Identifier: Apache-2.0
 * step_attempts.c: every known attempt at the steps of a workflow. Each fact has one home:
 *
 *   the step's own record   the attempt that finished it, or that undid it
 *   step_attempt            attempts that did not, and a run that was undone since
 *   the ledger              attempts that ended with their worker: the step is not in the entry,
 *                           but follows from the attempts around it, or from the workflow
 *   job, lease              the attempt that is running
 */

#include "insight/step_attempts.h"

#include "insight/story.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "worker/workflow.h"

#include <jansson.h>

#define OF_RUN "done"

/* An attempt, and what is needed to find its step. */
struct found {
	struct story_attempt is;
	const char *step; /* NULL: not known yet */
	int64_t position;
	bool rolls; /* it ended in a rollback: what follows is of another step */
};

struct attempts_gathering {
	struct store *store;
	const struct watch *watch;
	bool queue;
	const struct workflow *flow;
	struct arena *arena;
	struct story *story;
	struct found *all;
	int n, cap;
};

static struct found *attempts_add(struct attempts_gathering *g)
{
	if (g->n == g->cap) {
		struct found *more = ARENA_ARRAY(g->arena, struct found, g->cap * 2 + 16);
		for (int i = 0; i < g->n; i++)
			more[i] = g->all[i];
		g->all = more;
		g->cap = g->cap * 2 + 16;
	}
	g->all[g->n] = (struct found){0};
	return &g->all[g->n++];
}

/* ---- of the steps' own records ---- */

/* A record describes an attempt, unless it only passed, is to run again, or is being undone. */
static void add_recorded(struct attempts_gathering *g)
{
	for (int i = 0; i < g->story->nsteps; i++) {
		const struct story_step *s = &g->story->steps[i];
		bool run = text_eq(s->state, step_state_names[STEP_DONE]);
		bool failed = text_eq(s->state, step_state_names[STEP_UNDO_FAILED]);
		if (text_eq(s->state, step_state_names[STEP_AGAIN]) || (run && s->error) ||
		    (!run && !s->attempt))
			continue;
		struct found *one = attempts_add(g);
		one->step = s->name;
		one->position = s->position;
		one->is = (struct story_attempt){
			.recorded = true,
			.undo = !run,
			.outcome = failed ? settle_names[SETTLE_FAILED] : OF_RUN,
			.error = s->error,
			.worker = s->worker,
			.number = s->attempt,
			.has_epoch = true,
			.epoch = s->epoch,
			.has_started = s->has_started,
			.started_us = s->started_us,
			.has_ended = true,
			.ended_us = s->finished_us,
		};
	}
}

/* ---- of the table of attempts ---- */

/* A job's error names the step, which is known here. */
static const char *without_step(const char *error, const char *step)
{
	size_t len = strlen(step);
	return error && strncmp(error, step, len) == 0 && text_starts(error + len, ": ")
	           ? error + len + 2
	           : error;
}

static defib_err add_kept(struct attempts_gathering *g, struct failure *f)
{
	static const char sql[] =
		"SELECT step, position, epoch, attempt, undo, worker, outcome, error, {us started_at}, "
		"{us ended_at} FROM defib.step_attempt WHERE watch = $1 AND job = $2 ORDER BY epoch";
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(g->watch->name), P_TEXT(g->story->row.job)};
	defib_err err = dialect_exec(g->store, sql, params, 2, g->arena, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct found *one = attempts_add(g);
		one->step = row_text(&rows, i, 0);
		one->position = row_int(&rows, i, 1, 0);
		one->is = (struct story_attempt){
			.has_epoch = true,
			.epoch = row_int(&rows, i, 2, 0),
			.number = row_int(&rows, i, 3, 0),
			.undo = row_bool(&rows, i, 4),
			.worker = row_text(&rows, i, 5),
			.outcome = row_text(&rows, i, 6),
			.error = without_step(row_text(&rows, i, 7), one->step),
			.has_started = row_text(&rows, i, 8) != NULL,
			.started_us = row_int(&rows, i, 8, 0),
			.has_ended = true,
			.ended_us = row_int(&rows, i, 9, 0),
		};
	}
	return err;
}

/* ---- of the ledger ---- */

/* A time of the row before the change: ISO, or milliseconds. */
static bool time_of(const json_t *value, int64_t *us)
{
	if (json_is_integer(value))
		*us = json_integer_value(value) * 1000;
	return json_is_integer(value) || time_parse(json_string_value(value), us);
}

static bool is_set(const json_t *value)
{
	return json_is_true(value) || json_integer_value(value) != 0;
}

/* Whether an entry ended an attempt: the job was judged stuck, or taken from its worker. */
static bool ends_attempt(const struct attempts_gathering *g, const struct ledger_row *r,
                         const json_t *before)
{
	const json_t *owner = json_object_get(before, "owner");
	if (!event_marked(r->event, MARK_CHANGES))
		return false;
	return (r->verdict && !text_eq(r->verdict, verdict_names[VERDICT_NONE])) ||
	       (g->queue && owner && !json_is_null(owner));
}

static void add_lost_one(struct attempts_gathering *g, const struct ledger_row *r)
{
	json_auto_t *before = r->before ? json_read(r->before, 0) : NULL;
	json_auto_t *evidence = r->evidence ? json_read(r->evidence, 0) : NULL;
	const char *owner = json_string_value(json_object_get(evidence, "owner"));
	int64_t started = 0, ended = 0;
	if (!ends_attempt(g, r, before))
		return;
	bool began = time_of(json_object_get(evidence, "started_at"), &started) ||
	             (g->queue && time_of(json_object_get(before, "claimed_at"), &started));
	struct found *one = attempts_add(g);
	one->rolls = text_eq(r->event, ENTRY_ROLLBACK_STARTED);
	one->is = (struct story_attempt){
		.undo = g->queue && is_set(json_object_get(before, "undoing")),
		.outcome = STORY_LOST,
		.error = r->reason,
		.worker = owner ? arena_strdup(g->arena, owner) : NULL,
		.number = json_integer_value(json_object_get(evidence, "attempt")),
		.has_epoch = r->has_epoch,
		.epoch = r->epoch,
		.has_started = began,
		.started_us = started,
		.has_ended = time_parse(r->at, &ended),
	};
	one->is.ended_us = ended;
}

/* Owners in the built-in queue are ids of workers: their names, as long as those are kept. */
static defib_err name_workers(struct attempts_gathering *g, struct failure *f)
{
	const struct dialect *d = store_dialect(g->store);
	AUTO_BUF ids = BUF_INIT;
	struct store_rows rows;
	for (int i = 0; g->queue && i < g->n; i++)
		if (text_eq(g->all[i].is.outcome, STORY_LOST) && g->all[i].is.worker)
			buf_addf(&ids, "%c%s", ids.len ? ',' : d->list[0], g->all[i].is.worker);
	if (!ids.len)
		return DEFIB_OK;
	buf_addch(&ids, d->list[1]);
	struct store_param list = P_TEXT(buf_text(&ids));
	defib_err err = dialect_exec(
		g->store, "SELECT CAST(id AS text), name FROM defib.worker WHERE id {among $1}", &list, 1,
		g->arena, &rows, f);
	for (int i = 0; !err && i < g->n; i++)
		for (int k = 0; k < rows.nrows; k++)
			if (text_eq(g->all[i].is.outcome, STORY_LOST) &&
			    text_eq(g->all[i].is.worker, row_text(&rows, k, 0)))
				g->all[i].is.worker = row_text(&rows, k, 1);
	return err;
}

/* ---- the running one ---- */

static defib_err add_running(struct attempts_gathering *g, struct failure *f)
{
	static const char in_queue[] =
		"SELECT j.epoch, j.attempts, {us j.claimed_at}, w.name, j.undoing FROM defib.job j LEFT "
		"JOIN defib.worker w ON w.id = j.owner WHERE j.id = $1::bigint AND j.owner IS NOT NULL";
	/* A row that is undone is not running: only its lease shows it. */
	static const char in_table[] =
		"SELECT l.epoch, l.attempts, {us l.claimed_at}, w.name, $3::integer = 0 FROM defib.lease l "
		"JOIN defib.worker w ON w.id = l.owner AND w.state = 'alive' WHERE l.job = $1 AND l.watch "
		"= $2";
	struct store_param params[] = {P_TEXT(g->story->row.job), P_TEXT(g->watch->name),
	                               P_INT(g->story->row.facts.running)};
	struct store_rows rows;
	defib_err err = dialect_exec(g->store, g->queue ? in_queue : in_table, params, g->queue ? 1 : 3,
	                             g->arena, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	attempts_add(g)->is = (struct story_attempt){
		.outcome = STORY_RUNNING,
		.has_epoch = true,
		.epoch = row_int(&rows, 0, 0, 0),
		.number = row_int(&rows, 0, 1, 0),
		.has_started = row_text(&rows, 0, 2) != NULL,
		.started_us = row_int(&rows, 0, 2, 0),
		.worker = row_text(&rows, 0, 3),
		.undo = row_bool(&rows, 0, 4),
	};
	return DEFIB_OK;
}

/* ---- which step it was ---- */

static int by_end(const void *a, const void *b)
{
	const struct story_attempt *x = &((const struct found *)a)->is;
	const struct story_attempt *y = &((const struct found *)b)->is;
	if (x->has_ended != y->has_ended)
		return x->has_ended ? -1 : 1;
	if (x->ended_us != y->ended_us)
		return x->ended_us < y->ended_us ? -1 : 1;
	return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

static bool attempts_finished(const struct found *one)
{
	return text_eq(one->is.outcome, OF_RUN);
}

static void name_it(struct found *one, const char *step, int64_t position)
{
	one->step = step;
	one->position = position;
	one->is.error = step ? without_step(one->is.error, step) : one->is.error;
}

/* What a worker would choose now. */
static void name_next(struct attempts_gathering *g, struct found *one)
{
	struct step_records now = {.items =
	                               ARENA_ARRAY(g->arena, struct step_record, g->story->nsteps + 1)};
	for (int i = 0; i < g->story->nsteps; i++) {
		int state = word_index(step_state_names, g->story->steps[i].state);
		if (state >= 0)
			now.items[now.n++] = (struct step_record){.name = g->story->steps[i].name,
			                                          .state = (enum step_state)state};
	}
	struct step_end end = workflow_choose(g->flow, &now, one->is.undo, g->arena).end;
	name_it(one, end.name, end.position);
}

/* The first step that no earlier attempt had finished. */
static void name_first_open(struct attempts_gathering *g, int at)
{
	for (int k = 0; k < g->flow->nsteps && !g->all[at].step; k++) {
		bool done = false;
		for (int i = 0; i < at; i++)
			done = done || (attempts_finished(&g->all[i]) && !g->all[i].is.undo &&
			                text_eq(g->all[i].step, g->flow->steps[k].name));
		if (!done)
			name_it(&g->all[at], g->flow->steps[k].name, k);
	}
}

/* Attempts follow each other: one that finished nothing is followed by one at the same step. */
static void name_steps(struct attempts_gathering *g)
{
	for (int i = g->n - 1; i >= 0; i--) {
		struct found *one = &g->all[i];
		const struct found *before = i > 0 ? one - 1 : NULL;
		const struct found *next = i + 1 < g->n ? one + 1 : NULL;
		if (one->step)
			continue;
		if (next && next->step && !one->rolls && next->is.undo == one->is.undo)
			name_it(one, next->step, next->position);
		else if (!next && g->flow && !one->rolls)
			name_next(g, one);
		else if (before && before->step && !attempts_finished(before) &&
		         before->is.undo == one->is.undo)
			name_it(one, before->step, before->position);
		else if (g->flow && !one->is.undo)
			name_first_open(g, i);
	}
}

/* ---- by step ---- */

static struct story_step *step_of(struct story *s, const struct found *one)
{
	for (int i = 0; i < s->nsteps; i++)
		if (text_eq(s->steps[i].name, one->step))
			return &s->steps[i];
	s->steps[s->nsteps] = (struct story_step){
		.name = one->step, .position = one->position, .state = STORY_UNFINISHED};
	return &s->steps[s->nsteps++];
}

static int by_position(const void *a, const void *b)
{
	const struct story_step *x = a, *y = b;
	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void group(struct attempts_gathering *g)
{
	struct story *s = g->story;
	struct story_step *steps = ARENA_ARRAY(g->arena, struct story_step, s->nsteps + g->n + 1);
	for (int i = 0; i < s->nsteps; i++)
		steps[i] = s->steps[i];
	s->steps = steps;
	for (int i = 0; i < g->n; i++) {
		if (!g->all[i].step)
			continue;
		struct story_step *of = step_of(s, &g->all[i]);
		if (!of->attempts)
			of->attempts = ARENA_ARRAY(g->arena, struct story_attempt, g->n);
		of->attempts[of->nattempts++] = g->all[i].is;
		if (text_eq(of->state, STORY_UNFINISHED) && text_eq(g->all[i].is.outcome, STORY_RUNNING))
			of->state = STORY_RUNNING;
	}
	if (s->nsteps)
		qsort(s->steps, (size_t)s->nsteps, sizeof *s->steps, by_position);
}

defib_err step_attempts_read(struct store *s, const struct watch *w, bool queue,
                             const struct workflow *flow, struct arena *a, struct story *out,
                             struct failure *f)
{
	struct attempts_gathering g = {
		.store = s, .watch = w, .queue = queue, .flow = flow, .arena = a};
	g.story = out;
	defib_err err = add_kept(&g, f);
	if (err || (g.n == 0 && out->nsteps == 0 && !flow))
		return err; /* no workflow */
	add_recorded(&g);
	for (int i = 0; i < out->nentries; i++)
		add_lost_one(&g, &out->entries[i]);
	err = name_workers(&g, f);
	if (!err)
		err = add_running(&g, f);
	if (err)
		return err;
	if (g.n)
		qsort(g.all, (size_t)g.n, sizeof *g.all, by_end);
	name_steps(&g);
	group(&g);
	return DEFIB_OK;
}
