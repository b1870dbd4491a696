/* SPDX-License-Identifier: Apache-2.0
 * ending.c: ending a job on somebody's word, see by_hand.h.
 *
 * Most of those who ask come again: a click repeated, a client that retries. So the
 * row is asked first, by its key, and one that ends already is left alone: not even
 * its time is written, which may be its place in a queue. Where it may be ended, the
 * write goes the way of every other act, and asks `end_when` once more in its own
 * WHERE, under the row's lock. Who loses that race reads again and finds it done.
 */
#include "recover/by_hand.h"

#include "base/clock.h"
#include "recover/look.h"

#include <time.h>

#define WAIT_MS 3000 /* for somebody else's transaction on the row */
#define PAUSE_MS 5

/* Does end_when hold? *there is false when there is no such row. */
static defib_err may_end(struct session *session, const struct watch_sql *q, const char *job,
                         bool *there, bool *may, struct failure *f)
{
	const struct watch *w = q->binding->watch;
	struct store_param params[WATCH_KEYS_MAX];
	const char *key[WATCH_KEYS_MAX];
	struct arena a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = DEFIB_OK;
	*there = *may = false;
	if (job_key(job, w->key.n, &a, key)) {
		for (int k = 0; k < w->key.n; k++)
			params[k] = P_TEXT(key[k]);
		err = store_exec(session->store, q->may_end, params, w->key.n, &a, &rows, f);
		*there = !err && rows.nrows > 0;
		*may = *there && row_bool(&rows, 0, 0);
	}
	arena_release(&a);
	return err;
}

/* What by_hand() said of the job. */
struct said {
	enum outcome outcome;
	char refusal[256];
};

static void hear(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct said *said = ctx;
	(void)w;
	said->outcome = c->outcome;
	snprintf(said->refusal, sizeof said->refusal, "%s", c->refusal ? c->refusal : "");
}

static defib_err try_end(struct session *session, const struct watch *w,
                         const struct end_options *o, struct bound *bound, struct said *said,
                         enum ending *out, struct failure *f)
{
	const struct by_hand_options act = {.act = ACT_END,
	                                    .reason = o->reason,
	                                    .actor = o->actor,
	                                    .ledger_off = o->ledger_off,
	                                    .bound = bound,
	                                    .job = hear,
	                                    .ctx = said};
	struct by_hand_result result;
	bool there, may, refused = said->outcome == OUTCOME_REFUSED;
	defib_err err = may_end(session, &bound->sql, o->job, &there, &may, f);
	if (err || !may) {
		*out = there ? ENDING_PAST : ENDING_MISSING;
		return err;
	}
	/* Refused, and not because another was faster. */
	if (refused)
		return fail(f, DEFIB_REFUSED, "job %s of watch %s was not ended: %s", o->job, w->name,
		            said->refusal);
	err = by_hand(session, w, &act, &o->job, 1, &result);
	*out = said->outcome == OUTCOME_RECOVERED ? ENDING_MARKED : ENDING_LOCKED;
	if (err)
		*f = result.failure;
	return err;
}

defib_err end_job(struct session *session, const struct watch *w, const struct end_options *o,
                  enum ending *out, struct failure *f)
{
	const struct timespec pause = {0, PAUSE_MS * 1000000};
	const int64_t end_ms = clock_boot_ms() + WAIT_MS;
	struct bound own = {0}, *bound = o->bound ? o->bound : &own;
	struct said said = {.outcome = OUTCOME_LEFT};
	defib_err err = bound_can(w, ACT_END, f);
	if (!err)
		err = bound_open(bound, session, w, o->ledger_off ? LEDGER_NONE : LEDGER_CREATE, f);
	while (!err) {
		err = try_end(session, w, o, bound, &said, out, f);
		if (err || *out != ENDING_LOCKED || clock_boot_ms() >= end_ms)
			break;
		nanosleep(&pause, NULL);
	}
	bound_release(&own);
	return err;
}
