/* SPDX-License-Identifier: Apache-2.0
 * apply_whole.c: a batch in one statement, for the common case.
 *
 * It locks the rows, reads the judged facts again, writes the rows that are unchanged, and adds the
 * ledger entries: no row is sent twice. If a row is locked by others, differs from what was judged,
 * or is not as expected afterwards, everything is rolled back and done by the single statements,
 * which find out why.
 */
#include "recover/apply_inside.h"

#include "ledger/events.h"

#define CHANGES_MAX 32 /* rows of a run whose change is shown */

static bool fits(const struct batch *b, const struct candidate *c)
{
	return c->does >= 0 && b->ap->sql->whole[c->does] && c->outcome == OUTCOME_LEFT &&
	       !c->decision.exhausted && !c->expected && !c->event && !c->nknown && !c->step &&
	       c->facts.hold == HOLD_STATE_NONE && !c->facts.restart && c->evidence;
}

/* The act that all of them have in common, or -1. Candidates without an act do not matter. */
static int whole_act(const struct batch *b, int *n)
{
	int act = -1;
	*n = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (to_be_noted(b, c))
			return -1;
		if (!acts(c))
			continue;
		if (!fits(b, c) || (act >= 0 && c->does != act))
			return -1;
		act = c->does;
		++*n;
	}
	return act;
}

static struct write_value number(bool has, int64_t value)
{
	return (struct write_value){NULL, has, value};
}

static void add_row(const struct batch *b, const struct write_sql *w, int at, struct relation *r)
{
	const struct candidate *c = &b->all[at];
	const struct facts *f = &c->facts;
	struct write_value values[WHOLE_COLUMNS] = {
		[WHOLE_AT] = {NULL, true, at},
		[WHOLE_JOB] = {f->job, false, 0},
		[WHOLE_RULE] = {c->decision.rule, false, 0},
		[WHOLE_OWNER] = {f->owner, false, 0},
		[WHOLE_KIND] = {f->kind, false, 0},
		[WHOLE_ATTEMPTS] = number(f->has_attempts, f->attempts),
		[WHOLE_MAX_ATTEMPTS] = number(f->has_max_attempts, f->max_attempts),
		[WHOLE_EPOCH] = number(f->has_epoch, f->epoch),
		[WHOLE_WHEN] = {NULL, true, f->when},
	};
	for (int s = 0; s < SIGN_COUNT; s++)
		values[WHOLE_SIGN + s] = number(f->has_sign[s], f->sign_us[s]);
	add_keys(b, c, r);
	add_values(c, w, r);
	write_values(w->facts, values, WHOLE_COLUMNS, r);
	relation_end_row(r);
}

/* The changes of some rows are shown; those of the others are only in the ledger. */
static void take_changes(struct batch *b, const struct store_rows *rows)
{
	for (int i = 0; i < rows->nrows; i++) {
		int64_t at = row_int(rows, i, 2, -1);
		if (at < 0 || at >= b->n)
			continue;
		b->all[at].before = row_text(rows, i, 3);
		b->all[at].after = row_text(rows, i, 4);
	}
}

static defib_err write_whole(struct batch *b, int act, int n, struct failure *f)
{
	const struct write_sql *w = b->ap->sql->whole[act];
	struct store_param params[RELATION_COLUMNS_MAX + LEDGER_WITH_PARAMS];
	struct ledger_context ctx = {batch_watch(b)->name, b->ap->batch, b->ap->actor};
	struct store_rows rows;
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	whole_relation(b->ap->sql->binding, w, &r);
	for (int i = 0; i < b->n; i++)
		if (acts(&b->all[i]))
			add_row(b, w, i, &r);
	relation_params(&r, params);
	int nparams = relation_nparams(&r);
	buf_addf(&sql, "WITH defib_w AS (%s)", w->sql);
	ledger_with(&sql, nparams + 1);
	ledger_with_params(&ctx, act_event(act), n, b->ap->first ? CHANGES_MAX : 0, params + nparams);
	defib_err err = store_exec(b->ap->store, buf_text(&sql), params, nparams + LEDGER_WITH_PARAMS,
	                           b->arena, &rows, f);
	if (!err) {
		b->surprised = row_int(&rows, 0, 0, 0) != n || row_int(&rows, 0, 1, 1) != 0;
		take_changes(b, &rows);
	}
	return err;
}

defib_err apply_whole(struct batch *b, bool *done, struct failure *f)
{
	int n = 0, act = b->surprised || !b->ap->ledger->ready ? -1 : whole_act(b, &n);
	*done = act >= 0;
	return *done ? write_whole(b, act, n, f) : DEFIB_OK;
}
