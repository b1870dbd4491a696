/* SPDX-License-Identifier: Apache-2.0
 * table_facts.h: what a database's catalog and a bounded look at the rows say about an unknown
 * table: columns, types, defaults, key, the values of columns that may hold a state, and related
 * tables. propose.h makes a watch from it.
 *
 * No table is read as a whole: counts are exact up to TABLE_ROWS_EXACT rows; beyond that they come
 * from a sample of about that size.
 */
#ifndef SETUP_TABLE_FACTS_H
#define SETUP_TABLE_FACTS_H

#include "watch/watch.h"

#include "store/store.h"

#define TABLE_ROWS_EXACT 100000
#define TABLE_VALUES_MAX 40 /* a column with more distinct values is not a state */

enum column_class {
	CLASS_OTHER,
	CLASS_TEXT, /* also enums and domains over text */
	CLASS_NUMBER,
	CLASS_BOOL,
	CLASS_INSTANT, /* timestamptz */
	CLASS_NAIVE,   /* a timestamp without time zone; on SQLite a column declared as a time */
	CLASS_LIST,    /* an array of text */
};

struct column_value {
	const char *value;
	const char *label; /* its name in a lookup table; NULL: none */
	int64_t rows;      /* -1: declared or named in an index, not seen */
};

struct table_column {
	const char *name, *type;
	enum column_class class;
	bool nullable;
	const char *standard; /* its default if that is a plain value or CURRENT_TIMESTAMP */
	const char *newest;   /* the greatest value in the rows that were read, if it may matter … */
	bool counted;         /* … and these are known, too: */
	int64_t filled;       /* rows that were read and have a value */
	int64_t in_work;      /* running rows that have one, and the smallest of them as a number */
	int64_t least_in_work;
	int nvalues; /* 0: not read, or too many */
	struct column_value *values;
};

/* A table related to ours by a foreign key that holds signs of life. */
struct related_table {
	const char *table, *their_column, *our_column;
	const char *beat, *owner; /* columns there; owner may be NULL */
	enum column_class beat_class;
	bool workers; /* our column points there: its row is a worker, not a job */
};

struct table_facts {
	enum store_engine engine;
	const char *table; /* as a watch names it */
	bool view;
	int64_t rows, now_us;
	bool counted_in_work; /* table_facts_in_work() was called, and how many there are */
	int64_t in_work;
	bool sampled; /* there are more than TABLE_ROWS_EXACT: values come from a sample */
	int ncolumns;
	struct table_column *columns;
	int nkeys; /* 0: nothing identifies a row, or it takes more columns than a watch supports */
	const char *keys[WATCH_KEYS_MAX];
	bool key_primary; /* if not: a unique index without nulls */
	int nrelated;
	struct related_table *related;
};

/* Ask the database. DEFIB_USAGE, with the nearest name, if there is no such table. */
MUST_CHECK defib_err table_facts_read(struct store *s, const char *table, struct arena *a,
                                      struct table_facts *out, struct failure *f);

/*
 * Read the columns of the running rows, which `running` selects: a sign of life that has no value
 * there is none. What takes too long stays unknown.
 */
void table_facts_in_work(struct store *s, struct table_facts *t, const char *running,
                         struct arena *a);

/* The table in the form that the catalog queries take. */
const char *catalog_name(enum store_engine engine, const char *table, struct arena *a);

/* Add every 'literal' in a piece of SQL as a value of the column that was not seen yet. */
void column_values_from(struct table_column *c, const char *sql, struct arena *a);
/* The values that CHECK constraints and partial indexes name, for columns that are named alone. */
void declared_values(struct table_facts *t, const char *sql, struct arena *a);
/* 'queued'::text, ('queued') and CURRENT_TIMESTAMP as the plain value; NULL: something else. */
const char *default_value(const char *sql, struct arena *a);
/* Whether it is part of the key. */
bool facts_is_key(const struct table_facts *t, const struct table_column *c);
struct table_column *facts_column(const struct table_facts *t, const char *name);

#endif
