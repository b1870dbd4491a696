/* SPDX-License-Identifier: Apache-2.0
 * output.h: the parts from which all texts and JSON documents are made.
 *
 * The room `view` says once what each thing consists of, for the command line and for HTTP alike.
 * Begin with record.h, then job.h; story.h, scan.h, ledger.h, status.h and report.h have the tables
 * of fields of their records. Who reads it (viewer.h) decides what is masked.
 *
 * Foreign text is made visible: nothing in it can control the terminal. Table columns without any
 * value are left out. Values that are too long are cut with "…", except in the first column, which
 * names the row.
 */
#ifndef VIEW_OUTPUT_H
#define VIEW_OUTPUT_H

#include "base/text.h"
#include "watch/terms.h"

/* Text in a colour, or plain if `on` is false. */
enum color { COLOR_NONE, COLOR_BOLD, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_DIM };
void out_color(struct buf *out, bool on, enum color color, const char *text);
/*
 * Foreign text, on one line: '?' replaces terminal control and bytes that are not text, and very
 * long text is cut.
 */
#define OUT_TEXT_MAX 4000
void out_visible(struct buf *out, const char *text);
/* The same, padded to a display width. */
void out_padded(struct buf *out, const char *text, int width);
int out_width(const char *text);
/* "  name    text", the name padded to a display width, as a line. */
void out_line(struct buf *out, const char *name, int width, const char *text);
/* "main/pages", in bold. */
void out_title(struct buf *out, bool color, const char *database, const char *watch);
/* "OCR_PROCESSING (6)", or the state as it is; `w` may be NULL. */
void state_words(const struct watch *w, const char *state, struct buf *out);
/* "in 2m", "3m ago" */
void when_text(int64_t us, int64_t now_us, struct buf *out);
/* To stdout, and release it. */
void out_print(struct buf *out);

#define TABLE_COLUMNS_MAX 24
#define TABLE_CELL_MAX 60

struct table {
	int ncols;
	const char *titles[TABLE_COLUMNS_MAX];
	const char **cells; /* rows of ncols; NULL: nothing */
	enum color *colors;
	int n, room; /* cells */
	bool whole;  /* no cell is cut */
	struct arena arena;
};

void table_init(struct table *t);
void table_column(struct table *t, const char *title);
/* Several, separated by spaces. */
void table_columns(struct table *t, const char *titles);
/* The next cell of the current row; the text is copied. Every row fills all columns. */
void table_cell(struct table *t, enum color color, const char *text);
/* The same from a buffer, which is cleared for the next one. */
void table_take(struct table *t, enum color color, struct buf *text);
void table_print(const struct table *t, bool color, struct buf *out);
void table_release(struct table *t);

/* ---- members of JSON objects ---- */

/* A text alone; NULL is null. */
void json_value(struct buf *out, const char *value);
/* ,"name":value; NULL and absent values are null. */
void json_text(struct buf *out, const char *name, const char *value);
void json_number(struct buf *out, const char *name, bool has, int64_t value);
void json_bool(struct buf *out, const char *name, bool value);
/* As ISO text. */
void json_time(struct buf *out, const char *name, bool has, int64_t us);

#endif
