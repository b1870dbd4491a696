/* SPDX-License-Identifier: Apache-2.0
 * doctor_trial.c: whether the remedies work, tried on a row in a transaction that is rolled back.
 *
 * A rollback does not take back everything: a function can end sessions, draw numbers from a
 * sequence, write files, or run statements on another server. So nothing is executed but UPDATEs
 * made from SET lists, and these only if the catalog shows that they run nothing else: no trigger
 * or rule, and no function that could do more than compute, be it named in the watch or used by the
 * table. Statements that the user wrote (`sql`, `call`, `also`) are never executed, and not planned
 * either, because planning evaluates functions: the database only parses and analyses them, as all
 * statements of the watch (watch_prepare). What was not tried is reported, and a person can ask for
 * it.
 */
#include "setup/doctor_check.h"

#include "recover/apply.h"
#include "recover/look.h"
#include "recover/scan.h"
#include "store/dialect.h"
#include "watch/lexer.h"

#define REASONS_SHOWN 3

/* ---- what executing a remedy could do beyond its transaction ---- */

/* The names in the statements that a trial runs, as JSON lists. */
struct names {
	struct buf called; /* those that can be functions */
	struct buf all;    /* those, and those of tables and types */
	int ncalled, nall;
};

static void add_name(struct buf *list, int *n, const char *name)
{
	buf_add(list, (*n)++ ? "," : "[");
	buf_add_json(list, name);
}

static bool is_column(struct examination *x, const char *name)
{
	for (int i = 0; i < x->binding.ncolumns; i++)
		if (strcasecmp(x->binding.columns[i].name, name) == 0)
			return true;
	return false;
}

/*
 * A function is called by `name(…)`, but also as if it were a column of a row: `row.name`. A column
 * of the table hides a function of the same name there.
 */
static void add_names(struct examination *x, const char *sql, struct names *out)
{
	struct sql_lexer lx;
	bool dotted = false;
	sql_lexer_init(&lx, sql, x->store->engine);
	for (;;) {
		struct sql_token t = sql_next(&lx);
		if (t.type == SQL_END || t.type == SQL_OPEN_ENDED)
			return;
		if (t.type == SQL_SPACE)
			continue;
		if (t.type == SQL_WORD || t.type == SQL_NAME) {
			const char *name = sql_name(&x->arena, t);
			struct sql_lexer ahead = lx;
			struct sql_token next = sql_next(&ahead);
			if (next.type == SQL_SPACE)
				next = sql_next(&ahead);
			add_name(&out->all, &out->nall, name);
			if (sql_is_mark(next, '(') || (dotted && !is_column(x, name)))
				add_name(&out->called, &out->ncalled, name);
		}
		dotted = sql_is_mark(t, '.');
	}
}

/* Those of the second reading and of the remedy's UPDATEs. */
static void collect_names(struct examination *x, int remedy, struct names *out)
{
	add_names(x, x->sql.reread, out);
	for (int i = 0; i < x->sql.nwrites[remedy]; i++)
		add_names(x, x->sql.writes[remedy][i].sql, out);
	buf_add(&out->called, out->ncalled ? "]" : "[]");
	buf_add(&out->all, out->nall ? "]" : "[]");
}

static void written_columns(struct examination *x, struct buf *out)
{
	buf_add(out, "[");
	for (int i = 0; i < x->sql.nbefore; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, x->sql.before[i]);
	}
	buf_add(out, "]");
}

/* What the catalog has against executing it: "trigger audit, function next_number()"; NULL:
 * nothing. */
static const char *catalog_reasons(struct examination *x, int remedy)
{
	struct names names = {.called = BUF_INIT, .all = BUF_INIT};
	AUTO_BUF table = BUF_INIT, written = BUF_INIT, text = BUF_INIT;
	struct store_rows rows;
	struct failure f = {0};
	collect_names(x, remedy, &names);
	written_columns(x, &written);
	store_dialect(x->store)->catalog_name(&table, x->watch->table);
	struct store_param params[] = {P_TEXT(buf_text(&table)), P_TEXT(buf_text(&names.called)),
	                               P_TEXT(buf_text(&names.all)), P_TEXT(buf_text(&written))};
	defib_err err = ask(x, store_dialect(x->store)->ask.outlasts, params, 4, &rows, &f);
	buf_release(&names.called);
	buf_release(&names.all);
	if (err)
		return arena_printf(&x->arena, "the catalog could not be read (%s)", f.what);
	for (int i = 0; i < rows.nrows && i < REASONS_SHOWN; i++)
		buf_addf(&text, "%s%s", i ? ", " : "", row_text(&rows, i, 0));
	if (rows.nrows > REASONS_SHOWN)
		buf_addf(&text, " and %d more", rows.nrows - REASONS_SHOWN);
	return rows.nrows ? arena_strdup(&x->arena, buf_text(&text)) : NULL;
}

/* Why executing a remedy could do what a rollback does not take back; NULL: it cannot. */
static const char *why_untried(struct examination *x, int remedy)
{
	for (int i = 0; i < x->sql.nwrites[remedy]; i++) {
		const struct write_sql *w = &x->sql.writes[remedy][i];
		if (!w->set)
			return "the watch's own SQL (sql:, call: or also:)";
		if (sql_names(w->set, x->store->engine, "default"))
			return "a column's DEFAULT";
	}
	return catalog_reasons(x, remedy);
}

/* ---- the trial ---- */

/* The row that a remedy is tried on, and the result. */
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
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(&x->binding, "t.", &sql);
	from_table(&x->binding, &sql);
	buf_addf(&sql, "\nWHERE (%s)\nLIMIT 1", x->watch->running.text);
	defib_err err = ask(x, buf_text(&sql), NULL, 0, &rows, f);
	*there = !err && rows.nrows > 0;
	for (int k = 0; *there && k < x->watch->key.n; k++)
		key[k] = row_text(&rows, 0, k);
	return *there ? look_one(s, &x->sql, &none, key, &x->arena, out, there, f) : err;
}

/* A stuck row if there is one: no live worker should find its row locked, however briefly. */
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

/* Whether to continue with the next remedy. */
static bool try_remedy(struct examination *x, struct sample *s, int remedy)
{
	static const struct ledger none;
	struct scan_options how = {.fix = true, .forced = true, .remedy = (enum remedy)remedy};
	struct apply ap = {.store = s->store, .sql = &x->sql, .ledger = &none};
	struct judgement j = judge(x->watch, &s->facts);
	struct candidate c;
	struct failure f = {0};
	/* A live row stands in for stuck ones if there are none. */
	if (j.verdict == VERDICT_NONE)
		j.verdict = VERDICT_SILENT;
	candidate_prepare(x->watch, &s->facts, &j, &how, false, &x->arena, &c);
	c.does = remedy;
	c.decision.act = true;
	c.outcome = OUTCOME_LEFT;
	c.retry_us = s->facts.now_us + x->watch->backoff.base_us;
	defib_err err = apply_try(&ap, &c, &x->arena, &f);
	/* Other checks report missing privileges and read-only databases. */
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

static void try_all(struct examination *x, struct sample *s, const bool *tried)
{
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (tried[r] && !try_remedy(x, s, r))
			break;
	if (s->tried.len)
		found(x, FINDING_OK, NULL, "%s: tried on job %s and rolled back; the row is no longer %s",
		      buf_text(&s->tried), s->facts.job, x->watch->stays_running ? "stuck" : "running");
}

static void try_on_a_row(struct examination *x, const bool *tried)
{
	struct store_options options = x->doctor->store;
	struct sample s = {.tried = BUF_INIT};
	struct failure f = {0};
	bool there = false;
	options.read_only = false;
	options.create = false;
	if (x->doctor->open(&options, &s.store, &f))
		return;
	defib_err err = find_sample(x, s.store, &s.facts, &there, &f);
	if (there)
		try_all(x, &s, tried);
	else if (!err)
		found(x, FINDING_OK, NULL, "no row is running, so no remedy could be tried");
	store_close(s.store);
	buf_release(&s.tried);
}

/* One finding for all remedies that have the same reason. */
static void report_untried(struct examination *x, const char *const why[REMEDY_COUNT])
{
	for (int r = 0; r < REMEDY_COUNT; r++) {
		AUTO_BUF names = BUF_INIT;
		bool told = false;
		int n = 0;
		for (int q = 0; q < r; q++)
			told = told || text_eq(why[q], why[r]);
		if (!why[r] || told)
			continue;
		for (int q = r; q < REMEDY_COUNT; q++)
			if (text_eq(why[q], why[r]))
				buf_addf(&names, "%s%s", n++ ? ", " : "", remedy_names[q]);
		found(x, FINDING_OK, NULL,
		      "%s: prepared, but not tried on a row, because a rollback may not take back all "
		      "effects of %s; `defib doctor %s --try` runs and rolls back every remedy",
		      buf_text(&names), why[r], x->watch->name);
	}
}

void check_remedies(struct examination *x)
{
	const char *why[REMEDY_COUNT] = {NULL};
	bool tried[REMEDY_COUNT] = {false}, any = false;
	if (x->doctor->trial == TRIAL_NONE)
		return;
	for (int r = 0; r < REMEDY_COUNT && !x->store->lost; r++) {
		if (x->sql.nwrites[r] == 0)
			continue;
		why[r] = x->doctor->trial == TRIAL_ALL ? NULL : why_untried(x, r);
		tried[r] = !why[r];
		any = any || tried[r];
	}
	if (x->store->lost)
		return;
	if (any)
		try_on_a_row(x, tried);
	report_untried(x, why);
}
