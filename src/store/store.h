/* SPDX-License-Identifier: Apache-2.0
 * store.h: one database session, PostgreSQL or SQLite, behind one interface.
 *
 * Every call is bounded by a client-side deadline and every error has a class (defib.h), which is
 * decided only here. Values are always parameters. SQL is written for its engine: "$1" on
 * PostgreSQL, "?1" on SQLite. A failure's text is one line that begins with the database's name.
 *
 * The class rule that matters most: when the connection breaks while a COMMIT (or a write outside a
 * transaction) is under way, the answer is DEFIB_UNKNOWN_OUTCOME, never DEFIB_CONNECTION: the
 * caller must read again.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/text.h"
#include "store/timeline.h"

enum store_engine { STORE_POSTGRES, STORE_SQLITE };

struct store_options {
	const char *url;  /* postgres://…, postgresql://…, sqlite:PATH, or the form of another tool:
	                     store_url_read() */
	const char *name; /* the database's name in messages; NULL: the redacted URL */
	bool read_only;   /* SQLite: open for reading only; PostgreSQL: read-only by default */
	bool create;      /* SQLite: create the file if it does not exist */
	bool plan_once;   /* PostgreSQL: plan each statement once, without regard to its values */
	bool keeps_locks; /* PostgreSQL: a session that does not answer stays open, with its locks,
	                     until it is closed; one with an open transaction is closed at once */
	int64_t connect_ms;   /* deadline to connect; 0: 5000 */
	int64_t call_ms;      /* deadline of a call; 0: statement_ms + 2000 */
	int64_t statement_ms; /* server-side statement_timeout; 0: 5000 */
	int64_t lock_ms;      /* server-side lock_timeout, SQLite busy time-out; 0: 2000 */
};

/* A value passed to a statement. Text is sent as an untyped literal; the SQL casts it. */
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

/* Returned rows, all text, in the caller's arena; none after a failure. */
struct store_rows {
	int nrows, ncols;
	const char **names; /* ncols */
	const char **cells; /* nrows * ncols; NULL is SQL NULL */
	int64_t affected;   /* rows written by INSERT, UPDATE, DELETE */
};
/* NULL is SQL NULL, or that there is no such row. */
static inline const char *row_text(const struct store_rows *r, int row, int col)
{
	return row < r->nrows ? r->cells[(size_t)row * (size_t)r->ncols + (size_t)col] : NULL;
}
/* The whole number in a cell; `if_null` for NULL or anything else. */
int64_t row_int(const struct store_rows *r, int row, int col, int64_t if_null);
/* 't', 'true', '1' are true; NULL and anything else false. */
bool row_bool(const struct store_rows *r, int row, int col);

/*
 * Rows as an array of structs. A list of members says what the columns are, in their order; a
 * member's type says how its cell is read: const char *, int64_t, bool, or int, which is -1 for
 * NULL.
 *
 *   static const struct row_member members[] = {ROW_MEMBER(struct x, name), …};
 *   *out = ROWS_READ(&rows, members, struct x, a, n);
 */
struct row_member {
	size_t offset;
	enum { MEMBER_TEXT, MEMBER_INT, MEMBER_SMALL, MEMBER_BOOL, MEMBER_GIVEN } type;
	bool needed;       /* a row where it is NULL is set aside … */
	int64_t low, high; /* … and one whose number is not between these; both 0: any */
};
/* clang-format off */
#define ROW_MEMBER(of, member)                                                                     \
	{.offset = offsetof(of, member), .type = _Generic((of){0}.member, const char *: MEMBER_TEXT, \
	                                  int64_t: MEMBER_INT, int: MEMBER_SMALL, bool: MEMBER_BOOL)}
/* A bool: whether the column of the following member is not NULL. */
#define ROW_GIVEN(of, member) {.offset = offsetof(of, member), .type = MEMBER_GIVEN}
#define ROW_NEEDED(of, member) {.offset = offsetof(of, member), .type = MEMBER_TEXT, .needed = true}
#define ROW_WITHIN(of, member, least, most) \
	{.offset = offsetof(of, member), .type = MEMBER_INT, .needed = true, .low = (least), \
	 .high = (most)}
/* clang-format on */
#define ROWS_READ(rows, members, type, a, n)                                                       \
	((type *)rows_read(NULL, (rows), (members), sizeof(members) / sizeof *(members), sizeof(type), \
	                   (a), (n)))
/* The same, if members can be wrong; `table` is where the rows are from. */
#define ROWS_READ_FROM(table, rows, members, type, a, n)                                           \
	((type *)rows_read((table), (rows), (members), sizeof(members) / sizeof *(members),            \
	                   sizeof(type), (a), (n)))
/*
 * Other programs can write to defib's own tables: what is read from them is input like any other.
 * Numbers are limited to ±ROW_INT_MOST, so that the sum or difference of two does not overflow. A
 * row that cannot be one of ours is left out of the result, see row_set_aside().
 */
#define ROW_INT_MOST (INT64_MAX / 2)
void *rows_read(const char *table, const struct store_rows *rows, const struct row_member *members,
                size_t nmembers, size_t size, struct arena *a, int *n);
/* As row_int(), with that limit. */
int64_t row_limited(const struct store_rows *r, int row, int col, int64_t if_null);
/* The number in a cell if it is between these; else `otherwise`. */
int64_t row_within(const struct store_rows *r, int row, int col, int64_t low, int64_t high,
                   int64_t otherwise);
/*
 * A row of one of defib's own tables that nothing of ours wrote, and that is not used: one line in
 * the log, once for each row. `row` is its key, or NULL.
 */
void row_set_aside(const char *table, const char *row, const char *why);

/* How a long reading says how far it is, to a caller that shows progress. */
struct on_count {
	void (*call)(void *ctx, int64_t n); /* so many so far; NULL: nobody wants to know */
	void *ctx;
};

static inline void count_tell(const struct on_count *on, int64_t n)
{
	if (on->call)
		on->call(on->ctx, n);
}

/*
 * TX_BULK: a TX_WRITE in which every statement looks up many rows by key. TX_STABLE and
 * TX_STABLE_BULK: the same for statements that write rows nobody has locked for them. All of them
 * see one snapshot, a row that changed since then is a failure (DEFIB_LOCKED, SQLSTATE 40001), and
 * a locked row is waited for only briefly, until store_wait_again().
 */
enum store_tx { TX_READ, TX_WRITE, TX_BULK, TX_STABLE, TX_STABLE_BULK };
static inline bool tx_is_stable(enum store_tx mode)
{
	return mode == TX_STABLE || mode == TX_STABLE_BULK;
}

/* A column that a statement would return (store_describe). */
struct store_column {
	const char *name;
	const char *type; /* PostgreSQL: format_type() text; SQLite: declared type or "" */
	const char *base; /* PostgreSQL: name of the base type in pg_type ("timestamptz", "int8", …),
	                     domains resolved; SQLite: upper-case declared type or "" */
};

/*
 * The state of a database that a session is on. In another one, commits that were seen may be
 * missing, and numbers are given again: the server has failed over, or its file was replaced, maybe
 * by that of another database. PostgreSQL: system identifier and timeline. SQLite: device, inode
 * and time of creation of the file (database_file.h). All zero: not known.
 */
struct store_state {
	uint64_t where, what;
	int64_t since;
};
static inline bool store_state_known(const struct store_state *s)
{
	return s->what != 0;
}
/* Both are known, and they differ. */
static inline bool store_state_is_another(const struct store_state *a, const struct store_state *b)
{
	return store_state_known(a) && store_state_known(b) &&
	       (a->where != b->where || a->what != b->what ||
	        (a->since && b->since && a->since != b->since));
}

struct store;
struct store_ops {
	defib_err (*exec)(struct store *s, const char *sql, const struct store_param *params,
	                  int nparams, struct arena *a, struct store_rows *rows, struct failure *f);
	/* NULL if it saves nothing: see store_exec_then(). */
	defib_err (*exec_then)(struct store *s, const char *sql, const struct store_param *params,
	                       int nparams, const char *then, struct arena *a, struct store_rows *rows,
	                       struct failure *f);
	defib_err (*describe)(struct store *s, const char *sql, struct arena *a,
	                      struct store_column **cols, int *ncols, struct failure *f);
	defib_err (*begin)(struct store *s, enum store_tx mode, struct failure *f);
	defib_err (*commit)(struct store *s, struct failure *f);
	void (*rollback)(struct store *s); /* also after a failed commit; never fails */
	void (*close)(struct store *s);
	/* Whether it is no longer on the database that its URL names; NULL: it always is. */
	bool (*is_behind)(struct store *s);
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
	struct timeline timeline; /* of its server when the session was opened */
	pid_t process;            /* that opened it; 0: lent by a caller */
	struct store_state state;
	bool in_tx;
	int64_t lock_ms;       /* how long a statement waits for a lock */
	int64_t within_ms;     /* limit for a statement of the open transaction; 0: the session's */
	bool tx_failed;        /* a statement of the open transaction failed: only rollback is left */
	bool lost;             /* the session is gone: close and open again */
	bool payload_received; /* the last store_notified() received a payload */
	/*
	 * A write was refused because the session can only read, or it was opened for writing on a
	 * standby. This does not change when the server recovers: the setting is read once, and a
	 * session on a standby does not move to the primary.
	 */
	bool only_reads;
	/*
	 * PostgreSQL: the schemas of the role's own search path, as an array. Statements of ours have
	 * one without those in which other roles can create (watch/schemas.h).
	 */
	const char *own_path;
	bool ledger_seen; /* this session found defib's ledger and need not look again */
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
 * Run one statement. `rows` may be NULL if the caller wants none. Outside begin/commit it is a
 * transaction of its own. After an error inside a transaction, only rollback is possible. BEGIN,
 * COMMIT, SAVEPOINT and similar statements are refused.
 */
MUST_CHECK defib_err store_exec(struct store *s, const char *sql, const struct store_param *params,
                                int nparams, struct arena *a, struct store_rows *rows,
                                struct failure *f);
/*
 * store_exec() outside a transaction, followed after its commit by `then`, which has no parameters
 * and whose failure is ignored. Both are sent in one round trip if the engine can do that.
 */
MUST_CHECK defib_err store_exec_then(struct store *s, const char *sql,
                                     const struct store_param *params, int nparams,
                                     const char *then, struct arena *a, struct store_rows *rows,
                                     struct failure *f);
/* store_exec() in a write transaction of its own. SQLite waits for the lock when it begins. */
MUST_CHECK defib_err store_write(struct store *s, const char *sql, const struct store_param *params,
                                 int nparams, struct arena *a, struct store_rows *rows,
                                 struct failure *f);
/* store_exec() in a read-only transaction of its own. */
MUST_CHECK defib_err store_read(struct store *s, const char *sql, const struct store_param *params,
                                int nparams, struct arena *a, struct store_rows *rows,
                                struct failure *f);
/* Prepare without running: checks the SQL and returns the columns. */
MUST_CHECK defib_err store_describe(struct store *s, const char *sql, struct arena *a,
                                    struct store_column **cols, int *ncols, struct failure *f);
/*
 * TX_READ: a read-only transaction. TX_WRITE: READ COMMITTED / BEGIN IMMEDIATE. TX_STABLE:
 * REPEATABLE READ / BEGIN IMMEDIATE.
 */
MUST_CHECK defib_err store_begin(struct store *s, enum store_tx mode, struct failure *f);
/*
 * TX_READ with a time limit per statement. A statement that exceeds it fails with DEFIB_TIMEOUT;
 * the session survives, and only rollback is possible. For queries that have a cheaper alternative.
 */
MUST_CHECK defib_err store_begin_within(struct store *s, int64_t within_ms, struct failure *f);
/* From here on, a transaction that was stable about locks waits for them as others do. */
MUST_CHECK defib_err store_wait_again(struct store *s, struct failure *f);
/* Afterwards the transaction is over, whatever the result. */
MUST_CHECK defib_err store_commit(struct store *s, struct failure *f);
void store_rollback(struct store *s);
/* End the transaction: commit if `err` is DEFIB_OK, else roll back and return it. */
MUST_CHECK defib_err store_end(struct store *s, defib_err err, struct failure *f);

/* A descriptor that is readable when a notification may have arrived; -1: there is none. */
int store_fd(struct store *s);
/* Consume what arrived. True if it was a notification, or if the session turned out to be lost. */
bool store_notified(struct store *s);

/* The engine of a URL; false with a message if it names none. */
bool store_engine_of(const char *url, enum store_engine *out, struct failure *f);
/*
 * A constraint, trigger or type rejects one of the rows. Repeating the statement fails again;
 * without that row it may succeed.
 */
bool store_blames_rows(const struct failure *f);
/* What was prepared, or run over no rows, is wrong: its syntax, a name, or a value in it. */
bool store_blames_sql(defib_err err);
/* The database is unavailable, or takes no writes: the same call may succeed later. */
bool store_unavailable(defib_err err);
/*
 * Which database a URL names, regardless of how it is reached: "database app", "file /srv/app.db".
 */
void store_target(const char *url, struct buf *out);
/* SQLite's clock in milliseconds since 1970, as an expression. */
#define SQLITE_NOW_MS "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* A text that takes the place of {{name}} in a part of sql/. */
struct sql_piece {
	const char *name, *text;
};
/* Engines (postgres.c, sqlite.c). */
defib_err postgres_open(const struct store_options *opt, struct store **out, struct failure *f);
/* ---- a session that can be opened again when it is lost ---- */

struct session {
	struct store *store; /* NULL: not open */
	struct store_options options;
	/* Opens `options`; tests put a wrapper around what it returns. */
	defib_err (*open)(const struct store_options *options, struct store **out, struct failure *f);
	int64_t opened; /* number of times it was opened: a change means that it was lost in between */
	int64_t opened_ms;        /* when it was last opened */
	struct store_state state; /* of its database when it was last known */
	int64_t states; /* number of times that was another one than before (a failover, for one) */
	/* With keeps_locks: the one before, for as long as its locks are needed; NULL: none. */
	struct store *former;
};

/*
 * Open the session if it is not open, was lost, is connected to a server that another session found
 * to be an old primary (timeline.h), or has a file open that was replaced or removed
 * (database_file.h). If it was opened for writing and turned out to be read-only, open it again, at
 * most four times per second. A file that the session had open before is not created anew.
 *
 * Call it before each piece of work, such as a poll or a heartbeat: on SQLite it costs one look at
 * the file's name.
 */
MUST_CHECK defib_err session_ready(struct session *s, struct failure *f);
void session_close(struct session *s);
/* The new session has what the former one was kept for. */
void session_close_former(struct session *s);
/* AUTO_SESSION s = {…}; closes itself. */
#define AUTO_SESSION AUTO(session_close) struct session
/* Close a session that is not needed for a while; opening it again does not count as a loss. */
void session_rest(struct session *s);

/* ---- a caller's session ---- */

/*
 * A session that the caller owns and has a transaction open on, behind the store's interface, so
 * that the same statements run inside that transaction.
 *
 * The calls use the caller's handle with its settings and time limits. They never begin, commit or
 * roll back; after a failure the caller must roll back. store_close() returns the handle unchanged.
 */

struct pg_conn; /* libpq's PGconn */
struct sqlite3;

/* ---- the text of a statement ---- */

/*
 * Properties of a statement, found from its text without parsing SQL.
 *
 * The functions err on the safe side: a statement that might write is treated as one that does,
 * because after a lost reply the caller must read again and never assume.
 */

/* ---- URLs ---- */

/*
 * Database URLs in the form of other tools, converted to ours.
 *
 * An application's DATABASE_URL is written for its driver: postgresql+asyncpg://, ?pgbouncer=true,
 * sqlite:///jobs.db. Parameters that have an equivalent are converted; others are dropped, with a
 * note.
 */

/* ---- prepared statements, for the engines ---- */

/*
 * Which prepared statements a session has, by their SQL text.
 *
 * There is a fixed number of slots; the least recently used one is replaced. The engine decides
 * what a slot holds and how to drop it.
 */

#define PREPARED_MAX 64

struct prepared {
	char *sql; /* NULL: the slot is free */
	uint64_t hash;
	uint64_t used; /* number of the find that last returned it */
	uint64_t id;   /* never reused within a session; part of the statement's name */
	void *handle;  /* SQLite: sqlite3_stmt */
};

struct prepared_set {
	struct prepared slots[PREPARED_MAX];
	uint64_t finds, puts;
};

/* The slot that holds `sql`, now the most recently used, or NULL. */
struct prepared *prepared_find(struct prepared_set *all, const char *sql);
/* A free slot, or the least recently used one, which the caller must drop first. */
struct prepared *prepared_victim(struct prepared_set *all);
/* The id that the next put will assign. */
uint64_t prepared_next_id(const struct prepared_set *all);
/* Fill a free slot. */
void prepared_put(struct prepared_set *all, struct prepared *slot, const char *sql, void *handle);
/* Make a slot free. The caller releases what `handle` points to. */
void prepared_forget(struct prepared *slot);

#endif
