/*
 * claim_sql.c: see claim_sql.h.
 *
 * A trigger for each row, not for each statement: only those are handed on to
 * the partitions of a table, also to those that are made later. The user's
 * expressions are asked of OLD and NEW as of a row with the alias t.
 */
#include "watch/claim_sql.h"

#include "watch/lease_sql.h"

#include <assert.h>

#define NAME_MAX_BYTES 63 /* the database cuts longer ones */

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

static void add_function(const struct watch *w, struct buf *out)
{
	struct buf name = BUF_INIT;
	claim_function_name(w, &name);
	buf_add(out, "defib.");
	sql_ident(out, buf_text(&name));
	buf_add(out, "()");
	buf_release(&name);
}

/*
 * What is another at another claim, while the row runs: where the watch names
 * none of these, a row is claimed when it starts to run.
 */
static void add_mark(const struct watch *w, struct buf *out)
{
	const struct sql_text *const parts[] = {&w->owner, &w->attempts, &w->epoch, &w->started_at};
	buf_addf(out, "CASE WHEN (%s) THEN ROW(1", w->running.text);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i]->text)
			buf_addf(out, ", (%s)::text", parts[i]->text);
	buf_add(out, ")::text END");
}

static void add_reading(const struct binding *b, const char *record, const char *mark,
                        const char *job, struct buf *out)
{
	buf_add(out, "\t\tSELECT ");
	add_mark(b->watch, out);
	buf_add(out, ", ");
	sql_job_text(b, JOB_OF_ROW, out);
	buf_addf(out, " INTO %s, %s FROM (SELECT %s.*) AS t;\n", mark, job, record);
}

void claim_function_body(const struct binding *b, struct buf *out)
{
	struct buf watch = BUF_INIT;
	assert(b->engine == STORE_POSTGRES);
	sql_literal(&watch, b->watch->name);
	buf_add(out, "\n#variable_conflict use_column\n"
	             "DECLARE\n\tdefib_was text;\n\tdefib_is text;\n\tdefib_was_job text;\n"
	             "\tdefib_job text;\nBEGIN\n\tIF TG_OP <> 'INSERT' THEN\n");
	add_reading(b, "OLD", "defib_was", "defib_was_job", out);
	buf_add(out, "\tEND IF;\n\tIF TG_OP <> 'DELETE' THEN\n");
	add_reading(b, "NEW", "defib_is", "defib_job", out);
	buf_addf(
		out,
		"\tEND IF;\n"
		"\tIF defib_was IS NOT NULL AND (defib_is IS NULL OR defib_job <> defib_was_job) THEN\n"
		"\t\tDELETE FROM defib.claimed_by AS c WHERE c.watch = %s AND c.job = defib_was_job;\n"
		"\tEND IF;\n",
		buf_text(&watch));
	buf_addf(out,
	         "\tIF defib_is IS NOT NULL AND (defib_was IS DISTINCT FROM defib_is OR defib_job <> "
	         "defib_was_job) THEN\n"
	         "\t\tINSERT INTO defib.claimed_by AS c (watch, job, application, pid)\n"
	         "\t\tVALUES (%s, defib_job, current_setting('application_name'), pg_backend_pid())\n"
	         "\t\tON CONFLICT (watch, job) DO UPDATE SET claim = DEFAULT, application = "
	         "excluded.application, pid = excluded.pid, at = excluded.at;\n"
	         "\tEND IF;\n\tRETURN NULL;\n",
	         buf_text(&watch));
	buf_add(out, "EXCEPTION WHEN OTHERS THEN\n"
	             "\tRAISE DEBUG 'defib: a claim was not written down: %', SQLERRM;\n"
	             "\tRETURN NULL;\nEND;\n");
	buf_release(&watch);
}

/* In dollars where that can be, for the reader's sake. */
static void add_body(const char *body, struct buf *out)
{
	if (strstr(body, "$defib$"))
		sql_literal(out, body);
	else
		buf_addf(out, "$defib$%s$defib$", body);
}

void claim_function(const struct binding *b, const char *search_path, struct buf *out)
{
	struct buf body = BUF_INIT;
	claim_function_body(b, &body);
	buf_add(out, "CREATE OR REPLACE FUNCTION ");
	add_function(b->watch, out);
	/*
	 * With its owner's rights: who claims needs none on our tables. Keys must read the same as
	 * text as in our own sessions. And a plan that was made while our table was empty must not
	 * read all of it when it is not.
	 */
	buf_addf(out,
	         " RETURNS trigger\nLANGUAGE plpgsql SECURITY DEFINER\n"
	         "SET search_path = %s%spg_temp\n"
	         "SET TimeZone = 'UTC'\nSET DateStyle = 'ISO'\nSET IntervalStyle = 'iso_8601'\n"
	         "SET bytea_output = 'hex'\nSET enable_seqscan = off\nAS ",
	         search_path, search_path[0] ? ", " : "");
	add_body(buf_text(&body), out);
	buf_release(&body);
}

void claim_trigger(const struct binding *b, struct buf *out)
{
	struct buf name = BUF_INIT;
	claim_trigger_name(b->watch, &name);
	buf_add(out, "CREATE TRIGGER ");
	sql_ident(out, buf_text(&name));
	buf_add(out, " AFTER INSERT OR UPDATE OR DELETE ON ");
	sql_table(out, b->watch->table);
	buf_add(out, " FOR EACH ROW EXECUTE FUNCTION ");
	add_function(b->watch, out);
	buf_release(&name);
}

void claim_drop_trigger(const struct watch *w, const char *table, struct buf *out)
{
	struct buf name = BUF_INIT;
	claim_trigger_name(w, &name);
	buf_add(out, "DROP TRIGGER IF EXISTS ");
	sql_ident(out, buf_text(&name));
	buf_addf(out, " ON %s", table);
	buf_release(&name);
}

void claim_drop_function(const struct watch *w, struct buf *out)
{
	buf_add(out, "DROP FUNCTION IF EXISTS ");
	add_function(w, out);
}
