/* SPDX-License-Identifier: Apache-2.0
 * top/action.c: what a person at `defib top` wants shown or done, in a reader's thread: the
 * commands show, requeue, …, undo, pause and resume, with their text instead of their output.
 */
#include "cli/top/reader.h"

#include "base/clock.h"
#include "base/text.h"
#include "view/explain.h"
#include "view/override.h"
#include "view/scan.h"
#include "view/story.h"

/* A page of jobs is read by a person; the counts below it are of all. */
#define JOBS_SHOWN 100

static void failed(struct top_action *e, const struct failure *f)
{
	buf_add(&e->text, "! ");
	out_padded(&e->text, f->what, 0);
	if (f->next[0]) {
		buf_add(&e->text, "; ");
		out_padded(&e->text, f->next, 0);
	}
	buf_add(&e->text, "\n");
}

/* ---- a story ---- */

static defib_err show_story(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct top_bound *b = &v->watches[e->watch];
	struct story_sheet sheet = {.arena = &e->arena, .watch = b->watch};
	bool found = false;
	defib_err err = top_ready(v, e->watch, f);
	if (!err)
		err = story_read(v->reads.store, &b->bound.sql, &b->bound.ledger, e->jobs[0], &e->arena,
		                 &sheet.story, &found, f);
	if (err)
		return err;
	if (!found)
		return fail(f, DEFIB_NOT_FOUND, "there is no job %s/%s any more", b->watch->name,
		            e->jobs[0]);
	judged_candidate(b->watch, &sheet.story.row.facts, !v->ctx->ledger_off, &e->arena, &sheet.cand);
	story_text(&sheet, &e->text);
	return DEFIB_OK;
}

/* ---- acts ---- */

struct telling {
	struct top_action *errand;
	struct act_words words;
	int shown;
};

static void show_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct telling *t = ctx;
	if (t->shown++ >= JOBS_SHOWN)
		return;
	act_job_text(&t->words, w, c, false, &t->errand->text);
	buf_add(&t->errand->text, "\n");
}

static void show_result(struct top_view *v, struct telling *t, const struct by_hand_result *result)
{
	struct top_action *e = t->errand;
	if (t->shown > JOBS_SHOWN)
		buf_addf(&e->text, "  and %d more\n", t->shown - JOBS_SHOWN);
	act_counts_text(&t->words, v->watches[e->watch].watch, v->database, result, &e->text);
	e->good = result->outcomes[e->dry_run ? OUTCOME_LEFT : t->words.good];
	snprintf(e->made, sizeof e->made, "%s", e->dry_run ? "" : result->batch);
}

static defib_err do_act(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct telling t = {.errand = e,
	                    .words = {.verb = e->kind->verb,
	                              .done = e->kind->done,
	                              .good = e->kind->good,
	                              .dry_run = e->dry_run}};
	const struct by_hand_options o = {.act = e->kind->act,
	                                  .reason = e->reason,
	                                  .actor = v->ctx->actor,
	                                  .dry_run = e->dry_run,
	                                  .ledger_off = v->ctx->ledger_off,
	                                  .job = show_job,
	                                  .ctx = &t};
	const struct watch *w = v->watches[e->watch].watch;
	struct by_hand_result result = {0};
	defib_err err = act_configured(e->kind, w, f);
	if (err)
		return err;
	err = by_hand(&v->writes, w, &o, (const char *const *)e->jobs, e->njobs, &result);
	show_result(v, &t, &result);
	if (err)
		*f = result.failure;
	return err;
}

static defib_err do_undo(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct telling t = {
		.errand = e,
		.words = {
			.verb = "undo", .done = "put back", .good = OUTCOME_RECOVERED, .dry_run = e->dry_run}};
	struct undo_options o = {.batch = e->batch,
	                         .reason = e->reason,
	                         .actor = v->ctx->actor,
	                         .dry_run = e->dry_run,
	                         .done = show_job,
	                         .ctx = &t};
	struct by_hand_result sum = {0};
	for (int i = 0; i < (e->batch ? 1 : e->njobs); i++) {
		struct by_hand_result one = {0};
		o.job = e->batch ? NULL : e->jobs[i];
		if (undo(&v->writes, v->watches[e->watch].watch, &o, &one))
			*f = one.failure;
		for (int k = 0; k < OUTCOME_COUNT; k++)
			sum.outcomes[k] += one.outcomes[k];
	}
	show_result(v, &t, &sum);
	if (t.shown == 0 && !f->code)
		fail(f, DEFIB_REFUSED, "there is nothing to undo");
	return f->code;
}

/* ---- words to the daemons ---- */

static defib_err do_pause(struct top_view *v, struct top_action *e, struct failure *f)
{
	const char *watch = v->watches[e->watch].watch->name;
	const struct override said = {.watch = watch,
	                              .name = "pause",
	                              .value = "on",
	                              .actor = v->ctx->actor,
	                              .reason = e->reason};
	struct override_answer word;
	defib_err err = session_ready(&v->writes, f);
	if (!err)
		err = override_set(v->writes.store, &said, 0, &e->arena, &word, f);
	if (!err)
		buf_addf(&e->text, "%s/%s: recovery is paused\n", v->database->name, watch);
	return err;
}

static defib_err do_resume(struct top_view *v, struct top_action *e, struct failure *f)
{
	const char *watch = v->watches[e->watch].watch->name;
	const struct override *still = NULL;
	struct override_answer *words;
	int n;
	defib_err err = session_ready(&v->writes, f);
	if (!err)
		err = override_clear(v->writes.store, watch, "pause", &e->arena, &words, &n, &still, f);
	if (err)
		return err;
	if (still) {
		fail(f, DEFIB_REFUSED, "all watches are paused; a single one cannot be resumed");
		fail_next(f, "clear it for all: defib resume --all");
		return f->code;
	}
	buf_addf(&e->text, "%s/%s: recovery is resumed\n", v->database->name, watch);
	return DEFIB_OK;
}

void top_action_do(struct top_view *v, struct top_action *e)
{
	static defib_err (*const how[])(struct top_view *, struct top_action *,
	                                struct failure *) = {[TOP_STORY] = show_story,
	                                                     [TOP_ACT] = do_act,
	                                                     [TOP_UNDO] = do_undo,
	                                                     [TOP_PAUSE] = do_pause,
	                                                     [TOP_RESUME] = do_resume};
	struct failure f = {0};
	if (how[e->is](v, e, &f))
		failed(e, &f);
}
