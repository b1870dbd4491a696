/* SPDX-License-Identifier: Apache-2.0
 * top/top.h: the parts of `defib top`.
 *
 * reader.c  a thread per database, with sessions of its own: reads, and executes acts
 * read.c    one reading of one database, and the last hour of a watch as a line of characters
 * model.c   what is shown, filtered and tagged, and lines of it of a given width (pure)
 * talk.c    keys, and the dialogue before an act
 * screen.c  curses; no other file uses it
 *
 * Keys work while a database is slow or unavailable, and an unavailable database does not affect
 * the others. A reader reads at each interval and after each act, and keeps the newest reading
 * until it is taken. A request of the user is an action: it is passed to a reader, executed in
 * turn, and returned with its text. All queries are bounded in rows and time.
 */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

#include "cli/select.h"

/*
 * ---- the model ----
 * What is shown, independent of how it is drawn. Each database supplies one part, as rows of cells.
 * The model joins the parts, filters them, and tracks the cursor and the tags by the identity of a
 * row, never by its position, so that nothing moves under the cursor when a new reading arrives.
 * Pure: no database, no terminal, no clock.
 */

enum top_pane { TOP_WATCHES, TOP_JOBS, TOP_WORKERS, TOP_PANES };
/* More would not be an overview; the count of a watch still shows the total. */
#define TOP_ROWS_MAX 200
#define TOP_CELLS_MAX 12
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
	int64_t stuck;   /* jobs of all watches, not only listed ones, without those on hold */
	bool stuck_more; /* there are at least this many */
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
struct series;
void top_spark(const struct series *s, enum top_watch_cell which, bool ascii, struct buf *out);

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

/* Shared by all readers; not changed while they run. */
struct top_context {
	const char *actor;
	bool ledger_off;
	const struct workflow_list *workflows; /* of the configuration */
	int64_t every_ms;
	bool ascii;  /* of the terminal */
	int wake_fd; /* written to when there is something to take */
};

enum top_action_is { TOP_STORY, TOP_ACT, TOP_UNDO, TOP_PAUSE, TOP_RESUME };

struct top_action {
	enum top_action_is is;
	struct arena arena; /* of all below */
	int turn;           /* identifies the request: results that are no longer wanted are dropped */
	int part;           /* whose reader */
	int watch;          /* among the reader's */
	const struct act_kind *kind;
	const char **jobs; /* of a story or an act; of an undo without a batch */
	int njobs;
	const char *batch, *reason;
	bool dry_run;
	/* The result: */
	struct buf text;
	int64_t good;  /* jobs to which it was, or would be, done */
	char made[64]; /* the batch that it wrote */
	struct top_action *next;
};
struct top_action *top_action_new(enum top_action_is is, int part, int watch);
void top_action_free(struct top_action *e);

/* A watch, prepared by a reader. */
struct top_bound {
	const struct watch *watch;
	struct bound bound;
	bool used;         /* the built-in queue: it has, or had, jobs */
	int64_t recovered; /* recoveries seen in the ledger since the reader began */
};

struct top_reader;
struct top_reader *top_reader_start(const struct top_context *ctx, const struct database *d,
                                    const struct watch *const *watches, int n, int part);
/* The newest reading, if there is one since the last call, and a finished action; else NULL. */
struct top_part *top_reader_reading(struct top_reader *d);
struct top_action *top_reader_done(struct top_reader *d);
void top_reader_send(struct top_reader *d, struct top_action *e);
/* Ask it to end; false: it is still in a database call after `wait_ms`. */
bool top_reader_stop(struct top_reader *d, int64_t wait_ms);
/* Whether it is currently changing something. */
bool top_reader_writes(struct top_reader *d);
void top_reader_free(struct top_reader *d);

/* ---- what a reader does, in its thread (top/read.c, top/reader.c) ---- */

struct top_view {
	const struct top_context *ctx;
	const struct database *database;
	int part;
	struct session reads, writes;
	int64_t opened; /* of `reads`, when the watches were prepared */
	struct top_bound *watches;
	int n;
	int64_t ledger_id; /* up to which events were counted; -1: not yet started */
	int64_t begun_ms;
	struct arena series_arena; /* of the last hour of each watch, which is read now and then */
	struct series *series;     /* NULL: not known */
	int64_t series_ms;         /* when to read it again */
};
struct top_part *top_read(struct top_view *v);
/* Prepare a watch; what was prepared on a lost session is prepared again. */
MUST_CHECK defib_err top_ready(struct top_view *v, int watch, struct failure *f);

/*
 * ---- lines ----
 * The model as lines for a screen of some size: text and colours, ready to be drawn. Without UTF-8
 * every line is ASCII. out_padded() makes text from a table visible.
 */

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

/* ---- the terminal: opened with curses, restored on every exit ---- */

/* Keys that are not characters; a character is its own code. */
enum top_key {
	TOP_KEY_NONE = -1,
	TOP_KEY_UP = 0x110000, /* above all of Unicode */
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_TAB,
	TOP_KEY_BACK_TAB,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_ERASE,
	TOP_KEY_RESIZE,
};

/* Returns false, after printing one line, if this terminal is not known. */
bool top_screen_open(bool color);
void top_screen_close(void);
struct top_size top_screen_size(void);
/* Whether the terminal shows only ASCII; also before it is opened. */
bool top_screen_is_ascii(void);
/* `cursor` is the input column in the last line; -1: none. */
void top_screen_draw(const struct top_line *lines, int n, int cursor);
/* The next key that was pressed; TOP_KEY_NONE: none. */
int top_screen_key(void);

/*
 * ---- keys, and the dialogue before an act ----
 * An act follows the commands: a reason, a dry run whose outcome is shown, a question with the
 * number of jobs and the database's name, and only then the act itself. The readers do all of it; a
 * key never waits for a database.
 */

enum top_mode { MODE_LIST, MODE_FILTER, MODE_REASON, MODE_WAIT, MODE_ASK, MODE_PAGE };

/* One database and its reader. */
struct top_place {
	const struct database *database;
	const struct watch **watches;
	int n;
	struct top_reader *reader;
};

/* The last acts from here, for an undo. */
#define TOP_LAST_MAX 16
struct top_last {
	int part, watch;
	char batch[64];
};

struct top_talk {
	struct top_model model;
	const char *environment; /* its name; NULL: not given */
	struct top_place *places;
	int nplaces;
	enum top_mode mode;
	char input[256];
	struct top_action *plan; /* the act under discussion */
	const char *verb;        /* of the plan */
	int turn;                /* counts the requests to the readers */
	int waiting;             /* pending actions of this request */
	bool acting;             /* they change something */
	struct buf page;
	int page_from, page_lines;
	char message[256];
	struct top_last last[TOP_LAST_MAX];
	int nlast;
	bool quit;
};

void top_talk_init(struct top_talk *t, struct top_place *places, int n);
void top_talk_release(struct top_talk *t);
void top_talk_key(struct top_talk *t, int key, const struct top_size *size);
/* Take what the readers have finished. */
void top_talk_hear(struct top_talk *t);
/* All lines of the screen, size->height of them; returns the input column, or -1. */
int top_talk_lines(struct top_talk *t, const struct top_size *size, struct arena *a,
                   struct top_line *out);

#endif
