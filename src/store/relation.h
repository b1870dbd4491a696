/* SPDX-License-Identifier: Apache-2.0
 * relation.h: many rows handed to a statement as parameters.
 *
 * PostgreSQL takes one array a column and unnests them; SQLite takes one JSON
 * document and reads it with json_each. Neither needs a temporary table or a
 * privilege. A relation knows its columns, makes the SELECT that yields them,
 * and collects values row by row.
 */
#ifndef STORE_RELATION_H
#define STORE_RELATION_H

#include "store/store.h"

#define RELATION_COLUMNS_MAX 32

/*
 * The type of a column whose values are JSON that we made or read from the database, jsonb to the
 * statement. On PostgreSQL they travel as one document: it parses in a third of the time that an
 * array takes. A JSON null is SQL NULL.
 */
#define RELATION_JSON "json"

struct relation {
	enum store_engine engine;
	int ncols;
	const char *names[RELATION_COLUMNS_MAX]; /* not quoted */
	const char *types[RELATION_COLUMNS_MAX]; /* PostgreSQL type of an element: "bigint", "text" */
	struct buf cols[RELATION_COLUMNS_MAX];   /* array literals in the making; SQLite uses cols[0] */
	int nrows;
	int at; /* next column of the row in the making */
	/*
	 * Set before all else: on PostgreSQL a column with the same value in all rows travels as one
	 * element. Only for statements that read it by relation_select().
	 */
	bool brief;
	bool varies[RELATION_COLUMNS_MAX];
	size_t starts[RELATION_COLUMNS_MAX]; /* of the last value, with its separator */
	size_t firsts[RELATION_COLUMNS_MAX]; /* the end of the first value */
};

void relation_init(struct relation *r, enum store_engine engine);
/* The same, with columns: names and types by turns, then NULL. */
void relation_make(struct relation *r, enum store_engine engine, const char *const *columns);
/* Add a column. Names and types must live as long as the relation. */
void relation_column(struct relation *r, const char *name, const char *type);
/* Append the next value of the row in the making; NULL is SQL NULL. */
void relation_text(struct relation *r, const char *value);
void relation_int(struct relation *r, int64_t value);
void relation_number(struct relation *r, bool has, int64_t value); /* !has: NULL */
/* Every column must have had its value. */
void relation_end_row(struct relation *r);
/* How many parameters it takes: ncols on PostgreSQL, 1 on SQLite. */
int relation_nparams(const struct relation *r);
/* Fill params[0..nparams-1]; closes the literals. Call once, after the last row. */
void relation_params(struct relation *r, struct store_param *params);
/* "SELECT … FROM unnest($1::bigint[], …)" with parameters from `first` on. */
void relation_select(const struct relation *r, int first, struct buf *out);
void relation_release(struct relation *r);
/* AUTO_RELATION r = {.engine = s->engine}; releases itself. */
#define AUTO_RELATION AUTO(relation_release) struct relation

#endif
