/* SPDX-License-Identifier: Apache-2.0
 * api_act.c: acts on jobs over HTTP: the routes, and acts on one job or on many. The answer is that
 * of the command (view/scan.h); if the act on a single job was not done, a problem says why.
 * Acts on all jobs that match are carried out by a daemon in the background; what one did is undone
 * as every batch is.
 */
#include "http/api_act.h"

#include "daemon/background_acts.h"
#include "http/api.h"
#include "http/api_control.h"
#include "http/api_values.h"
#include "http/thread_sessions.h"
#include "recover/browse.h"
#include "recover/by_hand.h"
#include "recover/carry.h"
#include "view/scan.h"
#include "worker/wake.h"

#include <assert.h>

#define JOBS_MOST 500 /* per call */

/* An act under way. */
struct doing {
	struct api_call *call;
	const struct act_kind *kind;
	struct by_hand_options options;
	struct bound bound;
	struct by_hand_result result;
	int njobs;
	enum outcome outcome; /* of the last job, … */
	const char *refusal;  /* … why, in the call's arena, … */
	const char *next;     /* … and what the caller can do about it, or NULL */
};

/* ---- what handlers share ---- */

/* Whether the call is about the built-in queue. */
static bool acts_on_queue(const struct api_call *c)
{
	return !settings_watch(&c->setup->settings, c->watch->name);
}

bool api_may_override(struct api_call *c, bool asked)
{
	if (!asked || c->role >= ROLE_ADMIN)
		return true;
	return api_problem(c, 403, "override_guard requires the role admin; the token has %s",
	                   role_names[c->role]);
}

const char *api_job_named(struct api_call *c, const struct watch *w, const char *text)
{
	const char *key[WATCH_KEYS_MAX];
	if (job_key(text, w->key.n, &c->arena, key))
		return job_text(key, w->key.n, &c->arena);
	api_problem(c, 404, "\"%s\" is not a key of watch %s, which has %d parts: [\"a\",\"b\"]", text,
	            w->name, w->key.n);
	return NULL;
}

bool api_term_named(struct api_call *c, const char *text, struct term *out)
{
	struct failure f = {0};
	if (!term_parse(c->watch, text, &c->arena, out, NULL, &f))
		return true;
	fail_prefix(&f, "where");
	return api_failed(c, &f);
}

bool api_writable(struct api_call *c, struct bound *out)
{
	struct api_watch *w;
	struct failure f = {0};
	if (!api_bound(c, &w))
		return false;
	if (!w->ledger.ready && c->setup->settings.ledger != LEDGER_OFF &&
	    ledger_open(c->session->store, true, &w->ledger, &f))
		return api_failed(c, &f);
	*out = (struct bound){.binding = w->binding, .sql = w->sql, .ledger = w->ledger, .ready = true};
	return true;
}

bool api_body_duration(struct api_call *c, const char *name, int64_t *us)
{
	const char *text = NULL;
	if (!api_body_text(c, name, &text))
		return false;
	if (!text || duration_parse(text, us))
		return true;
	return api_problem(c, 400, "%s must be a duration such as \"90s\", \"15m\" or \"7d\"", name);
}

/* ---- doing it ---- */

static enum outcome api_act_good_outcome(const struct doing *d)
{
	return d->options.dry_run ? OUTCOME_LEFT : act_outcome(d->kind->act);
}

static void note_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct doing *d = ctx;
	struct buf *out = &d->call->out->body;
	if (d->njobs++)
		buf_add(out, ",");
	act_job_json(w, c, api_act_good_outcome(d), CALLER_HTTP, out);
	AUTO_BUF why = BUF_INIT;
	refusal_sentence(c, &why);
	d->outcome = c->outcome;
	d->refusal = c->refusal ? arena_strdup(&d->call->arena, buf_text(&why)) : NULL;
	d->next = refusal_next(c, CALLER_HTTP);
}

static bool api_act_read_options(struct doing *d)
{
	struct api_call *c = d->call;
	struct by_hand_options *o = &d->options;
	assert(d->kind != NULL);
	*o = (struct by_hand_options){.act = d->kind->act,
	                              .actor = c->actor,
	                              .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                              .bound = &d->bound,
	                              .job = note_job,
	                              .ctx = d};
	if (!api_body_text(c, "reason", &o->reason) || !api_body_bool(c, "dry_run", &o->dry_run) ||
	    !api_body_bool(c, "override_guard", &o->override_guard) ||
	    !api_body_text(c, "from_step", &o->step) || !api_may_override(c, o->override_guard))
		return false;
	if (o->step && !act_has(d->kind->act, ACT_WAITS))
		return api_problem(c, 400, "from_step is only for retry");
	return true;
}

/* Whether the watch defines the act; prepares its statements. */
static bool api_act_begin(struct doing *d)
{
	struct api_call *c = d->call;
	struct failure f = {0};
	if (act_configured(d->kind, c->watch, &f))
		return api_failed_as(c, 422, &f);
	return api_writable(c, &d->bound);
}

/* NULL: nothing was written. */
static const char *how_to_undo(const struct doing *d)
{
	struct api_call *c = d->call;
	if (!d->result.batch[0])
		return NULL;
	return arena_printf(&c->arena, "POST /api/v1/undo?database=%s {\"batch\":\"%s\"}",
	                    c->database->name, d->result.batch);
}

/* The complete document; false after a problem. */
static bool api_act_carry_out(struct doing *d, const char *const *jobs, int n, bool limited)
{
	struct api_call *c = d->call;
	struct buf *out = &c->out->body;
	act_begin_json(d->kind->verb, d->options.dry_run, out);
	act_group_begin_json(c->watch, c->database, out);
	if (n > 0)
		by_hand(c->session, c->watch, &d->options, jobs, n, &d->result);
	if (d->result.failure.code)
		return api_failed(c, &d->result.failure);
	act_group_end_json(&d->result, out);
	buf_add(out, "]");
	json_bool(out, "limited", limited);
	json_text(out, "undo", how_to_undo(d));
	buf_add(out, "}\n");
	/* The jobs are ready: waiting workers are woken. */
	if (acts_on_queue(c) && d->result.batch[0])
		wake_send(c->session->store, c->database->url);
	return true;
}

/* ---- one job ---- */

/* The outcome of a job, where its name says too little. */
static const char *const why_not[OUTCOME_COUNT] = {
	[OUTCOME_LEFT] = "there was nothing to do",
	[OUTCOME_CHANGED] = "it has changed in the meantime; read it again",
	[OUTCOME_LOCKED] = "its row is locked by another transaction; try again",
	[OUTCOME_GUARDED] = "a guard holds it back",
};

static void not_done(const struct doing *d, const char *job)
{
	struct api_call *c = d->call;
	struct failure f = {0};
	const char *why = d->refusal ? d->refusal : why_not[d->outcome];
	if (d->outcome == OUTCOME_MISSING) {
		api_problem(c, 404, "watch %s has no job %s", c->watch->name, job);
		return;
	}
	fail(&f, DEFIB_REFUSED, "job %s of watch %s was not %s: %s", job, c->watch->name, d->kind->done,
	     why ? why : "");
	if (d->next)
		fail_next(&f, "%s", d->next);
	api_failed_as(c, 409, &f);
}

static void call_act(struct api_call *c)
{
	struct doing d = {.call = c,
	                  .kind = act_kind_named(strrchr(c->route->path, '/') + 1),
	                  .outcome = OUTCOME_MISSING};
	const char *job = api_job_named(c, c->watch, c->parts[1]);
	if (!job || !api_act_read_options(&d) || !api_act_begin(&d))
		return;
	bool done = api_act_carry_out(&d, &job, 1, false);
	if (done ? d.outcome != api_act_good_outcome(&d)
	         : d.result.failure.reason == REASON_NOT_OF_TYPE)
		not_done(&d, job);
}

/* ---- many jobs ---- */

/* A key as it may occur in a list: a text, a number, or an array of them. */
static const char *listed_key(struct api_call *c, const json_t *item)
{
	if (json_is_string(item))
		return json_string_value(item);
	if (json_is_integer(item))
		return arena_printf(&c->arena, "%lld", (long long)json_integer_value(item));
	char *text = json_is_array(item) ? json_dumps(item, JSON_COMPACT) : NULL;
	const char *copy = text ? arena_strdup(&c->arena, text) : NULL;
	free(text);
	return copy;
}

static bool listed_jobs(struct api_call *c, const json_t *list, const char **jobs, int *n)
{
	size_t i;
	json_t *item;
	if (!json_is_array(list) || json_array_size(list) > JOBS_MOST)
		return api_problem(c, 400, "jobs must be a list of at most %d keys", JOBS_MOST);
	json_array_foreach(list, i, item)
	{
		const char *text = listed_key(c, item);
		if (!text)
			return api_problem(c, 400, "jobs[%zu] is not a key", i);
		jobs[i] = api_job_named(c, c->watch, text);
		if (!jobs[i])
			return false;
	}
	*n = (int)json_array_size(list);
	return true;
}

/* `texts` may be NULL. */
static bool api_act_read_terms(struct api_call *c, const json_t *list, struct term *terms,
                               const char **texts, int *n)
{
	size_t i;
	json_t *item;
	if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > TERMS_MAX)
		return api_problem(c, 400, "where must be a list of 1 to %d terms such as \"state=failed\"",
		                   TERMS_MAX);
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return api_problem(c, 400, "where[%zu] is not a string", i);
		if (!api_term_named(c, json_string_value(item), &terms[i]))
			return false;
		if (texts)
			texts[i] = json_string_value(item);
	}
	*n = (int)json_array_size(list);
	return true;
}

#define SEARCH_MS 30000 /* a client does not wait much longer */

static bool found_jobs(struct doing *d, const json_t *where, int64_t limit, const char **jobs,
                       int *n, bool *more)
{
	struct api_call *c = d->call;
	struct term terms[TERMS_MAX];
	struct browse_bound bound = {.for_ms = SEARCH_MS};
	struct browse o = {.terms = terms, .limit = limit, .bound = &bound};
	struct browsed *rows;
	struct failure f = {0};
	if (where && !api_act_read_terms(c, where, terms, NULL, &o.nterms))
		return false;
	o.sort = browse_sort(terms, o.nterms);
	if (browse_jobs(&(struct look){c->session->store, &d->bound.sql, &d->bound.ledger, &c->arena},
	                &o, &rows, n, more, &f))
		return api_failed(c, &f);
	if (bound.cut && *n == 0) {
		fail(&f, DEFIB_TIMEOUT, "no job was found in %lld rows, and the table has more",
		     (long long)bound.examined);
		fail_next(&f, "use \"background\": true, which searches the whole table");
		return api_failed(c, &f);
	}
	*more = *more || bound.cut;
	for (int i = 0; i < *n; i++)
		jobs[i] = rows[i].job;
	return true;
}

static bool read_act(struct doing *d)
{
	struct api_call *c = d->call;
	const char *verb = NULL;
	if (!api_body_text(c, "act", &verb))
		return false;
	AUTO_BUF all = BUF_INIT;
	const char *acts[ACT_COUNT + 1];
	d->kind = verb ? act_kind_named(verb) : NULL;
	if (d->kind && d->kind->by_hand == BY_HAND_MANY)
		return true;
	acts_of_many(acts);
	words_list(acts, &all);
	return api_problem(c, 400, "act must be %s%s%s%s", buf_text(&all), verb ? ", not \"" : "",
	                   verb ? verb : "", verb ? "\"" : "");
}

/* On all that match, carried out by the daemon that leads the watch. */
static void order_all(struct doing *d, const json_t *where, bool all)
{
	struct api_call *c = d->call;
	struct term terms[TERMS_MAX];
	const char *texts[TERMS_MAX];
	struct background_order o = {.kind = d->kind,
	                             .texts = texts,
	                             .terms = terms,
	                             .step = d->options.step,
	                             .reason = d->options.reason,
	                             .actor = c->actor,
	                             .overrides = d->options.override_guard};
	if (json_object_get(c->body, "jobs") || d->options.dry_run || (where != NULL) == all) {
		api_problem(
			c, 400,
			"background needs where or \"all\": true, not both, and neither jobs nor dry_run");
		return;
	}
	if ((!where || api_act_read_terms(c, where, terms, texts, &o.nterms)) && api_act_begin(d))
		call_background(c, &o, &d->bound);
}

static void call_acts(struct api_call *c)
{
	struct doing d = {.call = c};
	bool background = false, all = false;
	const char **jobs = ARENA_ARRAY(&c->arena, const char *, JOBS_MOST);
	const json_t *list = json_object_get(c->body, "jobs");
	const json_t *where = json_object_get(c->body, "where");
	int64_t limit = JOBS_MOST;
	bool more = false;
	int n = 0;
	if (!read_act(&d) || !api_act_read_options(&d) ||
	    !api_body_bool(c, "background", &background) || !api_body_bool(c, "all", &all) ||
	    !api_body_int(c, "limit", 1, JOBS_MOST, &limit))
		return;
	if (background) {
		order_all(&d, where, all);
		return;
	}
	if ((list != NULL) + (where != NULL) + all != 1) {
		api_problem(c, 400,
		            "give jobs, a list of keys, or where, a list of terms, or \"all\": true");
		return;
	}
	if (!api_act_begin(&d) ||
	    !(list ? listed_jobs(c, list, jobs, &n) : found_jobs(&d, where, limit, jobs, &n, &more)))
		return;
	(void)api_act_carry_out(&d, jobs, n, more);
}

/* ---- ending a job ---- */

static void api_act_missing(struct api_call *c, const char *job)
{
	api_problem(c, 404, "watch %s has no job %s", c->watch->name, job);
}

static void note_outcome(void *ctx, const struct watch *w, const struct candidate *c)
{
	enum outcome *outcome = ctx;
	(void)w;
	*outcome = c->outcome;
}

/* A job of the queue ends by being cancelled. If that is refused, it was over already. */
static void end_in_queue(struct api_call *c, struct bound *b, const char *job, const char *reason)
{
	enum outcome outcome = OUTCOME_MISSING;
	struct by_hand_result result;
	const struct by_hand_options o = {.act = ACT_CANCEL,
	                                  .actor = c->actor,
	                                  .reason = reason,
	                                  .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                                  .bound = b,
	                                  .job = note_outcome,
	                                  .ctx = &outcome};
	if (by_hand(c->session, c->watch, &o, &job, 1, &result) &&
	    result.failure.reason != REASON_NOT_OF_TYPE) {
		c->failure = result.failure;
	} else if (outcome == OUTCOME_MISSING) {
		api_act_missing(c, job);
	} else if (outcome == OUTCOME_LOCKED) {
		api_problem(c, 409, "job %s is locked by another transaction; try again", job);
	} else {
		c->out->status = 204;
		if (result.batch[0])
			wake_send(c->session->store, c->database->url);
	}
}

static void end_in_table(struct api_call *c, struct bound *b, const char *job, const char *reason)
{
	const struct end_options o = {.job = job,
	                              .actor = c->actor,
	                              .reason = reason,
	                              .ledger_off = c->setup->settings.ledger == LEDGER_OFF,
	                              .bound = b};
	struct failure f = {0};
	enum ending ending = ENDING_MISSING;
	defib_err err = end_job(c->session, c->watch, &o, &ending, &f);
	if (err && f.reason != REASON_NOT_OF_TYPE)
		api_failed(c, &f);
	else if (ending == ENDING_MISSING)
		api_act_missing(c, job);
	else if (ending == ENDING_LOCKED)
		api_problem(c, 409, "job %s is locked by another transaction; try again", job);
	else
		c->out->status = 204;
}

static void call_end(struct api_call *c)
{
	const char *reason = NULL;
	struct failure f = {0};
	struct bound bound;
	bool queue = acts_on_queue(c);
	const char *job = api_job_named(c, c->watch, c->parts[1]);
	if (!job || !api_body_text(c, "reason", &reason))
		return;
	if (!queue && act_configured(act_kind_named("end"), c->watch, &f)) {
		api_failed_as(c, 422, &f);
		return;
	}
	if (!api_writable(c, &bound))
		return;
	if (queue)
		end_in_queue(c, &bound, job, reason);
	else
		end_in_table(c, &bound, job, reason);
}

/* ---- the routes ---- */

#define JOB "/watches/{watch}/jobs/{key}"
#define ACT_MEMBERS "reason dry_run override_guard from_step"
/* clang-format off */
/* A column of the table of acts: which route an act has. */
#define ACT_BY_HAND_NO(verb, text)
#define ACT_BY_HAND_ONE(verb, text) \
	API_POST(JOB "/" verb, ROLE_OPERATOR, API_WATCH, "reason", text, call_end),
#define ACT_BY_HAND_MANY(verb, text) \
	API_POST(JOB "/" verb, ROLE_OPERATOR, API_WATCH, ACT_MEMBERS, text, call_act),
#define ACT(id, verb, by_hand, marks, event, outcome, count, example, reason, done, becomes, \
            would, text, ...) \
	ACT_BY_HAND_##by_hand(verb, text)
#define OVERRIDE(name, who, takes, text, run) \
	API_POST("/watches/{watch}/" name, who, API_WATCH, takes, text, run), \
	API_POST("/" name, who, API_DATABASE, takes, text ", all watches of a database", run)
/* clang-format on */

/* ---- background acts ---- */

#define ACTS_PAGE 20
#define ACTS_MOST 200

static void api_act_add_act(struct api_call *c, const struct background_act *act)
{
	struct viewer v = api_viewer(c, settings_watch(&c->setup->settings, act->watch));
	record_json(&background_record, act, &v, &c->out->body);
}

void call_background(struct api_call *c, const struct background_order *o, const struct bound *b)
{
	struct background_act act;
	struct background_act *stored = NULL;
	int n = 0;
	if (background_plan(c->session, b, c->watch, o, &c->arena, &act, &c->failure) ||
	    background_add(c->session->store, &act, &c->arena, &c->failure))
		return;
	if (background_read(c->session->store, act.id, 1, &c->arena, &stored, &n, &c->failure))
		return;
	c->out->status = 202;
	api_act_add_act(c, n ? stored : &act);
	buf_add(&c->out->body, "\n");
}

static void api_act_list_acts(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct background_act *acts = NULL;
	int64_t limit = ACTS_PAGE;
	bool there = false;
	int n = 0;
	if (!api_query_int(c, "limit", 1, ACTS_MOST, &limit) ||
	    background_open(c->session->store, false, &there, &c->failure) ||
	    (there &&
	     background_read(c->session->store, NULL, limit, &c->arena, &acts, &n, &c->failure)))
		return;
	struct viewer v = api_viewer(c, NULL);
	record_json_open(&database_record, NULL, &v, out);
	buf_add(out, ",\"acts\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n" : "\n");
		api_act_add_act(c, &acts[i]);
	}
	buf_add(out, "\n]}\n");
}

/* False after a problem. */
static bool act_named(struct api_call *c, struct background_act **act)
{
	bool there = false;
	int n = 0;
	if (background_open(c->session->store, false, &there, &c->failure) ||
	    (there &&
	     background_read(c->session->store, c->parts[0], 1, &c->arena, act, &n, &c->failure)))
		return false;
	if (n == 0)
		api_problem(c, 404, "there is no background act %s in database %s", c->parts[0],
		            c->database->name);
	return n > 0;
}

static void api_act_show_act(struct api_call *c)
{
	struct background_act *act = NULL;
	if (!act_named(c, &act))
		return;
	api_act_add_act(c, act);
	buf_add(&c->out->body, "\n");
}

static void api_act_cancel_act(struct api_call *c)
{
	struct background_act *act = NULL;
	bool was = false;
	if (!act_named(c, &act) || background_cancel(c->session->store, c->parts[0], &was, &c->failure))
		return;
	if (!was) {
		api_problem(c, 409, "background act %s has ended: %s", act->id, act->state);
		return;
	}
	api_act_show_act(c);
}

/* ---- the routes ---- */

const struct api_route api_act_routes[] = {
	REMEDY_LIST(ACT) ACT_LIST(ACT){"DELETE", JOB, ROLE_OPERATOR, API_WATCH, "reason", true, true,
                                   "end a job", call_end},
	API_POST(JOB "/undo", ROLE_OPERATOR, API_WATCH, "reason dry_run",
             "undo the last change to a job", call_undo_job),
	API_POST("/watches/{watch}/acts", ROLE_OPERATOR, API_WATCH,
             "act jobs where limit background all " ACT_MEMBERS, "act on many jobs", call_acts),
	API_POST("/undo", ROLE_OPERATOR, API_DATABASE, "batch reason dry_run", "undo a batch",
             call_undo),
	API_POST("/watches/{watch}/scan", ROLE_OPERATOR, API_WATCH,
             "fix limit remedy reason override_guard",
             "scan for stuck jobs now, and recover them if asked", call_scan),
	OVERRIDE("pause", ROLE_OPERATOR, "for reason", "pause recovery", call_set_override),
	OVERRIDE("resume", ROLE_OPERATOR, "", "resume recovery", call_clear_override),
	OVERRIDE("raise", ROLE_ADMIN, "by for off reason", "raise the thresholds", call_set_override),
	API_POST("/watches/{watch}/override-guard", ROLE_ADMIN, API_WATCH, "reason",
             "the next scan ignores doubt, brake and second look", call_override_guard),
	API_GET("/acts", ROLE_VIEWER, API_DATABASE, "limit",
            "background acts, those that have not ended first", api_act_list_acts),
	API_GET("/acts/{id}", ROLE_VIEWER, API_DATABASE, "", "one background act", api_act_show_act),
	API_POST("/acts/{id}/cancel", ROLE_OPERATOR, API_DATABASE, "",
             "cancel a background act; what was done stays", api_act_cancel_act),
	{.method = NULL},
};
