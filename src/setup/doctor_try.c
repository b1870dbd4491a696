/* SPDX-License-Identifier: Apache-2.0
 * doctor_try.c: whether the remedies help, by trying them: each is carried out on one running row
 * in a transaction that is rolled back. Numbers that were drawn from sequences on the way are not
 * given back; nothing else of it remains.
 */
#include "setup/doctor_check.h"

#include "recover/apply.h"
#include "recover/look.h"
#include "recover/scan.h"
#include "watch/compile_parts.h"

/* The row that a remedy is tried on, and what came of it. */
struct sample {
	struct store *store; /* a session that may write */
	struct facts facts;
	struct buf tried; /* the remedies that help */
};

static defib_err look_running_one(struct examination *x, struct store *s, struct facts *out,
                                  bool *there, struct failure *f)
{
	static const struct ledger none;
	struct store_rows rows;
	const char *key[WATCH_KEYS_MAX];
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(&x->binding, "t.", &sql);
	from_table(&x->binding, &sql);
	buf_addf(&sql, "\nWHERE (%s)\nLIMIT 1", x->watch->running.text);
	defib_err err = ask(x, buf_text(&sql), NULL, 0, &rows, f);
	buf_release(&sql);
	*there = !err && rows.nrows > 0;
	for (int k = 0; *there && k < x->watch->key.n; k++)
		key[k] = row_text(&rows, 0, k);
	return *there ? look_one(s, &x->sql, &none, key, &x->arena, out, there, f) : err;
}

/* A stuck row where there is one: no living worker is to find its row locked, however briefly. */
static defib_err find_sample(struct examination *x, struct store *s, struct facts *out, bool *there,
                             struct failure *f)
{
	static const struct ledger none;
	struct facts *stuck = NULL;
	int n = 0;
	defib_err err = look_page(s, &x->sql, &none, NULL, 1, NULL, &x->arena, &stuck, &n, f);
	*there = !err && n > 0;
	if (*there)
		*out = stuck[0];
	return err || *there ? err : look_running_one(x, s, out, there, f);
}

static const char *advice(struct examination *x, int remedy)
{
	bool back = remedy == REMEDY_REQUEUE || remedy == REMEDY_RETRY;
	return arena_printf(&x->arena, "make %s change a column that running tests (%s)%s",
	                    remedy_names[remedy], x->watch->running.text,
	                    back ? ", or write stays_running: true if waiting rows match it too" : "");
}

/* Whether the walk over the remedies goes on. */
static bool try_remedy(struct examination *x, struct sample *s, int remedy)
{
	static const struct ledger none;
	struct scan_options how = {.fix = true, .forced = true, .remedy = (enum remedy)remedy};
	struct apply ap = {.store = s->store, .sql = &x->sql, .ledger = &none};
	struct judgement j = judge(x->watch, &s->facts);
	struct candidate c;
	struct failure f = {0};
	/* A living row stands for the stuck ones that are not there now. */
	if (j.verdict == VERDICT_NONE)
		j.verdict = VERDICT_SILENT;
	candidate_prepare(x->watch, &s->facts, &j, &how, false, &x->arena, &c);
	c.does = remedy;
	c.decision.act = true;
	c.outcome = OUTCOME_LEFT;
	c.retry_us = s->facts.now_us + x->watch->backoff.base_us;
	defib_err err = apply_try(&ap, &c, &x->arena, &f);
	/* What may not be written, or where nothing can be, other checks tell. */
	if (err == DEFIB_PERMISSION || err == DEFIB_READ_ONLY || err == DEFIB_LOCKED)
		return false;
	if (err || c.outcome == OUTCOME_REFUSED)
		found(x, err ? FINDING_WARN : FINDING_FAIL, err ? NULL : advice(x, remedy),
		      "%s was tried on job %s and rolled back: %s%s", remedy_names[remedy], s->facts.job,
		      err ? "the database refuses it: " : "", err ? f.what : c.refusal);
	else if (c.outcome == OUTCOME_LEFT)
		buf_addf(&s->tried, "%s%s", s->tried.len ? ", " : "", remedy_names[remedy]);
	return !s->store->lost && c.outcome != OUTCOME_LOCKED && c.outcome != OUTCOME_CHANGED;
}

static void try_all(struct examination *x, struct sample *s)
{
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (x->sql.nwrites[r] > 0 && !try_remedy(x, s, r))
			break;
	if (s->tried.len)
		found(x, FINDING_OK, NULL, "%s: tried on job %s and rolled back; the row is no longer %s",
		      buf_text(&s->tried), s->facts.job, x->watch->stays_running ? "stuck" : "running");
}

void check_remedies(struct examination *x)
{
	struct store_options options = x->doctor->store;
	struct sample s = {.tried = BUF_INIT};
	struct failure f = {0};
	bool there = false;
	options.read_only = false;
	options.create = false;
	if (!x->doctor->try_remedies || x->doctor->open(&options, &s.store, &f))
		return;
	defib_err err = find_sample(x, s.store, &s.facts, &there, &f);
	if (there)
		try_all(x, &s);
	else if (!err)
		found(x, FINDING_OK, NULL, "no row is running, so no remedy could be tried");
	store_close(s.store);
	buf_release(&s.tried);
}
