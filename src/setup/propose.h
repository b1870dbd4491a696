/* SPDX-License-Identifier: Apache-2.0
 * propose.h: proposes a watch for an unknown table from its facts, and finds the queues of a
 * database.
 *
 * Pure: it takes facts and returns the lines of a watch, each with its evidence, alternatives, and
 * a CHECK if it is a guess. No guess is silent: while one line must be checked, the watch only
 * reports, and if no sign of life, no key or no running rows can be found, `missing` says so and
 * there is no watch.
 *
 * proposal_try() asks the database what the watch would find, which becomes evidence too, and how
 * long runs take, which becomes the threshold.
 */
#ifndef SETUP_PROPOSE_H
#define SETUP_PROPOSE_H

#include "setup/table_facts.h"
#include "watch/compile.h"

#define PROPOSAL_LINES_MAX 24
#define PROPOSAL_OTHERS_MAX 4
#define PROPOSAL_MISSING_MAX 3

struct proposed_line {
	const char *key, *value;
	bool yaml;         /* the value is literal YAML, not a text to be quoted */
	const char *why;   /* the evidence; may be NULL */
	const char *check; /* what an operator must check; NULL: certain enough */
	int nothers;
	const char *others[PROPOSAL_OTHERS_MAX]; /* alternatives, whole lines */
};

struct proposal {
	const char *name, *table;
	int nlines, nchecks, nmissing;
	struct proposed_line lines[PROPOSAL_LINES_MAX];
	const char *missing[PROPOSAL_MISSING_MAX]; /* sentences */
	const char *limit;                         /* the key of the threshold … */
	bool age_judges;                           /* … which depends on how long runs take */
	bool queue; /* it looks like a queue even if the user did not ask for this table */
};

/* What a watch currently finds. */
struct proposal_seen {
	int64_t running, stuck;
	bool looked; /* if not, it took too long */
	bool running_capped, stuck_capped;
	bool has_oldest;
	int64_t oldest_us;
	double runs; /* whose times are known */
	int64_t p99_us;
};

void propose(const struct table_facts *t, struct arena *a, struct proposal *out);
/*
 * The same with the contents of running rows: once it is known which rows run, columns are judged
 * by their values there.
 */
void propose_seen(struct store *s, struct table_facts *t, struct arena *a, struct proposal *out);
#define REPORT_ONLY "[{do: report}]"
/* Add the line that makes the watch only report, unless it is there. */
void proposal_report_only(struct proposal *p);
/* "2 of 3 running rows": how many a first scan --fix would change; NULL: none. */
const char *seen_would_act(const struct proposal_seen *seen, struct arena *a);
struct proposed_line *proposal_line(struct proposal *p, const char *key);

/*
 * The watch as a list entry in YAML, indented under `watches:`. `database` is its database if that
 * is not the first one, else NULL. An incomplete watch is written as comments only.
 */
void proposal_yaml(const struct proposal *p, const char *database, struct buf *out);
/* A scalar in YAML: plain if that is safe, else in double quotes. */
void yaml_scalar(const char *text, struct buf *out);
/* Comment lines of a readable width, for any text. */
void yaml_comment(const char *indent, const char *text, struct buf *out);

/* Scan with a watch, proposed or not; what takes too long stays unknown. */
void watch_seen(struct store *s, const struct watch_sql *q, struct arena *a,
                struct proposal_seen *seen);

/*
 * Bind the proposed watch to the database and scan: the evidence and, if enough runs are known, the
 * threshold go into the proposal. A failure means that the proposal or the database is at fault;
 * numbers that take too long are left out.
 */
MUST_CHECK defib_err proposal_try(struct store *s, struct proposal *p, struct arena *a,
                                  struct proposal_seen *seen, struct failure *f);

/* ---- queues of a database (detect.c) ---- */

struct detected {
	const char *preset; /* NULL: not a known queue, but `proposal` has a watch for it */
	const char *name, *table;
	bool own_table; /* the preset's table has another name: the watch must name this one */
	struct proposal_seen seen;
	int nstates;
	struct column_value *states; /* of a known queue: at most TABLE_ROWS_EXACT rows are counted */
	struct proposal proposal;
};

struct detection {
	int ntables; /* that were examined */
	int n;       /* known queues first */
	struct detected *items;
};

/* The name of the preset in this file; NULL: it is not a preset. */
struct embedded_file;
const char *preset_name(const struct embedded_file *file, struct arena *a);
/* Only the known ones. */
MUST_CHECK defib_err detect_known(struct store *s, struct arena *a, struct detection *out,
                                  struct failure *f);
/* Changes nothing. A table that takes too long is left out. */
MUST_CHECK defib_err detect_queues(struct store *s, struct arena *a, struct detection *out,
                                   struct failure *f);
/* The entry of `watches:` for it; `database` as in proposal_yaml(). */
void detected_yaml(const struct detected *d, const char *database, struct buf *out);
/* It only reports until an operator confirms lines of it. */
bool detected_only_reports(const struct detected *d);
/* "3 running, 1 stuck; available 10, running 3" */
void detected_numbers(const struct detected *d, struct buf *out);

#endif
