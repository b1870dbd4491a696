/* SPDX-License-Identifier: Apache-2.0
 * fail.h: the one error convention.
 *
 * A function that can fail returns a defib_err and fills a caller-owned `struct failure` with one
 * sentence on what failed and why, and one on what to do next. The message is written where the
 * error occurred and is logged or printed once, at the top.
 */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include "defib.h"

#include <stdbool.h>

#define MUST_CHECK DEFIB_MUST_CHECK
/* A local variable that `release(&it)` releases when its scope ends. */
#define AUTO(release) __attribute__((cleanup(release)))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Why the database refused, where that matters to the caller beyond the code. */
enum failure_reason {
	REASON_NONE,
	REASON_NO_NAME,         /* there is no table, function or type of that name */
	REASON_NO_SCHEMA,       /* nor a schema */
	REASON_NO_DATABASE,     /* nor a database */
	REASON_NOT_OF_TYPE,     /* a column's type cannot hold the value, so no row has it */
	REASON_TAKEN,           /* another row has the value, which is unique */
	REASON_SEQUENCE_BEHIND, /* a sequence of ours is behind its table */
	REASON_SERIALIZATION,   /* another transaction changed what this one has read */
	REASON_STALE_PLAN,      /* what was prepared returns other columns by now */
	REASON_NOT_PREPARED,    /* the server does not know a prepared statement */
	REASON_PROTOCOL,        /* it did not understand the message */
};

/* What to do next, where that is a command: rooms that know none name the advice. */
enum failure_advice {
	ADVISE_NONE,
	ADVISE_CREATE_TABLES, /* defib's own, which this role may not create or use */
	ADVISE_CREATE_QUEUE,  /* those of the built-in queue */
	ADVISE_CREATE_LEASES, /* those of workers on users' tables */
	ADVISE_GRANT,         /* this role lacks privileges on defib's own tables */
	ADVISE_GRANT_UPDATE,  /* and here on a table that it must lock */
	ADVISE_MEND_SEQUENCE,
	ADVISE_VERIFY_LEDGER,
	ADVISE_FIND_INDEX,   /* a scan ran out of time */
	ADVISE_OWN_WORKERS,  /* programs cannot be attached */
	ADVISE_ATTACH,       /* the watch is not attached, or not as it is now */
	ADVISE_COUNT_STATES, /* to see which states there are */
	ADVISE_COUNT
};

struct failure {
	defib_err code;
	enum failure_reason reason;
	enum failure_advice advice; /* `next` is what it is about; lib/advice.h words it */
	char what[768];
	char next[384];
	char sqlstate[6]; /* five characters if the database gave one, else "" */
};

/* Fill `f` (which may be NULL) and return `code`, so that callers can write `return fail(…)`. */
defib_err fail(struct failure *f, defib_err code, const char *fmt, ...) PRINTF_LIKE(3, 4);
#ifdef __clang_analyzer__
/* clang-tidy reads one source at a time. This shows it that fail() returns its code, never OK. */
static inline defib_err fail_returns(defib_err returned, defib_err code)
{
	if (returned != code || code == DEFIB_OK)
		__builtin_unreachable();
	return returned;
}
#define fail(f, code, ...) fail_returns(fail(f, code, __VA_ARGS__), code)
#endif
/* Add what to do next. */
void fail_next(struct failure *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* `about`: what the advice is about, such as a watch, or NULL. */
void fail_advise(struct failure *f, enum failure_advice advice, const char *about);
/* Suggest "did you mean …?" if one of the names (list ends with NULL) is close. */
bool fail_nearest(struct failure *f, const char *word, const char *const *names);
/* Put a context such as "watch pages" before the message. */
void fail_prefix(struct failure *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
void fail_clear(struct failure *f);

#endif
