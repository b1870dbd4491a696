/* apply.c: see apply.h. */
#include "recover/apply.h"

#include "base/text.h"
#include "ledger/jobs.h"
#include "recover/look.h"

#include <assert.h>

const char *const outcome_names[] = {
#define X(id, name) name,
	OUTCOME_LIST(X)
#undef X
		NULL,
};

/* A batch under way. */
struct batch {
	const struct apply *ap;
	struct candidate *all;
	int n;
	struct arena *arena;
	struct job_index index;
};

static const struct watch *watch_of(const struct batch *b)
{
	return b->ap->sql->binding->watch;
}

static bool acts(const struct candidate *c)
{
	return c->decision.act && c->outcome == OUTCOME_LEFT;
}

static void add_keys(const struct batch *b, const struct candidate *c, struct relation *r)
{
	for (int k = 0; k < watch_of(b)->key.n; k++)
		relation_text(r, c->facts.key[k]);
}

/* Run a statement over the keys of all candidates that `want` holds for. */
static defib_err over_keys(struct batch *b, const char *sql, bool (*want)(const struct candidate *),
                           struct store_rows *rows, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct relation r;
	keys_relation(b->ap->sql->binding, &r);
	for (int i = 0; i < b->n; i++)
		if (want(&b->all[i])) {
			add_keys(b, &b->all[i], &r);
			relation_end_row(&r);
		}
	relation_params(&r, params);
	defib_err err = store_exec(b->ap->store, sql, params, relation_nparams(&r), b->arena, rows, f);
	relation_release(&r);
	return err;
}

/* The candidate that a returned row is about; its key stands in the first columns. */
static struct candidate *by_row(struct batch *b, const struct store_rows *rows, int row)
{
	const char *key[WATCH_KEYS_MAX];
	for (int k = 0; k < watch_of(b)->key.n; k++)
		key[k] = row_text(rows, row, k);
	int at = job_index_find(&b->index, job_text(key, watch_of(b)->key.n, b->arena));
	return at < 0 ? NULL : &b->all[at];
}

static defib_err lock_rows(struct batch *b, struct failure *f)
{
	struct store_rows rows;
	/* SQLite locks the whole database: BEGIN IMMEDIATE was the lock. */
	bool whole = b->ap->sql->lock == NULL;
	for (int i = 0; i < b->n; i++)
		b->all[i].locked = whole;
	if (whole)
		return DEFIB_OK;
	defib_err err = over_keys(b, b->ap->sql->lock, acts, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		if (c)
			c->locked = true;
	}
	return err;
}

/*
 * Rows that are gone or differ from what was judged have changed; rows that
 * are there but not ours to lock are locked.
 */
static defib_err read_again(struct batch *b, struct failure *f)
{
	struct store_rows rows;
	defib_err err = over_keys(b, b->ap->sql->reread, acts, &rows, f);
	if (err)
		return err;
	bool *seen = ARENA_ARRAY(b->arena, bool, b->n);
	for (int i = 0; i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		struct facts now;
		if (!c)
			continue;
		seen[c - b->all] = true;
		facts_decode(b->ap->sql, &rows, i, b->arena, &now);
		c->before = now.before;
		if (!c->locked)
			c->outcome = OUTCOME_LOCKED;
		else if (!facts_same(watch_of(b), &c->facts, &now))
			c->outcome = OUTCOME_CHANGED;
	}
	for (int i = 0; i < b->n; i++)
		if (acts(&b->all[i]) && !seen[i])
			b->all[i].outcome = OUTCOME_CHANGED;
	return DEFIB_OK;
}

static bool survives(const struct candidate *c, int act)
{
	return acts(c) && c->does == act;
}

static void add_values(const struct candidate *c, const struct write_sql *w, struct relation *r)
{
	const struct facts *f = &c->facts;
	enum sign s = f->has_sign[SIGN_ALIVE]
	                  ? SIGN_ALIVE
	                  : (f->has_sign[SIGN_EXPIRES] ? SIGN_EXPIRES : SIGN_STARTED);
	const struct write_value values[WRITE_COLUMNS] = {
		[STUCK_OWNER] = {f->owner, false, 0},
		[STUCK_KIND] = {f->kind, false, 0},
		[STUCK_ATTEMPT] = {NULL, f->has_attempts, f->attempts},
		[STUCK_ALIVE_AT] = {NULL, f->has_sign[s], f->sign_us[s]},
		[STUCK_VERDICT] = {verdict_names[c->judgement.verdict], false, 0},
		[STUCK_REASON] = {c->reason, false, 0},
		[STUCK_RETRY_AT] = {NULL, c->retry_us != 0, c->retry_us},
		[STUCK_EVIDENCE] = {c->evidence, false, 0},
		[STUCK_NOW] = {NULL, true, f->now_us},
		[STUCK_STEP] = {c->step, false, 0},
		[UNDO_BEFORE] = {c->undo, false, 0},
	};
	write_values(w, values, WRITE_COLUMNS, r);
}

/* What the UPDATE returned was written; what it did not was kept back by a trigger or policy. */
static void note_written(struct batch *b, int act, const struct store_rows *rows)
{
	int nkeys = watch_of(b)->key.n;
	bool *seen = ARENA_ARRAY(b->arena, bool, b->n);
	for (int i = 0; i < rows->nrows; i++) {
		struct candidate *c = by_row(b, rows, i);
		if (!c)
			continue;
		seen[c - b->all] = true;
		c->after = row_text(rows, i, nkeys);
	}
	for (int i = 0; i < b->n; i++)
		if (survives(&b->all[i], act) && !seen[i]) {
			b->all[i].outcome = OUTCOME_REFUSED;
			b->all[i].refusal = "a trigger or policy of the table kept the write back";
		}
}

static defib_err run_write(struct batch *b, int act, const struct write_sql *w, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	struct relation r;
	write_relation(b->ap->sql->binding, w, &r);
	for (int i = 0; i < b->n; i++)
		if (survives(&b->all[i], act)) {
			add_keys(b, &b->all[i], &r);
			add_values(&b->all[i], w, &r);
			relation_end_row(&r);
		}
	defib_err err = DEFIB_OK;
	if (r.nrows > 0) {
		relation_params(&r, params);
		err = store_exec(b->ap->store, w->sql, params, relation_nparams(&r), b->arena, &rows, f);
		if (!err && w->returns)
			note_written(b, act, &rows);
	}
	relation_release(&r);
	return err;
}

static defib_err write_acts(struct batch *b, struct failure *f)
{
	const struct watch_sql *q = b->ap->sql;
	defib_err err = DEFIB_OK;
	for (int act = 0; act < ACT_COUNT; act++)
		for (int i = 0; i < q->nwrites[act] && !err; i++)
			err = run_write(b, act, &q->writes[act][i], f);
	return err;
}

static bool acts_beyond_hold(const struct candidate *c)
{
	return acts(c) && c->does != REMEDY_HOLD;
}

/* What is held in our own table alone stays its worker's: nothing of the row changed. */
static defib_err free_leases(struct batch *b, struct failure *f)
{
	bool untouched = watch_of(b)->actions[REMEDY_HOLD].form == ACTION_NONE;
	if (!b->ap->sql->free_leases)
		return DEFIB_OK;
	return over_keys(b, b->ap->sql->free_leases, untouched ? acts_beyond_hold : acts, NULL, f);
}

/* Holds that the user's table has no words for are kept in ours. */
static defib_err write_holds(struct batch *b, const struct ledger_context *ctx, struct failure *f)
{
	const struct watch *w = watch_of(b);
	enum sign s = watch_first_sign(w);
	struct hold *holds = ARENA_ARRAY(b->arena, struct hold, b->n);
	int n = 0;
	if (w->actions[REMEDY_HOLD].form != ACTION_NONE)
		return DEFIB_OK;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (survives(c, REMEDY_HOLD))
			holds[n++] = (struct hold){c->facts.job,   c->decision.cause,    c->reason,
			                           c->facts.owner, c->facts.has_sign[s], c->facts.sign_us[s]};
	}
	return ledger_hold(b->ap->store, ctx, holds, n, b->arena, f);
}

static defib_err write_ledger(struct batch *b, const struct ledger_context *ctx, struct failure *f)
{
	struct ledger_entry *entries = ARENA_ARRAY(b->arena, struct ledger_entry, b->n);
	int n = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (acts(c))
			entries[n++] = (struct ledger_entry){
				.job = c->facts.job,
				.event = c->event ? c->event : act_event(c->does),
				.verdict = verdict_names[c->judgement.verdict],
				.rule = c->decision.rule,
				.reason = c->reason,
				.evidence = c->evidence,
				.before = c->before,
				.after = c->after,
			};
	}
	return ledger_append(b->ap->store, ctx, entries, n, b->arena, f);
}

static defib_err in_transaction(struct batch *b, struct failure *f)
{
	const struct apply *ap = b->ap;
	struct ledger_context ctx = {watch_of(b)->name, ap->batch, ap->actor};
	defib_err err = lock_rows(b, f);
	if (!err)
		err = read_again(b, f);
	if (!err)
		err = write_acts(b, f);
	if (!err)
		err = free_leases(b, f);
	if (!err && ap->ledger->ready)
		err = write_holds(b, &ctx, f);
	if (!err && ap->ledger->ready)
		err = write_ledger(b, &ctx, f);
	return err;
}

/* Survivors of the transaction get their final outcome. */
static int settle_outcomes(struct batch *b)
{
	int written = 0;
	for (int i = 0; i < b->n; i++) {
		struct candidate *c = &b->all[i];
		if (!acts(c))
			continue;
		c->outcome = c->does == REMEDY_HOLD ? OUTCOME_HELD : OUTCOME_RECOVERED;
		written++;
	}
	return written;
}

static bool is_utf8(const char *text)
{
	size_t n = 1;
	for (; n && *text; text += n)
		n = utf8_len(text);
	return n > 0;
}

/* Why no statement can name a row; NULL when one can. */
static const char *nameless(const struct batch *b, const struct candidate *c)
{
	for (int k = 0; k < watch_of(b)->key.n; k++) {
		if (!c->facts.key[k])
			return "its key is NULL, so no statement can name the row";
		if (!is_utf8(c->facts.key[k]))
			return "its key is no valid UTF-8, so no statement can name the row";
	}
	return NULL;
}

defib_err apply_batch(const struct apply *ap, struct candidate *batch, int n, struct arena *a,
                      struct failure *f)
{
	struct batch b = {.ap = ap, .all = batch, .n = n, .arena = a};
	const char **jobs = ARENA_ARRAY(a, const char *, n);
	int acting = 0;
	for (int i = 0; i < n; i++) {
		jobs[i] = batch[i].facts.job;
		batch[i].outcome = OUTCOME_LEFT;
		batch[i].refusal = acts(&batch[i]) ? nameless(&b, &batch[i]) : NULL;
		if (batch[i].refusal)
			batch[i].outcome = OUTCOME_REFUSED;
		else if (acts(&batch[i]))
			acting++;
		else if (batch[i].decision.remedy == REMEDY_HOLD)
			batch[i].outcome = OUTCOME_HELD;
	}
	if (acting == 0)
		return DEFIB_OK;
	job_index_init(&b.index, jobs, n, a);
	defib_err err = store_begin(ap->store, TX_WRITE, f);
	if (err)
		return err;
	err = in_transaction(&b, f);
	if (!err && settle_outcomes(&b) > 0)
		return store_commit(ap->store, f);
	store_rollback(ap->store);
	return err;
}

static bool is_locked(const struct candidate *c)
{
	return c->outcome == OUTCOME_LOCKED;
}

void apply_blockers(const struct apply *ap, struct candidate *batch, int n, struct arena *a)
{
	struct batch b = {.ap = ap, .all = batch, .n = n, .arena = a};
	struct failure ignored = {0};
	struct store_rows rows;
	int locked = 0;
	const char **jobs = ARENA_ARRAY(a, const char *, n);
	for (int i = 0; i < n; i++) {
		jobs[i] = batch[i].facts.job;
		locked += is_locked(&batch[i]);
	}
	if (locked == 0 || !ap->sql->blockers)
		return;
	job_index_init(&b.index, jobs, n, a);
	if (over_keys(&b, ap->sql->blockers, is_locked, &rows, &ignored))
		return;
	for (int i = 0; i < rows.nrows; i++) {
		struct candidate *c = by_row(&b, &rows, i);
		if (!c)
			continue;
		c->blocker_pid = row_int(&rows, i, watch_of(&b)->key.n, 0);
		c->blocker_s = row_int(&rows, i, watch_of(&b)->key.n + 1, 0);
	}
}
