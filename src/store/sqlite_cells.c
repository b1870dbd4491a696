/* SPDX-License-Identifier: Apache-2.0
 * sqlite_cells.c: each of SQLite's five storage classes as text.
 *
 * Whole numbers are decimal, reals are the shortest text that reads back as the same number, and a
 * blob is its text if it is valid UTF-8, else hex after \x as PostgreSQL writes it.
 */
#include "store/sqlite.h"

#include "base/text.h"

#include <assert.h>

static const char *blob_text(struct arena *a, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *text = arena_alloc(a, n + 1);
	size_t at = 0, length;
	if (n > 0)
		memcpy(text, bytes, n);
	while ((length = utf8_len(text + at)) > 0)
		at += length;
	if (at == n)
		return text;
	char *hex = arena_alloc(a, 2 * n + 3);
	hex[0] = '\\';
	hex[1] = 'x';
	for (size_t i = 0; i < n; i++) {
		hex[2 + 2 * i] = digits[bytes[i] >> 4];
		hex[3 + 2 * i] = digits[bytes[i] & 0xf];
	}
	return hex;
}

static const char *real_text(struct arena *a, double value)
{
	char text[40];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	/* A real must remain recognisable as one. */
	bool whole = strspn(text, "-0123456789") == strlen(text);
	return arena_printf(a, "%s%s", text, whole ? ".0" : "");
}

/* A text that SQLite could not make for lack of memory is NULL: then the rows are incomplete. */
static const char *copied(struct cells *c, const char *text)
{
	c->refused = c->refused || !text;
	return text ? arena_strdup(c->arena, text) : NULL;
}

static const char *cell_text(struct cells *c, sqlite3_stmt *stmt, int col)
{
	struct arena *a = c->arena;
	switch (sqlite3_column_type(stmt, col)) {
	case SQLITE_NULL:
		return NULL;
	case SQLITE_INTEGER:
		return arena_printf(a, "%lld", (long long)sqlite3_column_int64(stmt, col));
	case SQLITE_FLOAT:
		return real_text(a, sqlite3_column_double(stmt, col));
	case SQLITE_BLOB: {
		const unsigned char *bytes = sqlite3_column_blob(stmt, col);
		return blob_text(a, bytes, (size_t)sqlite3_column_bytes(stmt, col));
	}
	default:
		return copied(c, (const char *)sqlite3_column_text(stmt, col));
	}
}

void cells_start(struct cells *c, sqlite3_stmt *stmt)
{
	struct store_rows *rows = c->rows;
	rows->ncols = sqlite3_column_count(stmt);
	rows->names = ARENA_ARRAY(c->arena, const char *, rows->ncols);
	for (int i = 0; i < rows->ncols; i++)
		rows->names[i] = copied(c, sqlite3_column_name(stmt, i));
}

void cells_add_row(struct cells *c, sqlite3_stmt *stmt)
{
	size_t ncols = (size_t)c->rows->ncols;
	size_t row = (size_t)c->rows->nrows;
	if (row == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->grown = mem_grow(c->grown, c->room * ncols * sizeof(*c->grown));
	}
	for (size_t i = 0; i < ncols; i++)
		c->grown[row * ncols + i] = cell_text(c, stmt, (int)i);
	c->rows->nrows++;
}

void cells_finish(struct cells *c)
{
	size_t n = (size_t)c->rows->nrows * (size_t)c->rows->ncols;
	c->rows->cells = ARENA_ARRAY(c->arena, const char *, n);
	if (n > 0)
		memcpy(c->rows->cells, c->grown, n * sizeof(*c->grown));
	free(c->grown);
	c->grown = NULL;
}
