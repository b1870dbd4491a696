/* SPDX-License-Identifier: Apache-2.0 */
/* happened.c: see happened.h. */
#include "alert/happened.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/counts.h"
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "ledger/lost.h"
#include "store/dialect.h"

#define PAST_US (INT64_C(24) * 3600 * US_PER_S) /* the longest window of any rule */
#define ROW_MAX 4                               /* of one row */

/* By minute, so that a mass event is a handful of rows. */
static void read_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.watch, l.event, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", {stamp_us max(l.at)}, count(*), count(l.found_s), coalesce(sum(l.found_s), 0) "
	             "FROM (SELECT l.*, ");
	sql_seconds_to_detection(sql);
	buf_add(sql, " AS found_s FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2) AS l GROUP BY "
	             "1, 2, 3, 4, {stamp_minute l.at}");
}

static void add(struct happened *list, int *n, struct happened one, enum alert_counter what,
                double count)
{
	one.what = what;
	one.n = count;
	if (count > 0)
		list[(*n)++] = one;
}

/* What persons did is none of a rule's: who did it knows of it. */
static void add_row(const struct store_rows *rows, int i, struct happened *list, int *n)
{
	const char *event = row_text(rows, i, 1), *took = row_text(rows, i, 7);
	bool by_person = row_bool(rows, i, 3);
	unsigned counts = event_counts(event, row_bool(rows, i, 2), by_person);
	struct happened one = {.watch = row_text(rows, i, 0), .at_us = row_int(rows, i, 4, 0)};
	double count = (double)row_int(rows, i, 5, 0);
	if (by_person)
		return;
	if (counts & COUNTS_RECOVERED)
		add(list, n, one, COUNT_RECOVERED, count);
	if (counts & COUNTS_DETECTED) {
		add(list, n, one, COUNT_DETECTED, count);
		add(list, n, one, COUNT_FOUND, (double)row_int(rows, i, 6, 0));
		add(list, n, one, COUNT_FOUND_S, strtod(took ? took : "0", NULL));
	}
	if (text_eq(event, ENTRY_LATE_COMPLETION))
		add(list, n, one, COUNT_MISTAKES, count);
	if (text_eq(event, ENTRY_RETRIES_EXHAUSTED))
		add(list, n, one, COUNT_EXHAUSTED, count);
}

static defib_err read_between(struct store *s, int64_t after, int64_t to, struct arena *a,
                              struct happened **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	read_sql(&sql);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 2, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct happened, rows.nrows * ROW_MAX + 1);
	for (int i = 0; i < rows.nrows; i++)
		add_row(&rows, i, *out, n);
	return DEFIB_OK;
}

defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a, struct happened **out,
                        int *n, bool *more, struct failure *f)
{
	int64_t top = 0;
	bool exists = false;
	*n = 0;
	*more = false;
	*out = NULL;
	defib_err err = ledger_exists(s, &exists, f);
	if (err || !exists)
		return err;
	err = ledger_top(s, &top, f);
	if (!err && top > 0 && *cursor == 0)
		err = ledger_id_before(s, PAST_US, cursor, f);
	if (err || top <= *cursor)
		return err;
	int64_t to = top - *cursor > LEDGER_COUNT_IDS ? *cursor + LEDGER_COUNT_IDS : top;
	err = read_between(s, *cursor, to, a, out, n, f);
	if (err)
		return err;
	*cursor = to;
	*more = to < top;
	return DEFIB_OK;
}
