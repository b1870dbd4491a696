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
	defib_err err = store_exec(s, text, params, 3, a, rows, f);
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
