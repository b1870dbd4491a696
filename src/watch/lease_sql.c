/* SPDX-License-Identifier: Apache-2.0 */
/* lease_sql.c: see lease_sql.h. */
#include "watch/lease_sql.h"

#include "watch/compile.h"

defib_err leases_there(struct store *s, bool *there, struct failure *f)
{
	bool workers = false;
	defib_err err = dialect_own_table(s, "lease", there, f);
	if (!err && *there)
		err = dialect_own_table(s, "worker", &workers, f);
	*there = *there && workers;
	return err;
}

/* format() asks a type's own output function, and no cast that somebody made. */
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

void sql_lease_alive(const struct binding *b, struct buf *out)
{
	dialect_add(
		dialect_of(b->engine), out,
		"coalesce((SELECT CASE WHEN defib_w.state <> 'alive' THEN false WHEN "
		"defib_w.expires_at > {now_statement} THEN true END FROM defib.lease AS defib_l "
		"JOIN defib.worker AS defib_w ON defib_w.id = defib_l.owner WHERE defib_l.watch = ");
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_addf(out, "), %s)", b->owner_alive ? b->owner_alive : "NULL");
}

void sql_lease_lost(const struct binding *b, struct buf *out)
{
	dialect_add(dialect_of(b->engine), out,
	            "(SELECT {us CASE WHEN defib_w.state = 'left' OR defib_w.cause = 'exit seen' THEN "
	            "defib_w.ended_at ELSE defib_w.renewed_at END} FROM defib.lease AS defib_l JOIN "
	            "defib.worker AS defib_w ON defib_w.id = defib_l.owner WHERE defib_l.watch = ");
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, ")");
}

void sql_lease_epoch(const struct binding *b, struct buf *out)
{
	dialect_add(dialect_of(b->engine), out,
	            "(SELECT defib_l.epoch FROM defib.lease AS defib_l WHERE defib_l.watch = ");
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, ")");
}

void sql_lease_row(const struct binding *b, enum lease_row of, struct buf *out)
{
	struct buf lease = BUF_INIT;
	const struct dialect *d = dialect_of(b->engine);
	dialect_add(d, &lease, "FROM defib.lease AS defib_l WHERE defib_l.watch = ");
	sql_literal(&lease, b->watch->name);
	buf_add(&lease, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, &lease);
	if (of == LEASE_ROW)
		buf_addf(out, "SELECT 1 %s", buf_text(&lease));
	else
		buf_addf(out,
		         "SELECT 1 FROM %sworker AS defib_w WHERE defib_w.id = (SELECT defib_l.owner %s)",
		         d->own, buf_text(&lease));
	buf_release(&lease);
}

/*
 * Settling locks the lease, then the row; a remedy has the row already. It
 * does not wait for a lease that is being settled: that settlement will find
 * the row changed, and frees the lease itself.
 */
void sql_free_leases(const struct binding *b, struct buf *out)
{
	const struct dialect *d = dialect_of(b->engine);
	struct relation r;
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
	relation_release(&r);
}
