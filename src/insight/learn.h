/* SPDX-License-Identifier: Apache-2.0
 * learn.h: learning from runs that ended how long work takes, by kind.
 *
 * Each observation takes the newest runs since the one before, LEARN_ROWS at
 * most: its cost stays the same however much work there is. Where more ended,
 * they are a sample. What ended while a transaction was still open behind the
 * cursor is missed, which a histogram does not mind.
 *
 * What was learnt is kept in the database (ledger/overrides.h), so that it
 * survives restarts and is one for all daemons and commands; who may not write
 * there still learns for the moment. Nothing here changes a threshold.
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
	struct learned_kind *kinds; /* "" first, then in the order in which they came */
	int64_t cursor_us;          /* ends up to here were seen */
	const char *was;            /* what the database had */
	int64_t now_us;             /* the database's clock */
	int64_t observed;           /* runs that this observation added … */
	bool sampled;               /* … of more */
	bool kept;                  /* the database has it; else: */
	struct failure not_kept;
};

/*
 * Read what is known, add what ended since, and keep it. `keep` false, or a
 * database that may not be written to: only `out` has it. The watch must say
 * when runs begin and end (runs_known).
 */
MUST_CHECK defib_err learn_observe(struct store *s, const struct binding *b, bool keep,
                                   struct arena *a, struct learned *out, struct failure *f);

/* Only what is known already: nothing is observed. n is 0 where nothing is. */
MUST_CHECK defib_err learn_recall(struct store *s, const char *watch, struct arena *a,
                                  struct learned *out, struct failure *f);

/* What one kind has learnt, made where there is room; pure, for tests too. */
struct learned_kind *learned_find(struct learned *l, const char *kind, struct arena *a);

/* ---- runs that ended ---- */

/*
 * Reading the runs that ended, for those who learn from them.
 */

struct run {
	const char *job, *kind; /* kind NULL: none */
	int64_t finished_us, took_us;
};

/* Whether the watch says when its runs begin and end. */
bool runs_known(const struct watch *w);
/*
 * The newest `limit` runs that ended by themselves after `after_us` and up to
 * `until_us`. Times that cannot be (an end before its start) are left out;
 * *last_us is the latest end that was read, also of those. *more: the limit
 * kept runs out.
 */
MUST_CHECK defib_err runs_read(struct store *s, const struct binding *b, int64_t after_us,
                               int64_t until_us, int64_t limit, struct arena *a, struct run **out,
                               int *n, int64_t *last_us, bool *more, struct failure *f);

#endif
