/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/held.h"

#include "ledger/counts.h"
#include "ledger/jobs.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "watch/terms.h"

#define STATE_COUNT_MAX 100000

#define HELD_PAGE 1000

/*
 * The holds of a watch with the facts of their jobs, one page at a time; facts[i].job is NULL if
 * the row is gone.
 */
struct holds {
	enum hold_rows which;
	struct held_job *all;
	struct facts *facts;
	int n, seen; /* of this page, of all */
};

/* Whether there may be another page. */
static bool more_holds(const struct holds *h)
{
	return h->n == HELD_PAGE && h->seen < HELD_LOOK_MAX;
}

/* The next page, or the first. */
static defib_err held_read_holds(struct store *s, const struct watch_sql *q, struct arena *a,
                                 struct holds *out, struct failure *f)
{
	const struct ledger there = {.ready = true};
	const struct binding *b = q->binding;
	const char *after = out->n > 0 ? out->all[out->n - 1].job : NULL;
	defib_err err = ledger_holds_page(s, out->which, b->watch->name, b->table_key, after, HELD_PAGE,
	                                  a, &out->all, &out->n, f);
	if (err || out->n == 0)
		return err;
	out->seen += out->n;
	const char **jobs = JOBS_OF(out->all, job, out->n, a);
	return look_each(&(struct look){s, q, &there, a}, jobs, out->n, &out->facts, f);
}

bool held_now(const struct watch *w, const struct facts *f, const char *state)
{
	const char *name = state_named(w, state);
	name = name ? name : state;
	return hold_in_force(hold_state_of_row(f->hold, name && strcasecmp(name, "held") == 0));
}

/* Rows that say themselves that they are held. */
static defib_err count_held_rows(struct store *s, const struct binding *b, struct arena *a,
                                 int64_t *n, struct failure *f)
{
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT count(*) FROM (SELECT 1");
	from_table(b, &sql);
	buf_addf(&sql, " WHERE (%s) LIMIT %d) AS defib_s", b->watch->stats.held.text, STATE_COUNT_MAX);
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	*n = row_int(&rows, 0, 0, 0);
	return err;
}

/* How many of `n` holds are in force; *all without rows that say so themselves. */
static defib_err count_in_force(struct store *s, const struct watch_sql *q, enum hold_rows which,
                                int64_t n, int64_t *all, int64_t *running, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct holds holds = {.which = which};
	bool says = q->binding->watch->stats.held.text != NULL;
	defib_err err = DEFIB_OK;
	*all = *running = 0;
	if (n > HELD_LOOK_MAX) {
		*all = says ? 0 : n;
		*running = n;
		return DEFIB_OK;
	}
	while (!err && n > 0) {
		err = held_read_holds(s, q, &a, &holds, f);
		for (int i = 0; !err && i < holds.n; i++) {
			bool held = hold_in_force(holds.facts[i].hold), runs = holds.facts[i].running;
			*all += held && !(says && !runs);
			*running += held && runs;
		}
		if (!more_holds(&holds))
			break;
	}
	return err;
}

/* Those whose verdict is the one that an operator excused. */
static defib_err count_excused(struct store *s, const struct watch_sql *q, struct held_count *out,
                               struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct holds holds = {.which = HOLDS_EXCUSES};
	const struct watch *w = q->binding->watch;
	defib_err err;
	do {
		err = held_read_holds(s, q, &a, &holds, f);
		for (int i = 0; !err && i < holds.n; i++) {
			const struct facts *one = &holds.facts[i];
			struct judgement j = judge(w, one);
			if (!one->job || !judged_excused(one, &j))
				continue;
			bool found = !(j.measured && watch_remembers(w, j.sign));
			out->excused++;
			out->excused_found += found;
			out->excused_as[j.verdict] += found;
		}
	} while (!err && more_holds(&holds));
	return err;
}

defib_err held_stuck(struct store *s, const struct watch_sql *q, bool ledger, int64_t *n,
                     struct failure *f)
{
	struct held_count held = {0};
	defib_err err = look_stuck(s, q, n, f);
	if (!err && ledger && *n > 0)
		err = count_excused(s, q, &held, f);
	*n -= *n > held.excused_found ? held.excused_found : *n;
	return err;
}

defib_err held_count(struct store *s, const struct watch_sql *q, struct held_count *out,
                     struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct binding *b = q->binding;
	struct held_rows kept;
	int64_t marked = 0, theirs = 0, running = 0;
	*out = (struct held_count){0};
	defib_err err = ledger_count_held(s, b->watch->name, b->table_key, &kept, f);
	out->retries = kept.retries;
	if (!err && b->watch->stats.held.text)
		err = count_held_rows(s, b, &a, &marked, f);
	if (!err)
		err = count_in_force(s, q, HOLDS_OWN, kept.own, &out->all, &out->running, f);
	/* The watch that made them counts them; here they are only not stuck. */
	if (!err)
		err = count_in_force(s, q, HOLDS_OF_OTHERS, kept.others, &theirs, &running, f);
	if (!err && kept.excuses)
		err = count_excused(s, q, out, f);
	out->all += marked;
	out->running += running;
	return err;
}

static int oldest_first(const void *a, const void *b)
{
	const struct held_job *x = a, *y = b;
	int order = strcmp(x->at, y->at);
	return order ? order : strcmp(x->job, y->job);
}

defib_err held_jobs(struct store *s, const struct watch_sql *q, int most, struct arena *a,
                    struct held_job **out, int *n, struct failure *f)
{
	struct holds holds = {0};
	struct held_job *all = ARENA_ARRAY(a, struct held_job, HELD_LOOK_MAX);
	defib_err err;
	*n = 0;
	do {
		err = held_read_holds(s, q, a, &holds, f);
		for (int i = 0; !err && i < holds.n; i++)
			if (hold_in_force(holds.facts[i].hold))
				all[(*n)++] = holds.all[i];
	} while (!err && more_holds(&holds));
	qsort(all, (size_t)*n, sizeof *all, oldest_first);
	*out = all;
	*n = *n < most ? *n : most;
	return err;
}

/* Whether nothing depends on the row any more. */
static bool hold_is_over(const struct watch *w, const struct held_job *h, const struct facts *f)
{
	if (h->excuse.verdict) /* other watches may read the row by other expressions */
		return text_eq(h->watch, w->name) && !f->excused;
	return !hold_in_force(f->hold) && !text_eq(h->cause, HOLD_UNDONE);
}

static defib_err clear_over(struct store *s, const struct watch_sql *q, enum hold_rows which,
                            struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct holds holds = {.which = which};
	defib_err err = DEFIB_OK;
	do {
		err = held_read_holds(s, q, &a, &holds, f);
		for (int i = 0; !err && i < holds.n; i++)
			if (hold_is_over(q->binding->watch, &holds.all[i], &holds.facts[i]))
				err = ledger_hold_forget(s, &holds.all[i], &a, f);
	} while (!err && more_holds(&holds));
	return err;
}

defib_err held_clear(struct store *s, const struct watch_sql *q, struct failure *f)
{
	defib_err err = clear_over(s, q, HOLDS_EXCUSES, f);
	if (!err && watch_writes_hold(q->binding->watch))
		err = clear_over(s, q, HOLDS_OWN, f);
	return err;
}
