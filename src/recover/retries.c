/* SPDX-License-Identifier: Apache-2.0 */
/* retries.c: see retries.h. */
#include "recover/retries.h"

#include "base/log.h"
#include "ledger/jobs.h"
#include "ledger/retries.h"
#include "recover/look.h"

#define DUE_AT_ONCE 1000

/* The facts of those that are still there; a job that is gone has changed. */
static defib_err read_jobs(struct carrier *c, const struct pending_retry *due, int n,
                           struct arena *a, struct candidate *out, struct failure *f)
{
	const char **jobs = ARENA_ARRAY(a, const char *, n);
	struct job_index index;
	struct facts *facts;
	int found = 0;
	for (int i = 0; i < n; i++) {
		jobs[i] = due[i].job;
		out[i].facts.job = due[i].job;
		(void)job_key(due[i].job, c->sql->binding->watch->key.n, a, out[i].facts.key);
	}
	defib_err err = look_jobs(c->session->store, c->sql, c->ledger, jobs, n, a, &facts, &found, f);
	job_index_init(&index, jobs, n, a);
	for (int i = 0; !err && i < found; i++) {
		int at = job_index_find(&index, facts[i].job);
		if (at >= 0)
			out[at].facts = facts[i];
	}
	return err;
}

static void prepare(const struct pending_retry *due, struct candidate *c)
{
	c->decision = (struct decision){.remedy = REMEDY_RETRY, .act = true, .why = "its wait is over"};
	snprintf(c->decision.rule, sizeof c->decision.rule, "backoff-over");
	c->does = ACT_THEN;
	c->expected = due->expected ? due->expected : "{}";
	c->reason = due->reason;
	c->evidence = "{}";
}

static defib_err fire(struct carrier *c, const struct pending_retry *due, int n, struct arena *a,
                      int64_t *fired, bool *stuck, struct failure *f)
{
	const struct watch *w = c->sql->binding->watch;
	struct candidate *batch = ARENA_ARRAY(a, struct candidate, n);
	defib_err err = read_jobs(c, due, n, a, batch, f);
	for (int i = 0; i < n; i++)
		prepare(&due[i], &batch[i]);
	if (!err)
		err = carry(c, batch, n, a, f);
	for (int i = 0; !err && i < n; i++) {
		log_event(LOG_INFO, "retry is due", LOG_STR("watch", w->name),
		          LOG_STR("job", batch[i].facts.job), LOG_INT("attempt", due[i].attempt),
		          LOG_STR("outcome", outcome_names[batch[i].outcome]));
		*fired += batch[i].outcome == OUTCOME_RECOVERED;
		*stuck = *stuck && batch[i].outcome == OUTCOME_LOCKED;
	}
	arena_clear(&c->arena);
	return err;
}

defib_err retries_fire(struct carrier *c, struct arena *page, int64_t *fired, struct failure *f)
{
	const struct watch *w = c->sql->binding->watch;
	struct tries t = tries_begin();
	defib_err err;
	bool stuck = false;
	int n = 0;
	if (w->actions[ACT_THEN].form == ACTION_NONE || !c->ledger->ready)
		return DEFIB_OK;
	do {
		struct pending_retry *due;
		fail_clear(f);
		arena_clear(page);
		n = 0;
		stuck = true;
		err = session_ready(c->session, f);
		if (!err)
			err = ledger_retries_due(c->session->store, w->name, DUE_AT_ONCE, page, &due, &n, f);
		if (!err && n > 0)
			err = fire(c, due, n, page, fired, &stuck, f);
		/* A full answer means that there may be more; what was locked stays for the next time. */
	} while (err ? try_again(c, &t, err) : n == DUE_AT_ONCE && !stuck);
	arena_clear(page);
	return err;
}
