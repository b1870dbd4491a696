/* SPDX-License-Identifier: Apache-2.0
 * whatif.h: what another threshold would have done, according to the records.
 *
 * There are two records. The ledger has each recovery with its measured time, and whether it turned
 * out to be a mistake. The rows' own times (`stats:`) show the runs that ended by themselves: one
 * that took longer than a threshold would have been recovered although its worker was alive. If
 * workers beat, run times say nothing about silence, and there is no record of silences that ended.
 *
 * whatif_weigh() is pure; whatif_read() fills in its input.
 */
#ifndef INSIGHT_WHATIF_H
#define INSIGHT_WHATIF_H

#include "insight/learn.h"
#include "ledger/ledger.h"

#define WHATIF_RUNS 100000 /* evaluated, the newest */

/* One recovery in the ledger, evaluated with the threshold in question. */
struct past_recovery {
	const char *job, *kind;
	int64_t measured_us, limit_us; /* time measured, and the limit it exceeded */
	bool late;                     /* a mistake: its worker came back … */
	int64_t lived_us;              /* … after this time without a sign of life */
};

struct whatif_record {
	bool ledger;
	int nrecoveries;
	struct past_recovery *recoveries;
	bool entries_more; /* the ledger has more than was read */
	bool runs_known;   /* the watch defines when runs begin and end … */
	bool runs_apply;   /* … and they apply to this threshold */
	int nruns;
	struct finished_run *runs;
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

/* `overdue`: for overdue_after, else stuck_after; over the last `since_us`. */
MUST_CHECK defib_err whatif_read(struct store *s, const struct binding *b, bool ledger,
                                 bool overdue, int64_t since_us, struct arena *a,
                                 struct whatif_record *out, struct failure *f);
/* Every kind under `then_us` instead of the current threshold (which may not be set). */
void whatif_weigh(const struct watch *w, const struct threshold *today, int64_t then_us,
                  const struct whatif_record *record, struct whatif *out);
/* One sentence: is it wise? */
void whatif_advice(const struct watch *w, bool overdue, int64_t then_us,
                   const struct whatif_record *record, const struct whatif *x, struct buf *out);

#endif
