/* SPDX-License-Identifier: Apache-2.0
 * store.c: the front of the store. Calls go to the engine through its ops, so that a wrapper
 * (fault_test.h) can be put in between. What every engine must do alike is done here: defaults,
 * whether a transaction is open, whether it has failed, and whether the session is lost.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/dialect.h"
#include "store/postgres_connect.h"
#include "store/sql.h"
#include "store/sqlite.h"
#include "store/url.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#define CONNECT_MS 5000
#define STATEMENT_MS 5000
#define LOCK_MS 2000
#define CALL_MARGIN_MS 2000 /* time for the server's own time-out to reach us first */

bool store_engine_of(const char *url, enum store_engine *out, struct failure *f)
{
	static const struct {
		const char *prefix;
		enum store_engine engine;
	} schemes[] = {
		{"postgres://", STORE_POSTGRES},
		{"postgresql://", STORE_POSTGRES},
		{"sqlite:", STORE_SQLITE},
	};
	for (size_t i = 0; url && i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (text_starts(url, schemes[i].prefix)) {
			*out = schemes[i].engine;
			return true;
		}
	}
	AUTO_BUF shown = BUF_INIT;
	url_redact(url ? url : "", &shown);
	fail(f, DEFIB_CONFIG, "\"%s\" is not a database URL", buf_text(&shown));
	fail_next(f, "write postgres://…, postgresql://… or sqlite:PATH");
	return false;
}

bool store_blames_rows(const struct failure *f)
{
	return f->code == DEFIB_CONSTRAINT || f->code == DEFIB_BAD_VALUE;
}

bool store_blames_sql(defib_err err)
{
	return err == DEFIB_BAD_SQL || err == DEFIB_BAD_VALUE;
}

bool store_unavailable(defib_err err)
{
	return err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME || err == DEFIB_TIMEOUT ||
	       err == DEFIB_LOCKED || err == DEFIB_FULL || err == DEFIB_READ_ONLY;
}

void store_target(const char *url, struct buf *out)
{
	static void (*const targets[])(const char *, struct buf *) = {
		[STORE_POSTGRES] = postgres_target,
		[STORE_SQLITE] = sqlite_target,
	};
	enum store_engine engine;
	if (store_engine_of(url, &engine, NULL))
		targets[engine](url, out);
}

static int64_t store_or_default(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

/* The servers' settings, and SQLite's busy time-out, are numbers of 32 bits: nearly 25 days. */
static int64_t store_within(int64_t ms)
{
	return ms < INT32_MAX ? ms : INT32_MAX;
}

defib_err store_open(const struct store_options *opt, struct store **out, struct failure *f)
{
	static defib_err (*const openers[])(const struct store_options *, struct store **,
	                                    struct failure *) = {
		[STORE_POSTGRES] = postgres_open,
		[STORE_SQLITE] = sqlite_open,
	};
	struct failure scratch = {0};
	struct store_options full = *opt;
	AUTO_BUF shown = BUF_INIT, url = BUF_INIT, notes = BUF_INIT;
	enum store_engine engine;
	*out = NULL;
	f = f ? f : &scratch;
	/* Settings convert their URLs; a program that uses the library passes its own. */
	if (opt->url && !store_url_read(opt->url, &url, &notes, f))
		return DEFIB_CONFIG;
	full.url = opt->url ? buf_text(&url) : NULL;
	if (!store_engine_of(full.url, &engine, f))
		return DEFIB_CONFIG;
	url_redact(opt->url, &shown);
	full.name = opt->name ? opt->name : buf_text(&shown);
	full.connect_ms = store_or_default(opt->connect_ms, CONNECT_MS);
	full.statement_ms = store_within(store_or_default(opt->statement_ms, STATEMENT_MS));
	full.lock_ms = store_within(store_or_default(opt->lock_ms, LOCK_MS));
	full.call_ms = store_or_default(opt->call_ms, full.statement_ms + CALL_MARGIN_MS);
	defib_err err = openers[engine](&full, out, f);
	assert((err == DEFIB_OK) == (*out != NULL));
	if (err)
		return err;
	fail_clear(f); /* errors of hosts that were tried before */
	(*out)->process = getpid();
	return DEFIB_OK;
}

/*
 * A forked child has the sockets, files and locks of its parent, which goes on using them: what the
 * child sent would be answered to the parent, and a polite end would end the parent's session.
 */
static bool store_is_ours(const struct store *s)
{
	return s->process == 0 || s->process == getpid();
}

static defib_err of_parent(const struct store *s, struct failure *f)
{
	fail(f, DEFIB_REFUSED, "%s: the session belongs to the process that forked this one", s->name);
	fail_next(f, "open another one after the fork");
	return DEFIB_REFUSED;
}

void store_close(struct store *s)
{
	if (s && store_is_ours(s))
		s->ops->close(s);
}

/* The one place that updates lost, in_tx and tx_failed. */
static defib_err store_settle(struct store *s, defib_err err)
{
	if (err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME)
		s->lost = true;
	if (err == DEFIB_READ_ONLY)
		s->only_reads = true;
	if (err != DEFIB_OK && s->in_tx)
		s->tx_failed = true;
	if (s->lost) {
		s->in_tx = false;
		s->tx_failed = false;
	}
	return err;
}

/* A failed call returns no rows. */
static defib_err with_rows(defib_err err, struct store_rows *rows)
{
	if (err && rows)
		*rows = (struct store_rows){0};
	return err;
}

/* Preconditions of any call: the session is not lost, the transaction has not failed. */
static defib_err usable(struct store *s, struct failure *f)
{
	if (!store_is_ours(s))
		return of_parent(s, f);
	if (s->lost) {
		fail(f, DEFIB_CONNECTION, "%s: the session was lost earlier", s->name);
		fail_next(f, "open a new session");
		return DEFIB_CONNECTION;
	}
	if (s->tx_failed) {
		return fail(f, DEFIB_DATABASE,
		            "%s: the transaction already failed and can only be rolled back", s->name);
	}
	return DEFIB_OK;
}

defib_err store_exec(struct store *s, const char *sql, const struct store_param *params,
                     int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct failure scratch = {0};
	assert(s && sql && nparams >= 0 && (params || nparams == 0) && (a || !rows));
	f = f ? f : &scratch;
	if (rows)
		*rows = (struct store_rows){0};
	defib_err err = usable(s, f);
	if (err)
		return err;
	if (sql_controls_transaction(sql))
		err = fail(f, DEFIB_BAD_SQL, "%s: a statement may not begin, end or split a transaction",
		           s->name);
	else
		err = s->ops->exec(s, sql, params, nparams, a, rows, f);
	return with_rows(store_settle(s, err), rows);
}

defib_err store_exec_then(struct store *s, const char *sql, const struct store_param *params,
                          int nparams, const char *then, struct arena *a, struct store_rows *rows,
                          struct failure *f)
{
	struct failure scratch = {0};
	assert(s && sql && then && !s->in_tx && (a || !rows));
	f = f ? f : &scratch;
	if (!s->ops->exec_then || s->pooled) {
		defib_err err = store_exec(s, sql, params, nparams, a, rows, f);
		if (!err)
			(void)!store_exec(s, then, NULL, 0, a, NULL, &scratch);
		return err;
	}
	if (rows)
		*rows = (struct store_rows){0};
	defib_err err = usable(s, f);
	if (!err)
		err = store_settle(s, s->ops->exec_then(s, sql, params, nparams, then, a, rows, f));
	return with_rows(err, rows);
}

defib_err store_describe(struct store *s, const char *sql, struct arena *a,
                         struct store_column **cols, int *ncols, struct failure *f)
{
	struct failure scratch = {0};
	assert(s && sql && a && cols && ncols);
	*cols = NULL;
	*ncols = 0;
	f = f ? f : &scratch;
	defib_err err = usable(s, f);
	return err ? err : store_settle(s, s->ops->describe(s, sql, a, cols, ncols, f));
}

defib_err store_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	struct failure scratch = {0};
	assert(s && (s->lost || !s->in_tx));
	f = f ? f : &scratch;
	defib_err err = usable(s, f);
	if (!err) {
		err = store_settle(s, s->ops->begin(s, mode, f));
		s->in_tx = err == DEFIB_OK;
	}
	return err;
}

defib_err store_wait_again(struct store *s, struct failure *f)
{
	char sql[64];
	assert(s && s->in_tx);
	if (!store_dialect(s)->has_row_locks)
		return DEFIB_OK;
	snprintf(sql, sizeof sql, "SET LOCAL lock_timeout = %lld", (long long)s->lock_ms);
	return store_exec(s, sql, NULL, 0, NULL, NULL, f);
}

defib_err store_begin_within(struct store *s, int64_t within_ms, struct failure *f)
{
	assert(within_ms > 0);
	s->within_ms = within_ms;
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		s->within_ms = 0;
	return err;
}

defib_err store_commit(struct store *s, struct failure *f)
{
	struct failure scratch = {0};
	assert(s && (s->lost || s->in_tx));
	f = f ? f : &scratch;
	defib_err err = usable(s, f);
	if (!err)
		err = store_settle(s, s->ops->commit(s, f));
	/* Whatever the result, the transaction is over: SQLite would keep one whose COMMIT was busy. */
	if (err)
		store_rollback(s);
	s->in_tx = false;
	s->within_ms = 0;
	return err;
}

defib_err store_write(struct store *s, const char *sql, const struct store_param *params,
                      int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err)
		err = store_end(s, store_exec(s, sql, params, nparams, a, rows, f), f);
	return with_rows(err, rows);
}

defib_err store_read(struct store *s, const char *sql, const struct store_param *params,
                     int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		return with_rows(err, rows);
	err = store_exec(s, sql, params, nparams, a, rows, f);
	store_rollback(s); /* nothing was written */
	return err;
}

void store_rollback(struct store *s)
{
	if (s->in_tx && !s->lost && store_is_ours(s))
		s->ops->rollback(s);
	s->in_tx = false;
	s->tx_failed = false;
	s->within_ms = 0;
}

defib_err store_end(struct store *s, defib_err err, struct failure *f)
{
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

int64_t row_int(const struct store_rows *r, int row, int col, int64_t if_null)
{
	const char *text = row_text(r, row, col);
	int64_t number;
	return text && int_parse(text, &number) ? number : if_null;
}

bool row_bool(const struct store_rows *r, int row, int col)
{
	const char *text = row_text(r, row, col);
	return text_eq(text, "t") || text_eq(text, "true") || text_eq(text, "1");
}

static int64_t limited(int64_t n, int64_t most)
{
	return n > most ? most : n < -most ? -most : n;
}

int64_t row_limited(const struct store_rows *r, int row, int col, int64_t if_null)
{
	return limited(row_int(r, row, col, if_null), ROW_INT_MOST);
}

int64_t row_within(const struct store_rows *r, int row, int col, int64_t low, int64_t high,
                   int64_t otherwise)
{
	const char *text = row_text(r, row, col);
	int64_t number;
	return text && int_parse(text, &number) && number >= low && number <= high ? number : otherwise;
}

/* ---- rows that nothing of ours wrote ---- */

#define ASIDE_MAX 256 /* lines of one process: whoever can write rows must not fill its log */

static struct {
	pthread_mutex_t mutex;
	uint64_t rows[ASIDE_MAX];
	int n;
} aside = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Whether it is logged: the first time, while there is room. *last: there is none after it. */
static bool aside_is_new(uint64_t hash, bool *last)
{
	bool found = false;
	pthread_mutex_lock(&aside.mutex);
	for (int i = 0; i < aside.n && !found; i++)
		found = aside.rows[i] == hash;
	found = found || aside.n == ASIDE_MAX;
	if (!found)
		aside.rows[aside.n++] = hash;
	*last = aside.n == ASIDE_MAX;
	pthread_mutex_unlock(&aside.mutex);
	return !found;
}

void row_set_aside(const char *table, const char *row, const char *why)
{
	char name[80];
	bool last = false;
	row = row ? row : "";
	uint64_t hash = fnv1a(fnv1a(FNV_START, table, strlen(table) + 1), row, strlen(row) + 1);
	utf8_copy(name, sizeof name, row);
	if (!aside_is_new(fnv1a(hash, why, strlen(why)), &last))
		return;
	log_event(LOG_WARN, "row set aside", LOG_STR("table", table), LOG_STR("row", &name[0]),
	          LOG_STR("because", why));
	if (last)
		log_event(LOG_WARN, "further rows are set aside without a line for each",
		          LOG_INT("so far", ASIDE_MAX));
}

static void read_member(const struct row_member *m, const struct store_rows *rows, int row, int col,
                        void *at)
{
	switch (m->type) {
	case MEMBER_TEXT:
		*(const char **)at = row_text(rows, row, col);
		break;
	case MEMBER_INT:
		*(int64_t *)at = limited(row_int(rows, row, col, 0), ROW_INT_MOST);
		break;
	case MEMBER_SMALL:
		*(int *)at = (int)limited(row_int(rows, row, col, -1), INT_MAX);
		break;
	case MEMBER_BOOL:
		*(bool *)at = row_bool(rows, row, col);
		break;
	case MEMBER_GIVEN:
		*(bool *)at = row_text(rows, row, col) != NULL;
		break;
	}
}

/* Why a cell cannot be what we wrote; NULL: it can. */
static const char *cell_fault(const struct row_member *m, const struct store_rows *rows, int row,
                              int col)
{
	const char *text = row_text(rows, row, col);
	int64_t number;
	if (!text)
		return m->needed ? "is null" : NULL;
	if (m->low == m->high)
		return NULL;
	if (!int_parse(text, &number))
		return "is not a whole number";
	return number < m->low || number > m->high ? "is out of range" : NULL;
}

static bool store_read_row(const char *table, const struct store_rows *rows, int row,
                           const struct row_member *members, size_t nmembers, char *to)
{
	int col = 0;
	for (size_t i = 0; i < nmembers; i++) {
		assert(col < rows->ncols);
		const char *why = cell_fault(&members[i], rows, row, col);
		if (why) {
			AUTO_BUF text = BUF_INIT;
			buf_addf(&text, "%s %s", rows->names[col], why);
			row_set_aside(table ? table : "defib", row_text(rows, row, 0), buf_text(&text));
			return false;
		}
		read_member(&members[i], rows, row, col, to + members[i].offset);
		col += members[i].type != MEMBER_GIVEN;
	}
	return true;
}

void *rows_read(const char *table, const struct store_rows *rows, const struct row_member *members,
                size_t nmembers, size_t size, struct arena *a, int *n)
{
	char *all = arena_alloc(a, size * (size_t)(rows->nrows + 1));
	*n = 0;
	for (int row = 0; row < rows->nrows; row++)
		*n += store_read_row(table, rows, row, members, nmembers, all + (size_t)*n * size);
	return all;
}

int store_fd(struct store *s)
{
	return s->ops->fd && !s->lost ? s->ops->fd(s) : -1;
}

bool store_notified(struct store *s)
{
	return s->ops->notified && !s->lost && s->ops->notified(s);
}

/* ---- sessions that are opened again ---- */

/*
 * The server may take writes again just after the session was opened: a lease of 1.5 s must still
 * be renewed in time.
 */
#define WRITABLE_AGAIN_MS 250

static bool is_good(const struct session *s)
{
	if (!s->store || s->store->lost)
		return false;
	if (!s->store->in_tx && s->store->ops->is_behind && s->store->ops->is_behind(s->store))
		return false;
	return !s->store->only_reads || s->options.read_only || s->store->in_tx ||
	       clock_boot_ms() - s->opened_ms < WRITABLE_AGAIN_MS;
}

defib_err session_ready(struct session *s, struct failure *f)
{
	if (s->store && !store_is_ours(s->store))
		return of_parent(s->store, f);
	if (is_good(s))
		return DEFIB_OK;
	if (s->options.keeps_locks && !s->former) {
		s->former = s->store;
		s->store = NULL;
	}
	store_close(s->store);
	s->store = NULL;
	struct store_options options = s->options;
	/* An empty database in the place of one that was removed would hide that. */
	options.create = options.create && !store_state_known(&s->state);
	defib_err err = s->open(&options, &s->store, f);
	/* A server that refuses a session may have none left because of the former one. */
	if (err && f && f->sqlstate[0])
		session_close_former(s);
	if (err)
		return err;
	s->opened++;
	s->opened_ms = clock_boot_ms();
	s->states += store_state_is_another(&s->state, &s->store->state);
	if (store_state_known(&s->store->state))
		s->state = s->store->state;
	return DEFIB_OK;
}

void session_close_former(struct session *s)
{
	store_close(s->former);
	s->former = NULL;
}

void session_close(struct session *s)
{
	session_close_former(s);
	store_close(s->store);
	s->store = NULL;
}

void session_rest(struct session *s)
{
	s->opened -= s->store && !s->store->lost;
	session_close(s);
}

/* ---- prepared statements, for the engines ---- */

/*
 * 64 slots are searched linearly: a hash of the text is compared first, so a miss costs 64 integer
 * comparisons, far less than the round trip that it saves.
 */

struct prepared *prepared_find(struct prepared_set *all, const char *sql)
{
	uint64_t hash = fnv1a(FNV_START, sql, strlen(sql));
	for (int i = 0; i < PREPARED_MAX; i++) {
		struct prepared *slot = &all->slots[i];
		if (slot->sql && slot->hash == hash && strcmp(slot->sql, sql) == 0) {
			slot->used = ++all->finds;
			return slot;
		}
	}
	return NULL;
}

struct prepared *prepared_victim(struct prepared_set *all)
{
	struct prepared *oldest = &all->slots[0];
	for (int i = 0; i < PREPARED_MAX; i++) {
		struct prepared *slot = &all->slots[i];
		if (!slot->sql)
			return slot;
		if (slot->used < oldest->used)
			oldest = slot;
	}
	return oldest;
}

uint64_t prepared_next_id(const struct prepared_set *all)
{
	return all->puts + 1;
}

void prepared_put(struct prepared_set *all, struct prepared *slot, const char *sql, void *handle)
{
	assert(!slot->sql);
	slot->sql = mem_strdup(sql);
	slot->hash = fnv1a(FNV_START, sql, strlen(sql));
	slot->used = ++all->finds;
	slot->id = ++all->puts;
	slot->handle = handle;
}

void prepared_forget(struct prepared *slot)
{
	free(slot->sql);
	*slot = (struct prepared){0};
}
