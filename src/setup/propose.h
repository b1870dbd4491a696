/* SPDX-License-Identifier: Apache-2.0
 * propose.h: a watch for a table that nobody has described, from its facts; and which queues a
 * database has.
 *
 * Pure: facts in, lines of a watch out, each with the evidence for it, other
 * readings, and a CHECK where it is a guess. Nothing is guessed in silence: as
 * long as one line is to be checked the watch only reports, and where no sign
 * of life, no key or no running rows can be told, `missing` says so and there
 * is no watch.
 *
 * proposal_try() asks the database what the watch would find, which becomes
 * evidence too, and how long runs take, which becomes the threshold.
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
	bool yaml;         /* the value is YAML as it stands, not a text to be quoted */
	const char *why;   /* the evidence; may be NULL */
	const char *check; /* what a person must look at; NULL: sure enough */
	int nothers;
	const char *others[PROPOSAL_OTHERS_MAX]; /* other readings, whole lines */
};

struct proposal {
	const char *name, *table;
	int nlines, nchecks, nmissing;
	struct proposed_line lines[PROPOSAL_LINES_MAX];
	const char *missing[PROPOSAL_MISSING_MAX]; /* sentences */
	const char *limit;                         /* the key of the threshold … */
	bool age_judges;                           /* … which is a matter of how long runs take */
	bool queue; /* it looks like a queue even to who did not ask for this table */
};

/* What a watch finds now. */
struct proposal_seen {
	int64_t running, stuck;
	bool looked; /* else it took too long */
	bool running_capped, stuck_capped;
	bool has_oldest;
	int64_t oldest_us;
	double runs; /* whose times are known */
	int64_t p99_us;
};

void propose(const struct table_facts *t, struct arena *a, struct proposal *out);
/*
 * The same with what the rows in work say: once it is known which they are, columns are judged by
 * their contents there.
 */
void propose_seen(struct store *s, struct table_facts *t, struct arena *a, struct proposal *out);
#define REPORT_ONLY "[{do: report}]"
/* The line that lets the watch only report, unless it is there. */
void proposal_report_only(struct proposal *p);
/* "2 of 3 running rows", of which a first scan --fix would change the stuck ones; NULL: none. */
const char *seen_would_act(const struct proposal_seen *seen, struct arena *a);
struct proposed_line *proposal_line(struct proposal *p, const char *key);

/*
 * The watch as a list entry in YAML, indented under `watches:`. `database` is
 * its database where it is not the first one, else NULL. What lacks something
 * is written as comments only.
 */
void proposal_yaml(const struct proposal *p, const char *database, struct buf *out);
/* A scalar as YAML writes it: plain where that is safe, else in double quotes. */
void yaml_scalar(const char *text, struct buf *out);
/* Comment lines of a readable width, whatever the text holds. */
void yaml_comment(const char *indent, const char *text, struct buf *out);

/* Look with a watch, of a proposal or not; what takes too long stays unknown. */
void watch_seen(struct store *s, const struct watch_sql *q, struct arena *a,
                struct proposal_seen *seen);

/*
 * Bind the proposed watch to the database and look: its evidence and, where
 * enough runs are known, its threshold go into the proposal. A failure is one of
 * the proposal itself or of the database; numbers that take too long are left out.
 */
MUST_CHECK defib_err proposal_try(struct store *s, struct proposal *p, struct arena *a,
                                  struct proposal_seen *seen, struct failure *f);

/* ---- queues of a database (detect.c) ---- */

struct detected {
	const char *preset; /* NULL: no known queue, but `proposal` has a watch for it */
	const char *name, *table;
	bool own_table; /* the preset's table is another one: the watch must name it */
	struct proposal_seen seen;
	int nstates;
	struct column_value *states; /* of a known queue: TABLE_ROWS_EXACT rows at most are counted */
	struct proposal proposal;
};

struct detection {
	int ntables; /* that were looked at */
	int n;       /* known queues first */
	struct detected *items;
};

/* The name of a preset that is shipped in this file; NULL: it is no preset. */
struct embedded_file;
const char *preset_name(const struct embedded_file *file, struct arena *a);
/* Only the known ones. */
MUST_CHECK defib_err detect_known(struct store *s, struct arena *a, struct detection *out,
                                  struct failure *f);
/* Nothing is changed. What takes too long of one table leaves that table out. */
MUST_CHECK defib_err detect_queues(struct store *s, struct arena *a, struct detection *out,
                                   struct failure *f);
/* The entry of `watches:` for it; `database` as in proposal_yaml(). */
void detected_yaml(const struct detected *d, const char *database, struct buf *out);
/* It waits for an operator to confirm lines of it. */
bool detected_only_reports(const struct detected *d);
/* "3 running, 1 stuck; available 10, running 3" */
void detected_numbers(const struct detected *d, struct buf *out);

#endif
