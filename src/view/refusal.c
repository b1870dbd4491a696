/* SPDX-License-Identifier: Apache-2.0 */
#include "view/refusal.h"

/* What to do next. With unknown steps it depends on whether the act runs them again. */
enum next {
	NEXT_OVERRIDE,
	NEXT_RUN_AGAIN,
	NEXT_STATE_STEPS,
	NEXT_ADD_STEPS,
	NEXT_RELEASE,
	NEXT_COUNT
};

static const char *const nexts[][NEXT_COUNT] = {
	[CALLER_COMMAND] =
		{
			[NEXT_OVERRIDE] = "--override-guard does it anyway",
			[NEXT_RUN_AGAIN] = "--override-guard runs it anyway",
			[NEXT_STATE_STEPS] = "add steps_done: to the watch; --override-guard runs it anyway, "
								 "from --from-step or else from its first step",
			[NEXT_ADD_STEPS] = "add steps_done: to the watch, or retry the job with --from-step",
			[NEXT_RELEASE] = "defib release ends it",
		},
	[CALLER_HTTP] =
		{
			[NEXT_OVERRIDE] = "an admin may send \"override_guard\": true",
			[NEXT_RUN_AGAIN] = "an admin may send \"override_guard\": true",
			[NEXT_STATE_STEPS] = "add steps_done: to the watch; an admin may send "
								 "\"override_guard\": true, which runs it from \"from_step\" or "
								 "else from its first step",
			[NEXT_ADD_STEPS] = "add steps_done: to the watch, or retry the job with \"from_step\"",
			[NEXT_RELEASE] = "the act \"release\" ends it",
		},
};

const char *refusal_next(const struct candidate *c, enum caller caller)
{
	if (!c->refusal)
		return NULL;
	switch (c->refused) {
	case REFUSAL_LIVES:
		return nexts[caller][NEXT_OVERRIDE];
	case REFUSAL_STEPS_AGAIN:
		return nexts[caller][NEXT_RUN_AGAIN];
	case REFUSAL_STEPS_UNKNOWN:
		return nexts[caller][act_has(c->does, ACT_RUNS_AGAIN) ? NEXT_STATE_STEPS : NEXT_ADD_STEPS];
	case REFUSAL_EXCUSE:
		return nexts[caller][NEXT_RELEASE];
	default:
		return NULL;
	}
}

void refusal_text(const struct candidate *c, struct buf *out)
{
	const char *next = refusal_next(c, CALLER_COMMAND);
	refusal_sentence(c, out);
	if (next)
		buf_addf(out, "%s%s", c->refused == REFUSAL_STEPS_UNKNOWN ? ": " : "; ", next);
}
