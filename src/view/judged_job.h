/*
 * judged_job.h: what judge and decide say of one job that a person asks about, stuck or not.
 */
#ifndef VIEW_JUDGED_JOB_H
#define VIEW_JUDGED_JOB_H

#include "recover/candidate.h"

/*
 * One that is not stuck has no decision; only its facts, judgement and evidence are
 * filled in. `ledger`: there is one, or there will be.
 */
void judged_candidate(const struct watch *w, const struct facts *f, bool ledger, struct arena *a,
                      struct candidate *out);
/* "given back": what a remedy will have done to a job. */
const char *remedy_participle(enum remedy r);

#endif
