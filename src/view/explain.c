/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c: see explain.h. */
#include "view/explain.h"

#include "recover/evidence.h"
#include "recover/look.h"
#include "recover/masked.h"
#include "recover/scan.h"
#include "view/job.h"
#include "view/output.h"
#include "view/status.h"

const char *remedy_participle(enum remedy r)
{
	static const char *const words[] = {
		[REMEDY_REQUEUE] = "requeued",     [REMEDY_RETRY] = "retried",
		[REMEDY_FAIL] = "ended as failed", [REMEDY_ROLLBACK] = "rolled back",
		[REMEDY_HOLD] = "put on hold",     [REMEDY_REPORT] = "only reported",
	};
	return words[r];
}

/* The ledger's word on what holds the job and what is pending. */
static defib_err read_guards(struct store *s, const char *watch, const char *job, struct arena *a,
                             struct explained *x, struct failure *f)
{
	struct held_job *holds = NULL;
	struct pending_retry *retries = NULL;
	int nholds = 0, nretries = 0;
	defib_err err = ledger_holds_list(s, watch, job, 1, a, &holds, &nholds, f);
	if (!err)
		err = ledger_retries_of(s, watch, &job, 1, a, &retries, &nretries, f);
	x->has_hold = !err && nholds > 0;
	x->has_retry = !err && nretries > 0;
	if (x->has_hold)
		x->hold = holds[0];
	if (x->has_retry)
		x->retry = retries[0];
	return err;
}

defib_err explain_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                       const struct watch *w, const char *job, bool will_have, struct arena *a,
                       struct explained *out, bool *found, struct failure *f)
{
	struct facts *facts = NULL;
	int n = 0;
	*out = (struct explained){0};
	defib_err err = look_jobs(s, q, l, &job, 1, a, &facts, &n, f);
	*found = !err && n > 0;
	if (*found && l->ready)
		err = read_guards(s, w->name, facts[0].job, a, out, f);
	if (*found && !err)
		err = claim_of(s, w, facts[0].job, a, &out->claim, &out->has_claim, f);
	if (*found && !err)
		judged_candidate(w, &facts[0], l->ready || will_have, a, &out->cand);
	return err;
}

void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x)
{
	struct stored_status stored;
	struct watch_status st;
	struct failure ignored = {0};
	/* Who may not read what daemons say is told the rest. */
	if (stored_status_read(s, a, &stored, &ignored))
		return;
	watch_status_init(&st, d, w->name, &stored);
	const char *guard = json_string_value(json_object_get(st.led.info, "guard"));
	if (st.is == WATCH_STATUS_HELD && guard && x->cand.judgement.verdict != VERDICT_NONE)
		x->guard = arena_strdup(a, guard);
	if (st.is != WATCH_STATUS_NO_LEADER)
		x->factor = json_number_value(json_object_get(st.led.info, "factor"));
	watch_status_release(&st);
}

void explained_json(const struct watch *w, const struct database *d, const struct explained *x,
                    struct buf *out)
{
	const struct candidate *cand = &x->cand;
	const struct judgement *j = &cand->judgement;
	bool stuck = j->verdict != VERDICT_NONE;
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	json_text(out, "watch", w->name);
	key_json(w, cand->facts.job, out);
	json_bool(out, "running", cand->facts.running);
	json_bool(out, "stuck", stuck);
	json_text(out, "verdict", verdict_names[j->verdict]);
	json_text(out, "verdict_rule", j->rule->id);
	json_text(out, "law", j->rule->id); /* its old name */
	json_text(out, "why", j->rule->why);
	buf_add(out, ",\"evidence\":");
	masked_text(w, NULL, "", cand->evidence, out);
	json_bool(out, "held", hold_in_force(cand->facts.hold));
	json_text(out, "hold_cause", hold_in_force(cand->facts.hold) ? cand->facts.hold_cause : NULL);
	json_time(out, "retry_at", x->has_retry, x->retry.due_us);
	claim_json(&x->claim, x->has_claim, out);
	json_text(out, "guard", x->guard);
	if (x->factor > 0)
		buf_addf(out, ",\"factor\":%g", x->factor);
	if (stuck)
		buf_addf(out, ",\"remedy\":\"%s\",\"rule\":\"%s\",\"acts\":%s",
		         remedy_names[cand->decision.remedy], cand->decision.rule,
		         cand->decision.act ? "true" : "false");
	buf_add(out, "}");
}

/* What keeps automation away, or comes next. */
static void guard_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct facts *f = &x->cand.facts;
	struct buf when = BUF_INIT;
	if (hold_in_force(f->hold) && x->has_hold)
		fact_line(s, "held", "since %s: %s%s%s; release it with: defib release %s/%s", x->hold.at,
		          x->hold.cause, x->hold.reason ? ", " : "", x->hold.reason ? x->hold.reason : "",
		          w->name, f->job);
	else if (x->has_hold)
		fact_line(s, "held", "no longer: its owner, sign of life or state changed since %s",
		          x->hold.at);
	if (x->has_retry) {
		when_text(x->retry.due_us, f->now_us, &when);
		fact_line(s, "retry", "%s %s (%s)", x->retry.due_us > f->now_us ? "due" : "was due",
		          buf_text(&when), x->retry.reason ? x->retry.reason : "scheduled");
	}
	if (x->guard)
		fact_line(s, "guard", "the daemon that leads %s %s", w->name, x->guard);
	if (x->factor > 1)
		fact_line(s, "raised", "the daemon that leads %s multiplies its thresholds by %g", w->name,
		          x->factor);
	buf_release(&when);
}

static void verdict_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s)
{
	const struct judgement *j = &x->cand.judgement;
	const struct decision *d = &x->cand.decision;
	const char *watch = w->name;
	if (j->verdict == VERDICT_NONE) {
		fact_line(s, "verdict", "not stuck: %s [%s]", j->rule->why, j->rule->id);
		guard_lines(w, x, s);
		if (x->has_retry)
			fact_line(s, "next", "the retry is carried out by defib scan %s --fix, when it is due",
			          watch);
		return;
	}
	fact_line(s, "verdict", "%s: %s [%s]", verdict_names[j->verdict], j->rule->why, j->rule->id);
	guard_lines(w, x, s);
	fact_line(s, "remedy", "%s: %s [%s]%s", remedy_names[d->remedy], d->why, d->rule,
	          d->act ? "" : "; nothing is written");
	if (d->act && d->remedy != REMEDY_REPORT)
		fact_line(s, "reason", "%s", x->cand.reason);
	if (d->act)
		fact_line(s, "next", "defib scan %s --fix", watch);
	else if (hold_in_force(x->cand.facts.hold))
		fact_line(s, "next", "nothing, until an operator releases it");
}

void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out)
{
	const struct judgement *j = &x->cand.judgement;
	struct buf because = BUF_INIT, title = BUF_INIT;
	struct fact_sheet sheet = {.arena = a};
	evidence_sentence(j, &because);
	buf_addf(&title, "%s/%s ", d->name, w->name);
	out_padded(&title, x->cand.facts.job, 0);
	out_color(out, color, COLOR_BOLD, buf_text(&title));
	buf_add(out, j->verdict == VERDICT_NONE ? " is not stuck: " : " is stuck: ");
	buf_addf(out, "%s.\n", buf_text(&because));
	fact_lines(&sheet, w, &x->cand.facts);
	if (x->has_claim)
		fact_claim(&sheet, &x->claim, x->cand.facts.now_us);
	verdict_lines(w, x, &sheet);
	fact_print(&sheet, out);
	buf_release(&because);
	buf_release(&title);
}
