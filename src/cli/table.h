/*
 * table.h: rows of text for people, in columns as wide as what stands in them.
 *
 * A column in which no row has anything is left out. What is too long is cut
 * with "…", except in the first column, which names the row.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/cli.h"

#define TABLE_COLUMNS_MAX 24
#define TABLE_CELL_MAX 60

struct table {
	int ncols;
	const char *titles[TABLE_COLUMNS_MAX];
	const char **cells; /* rows of ncols; NULL: nothing */
	enum color *colors;
	int n, room; /* cells */
	struct arena arena;
};

void table_init(struct table *t);
void table_column(struct table *t, const char *title);
/* The next cell of the row in the making; the text is copied. Rows fill every column. */
void table_cell(struct table *t, enum color color, const char *text);
void table_print(const struct table *t, bool color, struct buf *out);
void table_release(struct table *t);

#endif
