/* SPDX-License-Identifier: Apache-2.0
 * scan.h: what a scan found and did, what operators did to jobs, and acts on all matching jobs,
 * which a daemon carries out in the background.
 */
#ifndef VIEW_SCAN_H
#define VIEW_SCAN_H

#include "ledger/background.h"
#include "recover/by_hand.h"
#include "recover/scan.h"
#include "view/record.h"
#include "view/refusal.h"

/* {"watch":…,"database":…,"jobs":[ */
void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out);
void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out);
/* ],"running":…} */
void scan_end_json(const struct scan_result *r, struct buf *out);
/* ,"running":…,"found":…, and each outcome */
void scan_counts_json(int64_t running, int64_t found, const int64_t *outcomes, struct buf *out);
/* A struct candidate; and what a scan did in all. */
extern const struct record candidate_record, scan_record, waiting_record;

/* The first rows of a watch, as text; the rest is only counted. */
#define SCAN_ROWS_MAX 20
struct scan_row {
	const char *job, *verdict, *because, *action, *detail;
	enum outcome outcome;
};
struct scan_rows {
	struct arena arena;
	bool fix;
	struct scan_row items[SCAN_ROWS_MAX];
	int n;
	int64_t seen;
};
void scan_job_row(struct scan_rows *r, const struct watch *w, const struct candidate *c);
void scan_rows_text(const struct scan_rows *r, bool color, struct buf *out);
/* "main/pages: 3 stuck of 12 running, 3 recovered (1.2 ms)" */
void scan_head_text(const struct watch *w, const struct database *d, const struct scan_result *s,
                    bool fix, bool color, struct buf *out);

/* What could not be known of values that are remembered; "": nothing. */
void scan_seen_text(const struct seen_result *r, bool fix, struct buf *out);

/* ---- acts by hand ---- */

/* {"act":…,"dry_run":…,"watches":[ */
void act_begin_json(const char *verb, bool dry_run, struct buf *out);
/* {"watch":…,"database":…,"jobs":[ */
void act_group_begin_json(const struct watch *w, const struct database *d, struct buf *out);
/* `good` is the outcome that counts as done; OUTCOME_LEFT for a dry run. */
struct acted_job {
	const struct candidate *candidate;
	enum outcome good;
	enum caller caller;
};
extern const struct record acted_record;
void act_job_json(const struct watch *w, const struct candidate *c, enum outcome good,
                  enum caller caller, struct buf *out);
/* ],"left":…,"batch":…} */
void act_group_end_json(const struct by_hand_result *r, struct buf *out);

/* The verb forms of an act. */
struct act_words {
	const char *verb;  /* "requeue" */
	const char *done;  /* "requeued" */
	bool dry_run;      /* then OUTCOME_LEFT is what would be done … */
	enum outcome good; /* … else this is what was */
};
/* The outcome that counts as done. */
enum outcome act_good(const struct act_words *r);
/* "requeue 12 jobs of watch pages in database main (postgres://…)"; several are joined by "; ". */
void act_question(struct buf *out, const char *verb, int64_t n, const struct watch *w,
                  const struct database *d);
/* The first jobs of an act and their outcomes, as a table; done and others are counted apart. */
#define ACT_ROWS_MAX 20
struct act_rows {
	struct table table;
	int most;        /* of each; the rest is only counted */
	int64_t seen[2]; /* done, and others */
};
void act_rows_init(struct act_rows *r, int most);
void act_job_row(struct act_rows *rows, const struct act_words *r, const struct watch *w,
                 const struct candidate *c);
/* With "… and 12 more" below; `where`, such as " (--json lists all)", follows that. */
void act_rows_text(const struct act_rows *rows, const char *where, bool color, struct buf *out);
void act_rows_release(struct act_rows *r);
/* "main/pages: 12 requeued, 1 refused", as a line; "" if there was nothing. */
void act_counts_text(const struct act_words *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out);

/* ---- background acts ---- */

/* A struct background_act. */
extern const struct record background_record;
/* How to take back a batch, or that it cannot be. */
void undo_line(bool undoable, const char *batch, struct buf *out);
/* Jobs that were handled, whatever the outcome. */
int64_t background_handled(const struct background_act *act);
/* "1,204 of 4,800 requeued, 3 refused" */
void background_sentence(const struct background_act *act, struct buf *out);

/* One of them with everything that is known. */
void background_text(const struct background_act *act, const struct database *d, int64_t now_us,
                     bool undoable, bool color, struct buf *out);

/* Follows "no row is running, and": what that may mean, and what to do. */
void unseen_hint(bool secured, struct buf *out);

#endif
