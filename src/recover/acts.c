/* SPDX-License-Identifier: Apache-2.0 */
/* acts.c: see acts.h. */
#include "recover/acts.h"

#include "base/text.h"

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
