/* SPDX-License-Identifier: Apache-2.0
 * judge_sql.c: see install_sql.h.
 *
 * Each stage is a query over the one before it, as in the pipeline: facts, law, history, rule,
 * remedy. Stages are in FROM and not in WITH, so that the outer limit reaches look and its index.
 */

#include "setup/judge_sql.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/history.h"
#include "ledger/ledger.h"
#include "recover/decide.h"
#include "recover/evidence.h"
#include "recover/excuse.h"
#include "recover/judge.h"
#include "recover/masked.h"
#include "recover/scan.h"
#include "setup/install_sql.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/facts.h"
#include "watch/lease_sql.h"
#include "watch/limit_sql.h"

#include <assert.h>

/* Facts that each watch has a column for. */
static const struct {
	size_t column; /* of struct fact_columns */
	const char *name, *type;
	bool judged; /* must be the same in the second reading */
} plain_facts[] = {
	{offsetof(struct fact_columns, owner), "owner", "text", true},
	{offsetof(struct fact_columns, owner_alive), "owner_alive", "boolean", true},
	{offsetof(struct fact_columns, kind), "kind", "text", true},
	{offsetof(struct fact_columns, attempts), "attempts", "bigint", true},
	{offsetof(struct fact_columns, max_attempts), "max_attempts", "bigint", true},
	{offsetof(struct fact_columns, epoch), "epoch", "bigint", true},
	{offsetof(struct fact_columns, state), "state", "text", true},
	{offsetof(struct fact_columns, lost), "lost_us", "bigint", false},
	{offsetof(struct fact_columns, now), "now_us", "bigint", false},
	{offsetof(struct fact_columns, running), "running", "boolean", true},
	{offsetof(struct fact_columns, steps_done), "steps_done", "text", false},
	{offsetof(struct fact_columns, before), "before", "jsonb", false},
};

static const char *const sign_names[] = {
#define X(id, name, ...) #name "_us",
	SIGN_LIST(X)
#undef X
};

static const char *const own_names[] = {
#define X(id, name, ...) #name "_own_us",
	SIGN_LIST(X)
#undef X
};

struct fact {
	char name[24];
	const char *type;
	bool judged;
};

static struct fact fact_at(const struct watch_sql *q, int column)
{
	const struct watch *w = q->binding->watch;
	const struct fact_columns *c = &q->cols;
	struct fact f = {.type = "text"};
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (c->own[sign] == column) {
			snprintf(f.name, sizeof f.name, "%s", own_names[sign]);
			f.type = "bigint";
			f.judged = true;
			return f;
		}
	for (size_t i = 0; i < sizeof plain_facts / sizeof *plain_facts; i++)
		if (*(const int *)((const char *)c + plain_facts[i].column) == column) {
			snprintf(f.name, sizeof f.name, "%s", plain_facts[i].name);
			f.type = plain_facts[i].type;
			f.judged = plain_facts[i].judged;
			return f;
		}
	if (column < c->key + w->key.n) {
		snprintf(f.name, sizeof f.name, "defib_k%d", column + 1);
	} else if (column >= c->sign && column < c->sign + SIGN_COUNT) {
		snprintf(f.name, sizeof f.name, "%s", sign_names[column - c->sign]);
		f.type = "bigint";
		f.judged = true;
	} else if (column >= c->when && column < c->when + w->nrules) {
		snprintf(f.name, sizeof f.name, "when_%d", column - c->when + 1);
		f.type = "boolean";
		f.judged = true;
	} else if (column >= c->show && column < c->show + w->show.n) {
		snprintf(f.name, sizeof f.name, "show_%d", column - c->show + 1);
	} else if (column >= c->masked && column < c->masked + q->binding->nmasked) {
		snprintf(f.name, sizeof f.name, "masked_%d", column - c->masked + 1);
	} else {
		snprintf(f.name, sizeof f.name, "column_%d", column + 1);
	}
	return f;
}

const char *sql_sign_name(const struct watch *w)
{
	return sign_names[watch_first_sign(w)];
}

void sql_facts(const struct watch_sql *q, const char *reading, struct buf *out)
{
	AUTO_BUF names = BUF_INIT, judged = BUF_INIT;
	buf_add(out, "SELECT ");
	for (int i = 0; i < q->cols.count; i++) {
		struct fact f = fact_at(q, i);
		buf_addf(out, "%s::%s, ", f.name, f.type);
		buf_addf(&names, "%s%s", i ? ", " : "", f.name);
		if (f.judged)
			buf_addf(&judged, "%s%s", judged.len ? ", " : "", f.name);
	}
	buf_add(out, "\n  ");
	sql_job_text(q->binding, JOB_OF_RELATION, out);
	buf_addf(out, " AS job,\n  jsonb_build_array(%s) AS facts\nFROM (\n%s\n) AS defib_s(%s)",
	         buf_text(&judged), reading, buf_text(&names));
}

/* A law by its id: the only table is in judge.c. */
static const struct judge_rule *law(const char *id)
{
	const struct judge_rule *rule = judge_rules;
	while (!text_eq(rule->id, id))
		rule++;
	assert(rule->id && rule->verdict != VERDICT_NONE);
	return rule;
}

static void add_limit(const struct binding *b, enum sign s, struct buf *out)
{
	const char *own = b->own[s] ? own_names[s] : NULL;
	sql_limit_us(b->watch, s, &(struct limit_sql){b->state ? "state" : NULL, "kind", own}, out);
}

/* As limit_origin(). */
static void add_limit_origin(const struct binding *b, enum sign s, struct buf *out)
{
	const struct threshold *t = watch_limit(b->watch, s);
	buf_add(out, "coalesce(");
	if (t->states.n) {
		buf_add(out, "'state ' || ");
		sql_limit_state(t, "state", out);
		buf_add(out, ", ");
	}
	if (b->own[s])
		buf_addf(out, "CASE WHEN %s IS NOT NULL THEN 'its own time-out' END, ", own_names[s]);
	buf_add(out, "NULL)");
}

static void add_law(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	buf_addf(out, "CASE WHEN owner_alive IS FALSE THEN '%s'", law("owner-gone")->id);
	if (w->missing == MISSING_ORPHAN)
		buf_addf(out, "\n    WHEN owner_alive IS NOT TRUE AND %s IS NULL THEN '%s'",
		         sign_names[watch_first_sign(w)], law("no-sign-orphan")->id);
	for (int s = 0; s < SIGN_COUNT; s++) {
		if (!watch_sign(w, (enum sign)s)->text)
			continue;
		buf_addf(out, "\n    WHEN %snow_us - %s > ",
		         sign_kinds[s].refuted ? "owner_alive IS NOT TRUE AND " : "", sign_names[s]);
		add_limit(b, (enum sign)s, out);
		buf_addf(out, " THEN '%s'", judge_sign_rule((enum sign)s)->id);
	}
	buf_add(out, " END AS law");
}

void sql_judged(const struct watch_sql *q, const char *reading, struct buf *out)
{
	buf_add(out, "SELECT *, ");
	add_law(q->binding, out);
	buf_add(out, "\nFROM (");
	sql_facts(q, reading, out);
	buf_add(out, ") AS f");
}

static void add_verdict_of(const char *law, struct buf *out)
{
	buf_addf(out, "CASE %s", law);
	for (const struct judge_rule *rule = judge_rules; rule->id; rule++)
		if (rule->verdict != VERDICT_NONE)
			buf_addf(out, " WHEN '%s' THEN '%s'", rule->id, verdict_names[rule->verdict]);
	buf_add(out, " END");
}

static void add_verdict(const struct binding *b, struct buf *out)
{
	add_verdict_of("law", out);
	buf_add(out, " AS verdict,\n  CASE law");
	for (int s = 0; s < SIGN_COUNT; s++)
		buf_addf(out, " WHEN '%s' THEN now_us - %s", judge_sign_rule((enum sign)s)->id,
		         sign_names[s]);
	buf_add(out, " END AS measured_us,\n  CASE law");
	for (int s = 0; s < SIGN_COUNT; s++) {
		buf_addf(out, " WHEN '%s' THEN ", judge_sign_rule((enum sign)s)->id);
		add_limit(b, (enum sign)s, out);
	}
	buf_add(out, " END AS limit_us,\n  CASE law");
	for (int s = 0; s < SIGN_COUNT; s++) {
		buf_addf(out, " WHEN '%s' THEN ", judge_sign_rule((enum sign)s)->id);
		add_limit_origin(b, (enum sign)s, out);
	}
	buf_add(out, " END AS limit_of");
}

#define WITHIN 3 /* the parameter with the crash budget's time */

/* FROM … WHERE …: the recoveries that count against a job. */
static void add_counted(const struct watch *w, const char *job, struct buf *out)
{
	AUTO_BUF name = BUF_INIT, counted = BUF_INIT;
	sql_literal(&name, w->name);
	ledger_counted(&counted, buf_text(&name), job, WITHIN);
	dialect_add(&dialect_postgres, out, buf_text(&counted));
}

/*
 * As ledger_history(): an entry about a job is valid for the owner and sign of life it was made
 * for.
 */
static void judge_sql_add_history(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	const char *sign = sql_sign_name(w);
	AUTO_BUF name = BUF_INIT, sign_us = BUF_INIT, table_key = BUF_INIT, verdict = BUF_INIT;
	sql_literal(&name, w->name);
	add_verdict_of("j.law", &verdict);
	sql_literal(&table_key, b->table_key);
	buf_addf(&sign_us, "j.%s", sign);
	buf_addf(out,
	         "EXISTS (SELECT 1 FROM defib.hold AS h WHERE h.table_key = %s AND h.job = j.job\n    "
	         "AND (",
	         buf_text(&table_key));
	hold_in_force_sql(dialect_of(b->engine),
	                  &(struct hold_sql){"h", "j.owner", buf_text(&sign_us),
	                                     .in_words = watch_writes_hold(w),
	                                     .watch = buf_text(&name)},
	                  out);
	buf_add(out, "\n    OR ");
	excuse_covers_sql(w,
	                  &(struct excuse_sql){"h", buf_text(&verdict), buf_text(&name), "j.owner",
	                                       "j.attempts", b->state ? "j.state" : NULL, sign_names},
	                  out);
	buf_add(out, ")) AS held,\n");
	buf_addf(out,
	         "  (SELECT l.after FROM defib.ledger AS l WHERE l.watch = %s AND l.job = j.job\n"
	         "    AND l.event = '%s' ORDER BY l.id DESC LIMIT 1)\n"
	         "    IS NOT DISTINCT FROM jsonb_build_object('owner', j.owner, 'sign_us', j.%s) AS "
	         "noted,\n  ",
	         buf_text(&name), act_event(REMEDY_REPORT), sign);
	buf_addf(out,
	         "coalesce((SELECT l.after FROM defib.ledger AS l WHERE l.watch = %s AND l.job = "
	         "j.job\n    AND ",
	         buf_text(&name));
	event_marked_sql(out, "l", MARK_LETS_GO);
	buf_addf(out,
	         " ORDER BY l.id DESC LIMIT 1)\n"
	         "    = jsonb_build_object('owner', j.owner, 'sign_us', j.%s) || CASE WHEN j.attempts "
	         "IS NULL\n    THEN '{}' ELSE jsonb_build_object('attempts', j.attempts) END, false) "
	         "AS released,\n  (SELECT count(*) ",
	         sign);
	add_counted(w, "j.job", out);
	buf_add(out, ") AS crashes");
}

/* Whether many were lost at once, as scan.c determines it from a page. */
static void add_mass(const struct watch_sql *q, struct buf *out)
{
	if (q->binding->watch->owner.text)
		buf_addf(out, "(SELECT count(DISTINCT owner) > %d FROM (\n", MASS_OWNERS);
	else
		buf_addf(out, "(SELECT count(*) > %d FROM (\n", MASS_ROWS);
	sql_facts(q, q->look_first, out);
	buf_addf(out, " LIMIT %d) AS m) AS mass", PAGE_ROWS);
}

/* One possible result of decide(). */
struct sql_choice {
	char rule[24];
	enum remedy remedy;
	const char *cause;
	struct buf when; /* the condition */
};

static const char exhausted[] = "coalesce(attempts >= max_attempts, false)";

/* Whether a rule that names no verdict applies: others need one that names them. */
static void any_rule(struct buf *out)
{
	buf_add(out, "verdict NOT IN (");
	verdict_list_sql(out, VERDICT_NAMED);
	buf_add(out, ")");
}

static void rule_condition(const struct rule *rule, int index, struct buf *out)
{
	buf_add(out, "true");
	if (rule->verdict != VERDICT_NONE)
		buf_addf(out, " AND verdict = '%s'", verdict_names[rule->verdict]);
	if (rule->verdict == VERDICT_NONE) {
		buf_add(out, " AND ");
		any_rule(out);
	}
	if (rule->kind) {
		buf_add(out, " AND kind IS NOT DISTINCT FROM ");
		sql_literal(out, rule->kind);
	}
	if (rule->state) {
		buf_add(out, " AND state IS NOT DISTINCT FROM ");
		sql_literal(out, rule->state);
	}
	if (rule->attempts != ATTEMPTS_ANY)
		buf_addf(out, " AND %s%s", rule->attempts == ATTEMPTS_LEFT ? "NOT " : "", exhausted);
	if (rule->crashes)
		buf_addf(out, " AND crashes_now >= %lld", (long long)rule->crashes);
	if (rule->when.text)
		buf_addf(out, " AND when_%d", index + 1);
}

/* The possible results, in the order of the rules; returns how many. */
static int choices_of(const struct watch *w, struct sql_choice *out)
{
	if (w->nrules == 0 && w->actions[REMEDY_REQUEUE].form == ACTION_NONE)
		return 0;
	if (w->nrules == 0) {
		out[0] = (struct sql_choice){"attempts-exhausted", REMEDY_HOLD, "attempts", BUF_INIT};
		buf_addf(&out[0].when, "%s AND ", exhausted);
		any_rule(&out[0].when);
		out[1] = (struct sql_choice){"attempts-left", REMEDY_REQUEUE, "attempts", BUF_INIT};
		any_rule(&out[1].when);
		return 2;
	}
	for (int i = 0; i < w->nrules; i++) {
		out[i] = (struct sql_choice){"", w->rules[i].remedy, "rule", BUF_INIT};
		snprintf(out[i].rule, sizeof out[i].rule, "rule-%d", i + 1);
		rule_condition(&w->rules[i], i, &out[i].when);
	}
	return w->nrules;
}

static const struct sql_choice poison = {"crash-budget", REMEDY_HOLD, HOLD_POISON, BUF_INIT};
/* Replaces any hold that an operator has ended. */
static const char released[] = "released-by-hand";
static const struct sql_choice no_rule = {"no-rule", REMEDY_REPORT, NULL, BUF_INIT};

static void add_when(const char *when, const char *also, const struct sql_choice *c,
                     struct buf *out)
{
	if (c->remedy == REMEDY_HOLD)
		buf_addf(out, "\n    WHEN %s%s AND released THEN '%s'", when, also, released);
	buf_addf(out, "\n    WHEN %s%s THEN '%s'", when, also, c->rule);
}

static void add_rule(const struct watch *w, const struct sql_choice *all, int n, struct buf *out)
{
	AUTO_BUF spent = BUF_INIT;
	enum budget_of budget = decide_budget(w);
	const char *uncounted =
		budget == BUDGET_OF_UNCOUNTED ? " AND (attempts IS NULL OR max_attempts IS NULL)" : "";
	buf_addf(&spent, "%s AND crashes_now >= %lld", uncounted, (long long)w->crash_budget.max);
	buf_add(out, "CASE WHEN false THEN NULL");
	for (int i = 0; i < n; i++) {
		const char *when = buf_text(&all[i].when);
		bool back = act_has((int)all[i].remedy, ACT_RUNS_AGAIN);
		if (back && budget != BUDGET_OF_NONE)
			add_when(when, buf_text(&spent), &poison, out);
		add_when(when, "", &all[i], out);
	}
	buf_addf(out, " ELSE '%s' END AS rule", no_rule.rule);
}

static void add_remedy(const struct watch *w, const struct sql_choice *all, int n, struct buf *out)
{
	buf_addf(out, "CASE rule WHEN '%s' THEN '%s' WHEN '%s' THEN '%s'", poison.rule,
	         remedy_names[poison.remedy], released, remedy_names[decide_released(w)]);
	for (int i = 0; i < n; i++)
		buf_addf(out, " WHEN '%s' THEN '%s'", all[i].rule, remedy_names[all[i].remedy]);
	buf_addf(out, " ELSE '%s' END AS remedy,\n  CASE rule WHEN '%s' THEN '%s'",
	         remedy_names[no_rule.remedy], poison.rule, poison.cause);
	for (int i = 0; i < n; i++)
		buf_addf(out, " WHEN '%s' THEN '%s'", all[i].rule, all[i].cause);
	buf_add(out, " END AS cause");
}

/* The ledger's events: for a job that has no retries left, that too. */
static void add_events(const struct watch *w, struct buf *out)
{
	buf_add(out, "CASE remedy");
	for (int r = 0; r < REMEDY_COUNT; r++) {
		bool back = act_has(r, ACT_RUNS_AGAIN) || r == REMEDY_REPORT;
		buf_addf(out, "\n    WHEN '%s' THEN ", remedy_names[r]);
		if (!back && w->actions[REMEDY_RETRY].form != ACTION_NONE)
			buf_addf(out,
			         "CASE WHEN %s THEN '[\"" ENTRY_RETRIES_EXHAUSTED
			         "\"]' ELSE '[]' END::jsonb || ",
			         exhausted);
		buf_addf(out, "'[\"%s\"]'::jsonb", act_event(r));
	}
	buf_add(out, " END AS events");
}

/* A job that is held as poison has the evidence of every attempt. */
static void add_recoveries(const struct watch *w, struct buf *out)
{
	buf_addf(out,
	         "\n    || CASE WHEN rule = '%s' THEN jsonb_build_object('recoveries', (SELECT "
	         "jsonb_agg(jsonb_build_object(\n    'at', to_char(l.at, "
	         "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), 'batch', l.batch,\n"
	         "    'verdict', coalesce(l.verdict, 'none'), 'evidence', l.evidence) ORDER BY l.id)\n"
	         "    ",
	         poison.rule);
	add_counted(w, "d.job", out);
	buf_add(out, ")) ELSE '{}' END");
}

static void add_job(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	for (int k = 0; k < w->key.n; k++)
		buf_addf(out, "defib_k%d, ", k + 1);
	buf_add(out, "job, facts, owner, kind, attempts AS attempt, epoch, verdict, rule, remedy, "
	             "cause,\n  now_us, coalesce(");
	for (int s = 0; s < SIGN_COUNT; s++)
		buf_addf(out, "%s%s", s ? ", " : "", sign_names[s]);
	buf_addf(out, ") AS alive_us, %s AS sign_us,\n  ", sql_sign_name(w));
	add_events(w, out);
	buf_add(out, ",\n  ");
	sql_reason(w, out);
	buf_add(out, " AS reason,\n  ");
	if (b->nmasked) {
		buf_add(out, "jsonb_build_array(");
		for (int i = 0; i < b->nmasked; i++)
			buf_addf(out, "%smasked_%d", i ? ", " : "", i + 1);
		buf_add(out, ") AS secrets,\n  ");
	}
	sql_evidence(b, out);
	if (decide_budget(w) != BUDGET_OF_NONE)
		add_recoveries(w, out);
	buf_add(out, " AS evidence,\n  ");
	sql_retry_us(&w->backoff, out);
	buf_add(out, " AS retry_us");
}

void sql_decided(const struct watch_sql *q, struct buf *out)
{
	const struct watch *w = q->binding->watch;
	struct sql_choice choices[WATCH_RULES_MAX + 2];
	int n = choices_of(w, choices);
	buf_add(out, "SELECT jsonb_agg(to_jsonb(defib_j)) FROM (\nSELECT ");
	add_job(q->binding, out);
	buf_add(out, "\nFROM (SELECT *, ");
	add_remedy(w, choices, n, out);
	buf_add(out, "\nFROM (SELECT *, ");
	add_rule(w, choices, n, out);
	/* A mass event says nothing about the single job. */
	buf_add(out, "\nFROM (SELECT *, crashes + (NOT mass)::int AS crashes_now FROM (SELECT *, ");
	add_verdict(q->binding, out);
	buf_add(out, ",\n  ");
	judge_sql_add_history(q->binding, out);
	buf_add(out, ",\n  ");
	add_mass(q, out);
	buf_add(out, "\nFROM (");
	sql_judged(q, q->look_first, out);
	/* OFFSET 0: the ledger is queried once per job, not once per rule. */
	buf_add(out, ") AS j\nWHERE law IS NOT NULL");
	for (int k = 0; k < w->key.n; k++)
		buf_addf(out, " AND defib_k%d IS NOT NULL", k + 1);
	buf_addf(
		out,
		" OFFSET 0) AS h\nWHERE NOT held) AS c) AS r) AS d\nWHERE remedy <> '%s' OR NOT noted\n"
		"LIMIT $2) AS defib_j",
		remedy_names[REMEDY_REPORT]);
	for (int i = 0; i < n; i++)
		buf_release(&choices[i].when);
}

/* ---- reasons and evidence ---- */

/* As duration_text(): two units from minutes up, else one. */
static void add_duration(const char *us, struct buf *out)
{
	static const struct {
		int64_t us;
		const char *name;
		bool with_next;
	} units[] = {
		{86400 * US_PER_S, "d", true}, {3600 * US_PER_S, "h", true}, {60 * US_PER_S, "m", true},
		{US_PER_S, "s", false},        {1000, " ms", false},         {1, " µs", false},
	};
	buf_add(out, "CASE");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		long long unit = (long long)units[i].us;
		buf_addf(out, " WHEN %s >= %lld THEN %s / %lld || '%s'", us, unit, us, unit, units[i].name);
		if (units[i].with_next)
			buf_addf(out, " || coalesce(' ' || nullif(%s %% %lld / %lld, 0) || '%s', '')", us, unit,
			         (long long)units[i + 1].us, units[i + 1].name);
	}
	buf_addf(out, " WHEN %s IS NULL THEN 'unknown time' ELSE '0s' END", us);
}

static void judge_sql_add_piece(const char *text, size_t n, struct buf *out)
{
	AUTO_BUF piece = BUF_INIT;
	buf_addn(&piece, text, n);
	buf_add(out, " || ");
	sql_literal(out, buf_text(&piece));
}

/* As mask_value(): the last six characters, unless that is the whole text. */
static void judge_sql_add_value(bool hidden, const char *sql, struct buf *out)
{
	if (hidden)
		buf_addf(out, "'****' || CASE WHEN length(%s) <= 6 THEN '' ELSE right(%s, 6) END", sql,
		         sql);
	else
		buf_add(out, sql);
}

/* As shown_owner(). */
static void add_owner(const struct watch *w, struct buf *out)
{
	const char *owner = w->owner.text ? w->owner.text : "";
	judge_sql_add_value(watch_hides_value(w, owner), "owner", out);
}

/* A template with its fields filled in. */
static void add_filled(const struct watch *w, const char *template, struct buf *out)
{
	AUTO_BUF silent = BUF_INIT, owner = BUF_INIT;
	add_duration("measured_us", &silent);
	buf_add(&owner, "coalesce(");
	add_owner(w, &owner);
	buf_add(&owner, ", 'unknown')");
	const struct {
		const char *name, *sql;
	} fields[] = {
		{"{verdict}", "verdict"},
		{"{silent}", buf_text(&silent)},
		{"{owner}", buf_text(&owner)},
		{"{kind}", "coalesce(kind, 'unknown')"},
	};
	enum { FIELDS = sizeof fields / sizeof *fields };
	const char *at = template, *plain = at;
	buf_add(out, "''");
	while (*at) {
		size_t i = 0;
		while (i < FIELDS && !text_starts(at, fields[i].name))
			i++;
		if (i == FIELDS) {
			at++;
			continue;
		}
		if (at > plain)
			judge_sql_add_piece(plain, (size_t)(at - plain), out);
		buf_addf(out, " || (%s)", fields[i].sql);
		at += strlen(fields[i].name);
		plain = at;
	}
	if (at > plain)
		judge_sql_add_piece(plain, (size_t)(at - plain), out);
}

void sql_reason(const struct watch *w, struct buf *out)
{
	AUTO_BUF end = BUF_INIT;
	poison_reason_end(w, &end);
	buf_addf(out, "CASE WHEN cause = '%s' THEN '%s' || crashes_now || ", HOLD_POISON,
	         POISON_REASON);
	sql_literal(out, buf_text(&end));
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (act_kinds[r].reason) {
			buf_addf(out, "\n    WHEN remedy = '%s' THEN ", remedy_names[r]);
			add_filled(w, reason_template(w, (enum remedy)r), out);
		}
	buf_add(out, "\n    ELSE ");
	add_filled(w, w->reason, out);
	buf_add(out, " END");
}

static void judge_sql_add_time(const char *name, const char *us, struct buf *out)
{
	buf_addf(out,
	         "\n    '%s', to_char(timestamp 'epoch' + %s * interval '1 microsecond', "
	         "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),",
	         name, us);
}

/* As repeats_masked() in masked.c; secrets is a JSON array, and lower() one of ASCII there too. */
void sql_repeats(const char *text, const char *secrets, struct buf *out)
{
	buf_addf(out,
	         "EXISTS (SELECT 1 FROM jsonb_array_elements_text(%s) AS s(secret)\n    WHERE "
	         "octet_length(secret) >= %d AND position(lower(secret COLLATE \"C\") IN lower(%s "
	         "COLLATE \"C\")) > 0)",
	         secrets, SECRET_LEAST, text);
}

/*
 * A column that is shown. One that repeats a masked value is masked as a whole; the scan masks only
 * the value in it.
 */
static void add_shown_value(const struct binding *b, int i, struct buf *out)
{
	const struct watch *w = b->watch;
	AUTO_BUF column = BUF_INIT, secrets = BUF_INIT;
	buf_addf(&column, "show_%d", i + 1);
	for (int k = 0; k < b->nmasked; k++)
		if (watch_hides(w, b->masked[k]))
			buf_addf(&secrets, "%smasked_%d", secrets.len ? ", " : "jsonb_build_array(", k + 1);
	if (watch_hides(w, w->show.items[i]) || !secrets.len) {
		judge_sql_add_value(watch_hides(w, w->show.items[i]), buf_text(&column), out);
		return;
	}
	buf_add(&secrets, ")");
	buf_add(out, "CASE WHEN ");
	sql_repeats(buf_text(&column), buf_text(&secrets), out);
	buf_add(out, " THEN ");
	judge_sql_add_value(true, buf_text(&column), out);
	buf_addf(out, " ELSE %s END", buf_text(&column));
}

/*
 * Columns that identify the job; what the evidence itself has under such a name comes later and
 * wins.
 */
static void judge_sql_add_shown(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	buf_add(out, "jsonb_strip_nulls(jsonb_build_object(");
	for (int i = 0; i < w->show.n; i++) {
		buf_add(out, i ? ", " : "");
		sql_literal(out, w->show.items[i]);
		buf_add(out, ", ");
		add_shown_value(b, i, out);
	}
	buf_add(out, "))");
}

void sql_evidence(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	judge_sql_add_shown(b, out);
	buf_add(out, " || jsonb_strip_nulls(jsonb_build_object('law', law,");
	judge_sql_add_time("now", "now_us", out);
	for (int s = 0; s < SIGN_COUNT; s++)
		judge_sql_add_time(sign_kinds[s].option, sign_names[s], out);
	/* As lost_since(). */
	AUTO_BUF lost = BUF_INIT;
	buf_add(&lost, "(SELECT CASE WHEN since > now_us THEN now_us ELSE since END FROM (SELECT CASE "
	               "WHEN verdict IN (");
	verdict_list_sql(&lost, VERDICT_OF_RUN);
	buf_add(&lost,
	        ") THEN now_us - measured_us ELSE coalesce(lost_us, alive_us, CASE WHEN expires_us <= "
	        "now_us THEN expires_us END, started_us) END AS since) AS lost)");
	judge_sql_add_time("lost_at", buf_text(&lost), out);
	buf_add(out, "\n    'measured_s', round(measured_us / 1000000.0, 3), "
	             "'limit_s', round(limit_us / 1000000.0, 3), 'limit_of', limit_of, "
	             "'owner', ");
	add_owner(w, out);
	buf_addf(out,
	         ", 'kind', kind, %s\n    'attempt', attempts, 'max_attempts', max_attempts, "
	         "'recovered_before', nullif(crashes, 0), 'mass', nullif(mass, false)))",
	         b->state ? "'state', state," : "");
}

/* After this many steps the wait no longer grows; power() beyond them could overflow. */
static int64_t steps_to_cap(const struct backoff *b)
{
	const struct backoff plain = {.base_us = b->base_us, .cap_us = b->cap_us, .factor = b->factor};
	int64_t wait, steps = -1;
	do
		wait = backoff_us(&plain, ++steps, 0);
	while (steps < 1000 && wait > 0 && wait < b->cap_us);
	return steps;
}

void sql_retry_us(const struct backoff *b, struct buf *out)
{
	buf_addf(
		out,
		"CASE WHEN remedy = 'retry' THEN now_us + trunc(least(%lld, %lld * power(%.17g::float8, "
		"least(greatest(coalesce(attempts, 0), 0), %lld)))%s)::bigint END",
		(long long)b->cap_us, (long long)b->base_us, b->factor, (long long)steps_to_cap(b),
		b->jitter ? " * random()" : "");
}
