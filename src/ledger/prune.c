/* SPDX-License-Identifier: Apache-2.0 */
/* prune.c: the part of retention.h that is about the ledger. */

#include "ledger/prune.h"

#include "ledger/retention.h"

#include "ledger/events.h"
#include "ledger/jobs.h"

#include <assert.h>
#include <inttypes.h>

/* The cutoff is determined once; everything after it uses ids. */
defib_err prune_cutoff(struct store *s, int64_t older_us, struct arena *a, struct prune_plan *out,
                       struct failure *f)
{
	struct store_rows rows;
	struct store_param age = P_INT(older_us);
	*out = (struct prune_plan){0};
	defib_err err = dialect_exec(s, "SELECT {iso ({stamp_ago $1})}", &age, 1, a, &rows, f);
	out->cutoff = row_text(&rows, 0, 0);
	return err;
}

defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a, struct prune_plan *out,
                     struct failure *f)
{
	/* By the primary key from its start: the first entry that is new enough ends the search. */
	static const char first_young[] =
		"SELECT coalesce((SELECT id FROM defib.ledger WHERE at >= $1::timestamptz ORDER BY id "
		"LIMIT 1), (SELECT max(id) + 1 FROM defib.ledger), 0)";
	struct store_rows rows;
	defib_err err = prune_cutoff(s, older_us, a, out, f);
	if (err)
		return err;
	struct store_param param = P_TEXT(out->cutoff);
	err = dialect_exec(s, first_young, &param, 1, a, &rows, f);
	if (err)
		return err;
	param = P_INT(row_int(&rows, 0, 0, 0));
	err = dialect_exec(s, "SELECT count(*), max(id) FROM defib.ledger WHERE id < $1", &param, 1, a,
	                   &rows, f);
	if (err)
		return err;
	out->count = row_int(&rows, 0, 0, 0);
	out->last_id = row_int(&rows, 0, 1, 0);
	return DEFIB_OK;
}

/* ---- what defib.ledger_prune() does where there are functions ---- */

/* What a part removes: entries up to `high`, whose chain ends with `seal`. */
struct prune_part {
	int64_t low, high, count;
	const char *seal;
};

/* Only whole statements: a seal over partly removed entries could never be verified again. */
static defib_err prune_choose(struct store *s, const struct prune_plan *plan, int64_t limit,
                              struct arena *a, struct prune_part *out, struct failure *f)
{
	struct store_param params[] = {P_INT(limit), P_TEXT(plan->cutoff)};
	struct store_rows rows;
	defib_err err = dialect_exec(
		s,
		"SELECT last_id, entries, seal, EXISTS (SELECT 1 FROM defib.ledger l WHERE "
		"l.id BETWEEN s.first_id AND s.last_id AND l.at >= $2) FROM defib.ledger_seal s "
		"WHERE last_id > (SELECT min(last_id) FROM defib.ledger_seal) ORDER BY last_id LIMIT $1",
		params, 2, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows && !row_bool(&rows, i, 3); i++) {
		if (out->count && out->count + row_int(&rows, i, 1, 0) > limit)
			break;
		out->count += row_int(&rows, i, 1, 0);
		out->high = row_int(&rows, i, 0, 0);
		out->seal = row_text(&rows, i, 2);
	}
	return err;
}

/* First the anchor, which permits the removal, then the entries. */
static defib_err remove_part(struct store *s, struct prune_part *p, struct arena *a,
                             struct failure *f)
{
	struct store_param high = P_INT(p->high);
	struct store_rows rows = {0};
	defib_err err =
		dialect_exec(s, "DELETE FROM defib.ledger_seal WHERE last_id < $1", &high, 1, a, NULL, f);
	if (!err)
		err = dialect_exec(s, "SELECT min(id) FROM defib.ledger WHERE id <= $1", &high, 1, a, &rows,
		                   f);
	if (err)
		return err;
	p->low = row_int(&rows, 0, 0, 0);
	err = dialect_exec(s, "DELETE FROM defib.ledger WHERE id <= $1", &high, 1, a, &rows, f);
	p->count = err ? 0 : rows.affected;
	return err;
}

static defib_err add_pruned_entry(struct store *s, const struct prune_plan *plan,
                                  const struct prune_part *p, const struct ledger_context *ctx,
                                  struct arena *a, struct failure *f)
{
	struct ledger_entry entry = {
		.job = "",
		.event = ENTRY_PRUNED,
		.reason = arena_printf(a, "%" PRId64 " %s older than %s %s removed", p->count,
	                           p->count == 1 ? "entry" : "entries", plan->cutoff,
	                           p->count == 1 ? "was" : "were"),
		.evidence =
			arena_printf(a,
	                     "{\"count\": %" PRId64 ", \"cutoff\": \"%s\", \"first_id\": %" PRId64
	                     ", \"last_id\": %" PRId64 ", \"seal\": \"%s\"}",
	                     p->count, plan->cutoff, p->low, p->high, p->seal),
	};
	return ledger_append(s, ctx, &entry, 1, a, f);
}

static defib_err prune_here(struct store *s, const struct prune_plan *plan,
                            const struct ledger_context *ctx, int64_t limit, struct arena *a,
                            int64_t *n, struct failure *f)
{
	struct prune_part part = {0};
	defib_err err = prune_choose(s, plan, limit, a, &part, f);
	if (err || part.high == 0)
		return err;
	err = remove_part(s, &part, a, f);
	if (!err && part.count)
		err = add_pruned_entry(s, plan, &part, ctx, a, f);
	*n = part.count;
	return err;
}

/* ---- both ---- */

static defib_err prune_by_function(struct store *s, const struct prune_plan *plan,
                                   const struct ledger_context *ctx, int64_t limit, struct arena *a,
                                   int64_t *n, struct failure *f)
{
	struct store_param params[] = {P_TEXT(plan->cutoff), P_INT(limit), P_TEXT(ctx->batch),
	                               P_TEXT(ctx->actor)};
	struct store_rows rows;
	defib_err err =
		store_exec(s, "SELECT defib.ledger_prune($1::timestamptz, $2::bigint, $3::text, $4::text)",
	               params, 4, a, &rows, f);
	*n = row_int(&rows, 0, 0, 0);
	if (err == DEFIB_PERMISSION)
		fail_next(f, "GRANT EXECUTE ON FUNCTION defib.ledger_prune(timestamptz, bigint, text, "
		             "text) TO …; lets this role prune");
	return err;
}

defib_err prune_part(struct store *s, const struct prune_plan *plan,
                     const struct ledger_context *ctx, int64_t limit, int64_t *removed, bool *over,
                     struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	int64_t n = 0;
	assert(limit > 0);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (!err) {
		err = store_dialect(s)->has_functions ? prune_by_function(s, plan, ctx, limit, &a, &n, f)
		                                      : prune_here(s, plan, ctx, limit, &a, &n, f);
		err = store_end(s, err, f);
	}
	if (!err)
		*removed += n;
	*over = n == 0;
	return err;
}
