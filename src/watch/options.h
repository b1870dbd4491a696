/* SPDX-License-Identifier: Apache-2.0
 * options.h: the option table of a watch.
 */
#ifndef WATCH_OPTIONS_H
#define WATCH_OPTIONS_H

#include "watch/watch.h"

extern const struct opt_row watch_rows[];

/* The keys of a watch by the question that they answer, as the reference has them. */
/* clang-format off */
#define WATCH_KEYS_LIST(X) \
	X(FIRST, "The first ten keys", \
	  "With these a watch is complete.") \
	X(HANGS, "It hangs", \
	  "How a row shows that its worker is alive, if `alive_at` alone does not.") \
	X(NEVER_ENDS, "It never ends", \
	  "How long a run may take, even if its worker is alive; by kind.") \
	X(NEVER_STARTS, "It never starts", \
	  "Which rows wait for a worker, and how long they may. The verdict is `unstarted`.") \
	X(DONE, "What is done", \
	  "Which remedy a stuck job gets ([rules](#rules-remedies)), and what each remedy writes.") \
	X(BY_HAND, "What an operator can do", \
	  "What the acts by hand write that no rule chooses.") \
	X(SCANS, "When it scans", \
	  "How often, how much at once, and for how long.") \
	X(GUARDS, "What holds the daemon back", \
	  "When many jobs are stuck at once, it is more likely that something else is wrong.") \
	X(LATE, "Was it wrong?", \
	  "How a worker that was believed to be dead shows up again.") \
	X(SHOWN, "Who sees what", \
	  "How jobs appear in lists, numbers and reports, and what is masked.") \
	X(WORK, "Workers of defib on this table", \
	  "For the workers of defib that take jobs from this table.")
/* clang-format on */
enum watch_keys {
#define X(id, title, about) WATCH_KEYS_##id,
	WATCH_KEYS_LIST(X)
#undef X
};

/* Read one watch from its map; problems are recorded in the reader. */
void watch_read(struct cfg_reader *r, const struct cfg_node *map, struct watch *w);
/*
 * Call `fn` for each option of the tables that is SQL, given or not: expressions, and SET lists of
 * `work`. Actions, rules and lists of statements are not included.
 */
typedef void watch_sql_fn(void *ctx, const char *option, const struct sql_text *sql, bool set);
void watch_each_sql(const struct watch *w, watch_sql_fn *fn, void *ctx);

#endif
