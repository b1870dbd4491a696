/* SPDX-License-Identifier: Apache-2.0
 * api_undo.c: taking back what a scan or a person did: a batch, which may be about
 * several watches of a database, or the newest change of one job.
 */
#include "http/api_handlers.h"

#include "base/text.h"
#include "recover/by_hand.h"
#include "view/scan.h"
#include "watch/builtin.h"

#define WATCHES_MOST 64 /* of one batch */

struct undoing {
	struct api_call *call;
	struct undo_options options;
	int njobs;    /* of the group under way */
	int64_t done; /* over all */
	int64_t found;
	enum outcome outcome; /* of the last job, … */
	const char *refusal;  /* … and why */
};

static enum outcome good_outcome(const struct undoing *u)
{
	return u->options.dry_run ? OUTCOME_LEFT : OUTCOME_RECOVERED;
}

static void note_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct undoing *u = ctx;
	struct buf *out = &u->call->out->body;
	if (u->njobs++)
		buf_add(out, ",");
	act_job_json(w, c, good_outcome(u), out);
	u->found++;
	u->done += c->outcome == good_outcome(u);
	u->outcome = c->outcome;
	u->refusal = c->refusal ? arena_strdup(&u->call->arena, c->refusal) : NULL;
}

static bool read_options(struct undoing *u)
{
	struct api_call *c = u->call;
	struct undo_options *o = &u->options;
	*o = (struct undo_options){.actor = c->actor, .done = note_job, .ctx = u};
	return api_body_text(c, "reason", &o->reason) && api_body_bool(c, "dry_run", &o->dry_run);
}

static defib_err undo_group(struct undoing *u, const struct watch *w, struct failure *f)
{
	struct api_call *c = u->call;
	struct by_hand_result result = {0};
	u->njobs = 0;
	act_group_begin_json(w, c->database, &c->out->body);
	defib_err err = undo(c->session, w, &u->options, &result);
	if (err)
		*f = result.failure;
	else
		act_group_end_json(&result, &c->out->body);
	return err;
}

/* ---- one job ---- */

void call_undo_job(struct api_call *c)
{
	static const char *const members[] = {"reason", "dry_run", NULL};
	struct undoing u = {.call = c};
	struct failure f = {0};
	const char *job = job_named(c, c->watch, c->parts[1]);
	if (!job || !api_body_takes(c, members) || !read_options(&u))
		return;
	u.options.job = job;
	act_begin_json("undo", u.options.dry_run, &c->out->body);
	if (undo_group(&u, c->watch, &f)) {
		api_failed(c, &f);
	} else if (u.found == 0) {
		api_problem(c, 404, "there is nothing to undo for job %s of watch %s", job, c->watch->name);
	} else if (u.done == 0) {
		api_problem(c, 409, "job %s of watch %s was not put back: %s", job, c->watch->name,
		            u.refusal ? u.refusal : "it has changed since");
	} else {
		buf_add(&c->out->body, "]}\n");
	}
}

/* ---- a batch ---- */

static const struct watch *watch_here(struct api_call *c, const char *name)
{
	const struct settings *s = &c->setup->settings;
	const struct watch *w = settings_watch(s, name);
	if (w)
		return settings_database(s, w) == c->database ? w : NULL;
	return text_eq(name, BUILTIN_NAME) ? builtin_watch(c->database->engine, &c->arena) : NULL;
}

/* The names of the watches that a batch is about, by the ledger. */
static defib_err watches_of(struct api_call *c, const char *batch, const char **names, int *n,
                            struct failure *f)
{
	struct ledger_filter filter = {.batch = batch};
	struct ledger ledger = {0};
	struct ledger_row *rows = NULL;
	int nrows = 0;
	*n = 0;
	defib_err err = ledger_open(c->session->store, false, &ledger, f);
	while (!err && ledger.ready) {
		err = ledger_read(c->session->store, &filter, &c->arena, &rows, &nrows, f);
		for (int i = 0; !err && i < nrows; i++) {
			int k = 0;
			while (k < *n && !text_eq(names[k], rows[i].watch))
				k++;
			if (k == *n && k < WATCHES_MOST)
				names[(*n)++] = rows[i].watch;
		}
		if (err || nrows < LEDGER_READ_MAX)
			break;
		filter.after_id = rows[nrows - 1].id;
	}
	return err;
}

static bool undo_batch(struct undoing *u)
{
	struct api_call *c = u->call;
	const char *names[WATCHES_MOST];
	struct failure f = {0};
	int n, groups = 0;
	if (watches_of(c, u->options.batch, names, &n, &f))
		return api_failed(c, &f);
	act_begin_json("undo", u->options.dry_run, &c->out->body);
	for (int i = 0; i < n; i++) {
		const struct watch *w = watch_here(c, names[i]);
		if (!w)
			continue;
		if (groups++)
			buf_add(&c->out->body, ",");
		if (undo_group(u, w, &f))
			return api_failed(c, &f);
	}
	if (u->found == 0)
		return api_problem(c, 404,
		                   "the ledger of database %s has nothing to undo in batch %s; name "
		                   "another database with ?database=",
		                   c->database->name, u->options.batch);
	buf_add(&c->out->body, "]}\n");
	return true;
}

void call_undo(struct api_call *c)
{
	static const char *const members[] = {"batch", "reason", "dry_run", NULL};
	struct undoing u = {.call = c};
	if (!api_body_takes(c, members) || !read_options(&u) ||
	    !api_body_text(c, "batch", &u.options.batch))
		return;
	if (u.options.batch)
		undo_batch(&u);
	else
		api_problem(c, 400, "batch is missing; give the batch that the action returned");
}
