/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.c: see mistakes.h. */
#include "ledger/mistakes.h"

#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/tables.h"

#define DAY_US (INT64_C(86400) * 1000000)

/* An entry `r` that recovers a job of watch $1 and is not older than $2. */
static void is_recovery(struct buf *sql)
{
	buf_add(sql, "r.watch = $1 AND ");
	event_counts_sql(sql, "r", COUNTS_RECOVERED, BY_AUTOMATION);
	buf_add(sql, " AND r.at > {stamp_ago $2}");
}

/* From the late completions, which are few, to the recovery that each of them blames. */
static void count_sql(struct buf *sql)
{
	buf_addf(
		sql,
		"WITH recent AS (SELECT id, at, watch, job, event, verdict, rule FROM defib.ledger "
		"WHERE watch = $1 AND at > {stamp_ago $2} ORDER BY at DESC LIMIT %d), late AS (SELECT "
		"DISTINCT (SELECT max(m.id) FROM defib.ledger AS m WHERE m.watch = l.watch AND m.job = "
		"l.job AND m.id < l.id AND ",
		MISTAKES_ENTRIES);
	event_counts_sql(sql, "m", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql,
	        ") AS id FROM recent AS l WHERE l.event = '" ENTRY_LATE_COMPLETION
	        "') SELECT count(*), "
	        "count(late.id), count(*) FILTER (WHERE r.at > {stamp_ago $3}), count(late.id) "
	        "FILTER (WHERE r.at > {stamp_ago $3}) FROM recent AS r LEFT JOIN late ON late.id = "
	        "r.id WHERE ");
	is_recovery(sql);
}

defib_err mistakes_count(struct store *s, const char *watch, struct mistakes *out,
                         struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_INT(7 * DAY_US), P_INT(DAY_US)};
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	*out = (struct mistakes){0};
	count_sql(&sql);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, &a, &rows, f);
	if (!err) {
		out->week.recoveries = row_int(&rows, 0, 0, 0);
		out->week.mistakes = row_int(&rows, 0, 1, 0);
		out->day.recoveries = row_int(&rows, 0, 2, 0);
		out->day.mistakes = row_int(&rows, 0, 3, 0);
	}
	buf_release(&sql);
	arena_release(&a);
	return err;
}

defib_err mistakes_candidates(struct store *s, const char *watch, int64_t within_us, int64_t limit,
                              struct arena *a, struct recovered **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_INT(within_us), P_INT(limit)};
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	*n = 0;
	buf_addf(&sql,
	         "SELECT r.job, r.event, {iso r.at}, {member r.evidence|owner} FROM (SELECT * FROM "
	         "defib.ledger ORDER BY id DESC LIMIT %d) AS r WHERE ",
	         MISTAKES_ENTRIES);
	is_recovery(&sql);
	buf_add(&sql, " AND NOT EXISTS (SELECT 1 FROM defib.ledger AS l WHERE l.watch = r.watch AND "
	              "l.job = r.job AND l.id > r.id AND (l.event = '" ENTRY_LATE_COMPLETION "' OR ");
	event_counts_sql(&sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(&sql, ")) ORDER BY r.id DESC LIMIT $3");
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct recovered, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct recovered){row_text(&rows, i, 0), row_text(&rows, i, 1),
		                               row_text(&rows, i, 2), row_text(&rows, i, 3)};
	return DEFIB_OK;
}

/* Those of the entries whose job is still a candidate, behind the ledger's lock. */
static defib_err still_open(struct store *s, const char *watch, const struct ledger_entry *entries,
                            int n, int64_t within_us, struct arena *a, struct ledger_entry *out,
                            int *kept, struct failure *f)
{
	struct recovered *open;
	struct job_index index;
	int nopen = 0;
	defib_err err = ledger_lock(s, a, f);
	if (!err)
		err = mistakes_candidates(s, watch, within_us, MISTAKES_ENTRIES, a, &open, &nopen, f);
	if (err)
		return err;
	const char **jobs = ARENA_ARRAY(a, const char *, nopen + 1);
	for (int i = 0; i < nopen; i++)
		jobs[i] = open[i].job;
	job_index_init(&index, jobs, nopen, a);
	for (int i = 0; i < n; i++)
		if (job_index_find(&index, entries[i].job) >= 0)
			out[(*kept)++] = entries[i];
	return DEFIB_OK;
}

defib_err mistakes_note(struct store *s, const struct ledger_context *ctx,
                        const struct ledger_entry *entries, int n, int64_t within_us,
                        struct arena *a, int64_t *noted, struct failure *f)
{
	struct ledger_entry *open = ARENA_ARRAY(a, struct ledger_entry, n + 1);
	int kept = 0;
	*noted = 0;
	if (n == 0)
		return DEFIB_OK;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = still_open(s, ctx->watch, entries, n, within_us, a, open, &kept, f);
	if (!err && kept)
		err = ledger_append(s, ctx, open, kept, a, f);
	if (err)
		store_rollback(s);
	else
		err = store_commit(s, f);
	*noted = err ? 0 : kept;
	return err;
}
