/* SPDX-License-Identifier: Apache-2.0
 * table_facts.h: what a database's catalog and a bounded look at the rows say
 * of one table that nobody has described to us: columns, types, defaults, key,
 * the values of columns that may hold a state, and tables that stand in
 * relation to it. propose.h makes a watch of it.
 *
 * No table is read as a whole: counts are exact up to TABLE_ROWS_EXACT rows,
 * beyond that a sample of about as many speaks.
 */
#ifndef SETUP_TABLE_FACTS_H
#define SETUP_TABLE_FACTS_H

#include "watch/watch.h"

#include "store/store.h"

#define TABLE_ROWS_EXACT 100000
#define TABLE_VALUES_MAX 40 /* a column with more different values is no state */

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
	const char *label; /* what a table of names calls it; NULL: there is none */
	int64_t rows;      /* -1: declared or written in an index, not seen */
};

struct table_column {
	const char *name, *type;
	enum column_class class;
	bool nullable;
	const char *standard; /* its default where that is a plain value or CURRENT_TIMESTAMP */
	const char *newest;   /* the greatest value of the rows looked at, where it may matter … */
	bool counted;         /* … and these are known, too: */
	int64_t filled;       /* rows looked at that have a value */
	int64_t in_work;      /* rows in work that have one, and the least of them as a number */
	int64_t least_in_work;
	int nvalues; /* 0: not asked, or too many */
	struct column_value *values;
};

/* A table whose rows stand in relation to ours by a foreign key, and that tells of life. */
struct related_table {
	const char *table, *their_column, *our_column;
	const char *beat, *owner; /* columns there; owner may be NULL */
	enum column_class beat_class;
	bool workers; /* our column points there: a row of it is a worker, not a job */
};

struct table_facts {
	enum store_engine engine;
	const char *table; /* as a watch names it */
	bool view;
	int64_t rows, now_us;
	bool counted_in_work; /* table_facts_in_work() was asked, and how many there are */
	int64_t in_work;
	bool sampled; /* there are more than TABLE_ROWS_EXACT: values are of a sample */
	int ncolumns;
	struct table_column *columns;
	int nkeys; /* 0: nothing names a row, or more columns than a watch takes */
	const char *keys[WATCH_KEYS_MAX];
	bool key_primary; /* else: a unique index without nulls */
	int nrelated;
	struct related_table *related;
};

/* Ask the database. DEFIB_USAGE, with the nearest name, where there is no such table. */
MUST_CHECK defib_err table_facts_read(struct store *s, const char *table, struct arena *a,
                                      struct table_facts *out, struct failure *f);

/*
 * What the rows in work have in their columns, which `running` tells from the others: a sign of
 * life that is written nowhere there is none. What takes too long stays unknown.
 */
void table_facts_in_work(struct store *s, struct table_facts *t, const char *running,
                         struct arena *a);

/* The table as the questions want it. */
const char *catalog_name(enum store_engine engine, const char *table, struct arena *a);

/* Every 'literal' in a piece of SQL, as values of the column that nobody has seen yet. */
void column_values_from(struct table_column *c, const char *sql, struct arena *a);
/* The values that CHECK constraints and partial indexes name, for columns that stand alone. */
void declared_values(struct table_facts *t, const char *sql, struct arena *a);
/* 'queued'::text, ('queued') and CURRENT_TIMESTAMP as the plain value; NULL: something else. */
const char *default_value(const char *sql, struct arena *a);
/* Part of what names a row. */
bool facts_is_key(const struct table_facts *t, const struct table_column *c);
struct table_column *facts_column(const struct table_facts *t, const char *name);

#endif
