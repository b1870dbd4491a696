/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/seen.h"

#include "base/clock.h"
#include "base/hash.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "recover/census.h"
#include "recover/judge.h"

#include <assert.h>
#include <inttypes.h>

#define USUAL_TIMES 2                  /* a look may be this many intervals late … */
#define USUAL_SLACK_US (30 * US_PER_S) /* … and this much more */

/* The value that is remembered for a sign; NULL: none, so that nothing is measured. */
static const char *seen_value_of(const struct watch *w, const struct facts *f, enum sign s)
{
	struct limit_from from;
	int64_t us;
	bool limited = watch_remembers(w, s) && watch_limit_of(w, s, f, &us, &from);
	if (!limited || !f->running)
		return NULL;
	return s == SIGN_STATE ? f->state : f->progress;
}

/* Another claim of the job begins anew, even with the same value. */
static const char *seen_run_of(const struct facts *f, struct arena *a)
{
	uint64_t hash = FNV_START;
	int64_t numbers[] = {f->has_attempts ? f->attempts : -1, f->has_epoch ? f->epoch : -1,
	                     f->has_sign[SIGN_STARTED] ? f->sign_us[SIGN_STARTED] : -1};
	if (f->owner)
		hash = fnv1a(hash, f->owner, strlen(f->owner) + 1);
	hash = fnv1a(hash, numbers, sizeof numbers);
	return arena_printf(a, "%016" PRIx64, hash);
}

/* The memory of one sign, by job. */
struct seen_index {
	struct job_index jobs;
	const struct seen **entries;
	bool *met;
	int n;
};

static void seen_index_init(struct seen_index *x, const struct seen_memory *m, enum sign s,
                            struct arena *a)
{
	const char **jobs = ARENA_ARRAY(a, const char *, m->n + 1);
	*x = (struct seen_index){.entries = ARENA_ARRAY(a, const struct seen *, m->n + 1),
	                         .met = ARENA_ARRAY(a, bool, m->n + 1)};
	for (int i = 0; i < m->n; i++)
		if (text_eq(m->all[i].what, sign_kinds[s].name)) {
			jobs[x->n] = m->all[i].job;
			x->entries[x->n++] = &m->all[i];
		}
	job_index_init(&x->jobs, jobs, x->n, a);
}

/* Jobs as they are now, and what is remembered of them. */
struct seen_matching {
	const struct watch *w;
	const struct seen_memory *memory;
	int64_t shift_us;
	struct facts *facts;
	int n;
	struct arena *a;
	struct seen_changes *changes; /* NULL: nothing is stored */
};

static void match_sign(const struct seen_matching *m, enum sign s)
{
	struct seen_changes *changes = m->changes;
	struct seen_index x;
	seen_index_init(&x, m->memory, s, m->a);
	for (int i = 0; i < m->n; i++) {
		struct facts *f = &m->facts[i];
		const char *value = seen_value_of(m->w, f, s);
		int at = value ? job_index_find(&x.jobs, f->job) : -1;
		const char *run = value ? seen_run_of(f, m->a) : NULL;
		bool same =
			at >= 0 && text_eq(x.entries[at]->value, value) && text_eq(x.entries[at]->run, run);
		if (at >= 0)
			x.met[at] = true;
		if (same) {
			int64_t since_us = x.entries[at]->since_us + m->shift_us;
			f->has_sign[s] = true;
			f->sign_us[s] = since_us < f->now_us ? since_us : f->now_us;
		}
		if (changes && value && !same)
			changes->put[changes->nput++] =
				(struct seen){f->job, sign_kinds[s].name, value, run, f->now_us};
		if (changes && value)
			changes->remembered++;
	}
	for (int i = 0; changes && i < x.n; i++)
		if (!x.met[i])
			changes->drop[changes->ndrop++] = *x.entries[i];
}

void seen_match(const struct watch *w, const struct seen_memory *m, int64_t shift_us,
                struct facts *facts, int n, struct arena *a, struct seen_changes *changes)
{
	if (changes)
		*changes = (struct seen_changes){.put = ARENA_ARRAY(a, struct seen, 2 * n + 1),
		                                 .drop = ARENA_ARRAY(a, struct seen, m->n + 1)};
	for (int s = 0; s < SIGN_COUNT; s++)
		if (watch_remembers(w, (enum sign)s))
			match_sign(&(struct seen_matching){w, m, shift_us, facts, n, a, changes}, (enum sign)s);
}

int64_t seen_uncounted(const struct watch *w, const struct seen_look *last, int64_t now_us,
                       const struct doubt *doubt)
{
	int64_t gap_us = now_us - last->at_us;
	int64_t usual_us = last->usual_us > w->every_us ? last->usual_us : w->every_us;
	if (last->at_us == 0 || gap_us <= 0)
		return 0;
	if (gap_us > USUAL_TIMES * usual_us + USUAL_SLACK_US)
		return gap_us;
	return doubt ? gap_us - doubt_clean_us(doubt, last->at_us, now_us) : 0;
}

defib_err seen_recall(const struct look *l, struct facts *facts, int n, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	struct seen_memory m;
	if (!watch_remembers_any(w) || !l->ledger->ready || n == 0)
		return DEFIB_OK;
	const char **jobs = JOBS_OF(facts, job, n, l->arena);
	defib_err err = seen_read(l->store, w->name, jobs, n, l->arena, &m, f);
	if (!err && m.there)
		seen_match(w, &m, seen_uncounted(w, &m.last, facts[0].now_us, NULL), facts, n, l->arena,
		           NULL);
	return err;
}

/* ---- a look at all of them ---- */

/* A role that may not remember can still do everything else. */
static defib_err open_memory(const struct look *l, struct seen_pass *pass, struct failure *f)
{
	bool there = false;
	defib_err err = schema_ready(l->store, "seen", SCHEMA_LEDGER, pass->keep, &there, f);
	pass->off = !there;
	if (err != DEFIB_PERMISSION && err != DEFIB_READ_ONLY)
		return err;
	snprintf(pass->why, sizeof pass->why, "%.255s", f->what);
	fail_clear(f);
	return DEFIB_OK;
}

/* In small transactions: others may write in between. */
static defib_err write_changes(const struct look *l, const struct seen_changes *c,
                               struct failure *f)
{
	const char *watch = l->sql->binding->watch->name;
	defib_err err = DEFIB_OK;
	for (int at = 0; at < c->ndrop && !err; at += SEEN_STEP)
		err = seen_drop(l->store, watch, c->drop + at,
		                c->ndrop - at < SEEN_STEP ? c->ndrop - at : SEEN_STEP, l->arena, f);
	for (int at = 0; at < c->nput && !err; at += SEEN_STEP)
		err = seen_put(l->store, watch, c->put + at,
		               c->nput - at < SEEN_STEP ? c->nput - at : SEEN_STEP, l->arena, f);
	return err;
}

static defib_err keep(const struct look *l, const struct seen_memory *m, int64_t now_us,
                      int64_t shift_us, const struct seen_changes *c, struct failure *f)
{
	const struct seen_look now = {now_us, m->last.at_us ? now_us - m->last.at_us : 0};
	bool won = false;
	defib_err err =
		seen_turn(l->store, l->sql->binding->watch->name, &m->last, &now, shift_us, &won, f);
	return err || !won ? err : write_changes(l, c, f);
}

/* Those that are stuck by a value that is remembered, in place. */
static int stuck_by_memory(const struct watch *w, struct facts *facts, int n)
{
	int stuck = 0;
	for (int i = 0; i < n; i++) {
		struct judgement j = judge(w, &facts[i]);
		if (j.verdict != VERDICT_NONE && j.measured && watch_remembers(w, j.sign))
			facts[stuck++] = facts[i];
	}
	return stuck;
}

defib_err seen_look_all(const struct look *l, struct seen_pass *pass, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	struct seen_changes changes;
	struct seen_memory m = {0};
	struct facts *facts = NULL;
	int64_t now_us = 0;
	int n = 0;
	defib_err err = open_memory(l, pass, f);
	if (err || pass->off)
		return err;
	err = look_seen(l, SEEN_MOST + 1, &facts, &n, f);
	if (!err)
		err = seen_read(l->store, w->name, NULL, 0, l->arena, &m, f);
	if (!err && n > 0)
		now_us = facts[0].now_us;
	else if (!err)
		err = census_now(l->store, &now_us, f);
	if (err)
		return err;
	pass->bounded = n > SEEN_MOST;
	n = pass->bounded ? SEEN_MOST : n;
	pass->first = m.last.at_us == 0;
	int64_t shift_us = seen_uncounted(w, &m.last, now_us, pass->doubt);
	if (pass->barred && !pass->first)
		shift_us = now_us - m.last.at_us;
	seen_match(w, &m, shift_us, facts, n, l->arena, &changes);
	pass->remembered = changes.remembered;
	if (pass->keep)
		err = keep(l, &m, now_us, shift_us, &changes, f);
	pass->stuck = facts;
	pass->n = stuck_by_memory(w, facts, n);
	return err ? err : look_history(l, pass->stuck, pass->n, f);
}
