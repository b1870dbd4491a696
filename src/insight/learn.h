/* SPDX-License-Identifier: Apache-2.0
 * learn.h: learns from ended runs how long work takes, by kind.
 *
 * Each observation reads the newest runs since the previous one, at most LEARN_ROWS, so that its
 * cost does not grow with the amount of work. If more ended, they are a sample. A run that ended
 * while its transaction was still open behind the cursor is missed, which does not matter to a
 * histogram.
 *
 * What was learnt is stored in the database (ledger/overrides.h), so that it survives restarts and
 * is shared by all daemons and commands. A role that may not write there still learns for the
 * duration of the call. Nothing here changes a threshold.
 */
#ifndef INSIGHT_LEARN_H
#define INSIGHT_LEARN_H

#include "insight/run_times.h"
#include "watch/compile.h"

#define LEARN_ROWS 5000
#define LEARN_KINDS_MAX 256 /* the rest is learnt as LEARN_OTHER */
#define LEARN_OTHER "other"

enum learn_mode { LEARN_OFF, LEARN_SUGGEST }; /* of the option `learn` */

struct learned_kind {
	const char *kind; /* "": the watch, or the row, has none */
	struct run_times times;
	bool changed;
};

struct learned {
	int n;
	struct learned_kind *kinds; /* "" first, then in order of appearance */
	int64_t cursor_us;          /* ends up to here were read */
	const char *was;            /* what the database had before */
	int64_t now_us;             /* the database's clock */
	int64_t observed;           /* runs that this observation added … */
	bool sampled;               /* … of more that ended */
	bool stored;                /* it is stored in the database; if not: */
	struct failure not_stored;
};

/*
 * Read what is known, add what ended since, and store it. With `keep` false, or without the
 * privilege to write, only `out` has it. The watch must define when runs begin and end
 * (runs_known).
 */
MUST_CHECK defib_err learn_observe(struct store *s, const struct binding *b, bool keep,
                                   struct arena *a, struct learned *out, struct failure *f);

/* Only what is already known, without observing. n is 0 if nothing is. */
MUST_CHECK defib_err learn_recall(struct store *s, const char *watch, struct arena *a,
                                  struct learned *out, struct failure *f);

/* The entry of one kind, created if there is room; pure, for tests too. */
struct learned_kind *learned_find(struct learned *l, const char *kind, struct arena *a);

/* ---- runs that ended ---- */

struct finished_run {
	const char *job, *kind; /* kind NULL: none */
	int64_t finished_us, took_us;
};

/* Whether the watch defines when its runs begin and end. */
bool runs_known(const struct watch *w);
/* The newest `limit` runs that ended by themselves after `after_us` and up to `until_us`. */
struct runs_page {
	int64_t after_us, until_us, limit;
	/* Out; impossible times (an end before its start) are left out. */
	struct finished_run *runs;
	int n;
	int64_t last_us; /* the latest end that was read, including those */
	bool more;       /* the limit left runs out */
};
MUST_CHECK defib_err runs_read(struct store *s, const struct binding *b, struct runs_page *page,
                               struct arena *a, struct failure *f);

#endif
