/* SPDX-License-Identifier: Apache-2.0
 * overrides.h: overrides by operators, and the status that daemons publish. Both are in the
 * database: they work from any host, survive restarts and need no connection to the daemon.
 */
#ifndef LEDGER_OVERRIDES_H
#define LEDGER_OVERRIDES_H

#include "store/store.h"

/*
 * Whether the tables exist and the role may read this one; with `create`, may write to it, and
 * missing tables are created. DEFIB_PERMISSION: it may not.
 */
MUST_CHECK defib_err daemon_table_open(struct store *s, const char *table, bool create, bool *there,
                                       struct failure *f);

/* The override that lets one pass of the leader skip doubt, brake and second look. */
#define OVERRIDE_GUARDS "override"

/* An override in force: neither cleared nor expired. */
struct override {
	const char *watch, *name, *value, *actor, *reason; /* name: "pause", "raise" or the one above */
	int64_t at_us, until_us;                           /* until 0: until it is cleared */
	const char *role;                                  /* of the database, that wrote it */
};

/* All overrides in force, by the database's clock. */
MUST_CHECK defib_err override_read(struct store *s, struct arena *a, struct override **out, int *n,
                                   struct failure *f);
/* The combined effect on one watch. */
struct override_sum {
	bool paused;
	double factor;             /* on its thresholds, 1 if not raised */
	const char *raised_by;     /* NULL: not raised */
	int64_t override_us;       /* when a pass without guards was requested; 0: it was not */
	const char *override_role; /* by this one: see orders.h */
};
struct override_sum override_of(const struct override *words, int n, const char *watch);
/* Set it for `for_us` (0: until it is cleared); replaces an earlier one of that name. */
MUST_CHECK defib_err override_write(struct store *s, const struct override *word, int64_t for_us,
                                    struct failure *f);
/* Clear an override; *was is false if there was none. */
MUST_CHECK defib_err override_remove(struct store *s, const char *watch, const char *name,
                                     bool *was, struct failure *f);

/*
 * What an operator did: set or cleared. The daemon that leads the watch, now or after a restart,
 * reads it within about a second.
 */

/* What was done for one watch, or for all of them ("*"). */
struct override_answer {
	const char *watch, *name;
	const struct override *in_force; /* NULL: it was cleared … */
	bool was;                        /* … and there was one */
};

/* Set it for `for_us` (0: until it is cleared). */
MUST_CHECK defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                                  struct arena *a, struct override_answer *out, struct failure *f);
/*
 * Clear it: for one watch, or for all and then for each. *still is an override for all watches,
 * which also applies to this one and cannot be cleared for a single watch. NULL: none.
 */
MUST_CHECK defib_err override_clear(struct store *s, const char *watch, const char *name,
                                    struct arena *a, struct override_answer **out, int *n,
                                    const struct override **still, struct failure *f);

/* The state of a watch, as its leader wrote it. */
struct status_row {
	const char *watch, *holder, *info; /* info: JSON */
	int64_t at_us, age_us;
	bool led; /* its leader's lease is in force */
};
MUST_CHECK defib_err status_write(struct store *s, const char *watch, const char *holder,
                                  const char *info, struct failure *f);
MUST_CHECK defib_err status_read(struct store *s, struct arena *a, struct status_row **out, int *n,
                                 struct failure *f);

/* ---- learned run times ---- */

/*
 * One document per kind. All writers of a watch use the row of kind "" to detect concurrent writes.
 *
 * A writer passes the "" row that it read: if another wrote in between, nothing is written, and no
 * run is counted twice.
 */

struct learned_row {
	const char *kind, *document; /* JSON; in a write, NULL deletes the row */
};

/* All rows of a watch, "" first. */
MUST_CHECK defib_err learned_read(struct store *s, const char *watch, struct arena *a,
                                  struct learned_row **out, int *n, struct failure *f);
/*
 * Write these in a transaction of its own, if the "" row is still `was` (NULL: there was none).
 * *taken is false if it was not.
 */
MUST_CHECK defib_err learned_write(struct store *s, const char *watch, const char *was,
                                   const struct learned_row *rows, int n, struct arena *a,
                                   bool *taken, struct failure *f);

#endif
