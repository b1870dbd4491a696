/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/retries.h"

#include "embedded.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "store/dialect.h"

#include <assert.h>

defib_err ledger_retry_add(struct store *s, const struct ledger_context *ctx,
                           const struct pending_retry *all, int n, struct arena *a,
                           struct failure *f)
{
	static const char *const names[] = {"watch", "batch", "job", "reason", "expected"};
	AUTO_RELATION r = {.engine = s->engine};
	if (n == 0)
		return DEFIB_OK;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], i < 4 ? "text" : RELATION_JSON);
	relation_column(&r, "due_us", "bigint");
	relation_column(&r, "attempt", "bigint");
	for (int i = 0; i < n; i++) {
		const struct pending_retry *p = &all[i];
		const char *const values[] = {ctx->watch, ctx->batch, p->job, p->reason, p->expected};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		relation_int(&r, p->due_us);
		relation_int(&r, p->attempt);
		relation_end_row(&r);
	}
	/* SQLite needs a WHERE to distinguish ON CONFLICT from a join. */
	return run_over(
		s, &r,
		"INSERT INTO defib.retry (watch, batch, job, reason, expected, due_at, attempt) "
		"SELECT u.watch, u.batch, u.job, u.reason, u.expected, {instant_after u.due_us}, "
		"u.attempt FROM (",
		") AS u WHERE true ON CONFLICT (watch, job) DO UPDATE SET batch = excluded.batch, "
		"reason = excluded.reason, expected = excluded.expected, "
		"due_at = excluded.due_at, attempt = excluded.attempt, at = excluded.at",
		NULL, 0, a, NULL, f);
}

/* The columns of a pending retry `p`. */
#define PENDING                                                                                    \
	"SELECT p.job, p.reason, p.expected, p.batch, {us due_at}, p.attempt, p.watch, {iso p.at}, "   \
	"p.role "                                                                                      \
	"FROM defib.retry AS p"

static struct pending_retry *retries_take_rows(const struct store_rows *rows, struct arena *a,
                                               int *n)
{
#define M(member) ROW_MEMBER(struct pending_retry, member)
	static const struct row_member members[] = {
		M(job), M(reason), M(expected), M(batch), M(due_us), M(attempt), M(watch), M(at), M(role)};
#undef M
	return ROWS_READ(rows, members, struct pending_retry, a, n);
}

defib_err ledger_retries_of(struct store *s, const char *watch, const char *const *jobs, int njobs,
                            struct arena *a, struct pending_retry **out, int *n, struct failure *f)
{
	struct store_rows rows;
	AUTO_RELATION r = {0};
	*n = 0;
	if (njobs == 0)
		return DEFIB_OK;
	jobs_relation(&r, s->engine, watch, jobs, njobs);
	defib_err err = run_over(s, &r, PENDING " JOIN (",
	                         ") AS u ON p.watch = u.watch AND p.job = u.job", NULL, 0, a, &rows, f);
	*out = retries_take_rows(&rows, a, n);
	return err;
}

defib_err ledger_retries_due(struct store *s, const char *watch, const struct pending_retry *after,
                             int limit, struct arena *a, struct pending_retry **out, int *n,
                             struct failure *f)
{
	struct store_param params[] = {P_INT(limit), P_TEXT(watch),
	                               P_INT(after ? after->due_us : INT64_MIN),
	                               P_TEXT(after ? after->job : "")};
	struct store_rows rows;
	assert(watch && limit > 0);
	defib_err err = dialect_exec(s,
	                             PENDING " WHERE p.watch = $2 AND due_at <= {now} AND "
	                                     "({us due_at}, p.job) > ($3::bigint, $4::text) "
	                                     "ORDER BY due_at, p.job LIMIT $1",
	                             params, 4, a, &rows, f);
	*out = retries_take_rows(&rows, a, n);
	return err;
}

defib_err ledger_retries_drop(struct store *s, const char *watch, const char *const *jobs, int n,
                              struct arena *a, struct failure *f)
{
	return drop_jobs(s, "defib.retry", watch, jobs, n, a, f);
}

/* ---- steps ---- */

/* A step of a job, or, without `step`, all of them. */
struct job_step {
	const char *watch, *job, *step;
};

/* Returns no rows if there is no table of steps. */
static defib_err retries_run(struct store *s, const char *sql, const struct job_step *of,
                             struct arena *a, struct store_rows *rows, struct failure *f)
{
	const struct store_param params[] = {P_TEXT(of->watch), P_TEXT(of->job), P_TEXT(of->step)};
	bool there = false;
	*rows = (struct store_rows){0};
	defib_err err = schema_has(s, "step", &there, f);
	if (err || !there)
		return err;
	return dialect_exec(s, sql, params, of->step ? 3 : 2, a, rows, f);
}

defib_err steps_has(struct store *s, const char *watch, const char *job, const char *step,
                    struct arena *a, bool *found, struct failure *f)
{
	struct store_rows rows;
	defib_err err =
		retries_run(s, "SELECT 1 FROM defib.step WHERE watch = $1 AND job = $2 AND step = $3",
	                &(struct job_step){watch, job, step}, a, &rows, f);
	*found = rows.nrows > 0;
	return err;
}

defib_err steps_ours(struct store *s, const char *watch, const char *job, struct arena *a,
                     bool *ours, struct failure *f)
{
	struct store_rows rows;
	defib_err err = retries_run(
		s,
		"SELECT 1 FROM defib.step WHERE watch = $1 AND job = $2 UNION ALL SELECT 1 FROM "
		"defib.lease WHERE watch = $1 AND job = $2 LIMIT 1",
		&(struct job_step){watch, job, NULL}, a, &rows, f);
	*ours = rows.nrows > 0;
	return err;
}

defib_err steps_done_by(struct store *s, const char *watch, const char *job, struct arena *a,
                        struct store_rows *rows, struct failure *f)
{
	return retries_run(
		s, "SELECT step, epoch FROM defib.step WHERE watch = $1 AND job = $2 AND state = 'done'",
		&(struct job_step){watch, job, NULL}, a, rows, f);
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

/* What the records say about attempts, before the steps run again. */
static defib_err keep_finished(struct store *s, const char *watch, const char *job,
                               const char *step, struct arena *a, struct failure *f)
{
	struct store_rows rows;
	return retries_run(s, sql_steps_keep_finished, &(struct job_step){watch, job, step}, a, &rows,
	                   f);
}

defib_err steps_again(struct store *s, const char *watch, const char *job, const char *step,
                      struct arena *a, struct failure *f)
{
	struct store_rows rows;
	defib_err err = keep_finished(s, watch, job, step, a, f);
	if (err)
		return err;
	return retries_run(
		s,
		"UPDATE defib.step SET state = 'again' WHERE watch = $1 AND job = $2 AND position >= "
		"(SELECT position FROM defib.step WHERE watch = $1 AND job = $2 AND step = $3)",
		&(struct job_step){watch, job, step}, a, &rows, f);
}
