/* SPDX-License-Identifier: Apache-2.0
 * top/lines.h: the model as lines of a screen of some size: text and its colours, which the
 * drawing only has to put there. Pure, as the model is.
 *
 * Without UTF-8 every line is ASCII. What comes from a table is made visible by out_padded().
 */
#ifndef CLI_TOP_LINES_H
#define CLI_TOP_LINES_H

#include "cli/top/model.h"

struct top_span {
	const char *text;
	enum color color;
	bool inverse, bold;
};
#define TOP_SPANS_MAX (2 * TOP_CELLS_MAX + 2)

struct top_line {
	struct top_span spans[TOP_SPANS_MAX];
	int n;
};

struct top_size {
	int width, height;
	bool ascii;
};

/* The least that makes sense; on a smaller screen what does not fit is cut. */
#define TOP_HEIGHT_LEAST 8

/* Exactly `width` columns of a text: cut with a mark, or filled. */
void top_fit(struct buf *out, const char *text, int width, bool ascii);
/* A line of one text. */
void top_line_text(struct top_line *l, struct arena *a, const char *text, struct top_span how,
                   const struct top_size *size);
/* All but the last line, which is the caller's: size->height - 1 lines. */
void top_lines(const struct top_model *m, const char *title, const struct top_size *size,
               struct arena *a, struct top_line *out);
/* A page of text from line `from`; returns how many lines there are in all. */
int top_page_lines(const char *text, int from, const struct top_size *size, struct arena *a,
                   struct top_line *out);

#endif
