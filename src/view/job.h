/* SPDX-License-Identifier: Apache-2.0
 * job.h: one job of a list: as JSON, and in the phrases that lists, stories and explanations share.
 */
#ifndef VIEW_JOB_H
#define VIEW_JOB_H

#include "recover/attach.h"
#include "recover/browse.h"
#include "recover/scan.h"
#include "view/output.h"

/* "pages/17": how a job is written on the command line and by --ids. */
void job_qualified(const struct watch *w, const char *job, struct buf *out);
/* ,"key":…: a text, or the array of a composite one. */
void key_value_json(const struct watch *w, const char *job, struct buf *out);
/* A whole row, as an object that is still open. */
void browsed_json(const struct watch *w, const struct database *d, const struct browsed *row,
                  struct buf *out);
/* ,"claim":…: the session that claimed the job; null if its table does not record it. */
void claim_json(const struct claim *c, bool there, struct buf *out);

/* "silent 2h 5m (limit 1h)"; "" if it is not stuck. */
void verdict_words(const struct judgement *j, struct buf *out);
/* "1 of 3" */
void attempts_words(const struct facts *f, struct buf *out);
/* "held: poison, retry due in 2m" */
void note_words(const struct watch *w, const struct browsed *row, struct buf *out);
/* "OCR_PROCESSING (6)", or the state as it is. */
void state_words(const struct watch *w, const char *state, struct buf *out);
/* "in 2m", "3m ago" */
void when_text(int64_t us, int64_t now_us, struct buf *out);

#define FACTS_MAX 64

/* Names and values, printed in two columns. */
struct fact_sheet {
	int n;
	const char *names[FACTS_MAX], *values[FACTS_MAX];
	struct arena *arena;
};

void fact_line(struct fact_sheet *s, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* What the row says. */
void fact_lines(struct fact_sheet *s, const struct watch *w, const struct facts *f);
/* The session that claimed it, if its table records that (defib attach). */
void fact_claim(struct fact_sheet *s, const struct claim *c, int64_t now_us);
void fact_print(const struct fact_sheet *s, struct buf *out);

/* A list of jobs for a terminal: its titles, and one row each. */
void list_head(struct table *t, const struct watch *w);
void list_job_row(struct table *t, const struct watch *w, const struct browsed *row);

/*
 * Where a list continues, as one word that needs no quoting in a shell. It carries the order it was
 * made in, so that it cannot be used with another.
 */
struct cursor {
	const char *watch;
	enum list_sort sort;
	bool desc;
	int nkeys;
	struct browse_position at;
};

void cursor_text(const struct cursor *x, struct buf *out);
/* False if it is not a cursor. */
bool cursor_parse(const char *text, struct arena *a, struct cursor *out);

/*
 * ---- one job, judged ----
 * The facts, the rule that fires or why none does, what holds it back, and what would be done.
 */

/* The participle of a remedy: "requeued". */
const char *remedy_participle(enum remedy r);

/* One job with related information. */
struct explained {
	struct candidate cand;
	bool has_hold, has_retry, has_claim;
	struct claim claim; /* the session that claimed it, if its table records that */
	struct held_job hold;
	struct pending_retry retry;
	const char
		*guard;    /* of a stuck one: what the daemon that leads the watch holds back, and why */
	double factor; /* by which that daemon raises thresholds; 0: no daemon leads */
};

/*
 * `w` is the watch as it is to be shown. *found is false if there is no such row. `will_have`: a
 * ledger will be created before the first fix, and the explanation assumes it.
 */
MUST_CHECK defib_err explain_read(struct store *s, const struct watch_sql *q,
                                  const struct ledger *l, const struct watch *w, const char *job,
                                  bool will_have, struct arena *a, struct explained *out,
                                  bool *found, struct failure *f);
/* What the leading daemon holds back, if there is one and its status can be read. */
void explain_guard(struct store *s, const struct database *d, const struct watch *w,
                   struct arena *a, struct explained *x);
/* A complete object. */
void explained_json(const struct watch *w, const struct database *d, const struct explained *x,
                    struct buf *out);
/* A title and one fact per line. */
void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out);

#endif
