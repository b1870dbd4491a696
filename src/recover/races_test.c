/* SPDX-License-Identifier: Apache-2.0
 * races_test.c: a job that is completed, beaten, claimed again or deleted at any moment between
 * look and commit is never overwritten, with the sign of life in the row and in another table
 * (races_test.h explains how that is checked). Leases beside a table: worker/races_lease_test.c.
 */
#include "recover/races_test.h"

#define FRESH "2000000000"
#define OURS "id = $1 AND status = 'running' AND owner = 'w' || id"

/* A deed as SQL: `check` is a separate statement, which sees what `write` may have waited for. */
struct deed {
	enum look meant;
	const char *write, *check; /* the last of them returns a row if the job belonged to the rival */
};

static const struct deed row_deeds[] = {
	{LOOK_DONE, "UPDATE jobs SET status = 'done' WHERE " OURS " RETURNING id", NULL},
	{LOOK_BEATEN, "UPDATE jobs SET beat_at = " FRESH " WHERE " OURS " RETURNING id", NULL},
	{LOOK_CLAIMED,
     "UPDATE jobs SET owner = 'new', attempts = attempts + 1, beat_at = " FRESH " WHERE " OURS
     " RETURNING id",
     NULL},
	{LOOK_GONE, "DELETE FROM jobs WHERE " OURS " RETURNING id", NULL},
};

/* The job's own row does not show a beat. */
static const struct deed table_deeds[] = {
	{LOOK_DONE, "UPDATE jobs SET status = 'done' WHERE " OURS " RETURNING id", NULL},
	{LOOK_BEATEN, "UPDATE beats SET at = " FRESH " WHERE job = $1",
     "SELECT id FROM jobs WHERE " OURS},
	{LOOK_CLAIMED,
     "UPDATE jobs SET owner = 'new', attempts = attempts + 1 WHERE " OURS " RETURNING id", NULL},
	{LOOK_GONE, "DELETE FROM jobs WHERE " OURS " RETURNING id", NULL},
};

#define DEEDS (sizeof row_deeds / sizeof *row_deeds)
_Static_assert(sizeof table_deeds == sizeof row_deeds, "both tables have the same deeds");

static defib_err write_deed(struct rival *by, const struct deed *d, int at, bool *took,
                            struct failure *f)
{
	struct store_param id = P_INT(by->race->first + at);
	struct store_rows rows;
	defib_err err = store_exec(by->store, d->write, &id, 1, &by->arena, &rows, f);
	race_blink_in(by->store, &by->chance);
	if (!err && d->check)
		err = store_exec(by->store, d->check, &id, 1, &by->arena, &rows, f);
	*took = !err && rows.nrows > 0;
	return err;
}

static defib_err act(struct rival *by, const struct deed *deeds, int at, struct failure *f)
{
	struct fate *fate = &by->race->fates[at];
	const struct deed *d = &deeds[race_draw(&by->chance, DEEDS)];
	bool thinks_better = race_draw(&by->chance, 8) == 0, took = false;
	fate->meant = d->meant;
	defib_err err = store_begin(by->store, TX_WRITE, f);
	if (err)
		return err;
	err = write_deed(by, d, at, &took, f);
	race_blink_in(by->store, &by->chance);
	if (err || thinks_better) {
		store_rollback(by->store);
		return err;
	}
	err = store_commit(by->store, f);
	fate->tried = !err;
	fate->took = !err && took;
	return err;
}

static defib_err act_in_row(struct rival *by, int at, struct failure *f)
{
	return act(by, row_deeds, at, f);
}

static defib_err act_in_table(struct rival *by, int at, struct failure *f)
{
	return act(by, table_deeds, at, f);
}

static void fill(struct race *r)
{
	static const char *const numbers[] = {
		[STORE_POSTGRES] = "(SELECT i FROM generate_series(%d, %d) AS i) AS n",
		[STORE_SQLITE] = "(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i "
						 "< %d) SELECT i FROM n) AS n",
	};
	char n[160], sql[512];
	snprintf(n, sizeof n, numbers[r->rig->engine], r->first, r->first + RACE_JOBS - 1);
	snprintf(sql, sizeof sql,
	         "INSERT INTO jobs SELECT i, 'running', 'w' || i, 'a', 1, 0, 1577836800, NULL FROM %s",
	         n);
	rig_sql(r->rig, sql);
	snprintf(sql, sizeof sql, "INSERT INTO beats SELECT i, 1577836800 FROM %s", n);
	rig_sql(r->rig, sql);
}

#define LOOKS(beat)                                                                                \
	"SELECT id, status = 'done', "                                                                 \
	"status = 'running' AND owner = 'w' || id AND " beat " = " FRESH ", "                          \
	"status = 'running' AND owner = 'new' AND attempts = 2, "                                      \
	"status = 'queued' AND owner IS NULL AND attempts = 1 AND error = 'it was stuck', "            \
	"status = 'running' AND owner = 'w' || id AND attempts = 1 AND " beat " <> " FRESH             \
	" FROM jobs"
#define BEAT_IN_TABLE "(SELECT b.at FROM beats b WHERE b.job = jobs.id)"
#define CLEAR                                                                                      \
	{                                                                                              \
		{"DELETE FROM jobs", "DELETE FROM beats"}, {"DELETE FROM jobs", "DELETE FROM beats"},      \
	}

static const struct race_kind in_row = {
	fill, act_in_row, {LOOKS("beat_at"), LOOKS("beat_at")}, CLEAR};
static const struct race_kind in_table = {
	fill, act_in_table, {LOOKS(BEAT_IN_TABLE), LOOKS(BEAT_IN_TABLE)}, CLEAR};

static void race(void **state, const struct race_kind *kind, const char *alive_at)
{
	struct rig *g = *state;
	struct race r;
	if (!g->other)
		need_env("DEFIB_TEST_PG");
	rig_fill(g, 0);
	const struct watch *w = rig_watch(g, alive_at, "    batch: 10\n" RIG_REQUEUE);
	race_init(&r, g, kind);
	race_run(&r, w);
	race_release(&r);
}

static void no_rival_is_overwritten_with_the_sign_in_the_row(void **state)
{
	race(state, &in_row, "beat_at");
}

static void no_rival_is_overwritten_with_the_sign_in_another_table(void **state)
{
	race(state, &in_table, "(SELECT b.at FROM beats b WHERE b.job = t.id)");
}

RIG(NULL)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(no_rival_is_overwritten_with_the_sign_in_the_row),
		BOTH(no_rival_is_overwritten_with_the_sign_in_another_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
