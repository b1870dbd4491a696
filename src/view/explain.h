/* SPDX-License-Identifier: Apache-2.0
 * explain.h: one job, judged: the facts, which rule fires or why none does, what holds it, and
 * what would be done.
 */
#ifndef VIEW_EXPLAIN_H
#define VIEW_EXPLAIN_H

#include "ledger/retries.h"
#include "recover/attach.h"
#include "recover/scan.h"
#include "watch/compile.h"
#include "watch/settings.h"

/* "given back": what a remedy will have done to a job. */
const char *remedy_participle(enum remedy r);

/* One job with what stands beside it. */
struct explained {
	struct candidate cand;
	bool has_hold, has_retry, has_claim;
	struct claim claim; /* the session that took it, where its table tells */
	struct held_job hold;
	struct pending_retry retry;
	const char *guard; /* of a stuck one: what the daemon that leads the watch holds, and why */
	double factor;     /* by which that daemon raises thresholds; 0: nobody leads */
};

/*
 * `w` is the watch as it is to be seen. *found is false when there is no such row. `will_have`:
 * there will be a ledger, before the first fix: what would happen then is what one wants to know.
 */
MUST_CHECK defib_err explain_read(struct store *s, const struct watch_sql *q,
                                  const struct ledger *l, const struct watch *w, const char *job,
                                  bool will_have, struct arena *a, struct explained *out,
                                  bool *found, struct failure *f);
/* What holds it in the daemon that leads, if one does and its word may be read; else nothing. */
void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x);
/* An object, whole. */
void explained_json(const struct watch *w, const struct database *d, const struct explained *x,
                    struct buf *out);
/* A title and one fact a line. */
void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out);

#endif
