/* SPDX-License-Identifier: Apache-2.0
 * model.h: what is shown, independent of how it is drawn, and as lines for a screen of some
 * size. Each database supplies one part, as rows of cells. The model joins the parts, filters them,
 * and tracks the cursor and the tags by the identity of a row, never by its position, so that
 * nothing moves under the cursor when a new reading arrives. Pure: no database, no terminal, no
 * clock. Without UTF-8 every line is ASCII. out_padded() makes text from a table visible.
 */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include "cli/select.h"

enum top_pane { TOP_WATCHES, TOP_JOBS, TOP_WORKERS, TOP_PANES };
/* More would not be an overview; the count of a watch still shows the total. */
#define TOP_ROWS_MAX 200
#define TOP_CELLS_MAX 13
#define TOP_EVENTS_MAX 5

struct top_cell {
	const char *text; /* NULL: nothing */
	enum color color;
};

struct top_row {
	const char *id; /* unique among all rows of its pane */
	int part;       /* which database */
	int watch;      /* its index among the watches of that database; -1: none */
	const char *job;
	bool paused; /* the watch: paused by an operator */
	struct top_cell cells[TOP_CELLS_MAX];
};

/* The last reading of one database; freed by its reader. */
struct top_part {
	struct arena arena;
	const char *database;
	const char *error; /* why it is unavailable; NULL: it is available */
	struct top_row *rows[TOP_PANES];
	int n[TOP_PANES];
	int64_t stuck;     /* jobs of all watches, not only listed ones, without those on hold */
	bool stuck_more;   /* there are at least this many */
	int64_t unstarted; /* jobs that are due and that nobody starts, by the daemons' last scans */
	const char *events[TOP_EVENTS_MAX];   /* the newest first … */
	const char *event_at[TOP_EVENTS_MAX]; /* … and their times, as ISO text */
	int nevents;
};
void top_part_free(struct top_part *p);

struct top_model {
	struct top_part **parts; /* one per database; NULL: no reading yet */
	int nparts;
	const struct top_row **shown[TOP_PANES]; /* rows that pass the filter */
	int nshown[TOP_PANES];
	enum top_pane focus;
	int cursor[TOP_PANES];
	char *cursor_id[TOP_PANES]; /* NULL: none yet */
	bool moved[TOP_PANES];      /* by the user: else watches and workers show their first rows */
	char filter[128];
	char **tags; /* ids of jobs */
	int ntags;
};

void top_model_init(struct top_model *m, int nparts);
void top_model_release(struct top_model *m);
/* Replace the previous reading, which is freed. */
void top_model_put(struct top_model *m, int part, struct top_part *p);

/*
 * A column of a pane. If a line is too narrow for all, those with the highest rank are left out
 * first, so that no title and no number is cut; rank 0 always stays.
 */
struct top_column {
	const char *title; /* NULL: after the last one */
	int rank;
};
extern const struct top_column top_columns[TOP_PANES][TOP_CELLS_MAX + 1];

/* Cells of a watch. */
enum top_watch_cell {
	WATCH_NAME,
	WATCH_WAITING,
	WATCH_OLDEST_WAIT,
	WATCH_RUNNING,
	WATCH_OLDEST_RUN,
	WATCH_STUCK,
	WATCH_HELD,
	WATCH_UNSTARTED,
	WATCH_WORKERS,
	WATCH_RECOVERED,
	WATCH_WAITING_HOUR,
	WATCH_DONE_HOUR,
	WATCH_STATE,
};

/*
 * The last hour in TOP_SPARK characters, each the highest of its minutes, scaled to the highest of
 * all; "·" (ASCII: ".") where nothing is known, and "" if nothing is.
 */
#define TOP_SPARK 12
/* Only jobs and workers with this text in some cell, ignoring case; "": all. */
void top_filter(struct top_model *m, const char *text);
void top_move(struct top_model *m, int by);
void top_focus(struct top_model *m, int by);
/* The row under the cursor of a pane; NULL: the pane is empty. */
const struct top_row *top_at(const struct top_model *m, enum top_pane pane);
void top_tag(struct top_model *m, const struct top_row *row);
bool top_tagged(const struct top_model *m, const struct top_row *row);
void top_untag_all(struct top_model *m);
/* The jobs that an act applies to: the tagged ones, else the one under the cursor. */
int top_targets(const struct top_model *m, const struct top_row **out, int room);

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

/* The smallest useful size; on a smaller screen the rest is cut. */
#define TOP_HEIGHT_LEAST 8

/* Exactly `width` columns of a text: padded, or cut with a mark, between words if it has any. */
void top_fit(struct buf *out, const char *text, int width, bool ascii);
/* A line of one text. */
void top_line_text(struct top_line *l, struct arena *a, const char *text, struct top_span how,
                   const struct top_size *size);
/*
 * All lines except the last one, which the caller fills: size->height - 1 lines. `badge` stands
 * before the title; NULL: none.
 */
void top_lines(const struct top_model *m, const char *badge, const char *title,
               const struct top_size *size, struct arena *a, struct top_line *out);
/* A page of text from line `from`; returns the total number of lines. */
int top_page_lines(const char *text, int from, const struct top_size *size, struct arena *a,
                   struct top_line *out);

#endif
