/* SPDX-License-Identifier: Apache-2.0
 * excuse.h: what an excuse covers, and whether it still does.
 *
 * An operator excuses a job from one verdict. The excuse keeps what that verdict rests on: the run
 * (owner and attempts) and the sign that was judged, with its value. It covers the job as long as
 * these are the same, whatever else changes: a job that has run too long may beat. Another verdict
 * is not covered. Pure, and once more as SQL for the function of `defib install`.
 */
#ifndef RECOVER_EXCUSE_H
#define RECOVER_EXCUSE_H

#include "ledger/ledger.h"
#include "watch/compile.h"

/* What an excuse of this job from this verdict keeps. Texts stay where the facts have them. */
void excuse_of(const struct watch *w, const struct facts *f, const struct judgement *j,
               const char *actor, struct hold *out);
/* The verdict from which the job is excused; VERDICT_NONE: it is not, or what was judged changed.
 */
enum verdict excuse_covers(const struct watch *w, const struct history *h, const struct facts *f);

/* The expressions with which a statement of PostgreSQL names an excuse and its job. */
struct excuse_sql {
	const char *excuse;  /* the alias of defib.hold */
	const char *verdict; /* of the job now */
	const char *watch;   /* a literal */
	const char *owner, *attempts;
	const char *state;        /* NULL: the watch does not read it */
	const char *const *signs; /* in microseconds, by enum sign */
};
void excuse_covers_sql(const struct watch *w, const struct excuse_sql *x, struct buf *out);

#endif
