/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/explain.h"

#include "recover/waiting.h"

/* What the ledger has: a hold, a pending retry. */
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

defib_err explain_read(const struct look *l, const struct watch *w, const char *job, bool will_have,
                       struct explained *out, bool *found, struct failure *f)
{
	struct facts *facts = NULL;
	int n = 0;
	*out = (struct explained){0};
	defib_err err = look_jobs(l, &job, 1, &facts, &n, f);
	*found = !err && n > 0;
	if (*found && l->ledger->ready)
		err = read_guards(l->store, w->name, facts[0].job, l->arena, out, f);
	if (*found && !err)
		err = claim_of(l->store, w, facts[0].job, l->arena, &out->claim, &out->has_claim, f);
	if (*found && !err)
		err = waiting_recall(l, &facts[0], f);
	if (*found && !err)
		judged_candidate(w, &facts[0], l->ledger->ready || will_have, l->arena, &out->cand);
	return err;
}
