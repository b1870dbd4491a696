/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: see steps.h. */
#include "ledger/steps.h"

#include "ledger/schema.h"
#include "store/dialect.h"

static defib_err run(struct store *s, const char *sql, const char *watch, const char *job,
                     const char *step, struct arena *a, struct store_rows *rows, struct failure *f)
{
	const struct store_param params[] = {P_TEXT(watch), P_TEXT(job), P_TEXT(step)};
	return dialect_exec(s, sql, params, step ? 3 : 2, a, rows, f);
}

defib_err steps_has(struct store *s, const char *watch, const char *job, const char *step,
                    struct arena *a, bool *found, struct failure *f)
{
	struct store_rows rows;
	defib_err err = schema_has(s, "step", found, f);
	if (err || !*found)
		return err;
	err = run(s, "SELECT 1 FROM defib.step WHERE watch = $1 AND job = $2 AND step = $3", watch, job,
	          step, a, &rows, f);
	*found = !err && rows.nrows > 0;
	return err;
}

defib_err steps_ours(struct store *s, const char *watch, const char *job, struct arena *a,
                     bool *ours, struct failure *f)
{
	struct store_rows rows;
	defib_err err = schema_has(s, "step", ours, f);
	if (err || !*ours)
		return err;
	err = run(s,
	          "SELECT 1 FROM defib.step WHERE watch = $1 AND job = $2 UNION ALL SELECT 1 FROM "
	          "defib.lease WHERE watch = $1 AND job = $2 LIMIT 1",
	          watch, job, NULL, a, &rows, f);
	*ours = !err && rows.nrows > 0;
	return err;
}

defib_err steps_done_by(struct store *s, const char *watch, const char *job, struct arena *a,
                        struct store_rows *rows, struct failure *f)
{
	bool there = false;
	*rows = (struct store_rows){0};
	defib_err err = schema_has(s, "step", &there, f);
	if (err || !there)
		return err;
	return run(
		s, "SELECT step, epoch FROM defib.step WHERE watch = $1 AND job = $2 AND state = 'done'",
		watch, job, NULL, a, rows, f);
}

defib_err steps_put(struct store *s, const char *watch, const char *job,
                    const struct step_known *steps, int n, struct arena *a, struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.step (watch, job, step, position, state, epoch, finished_at) VALUES "
		"($1, $2, $3, $4::integer, $5, 0, {now}) ON CONFLICT DO NOTHING";
	bool there = false;
	defib_err err = schema_has(s, "step", &there, f);
	for (int i = 0; there && i < n && !err; i++) {
		const struct store_param params[] = {P_TEXT(watch), P_TEXT(job), P_TEXT(steps[i].step),
		                                     P_INT(steps[i].position),
		                                     P_TEXT(steps[i].again ? "again" : "done")};
		err = dialect_exec(s, sql, params, 5, a, NULL, f);
	}
	return err;
}

defib_err steps_again(struct store *s, const char *watch, const char *job, const char *step,
                      struct arena *a, struct failure *f)
{
	bool there = false;
	defib_err err = schema_has(s, "step", &there, f);
	if (err || !there)
		return err;
	return run(
		s,
		"UPDATE defib.step SET state = 'again' WHERE watch = $1 AND job = $2 AND position >= "
		"(SELECT position FROM defib.step WHERE watch = $1 AND job = $2 AND step = $3)",
		watch, job, step, a, NULL, f);
}
