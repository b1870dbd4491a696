/* SPDX-License-Identifier: Apache-2.0
 * check.c: checks on a watch beyond its option table: it can judge at all, its thresholds fit the
 * beat, every rule can be applied, and every piece of SQL is closed and uses known parameters.
 */

#include "watch/check.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "watch/certain.h"
#include "watch/lexer.h"
#include "watch/options.h"
#include "watch/settings.h"
#include "watch/watch.h"

struct watch_checks {
	struct cfg_reader *r;
	const struct watch *w;
	enum store_engine engine;
};

static void problem(struct watch_checks *c, struct cfg_mark at, const char *what)
{
	cfg_problem(c->r, at.line ? at : c->w->at, "watch %s: %s", c->w->name, what);
}

/* A sign and its limit need each other; only a deadline says by itself when it has passed. */
static void check_sign_and_limit(struct watch_checks *c, enum sign s)
{
	const struct watch *w = c->w;
	const struct sign_kind *kind = &sign_kinds[s];
	const struct threshold *limit = watch_limit(w, s);
	AUTO_BUF what = BUF_INIT, signs = BUF_INIT;
	bool measured = false;
	if (watch_sign(w, s)->text && !limit->given && !limit->off && !kind->deadline) {
		buf_addf(&what, "%s needs %s, such as %s: 60m", kind->option, kind->limit, kind->limit);
		problem(c, watch_sign(w, s)->at, buf_text(&what));
	}
	if (watch_measures(w, s) && limit->given && !kind->deadline && threshold_least(limit) == 0) {
		buf_addf(&what, "%s 0s would make every running row stuck", kind->limit);
		problem(c, w->at, buf_text(&what));
	}
	if (!limit->given || !sign_brings_limit(s))
		return;
	for (enum sign with = s; with < SIGN_COUNT; with++)
		if (watch_limit(w, with) == limit) {
			measured = measured || watch_measures(w, with);
			buf_addf(&signs, "%s%s", signs.len ? " or " : "", sign_kinds[with].option);
		}
	if (!measured) {
		buf_addf(&what, "%s needs %s", kind->limit, buf_text(&signs));
		problem(c, w->at, buf_text(&what));
	}
	if (limit->n && !w->kind.text)
		problem(c, w->at, "thresholds by kind need kind:, the expression that tells a row's kind");
}

static void check_signs(struct watch_checks *c)
{
	const struct watch *w = c->w;
	bool any = false;
	for (enum sign s = 0; s < SIGN_COUNT; s++) {
		any = any || watch_sign(w, s)->text;
		check_sign_and_limit(c, s);
	}
	if (!any && !w->owner_alive.text)
		problem(c, w->at,
		        "nothing tells whether a row is stuck; give alive_at and stuck_after, "
		        "expires_at, started_at and overdue_after, or owner_alive");
	if (w->state_since.text && !w->overdue_after.states.n)
		problem(
			c, w->state_since.at,
			"state_since needs limits by state, such as overdue_after: {state: {cancelling: 5m}, "
			"default: 1h}");
	if (w->overdue_after.own.text && !w->started_at.text)
		problem(c, w->overdue_after.own.at, "overdue_after.sql needs started_at");
	if (w->progress.text && !w->stalled_after.given && !w->stalled_after.off)
		problem(c, w->progress.at,
		        "progress needs stalled_after, such as stalled_after: 30m, or off");
	if (w->progress.text && w->progress_at.text)
		problem(c, w->progress_at.at,
		        "progress and progress_at are two ways to say the same; give one of them");
	if (w->time_zone && w->time_type != TIME_TYPE_AUTO)
		problem(c, w->at,
		        "time_zone is for timestamps without a zone; leave time_type out: it names another "
		        "format");
	if (w->missing == MISSING_ORPHAN && !any)
		problem(c, w->at, "missing: orphan needs a sign of life that can be null");
}

/* Which rows wait, since when, and how long they may: each needs the others. */
static void check_waiting(struct watch_checks *c)
{
	const struct watch *w = c->w;
	const struct threshold *late = &w->late_after;
	bool limited = late->given || late->off;
	if (w->due_at.text && !w->waiting.text)
		problem(c, w->due_at.at, "due_at needs waiting, which selects the rows that wait");
	if (w->waiting.text && !w->due_at.text)
		problem(c, w->waiting.at,
		        "waiting needs due_at, which says since when a row could have been started");
	if (w->waiting.text && w->due_at.text && !limited)
		problem(c, w->due_at.at, "due_at needs late_after, such as late_after: 10m, or off");
	if (limited && !w->waiting.text)
		problem(c, w->at, "late_after needs waiting and due_at");
	if (w->last_run_at.text && !w->waiting.text)
		problem(c, w->last_run_at.at, "last_run_at needs waiting, due_at and late_after");
	if (late->given && threshold_least(late) == 0)
		problem(c, w->at, "late_after 0s would report every row at the moment when it is due");
	if (late->states.n || late->own.text)
		problem(c, w->at, "late_after is a duration, or durations by kind with a default");
	if (late->n && !w->kind.text)
		problem(c, w->at, "late_after by kind needs kind:, the expression that tells a row's kind");
	if (w->waiting.text && !w->only_waits && text_eq(w->waiting.text, w->running.text))
		problem(c, w->waiting.at, "waiting and running select the same rows");
	if (w->wake.notify && !watch_waits(w))
		problem(c, w->at, "wake needs waiting, due_at and late_after");
	if (w->wake.notify && !dialect_of(c->engine)->can_notify)
		problem(c, w->at, "wake.notify is for PostgreSQL: this database has no NOTIFY");
	if (w->only_waits && w->stays_running)
		problem(c, w->waiting.at, "stays_running needs running");
}

/* Rules that name `unstarted` are about rows that wait. */
static void check_waiting_rules(struct watch_checks *c)
{
	const struct watch *w = c->w;
	for (int i = 0; i < w->nrules; i++) {
		const struct rule *rule = &w->rules[i];
		bool waits = rule->verdict != VERDICT_NONE && verdict_has(rule->verdict, VERDICT_WAITS);
		if (waits && !watch_waits(w))
			cfg_problem(c->r, rule->at,
			            "watch %s: rule %d names %s, which needs waiting, due_at and late_after",
			            w->name, i + 1, verdict_names[rule->verdict]);
		if (waits && (rule->remedy == REMEDY_RETRY || rule->remedy == REMEDY_ROLLBACK))
			cfg_problem(c->r, rule->at,
			            "watch %s: rule %d does %s to a row that was never started; it can be "
			            "requeued, put on hold, failed or reported",
			            w->name, i + 1, remedy_names[rule->remedy]);
	}
}

/*
 * If defib's own workers beat into the table, stuck_after is the lease by which others recognise a
 * row as theirs; a lease is renewed three times before it ends.
 */
static void watch_check_beat(struct watch_checks *c)
{
	const struct watch *w = c->w;
	if (!w->beat_us || !w->alive_at.text || !w->stuck_after.given)
		return;
	int64_t least = threshold_least(&w->stuck_after);
	AUTO_BUF beat = BUF_INIT, limit = BUF_INIT;
	duration_text(w->beat_us, &beat);
	duration_text(least, &limit);
	if (least < 2 * w->beat_us)
		cfg_problem(c->r, w->at,
		            "watch %s: stuck_after %s is under twice the beat of %s: one late beat would "
		            "make a live worker look dead; raise stuck_after or beat more often",
		            w->name, buf_text(&limit), buf_text(&beat));
	else if (least == 2 * w->beat_us)
		cfg_warning(c->r, w->at,
		            "watch %s: stuck_after %s is just twice the beat of %s; leave more room",
		            w->name, buf_text(&limit), buf_text(&beat));
	if (w->work.beat.n && least >= 2 * w->beat_us && least < 3 * w->beat_us)
		cfg_problem(
			c->r, w->work.beat.items[0].at,
			"watch %s: work.beat every %s is over a third of stuck_after %s: two late beats would "
			"make defib's own workers look dead; beat more often or raise stuck_after",
			w->name, buf_text(&beat), buf_text(&limit));
}

static void check_guard(struct watch_checks *c)
{
	const struct guard_limits *g = &c->w->guard;
	if (g->off)
		return;
	if (g->brake_share <= 0 || g->brake_share > 1)
		problem(c, c->w->at, "guard.brake_share is a share of the owners: above 0, at most 1");
	if (g->brake_ceiling_us <= 0)
		problem(c, c->w->at,
		        "guard.brake_ceiling 0s would release the brake at once; write guard: off instead");
}

/* If `states` lists all of them, another name is a mistake. */
static void check_state(struct watch_checks *c, const char *option, const char *state,
                        struct cfg_mark at)
{
	const struct state_names *known = &c->w->states;
	for (int i = 0; i < known->n; i++)
		if (text_eq(known->names[i], state) || text_eq(known->codes[i], state))
			return;
	if (known->all)
		cfg_problem(c->r, at, "watch %s: %s names state \"%s\", which states does not list%s",
		            c->w->name, option, state,
		            hint_of(text_nearest(state, known->names), "", "").text);
}

static void check_states(struct watch_checks *c)
{
	const struct watch *w = c->w;
	const struct state_limits *const limits[] = {&w->stuck_after.states, &w->overdue_after.states,
	                                             &w->stalled_after.states};
	const char *const options[] = {"stuck_after", "overdue_after", "stalled_after"};
	for (int of = 0; of < 3; of++)
		for (int i = 0; i < limits[of]->n; i++)
			check_state(c, options[of], limits[of]->names[i], w->at);
	for (int i = 0; i < w->nrules; i++)
		if (w->rules[i].state)
			check_state(c, "a rule of remedies", w->rules[i].state, w->rules[i].at);
}

static void check_rules(struct watch_checks *c)
{
	const struct watch *w = c->w;
	for (int i = 0; i < w->nrules; i++) {
		const struct rule *rule = &w->rules[i];
		if (!watch_can(w, rule->remedy))
			cfg_problem(c->r, rule->at,
			            "watch %s: rule %d does %s, but the watch has no %s: that says how",
			            w->name, i + 1, remedy_names[rule->remedy], remedy_names[rule->remedy]);
		if (rule->attempts != ATTEMPTS_ANY && !watch_has_attempts(w))
			cfg_problem(c->r, rule->at,
			            "watch %s: rule %d asks for attempts, but attempts: and max_attempts: are "
			            "not given",
			            w->name, i + 1);
		if (rule->kind && !w->kind.text)
			cfg_problem(c->r, rule->at, "watch %s: rule %d asks for a kind, but kind: is not given",
			            w->name, i + 1);
	}
	if (w->nrules == 0 && w->actions[REMEDY_REQUEUE].form == ACTION_NONE && !w->only_waits)
		cfg_warning(c->r, w->at,
		            "watch %s: neither requeue: nor remedies: is given: the watch only reports",
		            w->name);
	if (w->attempts.text && !w->max_attempts.text)
		cfg_warning(c->r, w->at, "watch %s: attempts without max_attempts have no limit", w->name);
}

/* Resolves nothing; only checks that a name is known. */
struct known_name {
	const struct watch *w;
	enum param_scope scope;
	const char *unknown;
	char name[64];
};

static bool note_unknown(void *ctx, const char *name, struct buf *out)
{
	struct known_name *k = ctx;
	(void)out;
	if (!k->unknown && !param_known(k->w, k->scope, name)) {
		snprintf(k->name, sizeof k->name, "%s", name);
		k->unknown = k->name;
	}
	return true;
}

enum sql_kind { KIND_EXPRESSION, KIND_SET, KIND_STATEMENT };

/* What would break the statement around a piece of SQL; NULL: nothing. */
static const char *breaks_out(const char *sql, enum store_engine engine)
{
	AUTO_BUF inside = BUF_INIT;
	struct sql_lexer lx;
	struct sql_token t, last = {SQL_END, sql, 0};
	bool ended = false;
	buf_addf(&inside, "%s)", sql);
	sql_lexer_init(&lx, buf_text(&inside), engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		ended = ended || sql_is_mark(t, ';');
		last = t;
	}
	bool closes = last.type == SQL_PUNCT; /* our parenthesis, unless a comment swallowed it */
	if (ended)
		return "no ';' is needed here";
	return closes ? NULL : "a comment at the very end hides what follows; end it with a new line";
}

/*
 * A row whose key is changed has another identity afterwards, which no ledger entry, hold or lease
 * knows.
 */
static void check_targets(struct watch_checks *c, const char *option, const struct sql_text *set,
                          const char **targets, int n)
{
	for (int i = 0; i < n; i++)
		if (text_list_find(&c->w->key, targets[i]) >= 0)
			cfg_problem(c->r, set->at,
			            "watch %s: %s writes %s, a column of the key; use key columns that never "
			            "change, such as key: id",
			            c->w->name, option, targets[i]);
}

static void check_sql(struct watch_checks *c, const char *option, const struct sql_text *sql,
                      enum sql_kind kind, enum param_scope scope)
{
	struct failure f = {0};
	struct known_name known = {.w = c->w, .scope = scope};
	AUTO_BUF scratch = BUF_INIT;
	const char **targets = NULL;
	int n = 0;
	if (!sql->text)
		return;
	defib_err err = kind == KIND_SET
	                    ? sql_set_targets(sql->text, c->engine, c->r->arena, &targets, &n, &f)
	                    : sql_check(sql->text, c->engine, &f);
	const char *broken = !err && kind != KIND_STATEMENT ? breaks_out(sql->text, c->engine) : NULL;
	if (broken)
		err = fail(&f, DEFIB_CONFIG, "%s", broken);
	if (!err)
		err = sql_render(sql->text, c->engine, note_unknown, &known, &scratch, &f);
	if (err) {
		cfg_problem(c->r, sql->at, "watch %s: %s: %s", c->w->name, option, f.what);
	} else if (known.unknown) {
		const char *near = param_nearest(c->w, scope, known.unknown);
		cfg_problem(c->r, sql->at, "watch %s: %s: unknown parameter :%s%s", c->w->name, option,
		            known.unknown, hint_of(near, ":", "").text);
	} else {
		check_targets(c, option, sql, targets, n);
	}
}

static void check_action(struct watch_checks *c, int act)
{
	const struct action *a = &c->w->actions[act];
	if (a->form == ACTION_SET)
		check_sql(c, act_name(act), &a->set, KIND_SET, PARAMS_RECOVERY);
	if (a->form == ACTION_CALL)
		check_sql(c, act_name(act), &a->set, KIND_EXPRESSION, PARAMS_RECOVERY);
	for (int i = 0; i < a->n; i++)
		check_sql(c, act_name(act), &a->sql[i], KIND_STATEMENT, PARAMS_NONE);
}

static void check_option(void *ctx, const char *option, const struct sql_text *sql, bool set)
{
	check_sql(ctx, option, sql, set ? KIND_SET : KIND_EXPRESSION, set ? PARAMS_WORK : PARAMS_NONE);
}

static void watch_check_list(struct watch_checks *c, const char *option,
                             const struct sql_list *list)
{
	for (int i = 0; i < list->n; i++)
		check_sql(c, option, &list->items[i], KIND_STATEMENT, PARAMS_NONE);
}

static void check_all_sql(struct watch_checks *c)
{
	const struct watch *w = c->w;
	watch_each_sql(w, check_option, c);
	watch_check_list(c, "also", &w->also);
	watch_check_list(c, "work.beat", &w->work.beat);
	watch_check_list(c, "work.after", &w->work.after);
	for (int i = 0; i < w->nrules; i++)
		check_sql(c, "remedies.when", &w->rules[i].when, KIND_EXPRESSION, PARAMS_NONE);
	for (int i = 0; i < ACT_COUNT; i++)
		check_action(c, i);
}

/* Rows whose kind is the name of a workflow run its steps too. */
static bool runs_steps(const struct watch *w)
{
	return w->work.workflow || (w->kind.text && w->work.workflows.n > 0);
}

static void check_end(struct watch_checks *c)
{
	const struct watch *w = c->w;
	bool ends = w->actions[ACT_END].form != ACTION_NONE;
	if (ends && !w->end_when.text)
		problem(c, w->actions[ACT_END].set.at,
		        "end needs end_when, which selects the rows: a row that has already ended must not "
		        "be written again");
	if (!ends && w->end_when.text)
		cfg_warning(c->r, w->end_when.at, "watch %s: end_when without end ends nothing", w->name);
}

#define TAKES_NONE " (or enabled: false, if defib's workers take no jobs from this table)"

/* What a worker needs to write: otherwise the same row would run again and again, or never. */
static void check_lists_given(struct watch_checks *c)
{
	const struct work *k = &c->w->work;
	bool apart = certain_apart(k->ready.text, c->w->running.text, c->engine);
	if (!k->claim.text && apart)
		problem(c, k->ready.at,
		        "work.claim is missing: a row that matches work.ready does not match running, so "
		        "nothing would show that a worker has it; add claim:" TAKES_NONE);
	else if (!k->done.text)
		problem(c, k->ready.at,
		        "work.done is missing: a row whose job is done would run again; add done:, the SET "
		        "list of a success" TAKES_NONE);
	else if (!k->failed.text)
		problem(c, k->ready.at,
		        "work.failed is missing: a row whose job failed would stay as it is; add failed:, "
		        "the SET list of an error" TAKES_NONE);
	else if (k->claim.text && !watch_worker_releases_by(c->w)->text)
		problem(c, k->claim.at,
		        "work.release is missing: a row that a worker releases, or tries again, would "
		        "stay claimed; add release:, the SET list that makes it ready again" TAKES_NONE);
}

/* What each list makes of a row, as far as that can be seen without the table. */
static void check_lists_mean(struct watch_checks *c)
{
	const struct watch *w = c->w;
	const struct work *k = &w->work;
	const struct {
		const char *option;
		const struct sql_text *set;
		bool success, again;
	} ends[] = {
		{"work.done", &k->done, true, false},
		{"work.failed", &k->failed, false, false},
		{"work.timed_out", &k->timed_out, false, false},
		{"work.rolled_back", &k->rolled_back, true, false},
		{"work.release", &k->release, false, true},
		{"work.retry", &k->retry, false, true},
		{"work.step", &k->step, false, true},
	};
	const char *running = w->running.text, *ready = k->ready.text;
	if (k->claim.text && certain_ends(running, k->claim.text, c->engine))
		problem(c, k->claim.at,
		        "work.claim makes a row that does not match running: nothing would show that a "
		        "worker has it");
	if (k->claim.text && certain_makes(ready, k->claim.text, c->engine))
		problem(c, k->claim.at,
		        "work.claim leaves a row that still matches work.ready: it would be taken again");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const struct sql_text *set = ends[i].set;
		if (!set->text)
			continue;
		if ((!ends[i].again || k->claim.text) && certain_makes(running, set->text, c->engine))
			cfg_problem(c->r, set->at,
			            "watch %s: %s leaves a row that still matches running: its end would not "
			            "show, and it would be found stuck",
			            w->name, ends[i].option);
		else if (ends[i].success && certain_makes(ready, set->text, c->engine))
			cfg_problem(c->r, set->at,
			            "watch %s: %s makes a row that matches work.ready: it would run again and "
			            "again",
			            w->name, ends[i].option);
	}
}

static void check_work(struct watch_checks *c)
{
	const struct work *k = &c->w->work;
	if (k->rollback_ready.text && !k->rolled_back.text)
		problem(
			c, k->rollback_ready.at,
			"work.rollback_ready needs work.rolled_back, the SET list of a row that was undone: "
			"otherwise it would be rolled back again and again");
	if (k->rolled_back.text && !k->rollback_ready.text)
		problem(c, k->rolled_back.at,
		        "work.rolled_back needs work.rollback_ready, which selects the rows to roll back");
	if ((k->rollback_ready.text || k->step.text) && !runs_steps(c->w))
		problem(c, k->step.text ? k->step.at : k->rollback_ready.at,
		        "work.step and work.rollback_ready need work.workflow, whose steps are run");
	if (k->beat.n && !c->w->beat_us)
		problem(c, k->beat.items[0].at, "work.beat needs beat:, which says how often");
	if (k->given && k->enabled && c->w->running.text && k->ready.text) {
		check_lists_given(c);
		check_lists_mean(c);
	}
}

static void watch_check_key(struct watch_checks *c)
{
	const struct text_list *key = &c->w->key;
	if (key->n == 0)
		problem(c, c->w->at, "key names no column");
	if (key->n > WATCH_KEYS_MAX)
		problem(c, c->w->at, "a key has at most 4 columns");
	for (int i = 0; i < key->n; i++)
		for (int k = 0; k < i; k++)
			if (text_eq(key->items[i], key->items[k]))
				cfg_problem(c->r, c->w->at, "watch %s: key names %s twice", c->w->name,
				            key->items[i]);
}

/* The column that tells a row's state if no option does: the first word of `running`. */
static void add_state_column(const struct watch *w, enum store_engine engine, struct buf *out)
{
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, w->running.text, engine);
	do
		t = sql_next(&lx);
	while (t.type == SQL_SPACE || sql_is_mark(t, '('));
	if (sql_is_word(t, "t") && *lx.at == '.') {
		sql_next(&lx);
		t = sql_next(&lx);
	}
	buf_addn(out, t.text, t.len);
}

/*
 * What names a job, sorts it or measures it is in every list, address, metric and cursor: a mask
 * cannot hide it there.
 */
static void check_mask(struct watch_checks *c, const char *option, const struct text_list *mask)
{
	const struct watch *w = c->w, hiding = {.mask = *mask};
	AUTO_BUF state = BUF_INIT;
	if (!w->state.text && w->running.text)
		add_state_column(w, c->engine, &state);
	const struct {
		const char *name, *sql;
	} shown[] = {
		{"kind", w->kind.text},
		{"state", w->state.text},
		{"running", buf_text(&state)},
		{"since", w->since.text},
#define X(id, name, option, ...) {#option, w->option.text},
		SIGN_LIST(X)
#undef X
			{"lost_at", w->lost_at.text},
		{"due_at", w->due_at.text},
		{"last_run_at", w->last_run_at.text},
		{"attempts", w->attempts.text},
		{"max_attempts", w->max_attempts.text},
		{"epoch", w->epoch.text},
		{"progress", w->progress.text},
	};
	const char *because = NULL;
	for (int k = 0; k < w->key.n; k++)
		if (watch_hides(&hiding, w->key.items[k]))
			because = "key";
	for (size_t i = 0; !because && i < sizeof shown / sizeof *shown; i++)
		if (watch_hides_value(&hiding, shown[i].sql))
			because = shown[i].name;
	if (because)
		cfg_problem(c->r, w->at,
		            "watch %s: %s names a column that %s is made of, and every list of jobs shows "
		            "that; use another column for %s, or leave this one out of %s",
		            w->name, option, because, because, option);
}

void watch_check(struct cfg_reader *r, const struct watch *w, enum store_engine engine)
{
	struct watch_checks c = {r, w, engine};
	watch_check_key(&c);
	if (w->show.n > WATCH_SHOW_MAX)
		problem(&c, w->at, "show takes at most 8 columns");
	if (!w->only_waits)
		check_signs(&c);
	check_waiting(&c);
	check_waiting_rules(&c);
	watch_check_beat(&c);
	check_guard(&c);
	check_rules(&c);
	check_states(&c);
	check_end(&c);
	check_work(&c);
	check_mask(&c, "mask", &w->mask);
	check_mask(&c, "http.mask", &w->viewer_mask);
	check_all_sql(&c);
}
