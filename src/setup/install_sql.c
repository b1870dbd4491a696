/* SPDX-License-Identifier: Apache-2.0
 * install_sql.c: see install_sql.h.
 *
 * The jobs of a batch pass through the function as one JSON array, and into each statement as
 * arrays of text, one per column, as apply.c sends them. Statements run by EXECUTE: so they look as
 * `defib sql` prints them, and no name in a user's table can conflict with a variable of the
 * function.
 */
#include "setup/install_sql.h"

#include "ledger/events.h"
#include "recover/apply.h"
#include "recover/decide.h"
#include "store/dialect.h"
#include "watch/lease_sql.h"

#include <assert.h>

#define NAME_PREFIX "recover_"
#define BARRED "DFBAR"    /* the SQLSTATE with which a batch is repeated without some jobs */
#define NAME_MAX_BYTES 63 /* PostgreSQL truncates longer names, and two could become one */

static bool may_do(const struct watch *w, enum remedy remedy)
{
	bool found = w->nrules == 0 && (remedy == REMEDY_REQUEUE || remedy == REMEDY_HOLD) &&
	             w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	for (int i = 0; i < w->nrules; i++)
		found = found || w->rules[i].remedy == remedy ||
		        (w->rules[i].remedy == REMEDY_HOLD && remedy == decide_released(w));
	return found;
}

defib_err install_refusal(const struct watch *w, struct failure *f)
{
	static const char daemon[] = "leave it to defib scan --fix";
	const struct {
		bool holds;
		const char *why, *next;
	} refusals[] = {
		{w->beat_us > 0,
	     "its owners send heartbeats: silence needs two looks and the brake, and a function looks "
	     "once",
	     daemon},
		{w->owner_alive.text, "owner_alive needs more than age", daemon},
		{may_do(w, REMEDY_RETRY) && w->actions[ACT_THEN].form != ACTION_NONE,
	     "retry has a second part (then:) that must run when the wait is over", daemon},
		{may_do(w, REMEDY_ROLLBACK), "a rollback is run by a worker, not by the database", daemon},
		{strlen(NAME_PREFIX) + strlen(w->name) > NAME_MAX_BYTES,
	     "its name is too long for the name of a function", "use a name of at most 55 bytes"},
	};
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		if (refusals[i].holds) {
			fail(f, DEFIB_REFUSED, "watch %s cannot be recovered inside the database: %s", w->name,
			     refusals[i].why);
			fail_next(f, "%s", refusals[i].next);
			return DEFIB_REFUSED;
		}
	return DEFIB_OK;
}

void install_name(const struct watch *w, struct buf *out)
{
	AUTO_BUF name = BUF_INIT;
	buf_addf(&name, NAME_PREFIX "%s", w->name);
	buf_add(out, "defib.");
	sql_ident(out, buf_text(&name));
}

/* Text between dollar quotes with a tag that does not occur in it. */
static void add_quoted(const char *word, const char *text, struct buf *out)
{
	char tag[32];
	snprintf(tag, sizeof tag, "$%s", word);
	for (int i = 2; strstr(text, tag); i++)
		snprintf(tag, sizeof tag, "$%s%d", word, i);
	buf_addf(out, "%s$\n%s\n%s$", tag, text, tag);
}

/* A column of the jobs in a variable, as an array. */
static void add_array(const char *jobs, const char *field, struct buf *out)
{
	buf_addf(out, "\n\t\t\t\tARRAY(SELECT e ->> '%s' FROM jsonb_array_elements(%s) AS e)", field,
	         jobs);
}

static void add_keys(const struct watch *w, const char *jobs, struct buf *out)
{
	for (int k = 0; k < w->key.n; k++) {
		char field[24];
		snprintf(field, sizeof field, "defib_k%d", k + 1);
		buf_add(out, k ? "," : "");
		add_array(jobs, field, out);
	}
}

/* The values of a write, in the order of write_relation(). */
static void add_values(const struct watch *watch, const struct write_sql *w, const char *jobs,
                       struct buf *out)
{
	static const char *const fields[STUCK_COUNT] = {
		[STUCK_OWNER] = "owner",       [STUCK_KIND] = "kind",         [STUCK_ATTEMPT] = "attempt",
		[STUCK_ALIVE_AT] = "alive_us", [STUCK_VERDICT] = "verdict",   [STUCK_REASON] = "reason",
		[STUCK_RETRY_AT] = "retry_us", [STUCK_EVIDENCE] = "evidence", [STUCK_NOW] = "now_us",
		[STUCK_STEP] = "step", /* null: no operator chose one */
	};
	add_keys(watch, jobs, out);
	for (int i = 0; i < STUCK_COUNT; i++)
		if (w->uses[i]) {
			buf_add(out, ",");
			add_array(jobs, fields[i], out);
		}
}

/* (defib_k1, …) and more columns after the key. */
static void add_columns(const struct watch *w, const char *name, int n, struct buf *out)
{
	buf_add(out, "(");
	for (int k = 0; k < w->key.n; k++)
		buf_addf(out, "%sdefib_k%d", k ? ", " : "", k + 1);
	for (int i = 0; i < n; i++)
		buf_addf(out, ", %s_%d", name, i + 1);
	buf_add(out, ")");
}

static void add_look(const struct watch_sql *q, struct buf *out)
{
	AUTO_BUF sql = BUF_INIT;
	int64_t limit = q->binding->watch->batch;
	if (q->binding->watch->limit && q->binding->watch->limit < limit)
		limit = q->binding->watch->limit;
	sql_decided(q, &sql);
	buf_add(out, "\t-- look, oldest first; judge and decide\n\tEXECUTE ");
	add_quoted("sql", buf_text(&sql), out);
	buf_addf(out, "\n\tINTO stuck USING NULL::bigint, greatest(coalesce(max, %lld), 0), %lld;\n",
	         (long long)limit, (long long)q->binding->watch->crash_budget.within_us);
	buf_addf(out,
	         "\t-- what is only reported is noted once, and not locked\n"
	         "\tdone := (SELECT jsonb_agg(e || jsonb_build_object('remedy', NULL, 'after',\n"
	         "\t\t\tjsonb_build_object('owner', e -> 'owner', 'sign_us', e -> 'sign_us')))\n"
	         "\t\tFROM jsonb_array_elements(stuck) AS e WHERE e ->> 'remedy' = '%s');\n"
	         "\tdone := coalesce(done, '[]');\n"
	         "\tstuck := (SELECT jsonb_agg(e) FROM jsonb_array_elements(stuck) AS e\n"
	         "\t\tWHERE e ->> 'remedy' <> '%s');\n",
	         remedy_names[REMEDY_REPORT], remedy_names[REMEDY_REPORT]);
}

/* Rows that another transaction holds are left alone, even if it only holds their sign of life. */
static void add_lock(const struct watch_sql *q, const struct install_options *o, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	bool signs = o->lock_signs && q->lock_signs;
	const char *lock = signs            ? q->lock_signs
	                   : q->lock_states ? q->lock_states
	                   : q->lock_leases ? q->lock_leases
	                                    : q->lock;
	int nbusy = signs            ? q->nbusy
	            : q->lock_states ? q->nbusy_states
	            : q->lock_leases ? LEASE_ROWS
	                             : 0;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT coalesce(jsonb_object_agg(");
	sql_job_text(q->binding, JOB_OF_RELATION, &sql);
	buf_addf(&sql, ", true), '{}') FROM (\n%s\n) AS defib_s", lock);
	add_columns(w, "busy", nbusy, &sql);
	for (int i = 0; i < nbusy; i++)
		buf_addf(&sql, "%s busy_%d", i ? " AND NOT" : "\nWHERE NOT", i + 1);
	buf_add(out, "\t\t\t-- lock the rows, skip what others hold\n\t\t\tEXECUTE ");
	add_quoted("sql", buf_text(&sql), out);
	buf_add(out, "\n\t\t\tINTO locked USING");
	add_keys(w, "part", out);
	buf_add(out, ";\n");
}

/*
 * As read_again() in apply.c: rows that are gone or differ have changed, rows that others hold are
 * left alone.
 */
static void add_reread(const struct watch_sql *q, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT coalesce(jsonb_object_agg(job, jsonb_build_object('before', before,\n"
	              "  'rows', rows, 'same', running AND facts = ");
	buf_addf(&sql,
	         "$%d -> job)), '{}')\nFROM (SELECT *, count(*) OVER (PARTITION BY job) AS rows "
	         "FROM (\n",
	         w->key.n + 1);
	sql_facts(q, q->reread, &sql);
	buf_add(&sql, ") AS f) AS f");
	buf_add(out,
	        "\t\t\t-- read the judged facts again; what differs is left alone\n\t\t\tEXECUTE ");
	add_quoted("sql", buf_text(&sql), out);
	buf_add(out, "\n\t\t\tINTO again USING");
	add_keys(w, "part", out);
	buf_add(out,
	        ",\n\t\t\t\t(SELECT jsonb_object_agg(e ->> 'job', e -> 'facts') "
	        "FROM jsonb_array_elements(part) AS e);\n"
	        "\t\t\tbarred := barred || coalesce((SELECT jsonb_object_agg(key, '" REFUSED_SHARED_KEY
	        "')\n"
	        "\t\t\t\tFROM jsonb_each(again) WHERE value ->> 'rows' <> '1'), '{}');\n"
	        "\t\t\tchanged := (SELECT jsonb_agg(e || '{\"remedy\": null, \"events\": "
	        "[\"" ENTRY_CHANGED_MEANWHILE "\"]}')\n"
	        "\t\t\t\tFROM jsonb_array_elements(part) AS e\n"
	        "\t\t\t\tWHERE NOT barred ? (e ->> 'job') AND (NOT again ? (e ->> 'job')\n"
	        "\t\t\t\t\tOR locked ? (e ->> 'job') AND again -> (e ->> 'job') -> 'same' <> "
	        "'true'));\n"
	        "\t\t\tpart := (SELECT jsonb_agg(e || jsonb_build_object('before',\n"
	        "\t\t\t\t\tagain -> (e ->> 'job') -> 'before'))\n"
	        "\t\t\t\tFROM jsonb_array_elements(part) AS e\n"
	        "\t\t\t\tWHERE NOT barred ? (e ->> 'job') AND locked ? (e ->> 'job')\n"
	        "\t\t\t\t\tAND again -> (e ->> 'job') -> 'same' = 'true');\n");
}

/* As bar_held() in apply_ledger.c: a hold that was set since the look is respected. */
static void add_held_since(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	AUTO_BUF name = BUF_INIT;
	sql_literal(&name, w->name);
	struct hold_sql hold = {"h", "e ->> 'owner'", "(e ->> 'sign_us')::bigint",
	                        .in_words = watch_writes_hold(w), .watch = buf_text(&name)};
	buf_add(out, "\t\t\t-- what was put on hold since the look is left alone\n"
	             "\t\t\theld := (SELECT jsonb_agg(e || '{\"remedy\": null, \"events\": "
	             "[\"" ENTRY_CHANGED_MEANWHILE "\"]}')\n"
	             "\t\t\t\tFROM jsonb_array_elements(part) AS e\n"
	             "\t\t\t\tWHERE e ->> 'remedy' <> 'hold' AND EXISTS (SELECT FROM defib.hold AS h\n"
	             "\t\t\t\t\tWHERE h.table_key = ");
	sql_literal(out, b->table_key);
	buf_add(out, " AND h.job = e ->> 'job'\n\t\t\t\t\tAND ");
	hold_in_force_sql(dialect_of(b->engine), &hold, out);
	buf_add(out, "));\n"
	             "\t\t\tIF held IS NOT NULL THEN\n"
	             "\t\t\t\tchanged := coalesce(changed, '[]') || held;\n"
	             "\t\t\t\tpart := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e\n"
	             "\t\t\t\t\tWHERE NOT EXISTS (SELECT FROM jsonb_array_elements(held) AS x\n"
	             "\t\t\t\t\t\tWHERE x ->> 'job' = e ->> 'job'));\n"
	             "\t\t\tEND IF;\n");
}

static void begin_some(const char *condition, struct buf *out)
{
	buf_addf(out,
	         "\t\t\tthese := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e%s%s);\n"
	         "\t\t\tIF these IS NOT NULL THEN\n\t\t\tEXECUTE ",
	         condition ? " WHERE " : "", condition ? condition : "");
}

/* As bar() in apply.c: the writes are rolled back to the savepoint, and repeated without them. */
static void add_bar(const char *bad, struct buf *out)
{
	buf_addf(out,
	         "\t\t\t\tbarred := barred || coalesce(%s, '{}');\n"
	         "\t\t\t\tRAISE EXCEPTION 'a write changed a row that was not to be changed'\n"
	         "\t\t\t\t\tUSING ERRCODE = CASE WHEN %s IS NULL THEN 'P0001' ELSE '" BARRED "' END;\n",
	         bad, bad);
}

/* As note_written() in apply.c. */
static void add_update(const struct watch_sql *q, const struct write_sql *w, const char *is,
                       struct buf *out)
{
	const struct watch *watch = q->binding->watch;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "WITH defib_s");
	add_columns(watch, "left", w->tells ? 2 : 0, &sql);
	buf_addf(&sql, " AS (\n%s\n)\nSELECT coalesce(jsonb_object_agg(job, n), '{}') FROM (SELECT ",
	         w->sql);
	sql_job_text(q->binding, JOB_OF_RELATION, &sql);
	buf_add(&sql, " AS job, count(*) AS n FROM defib_s GROUP BY 1) AS w");
	begin_some(is, out);
	add_quoted("sql", buf_text(&sql), out);
	buf_add(out, "\n\t\t\tINTO written USING");
	add_values(watch, w, "these", out);
	buf_add(
		out,
		";\n\t\t\tIF EXISTS (SELECT FROM jsonb_each_text(written) WHERE value <> '1' OR NOT EXISTS "
		"(\n\t\t\t\tSELECT FROM jsonb_array_elements(these) AS e WHERE e ->> 'job' = key)) THEN\n"
		"\t\t\t\tbad := (SELECT jsonb_object_agg(e ->> 'job', CASE WHEN written ? (e ->> 'job')\n"
		"\t\t\t\t\tTHEN '" REFUSED_SHARED_KEY "' ELSE '" REFUSED_KEY_WRITTEN "' END)\n"
		"\t\t\t\t\tFROM jsonb_array_elements(these) AS e\n"
		"\t\t\t\t\tWHERE coalesce(written ->> (e ->> 'job'), '0') <> '1');\n");
	add_bar("bad", out);
	buf_addf(out,
	         "\t\t\tEND IF;\n\t\t\t-- what it did not return was kept back by a trigger or policy\n"
	         "\t\t\tpart := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e\n"
	         "\t\t\t\tWHERE NOT %s OR written ? (e ->> 'job'));\n\t\t\tEND IF;\n",
	         is);
}

static void add_write(const struct watch_sql *q, const struct write_sql *w, const char *is,
                      struct buf *out)
{
	if (w->returns) {
		add_update(q, w, is, out);
		return;
	}
	begin_some(is, out);
	add_quoted("sql", w->sql, out);
	buf_add(out, "\n\t\t\tUSING");
	add_values(q->binding->watch, w, "these", out);
	buf_add(out, ";\n\t\t\tEND IF;\n");
}

static void add_writes(const struct watch_sql *q, struct buf *out)
{
	for (int r = 0; r < REMEDY_COUNT; r++) {
		char is[48];
		bool possible =
			r == REMEDY_HOLD || may_do(q->binding->watch, (enum remedy)r); /* hold: by poison */
		snprintf(is, sizeof is, "(e ->> 'remedy' = '%s')", remedy_names[r]);
		if (possible && q->nwrites[r])
			buf_addf(out, "\t\t\t-- %s\n", remedy_names[r]);
		for (int i = 0; possible && i < q->nwrites[r]; i++)
			add_write(q, &q->writes[r][i], is, out);
	}
}

/* ('a', 'b'): the remedies that write to the table, or only those that use a SET list. */
static void add_remedies(const struct watch_sql *q, bool by_list, struct buf *out)
{
	buf_add(out, "(''");
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (q->nwrites[r] > 0 && (!by_list || q->writes[r][0].returns))
			buf_addf(out, ", '%s'", remedy_names[r]);
	buf_add(out, ")");
}

/* As check_written() in apply.c: rows that a remedy leaves running are not recovered. */
static void add_still_running(const struct watch_sql *q, struct buf *out)
{
	buf_add(out, "\t\t\tbad := (SELECT jsonb_object_agg(e ->> 'job', (e ->> 'remedy') ||\n"
	             "\t\t\t\t\t'" REFUSED_RUNS_ON "')\n"
	             "\t\t\t\tFROM jsonb_array_elements(part) AS e WHERE e ->> 'remedy' IN ");
	add_remedies(q, false, out);
	buf_add(out, "\n\t\t\t\tAND written -> (e ->> 'job') ->> 'running' = 'true'");
	if (q->binding->watch->stays_running)
		buf_addf(out,
		         "\n\t\t\t\tAND (e ->> 'remedy' NOT IN ('%s', '%s')\n"
		         "\t\t\t\t\tOR written -> (e ->> 'job') ->> 'stuck' = 'true')",
		         remedy_names[REMEDY_REQUEUE], remedy_names[REMEDY_RETRY]);
	buf_add(out, ");\n\t\t\tIF bad IS NOT NULL THEN\n");
	add_bar("bad", out);
	buf_add(out, "\t\t\tEND IF;\n");
}

/* The rows after the writes: what the ledger keeps, and what identifies a hold in the table. */
static void add_left(const struct watch_sql *q, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	AUTO_BUF sql = BUF_INIT;
	buf_addf(
		&sql,
		"SELECT coalesce(jsonb_object_agg(job, jsonb_build_object('owner', owner, 'sign_us', "
		"%s,\n  'after', before, 'running', running, 'stuck', law IS NOT NULL)), '{}') FROM (\n",
		sql_sign_name(w));
	sql_judged(q, q->reread, &sql);
	buf_add(&sql, ") AS f");
	buf_add(out, "\t\t\t-- what the writes left\n");
	begin_some(NULL, out);
	add_quoted("sql", buf_text(&sql), out);
	buf_add(out, "\n\t\t\tINTO written USING");
	add_keys(w, "these", out);
	buf_add(out, ";\n");
	add_still_running(q, out);
	buf_add(out, "\t\t\tpart := (SELECT jsonb_agg(e || CASE WHEN e ->> 'remedy' IN ");
	add_remedies(q, true, out);
	buf_add(out,
	        " THEN\n\t\t\t\t\tjsonb_build_object('after', written -> (e ->> 'job') -> 'after') "
	        "ELSE '{}' END");
	if (watch_writes_hold(w))
		buf_add(out, "\n\t\t\t\t\t|| CASE WHEN e ->> 'remedy' = 'hold' THEN jsonb_build_object(\n"
		             "\t\t\t\t\t'left', written -> (e ->> 'job')) ELSE '{}' END");
	buf_add(out, ")\n\t\t\t\tFROM jsonb_array_elements(part) AS e);\n\t\t\tEND IF;\n");
}

/* A job that is held only in defib's table stays with its worker: its row did not change. */
static void add_leases(const struct watch_sql *q, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	bool untouched = !watch_writes_hold(w);
	if (!q->free_leases)
		return;
	buf_add(out, "\t\t\t-- end the leases that defib's own workers had on them\n");
	begin_some(untouched ? "e ->> 'remedy' <> 'hold'" : NULL, out);
	add_quoted("sql", q->free_leases, out);
	buf_add(out, "\n\t\t\tUSING");
	add_keys(w, "these", out);
	buf_add(out, ";\n\t\t\tEND IF;\n");
}

/*
 * One bad row must not block the others: a batch that fails because of its rows is rolled back to
 * its savepoint and halved, as in scan.c.
 */
static void add_apply(const struct watch_sql *q, const struct install_options *o, struct buf *out)
{
	buf_add(out,
	        "\tbarred := coalesce((SELECT jsonb_object_agg(job, '" REFUSED_SHARED_KEY "') FROM (\n"
	        "\t\tSELECT e ->> 'job' AS job FROM jsonb_array_elements(stuck) AS e\n"
	        "\t\tGROUP BY 1 HAVING count(*) > 1) AS twins), '{}');\n"
	        "\tsize := coalesce(jsonb_array_length(stuck), 0);\n"
	        "\tWHILE start < coalesce(jsonb_array_length(stuck), 0) LOOP\n"
	        "\t\tBEGIN\n"
	        "\t\t\tpart := (SELECT jsonb_agg(e ORDER BY n) FROM jsonb_array_elements(stuck)\n"
	        "\t\t\t\tWITH ORDINALITY AS x(e, n) WHERE n > start AND n <= start + size\n"
	        "\t\t\t\tAND NOT barred ? (e ->> 'job'));\n");
	add_lock(q, o, out);
	add_reread(q, out);
	add_held_since(q->binding, out);
	add_writes(q, out);
	add_leases(q, out);
	add_left(q, out);
	buf_add(out,
	        "\t\t\tdone := done || coalesce(changed, '[]') || coalesce(part, '[]');\n"
	        "\t\t\tstart := start + size;\n"
	        "\t\t\tsize := size * 2;\n"
	        "\t\tEXCEPTION WHEN SQLSTATE '" BARRED "' THEN\n"
	        "\t\t\tNULL; -- again, without those\n"
	        "\t\tWHEN integrity_constraint_violation OR data_exception\n"
	        "\t\t\t\tOR with_check_option_violation OR plpgsql_error THEN\n"
	        "\t\t\tIF size > 1 THEN\n"
	        "\t\t\t\tsize := size / 2;\n"
	        "\t\t\tELSE\n"
	        "\t\t\t\tbarred := barred || jsonb_build_object(stuck -> start ->> 'job', SQLERRM);\n"
	        "\t\t\t\tstart := start + 1;\n"
	        "\t\t\tEND IF;\n"
	        "\t\tEND;\n"
	        "\tEND LOOP;\n"
	        "\tFOR refused IN SELECT key AS job, value AS why FROM jsonb_each_text(barred) LOOP\n"
	        "\t\tRAISE WARNING 'defib: job % was refused: %', refused.job, refused.why;\n"
	        "\tEND LOOP;\n");
}

static void add_holds(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	bool words = watch_writes_hold(w);
	const char *as = words ? "e -> 'left'" : "e";
	buf_addf(out,
	         "\t-- %s\n"
	         "\tINSERT INTO defib.hold (table_key, watch, batch, job, cause, reason, owner, "
	         "sign_us)\n"
	         "\tSELECT ",
	         words ? "holds, by how the rows are left" : "holds that the table cannot express");
	sql_literal(out, b->table_key);
	buf_add(out, ", ");
	sql_literal(out, w->name);
	buf_addf(out,
	         ", this_batch, e ->> 'job', e ->> 'cause', e ->> 'reason', %s ->> 'owner',\n"
	         "\t\t(%s ->> 'sign_us')::bigint\n"
	         "\tFROM jsonb_array_elements(done) AS e WHERE e ->> 'remedy' = 'hold'%s\n"
	         "\tON CONFLICT (table_key, job) DO UPDATE SET watch = excluded.watch, batch = "
	         "excluded.batch, cause = "
	         "excluded.cause,\n\t\treason = excluded.reason, owner = excluded.owner, sign_us = "
	         "excluded.sign_us, at = excluded.at;\n",
	         as, as, words ? " AND e -> 'left' <> 'null'" : "");
}

/* As with_also() in apply_ledger.c. */
static void add_also(const struct watch *w, struct buf *out)
{
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (watch_also(w, r))
			buf_addf(
				out,
				"\n\t\t\t|| CASE WHEN last AND e ->> 'remedy' = '%s' THEN jsonb '{\"also\": true}' "
				"ELSE '{}' END",
				remedy_names[r]);
}

static void add_ledger(const struct watch *w, struct buf *out)
{
	buf_add(out, "\t-- ledger last: its ids are drawn under the lock, so that readers miss none\n"
	             "\tPERFORM true FROM defib.ledger_order FOR UPDATE;\n"
	             "\tINSERT INTO defib.ledger (id, watch, batch, actor, job, event, verdict, rule,\n"
	             "\t\treason, evidence, epoch, before, after)\n"
	             "\tSELECT nextval('defib.ledger_id'), ");
	sql_literal(out, w->name);
	buf_add(out,
	        ", this_batch, 'database:' || current_user, u.*\n"
	        "\tFROM (SELECT e ->> 'job', s.event, e ->> 'verdict', e ->> 'rule', e ->> 'reason',\n"
	        "\t\t\te -> 'evidence'");
	add_also(w, out);
	buf_add(out,
	        ", (e ->> 'epoch')::bigint,\n"
	        "\t\t\tCASE WHEN last THEN nullif(e -> 'before', 'null') END,\n"
	        "\t\t\tCASE WHEN last THEN nullif(e -> 'after', 'null') END\n"
	        "\t\tFROM jsonb_array_elements(done) WITH ORDINALITY AS x(e, n),\n"
	        "\t\t\tLATERAL (SELECT y.event, y.k, y.k = jsonb_array_length(e -> 'events') AS last\n"
	        "\t\t\t\tFROM jsonb_array_elements_text(e -> 'events') WITH ORDINALITY AS y(event, k)) "
	        "AS s\n"
	        "\t\tORDER BY n, k) AS u;\n");
}

/* As report_unreadable() in scan.c. */
static void add_unreadable(const struct watch_sql *q, struct buf *out)
{
	AUTO_BUF sql = BUF_INIT;
	if (!q->unreadable)
		return;
	buf_addf(&sql, "SELECT count(*) FROM (\n%s\n) AS defib_s", q->unreadable);
	buf_add(out, "\tEXECUTE ");
	add_quoted("sql", buf_text(&sql), out);
	buf_addf(out,
	         " INTO size;\n\tIF size > 0 THEN\n"
	         "\t\tRAISE WARNING 'defib: %% running rows have a sign of life that is no time', "
	         "size || CASE WHEN size = %d THEN ' or more' ELSE '' END;\n\tEND IF;\n",
	         UNREADABLE_MAX);
}

static void add_body(const struct watch_sql *q, const struct install_options *o, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	buf_add(out,
	        "DECLARE\n"
	        "\tstuck jsonb; -- the jobs to act upon, as look saw them\n"
	        "\tpart jsonb; -- those under way\n"
	        "\tthese jsonb; -- those of one remedy\n"
	        "\tlocked jsonb;\n"
	        "\tagain jsonb; -- the second reading\n"
	        "\tchanged jsonb;\n"
	        "\theld jsonb; -- since the look\n"
	        "\twritten jsonb;\n"
	        "\tbarred jsonb; -- jobs that are refused, and why\n"
	        "\tbad jsonb;\n"
	        "\trefused record;\n"
	        "\tdone jsonb; -- what the ledger is to say\n"
	        "\tstart integer := 0;\n"
	        "\tsize integer;\n"
	        "\tthis_batch text := to_char(clock_timestamp(), 'YYYYMMDD-HH24MISS') || '-'\n"
	        "\t\t|| left(gen_random_uuid()::text, 8) || '.1';\n"
	        "BEGIN\n"
	        "\t-- In READ COMMITTED each statement sees what was committed before it; else none "
	        "could\n\t-- find out that a row has changed.\n"
	        "\tIF current_setting('transaction_isolation') <> 'read committed' THEN\n"
	        "\t\tRAISE EXCEPTION 'recovery needs the isolation level READ COMMITTED';\n"
	        "\tEND IF;\n");
	add_unreadable(q, out);
	add_look(q, out);
	add_apply(q, o, out);
	buf_add(out, "\tIF done = '[]' THEN\n\t\tRETURN 0;\n\tEND IF;\n");
	add_holds(q->binding, out);
	add_ledger(w, out);
	buf_add(out, "\tRETURN (SELECT count(*) FROM jsonb_array_elements(done) AS e "
	             "WHERE e ->> 'remedy' <> 'hold');\n"
	             "END;");
}

void install_function(const struct watch_sql *q, const struct install_options *o, struct buf *out)
{
	AUTO_BUF body = BUF_INIT;
	assert(dialect_of(q->binding->engine)->can_install && o->search_path);
	add_body(q, o, &body);
	buf_add(out, "CREATE OR REPLACE FUNCTION ");
	install_name(q->binding->watch, out);
	/* As in defib's own sessions: times and keys must have the same text there and here. */
	buf_addf(out,
	         "(max integer DEFAULT NULL) RETURNS integer\nLANGUAGE plpgsql\n"
	         "SET search_path = pg_catalog, %s%spg_temp\n"
	         "SET TimeZone = 'UTC'\n"
	         "SET DateStyle = 'ISO'\n"
	         "SET IntervalStyle = 'iso_8601'\n"
	         "SET bytea_output = 'hex'\n"
	         "SET jit = off\n"
	         "SET lock_timeout = '2s'\n"
	         "AS ",
	         o->search_path, o->search_path[0] ? ", " : "");
	add_quoted("defib", buf_text(&body), out);
}
