/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/background_acts.h"

#include "base/log.h"
#include "daemon/database_loop.h"
#include "ledger/orders.h"
#include "recover/carry.h"
#include "view/job.h"
#include "worker/wake.h"

#define LOOK_MS 1000  /* between looks for new acts */
#define TURN_MS 250   /* that a database loop can spare */
#define SLICE_MS 100  /* between batches that wait for the pace */
#define COUNT_MS 1000 /* how long jobs are counted beforehand, if they are found slowly */
#define RESERVED 1000 /* numbers of transactions that an earlier process may have used */

/* ---- ordering one ---- */

static const char *cursor_of(const struct watch *w, const struct browse_position *at,
                             struct arena *a)
{
	const struct cursor x = {.watch = w->name, .sort = LIST_BY_KEY, .nkeys = w->key.n, .at = *at};
	struct buf out = BUF_INIT;
	cursor_text(&x, &out);
	return buf_to_arena(&out, a);
}

static defib_err may_order(struct session *session, const struct bound *bound, struct failure *f)
{
	bool there = false;
	if (!bound->ledger.ready) {
		fail(f, DEFIB_REFUSED, "a background act needs the ledger, which is off");
		fail_next(f, "keep the ledger on, or act in the foreground");
		return DEFIB_REFUSED;
	}
	return background_open(session->store, true, &there, f);
}

defib_err background_plan(struct session *session, const struct bound *b, const struct watch *w,
                          const struct background_order *o, struct arena *a,
                          struct background_act *out, struct failure *f)
{
	struct browse_bound bound = {.for_ms = COUNT_MS};
	struct browse all = {.terms = o->terms,
	                     .nterms = o->nterms,
	                     .sort = LIST_BY_KEY,
	                     .desc = true,
	                     .limit = BACKGROUND_COUNTED_MOST,
	                     .bound = &bound};
	/* If none was found in time: up to the last row of the table. */
	struct browse last = {.sort = LIST_BY_KEY, .desc = true, .limit = 1};
	struct browsed *rows = NULL;
	struct carrier name = {0};
	struct buf terms = BUF_INIT;
	bool more = false;
	int n = 0;
	defib_err err = may_order(session, b, f);
	if (!err)
		err = browse_jobs(&(struct look){session->store, &b->sql, &b->ledger, a}, &all, &rows, &n,
		                  &more, f);
	if (!err && n == 0 && bound.cut)
		err = browse_jobs(&(struct look){session->store, &b->sql, &b->ledger, a}, &last, &rows, &n,
		                  &more, f);
	if (err)
		return err;
	carrier_begin(&name, o->actor);
	for (int i = 0; i < o->nterms; i++) {
		buf_add(&terms, i ? "," : "[");
		buf_add_json(&terms, o->texts[i]);
	}
	buf_add(&terms, o->nterms ? "]" : "[]");
	*out = (struct background_act){
		.id = arena_strdup(a, name.name),
		.watch = w->name,
		.act = o->kind->verb,
		.terms = buf_to_arena(&terms, a),
		.step = o->step,
		.reason = o->reason,
		.actor = o->actor,
		.state = n ? BACKGROUND_WAITING : BACKGROUND_DONE,
		.overrides = o->overrides,
		.total = more || bound.cut ? -1 : n,
		.up_to = n ? cursor_of(w, &rows[0].at, a) : NULL,
		.others = "{}",
	};
	return DEFIB_OK;
}

/* ---- carrying one out ---- */

struct acting {
	struct database_loop *loop;
	struct watch_loop *at;
	const struct watch *watch;
	struct background_act act;
	const struct act_kind *kind;
	struct term terms[TERMS_MAX];
	int nterms;
	struct cursor after, up_to;
	bool noted; /* a batch was written and noted by this process */
	struct bound bound;
	struct arena arena; /* of a batch */
	int64_t outcomes[OUTCOME_COUNT];
	const char *refusal; /* the first of this batch */
};

static void background_note_job(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct acting *x = ctx;
	AUTO_BUF why = BUF_INIT;
	(void)w;
	if (!c->refusal || x->refusal)
		return;
	refusal_sentence(c, &why);
	x->refusal = arena_strdup(&x->loop->arena, buf_text(&why));
}

/* False if it is not a place in the watch's jobs in key order. */
static bool read_place(const struct acting *x, const char *text, struct arena *a,
                       struct cursor *out)
{
	bool good = cursor_parse(text, a, out) && text_eq(out->watch, x->watch->name) &&
	            out->sort == LIST_BY_KEY && !out->desc && !out->at.by_key;
	for (int k = 0; good && k < out->nkeys; k++)
		good = out->at.key[k] != NULL;
	return good;
}

/*
 * The order as it was stored. It may come from another version or configuration, or from anybody
 * who can write to the table: ledger/background.c has checked the types and ranges of its columns.
 */
static defib_err understand(struct acting *x, struct arena *a, struct failure *f)
{
	const struct background_act *act = &x->act;
	json_auto_t *list = json_loads(act->terms, 0, NULL);
	size_t i;
	json_t *item;
	x->kind = act_kind_named(act->act);
	bool placed = act->up_to && read_place(x, act->up_to, a, &x->up_to) &&
	              (!act->position || read_place(x, act->position, a, &x->after));
	if (!x->kind || !placed || json_array_size(list) > TERMS_MAX)
		return fail(f, DEFIB_USAGE, "the stored act cannot be read");
	if (x->up_to.nkeys != x->watch->key.n || (act->position && x->after.nkeys != x->watch->key.n))
		return fail(f, DEFIB_CONFIG, "the key of watch %s was changed", x->watch->name);
	json_array_foreach(list, i, item)
	{
		const char *given = json_string_value(item);
		if (!given)
			return fail(f, DEFIB_USAGE, "the stored act cannot be read");
		const char *text = arena_strdup(a, given);
		defib_err err = term_parse(x->watch, text, a, &x->terms[x->nterms++], NULL, f);
		if (err)
			return err;
	}
	return DEFIB_OK;
}

/* Each time it goes on: what the role that ordered it may do can change meanwhile. */
static defib_err check_role(struct acting *x, struct arena *a, struct failure *f)
{
	const char *refusal = NULL;
	defib_err err = order_check(x->loop->session.store, x->watch, x->act.role, a, &refusal, f);
	return err || !refusal ? err : fail(f, DEFIB_PERMISSION, "%s", refusal);
}

static bool of_queue(const struct acting *x)
{
	return text_eq(x->watch->name, BUILTIN_NAME) && x->watch->key_rises;
}

/* Jobs that a batch of an earlier process has changed already are counted (background_changed). */
static defib_err leave_out_written(struct acting *x, const char **jobs, int *n, struct failure *f)
{
	int kept = 0;
	for (int i = 0; i < *n; i++) {
		const struct ledger_filter filter = {
			.watch = x->watch->name, .job = jobs[i], .batch = x->act.id, .limit = 1};
		struct ledger_row *rows = NULL;
		int found = 0;
		defib_err err = ledger_read(x->loop->session.store, &filter, &x->arena, &rows, &found, f);
		if (err)
			return err;
		if (!found)
			jobs[kept++] = jobs[i];
	}
	*n = kept;
	return DEFIB_OK;
}

static defib_err write_batch(struct acting *x, const char **jobs, int n, struct failure *f)
{
	const struct background_act *act = &x->act;
	struct by_hand_result result = {0};
	const struct by_hand_options o = {.act = x->kind->act,
	                                  .reason = act->reason,
	                                  .actor = act->actor,
	                                  .step = act->step,
	                                  .override_guard = act->overrides,
	                                  .bound = &x->bound,
	                                  .batch = act->id,
	                                  .parts = (int)act->parts,
	                                  .job = background_note_job,
	                                  .ctx = x};
	defib_err err = x->loop->background.written ? leave_out_written(x, jobs, &n, f) : DEFIB_OK;
	if (err || n == 0)
		return err;
	by_hand(&x->loop->session, x->watch, &o, jobs, n, &result);
	x->act.parts = result.parts;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		x->outcomes[i] += result.outcomes[i];
	*f = result.failure;
	return f->code;
}

/* {"refused":3}: the numbers so far, and those of this batch. */
static const char *add_others(struct acting *x, struct arena *a)
{
	json_auto_t *all = json_loads(x->act.others, 0, NULL);
	if (!all)
		all = json_object();
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		const char *name = outcome_names[i];
		json_int_t had = json_integer_value(json_object_get(all, name));
		if (i != (int)act_outcome(x->kind->act) && x->outcomes[i])
			json_object_set_new(all, name, json_integer(had + x->outcomes[i]));
	}
	char *text = json_dumps(all, JSON_COMPACT);
	const char *copy = arena_strdup(a, text ? text : "{}");
	free(text);
	return copy;
}

/* Whether it goes on is stored with how far it came. */
static defib_err note_batch(struct acting *x, const struct browse_position *last, bool over,
                            const struct failure *why, bool *goes_on, struct failure *f)
{
	struct background_act *act = &x->act;
	struct arena *keep = &x->loop->arena;
	if (last)
		act->position = cursor_of(x->watch, last, keep);
	if (last && !cursor_parse(act->position, keep, &x->after))
		return fail(f, DEFIB_USAGE, "a stored position cannot be read");
	act->done += x->kind ? x->outcomes[act_outcome(x->kind->act)] : 0;
	act->others = x->kind ? add_others(x, keep) : "{}";
	act->refusal = act->refusal ? act->refusal : x->refusal;
	act->error = why ? arena_strdup(keep, why->what) : NULL;
	act->state = why ? BACKGROUND_FAILED : over ? BACKGROUND_DONE : BACKGROUND_RUNNING;
	memset(x->outcomes, 0, sizeof x->outcomes);
	defib_err err = background_advance(x->loop->session.store, act, goes_on, f);
	if (!err && !*goes_on)
		log_event(why ? LOG_ERROR : LOG_INFO, "background act ended", LOG_STR("act", act->act),
		          LOG_STR("id", act->id), LOG_STR("watch", x->watch->name),
		          LOG_INT("done", act->done), LOG_STR("others", act->others),
		          LOG_STR("because", act->error));
	return err;
}

/* One batch of at most `room` jobs. */
static defib_err background_do_batch(struct acting *x, int64_t room, bool *goes_on,
                                     struct failure *f)
{
	struct browse_bound bound = {.within_ms = TURN_MS, .for_ms = TURN_MS};
	const struct browse ask = {.terms = x->terms,
	                           .nterms = x->nterms,
	                           .sort = LIST_BY_KEY,
	                           .after = x->act.position ? &x->after.at : NULL,
	                           .up_to = &x->up_to.at,
	                           .limit = room,
	                           .bound = &bound};
	struct browsed *rows = NULL;
	bool more = false;
	int n = 0;
	int64_t begun = clock_boot_us();
	defib_err err = browse_jobs(
		&(struct look){x->loop->session.store, &x->bound.sql, &x->bound.ledger, &x->arena}, &ask,
		&rows, &n, &more, f);
	const char **jobs = ARENA_ARRAY(&x->arena, const char *, n + 1);
	for (int i = 0; i < n; i++)
		jobs[i] = rows[i].job;
	guard_admitted_less(x->at->guard, room - n);
	if (!err && n > 0)
		err = write_batch(x, jobs, n, f);
	guard_batch(x->at->guard, n, clock_boot_us() - begun, err != DEFIB_OK);
	if (!err)
		err = note_batch(x,
		                 bound.cut ? &bound.end
		                 : n       ? &rows[n - 1].at
		                           : NULL,
		                 !more && !bound.cut, NULL, goes_on, f);
	if (!err && of_queue(x) && n > 0)
		wake_send(x->loop->session.store, x->loop->url);
	x->noted |= err == DEFIB_OK;
	arena_clear(&x->arena);
	return err;
}

static bool may_go_on(const struct acting *x, int64_t until_ms)
{
	int64_t now = clock_boot_ms();
	atomic_store(&x->loop->round_ms, now);
	return now < until_ms && now < x->loop->led_until_ms && x->at->leads &&
	       !atomic_load(&x->loop->stop);
}

/* Until the time is over or the pace holds it back; *next_ms is when to continue. */
static defib_err do_batches(struct acting *x, int64_t until_ms, int64_t *next_ms, struct failure *f)
{
	bool goes_on = true;
	defib_err err = DEFIB_OK;
	*next_ms = 0;
	while (!err && goes_on && may_go_on(x, until_ms)) {
		int64_t wait_us = 0;
		int64_t room = guard_admit(x->at->guard, x->watch->batch, clock_boot_us(), &wait_us);
		if (room == 0) {
			*next_ms = clock_boot_ms() + (wait_us < 0 ? LOOK_MS : SLICE_MS);
			break;
		}
		err = background_do_batch(x, room, &goes_on, f);
	}
	return err;
}

static bool background_is_away(defib_err err)
{
	return err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME;
}

static defib_err carry_out(struct database_loop *s, struct watch_loop *p,
                           const struct background_act *act, int64_t until_ms, int64_t *next_ms,
                           struct failure *f)
{
	struct acting x = {.loop = s, .at = p, .watch = p->watch, .act = *act};
	struct failure why = {0};
	bool goes_on = false;
	bool taken_over = !text_eq(s->background.id, act->id);
	x.act.parts += taken_over ? RESERVED : 0;
	defib_err err = understand(&x, &s->arena, &why);
	if (!err)
		err = check_role(&x, &s->arena, &why);
	if (!err)
		err = bound_open(&x.bound, &s->session, x.watch, LEDGER_CREATE, &why);
	if (!err && taken_over) {
		err = background_changed(s->session.store, act->id, &x.act.done, &why);
		s->background.written = x.act.done > 0;
	}
	if (!err)
		err = do_batches(&x, until_ms, next_ms, &why);
	/* What was counted is stored with the first batch: until then it is counted again. */
	if (x.noted)
		snprintf(s->background.id, sizeof s->background.id, "%s", act->id);
	else if (taken_over)
		s->background.id[0] = '\0';
	/* What is unavailable is tried again; anything else ends the act, and it says why. */
	if (background_is_away(err))
		s->background.id[0] = '\0';
	if (background_is_away(err))
		*f = why;
	else if (err)
		err = note_batch(&x, NULL, true, &why, &goes_on, f);
	bound_release(&x.bound);
	arena_release(&x.arena);
	return background_is_away(err) ? DEFIB_CONNECTION : DEFIB_OK;
}

static struct watch_loop *led_loop(const struct database_loop *s, const char *watch)
{
	for (int i = 0; i < s->nloops; i++)
		if (text_eq(s->loops[i]->watch->name, watch) && s->loops[i]->leads && !s->loops[i]->paused)
			return s->loops[i];
	return NULL;
}

/* Once per session: a role that may not read the table does without. */
static defib_err look_for_table(struct database_loop *s, struct failure *f)
{
	struct background_acts *b = &s->background;
	if (b->opened == s->session.opened)
		return DEFIB_OK;
	defib_err err = background_open(s->session.store, false, &b->there, f);
	if (err == DEFIB_CONNECTION)
		return err;
	b->opened = s->session.opened;
	if (err)
		log_event(LOG_DEBUG, "background acts are off", LOG_STR("database", s->name),
		          LOG_STR("because", f->what));
	fail_clear(f);
	return DEFIB_OK;
}

defib_err background_acts_turn(struct database_loop *s, struct failure *f)
{
	struct background_acts *b = &s->background;
	struct background_act *acts = NULL;
	struct watch_loop *p = NULL;
	int64_t now = clock_boot_ms(), next_ms = now + LOOK_MS;
	int n = 0;
	if (!s->tables || now < b->due_ms)
		return DEFIB_OK;
	b->due_ms = now + LOOK_MS;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = look_for_table(s, f);
	if (!err && b->there)
		err = background_read_open(s->session.store, &s->arena, &acts, &n, f);
	for (int i = 0; i < n && !err && !p; i++) {
		p = led_loop(s, acts[i].watch);
		if (p)
			err = carry_out(s, p, &acts[i], now + TURN_MS, &next_ms, f);
	}
	if (p)
		b->due_ms = next_ms;
	return err;
}
