/* SPDX-License-Identifier: Apache-2.0
 * scan.c: the calls of defib.h that find stuck jobs, explain and recover them, act on jobs as an
 * operator does, and undo.
 */
#include "recover/scan.h"

#include "lib/lib.h"
#include "life/registry.h"
#include "recover/announce.h"
#include "recover/bound.h"
#include "recover/by_hand.h"
#include "recover/leader_status.h"
#include "recover/look.h"
#include "recover/startup.h"
#include "recover/undo.h"

/* ---- shared by all of them ---- */

/* Where findings go. */
struct teller {
	defib_finding_call call; /* NULL: nowhere */
	void *ctx;
};

static void finding_of(const struct watch *w, const struct candidate *c, defib_finding *out)
{
	bool stuck = c->judgement.verdict != VERDICT_NONE;
	*out = (defib_finding){
		.size = sizeof *out,
		.watch = w->name,
		.job = c->facts.job,
		.owner = c->facts.owner,
		.kind = c->facts.kind,
		.verdict = verdict_names[c->judgement.verdict],
		.rule = c->judgement.rule ? c->judgement.rule->id : NULL,
		.why = c->judgement.rule ? c->judgement.rule->why : NULL,
		.remedy = stuck ? remedy_names[c->decision.remedy] : NULL,
		.remedy_rule = stuck ? c->decision.rule : NULL,
		.reason = c->reason,
		.evidence = c->evidence,
		.outcome = outcome_names[c->outcome],
	};
}

static void lib_scan_report(void *teller, const struct watch *w, const struct candidate *c)
{
	const struct teller *to = teller;
	AUTO_BUF refusal = BUF_INIT;
	defib_finding finding;
	if (!to->call)
		return;
	finding_of(w, c, &finding);
	refusal_sentence(c, &refusal);
	finding.refusal = c->refusal ? buf_text(&refusal) : NULL;
	to->call(to->ctx, &finding);
}

/* The caller's options; without options a dry run. */
static defib_err act_options(const defib_act_options *given, defib_act_options *out,
                             struct failure *f)
{
	defib_act_options none = DEFIB_ACT_OPTIONS_INIT;
	defib_err err = lib_options(out, sizeof *out, given ? given : &none, "defib_act_options", f);
	if (!err && !out->actor)
		out->actor = "library";
	return err;
}

/* Copy counts into a result of the caller's version; NULL is allowed. */
defib_err lib_result(defib_result *to, int64_t found, const int64_t *outcomes, const char *batch,
                     struct failure *f)
{
	defib_result all;
	if (!to)
		return DEFIB_OK;
	defib_err err = lib_options(&all, sizeof all, to, "defib_result", f);
	if (err)
		return err;
	size_t given = all.size < sizeof all ? all.size : sizeof all;
	all = (defib_result){
		.size = to->size,
		.found = found,
		.recovered = outcomes[OUTCOME_RECOVERED],
		.held = outcomes[OUTCOME_HELD],
		.left = outcomes[OUTCOME_LEFT],
		.changed = outcomes[OUTCOME_CHANGED],
		.locked = outcomes[OUTCOME_LOCKED],
		.refused = outcomes[OUTCOME_REFUSED],
		.missing = outcomes[OUTCOME_MISSING],
	};
	snprintf(all.batch, sizeof all.batch, "%s", batch);
	memcpy(to, &all, given);
	return DEFIB_OK;
}

/* ---- scan ---- */

static bool memory_lasts(void *ctx)
{
	(void)ctx;
	return !mem_short();
}

static defib_err scan_options_of(const defib_act_options *o, const struct lib_watch *on,
                                 struct teller *teller, struct scan_options *out, struct failure *f)
{
	int remedy = o->remedy ? word_index(remedy_names, o->remedy) : REMEDY_REPORT;
	if (remedy < 0)
		return fail(f, DEFIB_USAGE, "there is no remedy \"%s\"", o->remedy);
	if (o->limit < 0)
		return fail(f, DEFIB_USAGE, "the limit is negative");
	*teller = (struct teller){o->finding, o->ctx};
	*out = (struct scan_options){
		.fix = o->fix != 0,
		.limit = o->limit,
		.forced = o->remedy != NULL,
		.remedy = (enum remedy)remedy,
		.reason = o->reason,
		.actor = o->actor,
		.ledger_off = on->ledger_off,
		.override_guard = o->override_guard != 0,
		.go_on = memory_lasts,
		.observer = {.job = lib_scan_report, .ctx = teller},
	};
	return DEFIB_OK;
}

static defib_err ask_brake(struct lib_watch *on, const defib_act_options *o, struct failure *f)
{
	if (!o->fix || o->override_guard)
		return DEFIB_OK;
	defib_err err = session_ready(&on->session, f);
	return err ? err : brake_allows(on->session.store, on->watch->name, "set override_guard", f);
}

defib_err defib_scan(defib_watches *watches, const char *watch, const defib_act_options *options,
                     defib_result *result, defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	struct teller teller;
	struct scan_options scan;
	struct scan_result r = {0};
	defib_act_options o;
	defib_err err = act_options(options, &o, &f);
	if (!err)
		err = lib_watch(watches, watch, !o.fix, &on, &f);
	if (!err)
		err = scan_options_of(&o, &on, &teller, &scan, &f);
	if (!err)
		err = ask_brake(&on, &o, &f);
	if (!err && (err = scan_watch(&on.session, on.watch, &scan, &r)) != DEFIB_OK)
		f = r.failure;
	if (!err && r.stopped)
		err = fail(&f, DEFIB_MEMORY, "out of memory: the scan stopped between two batches");
	session_close(&on.session);
	/* What was done before the failure remains done. */
	struct failure ignored = {0};
	defib_err copied = lib_result(result, r.found, r.outcomes, r.batch, err ? &ignored : &f);
	return lib_answer(err ? err : copied, &f, message);
}

/* ---- explain ---- */

static defib_err explain_on(struct lib_watch *on, const char *job, struct teller *teller,
                            struct failure *f)
{
	struct bound b = {0};
	AUTO_ARENA a = ARENA_INIT;
	struct candidate c;
	struct facts *facts = NULL;
	int n = 0;
	defib_err err =
		bound_open(&b, &on->session, on->watch, on->ledger_off ? LEDGER_NONE : LEDGER_FIND, f);
	if (!err)
		err = look_jobs(&(struct look){on->session.store, &b.sql, &b.ledger, &a}, &job, 1, &facts,
		                &n, f);
	if (!err && n == 0)
		err = fail(f, DEFIB_NOT_FOUND, "watch %s has no job %s", on->watch->name, job);
	if (!err) {
		/* A ledger will be created before the first fix, and the explanation assumes it. */
		judged_candidate(on->watch, &facts[0], !on->ledger_off, &a, &c);
		lib_scan_report(teller, on->watch, &c);
	}
	bound_release(&b);
	return err;
}

defib_err defib_explain(defib_watches *watches, const char *watch, const char *job,
                        defib_finding_call finding, void *ctx, defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	struct teller teller = {finding, ctx};
	defib_err err = job && finding ? lib_watch(watches, watch, true, &on, &f)
	                               : fail(&f, DEFIB_USAGE, "a job and a callback are needed");
	if (!err)
		err = explain_on(&on, job, &teller, &f);
	session_close(&on.session);
	return lib_answer(err, &f, message);
}

/* ---- start-up ---- */

defib_err defib_startup(defib_watches *watches, const char *watch, defib_result *result,
                        defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	struct startup_result r = {0};
	defib_err err = lib_watch(watches, watch, false, &on, &f);
	struct startup_options o = {.ledger_off = on.ledger_off};
	if (!err)
		err = startup_reconcile(&on.session, on.watch, &o, &r, &f);
	if (on.watch)
		groups_tell(&(struct group_part){on.watch, r.outcomes[OUTCOME_RECOVERED]}, 1);
	session_close(&on.session);
	if (!err)
		err = lib_result(result, r.found, r.outcomes, "", &f);
	return lib_answer(err, &f, message);
}

/* ---- ending a job ---- */

defib_err defib_end(defib_watches *watches, const char *watch, const char *job, const char *reason,
                    const char *actor, defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	enum ending ending = ENDING_MISSING;
	defib_err err =
		job ? lib_watch(watches, watch, false, &on, &f) : fail(&f, DEFIB_USAGE, "a job is needed");
	const struct end_options o = {.job = job,
	                              .actor = actor ? actor : "library",
	                              .reason = reason,
	                              .ledger_off = on.ledger_off};
	if (!err)
		err = act_configured(act_kind_named("end"), on.watch, &f);
	if (!err) {
		err = end_job(&on.session, on.watch, &o, &ending, &f);
		if (err && f.reason == REASON_NOT_OF_TYPE)
			err = DEFIB_OK;
	}
	if (!err && ending == ENDING_MISSING)
		err = fail(&f, DEFIB_NOT_FOUND, "watch %s has no job %s", on.watch->name, job);
	else if (!err && ending == ENDING_LOCKED)
		err = fail(&f, DEFIB_LOCKED, "job %s is locked by another transaction; try again", job);
	session_close(&on.session);
	return lib_answer(err, &f, message);
}

/* ---- acts and undo ---- */

static int64_t sum(const int64_t *outcomes)
{
	int64_t all = 0;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		all += outcomes[i];
	return all;
}

/* The end of both calls. */
static defib_err acted(struct lib_watch *on, defib_err err, const struct by_hand_result *r,
                       defib_result *result, struct failure *f, defib_message *message)
{
	struct failure ignored = {0};
	session_close(&on->session);
	if (r->failure.code)
		*f = r->failure;
	/* What was done before the failure remains done. */
	defib_err copied =
		lib_result(result, sum(r->outcomes), r->outcomes, r->batch, err ? &ignored : f);
	return lib_answer(err ? err : copied, f, message);
}

static defib_err find_act(const char *name, const struct act_kind **out, struct failure *f)
{
	*out = name ? act_kind_named(name) : NULL;
	return *out ? DEFIB_OK : fail(f, DEFIB_USAGE, "there is no act \"%s\"", name ? name : "");
}

static defib_err database_of(struct lib_watch *on, struct arena *a, const char **id,
                             struct failure *f)
{
	defib_err err = session_ready(&on->session, f);
	if (!err)
		err = registry_database(on->session.store, a, id, f);
	if (err == DEFIB_BAD_SQL || (!err && !**id))
		err = fail(f, DEFIB_NOT_FOUND, "%s does not have defib's tables", on->session.options.name);
	return err;
}

defib_err defib_database(defib_watches *watches, const char *watch, char id[64],
                         defib_message *message)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct lib_watch on = {0};
	const char *found = "";
	defib_err err = lib_watch(watches, watch, true, &on, &f);
	if (!err)
		err = database_of(&on, &a, &found, &f);
	session_close(&on.session);
	snprintf(id, 64, "%s", err ? "" : found);
	return lib_answer(err, &f, message);
}

static defib_err refuse_other_database(struct lib_watch *on, const char *id, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	const char *here;
	defib_err err = database_of(on, &a, &here, f);
	if (!err && !text_eq(here, id))
		err = fail(f, DEFIB_REFUSED, "it is another database than the one of the act");
	return err;
}

defib_err defib_act(defib_watches *watches, const char *watch, const char *act,
                    const char *const *jobs, int n, const defib_act_options *options,
                    defib_result *result, defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	struct by_hand_result r = {0};
	const struct act_kind *kind = NULL;
	defib_act_options o;
	defib_err err = act_options(options, &o, &f);
	if (!err)
		err = find_act(act, &kind, &f);
	if (!err && (n < 1 || !jobs))
		err = fail(&f, DEFIB_USAGE, "the array of %d jobs is missing", n);
	if (!err)
		err = lib_watch(watches, watch, false, &on, &f);
	if (!err)
		err = act_configured(kind, on.watch, &f);
	if (!err && !lib_is_time(o.quiet_ms))
		err = fail(&f, DEFIB_USAGE, "quiet_ms is not a duration");
	if (!err && o.database)
		err = refuse_other_database(&on, o.database, &f);
	if (!err) {
		struct teller teller = {o.finding, o.ctx};
		struct by_hand_options hand = {
			.act = kind->act,
			.reason = o.reason,
			.actor = o.actor,
			.step = o.step,
			.dry_run = !o.fix,
			.override_guard = o.override_guard != 0,
			.running_only = o.running_only != 0,
			.quiet_us = o.quiet_ms * 1000,
			.ledger_off = on.ledger_off,
			.job = lib_scan_report,
			.ctx = &teller,
		};
		err = by_hand(&on.session, on.watch, &hand, jobs, n, &r);
	}
	return acted(&on, err, &r, result, &f, message);
}

defib_err defib_undo(defib_watches *watches, const char *watch, const char *batch,
                     const defib_act_options *options, defib_result *result, defib_message *message)
{
	struct failure f = {0};
	struct lib_watch on = {0};
	struct by_hand_result r = {0};
	defib_act_options o;
	defib_err err = act_options(options, &o, &f);
	if (!err && (!batch || !*batch))
		err = fail(&f, DEFIB_USAGE, "a batch is needed");
	if (!err)
		err = lib_watch(watches, watch, false, &on, &f);
	if (!err) {
		struct teller teller = {o.finding, o.ctx};
		struct undo_options take = {
			.batch = batch,
			.reason = o.reason,
			.actor = o.actor,
			.dry_run = !o.fix,
			.done = lib_scan_report,
			.ctx = &teller,
		};
		err = undo(&on.session, on.watch, &take, &r);
	}
	return acted(&on, err, &r, result, &f, message);
}
