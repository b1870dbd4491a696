/* SPDX-License-Identifier: Apache-2.0
 * relation.h: many rows passed to a statement as parameters.
 *
 * PostgreSQL takes one array per column and unnests them; SQLite takes one JSON document and reads
 * it with json_each. Neither needs a temporary table or a privilege. A relation has a list of
 * columns, writes the SELECT that returns them, and collects values row by row.
 */
#ifndef STORE_RELATION_H
#define STORE_RELATION_H

#include "store/store.h"

#define RELATION_COLUMNS_MAX 32

/*
 * The type of a column whose values are JSON that we made or read from the database. The statement
 * sees jsonb. PostgreSQL receives them as one document, which parses three times as fast as an
 * array. A JSON null is SQL NULL.
 */
#define RELATION_JSON "json"

struct relation {
	enum store_engine engine;
	int ncols;
	const char *names[RELATION_COLUMNS_MAX]; /* not quoted */
	const char *types[RELATION_COLUMNS_MAX]; /* PostgreSQL type of an element: "bigint", "text" */
	struct buf cols[RELATION_COLUMNS_MAX];   /* array literals being built; SQLite uses cols[0] */
	int nrows;
	int at; /* next column of the current row */
	/*
	 * Set before anything else. On PostgreSQL, a column with the same value in all rows is sent as
	 * one element. Only for statements that read it with relation_select().
	 */
	bool brief;
	bool varies[RELATION_COLUMNS_MAX];
	size_t starts[RELATION_COLUMNS_MAX]; /* start of the last value, with its separator */
	size_t firsts[RELATION_COLUMNS_MAX]; /* the end of the first value */
};

void relation_init(struct relation *r, enum store_engine engine);
/* The same, with columns: alternating names and types, then NULL. */
void relation_make(struct relation *r, enum store_engine engine, const char *const *columns);
/* Add a column. Names and types must outlive the relation. */
void relation_column(struct relation *r, const char *name, const char *type);
/* Append the next value of the current row; NULL is SQL NULL. */
void relation_text(struct relation *r, const char *value);
void relation_int(struct relation *r, int64_t value);
void relation_number(struct relation *r, bool has, int64_t value); /* !has: NULL */
/* Every column must have a value. */
void relation_end_row(struct relation *r);
/* How many parameters it needs: ncols on PostgreSQL, 1 on SQLite. */
int relation_nparams(const struct relation *r);
/* Fill params[0..nparams-1] and close the literals. Call once, after the last row. */
void relation_params(struct relation *r, struct store_param *params);
/* "SELECT … FROM unnest($1::bigint[], …)" with parameters from `first` on. */
void relation_select(const struct relation *r, int first, struct buf *out);
void relation_release(struct relation *r);
/* AUTO_RELATION r = {.engine = s->engine}; releases itself. */
#define AUTO_RELATION AUTO(relation_release) struct relation

#endif
