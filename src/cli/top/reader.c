/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/top/reader.h"

#include "base/clock.h"
#include "base/condition.h"
#include "cli/load.h"
#include "cli/top/model.h"
#include "cli/top/read.h"
#include "lib/advice.h"
#include "recover/undo.h"
#include "view/status.h"
#include "view/story.h"

#include <pthread.h>
#include <unistd.h>

struct top_reader {
	struct top_view view; /* private to the thread */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool stop, ended, writing;
	struct top_action *asked, *done;
	struct top_part *reading;
};

/* ---- actions ---- */

struct top_action *top_action_new(enum top_action_is is, int part, int watch)
{
	struct top_action *e = mem_alloc(sizeof *e);
	e->is = is;
	e->part = part;
	e->watch = watch;
	return e;
}

void top_action_free(struct top_action *e)
{
	if (!e)
		return;
	buf_release(&e->text);
	arena_release(&e->arena);
	free(e);
}

static void top_reader_append(struct top_action **list, struct top_action *e)
{
	e->next = NULL;
	while (*list)
		list = &(*list)->next;
	*list = e;
}

static struct top_action *take_first(struct top_action **list)
{
	struct top_action *e = *list;
	if (e)
		*list = e->next;
	return e;
}

/* ---- acts ---- */

/* A page of jobs for people; the counts below it include all. */
#define JOBS_SHOWN 100

static void failed(struct top_action *e, struct failure *f)
{
	buf_add(&e->text, "! ");
	out_padded(&e->text, f->what, 0);
	if (failure_next(f)[0]) {
		buf_add(&e->text, "; ");
		out_padded(&e->text, failure_next(f), 0);
	}
	buf_add(&e->text, "\n");
}

/* ---- a story ---- */

static defib_err top_reader_show_story(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct top_bound *b = &v->watches[e->watch];
	struct story_sheet sheet = {.arena = &e->arena, .watch = b->watch};
	bool found = false;
	defib_err err = top_ready(v, e->watch, f);
	if (!err)
		err = story_read(v->reads.store, &b->bound.sql, &b->bound.ledger, v->ctx->workflows,
		                 e->jobs[0], &e->arena, &sheet.story, &found, f);
	if (err)
		return err;
	if (!found)
		return fail(f, DEFIB_NOT_FOUND, "there is no job %s/%s any more", b->watch->name,
		            e->jobs[0]);
	story_explain(&sheet, !v->ctx->ledger_off);
	explain_guard(v->reads.store, v->database, b->watch, &e->arena, &sheet.is);
	story_text(&sheet, &e->text);
	return DEFIB_OK;
}

/* ---- acts ---- */

struct act_shown {
	struct top_action *action;
	struct act_words words;
	struct act_rows rows;
};

static void top_reader_show_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct act_shown *t = ctx;
	act_job_row(&t->rows, &t->words, w, c);
}

static void show_result(struct top_view *v, struct act_shown *t,
                        const struct by_hand_result *result)
{
	struct top_action *e = t->action;
	act_rows_text(&t->rows, "", false, &e->text);
	act_rows_release(&t->rows);
	act_counts_text(&t->words, v->watches[e->watch].watch, v->database, result, &e->text);
	e->good = result->outcomes[e->dry_run ? OUTCOME_LEFT : t->words.good];
	snprintf(e->made, sizeof e->made, "%s", e->dry_run ? "" : result->batch);
}

static defib_err do_act(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct act_shown t = {.action = e,
	                      .words = {.verb = e->kind->verb,
	                                .done = e->kind->done,
	                                .good = act_outcome(e->kind->act),
	                                .dry_run = e->dry_run}};
	const struct by_hand_options o = {.act = e->kind->act,
	                                  .reason = e->reason,
	                                  .actor = v->ctx->actor,
	                                  .dry_run = e->dry_run,
	                                  .ledger_off = v->ctx->ledger_off,
	                                  .job = top_reader_show_job,
	                                  .ctx = &t};
	const struct watch *w = v->watches[e->watch].watch;
	struct by_hand_result result = {0};
	defib_err err = act_configured(e->kind, w, f);
	if (err)
		return err;
	act_rows_init(&t.rows, JOBS_SHOWN);
	err = by_hand(&v->writes, w, &o, (const char *const *)e->jobs, e->njobs, &result);
	show_result(v, &t, &result);
	if (err)
		*f = result.failure;
	return err;
}

static defib_err do_undo(struct top_view *v, struct top_action *e, struct failure *f)
{
	struct act_shown t = {
		.action = e,
		.words = {
			.verb = "undo", .done = "reverted", .good = OUTCOME_RECOVERED, .dry_run = e->dry_run}};
	struct undo_options o = {.batch = e->batch,
	                         .reason = e->reason,
	                         .actor = v->ctx->actor,
	                         .dry_run = e->dry_run,
	                         .done = top_reader_show_job,
	                         .ctx = &t};
	struct by_hand_result sum = {0};
	act_rows_init(&t.rows, JOBS_SHOWN);
	for (int i = 0; i < (e->batch ? 1 : e->njobs); i++) {
		struct by_hand_result one = {0};
		o.job = e->batch ? NULL : e->jobs[i];
		if (undo(&v->writes, v->watches[e->watch].watch, &o, &one))
			*f = one.failure;
		for (int k = 0; k < OUTCOME_COUNT; k++)
			sum.outcomes[k] += one.outcomes[k];
	}
	show_result(v, &t, &sum);
	if (t.rows.seen[0] + t.rows.seen[1] == 0 && !f->code)
		fail(f, DEFIB_REFUSED, "there is nothing to undo");
	return f->code;
}

/* ---- overrides for the daemons ---- */

static defib_err do_pause(struct top_view *v, struct top_action *e, struct failure *f)
{
	const char *watch = v->watches[e->watch].watch->name;
	const struct override wanted = {.watch = watch,
	                                .name = "pause",
	                                .value = "on",
	                                .actor = v->ctx->actor,
	                                .reason = e->reason};
	struct override_answer word;
	defib_err err = session_ready(&v->writes, f);
	if (!err)
		err = override_set(v->writes.store, &wanted, 0, &e->arena, &word, f);
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

static void do_action(struct top_view *v, struct top_action *e)
{
	static defib_err (*const how[])(struct top_view *, struct top_action *,
	                                struct failure *) = {[TOP_STORY] = top_reader_show_story,
	                                                     [TOP_ACT] = do_act,
	                                                     [TOP_UNDO] = do_undo,
	                                                     [TOP_PAUSE] = do_pause,
	                                                     [TOP_RESUME] = do_resume};
	struct failure f = {0};
	if (how[e->is](v, e, &f))
		failed(e, &f);
}

/* ---- the thread ---- */

static void wake_screen(const struct top_reader *d)
{
	/* A full pipe wakes it as well. */
	ssize_t n = write(d->view.ctx->wake_fd, "", 1);
	(void)n;
}

/* The next action; NULL if it is time to read, or to end. */
static struct top_action *wait_action(struct top_reader *d, int64_t due_ms)
{
	int64_t left_ms;
	while (!d->stop && !d->asked && (left_ms = due_ms - clock_boot_ms()) > 0) {
		struct timespec until = condition_limit(left_ms);
		pthread_cond_timedwait(&d->change, &d->lock, &until);
	}
	return d->stop ? NULL : take_first(&d->asked);
}

static void publish(struct top_reader *d, struct top_part *p)
{
	top_part_free(d->reading);
	d->reading = p;
	wake_screen(d);
}

static void *reader_main(void *arg)
{
	struct top_reader *d = arg;
	int64_t due_ms = 0;
	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		struct top_action *e = wait_action(d, due_ms);
		d->writing = e && e->is != TOP_STORY && !e->dry_run;
		pthread_mutex_unlock(&d->lock);
		struct top_part *p = NULL;
		if (e)
			do_action(&d->view, e);
		else
			p = top_read(&d->view);
		due_ms = e ? (e->is == TOP_STORY ? due_ms : 0) : clock_boot_ms() + d->view.ctx->every_ms;
		pthread_mutex_lock(&d->lock);
		d->writing = false;
		if (e)
			top_reader_append(&d->done, e);
		if (p)
			publish(d, p);
		wake_screen(d);
	}
	d->ended = true;
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

/* ---- from outside ---- */

struct top_reader *top_reader_start(const struct top_context *ctx, const struct database *database,
                                    const struct watch *const *watches, int n, int part)
{
	struct top_reader *d = mem_alloc(sizeof *d);
	struct top_view *v = &d->view;
	sigset_t all, before;
	*v = (struct top_view){.ctx = ctx, .database = database, .part = part, .n = n};
	v->reads = cli_session(database, NULL, true);
	v->writes = cli_session(database, NULL, false);
	v->ledger_id = -1;
	v->begun_ms = clock_boot_ms();
	v->watches = mem_alloc(sizeof *v->watches * (size_t)(n + 1));
	for (int i = 0; i < n; i++) {
		v->watches[i].watch = watches[i];
		/* Acts have the watch's time limit; a read is short. */
		if (watches[i]->statement_timeout_us / 1000 > v->writes.options.statement_ms)
			v->writes.options.statement_ms = watches[i]->statement_timeout_us / 1000;
	}
	pthread_mutex_init(&d->lock, NULL);
	condition_init(&d->change);
	/* The thread that has the terminal handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&d->thread, NULL, reader_main, d) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return d;
}

struct top_part *top_reader_reading(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	struct top_part *p = d->reading;
	d->reading = NULL;
	pthread_mutex_unlock(&d->lock);
	return p;
}

struct top_action *top_reader_done(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	struct top_action *e = take_first(&d->done);
	pthread_mutex_unlock(&d->lock);
	return e;
}

void top_reader_send(struct top_reader *d, struct top_action *e)
{
	pthread_mutex_lock(&d->lock);
	top_reader_append(&d->asked, e);
	pthread_cond_broadcast(&d->change);
	pthread_mutex_unlock(&d->lock);
}

bool top_reader_writes(struct top_reader *d)
{
	pthread_mutex_lock(&d->lock);
	bool writes = d->writing;
	pthread_mutex_unlock(&d->lock);
	return writes;
}

bool top_reader_stop(struct top_reader *d, int64_t wait_ms)
{
	struct timespec until = condition_limit(wait_ms);
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_broadcast(&d->change);
	while (!d->ended && pthread_cond_timedwait(&d->change, &d->lock, &until) == 0)
		;
	bool ended = d->ended;
	pthread_mutex_unlock(&d->lock);
	return ended;
}

void top_reader_free(struct top_reader *d)
{
	struct top_action *e;
	pthread_join(d->thread, NULL);
	while ((e = take_first(&d->asked)) != NULL || (e = take_first(&d->done)) != NULL)
		top_action_free(e);
	top_part_free(d->reading);
	for (int i = 0; i < d->view.n; i++)
		bound_release(&d->view.watches[i].bound);
	free(d->view.watches);
	arena_release(&d->view.series_arena);
	session_close(&d->view.reads);
	session_close(&d->view.writes);
	pthread_cond_destroy(&d->change);
	pthread_mutex_destroy(&d->lock);
	free(d);
}
