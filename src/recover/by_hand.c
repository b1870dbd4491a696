/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/by_hand.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "recover/carry.h"
#include "recover/evidence.h"
#include "recover/judge.h"
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
static int by_hand_act(const struct watch *w, int act)
{
	if (!act_has(act, ACT_WAITS))
		return act;
	if (w->actions[ACT_THEN].form != ACTION_NONE)
		return ACT_THEN;
	return w->actions[act].form != ACTION_NONE ? act : REMEDY_REQUEUE;
}

static bool uses_step(const struct hands *h)
{
	const struct watch_sql *q = &h->bound->sql;
	for (int i = 0; i < q->nwrites[h->act]; i++)
		if (q->writes[h->act][i].uses[STUCK_STEP])
			return true;
	return false;
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
	if (*held || !watch_writes_hold(h->watch) || !h->bound->ledger.ready)
		return DEFIB_OK;
	defib_err err = ledger_read(h->session->store, &filter, &h->arena, &rows, &n, fail);
	struct column_set written = {h->bound->sql.before, h->bound->sql.nbefore};
	bool as_left =
		!err && n > 0 && columns_same(rows[0].after, f->before, &written, &h->arena, NULL);
	*held = hold_in_force(hold_state_of_row(f->hold, as_left));
	return err;
}

/* ---- steps that a foreign worker has finished ---- */

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
		refuse_job(c, REFUSAL_STEPS_AGAIN, arena_strdup(&h->arena, buf_text(&names)));
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
	if (!w || !act_has(h->act, ACT_RUNS_STEPS) || !c->decision.act || other_hold)
		return DEFIB_OK;
	if (o->step && from < 0) {
		refuse_job(c, REFUSAL_NO_STEP_OF_WORKFLOW, NULL);
		return DEFIB_OK;
	}
	bool stated = steps_done_parse(w, c->facts.steps_done, &h->arena, &done, &n);
	defib_err err =
		steps_ours(h->session->store, h->watch->name, c->facts.job, &h->arena, &ours, f);
	if (err)
		return err;
	bool over = o->override_guard && act_has(h->act, ACT_RUNS_AGAIN);
	if (!stated && !ours && !over) {
		refuse_job(c, REFUSAL_STEPS_UNKNOWN, w->name);
		return DEFIB_OK;
	}
	c->known = ARENA_ARRAY(&h->arena, struct step_known, n + w->nsteps + 1);
	for (int i = 0; i < n; i++)
		c->known[c->nknown++] = (struct step_known){done[i].name, done[i].position, false};
	/* The operator states it: steps before the chosen one are finished, the rest are not. */
	int first = from < 0 ? 0 : from;
	for (int i = 0; !stated && !ours && i <= first; i++)
		c->known[c->nknown++] = (struct step_known){w->steps[i].name, i, i == first};
	return o->step ? guard_again(h, w, from, c, f) : DEFIB_OK;
}

/*
 * Whether the condition of an act holds for a job, and the state that the job is in. `there` is
 * false if there is no such row.
 */
struct act_condition {
	bool there, holds;
	const char *state;
};

static defib_err act_condition_read(struct session *session, const struct watch_sql *q, int act,
                                    const char *job, struct arena *keep, struct act_condition *out,
                                    struct failure *f)
{
	const struct watch *w = q->binding->watch;
	struct store_param params[WATCH_KEYS_MAX];
	const char *key[WATCH_KEYS_MAX];
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = DEFIB_OK;
	*out = (struct act_condition){0};
	if (job_key(job, w->key.n, &a, key)) {
		for (int k = 0; k < w->key.n; k++)
			params[k] = P_TEXT(key[k]);
		err = store_exec(session->store, q->may[act], params, w->key.n, &a, &rows, f);
		const char *state = err ? NULL : row_text(&rows, 0, 1);
		out->there = !err && rows.nrows > 0;
		out->holds = out->there && row_bool(&rows, 0, 0);
		out->state = out->there && state ? arena_strdup(keep, state) : NULL;
	}
	return err;
}

/* Whether its last sign of life is older than this. A deadline is none. */
static bool is_quiet(const struct watch *w, const struct facts *f, int64_t quiet_us)
{
	int64_t least_us = -1;
	for (int s = 0; s < SIGN_COUNT; s++) {
		int64_t ago_us = f->now_us - f->sign_us[s];
		if (watch_sign(w, (enum sign)s)->text && f->has_sign[s] && !sign_kinds[s].deadline)
			least_us = least_us < 0 || ago_us < least_us ? ago_us : least_us;
	}
	return least_us >= quiet_us;
}

/* What an operator may not do to this job, or not in this way. */
static defib_err guard(struct hands *h, struct candidate *c, struct failure *f)
{
	const struct by_hand_options *o = h->options;
	AUTO_BUF why = BUF_INIT;
	bool good = false;
	defib_err err = DEFIB_OK;
	bool lives = c->facts.running && c->judgement.verdict == VERDICT_NONE;
	if (lives && act_has(h->act, ACT_TAKES) && !o->override_guard) {
		evidence_sentence(&c->judgement, &why);
		refuse_job(c, REFUSAL_LIVES, arena_strdup(&h->arena, buf_text(&why)));
	}
	if (o->running_only && !c->facts.running)
		refuse_job(c, REFUSAL_NOT_RUNNING, NULL);
	else if (o->quiet_us > 0 && !is_quiet(h->watch, &c->facts, o->quiet_us))
		refuse_job(c, REFUSAL_MAY_BE_CLAIMED, NULL);
	/* end_job() has asked, and asks again after a race. */
	if (h->bound->sql.may[h->act] && act_kinds[h->act].by_hand == BY_HAND_MANY) {
		struct act_condition is;
		err =
			act_condition_read(h->session, &h->bound->sql, h->act, c->facts.job, &h->arena, &is, f);
		good = is.holds;
		if (!err && !good)
			refuse_job(c, REFUSAL_CANCEL_WHEN, is.state ? is.state : "past that");
	}
	if (h->act == ACT_EXCUSE && c->judgement.verdict == VERDICT_NONE) {
		evidence_sentence(&c->judgement, &why);
		refuse_job(c, REFUSAL_NOT_STUCK, arena_strdup(&h->arena, buf_text(&why)));
	} else if (h->act == ACT_EXCUSE && hold_in_force(c->facts.hold)) {
		refuse_job(c, REFUSAL_ON_HOLD, NULL);
	}
	bool held = h->act == ACT_RELEASE && c->does != ACT_UNEXCUSE;
	if (!err && held && !(err = is_held(h, &c->facts, &good, f)) && !good)
		refuse_job(c, REFUSAL_NOT_HELD, NULL);
	if (!err && o->step && !uses_step(h)) {
		err = steps_has(h->session->store, h->watch->name, c->facts.job, o->step, &h->arena, &good,
		                f);
		if (!err && !good)
			refuse_job(c, REFUSAL_NO_STEP, NULL);
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
	if (h->act == ACT_RELEASE && facts->excused)
		c->does = ACT_UNEXCUSE;
	c->event = h->act == ACT_THEN && o->step ? ENTRY_RETRY_FROM_STEP : NULL;
	/* An excuse rests on what was judged, and not on the columns that remedies write. */
	c->expected = h->act == ACT_EXCUSE || c->does == ACT_UNEXCUSE ? NULL : facts->before;
	c->step = o->step;
	c->retry_us = facts->now_us; /* an operator does not wait for a backoff */
	c->reason = o->reason ? masked_reason(h, facts) : "by hand";
	c->evidence = evidence(h, c);
	c->warning = h->act == ACT_RELEASE ? release_warning(h, c) : NULL;
}

/*
 * The jobs by their names. A single one may be spelled otherwise than the database spells it: 007,
 * a UUID in capitals, a key of two columns with spaces.
 */
static defib_err look_named(struct hands *h, const char *const *jobs, int n, struct facts **facts,
                            struct failure *f)
{
	const struct bound *b = h->bound;
	int found = 0;
	if (n > 1)
		return look_each(&(struct look){h->session->store, &b->sql, &b->ledger, &h->arena}, jobs, n,
		                 facts, f);
	defib_err err = look_jobs(&(struct look){h->session->store, &b->sql, &b->ledger, &h->arena},
	                          jobs, n, facts, &found, f);
	if (!err && found == 0)
		*facts = ARENA_ARRAY(&h->arena, struct facts, n);
	return err;
}

/* Candidates in the order in which they were named; jobs that do not exist are missing. */
static defib_err by_hand_look(struct hands *h, const char *const *jobs, int n,
                              struct candidate *out, struct failure *f)
{
	struct facts *facts;
	defib_err err = look_named(h, jobs, n, &facts, f);
	for (int i = 0; !err && i < n; i++) {
		out[i] = (struct candidate){.facts = {.job = jobs[i]}, .outcome = OUTCOME_MISSING};
		if (!facts[i].job)
			continue;
		prepare(h, &facts[i], &out[i]);
		err = guard(h, &out[i], f);
	}
	return err;
}

static void by_hand_tell(struct hands *h, const struct candidate *batch, int n)
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
	defib_err err = by_hand_look(h, jobs, n, batch, f);
	if (!err && !h->options->dry_run) {
		int acting = acting_first(batch, n, &h->arena);
		if (acting)
			err = carry(&h->carrier, batch, acting, &h->arena, f);
	}
	if (!err)
		by_hand_tell(h, batch, n);
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
	if (!err && act_has(h->act, ACT_STORED) && watch_act_is_stored(h->watch, h->act) &&
	    !h->bound->ledger.ready && !o->dry_run) {
		fail(f, DEFIB_REFUSED, "watch %s: %s is stored in defib's own tables, which are off (%s)",
		     h->watch->name, h->act == ACT_EXCUSE ? "an excuse" : "a hold",
		     h->bound->ledger.off_because);
		fail_next(f, h->act == ACT_EXCUSE ? "keep the ledger on"
		                                  : "keep the ledger on, or add hold: to the watch");
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
	struct hands h = {.session = session,
	                  .watch = w,
	                  .options = o,
	                  .result = result,
	                  .act = by_hand_act(w, o->act)};
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

defib_err act_configured(const struct act_kind *kind, const struct watch *w, struct failure *f)
{
	if (!act_has(kind->act, ACT_NEEDS_HOW) ||
	    w->actions[by_hand_act(w, kind->act)].form != ACTION_NONE)
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

/* What by_hand() reported about the job. */
struct end_outcome {
	enum outcome outcome;
	char refusal[256];
};

static void note_end_outcome(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct end_outcome *ended = ctx;
	(void)w;
	ended->outcome = c->outcome;
	AUTO_BUF why = BUF_INIT;
	refusal_sentence(c, &why);
	snprintf(ended->refusal, sizeof ended->refusal, "%s", buf_text(&why));
}

static defib_err try_end(struct session *session, const struct watch *w,
                         const struct end_options *o, struct bound *bound,
                         struct end_outcome *ended, enum ending *out, struct failure *f)
{
	const struct by_hand_options act = {.act = ACT_END,
	                                    .reason = o->reason,
	                                    .actor = o->actor,
	                                    .ledger_off = o->ledger_off,
	                                    .bound = bound,
	                                    .job = note_end_outcome,
	                                    .ctx = ended};
	struct by_hand_result result;
	struct act_condition is;
	bool refused = ended->outcome == OUTCOME_REFUSED;
	AUTO_ARENA a = ARENA_INIT;
	defib_err err = act_condition_read(session, &bound->sql, ACT_END, o->job, &a, &is, f);
	if (err || !is.holds) {
		*out = is.there ? ENDING_PAST : ENDING_MISSING;
		return err;
	}
	/* Refused, and not because another request was faster. */
	if (refused)
		return fail(f, DEFIB_REFUSED, "job %s of watch %s was not ended: %s", o->job, w->name,
		            ended->refusal);
	err = by_hand(session, w, &act, &o->job, 1, &result);
	*out = ended->outcome == OUTCOME_RECOVERED ? ENDING_MARKED : ENDING_LOCKED;
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
	struct end_outcome ended = {.outcome = OUTCOME_LEFT};
	defib_err err = bound_can(w, ACT_END, f);
	if (!err)
		err = bound_open(bound, session, w, o->ledger_off ? LEDGER_NONE : LEDGER_CREATE, f);
	while (!err) {
		err = try_end(session, w, o, bound, &ended, out, f);
		if (err || *out != ENDING_LOCKED || clock_boot_ms() >= end_ms)
			break;
		nanosleep(&pause, NULL);
	}
	bound_release(&own);
	return err;
}
