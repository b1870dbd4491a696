/* SPDX-License-Identifier: Apache-2.0
 * whatif.h: what another threshold would have done, by what is on record.
 *
 * Two records speak. The ledger has each recovery with the time it was noticed
 * at, and whether it turned out a mistake. The rows' own times (`stats:`) have
 * the runs that ended by themselves: one that took longer than a threshold
 * would have been recovered although it lived. Where workers beat, the latter
 * say nothing of silence, and nobody recorded how long silences were that ended.
 *
 * whatif_weigh() is pure; whatif_read() fills in what it weighs.
 */
#ifndef INSIGHT_WHATIF_H
#define INSIGHT_WHATIF_H

#include "insight/learn.h"
#include "insight/run_times.h"
#include "ledger/ledger.h"

#define WHATIF_RUNS 100000 /* that are weighed, the newest */

/* One recovery of the ledger, judged by the threshold that is asked about. */
struct past_recovery {
	const char *job, *kind;
	int64_t measured_us, limit_us; /* noticed at, by which limit */
	bool late;                     /* a mistake: its worker came back … */
	int64_t lived_us;              /* … after this time without a sign of life */
};

struct whatif_record {
	bool ledger;
	int nrecoveries;
	struct past_recovery *recoveries;
	bool entries_more; /* the ledger has more than was read */
	bool runs_known;   /* the watch says when runs begin and end … */
	bool runs_apply;   /* … and they speak of this threshold */
	int nruns;
	struct run *runs;
	bool runs_more;
};

struct whatif_side {
	int64_t recovered, wrongly;
	int64_t noticed; /* of workers that were really lost: … */
	int64_t mean_us, worst_us;
};

struct whatif {
	struct whatif_side today, then;
	bool has_safe; /* enough runs to suggest a threshold: */
	int64_t safe_us;
};

/* `overdue`: about overdue_after, else stuck_after; of the last `since_us`. */
MUST_CHECK defib_err whatif_read(struct store *s, const struct binding *b, bool ledger,
                                 bool overdue, int64_t since_us, struct arena *a,
                                 struct whatif_record *out, struct failure *f);
/* Every kind under `then_us` instead of today's threshold (which may not be given). */
void whatif_weigh(const struct watch *w, const struct threshold *today, int64_t then_us,
                  const struct whatif_record *record, struct whatif *out);
/* One sentence: is it wise? */
void whatif_advice(const struct watch *w, bool overdue, int64_t then_us,
                   const struct whatif_record *record, const struct whatif *x, struct buf *out);

#endif
