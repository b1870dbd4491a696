/* SPDX-License-Identifier: Apache-2.0
 * dialect.h: every difference between the engines' SQL, in one table per engine.
 *
 * Nothing outside this room asks which engine it uses. Statements over our own tables are written
 * once and translated (dialect_exec() and related calls); if an engine can do something that
 * another cannot, code asks for the capability by its name. A new engine is a file beside
 * dialect_postgres.c and dialect_sqlite.c, its session (store_ops), and its error classes.
 *
 * In a text that is translated
 *   $1           is a parameter,
 *   defib.job    is a table of ours,
 *   x::type      is a cast, left out on engines without declared types,
 *   {piece x|y}  is an engine-specific expression, defined in its table of pieces; pieces nest.
 * Quoted literals are unchanged. A user's SQL is never translated: it is written for its engine.
 */
#ifndef STORE_DIALECT_H
#define STORE_DIALECT_H

#include "store/store.h"

/* \1, \2 and \3 stand for the arguments. */
struct dialect_piece {
	const char *name, *text;
};

/*
 * Times of our own tables are instants: a timestamp, or whole milliseconds. Those of ledger, hold
 * and retry are stamps, which people also read in the file: a timestamp, or ISO text in UTC.
 *
 * {now}, {now_statement}, {now_transaction}
 *                       the clock; as it was when statement or transaction began
 * {us x}                an instant, or the difference of two, as microseconds
 * {instant x}           microseconds since 1970 as an instant; {instant_after x}: never earlier
 * {span x} {span_ms x}  microseconds, milliseconds to add to an instant
 * {iso x}               a stamp as ISO text
 * {stamp_ago x}         the clock less x microseconds, as a stamp
 * {stamp_us x}          a stamp as microseconds since 1970; {stamp_age_us x}: since then
 * {stamp_instant x}     a stamp as an instant
 * {stamp_day x} {stamp_minute x}
 *                       to group stamps by; {day_text {stamp_day x}} is "2026-01-02"
 * {stamp_seconds x|y}   whole seconds from stamp y to stamp x
 * {stamp_point x} {iso_point x}
 *                       a stamp, and ISO text, in a form that {elapsed_s since|until} takes:
 *                       seconds between two points, at least 0
 * {server_up_less x}    the server was started less than x milliseconds ago
 * {member x|name}       a member of a JSON document as text; NULL if it is not JSON
 * {not_true x|name}     a member of a JSON document is not true, or is missing
 * {list_json x}         a column with a list, as JSON
 * {bytes x}             text in the order of its bytes
 * {between_bytes x|y|z} y <= x < z in that order
 * {percentile 95|x|from}
 *                       the smallest x of relation `from` that this percentage does not exceed
 * {differs x|y}         x <> y, with null as a value
 * {among $1}            after an expression: is one of a list of numbers, which is a parameter;
 *                       {among_text $1}: for an expression that is text
 * {in_query SELECT …}   after an expression: is one of the rows, which are read once
 * {skip_locked}         after a query: lock its rows, skip locked ones
 * {lock_row}            after a query: lock its rows
 * {row}                 the column that identifies a row physically
 */

/*
 * Queries about a user's table. All engines return the same columns. The first parameter is the
 * table.
 */
struct dialect_catalog {
	const char *relation;     /* is it a view, about how many rows */
	const char *columns;      /* name, type, class, may be null, default */
	const char *key;          /* name, is it the primary key; in order */
	const char *declared;     /* column or null, SQL that names values: CHECK (…) or WHERE … */
	const char *foreign_keys; /* table, column there, column here, do we point there */
	const char *tables;       /* no parameter: every table of a user, as a watch names it */
};

/*
 * Queries on the catalogs. "Own" tables are named without our schema. NULL: the engine has no
 * answer.
 */
struct dialect_questions {
	const char *own_table;  /* $1 table, $2 for writing (0, 1): no row, or whether it may be used */
	const char *ledger;     /* $1 for writing (0, 1): no row, or whether its tables may be used */
	const char *may_create; /* whether the role may create our schema; NULL: always */
	/*
	 * Why code of another role could run in our schema with the rights of whoever uses it, what to
	 * do, and the schema's owner; no row: there is no such schema. NULL: the engine has no roles.
	 */
	const char *own_schema;
	/*
	 * $1 JSON list of tables, quoted: those that belong to another role, as a whole or in part, if
	 * this one is a superuser or, with $2 = 1, if reading them calls functions that could do more
	 * than compute. Also that role, this one, and whether it is a superuser. NULL: the engine has
	 * no roles.
	 */
	const char *others_code;
	const char *tables; /* the names of all tables and views, for suggestions */
	/*
	 * Names that statements of ours do not find, because other roles can create in their schemas.
	 * $1 is own_path of the session; NULL: the engine has no search path.
	 */
	const char *home;   /* $2 table without a schema, quoted: the schemas that hide it, as a watch
	                       names them */
	const char *hidden; /* the schemas of that path, and what closes them */
	const char
		*needed;      /* $2 list of words, $3 list of schemas before functions and operators, $4
	                     table: the schemas that SQL of these words needs, why, what closes them */
	const char *ways; /* $1 table, $2 list of key columns: does it have triggers; does its key have
	                     an index; NULL: not known */
	const char *readable;     /* $1 table, $2 list of columns: those the role may read; NULL: all */
	const char *row_security; /* $1 table: whether it hides rows from this role */
	const char
		*writes_barred; /* $1 table: whether a lock of another session keeps all writers waiting */
	const char *server_start; /* when it was started, in microseconds since 1970 */
	const char *unique_key; /* $1 table, $2 JSON list of columns: is there a unique index of them */
	const char *index_online;  /* $1 table: whether an index can be built while others write to it;
	                              NULL: never */
	const char *rows_of_index; /* $1 index: about how many rows it has */
	/*
	 * $1 table; JSON lists: $2 names that can be functions, $3 all names of the statements, $4
	 * columns that are written. What an UPDATE of the table, and those statements, could run that
	 * does more than its transaction, one per row: "trigger audit", "function next_number()".
	 */
	const char *outlasts;
	const char *ddl_triggers; /* whether a trigger runs when a table is created; NULL: never */
	/*
	 * $1 table, $2 another: an index of the second that has the definition of one of the first, and
	 * whether those of the first are partial.
	 */
	const char *same_index;
};

/*
 * A role or a database can have a default for any setting, and some of them change what our
 * statements mean. docs/internals/foundations.md lists all that were considered.
 */
struct dialect_setting {
	const char *set; /* "DateStyle = 'ISO'" */
	bool of_text;    /* how values are written as text: functions that write keys set it too */
	int64_t since;   /* the server version that has it; 0: all */
};

struct dialect {
	const char *name;      /* in URLs, JSON and the names of our scripts */
	const char *title;     /* for people */
	char mark;             /* before the number of a parameter */
	const char *own;       /* before the name of a table of ours */
	const char *list;      /* how a list that is a parameter begins and ends */
	const char *json_text; /* the function that makes a JSON string of text */
	bool has_types;        /* values have declared types: x::type where it matters */
	const char *as_text;   /* behind an expression, where text is needed */

	/* How names and literals are written: for the lexer. */
	struct {
		bool nests_comments;
		bool has_escape_strings; /* E'…', $$…$$ */
		bool has_other_quotes;   /* `name`, [name] */
		bool folds_quoted;       /* "Name" and "name" are one column */
		bool has_bodies;         /* CREATE TRIGGER … BEGIN …; END is one statement */
		const char *marks;       /* that begin a parameter */
	} words;

	const char *least;        /* the function for the least of some values */
	const char *same;         /* = that treats null as a value … */
	const char *differs;      /* … and <> */
	const char *find_text;    /* the function for the place of a text in another */
	const char *json_object;  /* the function that makes a JSON object of names and values */
	const char *row_json;     /* the row t as a JSON object; NULL: only possible column by column */
	const char *list_json[2]; /* around a user's expression that is a list, or text: as JSON text */
	bool json_takes_bytes;    /* json_object takes columns that hold bytes */
	/* Column `name` of the row t as the JSON object in defib_s.defib_undo has it. */
	void (*undo_column)(struct buf *out, const char *column);
	/* A table as the questions take it. */
	void (*catalog_name)(struct buf *out, const char *table);

	const char *now_us;      /* the clock as microseconds since 1970 */
	bool is_file;            /* no server: who may write the file may do everything */
	bool has_time_types;     /* otherwise times are numbers or ISO text */
	bool has_time_zones;     /* and knows them by name; otherwise the clock's text is UTC */
	bool has_hash;           /* SHA-256 in SQL */
	bool has_page_samples;   /* TABLESAMPLE SYSTEM; otherwise ranges of {row} are read */
	bool returning_is_whole; /* RETURNING accepts aliases and everything that a SELECT accepts */
	bool names_indexes;      /* an index needs a name, and its build blocks writers */
	bool one_writer;         /* only one writer at a time: a write begins its own transaction */
	bool has_row_locks;      /* SELECT … FOR UPDATE, SKIP LOCKED */
	bool has_session_locks;  /* advisory locks of a session or a transaction */
	bool can_notify;         /* LISTEN and NOTIFY */
	bool has_functions; /* our schema has functions that do in one call what C otherwise does */
	bool has_sequences; /* ledger ids are drawn from one, under its lock */
	bool seals_itself;  /* a trigger of our schema seals each entry of the ledger */
	bool can_attach;    /* a trigger can tell which session changed a row */
	bool can_install;   /* can run a watch by itself: functions and a scheduler */
	bool has_grants;    /* roles and their rights */

	/* Its command-line client, for scripts that people run. */
	struct {
		const char *start;    /* before the first statement */
		const char *set;      /* format: sets a parameter, by number and value */
		const char *variable; /* format: a parameter in a statement; NULL: as in ours */
	} shell;
	/* What each of our sessions sets; ends with a NULL setting. NULL: nothing. */
	const struct dialect_setting *settings;
	const char *by_key; /* for a transaction that looks up many rows by key; NULL: nothing to set */
	struct dialect_questions ask;
	struct dialect_catalog catalog;
	const struct dialect_piece *pieces; /* ends with a NULL name */
};

extern const struct dialect dialect_postgres, dialect_sqlite;

const struct dialect *dialect_of(enum store_engine engine);
static inline const struct dialect *store_dialect(const struct store *s)
{
	return dialect_of(s->engine);
}

/*
 * What holds for this session. Behind a transaction pooler, a session lock would outlive its
 * holder, and notifications would reach another client.
 */
static inline bool store_has_session_locks(const struct store *s)
{
	return store_dialect(s)->has_session_locks && !s->pooled;
}
static inline bool store_can_notify(const struct store *s)
{
	return store_dialect(s)->can_notify && !s->pooled;
}

/* A piece that takes no argument. */
const char *dialect_text(const struct dialect *d, const char *piece);
/* "(expression)::type" of a user's expression, which is not translated; type is text or bigint. */
void dialect_cast(const struct dialect *d, struct buf *out, const char *expression,
                  const char *type);
/* Append the text in the engine's SQL. Translating twice changes nothing. */
void dialect_add(const struct dialect *d, struct buf *out, const char *text);
void dialect_addf(const struct dialect *d, struct buf *out, const char *format, ...)
	PRINTF_LIKE(3, 4);
const char *dialect_sql(const struct dialect *d, struct arena *a, const char *text);

/* Whether one of our tables exists and may be read. */
MUST_CHECK defib_err dialect_own_table(struct store *s, const char *table, bool *there,
                                       struct failure *f);

/*
 * The name by which statements of ours find a table: with its schema, if only the role's own search
 * path has it (struct store). DEFIB_CONFIG: there are several.
 */
MUST_CHECK defib_err dialect_home(struct store *s, const char *table, struct arena *a,
                                  const char **out, struct failure *f);

/* store_exec() and store_write() with a text that is translated. */
MUST_CHECK defib_err dialect_exec(struct store *s, const char *text,
                                  const struct store_param *params, int nparams, struct arena *a,
                                  struct store_rows *rows, struct failure *f);
MUST_CHECK defib_err dialect_write(struct store *s, const char *text,
                                   const struct store_param *params, int nparams, struct arena *a,
                                   struct store_rows *rows, struct failure *f);
/* The whole number in the first cell of the answer; 0 where there is none. */
MUST_CHECK defib_err dialect_int(struct store *s, const char *text,
                                 const struct store_param *params, int nparams, int64_t *out,
                                 struct failure *f);
/*
 * A frequent write: without BEGIN and COMMIT on engines whose writers do not wait for each other.
 */
MUST_CHECK defib_err dialect_write_alone(struct store *s, const char *text,
                                         const struct store_param *params, int nparams,
                                         struct arena *a, struct store_rows *rows,
                                         struct failure *f);

#endif
