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
	/*
	 * The order that was asked for took too long. From here on the list is in key order, and has
	 * the rows after `rest_of`, a position in the order that was asked for; NULL: all rows.
	 */
	bool by_key;
	const struct browse_position *rest_of;
};
/* A copy in this arena. */
void browse_position_copy(const struct browse_position *from, struct arena *a,
                          struct browse_position *out);

/*
 * A list is read by one statement, if that is fast enough. If not, the table is read in windows, in
 * key order, until the page is full, the table ends or the time is over (window.h). So a page is
 * always answered; the next one continues after the rows that were read. Only a row that takes too
 * long by itself is an error, and only if a page begins with it.
 */
struct browse_bound {
	int64_t within_ms; /* time limit of the one statement; 0: the session's */
	int64_t for_ms;    /* how long to read in windows after it, but at least one row … */
	bool at_once;      /* … and without trying the one statement first */
	/* Set by browse_jobs(): */
	bool by_key;      /* sorted by key: the order that was asked for took too long */
	bool cut;         /* the time was over first; the list continues after `end` */
	int64_t examined; /* if cut: the number of rows read, at least */
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
	struct browse_bound *bound;          /* NULL: as long as it takes */
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

/* `more` is true if the limit left jobs out; whether the time did, is in `bound`. */
MUST_CHECK defib_err browse_jobs(const struct look *l, const struct browse *o, struct browsed **out,
                                 int *n, bool *more, struct failure *f);

#endif
