/* SPDX-License-Identifier: Apache-2.0 */
/* near_misses.c: see near_misses.h. */
#include "recover/near_misses.h"

#include "recover/judge.h"

static int by_job(const void *job, const void *suspect)
{
	return strcmp(job, ((const struct gone_suspect *)suspect)->job);
}

defib_err near_misses(struct store *s, const struct watch_sql *q, const struct ledger *l,
                      const struct gone_suspect *gone, int ngone, struct arena *a, int64_t *n,
                      struct failure *f)
{
	struct facts *facts = NULL;
	int nfacts = 0;
	*n = 0;
	ngone = ngone < NEAR_MISSES_MAX ? ngone : NEAR_MISSES_MAX;
	const char **jobs = ARENA_ARRAY(a, const char *, ngone + 1);
	for (int i = 0; i < ngone; i++)
		jobs[i] = gone[i].job;
	defib_err err = look_jobs(s, q, l, jobs, ngone, a, &facts, &nfacts, f);
	for (int i = 0; !err && i < nfacts; i++) {
		const struct gone_suspect *was =
			bsearch(facts[i].job, gone, (size_t)ngone, sizeof *gone, by_job);
		bool well = facts[i].running && judge(q->binding->watch, &facts[i]).verdict == VERDICT_NONE;
		*n += was && well && heard_again(was, &facts[i]);
	}
	return err;
}
