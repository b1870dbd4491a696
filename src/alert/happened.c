/* happened.c: see happened.h. */
#include "alert/happened.h"

#include "base/text.h"
#include "ledger/ledger.h"

/* What an event counts as; `hand` of a person is none of a verdict. */
static const struct {
	const char *event;
	bool recovered, decided;
	enum alert_counter also;
} meanings[] = {
	{"REQUEUED", true, true, COUNT_NOTHING},
	{"RETRY_SCHEDULED", true, true, COUNT_NOTHING},
	{"FAILED", true, true, COUNT_NOTHING},
	{"ROLLED_BACK", true, true, COUNT_NOTHING},
	{"HELD", false, true, COUNT_NOTHING},
	{"LATE_COMPLETION", false, false, COUNT_MISTAKES},
	{"RETRIES_EXHAUSTED", false, false, COUNT_EXHAUSTED},
};
#define MEANINGS (sizeof meanings / sizeof *meanings)
#define COUNTS_MAX 4 /* of one row */

/* By minute, so that a mass event is a handful of rows. */
static const char *const queries[] = {
	[STORE_POSTGRES] =
		"SELECT watch, event, (extract(epoch FROM max(at)) * 1000000)::bigint, count(*), "
		"count(past), coalesce(sum(greatest(past, 0)), 0), max(id) FROM (SELECT id, at, watch, "
		"event, CASE WHEN jsonb_typeof(evidence->'measured_s') = 'number' AND "
		"jsonb_typeof(evidence->'limit_s') = 'number' THEN (evidence->>'measured_s')::float8 - "
		"(evidence->>'limit_s')::float8 END AS past FROM defib.ledger WHERE id > $1 AND "
		"coalesce(rule, '') <> 'chosen-by-hand' AND at > clock_timestamp() - interval '1 day') AS "
		"l GROUP BY watch, event, date_trunc('minute', at)",
	[STORE_SQLITE] =
		"SELECT watch, event, CAST((julianday(max(at)) - 2440587.5) * 86400000 AS INTEGER) * 1000, "
		"count(*), count(past), coalesce(sum(max(past, 0)), 0), max(id) FROM (SELECT id, at, "
		"watch, event, CASE WHEN json_valid(evidence) THEN CASE WHEN json_type(evidence, "
		"'$.measured_s') IN ('real', 'integer') AND json_type(evidence, '$.limit_s') IN ('real', "
		"'integer') THEN json_extract(evidence, '$.measured_s') - json_extract(evidence, "
		"'$.limit_s') END END AS past FROM defib_ledger WHERE id > ?1 AND coalesce(rule, '') <> "
		"'chosen-by-hand' AND at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')) AS l GROUP BY "
		"watch, event, substr(at, 1, 16)",
};

static void add(struct happened *list, int *n, struct happened one)
{
	if (one.n > 0)
		list[(*n)++] = one;
}

static void add_row(const struct store_rows *rows, int i, struct happened *list, int *n)
{
	const char *event = row_text(rows, i, 1), *past = row_text(rows, i, 5);
	struct happened one = {.watch = row_text(rows, i, 0), .at_us = row_int(rows, i, 2, 0)};
	double count = (double)row_int(rows, i, 3, 0), timed = (double)row_int(rows, i, 4, 0);
	size_t m = 0;
	while (m < MEANINGS && !text_eq(meanings[m].event, event))
		m++;
	if (m == MEANINGS)
		return;
	struct happened counted[COUNTS_MAX] = {one, one, one, one};
	counted[0].what = COUNT_RECOVERED;
	counted[0].n = meanings[m].recovered ? count : 0;
	counted[1].what = COUNT_DECIDED;
	counted[1].n = meanings[m].decided ? count : 0;
	counted[2].what = meanings[m].decided ? COUNT_FOUND : meanings[m].also;
	counted[2].n = meanings[m].decided ? timed : count;
	counted[3].what = COUNT_FOUND_S;
	counted[3].n = meanings[m].decided ? strtod(past ? past : "0", NULL) : 0;
	for (int k = 0; k < COUNTS_MAX; k++)
		add(list, n, counted[k]);
}

defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a, struct happened **out,
                        int *n, struct failure *f)
{
	struct store_rows rows;
	int64_t top = 0;
	bool exists = false;
	*n = 0;
	*out = NULL;
	defib_err err = ledger_exists(s, &exists, f);
	if (err || !exists)
		return err;
	err = ledger_top(s, &top, f);
	if (err || top <= *cursor)
		return err;
	struct store_param param =
		P_INT(*cursor || top <= HAPPENED_ENTRIES ? *cursor : top - HAPPENED_ENTRIES);
	err = store_exec(s, queries[s->engine], &param, 1, a, &rows, f);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct happened, rows.nrows * COUNTS_MAX + 1);
	for (int i = 0; i < rows.nrows; i++) {
		add_row(&rows, i, *out, n);
		/* More than `top` may have come between the two statements. */
		int64_t id = row_int(&rows, i, 6, 0);
		top = id > top ? id : top;
	}
	*cursor = top;
	return DEFIB_OK;
}
