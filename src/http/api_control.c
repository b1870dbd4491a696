/* SPDX-License-Identifier: Apache-2.0
 * api_control.c: operators' commands besides acts on jobs: undo, a scan at once, overrides.
 *
 * Undo reverts what a scan or an operator did: a batch, which may cover several watches of a
 * database, or the newest change of one job.
 */
#include "http/api_control.h"

#include "base/clock.h"
#include "http/api.h"
#include "http/api_act.h"
#include "http/api_values.h"
#include "ledger/events.h"
#include "recover/by_hand.h"
#include "recover/leader_status.h"
#include "recover/scan.h"
#include "recover/undo.h"
#include "view/scan.h"
#include "view/status.h"

#define WATCHES_MOST 64 /* of one batch */

struct undoing {
	struct api_call *call;
	struct undo_options options;
	int njobs;    /* of the current group */
	int64_t done; /* in total */
	int64_t found;
	enum outcome outcome; /* of the last job, … */
	const char *refusal;  /* … and why */
};

static enum outcome api_control_good_outcome(const struct undoing *u)
{
	return u->options.dry_run ? OUTCOME_LEFT : OUTCOME_RECOVERED;
}

static void note_undone(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct undoing *u = ctx;
	struct buf *out = &u->call->out->body;
	if (u->njobs++)
		buf_add(out, ",");
	act_job_json(w, c, api_control_good_outcome(u), CALLER_HTTP, out);
	u->found++;
	u->done += c->outcome == api_control_good_outcome(u);
	u->outcome = c->outcome;
	AUTO_BUF why = BUF_INIT;
	refusal_sentence(c, &why);
	u->refusal = c->refusal ? arena_strdup(&u->call->arena, buf_text(&why)) : NULL;
}

static bool read_undo_options(struct undoing *u)
{
	struct api_call *c = u->call;
	struct undo_options *o = &u->options;
	*o = (struct undo_options){.actor = c->actor, .done = note_undone, .ctx = u};
	return api_body_text(c, "reason", &o->reason) && api_body_bool(c, "dry_run", &o->dry_run);
}

static bool undo_group(struct undoing *u, const struct watch *w)
{
	struct api_call *c = u->call;
	struct by_hand_result result = {0};
	u->njobs = 0;
	act_group_begin_json(w, c->database, &c->out->body);
	if (undo(c->session, w, &u->options, &result))
		c->failure = result.failure;
	else
		act_group_end_json(&result, &c->out->body);
	return !c->failure.code;
}

/* ---- one job ---- */

void call_undo_job(struct api_call *c)
{
	struct undoing u = {.call = c};
	const char *job = api_job_named(c, c->watch, c->parts[1]);
	if (!job || !read_undo_options(&u))
		return;
	u.options.job = job;
	act_begin_json("undo", u.options.dry_run, &c->out->body);
	if (!undo_group(&u, c->watch))
		return;
	if (u.found == 0) {
		api_problem(c, 404, "there is nothing to undo for job %s of watch %s", job, c->watch->name);
	} else if (u.done == 0) {
		api_problem(c, 409, "job %s of watch %s was not reverted: %s", job, c->watch->name,
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

/* The names of the watches of a batch, from the ledger. */
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
	int n, groups = 0;
	if (watches_of(c, u->options.batch, names, &n, &c->failure))
		return false;
	act_begin_json("undo", u->options.dry_run, &c->out->body);
	for (int i = 0; i < n; i++) {
		const struct watch *w = watch_here(c, names[i]);
		if (!w)
			continue;
		if (groups++)
			buf_add(&c->out->body, ",");
		if (!undo_group(u, w))
			return false;
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
	struct undoing u = {.call = c};
	if (!read_undo_options(&u) || !api_body_text(c, "batch", &u.options.batch))
		return;
	if (u.options.batch)
		undo_batch(&u);
	else
		api_problem(c, 400, "batch is missing; give the batch that the action returned");
}

/*
 * ---- a scan at once ----
 * The same as `defib scan`, limited in jobs and time, so that it does not occupy a request pool for
 * long.
 */

#define FOUND_USUAL 500
#define FOUND_MOST 5000
#define PASS_MS 10000 /* no new batch after this time */

struct pass {
	struct api_call *call;
	int64_t end_ms;
	int njobs;
};

static void note_scanned(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct pass *p = ctx;
	struct buf *out = &p->call->out->body;
	if (p->njobs++)
		buf_add(out, ",");
	scan_job_json(w, c, out);
}

static bool api_control_go_on(void *ctx)
{
	const struct pass *p = ctx;
	return clock_boot_ms() < p->end_ms;
}

static bool read_scan_options(struct api_call *c, struct scan_options *o)
{
	const char *remedy = NULL;
	if (!api_body_bool(c, "fix", &o->fix) || !api_body_int(c, "limit", 1, FOUND_MOST, &o->limit) ||
	    !api_body_text(c, "remedy", &remedy) || !api_body_text(c, "reason", &o->reason) ||
	    !api_body_bool(c, "override_guard", &o->override_guard) ||
	    !api_may_override(c, o->override_guard))
		return false;
	int index = remedy ? word_index(remedy_names, remedy) : REMEDY_REPORT;
	if (index < 0) {
		AUTO_BUF all = BUF_INIT;
		words_list(remedy_names, &all);
		return api_problem(c, 400, "remedy must be %s, not \"%s\"", buf_text(&all), remedy);
	}
	o->forced = remedy != NULL;
	o->remedy = (enum remedy)index;
	return true;
}

static bool api_control_ask_brake(struct api_call *c, const struct scan_options *o)
{
	struct failure f = {0};
	return !o->fix || o->override_guard ||
	       !brake_allows(c->session->store, c->watch->name, "send \"override_guard\": true", &f) ||
	       api_failed_as(c, 409, &f);
}

void call_scan(struct api_call *c)
{
	struct pass p = {.call = c, .end_ms = clock_boot_ms() + PASS_MS};
	struct scan_options o = {.limit = FOUND_USUAL,
	                         .actor = c->actor,
	                         .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                         .go_on = api_control_go_on,
	                         .observer = {note_scanned, NULL, &p}};
	struct buf *out = &c->out->body;
	struct scan_result r = {0};
	if (!read_scan_options(c, &o) || !api_control_ask_brake(c, &o))
		return;
	buf_add(out, "{\"watches\":[");
	scan_begin_json(c->watch, c->database, out);
	if (scan_watch(c->session, c->watch, &o, &r)) {
		c->failure = r.failure;
		return;
	}
	scan_end_json(&r, out);
	buf_add(out, "]");
	scan_counts_json(r.running, r.found, r.outcomes, out);
	json_bool(out, "stopped", r.stopped);
	buf_add(out, "}\n");
}

/*
 * ---- overrides ----
 * For one watch or for all of a database. The answer is that of `defib pause`, `resume` and `raise`
 * (view/status.h). A guard is overridden in the same way, once: the leader's next pass consumes the
 * record. It reaches the daemon that leads, wherever it runs, and the ledger has it before anything
 * is done.
 */

#define OVERRIDE_US (600 * US_PER_S) /* void if no pass used it by then */

static const char *target(const struct api_call *c)
{
	return c->route->where == API_WATCH ? c->watch->name : "*";
}

static void api_control_answer(struct api_call *c, const struct override_answer *answers, int n)
{
	AUTO_BUF all = BUF_INIT;
	struct viewer v = api_viewer(c, NULL);
	for (int i = 0; i < n; i++) {
		buf_add(&all, i ? "," : "");
		record_json(&override_answer_record, &answers[i], &v, &all);
	}
	override_answers_json(buf_text(&all), &c->out->body);
}

static void clear(struct api_call *c, const char *name)
{
	const struct override *still;
	struct override_answer *answers;
	int n;
	if (override_clear(c->session->store, target(c), name, &c->arena, &answers, &n, &still,
	                   &c->failure))
		return;
	if (still)
		api_problem(c, 409, "\"%s\" of %s is in force for all watches of database %s, set by %s",
		            name, target(c), c->database->name, still->actor);
	else
		api_control_answer(c, answers, n);
}

static void api_control_set(struct api_call *c, struct override *wanted, int64_t for_us)
{
	struct override_answer set;
	wanted->watch = target(c);
	wanted->actor = c->actor;
	if (!override_set(c->session->store, wanted, for_us, &c->arena, &set, &c->failure))
		api_control_answer(c, &set, 1);
}

/* Thresholds are raised, never shortened. Not needed to remove the override. */
static bool api_control_read_factor(struct api_call *c, bool needed, const char **value)
{
	const json_t *by = json_object_get(c->body, "by");
	double factor = json_number_value(by);
	if (!needed && (!by || json_is_null(by)))
		return true;
	if (!json_is_number(by) || !raise_factor_ok(factor))
		return api_problem(
			c, 400, "by must be a number from 1 to %d: thresholds can only be raised", RAISE_MOST);
	*value = arena_printf(&c->arena, "%g", factor);
	return true;
}

static bool api_control_read_span(struct api_call *c, int64_t *us)
{
	if (!api_body_duration(c, "for", us))
		return false;
	if (json_is_string(json_object_get(c->body, "for")) && *us < US_PER_S)
		return api_problem(c, 400, "for must be at least a second");
	return true;
}

static bool is_raise(const struct api_call *c)
{
	return text_eq(strrchr(c->route->path, '/'), "/raise");
}

void call_set_override(struct api_call *c)
{
	struct override wanted = {.name = "pause", .value = "on"};
	int64_t for_us = 0;
	bool off = false;
	if (!api_body_text(c, "reason", &wanted.reason) || !api_body_bool(c, "off", &off) ||
	    !api_control_read_span(c, &for_us))
		return;
	if (is_raise(c)) {
		wanted.name = "raise";
		if (!api_control_read_factor(c, !off, &wanted.value))
			return;
	}
	if (off)
		clear(c, wanted.name);
	else
		api_control_set(c, &wanted, for_us);
}

void call_clear_override(struct api_call *c)
{
	clear(c, "pause");
}

/* ---- overriding the guards, once ---- */

static defib_err note_override(struct api_call *c, const char *reason)
{
	char batch[64];
	const struct ledger_entry entry = {.job = "*",
	                                   .event = ENTRY_GUARD_OVERRIDDEN,
	                                   .rule = RULE_BY_HAND,
	                                   .reason = reason ? reason : "by hand"};
	const struct ledger_context ctx = {c->watch->name, batch, c->actor};
	snprintf(batch, sizeof batch, "override-%lld", (long long)clock_wall_us());
	struct store *s = c->session->store;
	defib_err err = store_begin(s, TX_WRITE, &c->failure);
	if (err)
		return err;
	err = ledger_append(s, &ctx, &entry, 1, &c->arena, &c->failure);
	return store_end(s, err, &c->failure);
}

void call_override_guard(struct api_call *c)
{
	struct override wanted = {.name = OVERRIDE_GUARDS, .value = "once"};
	struct bound bound;
	if (!api_body_text(c, "reason", &wanted.reason) || !api_writable(c, &bound) ||
	    (bound.ledger.ready && note_override(c, wanted.reason)))
		return;
	c->out->status = 202;
	api_control_set(c, &wanted, OVERRIDE_US);
}
