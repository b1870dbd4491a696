/* SPDX-License-Identifier: Apache-2.0
 * job.h: one job of a list: as JSON, and in the phrases that lists, stories and explanations share.
 */
#ifndef VIEW_JOB_H
#define VIEW_JOB_H

#include "recover/browse.h"
#include "recover/explain.h"
#include "view/record.h"

/* "pages/17": how a job is written on the command line and by --ids. */
void job_qualified(const struct watch *w, const char *job, struct buf *out);
/* The key of a job in JSON: a text, or the array of a composite one. */
void key_value_json(const struct watch *w, const char *job, struct buf *out);
#define KEY_SCHEMA "{type: [string, array]}"
/* A struct browsed: one job of a list. */
extern const struct record browsed_record;
/* The same with where the list continues after it, and what a scan would do to it. */
struct listed_job {
	const struct browsed *row;
	const char *cursor;             /* NULL: it is the only one */
	const struct candidate *judged; /* NULL: not asked for */
};
extern const struct record job_record;
/* A struct claim: the session that claimed the job. */
extern const struct record claim_record;

/* Of a row that waits: "is not started: it has waited 3h (limit 10m), and …". */
void waits_words(const struct judgement *j, struct buf *out);
/* "silent 2h 5m (limit 1h)"; "" if it is not stuck. */
void verdict_words(const struct judgement *j, struct buf *out);
/* "1 of 3" */
void attempts_words(const struct facts *f, struct buf *out);
/* "by cli:ana 5m ago: a large import" */
void excuse_words(const struct watch *w, const struct facts *f, struct buf *out);
/* "held: poison, retry due in 2m" */
void note_words(const struct watch *w, const struct browsed *row, struct buf *out);

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
void fact_print(const struct fact_sheet *s, const struct watch *w, const struct secrets *secrets,
                struct buf *out);

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

/* Verdict and rule, what keeps scans away, the remedy, what comes next. */
void verdict_lines(const struct watch *w, const struct explained *x, struct fact_sheet *s);
/* A struct explained. */
extern const struct record explained_record;
/* A title and one fact per line. */
void explained_text(const struct watch *w, const struct database *d, const struct explained *x,
                    struct arena *a, bool color, struct buf *out);

#endif
