/* SPDX-License-Identifier: Apache-2.0
 * record.h: what a record consists of, said once, and the forms it is shown in.
 *
 * A record (a job of a list, an entry of the ledger, an alert) is a constant table of fields. Each
 * says where its value is, how it is written, what of it is masked, and what it means. JSON, CSV, a
 * row of a table and a sheet of lines are written from that table; so are the schemas of
 * docs/openapi.yaml and docs/records.md (defib config schemas, defib config records).
 *
 * The mask is a column of the table and is applied here, whatever the form: a place that shows a
 * record cannot forget it. A field that cannot be described by an offset is computed by a function,
 * and its value is masked like any other. To add a field, add a row.
 */
#ifndef VIEW_RECORD_H
#define VIEW_RECORD_H

#include "recover/masked.h"
#include "view/output.h"
#include "view/viewer.h"

enum field_type {
	FIELD_TEXT,     /* const char *; NULL is null */
	FIELD_CHARS,    /* char[]; "" is null */
	FIELD_FAILURE,  /* struct failure: its message; null if nothing failed */
	FIELD_STATE,    /* const char *: a state as stored; in words with the name from `states:` */
	FIELD_WORD,     /* an enum, named by `names`; a NULL name is null */
	FIELD_BOOL,     /* bool */
	FIELD_NUMBER,   /* int64_t */
	FIELD_INT,      /* int */
	FIELD_REAL,     /* double */
	FIELD_SECONDS,  /* int64_t, µs; in words a duration */
	FIELD_MS,       /* int64_t, µs, as milliseconds */
	FIELD_TIME,     /* int64_t, µs since 1970; in words "3m ago", if the viewer's time is known */
	FIELD_DOCUMENT, /* const char *: JSON, on one line */
	FIELD_DATA,     /* const char *: JSON of a user, byte for byte if nothing is masked */
	FIELD_TEXTS,    /* const char *const *, and `count` of it; or `item` */
	FIELD_COUNTS,   /* int64_t[n], named by `names` from `first` on; no name: members, not an object
	                 */
	FIELD_MAP,      /* columns by name, from `pair` */
	FIELD_RECORD,   /* a record of `of`; without a place, the row itself */
	FIELD_LIST,     /* records of `of`, and `count` */
	FIELD_MEMBERS,  /* the fields of `of`, as if they were listed here */
	FIELD_JSON,     /* whatever `json` writes: for what no other type describes */
};

enum field_mask {
	MASK_NOTHING,   /* our own words, names of watches and databases, numbers */
	MASK_OWNER,     /* the owner of a job */
	MASK_WORDS,     /* free text, in which masked values may occur */
	MASK_VALUES,    /* a column of a user or JSON: by its name, and by the names in it */
	MASK_IDENTITY,  /* a worker or a host: masked for viewers */
	MASK_OPERATORS, /* for viewers null, or what `instead` says */
};

/* What a member of a struct is: a test compares it with the type of its field. */
enum field_is {
	IS_COMPUTED, /* there is no member */
	IS_TEXT,
	IS_CHARS,
	IS_BOOL,
	IS_INT,
	IS_NUMBER,
	IS_REAL,
	IS_OTHER,
};
#define FIELD_IS(type, member)                                                                     \
	_Generic(((type *)0)->member, const char *                                                     \
	         : IS_TEXT, char *                                                                     \
	         : IS_CHARS, bool                                                                      \
	         : IS_BOOL, int                                                                        \
	         : IS_INT, unsigned                                                                    \
	         : IS_INT, int64_t                                                                     \
	         : IS_NUMBER, double                                                                   \
	         : IS_REAL, default                                                                    \
	         : IS_OTHER)

struct record;

/* A column of a user's table: its name and its text, NULL for null. */
struct field_pair {
	const char *name, *text;
};

struct field {
	const char *name; /* in JSON and CSV; NULL: in neither */
	enum field_type type;
	enum field_mask mask;
	size_t at; /* where it is: FIELD_AT() */
	enum field_is is;
	size_t has; /* FIELD_HAS() of a bool that says whether it is known; 0: always */
	size_t
		unless; /* FIELD_UNLESS() of a failure: if it happened, the value is not known; 0: none */
	size_t count;
	const char *const *names; /* of an enum or of counts */
	int first, n;
	const struct record *of;
	/* Instead of `at`. False, or NULL, is null. */
	const char *(*text)(const void *row);
	bool (*words)(const void *row, const struct viewer *v, struct buf *out); /* a composed text */
	bool (*number)(const void *row, int64_t *out); /* also for times, flags and words */
	bool (*real)(const void *row, double *out);
	const void *(*part)(const void *row, int i); /* the record, or the i-th of a list */
	const char *(*item)(const void *row, int i); /* the i-th text */
	bool (*pair)(const void *row, const struct viewer *v, int i, struct field_pair *out);
	void (*json)(const void *row, const struct viewer *v, struct buf *out);
	const char *instead; /* JSON, for viewers from whom it is hidden; NULL: null */
	const char *title;   /* of its column in a table; NULL: none */
	const char *label;   /* of its line in a sheet; NULL: none */
	enum color color;
	enum color (*paint)(const void *row); /* instead of `color` */
	bool null;          /* it may be null, beside what `has`, `part` and `zero_null` say */
	bool zero_null;     /* 0 is null */
	bool optional;      /* left out if it is not known */
	const char *about;  /* for the documentation */
	const char *schema; /* of OpenAPI, where `type` does not say enough */
};

#define FIELD_AT(type, member) .at = offsetof(type, member), .is = FIELD_IS(type, member)
#define FIELD_HAS(type, member) .has = (offsetof(type, member) + 1)
#define FIELD_UNLESS(type, member) .unless = (offsetof(type, member) + 1)
#define FIELD_N(type, member) .count = offsetof(type, member)
#define ANY_SCHEMA "{}"
#define SCHEMA_REF(name) "{$ref: \"#/components/schemas/" name "\"}"

struct record {
	const char *name;           /* of its schema */
	const char *about;          /* one line for the documentation */
	const struct field *fields; /* ends with {0} */
	size_t size;                /* of the struct, for lists of it */
	/* The watch and the database that it is of, if the record itself knows; NULL: the viewer does.
	 */
	void (*of)(const void *row, struct viewer *v);
	/* Values of it that are masked, which must not occur in its free text either; NULL: none. */
	void (*secrets)(const void *row, const struct watch *w, struct secrets *out);
};

/* A complete object. */
void record_json(const struct record *r, const void *row, const struct viewer *v, struct buf *out);
/* The same, still open: {"a":1 */
void record_json_open(const struct record *r, const void *row, const struct viewer *v,
                      struct buf *out);
/* ,"a":1,"b":2 */
void record_json_members(const struct record *r, const void *row, const struct viewer *v,
                         struct buf *out);

/* The names of all fields, and a row of them, each as a line that ends with CR LF (RFC 4180). */
void record_csv_names(const struct record *r, struct buf *out);
void record_csv(const struct record *r, const void *row, const struct viewer *v, struct buf *out);

/* Add the columns to a table, then one row each. */
void record_columns(const struct record *r, const struct viewer *v, struct table *t);
void record_row(const struct record *r, const void *row, const struct viewer *v, struct table *t);

/* A line for each field that has a label and a value; labels are padded to `width`. */
void record_sheet(const struct record *r, const void *row, const struct viewer *v, int width,
                  struct buf *out);

/* One field in words, masked. False: it is null. */
bool field_words(const struct record *r, const struct field *f, const void *row,
                 const struct viewer *v, struct buf *out);

/* The row that ends a table of fields. */
bool field_is_last(const struct field *f);
/* Common fields: the viewer's database and watch. */
bool field_database(const void *row, const struct viewer *v, struct buf *out);
bool field_watch(const void *row, const struct viewer *v, struct buf *out);

/* {"database"} and {"watch","database"}: what a list is of, before its records. Their row is NULL.
 */
extern const struct record database_record, place_record;

#endif
