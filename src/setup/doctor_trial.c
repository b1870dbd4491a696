/* SPDX-License-Identifier: Apache-2.0
 * doctor_trial.c: whether the remedies, and the lists of `work:`, do what their names say, tried on
 * a row in a transaction that is rolled back.
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

#include "setup/doctor_trial.h"

#include "lib/advice.h"
#include "recover/apply.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "recover/scan.h"
#include "setup/doctor_check.h"
#include "store/dialect.h"
#include "watch/lexer.h"
#include "worker/work_trial.h"

#define REASONS_SHOWN 3

/* ---- what a trial could do beyond its transaction ---- */

/* What a trial executes: statements, the SET lists in them, and the columns that these assign. */
struct executed {
	const char *const *statements;
	const char *const *sets;
	const char *const *columns;
	int nstatements, nsets, ncolumns;
};

/* The names in the statements that a trial runs, as JSON lists. */
struct trial_names {
	struct buf called; /* those that can be functions */
	struct buf all;    /* those, and those of tables and types */
	int ncalled, nall;
};

static void trial_add_name(struct buf *list, int *n, const char *name)
{
	buf_add(list, (*n)++ ? "," : "[");
	buf_add_json(list, name);
}

static bool trial_is_column(struct examination *x, const char *name)
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
static void trial_add_names(struct examination *x, const char *sql, struct trial_names *out)
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
			trial_add_name(&out->all, &out->nall, name);
			if (sql_is_mark(next, '(') || (dotted && !trial_is_column(x, name)))
				trial_add_name(&out->called, &out->ncalled, name);
		}
		dotted = sql_is_mark(t, '.');
	}
}

static void collect_names(struct examination *x, const struct executed *e, struct trial_names *out)
{
	for (int i = 0; i < e->nstatements; i++)
		trial_add_names(x, e->statements[i], out);
	buf_add(&out->called, out->ncalled ? "]" : "[]");
	buf_add(&out->all, out->nall ? "]" : "[]");
}

static void written_columns(const struct executed *e, struct buf *out)
{
	buf_add(out, "[");
	for (int i = 0; i < e->ncolumns; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, e->columns[i]);
	}
	buf_add(out, "]");
}

/* What the catalog has against executing it: "trigger audit, function next_number()"; NULL:
 * nothing. */
static const char *catalog_reasons(struct examination *x, const struct executed *e)
{
	struct trial_names names = {.called = BUF_INIT, .all = BUF_INIT};
	AUTO_BUF table = BUF_INIT, written = BUF_INIT, text = BUF_INIT;
	struct store_rows rows;
	struct failure f = {0};
	collect_names(x, e, &names);
	written_columns(e, &written);
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

/* Why executing this could do what a rollback does not take back; NULL: it cannot. */
static const char *why_untried(struct examination *x, const struct executed *e)
{
	for (int i = 0; i < e->nsets; i++) {
		if (!e->sets[i])
			return "the watch's own SQL (sql:, call: or also:)";
		if (sql_names(e->sets[i], x->store->engine, "default"))
			return "a column's DEFAULT";
	}
	return catalog_reasons(x, e);
}

/* The second reading, and the remedy's UPDATEs. */
static const char *why_remedy_untried(struct examination *x, int remedy)
{
	int n = x->sql.nwrites[remedy];
	const char **statements = ARENA_ARRAY(&x->arena, const char *, n + 1);
	const char **sets = ARENA_ARRAY(&x->arena, const char *, n);
	statements[0] = x->sql.reread;
	for (int i = 0; i < n; i++) {
		statements[i + 1] = x->sql.writes[remedy][i].sql;
		sets[i] = x->sql.writes[remedy][i].set;
	}
	return why_untried(x, &(struct executed){.statements = statements,
	                                         .nstatements = n + 1,
	                                         .sets = sets,
	                                         .nsets = n,
	                                         .columns = x->sql.before,
	                                         .ncolumns = x->sql.nbefore});
}

/* ---- remedies ---- */

/* The row that a remedy is tried on, and the result. */
struct remedy_trial {
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
	return *there ? look_one(&(struct look){s, &x->sql, &none, &x->arena}, key, out, there, f)
	              : err;
}

/* A stuck row if there is one: no live worker should find its row locked, however briefly. */
static defib_err find_sample(struct examination *x, struct store *s, struct facts *out, bool *there,
                             struct failure *f)
{
	static const struct ledger none;
	struct facts *stuck = NULL;
	int n = 0;
	defib_err err =
		look_page(&(struct look){s, &x->sql, &none, &x->arena}, NULL, 1, NULL, &stuck, &n, f);
	*there = !err && n > 0;
	if (*there)
		*out = stuck[0];
	return err || *there ? err : look_running_one(x, s, out, there, f);
}

static const char *advice(struct examination *x, int remedy)
{
	bool back = act_has(remedy, ACT_RUNS_AGAIN);
	return arena_printf(&x->arena, "make %s change a column that running tests (%s)%s",
	                    remedy_names[remedy], x->watch->running.text,
	                    back ? ", or write stays_running: true if waiting rows match it too" : "");
}

/* Whether to continue with the next remedy. */
static bool try_remedy(struct examination *x, struct remedy_trial *s, int remedy)
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

static void try_all(struct examination *x, struct remedy_trial *s, const bool *tried)
{
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (tried[r] && !try_remedy(x, s, r))
			break;
	if (s->tried.len)
		found(x, FINDING_OK, NULL, "%s: tried on job %s and rolled back; the row is no longer %s",
		      buf_text(&s->tried), s->facts.job, x->watch->stays_running ? "stuck" : "running");
}

/* A session that may write; NULL: none can be opened, which other checks report. */
static struct store *open_to_write(struct examination *x)
{
	struct store_options options = x->doctor->store;
	struct store *s = NULL;
	struct failure f = {0};
	options.read_only = false;
	options.create = false;
	return x->doctor->open(&options, &s, &f) ? NULL : s;
}

static void try_on_a_row(struct examination *x, const bool *tried)
{
	struct remedy_trial s = {.store = open_to_write(x), .tried = BUF_INIT};
	struct failure f = {0};
	bool there = false;
	if (!s.store)
		return;
	defib_err err = find_sample(x, s.store, &s.facts, &there, &f);
	if (there)
		try_all(x, &s, tried);
	else if (!err)
		found(x, FINDING_OK, NULL, "no row is running, so no remedy could be tried");
	store_close(s.store);
	buf_release(&s.tried);
}

/* One finding for all that have the same reason; `why` NULL: it was tried. */
static void report_untried(struct examination *x, const char *const *names, const char *const *whys,
                           int n)
{
	for (int i = 0; i < n; i++) {
		AUTO_BUF same = BUF_INIT;
		bool reported = false;
		for (int k = 0; k < i; k++)
			reported = reported || text_eq(whys[k], whys[i]);
		if (!whys[i] || reported)
			continue;
		for (int k = i; k < n; k++)
			if (text_eq(whys[k], whys[i]))
				buf_addf(&same, "%s%s", same.len ? ", " : "", names[k]);
		found(x, FINDING_OK, NULL,
		      "%s: prepared, but not tried on a row, because a rollback may not take back all "
		      "effects of %s; `defib doctor %s --try` runs and rolls back all of them",
		      buf_text(&same), whys[i], x->watch->name);
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
		why[r] = x->doctor->trial == TRIAL_ALL ? NULL : why_remedy_untried(x, r);
		tried[r] = !why[r];
		any = any || tried[r];
	}
	if (x->store->lost)
		return;
	if (any)
		try_on_a_row(x, tried);
	report_untried(x, remedy_names, why, REMEDY_COUNT);
}

/* ---- the lists of work ---- */

struct lists {
	struct examination *x;
	struct work_trial *trial;
	struct store *store;     /* a session that may write */
	const char **names;      /* of each list; NULL: the watch does not have it */
	const char **whys;       /* why it was not tried, for the catalog's sake */
	bool claims;             /* a claim may be tried, and does what it says */
	struct buf tried, empty; /* the lists that do what they say; those without a row */
	const char *job;         /* the last one that was used */
};

static const char *why_list_untried(struct lists *l, int list, bool claims)
{
	struct work_trial_reads r;
	struct executed e = {0};
	if (l->x->doctor->trial == TRIAL_ALL)
		return NULL;
	work_trial_reads(l->trial, list, claims, &l->x->arena, &r);
	e = (struct executed){
		.statements = r.statements, .sets = r.sets, .columns = r.columns, .ncolumns = r.ncolumns};
	while (r.statements[e.nstatements])
		e.nstatements++;
	while (e.nsets < 2 && r.sets[e.nsets])
		e.nsets++;
	return why_untried(l->x, &e);
}

/* Without what the finding's heading says. */
static const char *without_watch(struct examination *x, const char *what)
{
	const char *prefix = arena_printf(&x->arena, "watch %s: ", x->watch->name);
	return text_starts(what, prefix) ? what + strlen(prefix) : what;
}

/* Whether a row was found for it. */
static bool try_list(struct lists *l, int list, bool claims)
{
	struct examination *x = l->x;
	struct failure f = {0};
	enum work_tried as;
	const char *job;
	defib_err err = work_trial_try(l->trial, l->store, list, claims, &x->arena, &as, &job, &f);
	/* Other checks report these. */
	if (err == DEFIB_PERMISSION || err == DEFIB_READ_ONLY || err == DEFIB_LOCKED)
		return true;
	l->job = job ? job : l->job;
	if (err) {
		found(x, FINDING_WARN, NULL,
		      "%s was tried on job %s and rolled back: the database refuses "
		      "it: %s",
		      l->names[list], job ? job : "", f.what);
		return true;
	}
	if (as == WORK_WRONG)
		found(x, FINDING_FAIL, failure_next(&f), "tried on job %s and rolled back: %s", job,
		      without_watch(x, f.what));
	else if (as == WORK_TRIED)
		buf_addf(&l->tried, "%s%s", l->tried.len ? ", " : "", l->names[list]);
	if (as == WORK_TRIED && list == WORK_TRIAL_CLAIM)
		l->claims = true;
	return as != WORK_NO_ROW;
}

/* After a claim if there is a row to claim, else on a row that runs. */
static void trial_list(struct lists *l, int list)
{
	bool is_claim = list == WORK_TRIAL_CLAIM, found_row = false;
	for (int claims = 1; claims >= 0 && !found_row && !l->store->lost; claims--) {
		/* Without a claim list, what is ready runs. */
		if (claims && !is_claim && l->names[WORK_TRIAL_CLAIM] && !l->claims)
			continue;
		if (!claims && is_claim)
			continue;
		l->whys[list] = why_list_untried(l, list, claims);
		if (!l->whys[list])
			found_row = try_list(l, list, claims);
	}
	if (!found_row && !l->whys[list])
		buf_addf(&l->empty, "%s%s", l->empty.len ? ", " : "", l->names[list]);
}

static void check_all_lists(struct lists *l)
{
	struct examination *x = l->x;
	int n = work_trial_count();
	l->names = ARENA_ARRAY(&x->arena, const char *, n);
	l->whys = ARENA_ARRAY(&x->arena, const char *, n);
	for (int i = 0; i < n; i++)
		l->names[i] = work_trial_option(l->trial, i);
	for (int i = 0; i < n; i++)
		if (l->names[i])
			trial_list(l, i);
	if (l->tried.len)
		found(x, FINDING_OK, NULL, "%s: tried on job %s and rolled back; each does what it says",
		      buf_text(&l->tried), l->job);
	if (l->empty.len)
		found(x, FINDING_OK, NULL, "%s: prepared, but no row could be used to try it",
		      buf_text(&l->empty));
	report_untried(x, l->names, l->whys, n);
}

void check_lists(struct examination *x)
{
	struct lists l = {.x = x, .tried = BUF_INIT, .empty = BUF_INIT};
	struct failure f = {0};
	if (x->doctor->trial == TRIAL_NONE || !x->watch->work.given)
		return;
	defib_err err = work_trial_open(x->watch, x->store, &l.trial, &f);
	if (err == DEFIB_CONFIG && !x->binding.leases)
		found(x, FINDING_OK, NULL, "not tried, because %s", without_watch(x, f.what));
	else if (err)
		found(x, FINDING_FAIL, *failure_next(&f) ? failure_next(&f) : NULL, "%s",
		      without_watch(x, f.what));
	else if ((l.store = open_to_write(x)))
		check_all_lists(&l);
	store_close(l.store);
	work_trial_close(l.trial);
	buf_release(&l.tried);
	buf_release(&l.empty);
}
