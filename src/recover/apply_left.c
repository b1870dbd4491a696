/* SPDX-License-Identifier: Apache-2.0
 * apply_left.c: what the writes of a batch left.
 *
 * How the rows are after every statement of the remedies, `also` and triggers have run is what the
 * ledger keeps as `after`, what an undo compares with, and what shows whether a remedy helped. A
 * row that is `running` as before would be found stuck again for ever.
 */
#include "recover/apply_inside.h"

#include "recover/look.h"

/*
 * Whether the row must be read again. What an UPDATE alone did, it told itself; not what triggers
 * and further statements did to the row, nor all that a hold and an undo are known by.
 */
static bool is_unknown(const struct batch *b, const struct candidate *c)
{
	const struct watch_sql *q = b->ap->sql;
	bool known = c->told && q->nwrites[c->does] == 1 && !q->binding->triggers;
	return acts(c) && q->nwrites[c->does] > 0 &&
	       (!known || c->does == REMEDY_HOLD || c->does == ACT_UNDO);
}

static bool is_left_unknown(const struct candidate *c)
{
	return c->unknown;
}

/* How those rows are now, into b->left. */
static defib_err read_left(struct batch *b, struct failure *f)
{
	struct store_rows rows;
	int n = 0;
	b->left = ARENA_ARRAY(b->arena, struct facts, b->n);
	for (int i = 0; i < b->n; i++)
		n += (b->all[i].unknown = is_unknown(b, &b->all[i]));
	if (n == 0)
		return DEFIB_OK;
	defib_err err = over_keys(b, b->ap->sql->reread, is_left_unknown, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		if (c)
			facts_decode(b->ap->sql, &rows, i, b->arena, &b->left[c - b->all]);
	}
	return err;
}

/* Acts that end a run: whoever reads the row next must not find it running. */
static bool ends_run(int act)
{
	return act == REMEDY_REQUEUE || act == REMEDY_RETRY || act == REMEDY_FAIL ||
	       act == REMEDY_ROLLBACK || act == REMEDY_HOLD || act == ACT_THEN;
}

/* Where waiting and running rows look the same, a job that is given back must look alive. */
static bool may_run_on(const struct watch *w, const struct candidate *c, const struct facts *left)
{
	bool back = c->does == REMEDY_REQUEUE || c->does == REMEDY_RETRY || c->does == ACT_THEN;
	return w->stays_running && back && judge(w, left).verdict == VERDICT_NONE;
}

static const char *why_not(struct batch *b, const struct candidate *c)
{
	if (batch_watch(b)->stays_running)
		return arena_printf(b->arena,
		                    "%s leaves it stuck: running holds and its sign of life is as old as "
		                    "before",
		                    act_name(c->does));
	return arena_printf(b->arena, "%s" REFUSED_RUNS_ON, act_name(c->does));
}

defib_err check_left(struct batch *b, struct failure *f)
{
	const struct watch *w = batch_watch(b);
	defib_err err = read_left(b, f);
	for (int i = 0; !err && i < b->n; i++) {
		struct candidate *c = &b->all[i];
		struct facts *left = &b->left[i];
		if (!left->job)
			continue;
		if (left->running && ends_run(c->does) && !may_run_on(w, c, left))
			bar(b, c, why_not(b, c));
		/* What statements of the user's own did cannot be taken back by the row's columns. */
		if (c->written)
			c->after = left->before;
		/* What was undone is held as it is now, with the owner and sign that came back. */
		if (c->does == ACT_UNDO) {
			left->hold = c->facts.hold;
			c->facts = *left;
		}
	}
	return err;
}
