/* SPDX-License-Identifier: Apache-2.0
 * options.h: one table of option rows drives reading, defaults, checks, `config show` and the
 * reference documentation.
 *
 * Each room describes its struct with a const table of rows. cfg_read() walks a map of the tree
 * against such a table: it sets defaults, expands ${NAME:-default} (never inside SQL), converts,
 * rejects unknown keys with the nearest known one, and records every effective value with its
 * origin. All problems are collected, not just the first one.
 */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include "base/text.h"
#include "config/tree.h"

/* SQL as the user wrote it, with its position. */
struct sql_text {
	const char *text; /* NULL: not given */
	struct cfg_mark at;
};

struct text_list {
	int n;
	const char **items; /* ends with NULL unless empty: can be an argv */
};

/* The index of a text in a list, ignoring case; -1: not found. */
int text_list_find(const struct text_list *list, const char *text);

struct cfg_reader;

enum opt_type {
	OPT_TEXT,      /* const char * */
	OPT_SQL,       /* struct sql_text; no ${…}; a plain value cut by " #" is rejected */
	OPT_SET,       /* the same, and a SET list */
	OPT_BOOL,      /* bool */
	OPT_INT,       /* int64_t, within min..max */
	OPT_NUMBER,    /* double, at least 0 */
	OPT_DURATION,  /* int64_t microseconds */
	OPT_TEXT_LIST, /* struct text_list; a single scalar is a list of one */
	OPT_CHOICE,    /* int: index into `choices` */
	OPT_MAP,       /* a nested struct at `offset`, described by `rows` */
	/*
	 * `read` fills the target, which is the field at `offset`; the path already ends with the row's
	 * name. If the key is absent, `read` gets NULL and sets the default. The given value, or
	 * `standard`, is shown unless `read` shows something itself. Without `read` the key is accepted
	 * and skipped.
	 */
	OPT_CUSTOM,
};

struct opt_row {
	const char *name; /* NULL ends the table */
	enum opt_type type;
	size_t offset;
	size_t size; /* not 0: the field is a pointer, and a struct of this size is allocated for it */
	const char *standard; /* default as text, in the form a user would write; NULL: none */
	const char *help;     /* one line, for the reference … */
	int group;            /* … and its part of a long one; 0: the first, or the only one */
	/* OPT_INT; both 0: any value from 0 on. OPT_DURATION: `min` is the shortest, in microseconds.
	 */
	int64_t min, max;
	const char *const *choices; /* OPT_CHOICE, ends with NULL */
	const struct opt_row *rows; /* OPT_MAP; OPT_CUSTOM: for the reference only */
	void (*read)(struct cfg_reader *r, const struct cfg_node *node, void *target);
	bool required;
};

/* A row: OPTION(TEXT, "table", offsetof(struct watch, table), "the table", .required = true) */
/* clang-format off */
#define OPTION(kind, key, at, text, ...) \
	{.name = key, .type = OPT_##kind, .offset = at, .help = text, ##__VA_ARGS__}
/* clang-format on */

struct cfg_problem {
	struct cfg_mark at;
	const char *text;
	bool warning;
};

struct cfg_shown {
	const char *path;   /* "watches.pages.stuck_after" */
	const char *value;  /* effective, as text; secrets redacted */
	const char *origin; /* "defib.yaml:7:18", "default", "DATABASE_URL", "--db", "preset river" */
};

#define CFG_PROBLEMS_MAX 50

struct cfg_reader {
	struct arena *arena;                     /* everything read lives here */
	const char *(*getenv)(const char *name); /* passed in, so that tests need no environment */
	struct buf path;                         /* the current path, for messages and shown values */
	struct cfg_problem problems[CFG_PROBLEMS_MAX];
	int nproblems, nerrors;
	struct cfg_shown *shown; /* until the reader is released */
	int nshown, cap_shown;
	struct arena shown_arena;
	struct cfg_expanded *expanded; /* which values came from the environment */
	int secrecy; /* of the current row: 0 open, 1 a URL without its password, 2 masked */
};

void cfg_reader_init(struct cfg_reader *r, struct arena *a);
void cfg_reader_release(struct cfg_reader *r);
/*
 * Fill `target` from `map` (NULL: all defaults). Problems are recorded in the reader. A key that is
 * absent or null, and has no default, leaves its field unchanged. Values in nodes without a file
 * came from the command line or a preset: `at.file` NULL is shown as "command line", and ${…} is
 * not expanded, because a shell already did that and a password may contain it.
 */
void cfg_read(struct cfg_reader *r, const struct opt_row *rows, const struct cfg_node *map,
              void *target);
/* Enter or leave a path component while reading ("watches", then "pages"). */
size_t cfg_enter(struct cfg_reader *r, const char *name);
void cfg_leave(struct cfg_reader *r, size_t mark);
/* Readers for OPT_CUSTOM: convert one node, or record a problem and return false. */
bool cfg_text(struct cfg_reader *r, const struct cfg_node *node, const char **out);
bool cfg_sql(struct cfg_reader *r, const struct cfg_node *node, struct sql_text *out);
bool cfg_duration(struct cfg_reader *r, const struct cfg_node *node, int64_t *us);
bool cfg_text_items(struct cfg_reader *r, const struct cfg_node *node, struct text_list *out);
void cfg_problem(struct cfg_reader *r, struct cfg_mark at, const char *fmt, ...) PRINTF_LIKE(3, 4);
void cfg_warning(struct cfg_reader *r, struct cfg_mark at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/*
 * Record an effective value that OPT_CUSTOM read, under the current path or, unless `name` is NULL,
 * a part of it. Values of secret names are masked here.
 */
void cfg_show(struct cfg_reader *r, const char *name, struct cfg_mark at, const char *value);
/* "file:line:col" or "command line". */
void cfg_mark_text(struct cfg_mark at, struct buf *out);
/* A Markdown table of the rows of a group, nested ones with dotted names. */
void cfg_reference(const struct opt_row *rows, int group, struct buf *out);

#endif
