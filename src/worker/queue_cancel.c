/* SPDX-License-Identifier: Apache-2.0 */
/* queue_cancel.c: see queue_cancel.h. */
#include "worker/queue_cancel.h"

#include "base/text.h"
#include "ledger/events.h"
#include "recover/browse.h"
#include "watch/builtin.h"
#include "worker/enqueue.h"

static const char *state_json(const char *state, bool with_end, struct arena *a)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "{\"state\":");
	buf_add_json(&out, state);
	buf_add(&out, with_end ? ",\"finished_at\":null}" : "}");
	const char *text = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return text;
}

/* The state that it has; NULL: there is no such job. */
static defib_err state_of(const struct queue_cancel *q, const char *job, struct arena *a,
                          const char **state, struct failure *f)
{
	const struct browse o = {.jobs = &job, .njobs = 1, .limit = 1};
	struct browsed *row;
	bool more;
	int n = 0;
	defib_err err = browse_jobs(q->session->store, &q->bound->sql, &q->bound->ledger, &o, a, &row,
	                            &n, &more, f);
	*state = !err && n ? row->state : NULL;
	return err;
}

/* In one transaction with its entry, which is the last statement. */
static defib_err write_cancel(const struct queue_cancel *q, int64_t id, struct arena *a,
                              struct candidate *c, struct failure *f)
{
	const struct ledger_context ctx = {BUILTIN_NAME, q->batch, q->actor};
	struct store *s = q->session->store;
	char state[16];
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = cancel_job(s, id, state, f);
	c->outcome = state[0] ? OUTCOME_RECOVERED : OUTCOME_CHANGED;
	c->after = state_json(state, false, a);
	if (!err && state[0] && q->bound->ledger.ready) {
		const struct ledger_entry entry = {.job = c->facts.job,
		                                   .event = act_event(ACT_CANCEL),
		                                   .rule = RULE_BY_HAND,
		                                   .reason = q->reason ? q->reason : "by hand",
		                                   .before = c->before,
		                                   .after = c->after};
		err = ledger_append(s, &ctx, &entry, 1, a, f);
	}
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

defib_err queue_cancel(const struct queue_cancel *q, const char *job, struct arena *a,
                       struct candidate *out, struct failure *f)
{
	static const char *const open[] = {"scheduled", "queued", "running", "held", NULL};
	const char *state = NULL;
	int64_t id;
	*out =
		(struct candidate){.facts = {.job = job}, .does = ACT_CANCEL, .outcome = OUTCOME_MISSING};
	if (!int_parse(job, &id))
		return DEFIB_OK;
	defib_err err = state_of(q, job, a, &state, f);
	if (err || !state)
		return err;
	out->before = state_json(state, true, a);
	if (word_index(open, state) < 0) {
		out->outcome = OUTCOME_REFUSED;
		out->refusal = arena_printf(a, "it is %s already", state);
		return DEFIB_OK;
	}
	out->outcome = OUTCOME_LEFT;
	return q->dry_run ? DEFIB_OK : write_cancel(q, id, a, out, f);
}
