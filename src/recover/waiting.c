/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/waiting.h"

#include "base/clock.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "ledger/seen.h"
#include "life/roster.h"
#include "recover/census.h"
#include "recover/judge.h"
#include "recover/masked.h"
#include "watch/waiting_sql.h"

#include <inttypes.h>

#define DUE "due"                             /* what is remembered of a schedule */
#define DUE_MOST_US INT64_C(9000000000000000) /* since 1970: in 2255 */
#define ENDED_WITHIN_MS 500     /* to read claims of ended runs, without an index perhaps */
#define ENDED_AGAIN_MS 3600000  /* between tries, if that was not enough */
#define ENDED_SLACK_US US_PER_S /* between two readings of the clock */
#define WORKERS_MOST 1000

/* ---- schedules ---- */

/* The table of what is remembered; not every role may use or create it. */
static defib_err due_memory(const struct look *l, const struct waiting_pass *pass,
                            struct seen_memory *m, struct failure *f)
{
	bool there = false;
	*m = (struct seen_memory){0};
	if (!l->ledger->ready)
		return DEFIB_OK;
	defib_err err = schema_ready(l->store, "seen", SCHEMA_LEDGER, pass->keep, &there, f);
	if (err == DEFIB_PERMISSION || err == DEFIB_READ_ONLY) {
		fail_clear(f);
		return DEFIB_OK;
	}
	if (!err && there)
		err = seen_read(l->store, l->sql->binding->watch->name, NULL, 0, l->arena, m, f);
	return err;
}

/* A run that began since then. */
static bool ran_since(const struct facts *f, int64_t due_us)
{
	return f->has_last_run && f->last_run_us >= due_us;
}

/* It was due at that time, had no run since, and its due_at is another one now. */
static void take_missed(struct facts *f, int64_t due_us)
{
	f->moved_on = true;
	f->next_us = f->due_us;
	f->due_us = due_us;
}

/* Others may write into the table: a time that none of ours wrote is as if there were none. */
static bool due_parse(const char *value, int64_t *us)
{
	return value && int_parse(value, us) && *us >= 0 && *us <= DUE_MOST_US;
}

struct due_changes {
	struct seen *put, *drop;
	int nput, ndrop;
};

/*
 * A scheduler may set the next time and start nothing. So it is remembered when each schedule is
 * due, until a run began then.
 */
static void match_due(const struct seen_memory *m, struct facts *facts, int n, struct arena *a,
                      struct due_changes *out)
{
	const char **jobs = ARENA_ARRAY(a, const char *, m->n + 1);
	const struct seen **entries = ARENA_ARRAY(a, const struct seen *, m->n + 1);
	bool *met = ARENA_ARRAY(a, bool, m->n + 1);
	struct job_index index;
	int known = 0;
	*out = (struct due_changes){.put = ARENA_ARRAY(a, struct seen, n + 1),
	                            .drop = ARENA_ARRAY(a, struct seen, m->n + 1)};
	for (int i = 0; i < m->n; i++)
		if (text_eq(m->all[i].what, DUE)) {
			jobs[known] = m->all[i].job;
			entries[known++] = &m->all[i];
		}
	job_index_init(&index, jobs, known, a);
	for (int i = 0; i < n; i++) {
		struct facts *f = &facts[i];
		int at = job_index_find(&index, f->job);
		int64_t was_us = 0;
		bool had = at >= 0 && due_parse(entries[at]->value, &was_us);
		if (at >= 0)
			met[at] = true;
		if (had && was_us < f->due_us && was_us <= f->now_us && !ran_since(f, was_us))
			take_missed(f, was_us);
		else if (!had || was_us != f->due_us)
			out->put[out->nput++] =
				(struct seen){f->job, DUE, arena_printf(a, "%" PRId64, f->due_us), "", f->now_us};
	}
	for (int i = 0; i < known; i++)
		if (!met[i])
			out->drop[out->ndrop++] = *entries[i];
}

static defib_err keep_due(const struct look *l, const struct due_changes *c, struct failure *f)
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

static defib_err recall_due(const struct look *l, const struct waiting_pass *pass,
                            struct facts *facts, int n, struct failure *f)
{
	struct seen_memory m;
	struct due_changes changes;
	defib_err err = due_memory(l, pass, &m, f);
	if (err || !m.there)
		return err;
	match_due(&m, facts, n, l->arena, &changes);
	return pass->keep ? keep_due(l, &changes, f) : DEFIB_OK;
}

/* ---- what is late, by kind ---- */

static bool limit_of(const struct watch *w, const char *kind, int64_t *us)
{
	return threshold_for(&w->late_after, kind, us);
}

/* On hold: no worker is meant to take it. */
static bool is_late(const struct watch *w, const struct facts *f)
{
	int64_t limit_us;
	return f->waiting && f->has_due && limit_of(w, f->kind, &limit_us) &&
	       f->now_us - f->due_us > limit_us && !(w->last_run_at.text && ran_since(f, f->due_us)) &&
	       !hold_in_force(f->hold);
}

static struct starts_kind *kind_named(struct waiting_pass *pass, const char *kind)
{
	for (int i = 0; i < pass->nkinds; i++)
		if (text_eq(pass->kinds[i].kind, kind))
			return &pass->kinds[i];
	return NULL;
}

static void add_late_kind(const struct watch *w, struct waiting_pass *pass, const char *kind,
                          int64_t n, int64_t oldest_us, int most)
{
	struct starts_kind *k = kind_named(pass, kind);
	if (!k && pass->nkinds < most) {
		k = &pass->kinds[pass->nkinds++];
		*k = (struct starts_kind){.kind = kind, .oldest_us = oldest_us};
		(void)limit_of(w, kind, &k->limit_us);
	}
	if (!k)
		return;
	k->late += n;
	k->oldest_us = oldest_us < k->oldest_us ? oldest_us : k->oldest_us;
}

/* More rows than were read are late: all are counted. */
static defib_err count_kinds(const struct look *l, struct waiting_pass *pass, struct failure *f)
{
	struct store_rows rows;
	defib_err err = store_read(l->store, l->sql->late_kinds, NULL, 0, l->arena, &rows, f);
	if (err)
		return err;
	pass->nkinds = 0;
	for (int i = 0; i < rows.nrows; i++)
		add_late_kind(l->sql->binding->watch, pass, row_text(&rows, i, 0), row_int(&rows, i, 1, 0),
		              row_int(&rows, i, 2, 0), WAITING_KINDS);
	return DEFIB_OK;
}

/* Each schedule is judged by its own runs. */
static void add_schedules(const struct watch *w, struct waiting_pass *pass,
                          const struct facts *facts, int n)
{
	for (int i = 0; i < n && pass->nkinds < WAITING_ROWS; i++) {
		struct starts_kind *k = &pass->kinds[pass->nkinds++];
		*k = (struct starts_kind){.kind = facts[i].job, .late = 1, .oldest_us = facts[i].due_us};
		(void)limit_of(w, facts[i].kind, &k->limit_us);
		k->claimed_us = facts[i].has_last_run ? facts[i].last_run_us : 0;
	}
}

/* ---- claims ---- */

static defib_err read_running_claims(const struct look *l, struct waiting_pass *pass,
                                     struct failure *f)
{
	struct store_rows rows;
	defib_err err = store_read(l->store, l->sql->claims, NULL, 0, l->arena, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct starts_kind *k = kind_named(pass, row_text(&rows, i, 0));
		if (!k)
			continue;
		k->running = row_int(&rows, i, 1, 0);
		k->owners = row_int(&rows, i, 2, 0);
		k->claimed_us = row_int(&rows, i, 3, 0);
	}
	return err;
}

static int64_t oldest_us(const struct waiting_pass *pass)
{
	int64_t oldest = INT64_MAX;
	for (int i = 0; i < pass->nkinds; i++)
		oldest = pass->kinds[i].oldest_us < oldest ? pass->kinds[i].oldest_us : oldest;
	return oldest;
}

/* Whether running rows leave open if jobs are being started. */
static bool ended_matter(const struct waiting_pass *pass)
{
	for (int i = 0; i < pass->nkinds; i++)
		if (pass->kinds[i].running == 0 || pass->kinds[i].claimed_us < pass->kinds[i].oldest_us)
			return true;
	return false;
}

/*
 * Short runs end between two looks. That takes an index on started_at; without one, a daemon still
 * sees rows move on, and a one-shot scan cannot tell.
 */
static defib_err read_ended(const struct look *l, struct waiting_pass *pass, int64_t now_us,
                            struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows = {0};
	struct failure late = {0};
	int64_t since_us = now_us - oldest_us(pass) + ENDED_SLACK_US;
	if (!ended_matter(pass) || (pass->ended_ms && clock_boot_ms() < *pass->ended_ms) ||
	    !sql_ended_claims(l->sql->binding, since_us, &sql))
		return DEFIB_OK;
	defib_err err = store_begin_within(l->store, ENDED_WITHIN_MS, f);
	if (err)
		return err;
	err = store_exec(l->store, buf_text(&sql), NULL, 0, l->arena, &rows, &late);
	store_rollback(l->store);
	if (err == DEFIB_TIMEOUT && !l->store->lost) {
		if (pass->ended_ms)
			*pass->ended_ms = clock_boot_ms() + ENDED_AGAIN_MS;
		for (int i = 0; !pass->memory && i < pass->nkinds; i++)
			pass->kinds[i].unread = true;
		return DEFIB_OK;
	}
	if (err) {
		*f = late;
		return err;
	}
	for (int i = 0; i < rows.nrows; i++) {
		struct starts_kind *k = kind_named(pass, row_text(&rows, i, 0));
		if (k)
			k->ended_us = row_int(&rows, i, 1, 0);
	}
	return DEFIB_OK;
}

/* Live workers of defib that serve the watch; -1: it is not one for them. */
static defib_err count_workers(const struct look *l, int64_t *n, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	struct roster_row *rows = NULL;
	int nrows = 0;
	size_t len = strlen(w->name);
	*n = -1;
	if (!w->work.given || !l->ledger->ready)
		return DEFIB_OK;
	defib_err err = roster_recent(l->store, 0, WORKERS_MOST, l->arena, &rows, &nrows, f);
	*n = err ? -1 : 0;
	for (int i = 0; !err && i < nrows; i++) {
		const char *at = rows[i].serves;
		bool serves = false;
		for (; at && *at && !serves; at += strcspn(at, "\n"), at += *at == '\n')
			serves = strcspn(at, "\n") == len && strncmp(at, w->name, len) == 0;
		*n += serves && text_eq(rows[i].state, "alive") && !rows[i].expired;
	}
	return err;
}

/* ---- the whole ---- */

static enum starts starts_of(const struct waiting_pass *pass, const struct watch *w,
                             const struct facts *f)
{
	const char *kind = w->last_run_at.text ? f->job : f->kind;
	for (int i = 0; i < pass->nkinds; i++)
		if (text_eq(pass->kinds[i].kind, kind))
			return pass->kinds[i].starts;
	return STARTS_UNKNOWN;
}

static void describe(struct waiting_pass *pass, const struct starts_look *look)
{
	struct waiting_result *r = &pass->result;
	const struct starts_kind *worst = NULL;
	for (int i = 0; i < pass->nkinds; i++) {
		const struct starts_kind *k = &pass->kinds[i];
		bool none = k->starts == STARTS_NONE;
		r->late += k->late;
		r->unstarted += none ? k->late : 0;
		r->unknown += k->starts == STARTS_UNKNOWN ? k->late : 0;
		r->kinds += none;
		if (k->unread && k->starts == STARTS_UNKNOWN)
			r->because = "claims of ended runs take too long to read; an index on started_at helps";
		if (!worst || none > (worst->starts == STARTS_NONE) ||
		    (none == (worst->starts == STARTS_NONE) && k->oldest_us < worst->oldest_us))
			worst = k;
	}
	if (look->barred)
		r->because = "the watch is paused, or a lock keeps workers from the table";
	else if (r->unknown && !r->because)
		r->because = "that takes two looks, and time without an outage";
	r->now_us = look->now_us;
	if (!worst)
		return;
	r->waited_us = look->now_us - worst->oldest_us;
	r->limit_us = worst->limit_us;
	r->last_us = worst->last_us;
	r->running = worst->running;
	r->owners = worst->owners;
	if (worst->kind && !r->schedules)
		snprintf(r->kind, sizeof r->kind, "%s", worst->kind);
}

/* Late rows and their kinds. */
static defib_err read_late(const struct look *l, struct waiting_pass *pass, struct facts **facts,
                           int *n, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	bool schedules = w->last_run_at.text;
	int most = schedules ? WAITING_SCHEDULES : WAITING_ROWS, late = 0;
	defib_err err = look_waiting(l, most, facts, n, f);
	bool cut = *n == most;
	if (!err && schedules)
		err = recall_due(l, pass, *facts, *n, f);
	if (!err)
		err = look_history(l, *facts, *n, f);
	if (err)
		return err;
	for (int i = 0; i < *n; i++)
		if (is_late(w, &(*facts)[i]))
			(*facts)[late++] = (*facts)[i];
	*n = late;
	pass->kinds = ARENA_ARRAY(l->arena, struct starts_kind, WAITING_ROWS);
	if (schedules)
		add_schedules(w, pass, *facts, late);
	for (int i = 0; !schedules && i < late; i++)
		add_late_kind(w, pass, (*facts)[i].kind, 1, (*facts)[i].due_us, WAITING_KINDS);
	pass->result.capped = schedules && (cut || late > WAITING_ROWS);
	if (!schedules && cut)
		err = count_kinds(l, pass, f);
	return err;
}

static void take_rows(struct starts_look *look, const struct facts *facts, int n, struct arena *a)
{
	struct starts_row *rows = ARENA_ARRAY(a, struct starts_row, n + 1);
	for (int i = 0; i < n; i++)
		rows[i] = (struct starts_row){facts[i].job, facts[i].kind, facts[i].due_us};
	look->rows = rows;
	look->nrows = n;
	look->cut = n >= WAITING_ROWS;
}

defib_err waiting_look(const struct look *l, struct waiting_pass *pass, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	struct waiting_result *r = &pass->result;
	struct starts_look look = {
		.doubt = pass->doubt, .barred = pass->barred, .limit_us = threshold_least(&w->late_after)};
	struct facts *facts = NULL;
	int n = 0;
	*r = (struct waiting_result){.asked = true, .schedules = w->last_run_at.text, .workers = -1};
	pass->n = pass->nkinds = 0;
	defib_err err = census_now(l->store, &look.now_us, f);
	if (!err)
		err = read_late(l, pass, &facts, &n, f);
	if (!err && n > 0 && !r->schedules)
		err = read_running_claims(l, pass, f);
	if (!err && n > 0 && !r->schedules)
		err = read_ended(l, pass, look.now_us, f);
	if (err)
		return err;
	look.kinds = pass->kinds;
	look.nkinds = pass->nkinds;
	for (int i = 0; i < pass->nkinds; i++)
		look.late += pass->kinds[i].late;
	if (!r->schedules)
		take_rows(&look, facts, n, l->arena);
	starts_judge(pass->memory, &look, &r->trend);
	describe(pass, &look);
	r->capped = r->capped || r->late >= ROWS_COUNT_MAX;
	pass->unstarted = facts;
	for (int i = 0; i < n; i++) {
		facts[i].starts = starts_of(pass, w, &facts[i]);
		if (facts[i].starts != STARTS_NONE)
			continue;
		r->moved_on += facts[i].moved_on;
		facts[pass->n++] = facts[i];
	}
	return r->unstarted ? count_workers(l, &r->workers, f) : DEFIB_OK;
}

defib_err waiting_recall(const struct look *l, struct facts *facts, struct failure *f)
{
	const struct watch *w = l->sql->binding->watch;
	struct waiting_pass pass = {0};
	if (!watch_waits(w) || !facts->waiting)
		return DEFIB_OK;
	defib_err err = w->last_run_at.text ? recall_due(l, &pass, facts, 1, f) : DEFIB_OK;
	if (err || !is_late(w, facts))
		return err;
	err = waiting_look(l, &pass, f);
	facts->starts = starts_of(&pass, w, facts);
	return err;
}
