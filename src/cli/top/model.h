/* SPDX-License-Identifier: Apache-2.0
 * top/model.h: what `defib top` shows, apart from how it is drawn.
 *
 * Readings come from the databases, one part each, as rows of cells. The model puts the parts
 * together, filters them, and knows where the cursor is and what is tagged: by the identity of
 * a row, never by its place, so that nothing moves under the fingers when a new reading comes.
 * Pure: no database, no terminal, no clock.
 */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include "cli/cli.h"

enum top_pane { TOP_WATCHES, TOP_JOBS, TOP_WORKERS, TOP_PANES };
/* More would be no overview; the count of a watch still says how many there are. */
#define TOP_ROWS_MAX 200
#define TOP_CELLS_MAX 8
#define TOP_EVENTS_MAX 5

struct top_cell {
	const char *text; /* NULL: nothing */
	enum color color;
};

struct top_row {
	const char *id; /* of its own among all rows of its pane */
	int part;       /* which database */
	int watch;      /* its place among the watches of that database; -1: of none */
	const char *job;
	bool paused; /* the watch: a person said so */
	struct top_cell cells[TOP_CELLS_MAX];
};

/* What one database last said; whoever has it frees it. */
struct top_part {
	struct arena arena;
	const char *database;
	const char *error; /* it is away, and why; NULL: it is not */
	struct top_row *rows[TOP_PANES];
	int n[TOP_PANES];
	int64_t stuck; /* jobs of all watches, not only those that are listed, without those on hold */
	bool stuck_more;                    /* there are at least so many */
	const char *events[TOP_EVENTS_MAX]; /* the newest first */
	int nevents;
};
void top_part_free(struct top_part *p);

struct top_model {
	struct top_part **parts; /* one a database; NULL: nothing heard yet */
	int nparts;
	const struct top_row **shown[TOP_PANES]; /* what is left by the filter */
	int nshown[TOP_PANES];
	enum top_pane focus;
	int cursor[TOP_PANES];
	char *cursor_id[TOP_PANES]; /* NULL: none yet */
	char filter[128];
	char **tags; /* ids of jobs */
	int ntags;
};

void top_model_init(struct top_model *m, int nparts);
void top_model_release(struct top_model *m);
/* A new reading in the place of the old one, which is freed. */
void top_model_put(struct top_model *m, int part, struct top_part *p);

extern const char *const top_titles[TOP_PANES][TOP_CELLS_MAX];

/* Only jobs and workers of which some cell has this text, in any case; "": all. */
void top_filter(struct top_model *m, const char *text);
void top_move(struct top_model *m, int by);
void top_focus(struct top_model *m, int by);
/* The row under the cursor of a pane; NULL: the pane is empty. */
const struct top_row *top_at(const struct top_model *m, enum top_pane pane);
void top_tag(struct top_model *m, const struct top_row *row);
bool top_tagged(const struct top_model *m, const struct top_row *row);
void top_untag_all(struct top_model *m);
/* The jobs that an act is about: the tagged ones, else the one under the cursor. */
int top_targets(const struct top_model *m, const struct top_row **out, int room);

#endif
