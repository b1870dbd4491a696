/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/lease_sql.h"

#include "embedded.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/compile.h"
#include "watch/timesql.h"

#include <assert.h>

defib_err leases_there(struct store *s, bool *there, struct failure *f)
{
	bool workers = false;
	defib_err err = dialect_own_table(s, "lease", there, f);
	if (!err && *there)
		err = dialect_own_table(s, "worker", &workers, f);
	*there = *there && workers;
	return err;
}

/* format() uses a type's own output function, and no user-defined cast. */
static void key_text(const struct binding *b, enum job_of of, int k, bool foreign, struct buf *out)
{
	bool typed = dialect_of(b->engine)->has_types;
	buf_add(out, foreign ? "format('%s', " : typed ? "" : "CAST(");
	if (of == JOB_OF_ROW) {
		buf_add(out, "t.");
		sql_ident(out, b->watch->key.items[k]);
	} else {
		buf_addf(out, "defib_s.defib_k%d", k + 1);
	}
	buf_add(out, foreign ? ")" : typed ? "::text" : " AS TEXT)");
}

static void job_text(const struct binding *b, enum job_of of, const bool *foreign, struct buf *out)
{
	const struct dialect *d = dialect_of(b->engine);
	if (b->watch->key.n == 1) {
		key_text(b, of, 0, foreign[0], out);
		return;
	}
	/* A JSON array without spaces; both engines escape as we do. */
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_addf(out, "%s%s(coalesce(", k ? " || ',' || " : "('[' || ", d->json_text);
		key_text(b, of, k, foreign[k], out);
		buf_addf(out, ", ''))%s", d->as_text);
	}
	buf_add(out, " || ']')");
}

void sql_job_text(const struct binding *b, enum job_of of, struct buf *out)
{
	static const bool foreign[WATCH_KEYS_MAX];
	job_text(b, of, foreign, out);
}

void sql_job_text_of(const struct binding *b, const bool *foreign, struct buf *out)
{
	job_text(b, JOB_OF_ROW, foreign, out);
}

void sql_owner_alive(const struct watch *w, struct buf *out)
{
	if (w->owner_alive.text && w->owner.text)
		buf_addf(out, "CASE WHEN (%s) IS NOT NULL THEN (%s) END", w->owner.text,
		         w->owner_alive.text);
	else if (w->owner_alive.text)
		buf_add(out, w->owner_alive.text);
}

#define OWNER " JOIN defib.worker AS defib_w ON defib_w.id = defib_l.owner"

/* A query over the lease of the row: its SELECT list, and what it is joined with. */
static void select_lease(const struct binding *b, const char *list, const char *with,
                         struct buf *out)
{
	dialect_addf(dialect_of(b->engine), out,
	             "SELECT %s FROM defib.lease AS defib_l%s WHERE defib_l.watch = ", list, with);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
}

/* The row's last sign, under a name of ours: among our columns, its own could mean another one. */
static void join_sign(const struct binding *b, struct buf *out)
{
	enum sign s = b->watch->alive_at.text ? SIGN_ALIVE : SIGN_STARTED;
	const char *sign = watch_sign(b->watch, s)->text;
	buf_add(out, OWNER " CROSS JOIN (SELECT ");
	if (sign)
		sql_time_us(b, b->sign_time[s], sign, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS sign_us) AS defib_o");
}

/*
 * The lease of an instance's own code is written by its heartbeats, not by the claim. So it proves
 * no life (the code may have gone on to another job), and no death of a row that has a later sign
 * than that instance can have given: it was claimed again, and has no heartbeat yet.
 */
void sql_lease_alive(const struct binding *b, struct buf *out)
{
	AUTO_BUF with = BUF_INIT;
	join_sign(b, &with);
	buf_add(out, "coalesce((");
	select_lease(b,
	             "CASE WHEN defib_w.state <> 'alive' THEN CASE WHEN defib_l.by_beat AND "
	             "defib_o.sign_us > {us defib_w.expires_at} THEN NULL ELSE false END WHEN "
	             "defib_w.expires_at > {now_statement} AND NOT defib_l.by_beat THEN true END",
	             buf_text(&with), out);
	buf_addf(out, "), %s)", b->owner_alive ? b->owner_alive : "NULL");
}

void sql_lease_lost(const struct binding *b, struct buf *out)
{
	buf_add(out, "(");
	select_lease(b,
	             "{us CASE WHEN defib_w.state = 'left' OR defib_w.cause = 'exit seen' THEN "
	             "defib_w.ended_at ELSE defib_w.renewed_at END}",
	             OWNER, out);
	buf_add(out, ")");
}

void sql_lease_epoch(const struct binding *b, struct buf *out)
{
	buf_add(out, "(");
	select_lease(b, "defib_l.epoch", "", out);
	buf_add(out, ")");
}

void sql_lease_row(const struct binding *b, enum lease_row of, struct buf *out)
{
	if (of == LEASE_ROW) {
		select_lease(b, "1", "", out);
		return;
	}
	buf_addf(out, "SELECT 1 FROM %sworker AS defib_w WHERE defib_w.id = (",
	         dialect_of(b->engine)->own);
	select_lease(b, "defib_l.owner", "", out);
	buf_add(out, ")");
}

/*
 * Settling locks the lease first, then the row; a remedy already has the row. So it does not wait
 * for a lease that is being settled: that settlement will find the row changed, and frees the lease
 * itself.
 */
void sql_free_leases(const struct binding *b, struct buf *out)
{
	const struct dialect *d = dialect_of(b->engine);
	AUTO_RELATION r = {0};
	keys_relation(b, &r);
	buf_addf(out, "UPDATE %slease SET owner = NULL\nWHERE watch = ", d->own);
	sql_literal(out, b->watch->name);
	buf_addf(out,
	         " AND job IN (SELECT defib_l.job FROM %slease AS defib_l\n  WHERE defib_l.watch = ",
	         d->own);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.owner IS NOT NULL AND defib_l.job IN (SELECT ");
	sql_job_text(b, JOB_OF_RELATION, out);
	buf_add(out, " FROM (");
	relation_select(&r, 1, out);
	buf_addf(out, ") AS defib_s)%s)", d->has_row_locks ? "\n  FOR UPDATE SKIP LOCKED" : "");
}

/* ---- claims ---- */

/*
 * A trigger per row, not per statement: only those are inherited by partitions, including later
 * ones. The user's expressions are evaluated on OLD and NEW as a row with the alias t.
 */

#define NAME_MAX_BYTES 63 /* the database truncates longer ones */

void claim_function_name(const struct watch *w, struct buf *out)
{
	buf_addf(out, "claimed_%s", w->name);
}

void claim_trigger_name(const struct watch *w, struct buf *out)
{
	buf_addf(out, "defib_claimed_%s", w->name);
}

bool claim_name_fits(const struct watch *w)
{
	return strlen(w->name) + strlen("defib_claimed_") <= NAME_MAX_BYTES;
}

void claim_writer_name(const struct watch *w, struct buf *out)
{
	buf_addf(out, "claim_write_%s", w->name);
}

/* defib."name"(arguments) */
static void lease_sql_add_name(void (*name_of)(const struct watch *, struct buf *),
                               const struct watch *w, const char *arguments, struct buf *out)
{
	AUTO_BUF name = BUF_INIT;
	name_of(w, &name);
	buf_add(out, "defib.");
	sql_ident(out, buf_text(&name));
	buf_addf(out, "(%s)", arguments);
}

static void add_function(const struct watch *w, struct buf *out)
{
	lease_sql_add_name(claim_function_name, w, "", out);
}

static void add_writer(const struct watch *w, struct buf *out)
{
	lease_sql_add_name(claim_writer_name, w, "text, text", out);
}

/*
 * What changes with every claim while the row is running. If the watch names none of these, a row
 * counts as claimed when it starts to run. A row becomes text through its types' output functions,
 * never through a user-defined cast.
 */
static void lease_sql_add_mark(const struct watch *w, struct buf *out)
{
	const struct sql_text *const parts[] = {&w->owner, &w->attempts, &w->epoch, &w->started_at};
	buf_addf(out, "CASE WHEN (%s) THEN ROW(1", w->running.text);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i]->text)
			buf_addf(out, ", (%s)", parts[i]->text);
	buf_add(out, ")::text END");
}

/* Mark and job of the row `t`. */
static void add_read(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	lease_sql_add_mark(b->watch, out);
	buf_add(out, ", ");
	sql_job_text_of(b, t->foreign, out);
}

void claim_function_body(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	AUTO_BUF schema = BUF_INIT, name = BUF_INIT, mark_and_job = BUF_INIT;
	AUTO_BUF writer = BUF_INIT, writer_text = BUF_INIT, write = BUF_INIT;
	assert(dialect_of(b->engine)->can_attach);
	sql_literal(&schema, t->schema);
	sql_literal(&name, t->name);
	add_read(b, t, &mark_and_job);
	add_writer(b->watch, &writer);
	sql_literal(&writer_text, buf_text(&writer));
	lease_sql_add_name(claim_writer_name, b->watch, "defib_was_job, defib_job", &write);
	const struct sql_piece pieces[] = {{"schema", buf_text(&schema)},
	                                   {"name", buf_text(&name)},
	                                   {"mark_and_job", buf_text(&mark_and_job)},
	                                   {"writer", buf_text(&writer_text)},
	                                   {"write", buf_text(&write)},
	                                   {0}};
	buf_add(out, "\n");
	sql_fill(out, sql_postgres_claims_noticed, pieces);
	buf_add(out, "\n");
}

void claim_writer_body(const struct watch *w, struct buf *out)
{
	AUTO_BUF watch = BUF_INIT;
	sql_literal(&watch, w->name);
	const struct sql_piece pieces[] = {{"watch", buf_text(&watch)}, {0}};
	buf_add(out, "\n");
	sql_fill(out, sql_postgres_claims_written, pieces);
	buf_add(out, "\n");
}

/* Dollar-quoted if possible, for readability. */
static void lease_sql_add_body(const char *body, struct buf *out)
{
	if (strstr(body, "$defib$"))
		sql_literal(out, body);
	else
		buf_addf(out, "$defib$%s$defib$", body);
}

/* A plan that was made while our table was empty must not scan all of it later. */
static void make_writer(const struct watch *w, const struct claim_table *t, struct buf *out)
{
	AUTO_BUF body = BUF_INIT;
	claim_writer_body(w, &body);
	buf_add(out, "CREATE OR REPLACE FUNCTION ");
	add_writer(w, out);
	buf_add(out, " RETURNS void\nLANGUAGE plpgsql SECURITY DEFINER\n"
	             "SET search_path = pg_catalog, pg_temp\nSET enable_seqscan = off\nAS ");
	lease_sql_add_body(buf_text(&body), out);
	buf_add(out, ";\nREVOKE ALL ON FUNCTION ");
	add_writer(w, out);
	buf_add(out, " FROM PUBLIC;\nGRANT USAGE ON SCHEMA defib TO ");
	sql_ident(out, t->owner);
	buf_add(out, ";\nGRANT EXECUTE ON FUNCTION ");
	add_writer(w, out);
	buf_add(out, " TO ");
	sql_ident(out, t->owner);
	buf_add(out, ";\n");
}

static void add_path(const struct claim_table *t, struct buf *out)
{
	buf_addf(out, "SET search_path = pg_catalog, %s%spg_temp\n", t->path, t->path[0] ? ", " : "");
}

/*
 * A role that claims needs no privileges on our tables. Keys must read the same as in our own
 * sessions.
 */
static void make_function(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	AUTO_BUF body = BUF_INIT;
	claim_function_body(b, t, &body);
	buf_add(out, "CREATE OR REPLACE FUNCTION ");
	add_function(b->watch, out);
	buf_add(out, " RETURNS trigger\nLANGUAGE plpgsql SECURITY DEFINER\n");
	add_path(t, out);
	for (const struct dialect_setting *s = dialect_of(b->engine)->settings; s && s->set; s++)
		if (s->of_text)
			buf_addf(out, "SET %s\n", s->set);
	buf_add(out, "AS ");
	lease_sql_add_body(buf_text(&body), out);
	buf_add(out, ";\nREVOKE ALL ON FUNCTION ");
	add_function(b->watch, out);
	buf_add(out, " FROM PUBLIC;\nALTER FUNCTION ");
	add_function(b->watch, out);
	buf_add(out, " OWNER TO ");
	sql_ident(out, t->owner);
	buf_add(out, ";\n");
}

void claim_functions(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	make_writer(b->watch, t, out);
	make_function(b, t, out);
}

void claim_trial(const struct binding *b, const struct claim_table *t, struct buf *out)
{
	AUTO_BUF sql = BUF_INIT, body = BUF_INIT;
	buf_add(&sql, "EXPLAIN SELECT ");
	add_read(b, t, &sql);
	buf_add(&sql, " FROM (SELECT * FROM ");
	sql_ident(&sql, t->schema);
	buf_add(&sql, ".");
	sql_ident(&sql, t->name);
	buf_add(&sql, ") AS t");
	buf_add(&body, "\nBEGIN\n\tEXECUTE ");
	sql_literal(&body, buf_text(&sql));
	buf_add(&body, ";\nEND;\n");
	buf_add(out, "CREATE FUNCTION " CLAIM_TRIAL " RETURNS void\n"
	             "LANGUAGE plpgsql SECURITY DEFINER\n");
	add_path(t, out);
	buf_add(out, "AS ");
	lease_sql_add_body(buf_text(&body), out);
	buf_add(out, ";\nALTER FUNCTION " CLAIM_TRIAL " OWNER TO ");
	sql_ident(out, t->owner);
	buf_add(out, ";\n");
}

void claim_trigger(const struct binding *b, struct buf *out)
{
	AUTO_BUF name = BUF_INIT;
	claim_trigger_name(b->watch, &name);
	buf_add(out, "CREATE TRIGGER ");
	sql_ident(out, buf_text(&name));
	buf_add(out, " AFTER INSERT OR UPDATE OR DELETE ON ");
	sql_table(out, b->watch->table);
	buf_add(out, " FOR EACH ROW EXECUTE FUNCTION ");
	add_function(b->watch, out);
}

void claim_drop_trigger(const struct watch *w, const char *table, struct buf *out)
{
	AUTO_BUF name = BUF_INIT;
	claim_trigger_name(w, &name);
	buf_add(out, "DROP TRIGGER IF EXISTS ");
	sql_ident(out, buf_text(&name));
	buf_addf(out, " ON %s", table);
}

void claim_drop_functions(const struct watch *w, struct buf *out)
{
	buf_add(out, "DROP FUNCTION IF EXISTS ");
	add_function(w, out);
	buf_add(out, ", ");
	add_writer(w, out);
}
