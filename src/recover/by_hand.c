/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/by_hand.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "recover/carry.h"
#include "recover/evidence.h"
#include "recover/look.h"
#include "recover/masked.h"

#include <time.h>

struct hands {
	struct session *session;
	const struct watch *watch;
	const struct by_hand_options *options;
	struct by_hand_result *result;
	struct bound *bound, own; /* `own` if the caller keeps none */
	struct carrier carrier;
	struct arena arena; /* of the current batch */
	int act;            /* what is actually written */
};

/*
 * A retry by hand does not wait: it applies the second half at once, or a requeue if no retry is
 * configured.
 */
static int really(const struct watch *w, int act)
{
	if (act != REMEDY_RETRY)
		return act;
	if (w->actions[ACT_THEN].form != ACTION_NONE)
		return ACT_THEN;
	return w->actions[REMEDY_RETRY].form != ACTION_NONE ? REMEDY_RETRY : REMEDY_REQUEUE;
}

static bool takes_from_worker(int act)
{
	return act == REMEDY_REQUEUE || act == REMEDY_RETRY || act == ACT_THEN || act == REMEDY_FAIL ||
	       act == REMEDY_ROLLBACK;
}

static bool uses_step(const struct hands *h)
{
	const struct watch_sql *q = &h->bound->sql;
	for (int i = 0; i < q->nwrites[h->act]; i++)
		if (q->writes[h->act][i].uses[STUCK_STEP])
			return true;
	return false;
}

static void refuse(struct candidate *c, const char *why)
{
	c->outcome = OUTCOME_REFUSED;
	c->refusal = why;
	c->decision.act = false;
}

/*
 * A hold that the user's table records is identified through the ledger: the row is as the hold
 * left it.
 */
static defib_err is_held(struct hands *h, const struct facts *f, bool *held, struct failure *fail)
{
	struct ledger_filter filter = {.watch = h->watch->name,
	                               .job = f->job,
	                               .event = act_event(REMEDY_HOLD),
	                               .limit = 1,
	                               .newest_first = true};
	struct ledger_row *rows;
	int n = 0;
	*held = hold_in_force(f->hold);
	if (*held || h->watch->actions[REMEDY_HOLD].form == ACTION_NONE || !h->bound->ledger.ready)
		return DEFIB_OK;
	defib_err err = ledger_read(h->session->store, &filter, &h->arena, &rows, &n, fail);
	struct column_set written = {h->bound->sql.before, h->bound->sql.nbefore};
	bool as_left =
		!err && n > 0 && columns_same(rows[0].after, f->before, &written, &h->arena, NULL);
	*held = hold_in_force(hold_state_of_row(f->hold, as_left));
	return err;
}

/* ---- steps that a foreign worker has finished ---- */

static bool gives_back(int act)
{
	return act == REMEDY_REQUEUE || act == REMEDY_RETRY || act == ACT_THEN || act == ACT_RELEASE ||
	       act == REMEDY_ROLLBACK;
}

static void refuse_unknown(struct hands *h, struct candidate *c)
{
	const char *ways = h->act == ACT_RELEASE || h->act == REMEDY_ROLLBACK
	                       ? "add steps_done: to the watch, or retry the job with --from-step"
	                       : "add steps_done: to the watch; --override-guard runs it anyway, from "
	                         "--from-step or else from its first step";
	refuse(c, arena_printf(&h->arena,
	                       "it is unknown which steps of workflow %s another worker has finished, "
	                       "and they must not run again: %s",
	                       work_workflow(&h->watch->work, c->facts.kind)->name, ways));
}

/* Steps of foreign workers that would run again, from the chosen one on. */
static defib_err guard_again(struct hands *h, const struct workflow *w, int from,
                             struct candidate *c, struct failure *f)
{
	AUTO_BUF names = BUF_INIT;
	struct store_rows rows;
	defib_err err =
		steps_done_by(h->session->store, h->watch->name, c->facts.job, &h->arena, &rows, f);
	for (int at = from; !err && at < w->nsteps; at++) {
		bool finished = false, by_ours = false;
		for (int i = 0; i < rows.nrows; i++)
			if (text_eq(row_text(&rows, i, 0), w->steps[at].name)) {
				finished = true;
				by_ours = row_int(&rows, i, 1, 0) > 0;
			}
		for (int i = 0; i < c->nknown; i++)
			if (c->known[i].position == at) {
				c->known[i].again = true;
				finished = true;
			}
		if (finished && !by_ours)
			buf_addf(&names, "%s%s", names.len ? ", " : "", w->steps[at].name);
	}
	if (names.len && !h->options->override_guard)
		refuse(c, arena_printf(&h->arena,
		                       "another worker has finished %s: it would run again and overwrite "
		                       "its output; --override-guard runs it anyway",
		                       buf_text(&names)));
	return err;
}

/*
 * Steps that the row says are finished are recorded with the act, so that they do not run again.
 * With --from-step and the override, the operator states it if the row does not.
 */
static defib_err guard_steps(struct hands *h, struct candidate *c, struct failure *f)
{
	const struct by_hand_options *o = h->options;
	const struct workflow *w = work_workflow(&h->watch->work, c->facts.kind);
	struct finished_step *done;
	int n = 0, from = w && o->step ? workflow_position(w, o->step) : -1;
	bool ours = false;
	bool other_hold = h->act == ACT_RELEASE && !text_eq(c->facts.hold_cause, HOLD_STEPS);
	if (!w || !gives_back(h->act) || !c->decision.act || other_hold)
		return DEFIB_OK;
	if (o->step && from < 0) {
		refuse(c, "its workflow has no step of that name");
		return DEFIB_OK;
	}
	bool said = steps_done_parse(w, c->facts.steps_done, &h->arena, &done, &n);
	defib_err err =
		steps_ours(h->session->store, h->watch->name, c->facts.job, &h->arena, &ours, f);
	if (err)
		return err;
	bool over = o->override_guard && h->act != ACT_RELEASE && h->act != REMEDY_ROLLBACK;
	if (!said && !ours && !over) {
		refuse_unknown(h, c);
		return DEFIB_OK;
	}
	c->known = ARENA_ARRAY(&h->arena, struct step_known, n + w->nsteps + 1);
	for (int i = 0; i < n; i++)
		c->known[c->nknown++] = (struct step_known){done[i].name, done[i].position, false};
	/* The operator states it: steps before the chosen one are finished, the rest are not. */
	int first = from < 0 ? 0 : from;
	for (int i = 0; !said && !ours && i <= first; i++)
		c->known[c->nknown++] = (struct step_known){w->steps[i].name, i, i == first};
	return o->step ? guard_again(h, w, from, c, f) : DEFIB_OK;
}

/* What an operator may not do to this job, or not in this way. */
static defib_err guard(struct hands *h, struct candidate *c, struct failure *f)
{
	const struct by_hand_options *o = h->options;
	AUTO_BUF why = BUF_INIT;
	bool good = false;
	defib_err err = DEFIB_OK;
	bool lives = c->facts.running && c->judgement.verdict == VERDICT_NONE;
	if (lives && takes_from_worker(h->act) && !o->override_guard) {
		buf_add(&why, "it is running and not stuck: ");
		evidence_sentence(&c->judgement, &why);
		buf_add(&why, "; --override-guard does it anyway");
		refuse(c, arena_strdup(&h->arena, buf_text(&why)));
	}
	if (o->running_only && !c->facts.running)
		refuse(c, "it is no longer running");
	if (h->act == ACT_RELEASE && !(err = is_held(h, &c->facts, &good, f)) && !good)
		refuse(c, "it is not on hold");
	if (!err && o->step && !uses_step(h)) {
		err = steps_has(h->session->store, h->watch->name, c->facts.job, o->step, &h->arena, &good,
		                f);
		if (!err && !good)
			refuse(c, "it has no step of that name");
	}
	return err ? err : guard_steps(h, c, f);
}

/* The evidence, including that an operator overrode a guard. */
static const char *evidence(struct hands *h, const struct candidate *c)
{
	const struct by_hand_options *o = h->options;
	AUTO_BUF text = BUF_INIT, out = BUF_INIT;
	evidence_json(h->watch, &c->facts, &c->judgement, &text);
	buf_addn(&out, buf_text(&text), strlen(buf_text(&text)) - 1);
	if (o->override_guard)
		buf_add(&out, ",\"override_guard\":true");
	if (o->step) {
		buf_add(&out, ",\"from_step\":");
		buf_add_json(&out, o->step);
	}
	buf_add(&out, "}");
	return arena_strdup(&h->arena, buf_text(&out));
}

/* An operator's text must not put masked values into the ledger or into the row's error column. */
static const char *masked_reason(struct hands *h, const struct facts *f)
{
	struct secrets secrets = {0};
	AUTO_BUF shown = BUF_INIT;
	secrets_facts(&secrets, h->watch, f);
	masked_free_text(h->watch, &secrets, h->options->reason, &shown);
	const char *reason = arena_strdup(&h->arena, buf_text(&shown));
	secrets_release(&secrets);
	return reason;
}

/* What an operator should know when releasing a job. */
static const char *release_warning(struct hands *h, const struct candidate *c)
{
	const struct facts *f = &c->facts;
	bool stuck = f->running && c->judgement.verdict != VERDICT_NONE;
	if (f->hold == HOLD_STATE_POISON)
		return arena_printf(
			&h->arena,
			"its next worker may crash as the earlier ones did: it was held as poison (%s)",
			f->hold_reason ? f->hold_reason : hold_cause_words(HOLD_POISON));
	if (c->does == ACT_LIFT && stuck)
		return "only the hold ends: the watch does not say how to requeue a job";
	return NULL;
}

static void prepare(struct hands *h, const struct facts *facts, struct candidate *c)
{
	const struct by_hand_options *o = h->options;
	bool remedy = h->act < REMEDY_COUNT;
	*c = (struct candidate){.facts = *facts, .judgement = judge(h->watch, facts)};
	bool stuck = facts->running && c->judgement.verdict != VERDICT_NONE;
	bool parked = !facts->running && watch_writes_hold(h->watch);
	bool words = h->watch->actions[watch_releases_by(h->watch)].form != ACTION_NONE;
	c->decision = (struct decision){.remedy = remedy ? (enum remedy)h->act : REMEDY_RETRY,
	                                .act = h->act != REMEDY_REPORT,
	                                .why = "an operator chose this",
	                                .cause = HOLD_BY_HAND};
	snprintf(c->decision.rule, sizeof c->decision.rule, RULE_BY_HAND);
	/*
	 * A live job is left to its worker, and a job held only in our own table was never taken away.
	 */
	c->does = h->act == ACT_RELEASE && !(words && (stuck || parked)) ? ACT_LIFT : h->act;
	c->event = h->act == ACT_THEN && o->step ? ENTRY_RETRY_FROM_STEP : NULL;
	c->expected = facts->before;
	c->step = o->step;
	c->retry_us = facts->now_us; /* an operator does not wait for a backoff */
	c->reason = o->reason ? masked_reason(h, facts) : "by hand";
	c->evidence = evidence(h, c);
	c->warning = h->act == ACT_RELEASE ? release_warning(h, c) : NULL;
}

/* Candidates in the order in which they were named; jobs that do not exist are missing. */
static defib_err look(struct hands *h, const char *const *jobs, int n, struct candidate *out,
                      struct failure *f)
{
	struct facts *facts;
	defib_err err = look_each(h->session->store, &h->bound->sql, &h->bound->ledger, jobs, n,
	                          &h->arena, &facts, f);
	for (int i = 0; !err && i < n; i++) {
		out[i] = (struct candidate){.facts = {.job = jobs[i]}, .outcome = OUTCOME_MISSING};
		if (!facts[i].job)
			continue;
		prepare(h, &facts[i], &out[i]);
		err = guard(h, &out[i], f);
	}
	return err;
}

static void tell(struct hands *h, const struct candidate *batch, int n)
{
	for (int i = 0; i < n; i++) {
		h->result->outcomes[batch[i].outcome]++;
		if (h->options->job)
			h->options->job(h->options->ctx, h->watch, &batch[i]);
	}
}

static defib_err do_batch(struct hands *h, const char *const *jobs, int n, struct failure *f)
{
	struct candidate *batch = ARENA_ARRAY(&h->arena, struct candidate, n);
	defib_err err = look(h, jobs, n, batch, f);
	if (!err && !h->options->dry_run) {
		int acting = acting_first(batch, n, &h->arena);
		if (acting)
			err = carry(&h->carrier, batch, acting, &h->arena, f);
	}
	if (!err)
		tell(h, batch, n);
	arena_clear(&h->carrier.arena);
	arena_clear(&h->arena);
	return err;
}

static enum bound_ledger ledger_for(const struct by_hand_options *o)
{
	return o->ledger_off ? LEDGER_NONE : o->dry_run ? LEDGER_FIND : LEDGER_CREATE;
}

static defib_err set_up(struct hands *h, struct failure *f)
{
	const struct by_hand_options *o = h->options;
	defib_err err = bound_can(h->watch, h->act, f);
	if (!err)
		err = bound_open(h->bound, h->session, h->watch, ledger_for(o), f);
	h->result->ledger = h->bound->ledger.ready;
	if (!err && h->act == REMEDY_HOLD && !h->bound->ledger.ready && !o->dry_run &&
	    h->watch->actions[REMEDY_HOLD].form == ACTION_NONE) {
		fail(f, DEFIB_REFUSED,
		     "watch %s: a hold is stored in defib's own tables, which are off (%s)", h->watch->name,
		     h->bound->ledger.off_because);
		fail_next(f, "keep the ledger on, or add hold: to the watch");
		err = DEFIB_REFUSED;
	}
	carrier_begin(&h->carrier, o->actor);
	if (o->batch) {
		snprintf(h->carrier.name, sizeof h->carrier.name, "%s", o->batch);
		h->carrier.transactions = o->parts;
	}
	return err;
}

defib_err by_hand(struct session *session, const struct watch *w, const struct by_hand_options *o,
                  const char *const *jobs, int n, struct by_hand_result *result)
{
	struct hands h = {
		.session = session, .watch = w, .options = o, .result = result, .act = really(w, o->act)};
	struct failure *f = &result->failure;
	*result = (struct by_hand_result){0};
	h.bound = o->bound ? o->bound : &h.own;
	h.carrier = (struct carrier){
		.session = session, .sql = &h.bound->sql, .ledger = &h.bound->ledger, .opened = -1};
	defib_err err = set_up(&h, f);
	for (int at = 0; at < n && !err; at += (int)w->batch)
		err = do_batch(&h, jobs + at, n - at < w->batch ? n - at : (int)w->batch, f);
	/* After a failure it is unknown what was written; the ledger has it. */
	result->parts = h.carrier.transactions;
	if (h.carrier.transactions > o->parts &&
	    (err || result->outcomes[OUTCOME_RECOVERED] || result->outcomes[OUTCOME_HELD]))
		snprintf(result->batch, sizeof result->batch, "%s", h.carrier.name);
	arena_release(&h.carrier.arena);
	arena_release(&h.arena);
	bound_release(&h.own);
	f->code = err;
	return err;
}

/* ---- what an operator may do ---- */

static const struct act_kind kinds[] = {
	{"retry", "set to run again", REMEDY_RETRY, OUTCOME_RECOVERED, "status = 'queued'"},
	{"requeue", "requeued", REMEDY_REQUEUE, OUTCOME_RECOVERED, "status = 'queued'"},
	{"fail", "failed", REMEDY_FAIL, OUTCOME_RECOVERED, "status = 'failed', error = :reason"},
	{"hold", "held", REMEDY_HOLD, OUTCOME_HELD, NULL},
	{"release", "released", ACT_RELEASE, OUTCOME_RECOVERED, NULL},
	{"rollback", "set to roll back", REMEDY_ROLLBACK, OUTCOME_RECOVERED, "status = 'rolling_back'"},
	{"cancel", "cancelled", ACT_CANCEL, OUTCOME_RECOVERED, "status = 'cancelling'"},
	{"end", "ended", ACT_END, OUTCOME_RECOVERED, "status = 'ending'"},
	{NULL, NULL, 0, OUTCOME_LEFT, NULL},
};

const struct act_kind *act_kind_named(const char *verb)
{
	const struct act_kind *k = kinds;
	while (k->verb && !text_eq(k->verb, verb))
		k++;
	return k->verb ? k : NULL;
}

defib_err act_configured(const struct act_kind *kind, const struct watch *w, struct failure *f)
{
	bool how = !kind->example || w->actions[kind->act].form != ACTION_NONE;
	if (kind->act == REMEDY_RETRY)
		how = how || w->actions[ACT_THEN].form != ACTION_NONE ||
		      w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	if (how)
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "watch %s does not say how to %s", w->name, kind->verb);
	fail_next(f, "add to the watch, in terms of its table: %s: %s", kind->verb, kind->example);
	return DEFIB_CONFIG;
}

/* ---- ending a job ---- */

/*
 * Ends a job on request, see by_hand.h.
 *
 * Most requests are repeated: a second click, a client that retries. So the row is read first, by
 * its key, and one that is already ending is left alone: not even its time is written, which may be
 * its place in a queue. If it may be ended, the write takes the path of every other act, and checks
 * `end_when` again in its own WHERE, under the row's lock. The loser of such a race reads again and
 * finds it done.
 */

#define WAIT_MS 3000 /* for another transaction on the row */
#define PAUSE_MS 5

/* Is end_when true? *there is false if there is no such row. */
static defib_err may_end(struct session *session, const struct watch_sql *q, const char *job,
                         bool *there, bool *may, struct failure *f)
{
	const struct watch *w = q->binding->watch;
	struct store_param params[WATCH_KEYS_MAX];
	const char *key[WATCH_KEYS_MAX];
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = DEFIB_OK;
	*there = *may = false;
	if (job_key(job, w->key.n, &a, key)) {
		for (int k = 0; k < w->key.n; k++)
			params[k] = P_TEXT(key[k]);
		err = store_exec(session->store, q->may_end, params, w->key.n, &a, &rows, f);
		*there = !err && rows.nrows > 0;
		*may = *there && row_bool(&rows, 0, 0);
	}
	return err;
}

/* What by_hand() reported about the job. */
struct said {
	enum outcome outcome;
	char refusal[256];
};

static void hear(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct said *said = ctx;
	(void)w;
	said->outcome = c->outcome;
	snprintf(said->refusal, sizeof said->refusal, "%s", c->refusal ? c->refusal : "");
}

static defib_err try_end(struct session *session, const struct watch *w,
                         const struct end_options *o, struct bound *bound, struct said *said,
                         enum ending *out, struct failure *f)
{
	const struct by_hand_options act = {.act = ACT_END,
	                                    .reason = o->reason,
	                                    .actor = o->actor,
	                                    .ledger_off = o->ledger_off,
	                                    .bound = bound,
	                                    .job = hear,
	                                    .ctx = said};
	struct by_hand_result result;
	bool there, may, refused = said->outcome == OUTCOME_REFUSED;
	defib_err err = may_end(session, &bound->sql, o->job, &there, &may, f);
	if (err || !may) {
		*out = there ? ENDING_PAST : ENDING_MISSING;
		return err;
	}
	/* Refused, and not because another request was faster. */
	if (refused)
		return fail(f, DEFIB_REFUSED, "job %s of watch %s was not ended: %s", o->job, w->name,
		            said->refusal);
	err = by_hand(session, w, &act, &o->job, 1, &result);
	*out = said->outcome == OUTCOME_RECOVERED ? ENDING_MARKED : ENDING_LOCKED;
	if (err)
		*f = result.failure;
	return err;
}

defib_err end_job(struct session *session, const struct watch *w, const struct end_options *o,
                  enum ending *out, struct failure *f)
{
	const struct timespec pause = {0, PAUSE_MS * 1000000};
	const int64_t end_ms = clock_boot_ms() + WAIT_MS;
	struct bound own = {0}, *bound = o->bound ? o->bound : &own;
	struct said said = {.outcome = OUTCOME_LEFT};
	defib_err err = bound_can(w, ACT_END, f);
	if (!err)
		err = bound_open(bound, session, w, o->ledger_off ? LEDGER_NONE : LEDGER_CREATE, f);
	while (!err) {
		err = try_end(session, w, o, bound, &said, out, f);
		if (err || *out != ENDING_LOCKED || clock_boot_ms() >= end_ms)
			break;
		nanosleep(&pause, NULL);
	}
	bound_release(&own);
	return err;
}
