/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/apply.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/history.h"
#include "ledger/jobs.h"
#include "recover/census.h"
#include "recover/excuse.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "recover/masked.h"
#include "watch/compile_whole.h"
#include "watch/compile_write.h"

#include <assert.h>
#include <unistd.h>

#define ALONE_PAUSE_US 3000
#define CHANGES_MAX 32 /* rows of a run whose change is shown */
#define PROBES_MAX 64  /* statements per batch; the remaining rows count as locked */

enum outcome act_outcome(int act)
{
	static const enum outcome outcomes[ACT_COUNT] = {
#define X(id, name, by_hand, marks, event, outcome, ...) OUTCOME_##outcome,
		REMEDY_LIST(X) ACT_LIST(X)
#undef X
	};
	assert(act >= 0 && act < ACT_COUNT);
	return outcomes[act];
}

const char *const outcome_names[] = {
#define X(id, name) name,
	OUTCOME_LIST(X)
#undef X
		NULL,
};

/* A batch under way. */
struct batch_under_way {
	struct apply *ap;
	struct candidate *all;
	int n;
	struct arena *arena;
	struct job_index index;
	/*
	 * By candidate: the row after the writes; job is NULL if it was not written, not read again, or
	 * is gone.
	 */
	struct facts *written;
	int barred;     /* candidates that must not be written after all: roll back everything */
	int noted;      /* ledger entries without a write to the table */
	bool stable;    /* its statements see one snapshot */
	bool surprised; /* the whole statement had another result than decided: roll back, then use
	                   single statements */
};

static const struct watch *batch_watch(const struct batch_under_way *b)
{
	return b->ap->sql->binding->watch;
}

/* Still to be written. */
static bool is_to_be_written(const struct candidate *c)
{
	return c->decision.act && c->outcome == OUTCOME_LEFT;
}

/* Stuck, only reported, and not yet in the ledger in its current state. */
static bool to_be_noted(const struct batch_under_way *b, const struct candidate *c)
{
	return b->ap->ledger->ready && !c->decision.act && c->does == REMEDY_REPORT &&
	       c->judgement.verdict != VERDICT_NONE && !c->judgement.waited && !c->facts.noted &&
	       !judged_excused(&c->facts, &c->judgement);
}

static void batch_add_keys(const struct batch_under_way *b, const struct candidate *c,
                           struct relation *r)
{
	for (int k = 0; k < batch_watch(b)->key.n; k++)
		relation_text(r, c->facts.key[k]);
}

static defib_err over_keys(struct batch_under_way *b, const char *sql,
                           bool (*want)(const struct candidate *), struct store_rows *rows,
                           struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_RELATION r = {0};
	keys_relation(b->ap->sql->binding, &r);
	for (int i = 0; i < b->n; i++)
		if (want(&b->all[i])) {
			batch_add_keys(b, &b->all[i], &r);
			relation_end_row(&r);
		}
	relation_params(&r, params);
	return store_exec(b->ap->store, sql, params, relation_nparams(&r), b->arena, rows, f);
}

static struct candidate *by_row(struct batch_under_way *b, const struct store_rows *rows, int row)
{
	const char *key[WATCH_KEYS_MAX];
	for (int k = 0; k < batch_watch(b)->key.n; k++)
		key[k] = row_text(rows, row, k);
	int at = job_index_find(&b->index, job_text(key, batch_watch(b)->key.n, b->arena));
	return at < 0 ? NULL : &b->all[at];
}

/* Whether another transaction holds a row that contains the job's sign of life or lease. */
static bool is_busy(const struct batch_under_way *b, const struct store_rows *rows, int row)
{
	for (int i = batch_watch(b)->key.n; i < rows->ncols; i++)
		if (row_bool(rows, row, i))
			return true;
	return false;
}

static defib_err lock_rows(struct batch_under_way *b, struct failure *f)
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
	defib_err err = over_keys(b, lock, is_to_be_written, &rows, f);
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
	struct batch_under_way none = {.ap = &ap, .arena = &a};
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = over_keys(&none, sql, is_to_be_written, NULL, f);
	store_rollback(s);
	return err;
}

/* The database's answer, and not that it is away. */
static bool is_refusal(defib_err err)
{
	return err == DEFIB_PERMISSION || store_blames_sql(err) || err == DEFIB_DATABASE;
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
	if (q->unlockable)
		fail_next(f, "write (SELECT … FROM … WHERE …) or EXISTS (SELECT …), with the job's key in "
		             "its WHERE, instead of IN (SELECT …), UNION or WITH");
	else
		fail_advise(f, ADVISE_GRANT_UPDATE, NULL);
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
static bool is_as_decided(const struct batch_under_way *b, struct candidate *c,
                          const struct facts *now)
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
	return act_has(c->does, ACT_BY_COLUMNS) || facts_same(batch_watch(b), &c->facts, now);
}

/* If a key matches several rows, it is unknown which of them was judged. */
static const char shared_key[] = REFUSED_SHARED_KEY;

/*
 * Rows that are gone or differ from what was judged have changed; rows that exist but could not be
 * locked are locked.
 */
static defib_err read_again(struct batch_under_way *b, struct failure *f)
{
	struct store_rows rows;
	defib_err err = over_keys(b, b->ap->sql->reread, is_to_be_written, &rows, f);
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
		if (is_to_be_written(&b->all[i]) && !seen[i])
			b->all[i].outcome = OUTCOME_CHANGED;
	return DEFIB_OK;
}

static bool survives(const struct candidate *c, int act)
{
	return is_to_be_written(c) && c->does == act;
}

static void batch_add_values(const struct candidate *c, const struct write_sql *w,
                             struct relation *r)
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
static void bar(struct batch_under_way *b, struct candidate *c, const char *why)
{
	b->barred += !c->barred;
	c->barred = why;
}

/*
 * Rows that the UPDATE returned were written; a trigger or policy suppressed the others. Each
 * written row must be one that the ledger will name: a row with an unknown key, or two rows for one
 * candidate, rolls everything back.
 */
static defib_err note_written(struct batch_under_way *b, int act, const struct write_sql *w,
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

static defib_err run_write(struct batch_under_way *b, int act, const struct write_sql *w,
                           struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	AUTO_RELATION r = {0};
	write_relation(b->ap->sql->binding, w, &r);
	for (int i = 0; i < b->n; i++)
		if (survives(&b->all[i], act)) {
			batch_add_keys(b, &b->all[i], &r);
			batch_add_values(&b->all[i], w, &r);
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

static defib_err write_acts(struct batch_under_way *b, struct failure *f)
{
	const struct watch_sql *q = b->ap->sql;
	defib_err err = DEFIB_OK;
	for (int act = 0; act < ACT_COUNT; act++)
		for (int i = 0; i < q->nwrites[act] && !err; i++)
			err = run_write(b, act, &q->writes[act][i], f);
	return err;
}

static bool takes_job_away(const struct candidate *c)
{
	return is_to_be_written(c) && !act_has(c->does, ACT_LEAVES);
}

static bool takes_beyond_hold(const struct candidate *c)
{
	return takes_job_away(c) && !act_has(c->does, ACT_STORED);
}

/* A job that is held only in our own table stays with its worker: its row did not change. */
static defib_err free_leases(struct batch_under_way *b, struct failure *f)
{
	bool untouched = !watch_writes_hold(batch_watch(b));
	if (!b->ap->sql->free_leases)
		return DEFIB_OK;
	return over_keys(b, b->ap->sql->free_leases, untouched ? takes_beyond_hold : takes_job_away,
	                 NULL, f);
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
static bool must_be_read(const struct batch_under_way *b, const struct candidate *c)
{
	const struct watch_sql *q = b->ap->sql;
	bool known = c->after_known && q->nwrites[c->does] == 1 && !q->binding->triggers;
	return is_to_be_written(c) && q->nwrites[c->does] > 0 &&
	       (!known || c->judgement.waited || act_has(c->does, ACT_KEEPS_HELD));
}

static bool has_unknown_row(const struct candidate *c)
{
	return c->unknown;
}

/* Read those rows into b->written. */
static defib_err read_written(struct batch_under_way *b, struct failure *f)
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

/* If waiting and running rows look the same, a requeued job must look alive. */
static bool may_run_on(const struct watch *w, const struct candidate *c, const struct facts *now)
{
	return w->stays_running && act_has(c->does, ACT_RUNS_AGAIN) &&
	       judge(w, now).verdict == VERDICT_NONE;
}

/* A row that waited must not wait as before, or the next scan would find it again. */
static bool waits_on(const struct watch *w, const struct candidate *c, const struct facts *now)
{
	const struct facts *was = &c->facts;
	struct facts again = *now;
	if (!c->judgement.waited || c->judgement.verdict == VERDICT_NONE ||
	    act_has(c->does, ACT_KEEPS_HELD) || act_has(c->does, ACT_BY_COLUMNS))
		return false;
	again.starts = was->starts;
	if (was->moved_on && now->due_us == was->next_us)
		again.due_us = was->due_us;
	return again.due_us == was->due_us && judge(w, &again).verdict != VERDICT_NONE;
}

static const char *why_not(struct batch_under_way *b, const struct candidate *c)
{
	if (batch_watch(b)->stays_running)
		return arena_printf(b->arena,
		                    "%s leaves it stuck: running holds and its sign of life is as old as "
		                    "before",
		                    act_name(c->does));
	return arena_printf(b->arena, "%s" REFUSED_RUNS_ON, act_name(c->does));
}

/* Read the written rows, and bar those that are still stuck. */
static defib_err check_written(struct batch_under_way *b, struct failure *f)
{
	const struct watch *w = batch_watch(b);
	defib_err err = read_written(b, f);
	for (int i = 0; !err && i < b->n; i++) {
		struct candidate *c = &b->all[i];
		struct facts *now = &b->written[i];
		if (!now->job)
			continue;
		if (now->running && act_has(c->does, ACT_ENDS_RUN) && !may_run_on(w, c, now))
			bar(b, c, why_not(b, c));
		else if (waits_on(w, c, now))
			bar(b, c,
			    arena_printf(b->arena, "%s leaves it as it was: it waits, and due_at is the same",
			                 act_name(c->does)));
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

/*
 * ---- defib's own tables ----
 *
 * Holds, retries that wait for their time, steps, and a ledger entry for every decision that was
 * applied or met a job that had changed.
 */

static const char *with_attempts(const char *evidence, const struct ledger_row *rows, int n,
                                 struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	size_t len = strlen(evidence);
	buf_addn(&out, evidence, len - 1); /* without the closing brace */
	buf_addf(&out, "%s\"recoveries\":[", len > 2 ? "," : "");
	for (int i = 0; i < n; i++) {
		buf_addf(&out, "%s{\"at\":", i ? "," : "");
		buf_add_json(&out, rows[i].at);
		buf_add(&out, ",\"batch\":");
		buf_add_json(&out, rows[i].batch);
		buf_add(&out, ",\"verdict\":");
		buf_add_json(&out, rows[i].verdict ? rows[i].verdict : "none");
		buf_addf(&out, ",\"evidence\":%s}", rows[i].evidence ? rows[i].evidence : "null");
	}
	buf_add(&out, "]}");
	return arena_strdup(a, buf_text(&out));
}

static defib_err gather_evidence(struct batch_under_way *b, struct failure *f)
{
	const struct watch *w = batch_watch(b);
	defib_err err = DEFIB_OK;
	for (int i = 0; i < b->n && !err && b->ap->ledger->ready; i++) {
		struct candidate *c = &b->all[i];
		struct ledger_row *rows;
		int n = 0;
		if (!is_to_be_written(c) || !text_eq(c->decision.cause, HOLD_POISON))
			continue;
		err = ledger_recoveries(b->ap->store, w->name, c->facts.job, w->crash_budget.within_us,
		                        b->arena, &rows, &n, f);
		if (!err)
			c->evidence = with_attempts(c->evidence, rows, n, b->arena);
	}
	return err;
}

/* An act, and not a hold: what it leaves is held no more. */
static bool ends_hold(const struct candidate *c)
{
	return is_to_be_written(c) && !act_has(c->does, ACT_KEEPS_HELD);
}

/* As they are now, under the locks of their rows: what `before` says of them. */
static defib_err read_ending(struct batch_under_way *b, struct failure *f)
{
	const char **jobs = ARENA_ARRAY(b->arena, const char *, b->n);
	struct held_job *held = NULL;
	int n = 0, nheld = 0;
	for (int i = 0; i < b->n; i++)
		if (ends_hold(&b->all[i]) && b->all[i].facts.hold != HOLD_STATE_NONE)
			jobs[n++] = b->all[i].facts.job;
	defib_err err = ledger_holds_of(b->ap->store, b->ap->sql->binding->table_key, jobs, n, b->arena,
	                                &held, &nheld, f);
	for (int i = 0; !err && i < nheld; i++) {
		int at = job_index_find(&b->index, held[i].job);
		/* An excuse is not made again by an undo: the row that was judged is another one then. */
		if (at >= 0 && !held[i].excuse.verdict)
			b->all[at].held_was = (struct hold){.job = held[i].job,
			                                    .cause = held[i].cause,
			                                    .reason = held[i].reason,
			                                    .owner = held[i].owner,
			                                    .has_sign = held[i].has_sign,
			                                    .sign_us = held[i].sign_us};
	}
	return err;
}

static void add_hold_text(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "\"%s\":", name);
	if (value)
		buf_add_json(out, value);
	else
		buf_add(out, "null");
	buf_add(out, ",");
}

/* The row as it was read, and the hold that ends with the act. */
static const char *before_of(const struct batch_under_way *b, const struct candidate *c)
{
	const struct hold *h = &c->held_was;
	size_t len = c->before ? strlen(c->before) : 0;
	AUTO_BUF out = BUF_INIT;
	if (!ends_hold(c) || !h->job || len < 2)
		return c->before;
	buf_addn(&out, c->before, len - 1);
	buf_addf(&out, "%s\"" BEFORE_HOLD "\":{", len > 2 ? "," : "");
	add_hold_text(&out, "cause", h->cause);
	add_hold_text(&out, "reason", h->reason);
	add_hold_text(&out, "owner", h->owner);
	if (h->has_sign)
		buf_addf(&out, "\"sign_us\":%lld}}", (long long)h->sign_us);
	else
		buf_add(&out, "\"sign_us\":null}}");
	return arena_strdup(b->arena, buf_text(&out));
}

/*
 * The facts that a hold is made for: as judged or, if the user's table also records holds, as the
 * write left the row, which no longer runs. Likewise for an undone job: it is stuck as before, and
 * no scan must recover it again. NULL: not held.
 */
static const struct facts *held_as(const struct batch_under_way *b, int i)
{
	const struct candidate *c = &b->all[i];
	const struct facts *now = &b->written[i];
	if (!is_to_be_written(c))
		return NULL;
	if (c->does == ACT_UNDO)
		return c->facts.running ? &c->facts : NULL;
	if (!act_has(c->does, ACT_KEEPS_HELD))
		return NULL;
	if (!watch_writes_hold(batch_watch(b)))
		return &c->facts;
	return now->job ? now : NULL;
}

static defib_err write_holds(struct batch_under_way *b, const struct ledger_context *ctx,
                             struct failure *f)
{
	enum sign s = watch_first_sign(batch_watch(b));
	struct hold *holds = ARENA_ARRAY(b->arena, struct hold, b->n);
	const char **free = ARENA_ARRAY(b->arena, const char *, b->n);
	int n = 0, nfree = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		const struct facts *as = held_as(b, i);
		if (is_to_be_written(c) && c->does == ACT_UNDO && c->held_was.job) {
			holds[n++] = c->held_was;
		} else if (is_to_be_written(c) && c->does == ACT_EXCUSE) {
			excuse_of(batch_watch(b), &c->facts, &c->judgement, ctx->actor, &holds[n]);
			holds[n++].reason = c->reason;
		} else if (as)
			holds[n++] = (struct hold){.job = c->facts.job,
			                           .cause = c->decision.cause,
			                           .reason = c->reason,
			                           .owner = as->owner,
			                           .has_sign = as->has_sign[s],
			                           .sign_us = as->sign_us[s]};
		else if (is_to_be_written(c) && c->facts.hold != HOLD_STATE_NONE)
			free[nfree++] = c->facts.job;
	}
	const char *table_key = b->ap->sql->binding->table_key;
	defib_err err = read_ending(b, f);
	if (!err)
		err = ledger_hold(b->ap->store, ctx, table_key, holds, n, b->arena, f);
	if (!err && nfree)
		err = ledger_holds_drop(b->ap->store, table_key, free, nfree, b->arena, f);
	return err;
}

/* An operator's act overrides a hold; a scan's earlier decision does not. */
static bool may_be_held(const struct candidate *c)
{
	return is_to_be_written(c) && c->does < REMEDY_COUNT && !act_has(c->does, ACT_KEEPS_HELD) &&
	       c->facts.hold == HOLD_STATE_NONE && !text_eq(c->decision.rule, RULE_BY_HAND);
}

static defib_err bar_held(struct batch_under_way *b, struct failure *f)
{
	const char **jobs = ARENA_ARRAY(b->arena, const char *, b->n);
	struct held_job *held = NULL;
	int n = 0, nheld = 0;
	if (!b->ap->ledger->ready)
		return DEFIB_OK;
	for (int i = 0; i < b->n; i++)
		if (may_be_held(&b->all[i]))
			jobs[n++] = b->all[i].facts.job;
	defib_err err = ledger_holds_of(b->ap->store, b->ap->sql->binding->table_key, jobs, n, b->arena,
	                                &held, &nheld, f);
	for (int i = 0; !err && i < nheld; i++) {
		int at = job_index_find(&b->index, held[i].job);
		if (at < 0)
			continue;
		b->all[at].held_since = true;
		b->barred++;
	}
	return err;
}

/* A retry that met a changed job is over too: something else handled the job. */
static bool ends_retry(const struct candidate *c)
{
	return is_to_be_written(c) || (c->does == ACT_THEN && c->outcome == OUTCOME_CHANGED);
}

static defib_err write_retries(struct batch_under_way *b, const struct ledger_context *ctx,
                               struct failure *f)
{
	struct pending_retry *due = ARENA_ARRAY(b->arena, struct pending_retry, b->n);
	const char **over = ARENA_ARRAY(b->arena, const char *, b->n);
	int n = 0, nover = 0;
	if (batch_watch(b)->actions[ACT_THEN].form == ACTION_NONE)
		return DEFIB_OK;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (is_to_be_written(c) && act_has(c->does, ACT_WAITS))
			due[n++] = (struct pending_retry){.job = c->facts.job,
			                                  .reason = c->reason,
			                                  .expected = c->after,
			                                  .due_us = c->retry_us,
			                                  .attempt = c->facts.attempts + 1};
		else if (ends_retry(c))
			over[nover++] = c->facts.job;
	}
	defib_err err = DEFIB_OK;
	if (nover)
		err = ledger_retries_drop(b->ap->store, ctx->watch, over, nover, b->arena, f);
	return err || n == 0 ? err : ledger_retry_add(b->ap->store, ctx, due, n, b->arena, f);
}

static defib_err write_steps(struct batch_under_way *b, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < b->n && !err; i++) {
		const struct candidate *c = &b->all[i];
		if (is_to_be_written(c) && c->nknown)
			err = steps_put(b->ap->store, batch_watch(b)->name, c->facts.job, c->known, c->nknown,
			                b->arena, f);
		if (!err && is_to_be_written(c) && c->step)
			err =
				steps_again(b->ap->store, batch_watch(b)->name, c->facts.job, c->step, b->arena, f);
	}
	return err;
}

#define RETRY_ENDED_LATE                                                                           \
	"its old worker went on after all (late_when): the retry that waited is cancelled"

/*
 * A later undo must know that `also` statements ran, even if the watch has changed by then; and a
 * later reader, which values of the entry repeat a masked one.
 */
static void complete(const struct batch_under_way *b, const struct candidate *c, bool also,
                     struct ledger_entry *e)
{
	AUTO_BUF more = BUF_INIT;
	size_t len = strlen(e->evidence);
	if (also)
		buf_add(&more, ",\"also\":true");
	masked_repeats(
		&c->facts,
		&(struct entry_texts){
			.reason = e->reason, .evidence = e->evidence, .before = e->before, .after = e->after},
		&more);
	if (more.len)
		e->evidence = arena_printf(b->arena, "%.*s%s}", (int)len - 1, e->evidence,
		                           buf_text(&more) + (len > 2 ? 0 : 1));
}

static struct ledger_entry entry_of(const struct candidate *c, const char *event)
{
	return (struct ledger_entry){
		.job = c->facts.job,
		.event = event,
		.verdict =
			c->judgement.verdict == VERDICT_NONE ? NULL : verdict_names[c->judgement.verdict],
		.rule = c->decision.rule,
		.reason = c->reason,
		.evidence = c->evidence,
		.has_epoch = c->facts.has_epoch,
		.epoch = c->facts.epoch,
	};
}

/*
 * With this a later scan knows that the job was already recorded, or that an operator released it.
 */
static const char *noted_as(const struct watch *w, const struct candidate *c, struct arena *a)
{
	const struct judgement *j = &c->judgement;
	/* Its worker may beat on, which is nothing new about a run that is stuck. */
	bool of_run =
		c->does == REMEDY_REPORT && j->measured && verdict_has(j->verdict, VERDICT_OF_RUN);
	enum sign s = of_run ? j->sign : watch_first_sign(w);
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, "{\"owner\":");
	if (c->facts.owner)
		buf_add_json(&out, c->facts.owner);
	else
		buf_add(&out, "null");
	if (c->facts.has_sign[s])
		buf_addf(&out, ",\"sign_us\":%lld", (long long)c->facts.sign_us[s]);
	else
		buf_add(&out, ",\"sign_us\":null");
	if (c->does == ACT_LIFT && c->facts.has_attempts)
		buf_addf(&out, ",\"attempts\":%lld", (long long)c->facts.attempts);
	buf_add(&out, "}");
	return arena_strdup(a, buf_text(&out));
}

static defib_err write_ledger(struct batch_under_way *b, const struct ledger_context *ctx,
                              struct failure *f)
{
	struct ledger_entry *entries = ARENA_ARRAY(b->arena, struct ledger_entry, 2 * b->n);
	int n = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		bool changed = c->decision.act && c->outcome == OUTCOME_CHANGED;
		if (to_be_noted(b, c)) {
			entries[n] = entry_of(c, act_event(REMEDY_REPORT));
			entries[n].after = noted_as(batch_watch(b), c, b->arena);
			complete(b, c, false, &entries[n++]);
		} else if (changed) {
			entries[n] = entry_of(c, ENTRY_CHANGED_MEANWHILE);
			if (c->late)
				entries[n].reason = RETRY_ENDED_LATE;
			complete(b, c, false, &entries[n++]);
		}
		b->noted += changed || to_be_noted(b, c);
		if (!is_to_be_written(c))
			continue;
		if (c->decision.exhausted) {
			entries[n] = entry_of(c, ENTRY_RETRIES_EXHAUSTED);
			complete(b, c, false, &entries[n++]);
		}
		entries[n] = entry_of(c, c->event ? c->event : act_event(c->does));
		entries[n].before = before_of(b, c);
		/* An undone hold leaves the facts that led to it; a release says that they do not count. */
		bool released = c->does == ACT_LIFT && !c->event;
		entries[n].after = released ? noted_as(batch_watch(b), c, b->arena) : c->after;
		complete(b, c, watch_also(batch_watch(b), c->does), &entries[n++]);
	}
	return ledger_append(b->ap->store, ctx, entries, n, b->arena, f);
}

static defib_err write_own_tables(struct batch_under_way *b, struct failure *f)
{
	const struct apply *ap = b->ap;
	struct ledger_context ctx = {batch_watch(b)->name, ap->batch, ap->actor};
	if (!ap->ledger->ready)
		return DEFIB_OK;
	defib_err err = write_holds(b, &ctx, f);
	if (!err)
		err = write_retries(b, &ctx, f);
	if (!err)
		err = write_steps(b, f);
	return err ? err : write_ledger(b, &ctx, f);
}

/*
 * ---- a batch in one statement, for the common case ----
 *
 * It locks the rows, reads the judged facts again, writes the rows that are unchanged, and adds the
 * ledger entries: no row is sent twice. If a row is locked by others, differs from what was judged,
 * or is not as expected afterwards, everything is rolled back and done by the single statements,
 * which find out why.
 */

static bool fits_whole(const struct batch_under_way *b, const struct candidate *c)
{
	return c->does >= 0 && b->ap->sql->whole[c->does] && c->outcome == OUTCOME_LEFT &&
	       !c->decision.exhausted && !c->expected && !c->event && !c->nknown && !c->step &&
	       c->facts.hold == HOLD_STATE_NONE && !c->facts.restart && !c->judgement.waited &&
	       c->evidence;
}

/* The act that all of them have in common, or -1. Candidates without an act do not matter. */
static int whole_act(const struct batch_under_way *b, int *n)
{
	int act = -1;
	*n = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (to_be_noted(b, c))
			return -1;
		if (!is_to_be_written(c))
			continue;
		if (!fits_whole(b, c) || (act >= 0 && c->does != act))
			return -1;
		act = c->does;
		++*n;
	}
	return act;
}

static struct write_value value_number(bool has, int64_t value)
{
	return (struct write_value){NULL, has, value};
}

static void add_whole_row(const struct batch_under_way *b, const struct write_sql *w, int at,
                          struct relation *r)
{
	const struct candidate *c = &b->all[at];
	const struct facts *f = &c->facts;
	struct write_value values[WHOLE_COLUMNS] = {
		[WHOLE_AT] = {NULL, true, at},
		[WHOLE_JOB] = {f->job, false, 0},
		[WHOLE_RULE] = {c->decision.rule, false, 0},
		[WHOLE_OWNER] = {f->owner, false, 0},
		[WHOLE_KIND] = {f->kind, false, 0},
		[WHOLE_STATE] = {f->state, false, 0},
		[WHOLE_PROGRESS] = {f->progress, false, 0},
		[WHOLE_ATTEMPTS] = value_number(f->has_attempts, f->attempts),
		[WHOLE_MAX_ATTEMPTS] = value_number(f->has_max_attempts, f->max_attempts),
		[WHOLE_EPOCH] = value_number(f->has_epoch, f->epoch),
		[WHOLE_WHEN] = {NULL, true, f->when},
	};
	for (int s = 0; s < SIGN_COUNT; s++)
		values[WHOLE_SIGN + s] = value_number(f->has_sign[s], f->sign_us[s]);
	for (int s = 0; s < SIGN_COUNT; s++)
		values[WHOLE_OWN + s] = value_number(f->has_own[s], f->own_us[s]);
	batch_add_keys(b, c, r);
	batch_add_values(c, w, r);
	write_values(w->facts, values, WHOLE_COLUMNS, r);
	relation_end_row(r);
}

/* The changes of some rows are shown; those of the others are only in the ledger. */
static void take_changes(struct batch_under_way *b, const struct store_rows *rows)
{
	for (int i = 0; i < rows->nrows; i++) {
		int64_t at = row_int(rows, i, 2, -1);
		if (at < 0 || at >= b->n)
			continue;
		b->all[at].before = row_text(rows, i, 3);
		b->all[at].after = row_text(rows, i, 4);
	}
}

static defib_err write_whole(struct batch_under_way *b, int act, int n, struct failure *f)
{
	const struct write_sql *w = b->ap->sql->whole[act];
	struct store_param params[RELATION_COLUMNS_MAX + LEDGER_WITH_PARAMS];
	struct ledger_context ctx = {batch_watch(b)->name, b->ap->batch, b->ap->actor};
	struct store_rows rows;
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	whole_relation(b->ap->sql->binding, w, &r);
	for (int i = 0; i < b->n; i++)
		if (is_to_be_written(&b->all[i]))
			add_whole_row(b, w, i, &r);
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

static defib_err apply_whole(struct batch_under_way *b, bool *done, struct failure *f)
{
	int n = 0, act = b->surprised || !b->ap->ledger->ready ? -1 : whole_act(b, &n);
	*done = act >= 0;
	return *done ? write_whole(b, act, n, f) : DEFIB_OK;
}

/* ---- the transaction ---- */

/* All writes to the user's tables, and whether they helped. */
static defib_err apply_by_steps(struct batch_under_way *b, struct failure *f)
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

static bool must_be_stable(const struct batch_under_way *b)
{
	for (int i = 0; i < b->n; i++)
		if (is_to_be_written(&b->all[i]) && act_writes_beyond(b->ap->sql, b->all[i].does))
			return true;
	return false;
}

/*
 * A stable batch cannot add entries if others did after its snapshot. Usually they did not. If one
 * failed for that reason, the next takes the lock first. It does not wait in its transaction,
 * because its snapshot would be older than what it waited for: it begins again.
 */
static defib_err begin_alone(struct batch_under_way *b, enum store_tx mode, struct failure *f)
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

static defib_err begin_transaction(struct batch_under_way *b, enum store_tx mode, struct failure *f)
{
	if (b->stable && b->ap->entries_first && b->ap->ledger->ready)
		return begin_alone(b, mode, f);
	return store_begin(b->ap->store, mode, f);
}

/* The user's tables, and then our own. */
static defib_err apply_in_transaction(struct batch_under_way *b, struct failure *f)
{
	bool done = false;
	defib_err err = apply_whole(b, &done, f);
	if (!err && !done)
		err = apply_by_steps(b, f);
	b->ap->unlocked_row = b->stable && err == DEFIB_LOCKED;
	if (!err && b->stable)
		err = store_wait_again(b->ap->store, f);
	if (!err && !b->barred && !(done && b->surprised))
		err = bar_held(b, f);
	return err || done || b->barred ? err : write_own_tables(b, f);
}

/* Candidates that remain after the transaction get their final outcome. */
static int settle_outcomes(struct batch_under_way *b)
{
	int written = 0;
	for (int i = 0; i < b->n; i++) {
		struct candidate *c = &b->all[i];
		if (!is_to_be_written(c))
			continue;
		c->outcome = act_outcome(c->does);
		written++;
	}
	return written;
}

/* Why no statement can name the row; NULL if one can. */
static const char *nameless(const struct batch_under_way *b, const struct candidate *c)
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
static int batch_begin(struct batch_under_way *b)
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
		if (is_to_be_written(c) && c->held_since) {
			c->outcome = OUTCOME_CHANGED;
			continue;
		}
		c->refusal = is_to_be_written(c) ? (c->barred ? c->barred : nameless(b, c)) : NULL;
		if (c->refusal)
			c->outcome = OUTCOME_REFUSED;
		else if (is_to_be_written(c) || to_be_noted(b, c))
			acting++;
		else
			c->outcome = act_outcome((int)c->decision.remedy);
	}
	return acting;
}

/* Two candidates with one key: each would match the rows of both. */
static void index_jobs(struct batch_under_way *b)
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

static enum store_tx mode_of(const struct batch_under_way *b)
{
	bool bulk = apply_is_by_key(b->ap->sql);
	if (b->stable)
		return bulk ? TX_STABLE_BULK : TX_STABLE;
	return bulk ? TX_BULK : TX_WRITE;
}

defib_err apply_batch(struct apply *ap, struct candidate *batch, int n, struct arena *a,
                      struct failure *f)
{
	struct batch_under_way b = {.ap = ap, .all = batch, .n = n, .arena = a};
	defib_err err = DEFIB_OK;
	bool again = false;
	index_jobs(&b);
	ap->unlocked_row = false;
	do {
		if (batch_begin(&b) == 0)
			return DEFIB_OK;
		b.stable = must_be_stable(&b);
		err = begin_transaction(&b, mode_of(&b), f);
		if (err)
			return err;
		bool was_surprised = b.surprised;
		err = apply_in_transaction(&b, f);
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
	struct batch_under_way b = {.ap = &own, .all = c, .n = 1, .arena = a};
	index_jobs(&b);
	if (batch_begin(&b) == 0)
		return DEFIB_OK;
	b.stable = must_be_stable(&b);
	defib_err err = store_begin(ap->store, b.stable ? TX_STABLE : TX_WRITE, f);
	if (err)
		return err;
	err = apply_by_steps(&b, f);
	store_rollback(ap->store);
	if (c->barred) {
		c->outcome = OUTCOME_REFUSED;
		c->refusal = c->barred;
	}
	return err;
}

/*
 * ---- why rows could not be locked ----
 *
 * Either another transaction holds them, or row-level security lets this role see them but not
 * write them: SKIP LOCKED leaves both out. Checked after the commit, and only if rows were left
 * out.
 */

static const char hidden[] = "row-level security lets this role see the row but not write it";

static bool is_locked(const struct candidate *c)
{
	return c->outcome == OUTCOME_LOCKED;
}

static bool is_unexplained(const struct candidate *c)
{
	return is_locked(c) && !c->blocker_pid;
}

static int count_wanted(const struct batch_under_way *b, bool (*want)(const struct candidate *))
{
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += want(&b->all[i]);
	return n;
}

/* Lock the rows of a part without waiting. False: another transaction holds one of them. */
static bool lock_now(struct batch_under_way *whole, struct batch_under_way *part)
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
static void mark_hidden(struct batch_under_way *whole, struct batch_under_way part, int *probes)
{
	int n = count_wanted(&part, is_unexplained);
	if (n == 0 || *probes >= PROBES_MAX || whole->ap->store->lost)
		return;
	++*probes;
	if (!lock_now(whole, &part)) {
		struct batch_under_way half = part;
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

static void name_blockers(struct batch_under_way *b)
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
	struct batch_under_way b = {.ap = &own, .all = batch, .n = n, .arena = a};
	struct failure ignored = {0};
	bool secured = false;
	int probes = 0;
	if (count_wanted(&b, is_locked) == 0 || !ap->sql->blockers)
		return;
	job_index_init(&b.index, JOBS_OF(batch, facts.job, n, a), n, a);
	name_blockers(&b);
	if (count_wanted(&b, is_unexplained) == 0 ||
	    row_security(ap->store, batch_watch(&b), &secured, &ignored) || !secured)
		return;
	for (int i = 0; i < n; i++)
		batch[i].locked = false;
	mark_hidden(&b, b, &probes);
}
