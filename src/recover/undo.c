/* SPDX-License-Identifier: Apache-2.0
 * undo.c: undoes remedies, see by_hand.h.
 *
 * The ledger has the row before and after the remedy. If the row still is as the remedy left it,
 * and was not claimed or changed since, the columns are restored in a guarded write like any other.
 */

#include "recover/undo.h"

#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/orders.h"
#include "recover/by_hand.h"
#include "recover/carry.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "watch/lexer.h"

#include <jansson.h>

struct undo_under_way {
	struct session *session;
	const struct watch *watch;
	const struct undo_options *options;
	struct by_hand_result *result;
	struct bound bound;
	struct carrier carrier;
	struct arena arena;
};

static defib_err newest_change(struct undo_under_way *u, const char *job, int64_t after,
                               struct ledger_row **out, struct failure *f)
{
	struct ledger_filter filter = {
		.watch = u->watch->name, .job = job, .after_id = after, .limit = 100, .newest_first = true};
	struct ledger_row *rows;
	int n = 0;
	*out = NULL;
	defib_err err = ledger_read(u->session->store, &filter, &u->arena, &rows, &n, f);
	for (int i = 0; !err && i < n && !*out; i++)
		if (event_marked(rows[i].event, MARK_CHANGES))
			*out = &rows[i];
	return err;
}

/* It wrote nothing to the row: saying so is better than finding nothing to undo. */
static bool is_of_excuse(const struct ledger_row *row)
{
	return text_eq(row->event, ENTRY_EXCUSED) || text_eq(row->event, ENTRY_EXCUSE_ENDED);
}

/* A hold in our own table wrote nothing to the row: undoing it means releasing the job. */
static bool is_own_hold(const struct undo_under_way *u, const struct ledger_row *row)
{
	return text_eq(row->event, act_event(REMEDY_HOLD)) && !watch_writes_hold(u->watch);
}

/* Whether `also` statements ran with it: as the entry says, or, for an old entry, the watch. */
static bool had_also(const struct undo_under_way *u, const struct ledger_row *row)
{
	json_auto_t *evidence = row->evidence ? json_read(row->evidence, 0) : NULL;
	bool had = json_is_true(json_object_get(evidence, "also"));
	for (int r = 0; r < REMEDY_COUNT && !had; r++)
		had = text_eq(act_event(r), row->event) && watch_also(u->watch, r);
	return had;
}

/*
 * The epoch after the remedy, if the entry records it: a remedy may raise it. In older entries it
 * is the judged one, unless a column of `after` is part of it.
 */
static bool epoch_left(const struct undo_under_way *u, const struct ledger_row *row, int64_t *epoch)
{
	json_auto_t *after = row->after ? json_read(row->after, 0) : NULL;
	const json_t *left = json_object_get(after, ":epoch");
	const char *name;
	json_t *value;
	bool known = !left && row->has_epoch;
	*epoch = row->epoch;
	if (json_is_integer(left)) {
		*epoch = json_integer_value(left);
		known = true;
	}
	json_object_foreach(after, name, value)
	{
		const char *text = u->watch->epoch.text;
		if (!left && text && sql_names(text, u->bound.binding.engine, name))
			known = false;
	}
	return known;
}

/* Refuses the job unless everything that a claim changes is as the remedy left it. */
static void guard_claim(struct undo_under_way *u, const struct ledger_row *row, struct candidate *c)
{
	static const struct column_set all;
	const char *first = NULL;
	int64_t epoch = 0;
	int64_t now = c->facts.has_epoch ? c->facts.epoch : 0;
	if (epoch_left(u, row, &epoch) && epoch != now)
		refuse_job(c, REFUSAL_CLAIMED_SINCE,
		           arena_printf(&u->arena, "%lld and was %lld", (long long)now, (long long)epoch));
	else if (row->after && !columns_same(row->after, c->facts.before, &all, &u->arena, &first)) {
		refuse_job(c, REFUSAL_CHANGED_SINCE, first);
		c->outcome = OUTCOME_CHANGED;
	}
}

/* The hold that the act ended, as the entry keeps it. */
static struct hold ended_hold(struct undo_under_way *u, const struct ledger_row *row)
{
	json_auto_t *before = row->before ? json_read(row->before, 0) : NULL;
	const json_t *hold = json_object_get(before, BEFORE_HOLD);
	const json_t *sign = json_object_get(hold, "sign_us");
	const char *texts[] = {"cause", "reason", "owner"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *text = json_string_value(json_object_get(hold, texts[i]));
		texts[i] = text ? arena_strdup(&u->arena, text) : NULL;
	}
	if (!texts[0])
		return (struct hold){0};
	return (struct hold){.job = row->job,
	                     .cause = texts[0],
	                     .reason = texts[1],
	                     .owner = texts[2],
	                     .has_sign = json_is_integer(sign),
	                     .sign_us = json_integer_value(sign)};
}

static defib_err undo_guard(struct undo_under_way *u, const struct ledger_row *row,
                            struct candidate *c, struct failure *f)
{
	struct ledger_row *since;
	if (is_of_excuse(row)) {
		refuse_job(c, REFUSAL_EXCUSE, NULL);
		return DEFIB_OK;
	}
	defib_err err = newest_change(u, row->job, row->id, &since, f);
	if (err)
		return err;
	if (since)
		refuse_job(c, REFUSAL_CHANGED_SINCE,
		           arena_printf(&u->arena, "%s by %s since, at %s", since->event, since->actor,
		                        since->at));
	else if (text_eq(row->event, ENTRY_UNDONE))
		refuse_job(c, REFUSAL_UNDONE_ALREADY, NULL);
	else if (text_eq(row->event, ENTRY_HOLD_REVERTED))
		refuse_job(c, REFUSAL_HOLD_UNDONE_ALREADY, NULL);
	else if (had_also(u, row))
		refuse_job(c, REFUSAL_ALSO_RAN, NULL);
	else if (!is_own_hold(u, row) && (!row->before || !row->after))
		refuse_job(c, REFUSAL_OWN_STATEMENTS, NULL);
	else
		guard_claim(u, row, c);
	if (is_own_hold(u, row)) {
		c->does = ACT_LIFT;
		c->event = ENTRY_HOLD_REVERTED;
	}
	return DEFIB_OK;
}

static defib_err undo_prepare(struct undo_under_way *u, const struct ledger_row *row,
                              const struct facts *facts, struct candidate *c, struct failure *f)
{
	const struct undo_options *o = u->options;
	AUTO_BUF evidence = BUF_INIT;
	*c = (struct candidate){.facts = *facts, .judgement = judge(u->watch, facts)};
	c->decision = (struct decision){
		.remedy = REMEDY_REQUEUE, .act = true, .why = "an operator undid it", .cause = HOLD_UNDONE};
	snprintf(c->decision.rule, sizeof c->decision.rule, "undone-by-hand");
	c->does = ACT_UNDO;
	c->event = act_event(ACT_UNDO);
	c->expected = row->after;
	c->undo = row->before;
	c->held_was = ended_hold(u, row);
	c->reason = o->reason ? o->reason : "undone by hand";
	buf_add(&evidence, "{\"undone\":");
	buf_add_json(&evidence, row->event);
	buf_addf(&evidence, ",\"entry\":%lld,\"batch\":", (long long)row->id);
	buf_add_json(&evidence, row->batch);
	buf_add(&evidence, "}");
	c->evidence = arena_strdup(&u->arena, buf_text(&evidence));
	return undo_guard(u, row, c, f);
}

/*
 * An entry says what to write. Whoever may add entries for one watch may name another watch in
 * them, and a batch that is there already.
 */
static defib_err undo_refuse_foreign(struct undo_under_way *u, const struct ledger_row *rows, int n,
                                     struct candidate *out, struct failure *f)
{
	const char **roles = NULL, *role = NULL, *refusal = NULL;
	defib_err err = ledger_roles(u->session->store, rows, n, &u->arena, &roles, f);
	for (int i = 0; !err && i < n; i++) {
		if (i == 0 || !text_eq(role, roles[i]))
			err = order_check_entry(u->session->store, u->watch, roles[i], &u->arena, &refusal, f);
		role = roles[i];
		if (refusal && out[i].outcome != OUTCOME_MISSING)
			refuse_job(&out[i], REFUSAL_ENTRY_OF_ROLE,
			           arena_printf(&u->arena, "role %s: %s", role, refusal));
	}
	return err;
}

static defib_err undo_look(struct undo_under_way *u, const struct ledger_row *rows, int n,
                           struct candidate *out, struct failure *f)
{
	struct facts *facts;
	defib_err err =
		look_each(&(struct look){u->session->store, &u->bound.sql, &u->bound.ledger, &u->arena},
	              JOBS_OF(rows, job, n, &u->arena), n, &facts, f);
	for (int i = 0; !err && i < n; i++) {
		out[i] = (struct candidate){.facts = {.job = rows[i].job}, .outcome = OUTCOME_MISSING};
		if (facts[i].job)
			err = undo_prepare(u, &rows[i], &facts[i], &out[i], f);
	}
	return err ? err : undo_refuse_foreign(u, rows, n, out, f);
}

/* The changes to undo: all of a batch, or the newest of a job. */
static defib_err undo_find(struct undo_under_way *u, int64_t after, struct ledger_row **out, int *n,
                           int64_t *last, struct failure *f)
{
	const struct undo_options *o = u->options;
	struct ledger_filter filter = {
		.watch = u->watch->name, .batch = o->batch, .after_id = after, .limit = u->watch->batch};
	struct ledger_row *rows;
	int read = 0;
	*n = 0;
	if (!o->batch) {
		defib_err err = newest_change(u, o->job, 0, out, f);
		*n = !err && *out && after == 0 ? 1 : 0;
		*last = 1;
		return err;
	}
	defib_err err = ledger_read(u->session->store, &filter, &u->arena, &rows, &read, f);
	*last = !err && read > 0 ? rows[read - 1].id : 0;
	for (int i = 0; !err && i < read; i++)
		if (event_marked(rows[i].event, MARK_CHANGES) || is_of_excuse(&rows[i]))
			rows[(*n)++] = rows[i];
	*out = rows;
	return err;
}

static void undo_report_batch(struct undo_under_way *u, const struct candidate *batch, int n)
{
	for (int i = 0; i < n; i++) {
		u->result->outcomes[batch[i].outcome]++;
		if (u->options->done)
			u->options->done(u->options->ctx, u->watch, &batch[i]);
	}
}

static defib_err undo_some(struct undo_under_way *u, const struct ledger_row *rows, int n,
                           struct failure *f)
{
	struct candidate *batch = ARENA_ARRAY(&u->arena, struct candidate, n);
	defib_err err = undo_look(u, rows, n, batch, f);
	int acting = err || u->options->dry_run ? 0 : acting_first(batch, n, &u->arena);
	if (acting)
		err = carry(&u->carrier, batch, acting, &u->arena, f);
	if (!err)
		undo_report_batch(u, batch, n);
	arena_clear(&u->carrier.arena);
	return err;
}

static defib_err undo_all(struct undo_under_way *u, struct failure *f)
{
	struct ledger_row *rows;
	int64_t last = 0, after = 0;
	int n = 0;
	defib_err err = bound_open(&u->bound, u->session, u->watch,
	                           u->options->dry_run ? LEDGER_FIND : LEDGER_CREATE, f);
	u->result->ledger = u->bound.ledger.ready;
	if (!err && !u->bound.ledger.ready) {
		fail(f, DEFIB_REFUSED, "there is no ledger to undo from (%s)", u->bound.ledger.off_because);
		fail_advise(f, u->bound.ledger.off_advice, NULL);
		return DEFIB_REFUSED;
	}
	while (!err) {
		err = undo_find(u, after, &rows, &n, &last, f);
		if (err || last == 0)
			break;
		if (n > 0)
			err = undo_some(u, rows, n, f);
		after = last;
		arena_clear(&u->arena);
		if (!u->options->batch)
			break;
	}
	return err;
}

defib_err undo(struct session *session, const struct watch *w, const struct undo_options *o,
               struct by_hand_result *result)
{
	struct undo_under_way u = {.session = session, .watch = w, .options = o, .result = result};
	struct failure *f = &result->failure;
	*result = (struct by_hand_result){0};
	u.carrier = (struct carrier){
		.session = session, .sql = &u.bound.sql, .ledger = &u.bound.ledger, .opened = -1};
	carrier_begin(&u.carrier, o->actor);
	defib_err err = undo_all(&u, f);
	if (u.carrier.transactions > 0)
		snprintf(result->batch, sizeof result->batch, "%s", u.carrier.name);
	arena_release(&u.carrier.arena);
	arena_release(&u.arena);
	bound_release(&u.bound);
	f->code = err;
	return err;
}
