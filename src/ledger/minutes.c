/* SPDX-License-Identifier: Apache-2.0 */
/* minutes.c: what the ledger says about each minute; see counts.h. */
#include "base/text.h"
#include "ledger/counts.h"
#include "ledger/events.h"
#include "store/dialect.h"

/* MATERIALIZED: the time of an entry is read once, not once for each bound. */
static void minutes_sql(struct buf *sql, const struct time_bounds *bounds)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT l.watch, {stamp_us l.at} / 60000000 AS minute, "
	             "l.verdict, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, " THEN 1 ELSE 0 END AS recovered, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " THEN 1 ELSE 0 END AS detected, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " THEN ");
	sql_seconds_to_detection(sql);
	buf_add(sql, " END AS found FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2 AND (");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " OR ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, ")) SELECT m.watch, m.minute, m.verdict, ");
	sql_bucket("m.found", bounds, sql);
	buf_add(sql, ", sum(m.recovered), sum(m.detected) FROM m GROUP BY 1, 2, 3, 4 "
	             "ORDER BY 1, 2, 3, 4");
}

defib_err ledger_minutes_between(struct store *s, int64_t after, int64_t to,
                                 const struct time_bounds *bounds, struct arena *a,
                                 struct minute_count **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	*n = 0;
	minutes_sql(&sql, bounds);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 2, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct minute_count, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct minute_count){.watch = row_text(&rows, i, 0),
		                                  .minute = row_int(&rows, i, 1, 0),
		                                  .verdict = row_text(&rows, i, 2),
		                                  .bucket = (int)row_int(&rows, i, 3, -1),
		                                  .recovered = row_int(&rows, i, 4, 0),
		                                  .detected = row_int(&rows, i, 5, 0)};
	return DEFIB_OK;
}
