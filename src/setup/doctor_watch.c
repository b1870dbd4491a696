/* SPDX-License-Identifier: Apache-2.0
 * doctor_watch.c: whether a watch means what its author intends: it fits the table, its times are
 * read as they were written, its key identifies one row, its thresholds leave room, and its
 * remedies end.
 */

#include "setup/doctor_watch.h"

#include "lib/advice.h"
#include "setup/doctor_check.h"

#include "base/clock.h"
#include "recover/attach.h"
#include "recover/decide.h"
#include "setup/doctor_plan.h"
#include "setup/doctor_rights.h"
#include "setup/table_facts.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/compile_write.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

#define FUTURE_US (60 * US_PER_S)

/* A schema without the USAGE privilege hides its tables; other problems show after that. */
static const char *schema_grant(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param table = P_TEXT(x->table);
	if (!store_dialect(x->store)->has_grants ||
	    ask(x,
	        "SELECT format('GRANT USAGE ON SCHEMA %I TO %I;', n.nspname, current_user) "
	        "FROM pg_namespace n WHERE n.nspname = (parse_ident($1))[1] AND "
	        "array_length(parse_ident($1), 1) > 1 AND NOT has_schema_privilege(n.oid, 'USAGE')",
	        &table, 1, &rows, &f) ||
	    rows.nrows == 0)
		return NULL;
	return row_text(&rows, 0, 0);
}

static const char *fit_fix(struct examination *x, struct failure *f)
{
	const char *grant = NULL;
	if (f->code == DEFIB_PERMISSION) {
		grant = schema_grant(x);
		if (!grant)
			grant = missing_grants(x, arena_printf(&x->arena, "SELECT FROM %s", x->table));
	}
	if (grant)
		return grant;
	return *failure_next(f) ? failure_next(f) : "correct the watch, or the table";
}

void check_fits(struct examination *x)
{
	struct failure f = {0};
	defib_err err = watch_bind(x->watch, x->store, &x->arena, &x->binding, &f);
	if (!err)
		err = watch_compile(&x->binding, &x->arena, &x->sql, &f);
	if (!err)
		err = watch_prepare(&x->sql, x->store, &x->arena, &f);
	if (x->store->lost)
		return;
	if (err) {
		found(x, FINDING_FAIL, arena_strdup(&x->arena, fit_fix(x, &f)), "%s", f.what);
		return;
	}
	x->stage = STAGE_FITS;
	found(x, FINDING_OK, NULL, "table %s, its key, expressions and remedies are valid",
	      x->watch->table);
}

/* The zone in which now() writes times without one, if it is ever different from UTC. */
static const char *zone_of_server(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	if (ask(x,
	        "SELECT z.reset_val FROM pg_settings AS z WHERE z.name = 'TimeZone' AND EXISTS (SELECT "
	        "FROM (VALUES (now()), (now() + interval '6 months')) AS v(at) WHERE "
	        "v.at AT TIME ZONE z.reset_val <> v.at AT TIME ZONE 'UTC')",
	        NULL, 0, &rows, &f) ||
	    rows.nrows == 0)
		return NULL;
	return row_text(&rows, 0, 0);
}

/* Whether a scan would work with a changed watch: what is not tried is not advised. */
static bool would_scan(struct examination *x, const struct watch *changed)
{
	struct binding binding;
	struct watch_sql q = {0};
	struct store_rows rows;
	struct failure f = {0};
	struct store_param limit = P_INT(1);
	defib_err err = watch_bind(changed, x->store, &x->arena, &binding, &f);
	if (!err)
		err = watch_compile(&binding, &x->arena, &q, &f);
	if (!err)
		err = watch_prepare(&q, x->store, &x->arena, &f);
	return !err && !ask(x, q.look_first, &limit, 1, &rows, &f);
}

static const char *zone_advice(struct examination *x, const char *zone)
{
	struct watch utc = *x->watch, local = *x->watch;
	AUTO_BUF out = BUF_INIT;
	utc.time_type = TIME_TYPE_UTC;
	local.time_zone = zone ? zone : "Europe/Berlin"; /* any that differs from UTC */
	if (would_scan(x, &utc))
		buf_add(&out, "write time_type: utc in the watch if the workers write UTC; otherwise ");
	if (would_scan(x, &local))
		buf_addf(&out, "write time_zone: %s with the zone they use, or ",
		         zone ? zone : "Area/City");
	buf_add(&out, "change the column to timestamptz");
	return arena_strdup(&x->arena, buf_text(&out));
}

static void check_zone(struct examination *x, const char *option, const char *type)
{
	const char *zone = zone_of_server(x);
	const char *fix = zone_advice(x, zone);
	if (zone)
		found(x, FINDING_FAIL, fix,
		      "%s is %s, read as UTC, but now() is local time here (%s): jobs of live workers may "
		      "look hours old",
		      option, type, zone);
	else
		found(
			x, FINDING_WARN, fix,
			"%s is %s: read as UTC; in another zone every row would be hours too old or too young",
			option, type);
}

#define ROUND_TRIP_US (2 * US_PER_S) /* whole seconds, and a difference between two clocks */

/*
 * A value of :now written to a column must be read back by the sign of life, as the watch defines
 * both.
 */
static void try_round_trip(struct examination *x, enum sign sign, const char *column)
{
	const struct binding *b = &x->binding;
	const char *now = sql_now_us(b->engine);
	AUTO_BUF sql = BUF_INIT, name = BUF_INIT;
	struct store_rows rows;
	struct failure f = {0};
	const char *type = NULL;
	for (int i = 0; i < b->ncolumns; i++)
		if (strcasecmp(b->columns[i].name, column) == 0)
			type = b->columns[i].type;
	sql_ident(&name, column);
	buf_add(&sql, "SELECT ");
	sql_time_us(b, b->sign_time[sign], watch_sign(x->watch, sign)->text, &sql);
	buf_addf(&sql, " - %s FROM (SELECT ", now);
	buf_add(&sql, type && dialect_of(b->engine)->has_types ? "(" : "");
	sql_time_value_for(b, column, now, &sql);
	if (type && dialect_of(b->engine)->has_types)
		buf_addf(&sql, ")::%s", type);
	buf_addf(&sql, " AS %s) AS t", buf_text(&name));
	/* An expression with more than this column cannot be tried this way. */
	if (!ask(x, buf_text(&sql), NULL, 0, &rows, &f) && rows.nrows && row_text(&rows, 0, 0)) {
		int64_t off = row_int(&rows, 0, 0, 0);
		AUTO_BUF by = BUF_INIT;
		duration_text(off < 0 ? -off : off, &by);
		if (off > ROUND_TRIP_US || off < -ROUND_TRIP_US)
			found(x, FINDING_FAIL,
			      "name the column alone, and give its zone as time_zone: in the watch",
			      "the value that :now writes to %s is read by %s as a time %s too %s", column,
			      sign_kinds[sign].option, buf_text(&by), off < 0 ? "old" : "young");
	}
}

static void check_round_trip(struct examination *x, enum sign sign)
{
	const struct watch *w = x->watch;
	enum store_engine engine = x->store->engine;
	const struct sql_text *const own[] = {&w->work.claim, &w->work.step, &w->work.release};
	const char *tried[8] = {0};
	int ntried = 0;
	for (int i = 0; i < ACT_COUNT + 3; i++) {
		const struct sql_text *set = i >= ACT_COUNT ? own[i - ACT_COUNT] : &w->actions[i].set;
		const char *column, *text, *at = set->text;
		if (!at || (i < ACT_COUNT && w->actions[i].form != ACTION_SET))
			continue;
		while (ntried < 8 && sql_next_assignment(&at, engine, &x->arena, &column, &text)) {
			bool before = !column || !strstr(text, ":now") ||
			              !sql_names(watch_sign(w, sign)->text, engine, column);
			for (int k = 0; k < ntried; k++)
				before = before || text_eq(tried[k], column);
			if (before)
				continue;
			tried[ntried++] = column;
			try_round_trip(x, sign, column);
		}
	}
}

static void check_type(struct examination *x, enum sign sign)
{
	check_round_trip(x, sign);
	const char *type = x->binding.sign_type[sign], *option = sign_kinds[sign].option;
	enum time_type time = x->binding.sign_time[sign];
	bool guessed = x->watch->time_type == TIME_TYPE_AUTO;
	bool typed = store_dialect(x->store)->has_time_types;

	if (typed && x->binding.zone && time == TIME_TYPE_UTC)
		found(x, FINDING_OK, NULL, "%s is read and written in %s", option, x->watch->time_zone);
	else if (typed && guessed && time == TIME_TYPE_UTC)
		check_zone(x, option, type);
	else if (typed && time == TIME_TYPE_TEXT)
		found(x, FINDING_WARN, "change the column to timestamptz",
		      "%s is %s: text is cast to a time for each running row, and no index can be used",
		      option, type);
	else if (!type[0])
		found(x, FINDING_OK, NULL, "%s is read as %s", option, time_type_names[time]);
	else
		found(x, FINDING_OK, NULL, "%s is %s, read as %s", option, type, time_type_names[time]);
}

void check_types(struct examination *x)
{
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (x->binding.sign_type[sign])
			check_type(x, (enum sign)sign);
}

static void key_lists(const struct watch *w, struct buf *json, struct buf *sql)
{
	buf_add(json, "[");
	for (int k = 0; k < w->key.n; k++) {
		buf_add(json, k ? "," : "");
		buf_add_json(json, w->key.items[k]);
		buf_add(sql, k ? ", " : "");
		sql_ident(sql, w->key.items[k]);
	}
	buf_add(json, "]");
}

/* SQLite requires a name. */
static const char *key_index_name(struct examination *x)
{
	AUTO_BUF name = BUF_INIT;
	sql_ident(&name, arena_printf(&x->arena, "defib_%s_key", x->watch->name));
	return arena_strdup(&x->arena, buf_text(&name));
}

static const char *doctor_watch_key_index(struct examination *x, const char *columns)
{
	const char *how = store_dialect(x->store)->names_indexes
	                      ? arena_printf(&x->arena, "%s ", key_index_name(x))
	                  : indexes_concurrently(x) ? "CONCURRENTLY "
	                                            : "";
	return index_advice(
		x, arena_printf(&x->arena, "CREATE UNIQUE INDEX %sON %s (%s);", how, x->table, columns));
}

/* Keys of running rows that also identify another row; -1: could not be counted. */
static int64_t count_shared(struct examination *x, const char *columns)
{
	struct store_rows rows;
	const char *sql = arena_printf(
		&x->arena,
		"SELECT count(*) FROM (SELECT %s FROM %s AS t WHERE (%s) IN (SELECT %s FROM %s AS t WHERE "
		"(%s) LIMIT %d) GROUP BY %s HAVING count(*) > 1) AS defib_shared",
		columns, x->table, columns, columns, x->table, x->watch->running.text, ROWS_COUNT_MAX,
		columns);
	return asked(x, sql, NULL, 0, &rows) ? row_int(&rows, 0, 0, 0) : -1;
}

/* A unique index, if it could be built, as far as that can be seen in a short time. */
static const char *key_fix(struct examination *x, const char *columns)
{
	struct store_rows rows;
	struct failure f = {0};
	const char *sql =
		arena_printf(&x->arena, "SELECT 1 FROM %s AS t GROUP BY %s HAVING count(*) > 1 LIMIT 1",
	                 x->table, columns);
	if (!ask_within(x, sql, &rows, &f) && rows.nrows > 0)
		return "use unique columns as key: rows that are not running share one";
	return doctor_watch_key_index(x, columns);
}

static void report_shared(struct examination *x, const char *columns)
{
	int64_t n = count_shared(x, columns);
	if (n > 0)
		found(x, FINDING_FAIL, "use unique columns as key:",
		      "the key (%s) is not unique: %s key%s of running rows match more than one row; those "
		      "rows are never recovered",
		      columns, grouped(x, n), n == 1 ? "" : "s");
	else if (n == 0)
		found(x, FINDING_WARN, key_fix(x, columns),
		      "no unique index covers the key (%s): rows with the same key are not recovered",
		      columns);
}

void check_key(struct examination *x)
{
	AUTO_BUF names = BUF_INIT, columns = BUF_INIT;
	struct store_rows rows;
	key_lists(x->watch, &names, &columns);
	struct store_param params[] = {
		P_TEXT(catalog_name(x->store->engine, x->watch->table, &x->arena)),
		P_TEXT(buf_text(&names))};
	if (asked(x, store_dialect(x->store)->ask.unique_key, params, 2, &rows)) {
		if (row_bool(&rows, 0, 0))
			found(x, FINDING_OK, NULL, "the key (%s) is unique", buf_text(&columns));
		else
			report_shared(x, buf_text(&columns));
	}
}

/*
 * Run the look itself, for problems that only show then: text that is not a time, a predicate that
 * fails.
 */
void check_look(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	struct store_param limit = P_INT(1);
	int64_t start = clock_boot_us();
	defib_err err = ask(x, x->sql.look_first, &limit, 1, &rows, &f);
	if (!err)
		found(x, FINDING_OK, NULL, "a scan takes %s", span(x, clock_boot_us() - start));
	else if (!x->store->lost)
		found(x, FINDING_FAIL,
		      *failure_next(&f) ? failure_next(&f) : "correct the watch's expressions, or the rows",
		      "a scan of the rows fails: %s", f.what);
}

static void doctor_watch_beat(struct examination *x)
{
	const struct watch *w = x->watch;
	int64_t least = threshold_least(&w->stuck_after);
	if (least <= 2 * w->beat_us)
		found(x, FINDING_WARN,
		      arena_printf(&x->arena,
		                   "set stuck_after to %s or more, or let the workers beat more often",
		                   span(x, 3 * w->beat_us)),
		      "stuck_after %s is just twice the beat of %s: one late beat nearly makes a job stuck",
		      span(x, least), span(x, w->beat_us));
	else
		found(x, FINDING_OK, NULL, "stuck_after %s is %.3g beats of %s", span(x, least),
		      (double)least / (double)w->beat_us, span(x, w->beat_us));
}

void check_threshold(struct examination *x)
{
	const struct watch *w = x->watch;
	const struct threshold *t = w->alive_at.text ? &w->stuck_after : &w->overdue_after;
	if (w->alive_at.text && w->beat_us && w->stuck_after.given)
		doctor_watch_beat(x);
	else if (!w->owner_alive.text && (w->alive_at.text || w->started_at.text) && t->given)
		found(x, FINDING_OK, NULL, "only age decides: %s %s must exceed the longest normal run",
		      w->alive_at.text ? "stuck_after" : "overdue_after", span(x, threshold_least(t)));
}

/* Without `owner`, a row that no worker has yet looks like one whose worker is gone. */
void check_owner(struct examination *x)
{
	const struct watch *w = x->watch;
	if (!w->owner_alive.text)
		return;
	if (w->owner.text)
		found(x, FINDING_OK, NULL,
		      "owner_alive is evaluated where owner is not null; a row without an owner is judged "
		      "by its signs of life");
	else
		found(x, FINDING_WARN, "write owner: with the column that names the worker",
		      "owner_alive is given without owner: a row that no worker holds yet counts as dead "
		      "as soon as owner_alive is false, and EXISTS is never null");
}

void check_loop(struct examination *x)
{
	struct decide_options o = {.ledger = x->ledger_usable};
	if (!decide_can_loop(x->watch, &o)) {
		found(x, FINDING_OK, NULL, "its remedies cannot loop forever");
		return;
	}
	const char * or = "give attempts: and max_attempts:, or accept it with crash_budget: off";
	found(x, FINDING_FAIL,
	      x->ledger_fix ? arena_printf(&x->arena, "%s or %s", x->ledger_fix, or) : or,
	      "requeue could loop forever: the rows count no attempts and there is no ledger to count "
	      "crashes, so --fix is refused");
}

/* What a held job will look like in the user's own table, and what holds it. */
static void check_held(struct examination *x)
{
	const struct watch *w = x->watch;
	AUTO_BUF when = BUF_INIT;
	enum budget_of budget = decide_budget(w);
	bool by_rule = false;
	for (int i = 0; i < w->nrules; i++)
		by_rule = by_rule || w->rules[i].remedy == REMEDY_HOLD;
	if (budget == BUDGET_OF_ALL)
		buf_addf(&when, "stuck %lld times within %s", (long long)w->crash_budget.max,
		         span(x, w->crash_budget.within_us));
	else
		buf_add(&when, by_rule ? "held by a rule" : "stuck with no attempts left");
	if (watch_writes_hold(w))
		found(x, FINDING_OK, NULL, "a job that is %s is held in its own table", buf_text(&when));
	else
		found(x, FINDING_OK, NULL,
		      "a job that is %s is held in defib's own table only: its row does not change and "
		      "still matches running (%s) until an operator releases it; hold: in the watch would "
		      "mark it in the row",
		      buf_text(&when), w->running.text);
}

/* Whether releasing a held job also makes it claimable: `ready` may check attempts. */
static void check_release(struct examination *x)
{
	const struct watch *w = x->watch;
	const struct action *a = &w->actions[watch_releases_by(w)];
	const char *column = w->attempts.text, **targets;
	struct failure f = {0};
	int n = 0;
	bool written = false;
	if (!column || !w->work.ready.text || a->form != ACTION_SET)
		return;
	column = text_starts(column, "t.") ? column + 2 : column;
	if (!sql_names(w->work.ready.text, x->store->engine, column) ||
	    sql_set_targets(a->set.text, x->store->engine, &x->arena, &targets, &n, &f))
		return;
	for (int i = 0; i < n; i++)
		written = written || strcasecmp(targets[i], column) == 0;
	if (!written)
		found(x, FINDING_WARN,
		      arena_printf(&x->arena, "add to the watch: release: %s, %s = 0", a->set.text, column),
		      "work.ready asks for %s, and releasing a job does not change them: a job with no "
		      "attempts left is released but never claimed",
		      column);
}

void check_hold(struct examination *x)
{
	if (!decide_can_hold(x->watch))
		return;
	check_held(x);
	check_release(x);
}

static void sign_query(struct examination *x, enum sign sign, struct buf *sql)
{
	const char *expr = watch_sign(x->watch, sign)->text;
	AUTO_BUF bad = BUF_INIT;
	bool can = sql_time_unreadable(&x->binding, x->binding.sign_time[sign],
	                               x->binding.sign_type[sign], expr, &bad);
	buf_addf(sql,
	         "SELECT sum(CASE WHEN defib_none THEN 1 ELSE 0 END), sum(CASE WHEN defib_sign > "
	         "defib_now + %lld THEN 1 ELSE 0 END), max(defib_sign - defib_now), "
	         "sum(CASE WHEN defib_bad THEN 1 ELSE 0 END) FROM (SELECT ",
	         (long long)FUTURE_US);
	sql_time_us(&x->binding, x->binding.sign_time[sign], expr, sql);
	buf_addf(sql,
	         " AS defib_sign, (%s) IS NULL AS defib_none, %s AS defib_bad, %s AS defib_now FROM %s "
	         "AS t WHERE (%s) LIMIT %d) AS defib_running",
	         expr, can ? buf_text(&bad) : "false", sql_now_us(x->store->engine), x->table,
	         x->watch->running.text, ROWS_COUNT_MAX);
}

static void check_sign(struct examination *x, enum sign sign)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	const char *option = sign_kinds[sign].option;
	sign_query(x, sign, &sql);
	bool good = asked(x, buf_text(&sql), NULL, 0, &rows);
	if (!good)
		return;
	int64_t nulls = row_int(&rows, 0, 0, 0), future = row_int(&rows, 0, 1, 0);
	int64_t bad = row_int(&rows, 0, 3, 0);
	bool missed =
		nulls > 0 && x->watch->missing == MISSING_ALIVE && sign == watch_first_sign(x->watch);
	if (bad)
		found(x, FINDING_FAIL, "correct these rows; `defib scan` names them",
		      "%s running row%s an %s that cannot be read as a time (%s): they are never judged",
		      grouped(x, bad), bad == 1 ? " has" : "s have", option,
		      time_type_names[x->binding.sign_time[sign]]);
	if (missed)
		found(x, FINDING_WARN, "write missing: orphan in the watch to treat them as stuck",
		      "%s running row%s no %s and are never stuck because of it", grouped(x, nulls),
		      nulls == 1 ? " has" : "s have", option);
	/* A deadline is in the future; a sign of life must not be. */
	bool ahead = future > 0 && !sign_kinds[sign].deadline;
	if (ahead)
		found(x, FINDING_WARN,
		      "set the clocks of the workers' hosts, and check the column's time zone (time_type:)",
		      "%s running row%s an %s in the future, by up to %s: they look alive that much longer",
		      grouped(x, future), future == 1 ? " has" : "s have", option,
		      span(x, row_int(&rows, 0, 2, 0)));
	if (!missed && !ahead && !bad)
		found(x, FINDING_OK, NULL, "%s of the running rows is plausible", option);
}

void check_signs(struct examination *x)
{
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (watch_sign(x->watch, (enum sign)sign)->text)
			check_sign(x, (enum sign)sign);
}

/* ---- overlap: are its rows also those of another watch? ---- */

#define OVERLAP_MOST 1000

static void check_overlap_with(struct examination *x, const struct binding *other)
{
	const char *name = other->watch->name;
	bool same_key = text_eq(x->binding.table_key, other->table_key);
	struct store_rows rows;
	struct failure f = {0};
	const char *sql = arena_printf(
		&x->arena,
		"SELECT count(*) FROM (SELECT 1 FROM %s AS t WHERE (%s) AND (%s) LIMIT %d) AS defib_n",
		x->table, x->watch->running.text, other->watch->running.text, OVERLAP_MOST);
	if (ask_within(x, sql, &rows, &f)) {
		unclear(x, &f);
		return;
	}
	int64_t n = row_int(&rows, 0, 0, 0);
	if (n == 0)
		found(x, FINDING_OK, NULL, "no running row is one of watch %s too", name);
	else
		found(x, FINDING_WARN,
		      "let each row match running in one of them only, or make one watch of them: it can "
		      "have several signs of life, thresholds by kind, and rules",
		      "%s%s running row%s also of watch %s: each of the two lists, counts and recovers "
		      "them%s",
		      n < OVERLAP_MOST ? "" : "at least ", grouped(x, n), n == 1 ? " is one" : "s are",
		      name,
		      same_key ? ""
		               : ", and because their keys differ, neither knows of the other's "
		                 "holds");
}

void check_overlap(struct examination *x)
{
	for (int i = 0; i < x->nbefore && !x->store->lost; i++)
		if (text_eq(x->binding.same_table, x->before[i]->same_table))
			check_overlap_with(x, x->before[i]);
}

/* ---- attached: does the table record which session claims a row? Only `defib run` needs that ----
 */

/* Only what was recorded shows that claims can be seen: some take a lock, or write elsewhere. */
static void check_claims(struct examination *x)
{
	const struct watch *w = x->watch;
	struct store_rows running, claims;
	struct failure f = {0};
	struct store_param watch = P_TEXT(w->name);
	const char *run = arena_printf(&x->arena, "SELECT 1 FROM %s AS t WHERE (%s) LIMIT 1", x->table,
	                               w->running.text);
	if (ask(x, "SELECT 1 FROM defib.claimed_by WHERE watch = $1 LIMIT 1", &watch, 1, &claims, &f) ||
	    ask_within(x, run, &running, &f))
		unclear(x, &f);
	else if (claims.nrows > 0)
		found(x, FINDING_OK, NULL,
		      "attached: claims are recorded, so defib run recovers the jobs of an ended program "
		      "at once");
	else if (running.nrows > 0)
		found(x, FINDING_WARN,
		      "if they were claimed after attach, let the claim write the row, or rely on the "
		      "watch's thresholds",
		      "attached, but rows are running and no claim is recorded: a claim that writes no row "
		      "of %s (a lock, another table) is not seen, and defib run cannot recover its job at "
		      "once",
		      w->table);
	else
		found(x, FINDING_OK, NULL,
		      "attached; no row is running, so whether claims are recorded cannot be seen now");
}

void check_attached(struct examination *x)
{
	struct failure f = {0};
	enum attached is = ATTACHED_NOT;
	const char *fix = arena_printf(&x->arena, "run defib db attach %s", x->watch->name);
	defib_err err = store_begin(x->store, TX_READ, &f);
	if (!err) {
		err = attach_state(x->store, &x->binding, &is, &f);
		store_rollback(x->store); /* nothing was written */
	}
	if (err)
		unclear(x, &f);
	else if (is == ATTACHED_FRESH)
		check_claims(x);
	else if (is == ATTACHED_NOT)
		found(x, FINDING_OK, NULL, "not attached; only defib run needs it");
	else
		found(x, is == ATTACHED_UNSAFE ? FINDING_FAIL : FINDING_WARN, fix, "%s",
		      attached_texts[is]);
}
