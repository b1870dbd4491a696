/* SPDX-License-Identifier: Apache-2.0
 * apply_ledger.c: what a batch writes to defib's own tables: holds, retries that wait for their
 * time, and a ledger entry for every decision that was applied or met a job that had changed.
 */
#include "recover/apply_inside.h"

#include "ledger/events.h"

/* ---- evidence of every attempt, for a job that is held as poison ---- */

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

defib_err gather_evidence(struct batch *b, struct failure *f)
{
	const struct watch *w = batch_watch(b);
	defib_err err = DEFIB_OK;
	for (int i = 0; i < b->n && !err && b->ap->ledger->ready; i++) {
		struct candidate *c = &b->all[i];
		struct ledger_row *rows;
		int n = 0;
		if (!acts(c) || !text_eq(c->decision.cause, HOLD_POISON))
			continue;
		err = ledger_recoveries(b->ap->store, w->name, c->facts.job, w->crash_budget.within_us,
		                        b->arena, &rows, &n, f);
		if (!err)
			c->evidence = with_attempts(c->evidence, rows, n, b->arena);
	}
	return err;
}

/* ---- holds ---- */

/* An act, and not a hold: what it leaves is held no more. */
static bool ends_hold(const struct candidate *c)
{
	return acts(c) && c->does != REMEDY_HOLD && c->does != ACT_UNDO;
}

/* As they are now, under the locks of their rows: what `before` says of them. */
static defib_err read_ending(struct batch *b, struct failure *f)
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
		if (at >= 0)
			b->all[at].held_was = (struct hold){.job = held[i].job,
			                                    .cause = held[i].cause,
			                                    .reason = held[i].reason,
			                                    .owner = held[i].owner,
			                                    .has_sign = held[i].has_sign,
			                                    .sign_us = held[i].sign_us};
	}
	return err;
}

static void add_text(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "\"%s\":", name);
	if (value)
		buf_add_json(out, value);
	else
		buf_add(out, "null");
	buf_add(out, ",");
}

/* The row as it was read, and the hold that ends with the act. */
static const char *before_of(const struct batch *b, const struct candidate *c)
{
	const struct hold *h = &c->held_was;
	size_t len = c->before ? strlen(c->before) : 0;
	AUTO_BUF out = BUF_INIT;
	if (!ends_hold(c) || !h->job || len < 2)
		return c->before;
	buf_addn(&out, c->before, len - 1);
	buf_addf(&out, "%s\"" BEFORE_HOLD "\":{", len > 2 ? "," : "");
	add_text(&out, "cause", h->cause);
	add_text(&out, "reason", h->reason);
	add_text(&out, "owner", h->owner);
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
static const struct facts *held_as(const struct batch *b, int i)
{
	const struct candidate *c = &b->all[i];
	const struct facts *now = &b->written[i];
	if (!acts(c))
		return NULL;
	if (c->does == ACT_UNDO)
		return c->facts.running ? &c->facts : NULL;
	if (c->does != REMEDY_HOLD)
		return NULL;
	if (!watch_writes_hold(batch_watch(b)))
		return &c->facts;
	return now->job ? now : NULL;
}

static defib_err write_holds(struct batch *b, const struct ledger_context *ctx, struct failure *f)
{
	enum sign s = watch_first_sign(batch_watch(b));
	struct hold *holds = ARENA_ARRAY(b->arena, struct hold, b->n);
	const char **free = ARENA_ARRAY(b->arena, const char *, b->n);
	int n = 0, nfree = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		const struct facts *as = held_as(b, i);
		if (acts(c) && c->does == ACT_UNDO && c->held_was.job)
			holds[n++] = c->held_was;
		else if (as)
			holds[n++] = (struct hold){c->facts.job, c->decision.cause, c->reason,
			                           as->owner,    as->has_sign[s],   as->sign_us[s]};
		else if (acts(c) && c->facts.hold != HOLD_STATE_NONE)
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
	return acts(c) && c->does >= 0 && c->does < REMEDY_COUNT && c->does != REMEDY_HOLD &&
	       c->facts.hold == HOLD_STATE_NONE && !text_eq(c->decision.rule, RULE_BY_HAND);
}

defib_err bar_held(struct batch *b, struct failure *f)
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

/* ---- retries in two phases ---- */

/* A retry that met a changed job is over too: something else handled the job. */
static bool ends_retry(const struct candidate *c)
{
	return acts(c) || (c->does == ACT_THEN && c->outcome == OUTCOME_CHANGED);
}

static defib_err write_retries(struct batch *b, const struct ledger_context *ctx, struct failure *f)
{
	struct pending_retry *due = ARENA_ARRAY(b->arena, struct pending_retry, b->n);
	const char **over = ARENA_ARRAY(b->arena, const char *, b->n);
	int n = 0, nover = 0;
	if (batch_watch(b)->actions[ACT_THEN].form == ACTION_NONE)
		return DEFIB_OK;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		if (acts(c) && c->does == REMEDY_RETRY)
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

/* ---- steps ---- */

static defib_err write_steps(struct batch *b, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < b->n && !err; i++) {
		const struct candidate *c = &b->all[i];
		if (acts(c) && c->nknown)
			err = steps_put(b->ap->store, batch_watch(b)->name, c->facts.job, c->known, c->nknown,
			                b->arena, f);
		if (!err && acts(c) && c->step)
			err =
				steps_again(b->ap->store, batch_watch(b)->name, c->facts.job, c->step, b->arena, f);
	}
	return err;
}

/* ---- the ledger ---- */

#define RETRY_ENDED_LATE                                                                           \
	"its old worker went on after all (late_when): the retry that waited is cancelled"

/* A later undo must know this, even if the watch has changed by then. */
static const char *with_also(const struct batch *b, const struct candidate *c)
{
	size_t len = strlen(c->evidence);
	if (!watch_also(batch_watch(b), c->does))
		return c->evidence;
	return arena_printf(b->arena, "%.*s%s\"also\":true}", (int)len - 1, c->evidence,
	                    len > 2 ? "," : "");
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
	enum sign s = watch_first_sign(w);
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

static defib_err write_ledger(struct batch *b, const struct ledger_context *ctx, struct failure *f)
{
	struct ledger_entry *entries = ARENA_ARRAY(b->arena, struct ledger_entry, 2 * b->n);
	int n = 0;
	for (int i = 0; i < b->n; i++) {
		const struct candidate *c = &b->all[i];
		bool changed = c->decision.act && c->outcome == OUTCOME_CHANGED;
		if (to_be_noted(b, c)) {
			entries[n] = entry_of(c, act_event(REMEDY_REPORT));
			entries[n++].after = noted_as(batch_watch(b), c, b->arena);
		} else if (changed) {
			entries[n] = entry_of(c, ENTRY_CHANGED_MEANWHILE);
			if (c->late)
				entries[n].reason = RETRY_ENDED_LATE;
			n++;
		}
		b->noted += changed || to_be_noted(b, c);
		if (!acts(c))
			continue;
		if (c->decision.exhausted)
			entries[n++] = entry_of(c, ENTRY_RETRIES_EXHAUSTED);
		entries[n] = entry_of(c, c->event ? c->event : act_event(c->does));
		entries[n].evidence = with_also(b, c);
		entries[n].before = before_of(b, c);
		/* An undone hold leaves the facts that led to it; a release says that they do not count. */
		bool released = c->does == ACT_LIFT && !c->event;
		entries[n++].after = released ? noted_as(batch_watch(b), c, b->arena) : c->after;
	}
	return ledger_append(b->ap->store, ctx, entries, n, b->arena, f);
}

defib_err write_own_tables(struct batch *b, struct failure *f)
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
