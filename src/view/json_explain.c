/* json_explain.c: see json_explain.h. */
#include "view/json_explain.h"

#include "recover/look.h"
#include "recover/masked.h"
#include "view/json.h"
#include "view/json_job.h"
#include "view/judged_job.h"
#include "view/watch_status.h"

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
	struct left left;
	struct watch_status st;
	struct failure ignored = {0};
	/* Who may not read what daemons say is told the rest. */
	if (left_read(s, a, &left, &ignored))
		return;
	watch_status_init(&st, d, w->name, &left);
	const char *guard = json_string_value(json_object_get(st.info, "guard"));
	if (st.is == WATCH_STATUS_HELD && guard && x->cand.judgement.verdict != VERDICT_NONE)
		x->guard = arena_strdup(a, guard);
	if (st.is != WATCH_STATUS_NO_LEADER)
		x->factor = json_number_value(json_object_get(st.info, "factor"));
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
	buf_addf(out, ",\"running\":%s,\"stuck\":%s,\"verdict\":\"%s\",\"law\":\"%s\"",
	         cand->facts.running ? "true" : "false", stuck ? "true" : "false",
	         verdict_names[j->verdict], j->rule->id);
	json_text(out, "why", j->rule->why);
	buf_add(out, ",\"evidence\":");
	masked_text(w, NULL, "", cand->evidence, out);
	json_bool(out, "held", cand->facts.held);
	json_text(out, "hold_cause", cand->facts.held ? cand->facts.hold_cause : NULL);
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
