/* SPDX-License-Identifier: Apache-2.0
 * browse.h: lists jobs of a watch with what is known of them: page by page, bounded, and without
 * changing anything.
 *
 * list_sql.h finds the jobs, look reads their facts, and judge judges each, so that
 * `verdict=silent` here lists what a scan would find.
 */
#ifndef RECOVER_BROWSE_H
#define RECOVER_BROWSE_H

#include "recover/decide.h"
#include "recover/look.h"
#include "watch/list_sql.h"

/* The row after which a page begins. */
struct browse_position {
	const char *sort; /* NULL: among the rows without a sort value, or sorted by key */
	const char *key[WATCH_KEYS_MAX];
};

/*
 * For interactive callers: if a list takes too long, it is made from a window of the table instead,
 * and says so. In key order the window begins where the page does, and the next page continues
 * after it; in another order it is one end of the table, by key.
 */
struct browse_bound {
	int64_t within_ms; /* time limit of a statement … */
	int64_t rows;      /* … before only this many rows are read */
	bool at_once;      /* it is known to take too long */
	/* Set by browse_jobs(): */
	int64_t looked; /* rows that were read; 0: all */
	bool goes_on;   /* there are more rows after the window, to continue after … */
	struct browse_position end;
};

struct browse {
	const struct term *terms;
	int nterms;
	const char *const *jobs; /* only these, by their texts; NULL: any */
	int njobs;
	enum list_sort sort;
	bool desc;
	const struct browse_position *after; /* NULL: from the start */
	const struct browse_position *up_to; /* in ascending key order: the last; NULL: to the end */
	int64_t limit;                       /* 0: all */
	bool facts;                          /* read them; otherwise only if a term needs them */
	struct browse_bound *bound;          /* NULL: no time limit */
	struct on_count on_count;            /* jobs that were found */
};

/* Running jobs come oldest first, as in a scan; otherwise the key is the cheapest order. */
enum list_sort browse_sort(const struct term *terms, int n);

struct browsed {
	const char *job;
	const char *state; /* as stored in the row; NULL: none */
	bool has_since;
	int64_t since_us;
	struct browse_position at;
	/* With facts: */
	struct facts facts;
	struct judgement judgement;
	bool has_retry;   /* one is pending … */
	int64_t retry_us; /* … until then */
};

/* `more` is true if the limit left jobs out. */
MUST_CHECK defib_err browse_jobs(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                 const struct browse *o, struct arena *a, struct browsed **out,
                                 int *n, bool *more, struct failure *f);

#endif
