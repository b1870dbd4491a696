/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: what all sources share; see source.h. */

#include "worker/source.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "worker/token.h"

const char *const settle_names[] = {
#define X(id, name) name,
	SETTLE_LIST(X)
#undef X
		NULL,
};

void source_tokens(const struct store *s, struct claimed *all, int n)
{
	for (int i = 0; i < n; i++) {
		all[i].timeline = s->timeline.number;
		all[i].nonce = token_nonce();
	}
}

defib_err source_keys(struct store *s, const char *sql, int64_t worker, struct arena *a,
                      struct settlement **out, int *n, struct failure *f)
{
	static const struct row_member members[] = {ROW_MEMBER(struct settlement, key),
	                                            ROW_MEMBER(struct settlement, epoch)};
	struct store_param param = P_INT(worker);
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, &param, 1, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct settlement, a, n);
	return err;
}

/* ---- a turn, using only what every source has ---- */

static defib_err source_ask_questions(struct source *src, struct store *s, struct turn_part *p,
                                      struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	if (p->promote)
		err = src->ops->promote(src, s, f);
	if (!err && p->cancels)
		err = src->ops->cancelling(src, s, p->claimer, a, &p->cancelling, &p->ncancelling, f);
	if (!err && p->compares)
		err = src->ops->owned(src, s, p->claimer, a, &p->has, &p->nhas, f);
	return err;
}

/* Claims come last: if something failed after a claim had committed, its result would be lost. */
static defib_err source_claim(struct source *src, struct store *s, struct turn_part *p,
                              struct arena *a, struct failure *f)
{
	if (p->room <= 0)
		return DEFIB_OK;
	defib_err err = src->ops->claim(src, s, p->claimer, p->room, a, &p->claims, &p->nclaims, f);
	if (err == DEFIB_LEASE_LOST && !s->tx_failed && !s->lost) {
		p->gone = true;
		return DEFIB_OK;
	}
	return err;
}

static void forget_answers(struct turn_part *p)
{
	p->gone = false;
	p->nclaims = p->ncancelling = p->nhas = 0;
}

static defib_err in_one_transaction(struct source *src, struct store *s, struct turn_part *p,
                                    bool only_ends, struct arena *a, struct failure *f)
{
	bool asks = p->claimer && !only_ends;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = src->ops->settle(src, s, p->worker, p->ends, p->nends, a, f);
	/* A query may fail for reasons that do not concern the ends. */
	bool recordable = !err;
	if (!err && asks)
		err = source_ask_questions(src, s, p, a, f);
	if (!err && asks)
		err = source_claim(src, s, p, a, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	forget_answers(p);
	if (!recordable || !asks || s->lost)
		return err;
	fail_clear(f);
	return in_one_transaction(src, s, p, true, a, f);
}

defib_err source_turn_by_parts(struct source *src, struct store *s, struct turn_part *p,
                               struct arena *a, struct failure *f)
{
	if (p->nends > 0)
		return in_one_transaction(src, s, p, false, a, f);
	/* With nothing to write, no lock is taken before there is something to claim. */
	defib_err err = p->claimer ? source_ask_questions(src, s, p, a, f) : DEFIB_OK;
	return err || !p->claimer ? err : source_claim(src, s, p, a, f);
}

defib_err source_turn(struct source *src, struct store *s, struct turn_part *p, struct arena *a)
{
	forget_answers(p);
	p->f = p->beat_f = (struct failure){0};
	p->beat_err = DEFIB_OK;
	p->err = (src->ops->turn ? src->ops->turn : source_turn_by_parts)(src, s, p, a, &p->f);
	p->away = store_unavailable(p->err);
	source_tokens(s, p->claims, p->err ? 0 : p->nclaims);
	if (p->err)
		forget_answers(p);
	else if (p->nbeats > 0 && p->claimer && !p->gone)
		p->beat_err = src->ops->beat(src, s, p->claimer, p->beats, p->nbeats, a, &p->beat_f);
	return p->err;
}
