/* SPDX-License-Identifier: Apache-2.0
 * seen.h: since when a job shows the same value.
 *
 * Two signs may be about a value and not about a time in the table: the progress of a job, and the
 * state that it is in. defib remembers since when it has seen each of them (ledger/seen.h), which
 * takes two looks at least. Time in which it did not look does not count: nobody knows whether the
 * job could get on then. So what is remembered begins later by that time.
 *
 * The matching of facts and memory is pure.
 */
#ifndef RECOVER_SEEN_H
#define RECOVER_SEEN_H

#include "guard/doubt.h"
#include "ledger/seen.h"
#include "recover/look.h"

/* What a look at the jobs of a watch changes in its memory. */
struct seen_changes {
	struct seen *put, *drop;
	int nput, ndrop;
	int remembered; /* values that are remembered then */
};

/*
 * Give each job the time since when it shows its value, where that is known. `changes`, if not
 * NULL: what to write; then these must be all jobs whose values are to be remembered.
 */
void seen_match(const struct watch *w, const struct seen_memory *m, int64_t shift_us,
                struct facts *facts, int n, struct arena *a, struct seen_changes *changes);
/*
 * How much of the time since the last look does not count: all of it, if that is longer ago than
 * looks usually are; else what `doubt` (NULL: not known) says was an outage.
 */
int64_t seen_uncounted(const struct watch *w, const struct seen_look *last, int64_t now_us,
                       const struct doubt *doubt);
/* For any jobs that were read: what is known of them. Nothing is written. */
MUST_CHECK defib_err seen_recall(const struct look *l, struct facts *facts, int n,
                                 struct failure *f);

/* A look at all jobs of a watch whose values are remembered. */
struct seen_pass {
	const struct doubt *doubt; /* of a daemon; NULL: of a single scan */
	bool barred;               /* workers cannot write now: the time since the last look is lost */
	bool keep;                 /* write what was seen; false: only read */
	/* Out: */
	bool first;          /* nothing was remembered before */
	bool off;            /* nothing is, or can be, remembered … */
	char why[256];       /* … because of this, if not just because nobody wrote it yet */
	bool bounded;        /* there are more than SEEN_MOST */
	int64_t remembered;  /* values that are remembered now */
	struct facts *stuck; /* jobs whose unchanged value is beyond its limit, with their history */
	int n;
};
MUST_CHECK defib_err seen_look_all(const struct look *l, struct seen_pass *pass, struct failure *f);

#endif
