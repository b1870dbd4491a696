/* SPDX-License-Identifier: Apache-2.0
 * postgres.c: a session with a PostgreSQL server.
 *
 * Statements are prepared once under a name and run by that name. Behind a transaction pooler there
 * are no names and no session settings: each statement runs unnamed, inside a transaction that
 * begins with SET LOCAL of our settings.
 */
#include "store/postgres.h"

#include "base/clock.h"
#include "store/postgres_connect.h"
#include "store/postgres_wire.h"
#include "store/relation.h"
#include "store/sql.h"

#include <assert.h>
#include <inttypes.h>

#define BRIEF_MS 200     /* of a stable transaction, for a locked row */
#define ROLLBACK_MS 1000 /* not worth a longer wait: a closed session rolls back too */
#define STATEMENT_NAME 32

static struct pg *pg_of(struct store *s)
{
	return (struct pg *)s;
}

static struct pg_call call_now(const struct pg *p, bool effect)
{
	return (struct pg_call){.deadline_ms = clock_boot_ms() + p->call_ms, .effect = effect};
}

/* ---- values and rows ---- */

/*
 * Converts values for libpq and rows from it, for our own sessions and for those that a caller
 * lends us.
 */

struct pg_values pg_values_of(const struct store_param *params, int n)
{
	struct pg_values v = {mem_alloc(sizeof(*v.texts) * (size_t)n),
	                      mem_alloc(sizeof(*v.digits) * (size_t)n)};
	for (int i = 0; i < n; i++) {
		if (params[i].type == PARAM_TEXT) {
			v.texts[i] = params[i].text;
		} else if (params[i].type == PARAM_INT) {
			snprintf(v.digits[i], sizeof(v.digits[i]), "%" PRId64, params[i].number);
			v.texts[i] = v.digits[i];
		}
	}
	return v;
}

void pg_values_release(struct pg_values *v)
{
	free(v->texts);
	free(v->digits);
}

void pg_copy_rows(const PGresult *res, struct arena *a, struct store_rows *rows)
{
	rows->nrows = PQntuples(res);
	rows->ncols = PQnfields(res);
	rows->names = ARENA_ARRAY(a, const char *, rows->ncols);
	rows->cells = ARENA_ARRAY(a, const char *, (size_t)rows->nrows *(size_t)rows->ncols);
	for (int c = 0; c < rows->ncols; c++)
		rows->names[c] = arena_strdup(a, PQfname(res, c));
	const char **cell = rows->cells;
	for (int r = 0; r < rows->nrows; r++) {
		for (int c = 0; c < rows->ncols; c++, cell++)
			if (!PQgetisnull(res, r, c))
				*cell = arena_strndup(a, PQgetvalue(res, r, c), (size_t)PQgetlength(res, r, c));
	}
}

/* ---- statements ---- */

static void statement_name(uint64_t id, char name[STATEMENT_NAME])
{
	snprintf(name, STATEMENT_NAME, "defib_%" PRIu64, id);
}

/* The table was altered, or the names were deallocated: preparing again helps. */
static bool pg_is_stale(const struct failure *f)
{
	return f->reason == REASON_STALE_PLAN || f->reason == REASON_NOT_PREPARED;
}

/*
 * Forget names that are no longer valid. They may stay on the server, once per change of the table,
 * because no name is used twice. The failed statement aborted an open transaction, but the next one
 * will succeed.
 */
static defib_err forget_stale(struct pg *p, struct prepared *slot, struct failure *f)
{
	bool all = f->reason == REASON_NOT_PREPARED;
	for (int i = 0; i < PREPARED_MAX; i++)
		if (all || &p->statements.slots[i] == slot)
			prepared_forget(&p->statements.slots[i]);
	if (p->base.in_tx) {
		return fail(f, DEFIB_LOCKED, "%s: a table changed under a prepared statement",
		            p->base.name);
	}
	return DEFIB_OK;
}

static defib_err deallocate(struct pg *p, const struct pg_call *call, struct prepared *slot,
                            struct failure *f)
{
	char name[STATEMENT_NAME], sql[64];
	statement_name(slot->id, name);
	snprintf(sql, sizeof(sql), "DEALLOCATE %s", name);
	defib_err err = pg_simple(p, call, sql, f);
	if (err && !p->base.lost && pg_is_stale(f))
		return forget_stale(p, slot, f);
	prepared_forget(slot);
	return err;
}

/* Parsing has no effect, so whatever happens here the statement was not run. */
static defib_err pg_prepare(struct pg *p, int64_t deadline_ms, const char *sql,
                            struct prepared **out, struct failure *f)
{
	struct pg_call call = {.deadline_ms = deadline_ms};
	struct prepared *slot = prepared_victim(&p->statements);
	char name[STATEMENT_NAME];
	PGresult *res = NULL;
	defib_err err = DEFIB_OK;
	if (slot->sql)
		err = deallocate(p, &call, slot, f);
	if (!err) {
		statement_name(prepared_next_id(&p->statements), name);
		err = pg_finish(p, &call, PQsendPrepare(p->conn, name, sql, 0, NULL), &res, f);
	}
	PQclear(res);
	if (!err) {
		prepared_put(&p->statements, slot, sql, NULL);
		*out = slot;
	}
	return err;
}

/* Only rows that were written: libpq counts the rows of a SELECT here too. */
static int64_t affected_by(PGresult *res)
{
	static const char *const writes[] = {"INSERT", "UPDATE", "DELETE", "MERGE"};
	int64_t n = 0;
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		if (text_starts(PQcmdStatus(res), writes[i]) && int_parse(PQcmdTuples(res), &n))
			return n;
	return 0;
}

struct query {
	const char *sql;
	const struct store_param *params;
	int nparams;
	struct arena *arena;
	struct store_rows *rows;
};

static defib_err pg_run(struct pg *p, const struct pg_call *call, const struct query *q,
                        const struct prepared *slot, struct failure *f)
{
	struct pg_values v = pg_values_of(q->params, q->nparams);
	char name[STATEMENT_NAME];
	PGresult *res = NULL;
	int sent;
	if (slot) {
		statement_name(slot->id, name);
		sent = PQsendQueryPrepared(p->conn, name, q->nparams, v.texts, NULL, NULL, 0);
	} else {
		sent = PQsendQueryParams(p->conn, q->sql, q->nparams, NULL, v.texts, NULL, NULL, 0);
	}
	defib_err err = pg_finish(p, call, sent, &res, f);
	if (!err && q->rows) {
		pg_copy_rows(res, q->arena, q->rows);
		q->rows->affected = affected_by(res);
	}
	PQclear(res);
	pg_values_release(&v);
	return err;
}

static defib_err run_prepared(struct pg *p, const struct pg_call *call, const struct query *q,
                              struct failure *f)
{
	struct prepared *slot = prepared_find(&p->statements, q->sql);
	bool known = slot != NULL;
	defib_err err = known ? DEFIB_OK : pg_prepare(p, call->deadline_ms, q->sql, &slot, f);
	if (!err)
		err = pg_run(p, call, q, slot, f);
	if (!err || p->base.lost || !known || !pg_is_stale(f))
		return err;
	err = forget_stale(p, slot, f);
	return err ? err : run_prepared(p, call, q, f);
}

static defib_err pg_begin_transaction(struct pg *p, int64_t deadline_ms, enum store_tx mode,
                                      struct failure *f)
{
	struct pg_call call = {.deadline_ms = deadline_ms};
	AUTO_BUF sql = BUF_INIT;
	/* The level is stated because a role or database may have another default. */
	buf_addf(&sql, "BEGIN ISOLATION LEVEL %s",
	         tx_is_stable(mode) ? "REPEATABLE READ" : "READ COMMITTED");
	buf_add(&sql, mode == TX_READ || p->read_only ? " READ ONLY;" : ";");
	/* Writes name rows by key: a sequential scan for a batch costs ten times as much. */
	buf_add(&sql, mode != TX_READ ? "SET LOCAL enable_seqscan = off;" : "");
	/* A whole index must not be read for a list of keys either, however small it seems. */
	if (mode == TX_BULK || mode == TX_STABLE_BULK)
		buf_add(&sql, "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;");
	if (p->base.pooled)
		pg_settings(p, "SET LOCAL", &sql);
	if (p->base.within_ms && p->base.within_ms < p->statement_ms)
		buf_addf(&sql, "SET LOCAL statement_timeout = %lld;", (long long)p->base.within_ms);
	if (tx_is_stable(mode))
		buf_addf(&sql, "SET LOCAL lock_timeout = %lld;",
		         (long long)(p->lock_ms < BRIEF_MS ? p->lock_ms : BRIEF_MS));
	p->mode = mode;
	return pg_simple(p, &call, buf_text(&sql), f);
}

static defib_err commit(struct pg *p, const struct pg_call *call, struct failure *f)
{
	PGresult *res = NULL;
	defib_err err = pg_finish(p, call, PQsendQuery(p->conn, "COMMIT"), &res, f);
	/* In a failed transaction COMMIT is answered with ROLLBACK and no error. */
	if (!err && !text_eq(PQcmdStatus(res), "COMMIT")) {
		err = fail(f, DEFIB_DATABASE, "%s: the transaction had failed; nothing was committed",
		           p->base.name);
	}
	PQclear(res);
	return err;
}

static void rollback(struct pg *p)
{
	int64_t limit_ms = p->call_ms < ROLLBACK_MS ? p->call_ms : ROLLBACK_MS;
	struct pg_call call = {.deadline_ms = clock_boot_ms() + limit_ms};
	struct failure ignored = {0};
	if (p->conn && PQtransactionStatus(p->conn) != PQTRANS_IDLE &&
	    pg_simple(p, &call, "ROLLBACK", &ignored) != DEFIB_OK)
		pg_drop(p);
}

static defib_err pg_exec(struct store *s, const char *sql, const struct store_param *params,
                         int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct pg *p = pg_of(s);
	struct query q = {sql, params, nparams, a, rows};
	struct pg_call call = call_now(p, !s->in_tx && !p->read_only && !sql_only_reads(sql));
	if (!s->pooled)
		return run_prepared(p, &call, &q, f);
	if (s->in_tx)
		return pg_run(p, &call, &q, NULL, f);
	/* A single statement behind a pooler: in a transaction, so that our settings apply. */
	struct pg_call inside = {.deadline_ms = call.deadline_ms};
	defib_err err = pg_begin_transaction(p, call.deadline_ms, TX_WRITE, f);
	if (!err)
		err = pg_run(p, &inside, &q, NULL, f);
	if (!err)
		err = commit(p, &call, f);
	if (err)
		rollback(p);
	return err;
}

#ifdef LIBPQ_HAS_PIPELINING
static int send_both(struct pg *p, const struct query *q, const struct prepared *first,
                     const struct prepared *second)
{
	struct pg_values v = pg_values_of(q->params, q->nparams);
	char name[STATEMENT_NAME], then[STATEMENT_NAME];
	statement_name(first->id, name);
	statement_name(second->id, then);
	int sent = PQenterPipelineMode(p->conn) &&
	           PQsendQueryPrepared(p->conn, name, q->nparams, v.texts, NULL, NULL, 0) &&
	           PQpipelineSync(p->conn) &&
	           PQsendQueryPrepared(p->conn, then, 0, NULL, NULL, NULL, 0) &&
	           PQpipelineSync(p->conn);
	pg_values_release(&v);
	return sent;
}

/* Once both are prepared, they are sent together. */
static defib_err pg_exec_then(struct store *s, const char *sql, const struct store_param *params,
                              int nparams, const char *then, struct arena *a,
                              struct store_rows *rows, struct failure *f)
{
	struct pg *p = pg_of(s);
	struct query q = {sql, params, nparams, a, rows}, also = {.sql = then};
	struct pg_call call = call_now(p, !p->read_only && !sql_only_reads(sql));
	struct prepared *first = prepared_find(&p->statements, sql);
	struct prepared *second = prepared_find(&p->statements, then);
	struct failure ignored = {0};
	PGresult *res = NULL;
	if (!first || !second) {
		defib_err err = run_prepared(p, &call, &q, f);
		if (!err)
			(void)!run_prepared(p, &call, &also, &ignored);
		return err;
	}
	defib_err err = pg_finish_both(p, &call, send_both(p, &q, first, second), &res, f);
	if (!err && rows) {
		pg_copy_rows(res, a, rows);
		rows->affected = affected_by(res);
	}
	PQclear(res);
	if (!err || p->base.lost || !pg_is_stale(f))
		return err;
	err = forget_stale(p, first, f);
	return err ? err : pg_exec_then(s, sql, params, nparams, then, a, rows, f);
}
#endif

static defib_err pg_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	struct pg *p = pg_of(s);
	defib_err err = pg_begin_transaction(p, call_now(p, false).deadline_ms, mode, f);
	if (err)
		rollback(p);
	return err;
}

static defib_err pg_commit(struct store *s, struct failure *f)
{
	struct pg *p = pg_of(s);
	struct pg_call call = call_now(p, p->mode != TX_READ && !p->read_only);
	return commit(p, &call, f);
}

static void pg_rollback(struct store *s)
{
	rollback(pg_of(s));
}

static void pg_close(struct store *s)
{
	struct pg *p = pg_of(s);
	/* The socket does not block, so neither does closing the session. */
	PQfinish(p->conn);
	p->conn = NULL;
	pg_drop(p); /* the one that did not answer */
	for (int i = 0; i < PREPARED_MAX; i++)
		prepared_forget(&p->statements.slots[i]);
	free(p->name);
	free(p->own_path);
	free(p->path);
	free(p);
}

/* The server failed over, and this session is on the old primary. */
static bool pg_is_behind(struct store *s)
{
	return timeline_is_behind(&s->timeline);
}

static int pg_fd(struct store *s)
{
	struct pg *p = (struct pg *)s;
	return p->conn ? PQsocket(p->conn) : -1;
}

static bool pg_notified(struct store *s)
{
	struct pg *p = (struct pg *)s;
	bool any = false;
	s->payload_received = false;
	if (!p->conn)
		return false;
	if (!PQconsumeInput(p->conn)) {
		pg_drop(p);
		s->lost = true;
		return true;
	}
	for (PGnotify *n = PQnotifies(p->conn); n; n = PQnotifies(p->conn)) {
		s->payload_received = s->payload_received || n->extra[0] != '\0';
		any = true;
		PQfreemem(n);
	}
	return any;
}

/* ---- describing a statement ---- */

/*
 * The columns that a statement would return.
 *
 * The server parses it as an unnamed prepared statement and returns type numbers; one query on
 * pg_type turns them into names. For a column of a domain the server itself returns the base type.
 */

static const char types_sql[] =
	"SELECT pg_catalog.format_type(c.type, c.mod), t.typname"
	" FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS c(type, mod, place)"
	" JOIN pg_catalog.pg_type t ON t.oid = c.type ORDER BY c.place";

/* Names from the description itself; type numbers into two arrays. */
static void pg_read_columns(const PGresult *res, struct arena *a, struct store_column *cols,
                            struct relation *types)
{
	relation_init(types, STORE_POSTGRES);
	relation_column(types, "type", "oid");
	relation_column(types, "mod", "int4");
	for (int i = 0; i < PQnfields(res); i++) {
		cols[i].name = arena_strdup(a, PQfname(res, i));
		relation_int(types, PQftype(res, i));
		relation_int(types, PQfmod(res, i));
		relation_end_row(types);
	}
}

static defib_err name_types(struct pg *p, const struct pg_call *call, struct relation *types,
                            struct arena *a, struct store_column *cols, struct failure *f)
{
	struct store_param params[2];
	PGresult *res = NULL;
	relation_params(types, params);
	const char *values[] = {params[0].text, params[1].text};
	int sent = PQsendQueryParams(p->conn, types_sql, 2, NULL, values, NULL, NULL, 0);
	defib_err err = pg_finish(p, call, sent, &res, f);
	if (!err) {
		assert(PQntuples(res) == types->nrows);
		for (int i = 0; i < PQntuples(res); i++) {
			cols[i].type = arena_strdup(a, PQgetvalue(res, i, 0));
			cols[i].base = arena_strdup(a, PQgetvalue(res, i, 1));
		}
	}
	PQclear(res);
	return err;
}

static defib_err pg_describe_statement(struct pg *p, const struct pg_call *call, const char *sql,
                                       struct arena *a, struct store_column **cols, int *ncols,
                                       struct failure *f)
{
	PGresult *res = NULL;
	struct relation types;
	defib_err err = pg_finish(p, call, PQsendPrepare(p->conn, "", sql, 0, NULL), &res, f);
	PQclear(res);
	if (!err)
		err = pg_finish(p, call, PQsendDescribePrepared(p->conn, ""), &res, f);
	if (err)
		return err;
	*ncols = PQnfields(res);
	*cols = ARENA_ARRAY(a, struct store_column, *ncols);
	pg_read_columns(res, a, *cols, &types);
	PQclear(res);
	err = name_types(p, call, &types, a, *cols, f);
	relation_release(&types);
	return err;
}

static defib_err pg_describe(struct store *s, const char *sql, struct arena *a,
                             struct store_column **cols, int *ncols, struct failure *f)
{
	struct pg *p = (struct pg *)s;
	struct pg_call call = {.deadline_ms = clock_boot_ms() + p->call_ms};
	/* A pooler may use another backend for each step, unless a transaction binds them together. */
	if (!s->pooled || s->in_tx)
		return pg_describe_statement(p, &call, sql, a, cols, ncols, f);
	defib_err err = s->ops->begin(s, TX_READ, f);
	if (!err) {
		err = pg_describe_statement(p, &call, sql, a, cols, ncols, f);
		s->ops->rollback(s);
	}
	return err;
}

/* ---- opening ---- */

defib_err postgres_open(const struct store_options *opt, struct store **out, struct failure *f)
{
	static const struct store_ops ops = {
		.exec = pg_exec,
#ifdef LIBPQ_HAS_PIPELINING
		.exec_then = pg_exec_then,
#endif
		.describe = pg_describe,
		.begin = pg_begin,
		.commit = pg_commit,
		.rollback = pg_rollback,
		.close = pg_close,
		.is_behind = pg_is_behind,
		.fd = pg_fd,
		.notified = pg_notified,
	};
	struct pg *p = mem_alloc(sizeof(*p));
	p->name = mem_strdup(opt->name);
	p->base = (struct store){
		.ops = &ops, .engine = STORE_POSTGRES, .name = p->name, .lock_ms = opt->lock_ms};
	p->call_ms = opt->call_ms;
	p->statement_ms = opt->statement_ms;
	p->lock_ms = opt->lock_ms;
	p->read_only = opt->read_only;
	p->plan_once = opt->plan_once;
	p->keeps_locks = opt->keeps_locks;
	defib_err err = pg_connect(p, opt->url, opt->connect_ms, f);
	if (err) {
		pg_close(&p->base);
		return err;
	}
	*out = &p->base;
	return DEFIB_OK;
}
