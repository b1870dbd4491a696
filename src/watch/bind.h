/* SPDX-License-Identifier: Apache-2.0
 * bind.h: what the database knows about a watch: whether its table, columns and expressions exist,
 * and their types.
 */
#ifndef WATCH_BIND_H
#define WATCH_BIND_H

#include "watch/settings.h"

struct binding {
	const struct watch *watch; /* or a copy with the table's schema (schemas.h) */
	enum store_engine engine;
	const char *key_type[WATCH_KEYS_MAX]; /* as the database writes it */
	const char *sign_type[TIME_COUNT];    /* the same, for the signs of life; NULL: not given */
	enum time_type sign_time[TIME_COUNT];
	enum time_type time; /* how :now is rendered if the target column does not say */
	const char *zone;    /* time_zone as a literal; NULL: UTC */
	bool iso_t;          /* text times look like 2026-01-02T03:04:05Z, not with a blank */
	int ncolumns;        /* of the table */
	struct store_column *columns;
	enum time_type *column_times; /* of each column that a SET list writes a time to; else AUTO */
	int nmasked;                  /* columns that the watch or `http` masks and that may be read */
	const char **masked;          /* their names: see facts.masked */
	const char *state;            /* the state of a row as text; NULL: the watch does not use it */
	const char *progress;         /* its value as short text; NULL: it is not remembered */
	const char *own[SIGN_COUNT];  /* microseconds: the row's own time-out; NULL: not given */
	const char *owner_alive;      /* is a row's worker alive; NULL: cannot be known */
	/*
	 * The table has triggers, which may change a row after its UPDATE returned, and other tables;
	 * or it is a view, which may read others.
	 */
	bool triggers;
	const char *same_table;  /* its table, the same for each watch on it … */
	const char *table_key;   /* … and its key columns, the same for each watch on both */
	bool key_indexed;        /* an index begins with a column of the key (PostgreSQL) */
	bool leases;             /* defib's own workers may hold leases on its rows */
	const char *lease_epoch; /* then: the epoch of the lease */
	const char *lost_us;     /* microseconds: when its worker was lost; NULL: use a sign of life */
};

/*
 * Ask the database. Failures name the option, its position in the file and the problem:
 * DEFIB_CONFIG if the watch does not fit the database, otherwise the class of the database's error.
 */
MUST_CHECK defib_err watch_bind(const struct watch *w, struct store *s, struct arena *a,
                                struct binding *out, struct failure *f);
/*
 * The form in which a column of the table holds time, according to its type: a timestamp with or
 * without a zone, or a number, whose unit a value of the column shows. False: the type does not
 * say, and *time is unchanged.
 */
bool column_time(const struct binding *b, const char *column, enum time_type *time);

#endif
