/* SPDX-License-Identifier: Apache-2.0
 * browse.h: the jobs of a watch that a person asks for, with what is known of
 * them: page by page, bounded, and without changing anything.
 *
 * list_sql.h finds them; look reads their facts and judge says what it thinks
 * of each, so that `verdict=silent` here is what a scan would find.
 */
#ifndef RECOVER_BROWSE_H
#define RECOVER_BROWSE_H

#include "recover/judge.h"
#include "recover/look.h"
#include "watch/list_sql.h"

/* Behind which row a page begins. */
struct browse_position {
	const char *sort; /* NULL: among the rows without a sort value, or sorted by key */
	const char *key[WATCH_KEYS_MAX];
};

/*
 * For who looks at a page and does not wait: a list that takes too long is made of a window of
 * the table instead, and says so. In the order of keys the window begins where the page does,
 * and the next page goes on behind it; in another order it is one end of the table, by key.
 */
struct browse_bound {
	int64_t within_ms; /* what a statement may take … */
	int64_t rows;      /* … before only so many rows are looked at */
	bool at_once;      /* it is known to take too long */
	/* Told by browse_jobs(): */
	int64_t looked; /* so many rows were; 0: all that there are */
	bool goes_on;   /* behind the window there are more rows, to be asked for behind … */
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
	int64_t limit;                       /* 0: all */
	bool facts;                          /* read them; else only where a term needs them */
	struct browse_bound *bound;          /* NULL: as long as it takes */
};

/* Running jobs come oldest first, as in a scan; else the key is the order that costs least. */
enum list_sort browse_sort(const struct term *terms, int n);

struct browsed {
	const char *job;
	const char *state; /* as it stands in the row; NULL: none */
	bool has_since;
	int64_t since_us;
	struct browse_position at;
	/* With facts: */
	struct facts facts;
	struct judgement judgement;
	bool has_retry;   /* one is pending … */
	int64_t retry_us; /* … until then */
};

/* `more` is true when the limit kept jobs out. */
MUST_CHECK defib_err browse_jobs(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                 const struct browse *o, struct arena *a, struct browsed **out,
                                 int *n, bool *more, struct failure *f);

#endif
