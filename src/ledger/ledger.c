/* ledger.c: see ledger.h. */
#include "ledger/ledger.h"

#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "store/relation.h"

#include <assert.h>

/* Taken while ids are drawn; any fixed pair of numbers will do. */
#define LEDGER_LOCK "SELECT pg_advisory_xact_lock(1684366953, 1)"

static const char *const table_name[] = {
	[STORE_POSTGRES] = "defib.ledger", [STORE_SQLITE] = "defib_ledger"};
static const char *const hold_name[] = {
	[STORE_POSTGRES] = "defib.hold", [STORE_SQLITE] = "defib_hold"};

enum presence { PRESENT, MISSING, NOT_ALLOWED };

/* On PostgreSQL the catalogs tell what the role may do, without touching the tables. */
static defib_err look_for(struct store *s, struct arena *a, enum presence *out, struct failure *f)
{
	static const char *const queries[] = {
		[STORE_POSTGRES] =
			"SELECT bool_and(has_schema_privilege(n.oid, 'USAGE') AND "
			"has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')), "
			"count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
			"WHERE n.nspname = 'defib' AND c.relname IN ('ledger', 'hold')",
		[STORE_SQLITE] = "SELECT 1, count(*) FROM sqlite_master WHERE type = 'table' AND name IN "
						 "('defib_ledger', 'defib_hold')",
	};
	struct store_rows rows;
	defib_err err = store_exec(s, queries[s->engine], NULL, 0, a, &rows, f);
	if (err)
		return err;
	if (row_int(&rows, 0, 1, 0) < 2)
		*out = MISSING;
	else
		*out = row_bool(&rows, 0, 0) ? PRESENT : NOT_ALLOWED;
	return DEFIB_OK;
}

static void turn_off(struct ledger *l, const char *why)
{
	l->ready = false;
	snprintf(l->off_because, sizeof l->off_because, "%.255s", why);
}

defib_err ledger_open(struct store *s, bool create, struct ledger *out, struct failure *f)
{
	struct arena a = ARENA_INIT;
	enum presence presence = MISSING;
	*out = (struct ledger){0};
	defib_err err = look_for(s, &a, &presence, f);
	arena_release(&a);
	if (err)
		return err;
	if (presence == PRESENT) {
		out->ready = true;
	} else if (presence == NOT_ALLOWED) {
		turn_off(out, "the role may not write to defib.ledger; grant USAGE on schema defib and "
		              "SELECT, INSERT, UPDATE, DELETE on its tables");
	} else if (!create) {
		turn_off(out, "it is not there yet");
	} else {
		err = schema_install(s, SCHEMA_LEDGER, f);
		if (err == DEFIB_PERMISSION) {
			turn_off(out, f->what);
			fail_clear(f);
			return DEFIB_OK;
		}
		out->ready = out->made = !err;
	}
	return err;
}

/* Run a statement made of a head, the relation, and a tail. */
static defib_err run_over(struct store *s, struct relation *r, const char *head, const char *tail,
                          struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct buf sql = BUF_INIT;
	buf_add(&sql, head);
	relation_select(r, 1, &sql);
	buf_add(&sql, tail);
	relation_params(r, params);
	defib_err err = store_exec(s, buf_text(&sql), params, relation_nparams(r), a, rows, f);
	buf_release(&sql);
	return err;
}

defib_err ledger_append(struct store *s, const struct ledger_context *ctx,
                        const struct ledger_entry *entries, int n, struct arena *a,
                        struct failure *f)
{
	static const char *const heads[] = {
		[STORE_POSTGRES] =
			"INSERT INTO defib.ledger (id, watch, batch, actor, job, event, verdict, "
			"rule, reason, evidence, before, after) "
			"SELECT nextval('defib.ledger_id'), u.* FROM (",
		[STORE_SQLITE] =
			"INSERT INTO defib_ledger (watch, batch, actor, job, event, verdict, rule, "
			"reason, evidence, before, after) SELECT u.* FROM (",
	};
	static const char *const names[] = {"watch", "batch",  "actor",    "job",    "event", "verdict",
	                                    "rule",  "reason", "evidence", "before", "after"};
	struct relation r;
	defib_err err = DEFIB_OK;
	if (n == 0)
		return DEFIB_OK;
	relation_init(&r, s->engine);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], i < 8 ? "text" : "jsonb");
	for (int i = 0; i < n; i++) {
		const struct ledger_entry *e = &entries[i];
		const char *const values[] = {ctx->watch,  ctx->batch, ctx->actor, e->job,
		                              e->event,    e->verdict, e->rule,    e->reason,
		                              e->evidence, e->before,  e->after};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		relation_end_row(&r);
	}
	if (s->engine == STORE_POSTGRES)
		err = store_exec(s, LEDGER_LOCK, NULL, 0, a, NULL, f);
	if (!err)
		err = run_over(s, &r, heads[s->engine], ") AS u", a, NULL, f);
	relation_release(&r);
	return err;
}

defib_err ledger_has_batch(struct store *s, const char *batch, struct arena *a, bool *found,
                           struct failure *f)
{
	static const char *const queries[] = {
		[STORE_POSTGRES] = "SELECT 1 FROM defib.ledger WHERE batch = $1 LIMIT 1",
		[STORE_SQLITE] = "SELECT 1 FROM defib_ledger WHERE batch = ?1 LIMIT 1",
	};
	struct store_rows rows;
	struct store_param param = P_TEXT(batch);
	defib_err err = store_exec(s, queries[s->engine], &param, 1, a, &rows, f);
	if (!err)
		*found = rows.nrows > 0;
	return err;
}

static void jobs_relation(struct relation *r, enum store_engine engine, const char *watch,
                          const char *const *jobs, int n)
{
	relation_init(r, engine);
	relation_column(r, "watch", "text");
	relation_column(r, "job", "text");
	for (int i = 0; i < n; i++) {
		relation_text(r, watch);
		relation_text(r, jobs[i]);
		relation_end_row(r);
	}
}

static defib_err read_recoveries(struct store *s, struct relation *r, int64_t within_us,
                                 const struct job_index *x, struct arena *a,
                                 struct history *history, struct failure *f)
{
	struct store_rows rows;
	struct buf head = BUF_INIT;
	/* A count for each job by the index: a join would read a large ledger through. */
	buf_addf(&head,
	         "SELECT u.job, (SELECT count(*) FROM %s AS l WHERE l.watch = u.watch AND "
	         "l.job = u.job AND l.event IN ('REQUEUED', 'RETRY_SCHEDULED') AND ",
	         table_name[s->engine]);
	if (s->engine == STORE_POSTGRES)
		buf_addf(&head, "l.at > statement_timestamp() - interval '%lld seconds') FROM (",
		         (long long)(within_us / 1000000));
	else
		buf_addf(&head, "julianday(l.at) > julianday('now') - %lld / 86400.0) FROM (",
		         (long long)(within_us / 1000000));
	defib_err err = run_over(s, r, buf_text(&head), ") AS u", a, &rows, f);
	buf_release(&head);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int at = job_index_find(x, row_text(&rows, i, 0));
		if (at >= 0)
			history[at].recoveries = row_int(&rows, i, 1, 0);
	}
	return err;
}

static defib_err read_holds(struct store *s, struct relation *r, const struct job_index *x,
                            struct arena *a, struct history *history, struct failure *f)
{
	struct store_rows rows;
	struct buf tail = BUF_INIT;
	buf_addf(&tail, ") AS u JOIN %s AS h ON h.watch = u.watch AND h.job = u.job",
	         hold_name[s->engine]);
	defib_err err =
		run_over(s, r, "SELECT h.job, h.owner, h.sign_us FROM (", buf_text(&tail), a, &rows, f);
	buf_release(&tail);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int at = job_index_find(x, row_text(&rows, i, 0));
		if (at < 0)
			continue;
		history[at].held = true;
		history[at].hold_owner = row_text(&rows, i, 1);
		history[at].hold_has_sign = row_text(&rows, i, 2) != NULL;
		history[at].hold_sign_us = row_int(&rows, i, 2, 0);
	}
	return err;
}

defib_err ledger_history(struct store *s, const char *watch, const char *const *jobs, int n,
                         int64_t within_us, struct arena *a, struct history *history,
                         struct failure *f)
{
	struct job_index index;
	struct relation r;
	memset(history, 0, sizeof *history * (size_t)n);
	if (n == 0)
		return DEFIB_OK;
	job_index_init(&index, jobs, n, a);
	jobs_relation(&r, s->engine, watch, jobs, n);
	defib_err err = read_recoveries(s, &r, within_us, &index, a, history, f);
	relation_release(&r);
	if (err)
		return err;
	jobs_relation(&r, s->engine, watch, jobs, n);
	err = read_holds(s, &r, &index, a, history, f);
	relation_release(&r);
	return err;
}

defib_err ledger_hold(struct store *s, const struct ledger_context *ctx, const struct hold *holds,
                      int n, struct arena *a, struct failure *f)
{
	static const char *const names[] = {"watch", "batch", "job", "cause", "reason", "owner"};
	struct relation r;
	struct buf head = BUF_INIT;
	if (n == 0)
		return DEFIB_OK;
	relation_init(&r, s->engine);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], "text");
	relation_column(&r, "sign_us", "bigint");
	for (int i = 0; i < n; i++) {
		const struct hold *h = &holds[i];
		const char *const values[] = {ctx->watch, ctx->batch, h->job,
		                              h->cause,   h->reason,  h->owner};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		if (h->has_sign)
			relation_int(&r, h->sign_us);
		else
			relation_text(&r, NULL);
		relation_end_row(&r);
	}
	buf_addf(&head,
	         "INSERT INTO %s (watch, batch, job, cause, reason, owner, sign_us) SELECT u.* FROM (",
	         hold_name[s->engine]);
	/* SQLite needs a WHERE to tell ON CONFLICT from a join. */
	defib_err err =
		run_over(s, &r, buf_text(&head),
	             ") AS u WHERE true ON CONFLICT (watch, job) DO UPDATE SET "
	             "batch = excluded.batch, cause = excluded.cause, reason = excluded.reason, "
	             "owner = excluded.owner, sign_us = excluded.sign_us, at = excluded.at",
	             a, NULL, f);
	buf_release(&head);
	relation_release(&r);
	return err;
}
