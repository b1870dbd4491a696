/* SPDX-License-Identifier: Apache-2.0
 * store.h: one database session, PostgreSQL or SQLite, behind one interface.
 *
 * Every call is bounded by a client-side deadline and every error has a class
 * (defib.h) that is decided here, once. Values are always parameters. SQL is
 * written for its engine: "$1" on PostgreSQL, "?1" on SQLite. A failure's text
 * is one line that begins with the database's name.
 *
 * The class rule that matters most: when the connection breaks while a COMMIT
 * (or a write outside a transaction) is under way, the answer is
 * DEFIB_UNKNOWN_OUTCOME, never DEFIB_CONNECTION: the caller must read again.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/fail.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/timeline.h"

#include <stdbool.h>
#include <stdint.h>

enum store_engine { STORE_POSTGRES, STORE_SQLITE };

struct store_options {
	const char *url;      /* postgres://…, postgresql://…, sqlite:PATH, or as others write it:
	                         store_url_read() */
	const char *name;     /* the database's name in messages; NULL: the redacted URL */
	bool read_only;       /* SQLite: open for reading only; PostgreSQL: read-only by default */
	bool create;          /* SQLite: create the file if it is not there */
	bool plan_once;       /* PostgreSQL: no plan depends on the values, so each is made once */
	int64_t connect_ms;   /* deadline to connect; 0: 5000 */
	int64_t call_ms;      /* deadline of a call; 0: statement_ms + 2000 */
	int64_t statement_ms; /* server-side statement_timeout; 0: 5000 */
	int64_t lock_ms;      /* server-side lock_timeout, SQLite busy time-out; 0: 2000 */
};

/* A value handed in. Text is sent as the untyped literal it is: SQL casts it. */
struct store_param {
	enum { PARAM_NULL, PARAM_TEXT, PARAM_INT } type;
	const char *text;
	int64_t number;
};
static inline struct store_param P_TEXT(const char *text) /* NULL is SQL NULL */
{
	return (struct store_param){text ? PARAM_TEXT : PARAM_NULL, text, 0};
}
#define P_INT(n) ((struct store_param){PARAM_INT, NULL, (n)})

/* Rows handed out, all text, in the caller's arena. */
struct store_rows {
	int nrows, ncols;
	const char **names; /* ncols */
	const char **cells; /* nrows * ncols; NULL is SQL NULL */
	int64_t affected;   /* rows written by INSERT, UPDATE, DELETE */
};
static inline const char *row_text(const struct store_rows *r, int row, int col)
{
	return r->cells[(size_t)row * (size_t)r->ncols + (size_t)col];
}
/* Whole number in a cell; `if_null` for NULL or what is not a number. */
int64_t row_int(const struct store_rows *r, int row, int col, int64_t if_null);
/* 't', 'true', '1' are true; NULL and anything else false. */
bool row_bool(const struct store_rows *r, int row, int col);

/* TX_BULK: TX_WRITE in which every statement names rows by key, many at a time. */
enum store_tx { TX_READ, TX_WRITE, TX_BULK };

/* A column that a statement would return (store_describe). */
struct store_column {
	const char *name;
	const char *type; /* PostgreSQL: format_type() text; SQLite: declared type or "" */
	const char *base; /* PostgreSQL: name of the base type in pg_type ("timestamptz", "int8", …),
	                     domains resolved; SQLite: upper-case declared type or "" */
};

struct store;
struct store_ops {
	defib_err (*exec)(struct store *s, const char *sql, const struct store_param *params,
	                  int nparams, struct arena *a, struct store_rows *rows, struct failure *f);
	/* NULL where nothing is won by it: see store_exec_then(). */
	defib_err (*exec_then)(struct store *s, const char *sql, const struct store_param *params,
	                       int nparams, const char *then, struct arena *a, struct store_rows *rows,
	                       struct failure *f);
	defib_err (*describe)(struct store *s, const char *sql, struct arena *a,
	                      struct store_column **cols, int *ncols, struct failure *f);
	defib_err (*begin)(struct store *s, enum store_tx mode, struct failure *f);
	defib_err (*commit)(struct store *s, struct failure *f);
	void (*rollback)(struct store *s); /* also after a failed commit; never fails */
	void (*close)(struct store *s);
	/* NULL where the engine sends no notifications. */
	int (*fd)(struct store *s);
	bool (*notified)(struct store *s);
};

struct store {
	const struct store_ops *ops;
	enum store_engine engine;
	const char *name;       /* for messages */
	int64_t server_version; /* PostgreSQL: 150004; SQLite: 3040001 */
	bool pooled;            /* PostgreSQL behind a transaction pooler */
	bool tls;
	struct timeline timeline; /* of its server when it was opened */
	bool in_tx;
	int64_t
		within_ms;  /* what a statement of the open transaction may take; 0: as the session says */
	bool tx_failed; /* a statement of the open transaction failed: only rollback is left */
	bool lost;      /* the session is gone: close and open again */
	/*
	 * A write was refused because the session can only read. It stays so however the server
	 * is healed: a default is read once, and a standby's session does not move to the primary.
	 */
	bool only_reads;
	bool ledger_seen; /* this session has found defib's ledger: it need not be looked for again */
};

/* Open a session. On failure *out is NULL. */
MUST_CHECK defib_err store_open(const struct store_options *opt, struct store **out,
                                struct failure *f);
void store_close(struct store *s); /* NULL is allowed */
/* AUTO_STORE s = NULL; closes itself. */
static inline void store_closed(struct store **s)
{
	store_close(*s);
}
#define AUTO_STORE AUTO(store_closed) struct store *

/*
 * Run one statement. `rows` may be NULL when no rows are wanted. Outside
 * begin/commit it is its own transaction. After an error inside a transaction
 * only rollback is possible. BEGIN, COMMIT, SAVEPOINT and the like are refused.
 */
MUST_CHECK defib_err store_exec(struct store *s, const char *sql, const struct store_param *params,
                                int nparams, struct arena *a, struct store_rows *rows,
                                struct failure *f);
/*
 * store_exec() outside a transaction, and after its commit `then`, which has no parameters and
 * whose failure does not matter: both in one trip to the server where that can be.
 */
MUST_CHECK defib_err store_exec_then(struct store *s, const char *sql,
                                     const struct store_param *params, int nparams,
                                     const char *then, struct arena *a, struct store_rows *rows,
                                     struct failure *f);
/* store_exec() in a write transaction of its own, which SQLite waits for at its begin. */
MUST_CHECK defib_err store_write(struct store *s, const char *sql, const struct store_param *params,
                                 int nparams, struct arena *a, struct store_rows *rows,
                                 struct failure *f);
/* store_exec() in a read-only transaction of its own. */
MUST_CHECK defib_err store_read(struct store *s, const char *sql, const struct store_param *params,
                                int nparams, struct arena *a, struct store_rows *rows,
                                struct failure *f);
/* Prepare without running: checks the SQL and tells the columns. */
MUST_CHECK defib_err store_describe(struct store *s, const char *sql, struct arena *a,
                                    struct store_column **cols, int *ncols, struct failure *f);
/* TX_READ: a read-only transaction. TX_WRITE: READ COMMITTED / BEGIN IMMEDIATE. */
MUST_CHECK defib_err store_begin(struct store *s, enum store_tx mode, struct failure *f);
/*
 * TX_READ in which no statement takes longer than this: then it fails with DEFIB_TIMEOUT, the
 * session stays, and only rollback is left. For questions that can be asked in a smaller way.
 */
MUST_CHECK defib_err store_begin_within(struct store *s, int64_t within_ms, struct failure *f);
/* Afterwards the transaction is over, whatever the answer. */
MUST_CHECK defib_err store_commit(struct store *s, struct failure *f);
void store_rollback(struct store *s);
/* End the transaction: commit if `err` is DEFIB_OK, else roll back and return it. */
MUST_CHECK defib_err store_end(struct store *s, defib_err err, struct failure *f);

/* A descriptor that is readable when a notification may have come; -1: there is none. */
int store_fd(struct store *s);
/* Take what came; true when it was a notification or the session turned out to be lost. */
bool store_notified(struct store *s);

/* Which engine a URL names; false with a message when none. */
bool store_engine_of(const char *url, enum store_engine *out, struct failure *f);
/*
 * A constraint, trigger or type refuses one of the rows: repeating the statement fails again,
 * without that row it may succeed.
 */
bool store_blames_rows(const struct failure *f);
/* The database is unavailable, or takes no writes: the same call may succeed later. */
bool store_unavailable(defib_err err);
/* Which database a URL names, however it is reached: "database app", "file /srv/app.db". */
void store_target(const char *url, struct buf *out);
/* The user that a PostgreSQL URL or PGUSER names, as the server knows it; "" for none. */
void store_user(const char *url, struct buf *out);
/* SQLite's clock in milliseconds since 1970, as an expression. */
#define SQLITE_NOW_MS "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* An identifier, quoted for either engine: a"b -> "a""b". Takes one part, not a dotted name. */
void sql_ident(struct buf *out, const char *name);
/* "schema.table" or "table", split at dots outside double quotes, each part quoted. */
void sql_table(struct buf *out, const char *name);
/* A string literal; for text that is printed for people or must be part of DDL, never for values.
 */
void sql_literal(struct buf *out, const char *text);

/* Engines (postgres.c, sqlite.c). */
defib_err postgres_open(const struct store_options *opt, struct store **out, struct failure *f);
defib_err sqlite_open(const struct store_options *opt, struct store **out, struct failure *f);
void postgres_target(const char *url, struct buf *out);
void sqlite_target(const char *url, struct buf *out);

/* ---- a session that can be opened again when it is lost ---- */

struct session {
	struct store *store; /* NULL: not open */
	struct store_options options;
	/* Opens `options`; tests put a wrapper around what it returns. */
	defib_err (*open)(const struct store_options *options, struct store **out, struct failure *f);
	int64_t opened;    /* how often it was opened: a change means that it was lost in between */
	int64_t opened_ms; /* when it was opened last */
};

/*
 * Open it if it is not open, was lost, or is with a server that another session has found to be an
 * old primary (timeline.h); also, once a second at most, where it was opened for
 * writing and turned out to be read-only.
 */
MUST_CHECK defib_err session_ready(struct session *s, struct failure *f);
void session_close(struct session *s);
/* AUTO_SESSION s = {…}; closes itself. */
#define AUTO_SESSION AUTO(session_close) struct session
/* Close a session that is not needed for a while; opening it again does not count as a loss. */
void session_rest(struct session *s);

/* ---- a caller's session ---- */

/*
 * A session that somebody else owns and has a transaction open on, behind the store's interface, so
 * that the same statements run inside it.
 *
 * Plain calls on the caller's handle, with its settings and time limits. Nothing begins, commits or
 * rolls back here; after a failure only the caller's rollback is left. store_close() gives it back
 * as it was.
 */

struct pg_conn; /* libpq's PGconn */
struct sqlite3;

/* DEFIB_USAGE when no transaction is open on it. */
MUST_CHECK defib_err postgres_borrow(struct pg_conn *conn, struct store **out, struct failure *f);
MUST_CHECK defib_err sqlite_borrow(struct sqlite3 *db, struct store **out, struct failure *f);

/* ---- the text of a statement ---- */

/*
 * What the text of a statement says about it, without parsing SQL.
 *
 * The answers err on the safe side: a statement that might write counts as one
 * that does, because a lost reply to it must be read again and never assumed.
 */

/* BEGIN, COMMIT, SAVEPOINT and the like: transactions go through store_begin and its kin. */
bool sql_controls_transaction(const char *sql);
/*
 * A query without a word that writes. A SELECT that calls a function which
 * writes is not recognised: run such a call inside a transaction.
 */
bool sql_only_reads(const char *sql);
/* Nothing but white space, comments and semicolons. */
bool sql_is_blank(const char *sql);

/* ---- URLs ---- */

/*
 * Database URLs as other tools write them, read as ours.
 *
 * An application's DATABASE_URL is written for its driver: postgresql+asyncpg://, ?pgbouncer=true,
 * sqlite:///jobs.db. Parameters that have an equivalent are converted; others are dropped, with a
 * note.
 */

/*
 * Convert a URL to defib's own form. `notes` gets one sentence about what was changed, without any
 * value (it may be secret), or "". Converting twice changes nothing. False: the failure says what
 * to write instead.
 */
bool store_url_read(const char *url, struct buf *out, struct buf *notes, struct failure *f);

#endif
