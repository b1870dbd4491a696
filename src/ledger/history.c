/* SPDX-License-Identifier: Apache-2.0
 * history.c: what the ledger knows about jobs: recoveries that count, holds, and the last report.
 *
 * Everything is an index lookup per job: a join would read a large ledger completely. The order by
 * id makes the index of jobs the cheapest plan, even if the planner's statistics are from an empty
 * ledger.
 */

#include "ledger/history.h"

#include "ledger/ledger.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/jobs.h"

#include <jansson.h>

/*
 * What counts against the job: not recoveries from a mass event, nor from a program that ended
 * normally, nor from a lost instance that its successor found at its start, nor that nobody started
 * it.
 */
#define COUNTS                                                                                     \
	"{not_true l.evidence|mass} AND {not_true l.evidence|clean} AND {differs "                     \
	"l.rule|'" RULE_STARTUP "'} AND {differs l.verdict|'unstarted'}"

/* An operator's act on a job resets its count: earlier recoveries do not count. */
void ledger_counted(struct buf *out, const char *watch, const char *job, int within)
{
	buf_add(out, "FROM (SELECT l.*, max(CASE WHEN ");
	event_marked_sql(out, "l", MARK_LETS_GO);
	buf_addf(out,
	         " OR l.rule = '" RULE_BY_HAND "' THEN l.id END) OVER (ORDER BY l.id DESC) AS spoken "
	         "FROM defib.ledger AS l WHERE l.watch = %s AND l.job = %s AND ",
	         watch, job);
	event_marked_sql(out, "l", MARK_GIVES_BACK | MARK_LETS_GO);
	buf_add(out, ") AS l WHERE ");
	event_marked_sql(out, "l", MARK_CHARGED);
	buf_addf(out, " AND l.spoken IS NULL AND " COUNTS " AND l.at > {stamp_ago $%d}", within);
}

/*
 * {"owner": …, "sign_us": …, "attempts": …} after the entry's id, which distinguishes an entry
 * without an `after` from no entry; any other content was not written by us.
 */
static void take_noted(struct noted *n, const char *note, struct arena *a)
{
	if (!note)
		return;
	json_t *after = json_read(strchr(note, ' ') + 1, 0);
	const char *owner = json_string_value(json_object_get(after, "owner"));
	const json_t *sign = json_object_get(after, "sign_us");
	const json_t *attempts = json_object_get(after, "attempts");
	*n = (struct noted){.is = true,
	                    .of_job = sign != NULL,
	                    .owner = owner ? arena_strdup(a, owner) : NULL,
	                    .has_sign = json_is_integer(sign),
	                    .sign_us = json_integer_value(sign),
	                    .has_attempts = json_is_integer(attempts),
	                    .attempts = json_integer_value(attempts)};
	json_decref(after);
}

/*
 * The newest entry of a job with one of these marks, or else the newest report, as take_noted()
 * reads it.
 */
static void add_newest(struct buf *out, unsigned marks)
{
	buf_add(out,
	        "(SELECT l.id || ' ' || coalesce(CAST(l.after AS text), '') FROM defib.ledger AS l "
	        "WHERE l.watch = u.watch AND l.job = u.job AND ");
	if (marks)
		event_marked_sql(out, "l", marks);
	else
		buf_add(out, "l.event = '" ENTRY_ZOMBIE_DETECTED "'");
	buf_add(out, " ORDER BY l.id DESC LIMIT 1)");
}

/* What is read about some jobs, and where it goes. */
struct history_reading {
	struct store *s;
	const char *table_key;
	int64_t within_us;
	struct job_index index;  /* of the jobs */
	struct history *history; /* of each */
	struct arena *a;
};

static defib_err history_read_entries(struct history_reading *h, struct relation *r,
                                      struct failure *f)
{
	struct store_rows rows;
	struct store_param within = P_INT(h->within_us);
	AUTO_BUF head = BUF_INIT;
	buf_add(&head, "SELECT u.job, (SELECT count(*) ");
	ledger_counted(&head, "u.watch", "u.job", relation_nparams(r) + 1);
	buf_add(&head, "), ");
	add_newest(&head, 0);
	buf_add(&head, ", ");
	add_newest(&head, MARK_LETS_GO);
	buf_add(&head, " FROM (");
	defib_err err = run_over(h->s, r, buf_text(&head), ") AS u", &within, 1, h->a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int at = job_index_find(&h->index, row_text(&rows, i, 0));
		if (at < 0)
			continue;
		h->history[at].recoveries = row_int(&rows, i, 1, 0);
		take_noted(&h->history[at].noted, row_text(&rows, i, 2), h->a);
		take_noted(&h->history[at].released, row_text(&rows, i, 3), h->a);
	}
	return err;
}

static defib_err history_read_holds(struct history_reading *h, struct relation *r,
                                    struct failure *f)
{
	struct store_rows rows;
	struct store_param key = P_TEXT(h->table_key);
	AUTO_BUF tail = BUF_INIT;
	buf_addf(&tail, ") AS u JOIN defib.hold AS h ON h.table_key = $%d::text AND h.job = u.job",
	         relation_nparams(r) + 1);
	defib_err err = run_over(
		h->s, r,
		"SELECT h.job, h.owner, h.sign_us, h.cause, h.reason, (SELECT l.after FROM "
		"defib.ledger AS l WHERE l.watch = h.watch AND l.job = h.job AND l.batch = h.batch AND "
		"l.event = '" ENTRY_HELD "' ORDER BY l.id DESC LIMIT 1), h.watch, {iso h.at}, h.verdict, "
		"h.sign, h.state, h.progress, h.attempts, h.actor FROM (",
		buf_text(&tail), &key, 1, h->a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int at = job_index_find(&h->index, row_text(&rows, i, 0));
		if (at < 0)
			continue;
		h->history[at].held = true;
		h->history[at].hold_owner = row_text(&rows, i, 1);
		h->history[at].hold_has_sign = row_text(&rows, i, 2) != NULL;
		h->history[at].hold_sign_us = row_int(&rows, i, 2, 0);
		h->history[at].hold_cause = row_text(&rows, i, 3);
		h->history[at].hold_reason = row_text(&rows, i, 4);
		h->history[at].hold_after = row_text(&rows, i, 5);
		h->history[at].hold_watch = row_text(&rows, i, 6);
		(void)time_parse(row_text(&rows, i, 7), &h->history[at].hold_at_us);
		h->history[at].excuse = (struct excuse){.verdict = row_text(&rows, i, 8),
		                                        .sign = row_text(&rows, i, 9),
		                                        .state = row_text(&rows, i, 10),
		                                        .progress = row_text(&rows, i, 11),
		                                        .has_attempts = row_text(&rows, i, 12) != NULL,
		                                        .attempts = row_int(&rows, i, 12, 0),
		                                        .actor = row_text(&rows, i, 13)};
	}
	return err;
}

/* What one look at each job's entries returns; most jobs have never been stuck before. */
struct known_jobs {
	const char **spoken, **held; /* jobs with operators' acts and reports to read, and with holds */
	int nspoken, nheld;
};

/*
 * How many recoveries count if no operator acted on the job, and whether there is more to read:
 * each entry is read once. NULL: there are none.
 */
static void add_summary(struct buf *out, int within)
{
	buf_add(out, "(SELECT CASE WHEN count(*) > 0 THEN count(CASE WHEN ");
	event_marked_sql(out, "l", MARK_CHARGED);
	buf_addf(out, " AND " COUNTS " AND l.at > {stamp_ago $%d}", within);
	buf_add(out, " THEN 1 END) || ' ' || max(CASE WHEN l.rule = '" RULE_BY_HAND
	             "' OR l.event = '" ENTRY_ZOMBIE_DETECTED "' OR ");
	event_marked_sql(out, "l", MARK_LETS_GO);
	buf_add(out, " THEN 1 ELSE 0 END) END FROM (SELECT l.* FROM defib.ledger AS l WHERE l.watch = "
	             "u.watch AND l.job = u.job ORDER BY l.id) AS l)");
}

static defib_err history_read_known(struct history_reading *h, struct relation *r,
                                    struct known_jobs *out, struct failure *f)
{
	struct store_param more[] = {P_INT(h->within_us), P_TEXT(h->table_key)};
	struct store_rows rows;
	AUTO_BUF head = BUF_INIT;
	buf_add(&head, "SELECT k.* FROM (SELECT u.job, ");
	add_summary(&head, relation_nparams(r) + 1);
	buf_addf(&head,
	         " AS entered, (SELECT 1 FROM defib.hold AS h WHERE h.table_key = $%d::text AND h.job "
	         "= u.job) AS held FROM (",
	         relation_nparams(r) + 2);
	defib_err err = run_over(h->s, r, buf_text(&head),
	                         ") AS u) AS k WHERE k.entered IS NOT NULL OR k.held IS NOT NULL", more,
	                         2, h->a, &rows, f);
	if (err)
		return err;
	*out = (struct known_jobs){ARENA_ARRAY(h->a, const char *, rows.nrows),
	                           ARENA_ARRAY(h->a, const char *, rows.nrows), 0, 0};
	for (int i = 0; i < rows.nrows; i++) {
		const char *job = row_text(&rows, i, 0), *entered = row_text(&rows, i, 1);
		int at = job_index_find(&h->index, job);
		if (entered && at >= 0)
			h->history[at].recoveries = strtoll(entered, NULL, 10);
		if (entered && text_eq(strchr(entered, ' '), " 1"))
			out->spoken[out->nspoken++] = job;
		if (row_text(&rows, i, 2))
			out->held[out->nheld++] = job;
	}
	return DEFIB_OK;
}

defib_err ledger_history(struct store *s, const char *watch, const char *table_key,
                         const char *const *jobs, int n, int64_t within_us, struct arena *a,
                         struct history *history, struct failure *f)
{
	struct history_reading h = {s, table_key, within_us, {0}, history, a};
	struct relation r;
	struct known_jobs known;
	memset(history, 0, sizeof *history * (size_t)n);
	if (n == 0)
		return DEFIB_OK;
	job_index_init(&h.index, jobs, n, a);
	jobs_relation(&r, s->engine, watch, jobs, n);
	defib_err err = history_read_known(&h, &r, &known, f);
	relation_release(&r);
	if (!err && known.nspoken) {
		jobs_relation(&r, s->engine, watch, known.spoken, known.nspoken);
		err = history_read_entries(&h, &r, f);
		relation_release(&r);
	}
	if (!err && known.nheld) {
		jobs_relation(&r, s->engine, watch, known.held, known.nheld);
		err = history_read_holds(&h, &r, f);
		relation_release(&r);
	}
	return err;
}

defib_err ledger_recoveries(struct store *s, const char *watch, const char *job, int64_t within_us,
                            struct arena *a, struct ledger_row **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_TEXT(job), P_INT(within_us)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT " LEDGER_ROW_COLUMNS " ");
	ledger_counted(&sql, "$1", "$2", 3);
	buf_add(&sql, " ORDER BY l.id");
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, a, &rows, f);
	if (!err)
		*out = rows_decode(&rows, a, n);
	return err;
}
