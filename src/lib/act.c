/* SPDX-License-Identifier: Apache-2.0
 * act.c: the calls of defib.h by which a program does to jobs what a person can do, and takes it
 * back.
 */
#include "lib/lib.h"

#include "recover/acts.h"
#include "recover/by_hand.h"

static int64_t sum(const int64_t *outcomes)
{
	int64_t all = 0;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		all += outcomes[i];
	return all;
}

/* The end of either call. */
static defib_err acted(struct lib_watch *on, defib_err err, const struct by_hand_result *r,
                       defib_result *result, struct failure *f, defib_message *message)
{
	struct failure ignored = {0};
	session_close(&on->session);
	if (r->failure.code)
		*f = r->failure;
	/* What was done before it failed was done. */
	defib_err told =
		lib_result(result, sum(r->outcomes), r->outcomes, r->batch, err ? &ignored : f);
	return lib_answer(err ? err : told, f, message);
}

static defib_err find_act(const char *name, const struct act_kind **out, struct failure *f)
{
	*out = name ? act_kind_named(name) : NULL;
	return *out ? DEFIB_OK : fail(f, DEFIB_USAGE, "there is no act \"%s\"", name ? name : "");
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
	defib_err err = lib_act_options(options, &o, &f);
	if (!err)
		err = find_act(act, &kind, &f);
	if (!err && (n < 1 || !jobs))
		err = fail(&f, DEFIB_USAGE, "there is no array of %d jobs", n);
	if (!err)
		err = lib_watch(watches, watch, false, &on, &f);
	if (!err)
		err = act_configured(kind, on.watch, &f);
	if (!err) {
		struct lib_teller teller = {o.finding, o.ctx};
		struct by_hand_options hand = {
			.act = kind->act,
			.reason = o.reason,
			.actor = o.actor,
			.step = o.step,
			.dry_run = !o.fix,
			.override_guard = o.override_guard != 0,
			.ledger_off = on.ledger_off,
			.job = lib_tell,
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
	defib_err err = lib_act_options(options, &o, &f);
	if (!err && (!batch || !*batch))
		err = fail(&f, DEFIB_USAGE, "a batch is needed");
	if (!err)
		err = lib_watch(watches, watch, false, &on, &f);
	if (!err) {
		struct lib_teller teller = {o.finding, o.ctx};
		struct undo_options take = {
			.batch = batch,
			.reason = o.reason,
			.actor = o.actor,
			.dry_run = !o.fix,
			.done = lib_tell,
			.ctx = &teller,
		};
		err = undo(&on.session, on.watch, &take, &r);
	}
	return acted(&on, err, &r, result, &f, message);
}
