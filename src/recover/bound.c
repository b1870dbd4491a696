/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/bound.h"

#include "watch/compile_write.h"

defib_err bound_open(struct bound *b, struct session *session, const struct watch *w,
                     enum bound_ledger ledger, struct failure *f)
{
	defib_err err = session_ready(session, f);
	if (err || b->ready)
		return err;
	arena_clear(&b->arena);
	err = watch_bind(w, session->store, &b->arena, &b->binding, f);
	if (!err)
		err = watch_compile(&b->binding, &b->arena, &b->sql, f);
	if (!err)
		err = watch_prepare(&b->sql, session->store, &b->arena, f);
	if (!err && ledger == LEDGER_NONE)
		snprintf(b->ledger.off_because, sizeof b->ledger.off_because, "ledger: off");
	else if (!err)
		err = ledger_open(session->store, ledger == LEDGER_CREATE, &b->ledger, f);
	b->ready = !err;
	return err;
}

void bound_release(struct bound *b)
{
	arena_release(&b->arena);
}

/* A hold that the row records does not end by our tables alone. */
static bool needs_how(const struct watch *w, int act)
{
	return act_has(act, ACT_NEEDS_HOW) || (act == ACT_RELEASE && watch_writes_hold(w));
}

defib_err bound_can(const struct watch *w, int act, struct failure *f)
{
	int how = act == ACT_RELEASE ? watch_releases_by(w) : act;
	if (!needs_how(w, act) || w->actions[how].form != ACTION_NONE)
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "watch %s does not say how to %s", w->name, act_name(act));
	fail_next(f, "add %s: to the watch", act_name(act));
	return DEFIB_CONFIG;
}

defib_err bound_refuse_loop(const struct bound *b, const struct watch *w, bool forced,
                            enum remedy remedy, struct failure *f)
{
	struct decide_options d = {b->ledger.ready, forced, remedy};
	if (!decide_can_loop(w, &d))
		return DEFIB_OK;
	fail(f, DEFIB_REFUSED,
	     "watch %s: requeue without attempts and without a ledger could loop forever (%s)", w->name,
	     b->ledger.off_because);
	fail_next(f, "keep the ledger on, give attempts: and max_attempts:, or accept it with "
	             "crash_budget: off");
	return DEFIB_REFUSED;
}
