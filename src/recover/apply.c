/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/apply_inside.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "recover/look.h"

#include <unistd.h>

#define ALONE_PAUSE_US 3000

const char *const outcome_names[] = {
#define X(id, name) name,
	OUTCOME_LIST(X)
#undef X
		NULL,
};

void add_keys(const struct batch *b, const struct candidate *c, struct relation *r)
{
	for (int k = 0; k < batch_watch(b)->key.n; k++)
		relation_text(r, c->facts.key[k]);
}

defib_err over_keys(struct batch *b, const char *sql, bool (*want)(const struct candidate *),
                    struct store_rows *rows, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_RELATION r = {0};
	keys_relation(b->ap->sql->binding, &r);
	for (int i = 0; i < b->n; i++)
		if (want(&b->all[i])) {
			add_keys(b, &b->all[i], &r);
			relation_end_row(&r);
		}
	relation_params(&r, params);
	return store_exec(b->ap->store, sql, params, relation_nparams(&r), b->arena, rows, f);
}

struct candidate *by_row(struct batch *b, const struct store_rows *rows, int row)
{
	const char *key[WATCH_KEYS_MAX];
	for (int k = 0; k < batch_watch(b)->key.n; k++)
		key[k] = row_text(rows, row, k);
	int at = job_index_find(&b->index, job_text(key, batch_watch(b)->key.n, b->arena));
	return at < 0 ? NULL : &b->all[at];
}

/* Whether another transaction holds a row that contains the job's sign of life or lease. */
static bool is_busy(const struct batch *b, const struct store_rows *rows, int row)
{
	for (int i = batch_watch(b)->key.n; i < rows->ncols; i++)
		if (row_bool(rows, row, i))
			return true;
	return false;
}

static defib_err lock_rows(struct batch *b, struct failure *f)
{
	const struct watch_sql *q = b->ap->sql;
	struct store_rows rows;
	/* SQLite locks the whole database: BEGIN IMMEDIATE was the lock. */
	bool whole = q->lock == NULL;
	for (int i = 0; i < b->n; i++)
		b->all[i].locked = whole;
	if (whole)
		return DEFIB_OK;
	const char *lock = b->ap->lock_signs && q->lock_signs ? q->lock_signs
	                   : q->lock_states                   ? q->lock_states
	                   : q->lock_leases                   ? q->lock_leases
	                                                      : q->lock;
	defib_err err = over_keys(b, lock, acts, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		if (c)
			c->locked = !is_busy(b, &rows, i);
	}
	return err;
}

/* Run a lock over no rows. */
static defib_err try_lock(struct store *s, const struct watch_sql *q, const char *sql,
                          struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct apply ap = {.store = s, .sql = q};
	struct batch none = {.ap = &ap, .arena = &a};
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = over_keys(&none, sql, acts, NULL, f);
	store_rollback(s);
	return err;
}

/* The database's answer, and not that it is away. */
static bool is_refusal(defib_err err)
{
	return err == DEFIB_PERMISSION || err == DEFIB_BAD_SQL || err == DEFIB_DATABASE;
}

static defib_err refuse_unlocked(const struct watch_sql *q, const char *because, struct failure *f)
{
	const char *name = q->binding->watch->name;
	char why[sizeof f->what];
	snprintf(why, sizeof why, "%s", because);
	fail(f, DEFIB_REFUSED,
	     "watch %s reads the state of a job in another table and cannot lock it there (%s): a job "
	     "that ends during a recovery would be overwritten",
	     name, why);
	fail_next(f,
	          q->unlockable
	              ? "write (SELECT … FROM … WHERE …) or EXISTS (SELECT …), with the job's key in "
	                "its WHERE, instead of IN (SELECT …), UNION or WITH"
	              : "grant UPDATE on that table to this role; defib doctor gives the statement");
	return DEFIB_REFUSED;
}

defib_err apply_may_lock(struct store *s, const struct watch_sql *q, bool *signs, struct failure *f)
{
	struct failure why = {0};
	*signs = false;
	if (!q->lock)
		return DEFIB_OK;
	if (q->unlockable)
		return refuse_unlocked(q, q->unlockable, f);
	defib_err err = q->lock_signs ? try_lock(s, q, q->lock_signs, &why) : DEFIB_OK;
	*signs = q->lock_signs && !err;
	if (is_refusal(err) && q->lock_states)
		err = try_lock(s, q, q->lock_states, &why);
	else if (is_refusal(err))
		return DEFIB_OK;
	if (is_refusal(err))
		return refuse_unlocked(q, why.what, f);
	if (err)
		*f = why;
	return err;
}

/* Whether the second reading found the job as it was at the decision. */
static bool is_as_decided(const struct batch *b, struct candidate *c, const struct facts *now)
{
	const struct watch_sql *q = b->ap->sql;
	/* An undo compares everything that a claim changes; other acts compare the written columns. */
	struct column_set only = {c->does == ACT_UNDO ? NULL : q->before, q->nbefore};
	if (c->expected && !columns_same(c->expected, now->before, &only, b->arena, &c->refusal))
		return false;
	/* Its old worker may be at work on it still: a retry that nobody ordered now ends here. */
	c->late = now->late && c->does == ACT_THEN && !text_eq(c->decision.rule, RULE_BY_HAND);
	if (c->late)
		return false;
	/* An undo or a second phase depends on the row as the first act left it. */
	bool by_columns = c->does == ACT_THEN || c->does == ACT_UNDO;
	return by_columns || facts_same(batch_watch(b), &c->facts, now);
}

/* If a key matches several rows, it is unknown which of them was judged. */
static const char shared_key[] = REFUSED_SHARED_KEY;

/*
 * Rows that are gone or differ from what was judged have changed; rows that exist but could not be
 * locked are locked.
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
		if (seen[c - b->all]) {
			c->outcome = OUTCOME_REFUSED;
			c->refusal = shared_key;
			continue;
		}
		seen[c - b->all] = true;
		facts_decode(b->ap->sql, &rows, i, b->arena, &now);
		c->before = now.before;
		if (!c->locked)
			c->outcome = OUTCOME_LOCKED;
		else if (!is_as_decided(b, c, &now))
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

void add_values(const struct candidate *c, const struct write_sql *w, struct relation *r)
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
	write_values(w->uses, values, WRITE_COLUMNS, r);
}

/* The whole transaction is rolled back because of it, and the batch is tried again without it. */
static void bar(struct batch *b, struct candidate *c, const char *why)
{
	b->barred += !c->barred;
	c->barred = why;
}

/*
 * Rows that the UPDATE returned were written; a trigger or policy suppressed the others. Each
 * written row must be one that the ledger will name: a row with an unknown key, or two rows for one
 * candidate, rolls everything back.
 */
static defib_err note_written(struct batch *b, int act, const struct write_sql *w,
                              const struct store_rows *rows, struct failure *f)
{
	int nkeys = batch_watch(b)->key.n;
	int strange = 0, barred = b->barred;
	for (int i = 0; i < rows->nrows; i++) {
		struct candidate *c = by_row(b, rows, i);
		strange += !c || !survives(c, act);
		if (c && c->written)
			bar(b, c, shared_key);
		if (!c)
			continue;
		c->written = true;
		c->after_known = w->tells && !row_bool(rows, i, nkeys + 1);
		c->after = c->after_known ? row_text(rows, i, nkeys) : NULL;
	}
	for (int i = 0; i < b->n; i++) {
		struct candidate *c = &b->all[i];
		if (!survives(c, act) || c->written)
			continue;
		if (strange) {
			bar(b, c, REFUSED_KEY_WRITTEN);
			continue;
		}
		c->outcome = OUTCOME_REFUSED;
		c->refusal = "a trigger or policy of the table prevented the write";
	}
	if (!strange || b->barred > barred)
		return DEFIB_OK;
	return fail(f, DEFIB_CONSTRAINT, "the write changed a row that it must not change");
}

static defib_err run_write(struct batch *b, int act, const struct write_sql *w, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	AUTO_RELATION r = {0};
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
			err = note_written(b, act, w, &rows, f);
	}
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

/*
 * A worker that is asked to stop, or whose job is marked, settles the job itself. A hold that ends
 * without a write changes nothing for the job's worker.
 */
static bool takes(const struct candidate *c)
{
	return acts(c) && c->does != ACT_CANCEL && c->does != ACT_END && c->does != ACT_LIFT;
}

static bool takes_beyond_hold(const struct candidate *c)
{
	return takes(c) && c->does != REMEDY_HOLD;
}

/* A job that is held only in our own table stays with its worker: its row did not change. */
static defib_err free_leases(struct batch *b, struct failure *f)
{
	bool untouched = !watch_writes_hold(batch_watch(b));
	if (!b->ap->sql->free_leases)
		return DEFIB_OK;
	return over_keys(b, b->ap->sql->free_leases, untouched ? takes_beyond_hold : takes, NULL, f);
}

/*
 * ---- the rows after the writes ----
 *
 * The rows after all statements of the remedies, `also` and triggers have run are what the ledger
 * stores as `after`, what an undo compares with, and what shows whether a remedy helped. A row that
 * is still `running` would be found stuck again forever.
 */

/*
 * Whether the row must be read again. An UPDATE returns what it wrote, but not what triggers and
 * further statements did to the row, nor everything that identifies a hold or an undo.
 */
static bool must_be_read(const struct batch *b, const struct candidate *c)
{
	const struct watch_sql *q = b->ap->sql;
	bool known = c->after_known && q->nwrites[c->does] == 1 && !q->binding->triggers;
	return acts(c) && q->nwrites[c->does] > 0 &&
	       (!known || c->does == REMEDY_HOLD || c->does == ACT_UNDO);
}

static bool has_unknown_row(const struct candidate *c)
{
	return c->unknown;
}

/* Read those rows into b->written. */
static defib_err read_written(struct batch *b, struct failure *f)
{
	struct store_rows rows;
	int n = 0;
	b->written = ARENA_ARRAY(b->arena, struct facts, b->n);
	for (int i = 0; i < b->n; i++)
		n += (b->all[i].unknown = must_be_read(b, &b->all[i]));
	if (n == 0)
		return DEFIB_OK;
	defib_err err = over_keys(b, b->ap->sql->reread, has_unknown_row, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct candidate *c = by_row(b, &rows, i);
		if (c)
			facts_decode(b->ap->sql, &rows, i, b->arena, &b->written[c - b->all]);
	}
	return err;
}

/* Acts that end a run: the row must not be running afterwards. */
static bool ends_run(int act)
{
	return act == REMEDY_REQUEUE || act == REMEDY_RETRY || act == REMEDY_FAIL ||
	       act == REMEDY_ROLLBACK || act == REMEDY_HOLD || act == ACT_THEN;
}

/* If waiting and running rows look the same, a requeued job must look alive. */
static bool may_run_on(const struct watch *w, const struct candidate *c, const struct facts *now)
{
	bool back = c->does == REMEDY_REQUEUE || c->does == REMEDY_RETRY || c->does == ACT_THEN;
	return w->stays_running && back && judge(w, now).verdict == VERDICT_NONE;
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

/* Read the written rows, and bar those that are still stuck. */
static defib_err check_written(struct batch *b, struct failure *f)
{
	const struct watch *w = batch_watch(b);
	defib_err err = read_written(b, f);
	for (int i = 0; !err && i < b->n; i++) {
		struct candidate *c = &b->all[i];
		struct facts *now = &b->written[i];
		if (!now->job)
			continue;
		if (now->running && ends_run(c->does) && !may_run_on(w, c, now))
			bar(b, c, why_not(b, c));
		/* The row's columns do not undo what the user's own statements did. */
		if (c->written)
			c->after = now->before;
		/* An undone job is held in its current state, with the restored owner and sign. */
		if (c->does == ACT_UNDO) {
			now->hold = c->facts.hold;
			c->facts = *now;
		}
	}
	return err;
}

/* All writes to the user's tables, and whether they helped. */
static defib_err act(struct batch *b, struct failure *f)
{
	defib_err err = lock_rows(b, f);
	if (!err)
		err = read_again(b, f);
	if (!err)
		err = gather_evidence(b, f);
	if (!err)
		err = write_acts(b, f);
	if (!err && !b->barred)
		err = free_leases(b, f);
	if (!err && !b->barred)
		err = check_written(b, f);
	return err;
}

static bool must_be_stable(const struct batch *b)
{
	for (int i = 0; i < b->n; i++)
		if (acts(&b->all[i]) && act_writes_beyond(b->ap->sql, b->all[i].does))
			return true;
	return false;
}

/*
 * A stable batch cannot add entries if others did after its snapshot. Usually they did not. If one
 * failed for that reason, the next takes the lock first. It does not wait in its transaction,
 * because its snapshot would be older than what it waited for: it begins again.
 */
static defib_err begin_alone(struct batch *b, enum store_tx mode, struct failure *f)
{
	struct store *s = b->ap->store;
	const int64_t end_ms = clock_boot_ms() + s->lock_ms;
	bool got = false;
	for (;;) {
		defib_err err = store_begin(s, mode, f);
		if (!err)
			err = ledger_try_lock(s, &got, b->arena, f);
		if (!err && got)
			return DEFIB_OK;
		store_rollback(s);
		if (err)
			return err;
		if (clock_boot_ms() > end_ms)
			return fail(f, DEFIB_LOCKED, "others keep adding entries to the ledger");
		usleep(ALONE_PAUSE_US);
	}
}

static defib_err begin_transaction(struct batch *b, enum store_tx mode, struct failure *f)
{
	if (b->stable && b->ap->entries_first && b->ap->ledger->ready)
		return begin_alone(b, mode, f);
	return store_begin(b->ap->store, mode, f);
}

/* The user's tables, and then our own. */
static defib_err in_transaction(struct batch *b, struct failure *f)
{
	bool done = false;
	defib_err err = apply_whole(b, &done, f);
	if (!err && !done)
		err = act(b, f);
	b->ap->unlocked_row = b->stable && err == DEFIB_LOCKED;
	if (!err && b->stable)
		err = store_wait_again(b->ap->store, f);
	if (!err && !b->barred && !(done && b->surprised))
		err = bar_held(b, f);
	return err || done || b->barred ? err : write_own_tables(b, f);
}

/* Candidates that remain after the transaction get their final outcome. */
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

/* Why no statement can name the row; NULL if one can. */
static const char *nameless(const struct batch *b, const struct candidate *c)
{
	for (int k = 0; k < batch_watch(b)->key.n; k++) {
		if (!c->facts.key[k])
			return "its key is NULL, so no statement can name the row";
		if (!utf8_valid(c->facts.key[k]))
			return "its key is not valid UTF-8, so no statement can name the row";
	}
	return NULL;
}

/* Initialize the batch, also for another try; returns how many must be written or recorded. */
static int begin(struct batch *b)
{
	int acting = 0;
	b->barred = b->noted = 0;
	for (int i = 0; i < b->n; i++) {
		struct candidate *c = &b->all[i];
		if (c->outcome == OUTCOME_GUARDED)
			continue;
		c->outcome = OUTCOME_LEFT;
		c->written = c->after_known = false;
		c->before = c->after = NULL;
		if (acts(c) && c->held_since) {
			c->outcome = OUTCOME_CHANGED;
			continue;
		}
		c->refusal = acts(c) ? (c->barred ? c->barred : nameless(b, c)) : NULL;
		if (c->refusal)
			c->outcome = OUTCOME_REFUSED;
		else if (acts(c) || to_be_noted(b, c))
			acting++;
		else if (c->decision.remedy == REMEDY_HOLD)
			c->outcome = OUTCOME_HELD;
	}
	return acting;
}

/* Two candidates with one key: each would match the rows of both. */
static void index_jobs(struct batch *b)
{
	const char **jobs = JOBS_OF(b->all, facts.job, b->n, b->arena);
	job_index_init(&b->index, jobs, b->n, b->arena);
	for (int i = 0; i < b->n; i++) {
		int first = job_index_find(&b->index, jobs[i]);
		if (first != i)
			b->all[first].barred = b->all[i].barred = shared_key;
	}
}

bool apply_is_by_key(const struct watch_sql *q)
{
	for (int act = 0; act < ACT_COUNT; act++)
		for (int i = 0; i < q->nwrites[act]; i++)
			if (!q->writes[act][i].returns)
				return false;
	return q->binding->key_indexed;
}

static enum store_tx mode_of(const struct batch *b)
{
	bool bulk = apply_is_by_key(b->ap->sql);
	if (b->stable)
		return bulk ? TX_STABLE_BULK : TX_STABLE;
	return bulk ? TX_BULK : TX_WRITE;
}

defib_err apply_batch(struct apply *ap, struct candidate *batch, int n, struct arena *a,
                      struct failure *f)
{
	struct batch b = {.ap = ap, .all = batch, .n = n, .arena = a};
	defib_err err = DEFIB_OK;
	bool again = false;
	index_jobs(&b);
	ap->unlocked_row = false;
	do {
		if (begin(&b) == 0)
			return DEFIB_OK;
		b.stable = must_be_stable(&b);
		err = begin_transaction(&b, mode_of(&b), f);
		if (err)
			return err;
		bool was_surprised = b.surprised;
		err = in_transaction(&b, f);
		again = b.barred || b.surprised != was_surprised;
		if (!err && !again && settle_outcomes(&b) + b.noted > 0)
			return store_commit(ap->store, f);
		store_rollback(ap->store);
		/* Each round bars at least one more candidate, or was the only one with a surprise. */
	} while (!err && again);
	return err;
}

defib_err apply_try(const struct apply *ap, struct candidate *c, struct arena *a, struct failure *f)
{
	struct apply own = *ap;
	struct batch b = {.ap = &own, .all = c, .n = 1, .arena = a};
	index_jobs(&b);
	if (begin(&b) == 0)
		return DEFIB_OK;
	b.stable = must_be_stable(&b);
	defib_err err = store_begin(ap->store, b.stable ? TX_STABLE : TX_WRITE, f);
	if (err)
		return err;
	err = act(&b, f);
	store_rollback(ap->store);
	if (c->barred) {
		c->outcome = OUTCOME_REFUSED;
		c->refusal = c->barred;
	}
	return err;
}
