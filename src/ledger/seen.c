/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/seen.h"

#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "store/dialect.h"

#include <assert.h>
#include <inttypes.h>

/* The row of the watch: no job has an empty key and this sign. */
#define LOOK "look"

/* A time that no program of ours wrote, of a row that others wrote: it is as if there were none. */
#define TIME_MOST INT64_C(9000000000000000) /* µs since 1970: in 2255 */
#define TIME_MOST_TEXT "9000000000000000"
#define READABLE_TIME "since_us BETWEEN 0 AND " TIME_MOST_TEXT

static bool readable(int64_t us)
{
	return us >= 0 && us <= TIME_MOST;
}

static void seen_take_rows(const struct store_rows *rows, struct arena *a, struct seen_memory *out)
{
	out->all = ARENA_ARRAY(a, struct seen, rows->nrows + 1);
	for (int i = 0; i < rows->nrows; i++) {
		const struct seen one = {row_text(rows, i, 0), row_text(rows, i, 1), row_text(rows, i, 2),
		                         row_text(rows, i, 3), row_int(rows, i, 4, 0)};
		int64_t usual_us = row_int(rows, i, 2, 0);
		if (!readable(one.since_us) || !one.job || !one.what)
			continue;
		if (text_eq(one.what, LOOK))
			out->last = (struct seen_look){one.since_us, readable(usual_us) ? usual_us : 0};
		else
			out->all[out->n++] = one;
	}
}

#define COLUMNS "SELECT s.job, s.what, s.value, s.run, s.since_us FROM defib.seen AS s"

defib_err seen_read(struct store *s, const char *watch, const char *const *jobs, int njobs,
                    struct arena *a, struct seen_memory *out, struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	*out = (struct seen_memory){0};
	defib_err err = schema_has(s, "seen", &out->there, f);
	if (err || !out->there)
		return err;
	if (!jobs) {
		err = dialect_exec(s, COLUMNS " WHERE s.watch = $1", &param, 1, a, &rows, f);
	} else {
		AUTO_RELATION r = {0};
		const char **both = ARENA_ARRAY(a, const char *, njobs + 1);
		for (int i = 0; i < njobs; i++)
			both[i] = jobs[i];
		both[njobs] = "";
		jobs_relation(&r, s->engine, watch, both, njobs + 1);
		err = run_over(s, &r, COLUMNS " JOIN (", ") AS u ON s.watch = u.watch AND s.job = u.job",
		               NULL, 0, a, &rows, f);
	}
	if (!err)
		seen_take_rows(&rows, a, out);
	return err;
}

static defib_err turn_inside(struct store *s, const char *watch, const struct seen_look *was,
                             const struct seen_look *now, int64_t shift_us, bool *won,
                             struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	char usual[24];
	snprintf(usual, sizeof usual, "%" PRId64, now->usual_us);
	struct store_param params[] = {P_TEXT(watch), P_TEXT(usual), P_INT(now->at_us),
	                               P_INT(was->at_us)};
	struct store_param shift[] = {P_TEXT(watch), P_INT(shift_us)};
	/* SQLite needs a WHERE to distinguish ON CONFLICT from a join. */
	defib_err err = dialect_exec(
		s,
		"INSERT INTO defib.seen AS s (watch, job, what, value, run, since_us, at) SELECT $1::text, "
		"'', '" LOOK "', $2::text, '', $3::bigint, {now} WHERE true ON CONFLICT (watch, job, what) "
		"DO UPDATE SET value = excluded.value, since_us = excluded.since_us, at = excluded.at "
		"WHERE "
		"s.since_us = $4::bigint OR NOT s." READABLE_TIME,
		params, 4, &a, &rows, f);
	*won = !err && rows.affected > 0;
	if (err || !*won || shift_us <= 0)
		return err;
	return dialect_exec(s,
	                    "UPDATE defib.seen SET since_us = since_us + $2::bigint WHERE watch = $1 "
	                    "AND what <> '" LOOK "' AND " READABLE_TIME,
	                    shift, 2, &a, NULL, f);
}

defib_err seen_turn(struct store *s, const char *watch, const struct seen_look *was,
                    const struct seen_look *now, int64_t shift_us, bool *won, struct failure *f)
{
	*won = false;
	defib_err err = store_begin(s, TX_WRITE, f);
	return err ? err : store_end(s, turn_inside(s, watch, was, now, shift_us, won, f), f);
}

static void seen_relation(struct relation *r, const char *watch, const struct seen *all, int n)
{
	static const char *const names[] = {"watch", "job", "what", "value", "run"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(r, names[i], "text");
	relation_column(r, "since_us", "bigint");
	for (int i = 0; i < n; i++) {
		relation_text(r, watch);
		relation_text(r, all[i].job);
		relation_text(r, all[i].what);
		relation_text(r, all[i].value);
		relation_text(r, all[i].run);
		relation_int(r, all[i].since_us);
		relation_end_row(r);
	}
}

defib_err seen_put(struct store *s, const char *watch, const struct seen *all, int n,
                   struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {.engine = s->engine};
	assert(n <= SEEN_STEP);
	if (n == 0)
		return DEFIB_OK;
	seen_relation(&r, watch, all, n);
	return run_over(s, &r,
	                "INSERT INTO defib.seen (watch, job, what, value, run, since_us, at) SELECT "
	                "u.watch, u.job, u.what, u.value, u.run, u.since_us, {now} FROM (",
	                ") AS u WHERE true ON CONFLICT (watch, job, what) DO UPDATE SET value = "
	                "excluded.value, run = excluded.run, since_us = excluded.since_us, at = "
	                "excluded.at",
	                NULL, 0, a, NULL, f);
}

defib_err seen_drop(struct store *s, const char *watch, const struct seen *all, int n,
                    struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {.engine = s->engine};
	assert(n <= SEEN_STEP);
	if (n == 0)
		return DEFIB_OK;
	seen_relation(&r, watch, all, n);
	return run_over(s, &r,
	                "DELETE FROM defib.seen WHERE (watch, job, what) IN (SELECT u.watch, u.job, "
	                "u.what FROM (",
	                ") AS u)", NULL, 0, a, NULL, f);
}
