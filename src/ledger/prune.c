/* prune.c: see prune.h. */
#include "ledger/prune.h"

#include "ledger/tables.h"

#include <assert.h>
#include <inttypes.h>

/* The cutoff is fixed once; everything after it works with ids. */
static defib_err read_cutoff(struct store *s, int64_t older_us, struct arena *a,
                             struct prune_plan *out, struct failure *f)
{
	struct store_rows rows;
	struct store_param age = P_INT(older_us);
	struct buf sql = BUF_INIT, ago = BUF_INIT;
	add_ago(&ago, s->engine, 1);
	buf_add(&sql, "SELECT ");
	if (s->engine == STORE_POSTGRES)
		add_iso(&sql, s->engine, arena_printf(a, "(%s)", buf_text(&ago)));
	else
		buf_add(&sql, buf_text(&ago));
	defib_err err = store_exec(s, buf_text(&sql), &age, 1, a, &rows, f);
	buf_release(&sql);
	buf_release(&ago);
	if (!err)
		out->cutoff = row_text(&rows, 0, 0);
	return err;
}

defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a, struct prune_plan *out,
                     struct failure *f)
{
	/* By the primary key from its start: the first that is young enough ends the search. */
	static const char *const first_young[] = {
		[STORE_POSTGRES] = "SELECT coalesce((SELECT id FROM defib.ledger WHERE at >= "
						   "$1::timestamptz ORDER BY id LIMIT 1), "
						   "(SELECT max(id) + 1 FROM defib.ledger), 0)",
		[STORE_SQLITE] = "SELECT coalesce((SELECT id FROM defib_ledger WHERE at >= ?1 "
						 "ORDER BY id LIMIT 1), (SELECT max(id) + 1 FROM defib_ledger), 0)"};
	static const char *const count[] = {
		[STORE_POSTGRES] = "SELECT count(*), max(id) FROM defib.ledger WHERE id < $1",
		[STORE_SQLITE] = "SELECT count(*), max(id) FROM defib_ledger WHERE id < ?1"};
	struct store_rows rows;
	*out = (struct prune_plan){0};
	defib_err err = read_cutoff(s, older_us, a, out, f);
	if (err)
		return err;
	struct store_param param = P_TEXT(out->cutoff);
	err = store_exec(s, first_young[s->engine], &param, 1, a, &rows, f);
	if (err)
		return err;
	param = P_INT(row_int(&rows, 0, 0, 0));
	err = store_exec(s, count[s->engine], &param, 1, a, &rows, f);
	if (err)
		return err;
	out->count = row_int(&rows, 0, 0, 0);
	out->last_id = row_int(&rows, 0, 1, 0);
	return DEFIB_OK;
}

/* The door is open within this transaction only. */
static defib_err open_door(struct store *s, bool open, struct arena *a, struct failure *f)
{
	static const char *const statements[][2] = {
		[STORE_POSTGRES] = {"SELECT set_config('defib.retention', 'off', true)",
	                        "SELECT set_config('defib.retention', 'on', true)"},
		[STORE_SQLITE] = {"DELETE FROM defib_retention", "INSERT INTO defib_retention VALUES (1)"}};
	return store_exec(s, statements[s->engine][open], NULL, 0, a, NULL, f);
}

static defib_err remove_some(struct store *s, const struct prune_plan *plan, int64_t limit,
                             struct arena *a, int64_t *n, struct failure *f)
{
	static const char *const statements[] = {
		[STORE_POSTGRES] = "DELETE FROM defib.ledger WHERE id = ANY (ARRAY(SELECT id FROM "
						   "defib.ledger WHERE id <= $1 ORDER BY id LIMIT $2))",
		[STORE_SQLITE] = "DELETE FROM defib_ledger WHERE id IN (SELECT id FROM defib_ledger "
						 "WHERE id <= ?1 ORDER BY id LIMIT ?2)"};
	struct store_param params[] = {P_INT(plan->last_id), P_INT(limit)};
	struct store_rows rows = {0};
	defib_err err = open_door(s, true, a, f);
	if (!err)
		err = store_exec(s, statements[s->engine], params, 2, a, &rows, f);
	if (!err)
		err = open_door(s, false, a, f);
	if (!err)
		*n = rows.affected;
	return err;
}

static defib_err say_so(struct store *s, const struct prune_plan *plan,
                        const struct ledger_context *ctx, struct arena *a, struct failure *f)
{
	struct ledger_entry entry = {
		.job = "",
		.event = "PRUNED",
		.reason = arena_printf(a, "%" PRId64 " entries older than %s were removed", plan->count,
	                           plan->cutoff),
		.evidence = arena_printf(a,
	                             "{\"count\": %" PRId64 ", \"cutoff\": \"%s\", \"last_id\": "
	                             "%" PRId64 "}",
	                             plan->count, plan->cutoff, plan->last_id),
	};
	return ledger_append(s, ctx, &entry, 1, a, f);
}

defib_err prune_part(struct store *s, const struct prune_plan *plan,
                     const struct ledger_context *ctx, int64_t limit, int64_t *removed, bool *over,
                     struct failure *f)
{
	struct arena a = ARENA_INIT;
	int64_t n = 0;
	assert(limit > 0 && plan->count > 0);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err) {
		err = remove_some(s, plan, limit, &a, &n, f);
		if (!err && *removed == 0 && n > 0)
			err = say_so(s, plan, ctx, &a, f);
		if (!err)
			err = store_commit(s, f);
		else
			store_rollback(s);
	}
	if (!err)
		*removed += n;
	*over = n < limit;
	arena_release(&a);
	return err;
}
