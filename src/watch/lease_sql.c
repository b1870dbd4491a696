/* lease_sql.c: see lease_sql.h. */
#include "watch/lease_sql.h"

#include "watch/compile.h"

const char *const lease_table[] = {
	[STORE_POSTGRES] = "defib.lease", [STORE_SQLITE] = "defib_lease"};
const char *const worker_table[] = {
	[STORE_POSTGRES] = "defib.worker", [STORE_SQLITE] = "defib_worker"};
const char *const lease_floor[] = {
	[STORE_POSTGRES] = "coalesce((SELECT m.value::bigint FROM defib.meta m "
					   "WHERE m.name = 'lease_floor'), 0)",
	[STORE_SQLITE] = "coalesce((SELECT CAST(m.value AS INTEGER) FROM defib_meta m "
					 "WHERE m.name = 'lease_floor'), 0)",
};

defib_err leases_there(struct store *s, struct arena *a, bool *there, struct failure *f)
{
	static const char *const queries[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = "
						   "c.relnamespace WHERE n.nspname = 'defib' AND c.relname IN ('lease', "
						   "'worker') AND has_schema_privilege(n.oid, 'USAGE') AND "
						   "has_table_privilege(c.oid, 'SELECT')",
		[STORE_SQLITE] = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN "
						 "('defib_lease', 'defib_worker')",
	};
	struct store_rows rows;
	defib_err err = store_exec(s, queries[s->engine], NULL, 0, a, &rows, f);
	if (!err)
		*there = row_int(&rows, 0, 0, 0) == 2;
	return err;
}

/* format() asks a type's own output function, and no cast that somebody made. */
static void key_text(const struct binding *b, enum job_of of, int k, bool foreign, struct buf *out)
{
	bool pg = b->engine == STORE_POSTGRES;
	buf_add(out, foreign ? "format('%s', " : pg ? "" : "CAST(");
	if (of == JOB_OF_ROW) {
		buf_add(out, "t.");
		sql_ident(out, b->watch->key.items[k]);
	} else {
		buf_addf(out, "defib_s.defib_k%d", k + 1);
	}
	buf_add(out, foreign ? ")" : pg ? "::text" : " AS TEXT)");
}

static void job_text(const struct binding *b, enum job_of of, const bool *foreign, struct buf *out)
{
	bool pg = b->engine == STORE_POSTGRES;
	if (b->watch->key.n == 1) {
		key_text(b, of, 0, foreign[0], out);
		return;
	}
	/* A JSON array without spaces; both engines escape as we do. */
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_addf(out, "%s%s(coalesce(", k ? " || ',' || " : "('[' || ",
		         pg ? "to_json" : "json_quote");
		key_text(b, of, k, foreign[k], out);
		buf_addf(out, ", ''))%s", pg ? "::text" : "");
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
	buf_addf(out,
	         "coalesce((SELECT CASE WHEN defib_w.state <> 'alive' THEN false "
	         "WHEN defib_w.expires_at > %s",
	         b->engine == STORE_POSTGRES ? "statement_timestamp()" : SQLITE_NOW_MS);
	buf_addf(out,
	         " THEN true END FROM %s AS defib_l JOIN %s AS defib_w ON defib_w.id = defib_l.owner "
	         "WHERE defib_l.watch = ",
	         lease_table[b->engine], worker_table[b->engine]);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_addf(out, "), %s)", b->owner_alive ? b->owner_alive : "NULL");
}

void sql_lease_lost(const struct binding *b, struct buf *out)
{
	bool pg = b->engine == STORE_POSTGRES;
	buf_addf(out,
	         "(SELECT %sCASE WHEN defib_w.state = 'left' OR defib_w.cause = 'exit seen' THEN "
	         "defib_w.ended_at ELSE defib_w.renewed_at END%s FROM %s AS defib_l JOIN %s AS "
	         "defib_w ON defib_w.id = defib_l.owner WHERE defib_l.watch = ",
	         pg ? "(extract(epoch FROM " : "", pg ? ") * 1000000)::bigint" : " * 1000",
	         lease_table[b->engine], worker_table[b->engine]);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, ")");
}

void sql_lease_epoch(const struct binding *b, struct buf *out)
{
	buf_addf(out, "(SELECT defib_l.epoch FROM %s AS defib_l WHERE defib_l.watch = ",
	         lease_table[b->engine]);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_add(out, ")");
}

void sql_lease_row(const struct binding *b, enum lease_row of, struct buf *out)
{
	struct buf lease = BUF_INIT;
	buf_addf(&lease, "FROM %s AS defib_l WHERE defib_l.watch = ", lease_table[b->engine]);
	sql_literal(&lease, b->watch->name);
	buf_add(&lease, " AND defib_l.job = ");
	sql_job_text(b, JOB_OF_ROW, &lease);
	if (of == LEASE_ROW)
		buf_addf(out, "SELECT 1 %s", buf_text(&lease));
	else
		buf_addf(out, "SELECT 1 FROM %s AS defib_w WHERE defib_w.id = (SELECT defib_l.owner %s)",
		         worker_table[b->engine], buf_text(&lease));
	buf_release(&lease);
}

/*
 * Settling locks the lease, then the row; a remedy has the row already. It
 * does not wait for a lease that is being settled: that settlement will find
 * the row changed, and frees the lease itself.
 */
void sql_free_leases(const struct binding *b, struct buf *out)
{
	const char *table = lease_table[b->engine];
	struct relation r;
	keys_relation(b, &r);
	buf_addf(out, "UPDATE %s SET owner = NULL\nWHERE watch = ", table);
	sql_literal(out, b->watch->name);
	buf_addf(out,
	         " AND job IN (SELECT defib_l.job FROM %s AS defib_l\n  WHERE defib_l.watch = ", table);
	sql_literal(out, b->watch->name);
	buf_add(out, " AND defib_l.owner IS NOT NULL AND defib_l.job IN (SELECT ");
	sql_job_text(b, JOB_OF_RELATION, out);
	buf_add(out, " FROM (");
	relation_select(&r, 1, out);
	buf_addf(out, ") AS defib_s)%s)",
	         b->engine == STORE_POSTGRES ? "\n  FOR UPDATE SKIP LOCKED" : "");
	relation_release(&r);
}
