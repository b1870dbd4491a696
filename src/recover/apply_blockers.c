/* SPDX-License-Identifier: Apache-2.0
 * apply_blockers.c: why rows could not be locked. Either another transaction holds them, or
 * row-level security lets this role see them but not write them: SKIP LOCKED leaves both out.
 * Checked after the commit, and only if rows were left out.
 */
#include "recover/apply_inside.h"

#include "recover/census.h"

#define PROBES_MAX 64 /* statements per batch; the remaining rows count as locked */

static const char hidden[] =
	"row-level security lets this role see the row but not write it; run defib doctor";

static bool is_locked(const struct candidate *c)
{
	return c->outcome == OUTCOME_LOCKED;
}

static bool is_unexplained(const struct candidate *c)
{
	return is_locked(c) && !c->blocker_pid;
}

static int count(const struct batch *b, bool (*want)(const struct candidate *))
{
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += want(&b->all[i]);
	return n;
}

/* Lock the rows of a part without waiting. False: another transaction holds one of them. */
static bool lock_now(struct batch *whole, struct batch *part)
{
	struct store *s = whole->ap->store;
	struct failure ignored = {0};
	struct store_rows rows;
	if (store_begin(s, TX_WRITE, &ignored))
		return false;
	defib_err err = over_keys(part, whole->ap->sql->lock_now, is_unexplained, &rows, &ignored);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct candidate *c = by_row(whole, &rows, i);
		if (c)
			c->locked = true;
	}
	store_rollback(s);
	return !err;
}

/* A row that is not locked by others, and yet is not returned, is hidden from writers. */
static void mark_hidden(struct batch *whole, struct batch part, int *probes)
{
	int n = count(&part, is_unexplained);
	if (n == 0 || *probes >= PROBES_MAX || whole->ap->store->lost)
		return;
	++*probes;
	if (!lock_now(whole, &part)) {
		struct batch half = part;
		half.n = part.n / 2;
		part.all += half.n;
		part.n -= half.n;
		if (half.n == 0)
			return; /* a single row, which another transaction holds */
		mark_hidden(whole, half, probes);
		mark_hidden(whole, part, probes);
		return;
	}
	for (int i = 0; i < part.n; i++) {
		struct candidate *c = &part.all[i];
		if (!is_unexplained(c) || c->locked)
			continue;
		c->outcome = OUTCOME_REFUSED;
		c->refusal = hidden;
	}
}

static void name_blockers(struct batch *b)
{
	struct failure ignored = {0};
	struct store_rows rows;
	int nkeys = batch_watch(b)->key.n;
	if (over_keys(b, b->ap->sql->blockers, is_locked, &rows, &ignored))
		return;
	for (int i = 0; i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		if (!c)
			continue;
		c->blocker_pid = row_int(&rows, i, nkeys, 0);
		c->blocker_s = row_int(&rows, i, nkeys + 1, 0);
	}
}

void apply_blockers(const struct apply *ap, struct candidate *batch, int n, struct arena *a)
{
	struct apply own = *ap;
	struct batch b = {.ap = &own, .all = batch, .n = n, .arena = a};
	struct failure ignored = {0};
	bool secured = false;
	int probes = 0;
	if (count(&b, is_locked) == 0 || !ap->sql->blockers)
		return;
	job_index_init(&b.index, JOBS_OF(batch, facts.job, n, a), n, a);
	name_blockers(&b);
	if (count(&b, is_unexplained) == 0 ||
	    row_security(ap->store, batch_watch(&b), &secured, &ignored) || !secured)
		return;
	for (int i = 0; i < n; i++)
		batch[i].locked = false;
	mark_hidden(&b, b, &probes);
}
