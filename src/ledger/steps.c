/* steps.c: see steps.h. */
#include "ledger/steps.h"

#include "ledger/schema.h"

static const char *const step_table[] = {
	[STORE_POSTGRES] = "defib.step", [STORE_SQLITE] = "defib_step"};

/* Run a statement made for both engines: "$1" is "?1" on SQLite. */
static defib_err run(struct store *s, const char *head, const char *tail, const char *watch,
                     const char *job, const char *step, struct arena *a, struct store_rows *rows,
                     struct failure *f)
{
	const struct store_param params[] = {P_TEXT(watch), P_TEXT(job), P_TEXT(step)};
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "%s%s%s", head, step_table[s->engine], tail);
	char *text = buf_detach(&sql);
	for (char *at = text; s->engine == STORE_SQLITE && (at = strchr(at, '$')) != NULL;)
		*at = '?';
	defib_err err = store_exec(s, text, params, step ? 3 : 2, a, rows, f);
	free(text);
	return err;
}

defib_err steps_has(struct store *s, const char *watch, const char *job, const char *step,
                    struct arena *a, bool *found, struct failure *f)
{
	struct store_rows rows;
	defib_err err = schema_has(s, "step", found, f);
	if (err || !*found)
		return err;
	err = run(s, "SELECT 1 FROM ", " WHERE watch = $1 AND job = $2 AND step = $3", watch, job, step,
	          a, &rows, f);
	*found = !err && rows.nrows > 0;
	return err;
}

defib_err steps_ours(struct store *s, const char *watch, const char *job, struct arena *a,
                     bool *ours, struct failure *f)
{
	struct store_rows rows;
	struct buf tail = BUF_INIT;
	defib_err err = schema_has(s, "step", ours, f);
	if (err || !*ours)
		return err;
	buf_addf(&tail,
	         " WHERE watch = $1 AND job = $2 UNION ALL SELECT 1 FROM %s WHERE watch = "
	         "$1 AND job = $2 LIMIT 1",
	         s->engine == STORE_POSTGRES ? "defib.lease" : "defib_lease");
	err = run(s, "SELECT 1 FROM ", buf_text(&tail), watch, job, NULL, a, &rows, f);
	buf_release(&tail);
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
	return run(s, "SELECT step, epoch FROM ", " WHERE watch = $1 AND job = $2 AND state = 'done'",
	           watch, job, NULL, a, rows, f);
}

defib_err steps_put(struct store *s, const char *watch, const char *job,
                    const struct step_known *steps, int n, struct arena *a, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] =
			"INSERT INTO defib.step (watch, job, step, position, state, epoch) VALUES "
			"($1, $2, $3, $4::integer, $5, 0) ON CONFLICT DO NOTHING",
		[STORE_SQLITE] =
			"INSERT INTO defib_step (watch, job, step, position, state, epoch, "
			"finished_at) VALUES (?1, ?2, ?3, ?4, ?5, 0, " SQLITE_NOW_MS ") ON CONFLICT DO NOTHING",
	};
	bool there = false;
	defib_err err = schema_has(s, "step", &there, f);
	for (int i = 0; there && i < n && !err; i++) {
		const struct store_param params[] = {P_TEXT(watch), P_TEXT(job), P_TEXT(steps[i].step),
		                                     P_INT(steps[i].position),
		                                     P_TEXT(steps[i].again ? "again" : "done")};
		err = store_exec(s, sql[s->engine], params, 5, a, NULL, f);
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
	struct buf tail = BUF_INIT;
	buf_addf(&tail,
	         " SET state = 'again' WHERE watch = $1 AND job = $2 AND position >= (SELECT position "
	         "FROM %s WHERE watch = $1 AND job = $2 AND step = $3)",
	         step_table[s->engine]);
	err = run(s, "UPDATE ", buf_text(&tail), watch, job, step, a, NULL, f);
	buf_release(&tail);
	return err;
}
