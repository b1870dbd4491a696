/* SPDX-License-Identifier: Apache-2.0
 * install_sql.c: see install_sql.h. The text of the function is in sql/postgres_install.sql; what
 * depends on the watch is put into it here.
 */
#include "setup/install_sql.h"

#include "embedded.h"
#include "recover/apply.h"
#include "recover/decide.h"
#include "setup/judge_sql.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lease_sql.h"

#include <assert.h>

#define NAME_PREFIX "recover_"
#define NAME_MAX_BYTES 63 /* PostgreSQL truncates longer names, and two could become one */

static bool may_do(const struct watch *w, enum remedy remedy)
{
	bool found = w->nrules == 0 && (remedy == REMEDY_REQUEUE || remedy == REMEDY_HOLD) &&
	             w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	for (int i = 0; i < w->nrules; i++)
		found = found || w->rules[i].remedy == remedy ||
		        (w->rules[i].remedy == REMEDY_HOLD && remedy == decide_released(w));
	return found;
}

defib_err install_refusal(const struct watch *w, struct failure *f)
{
	static const char daemon[] = "leave it to defib scan --fix";
	const struct {
		bool holds;
		const char *why, *next;
	} refusals[] = {
		{w->beat_us > 0,
	     "its owners send heartbeats: silence needs two looks and the brake, and a function looks "
	     "once",
	     daemon},
		{watch_remembers_any(w),
	     "it measures since when a value has been the same, which a function does not remember",
	     "give progress_at: or state_since:, or leave it to defib daemon"},
		{w->owner_alive.text, "owner_alive needs more than age", daemon},
		{may_do(w, REMEDY_RETRY) && watch_act_is_stored(w, REMEDY_RETRY),
	     "retry has a second part (then:) that must run when the wait is over", daemon},
		{may_do(w, REMEDY_ROLLBACK), "a rollback is run by a worker, not by the database", daemon},
		{strlen(NAME_PREFIX) + strlen(w->name) > NAME_MAX_BYTES,
	     "its name is too long for the name of a function", "use a name of at most 55 bytes"},
	};
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		if (refusals[i].holds) {
			fail(f, DEFIB_REFUSED, "watch %s cannot be recovered inside the database: %s", w->name,
			     refusals[i].why);
			fail_next(f, "%s", refusals[i].next);
			return DEFIB_REFUSED;
		}
	return DEFIB_OK;
}

void install_name(const struct watch *w, struct buf *out)
{
	AUTO_BUF name = BUF_INIT;
	buf_addf(&name, NAME_PREFIX "%s", w->name);
	buf_add(out, "defib.");
	sql_ident(out, buf_text(&name));
}

/* ---- texts of the watch ---- */

/* Text between dollar quotes with a tag that does not occur in it. */
static void install_add_quoted(const char *word, const char *text, struct buf *out)
{
	char tag[32];
	snprintf(tag, sizeof tag, "$%s", word);
	for (int i = 2; strstr(text, tag); i++)
		snprintf(tag, sizeof tag, "$%s%d", word, i);
	buf_addf(out, "%s$\n%s\n%s$", tag, text, tag);
}

/* Columns of the jobs in a variable, as an array of each. */
static const char *arrays(const char *jobs, const char *const *columns, int n, struct arena *a)
{
	struct buf out = BUF_INIT;
	for (int i = 0; i < n; i++)
		buf_addf(&out, "%sARRAY(SELECT e ->> '%s' FROM jsonb_array_elements(%s) AS e)",
		         i ? ",\n                    " : "", columns[i], jobs);
	return buf_to_arena(&out, a);
}

static int key_columns(const struct watch *w, const char **out, struct arena *a)
{
	for (int k = 0; k < w->key.n; k++)
		out[k] = arena_printf(a, "defib_k%d", k + 1);
	return w->key.n;
}

static const char *keys_of(const struct watch *w, const char *jobs, struct arena *a)
{
	const char *columns[WATCH_KEYS_MAX];
	int n = key_columns(w, columns, a);
	return arrays(jobs, columns, n, a);
}

/* The values of a write, in the order of write_relation(). */
static const char *values_of(const struct watch *watch, const struct write_sql *w, struct arena *a)
{
	static const char *const fields[STUCK_COUNT] = {
		[STUCK_OWNER] = "owner",       [STUCK_KIND] = "kind",         [STUCK_ATTEMPT] = "attempt",
		[STUCK_ALIVE_AT] = "alive_us", [STUCK_VERDICT] = "verdict",   [STUCK_REASON] = "reason",
		[STUCK_RETRY_AT] = "retry_us", [STUCK_EVIDENCE] = "evidence", [STUCK_NOW] = "now_us",
		[STUCK_STEP] = "step", /* null: no operator chose one */
	};
	const char *columns[WATCH_KEYS_MAX + STUCK_COUNT];
	int n = key_columns(watch, columns, a);
	for (int i = 0; i < STUCK_COUNT; i++)
		if (w->uses[i])
			columns[n++] = fields[i];
	return arrays("these", columns, n, a);
}

/* (defib_k1, …) and `n` more columns after the key. */
static const char *columns_of(const struct watch *w, const char *name, int n, struct arena *a)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "(");
	for (int k = 0; k < w->key.n; k++)
		buf_addf(&out, "%sdefib_k%d", k ? ", " : "", k + 1);
	for (int i = 0; i < n; i++)
		buf_addf(&out, ", %s_%d", name, i + 1);
	buf_add(&out, ")");
	return buf_to_arena(&out, a);
}

static const char *install_literal(const char *text, struct arena *a)
{
	struct buf out = BUF_INIT;
	sql_literal(&out, text);
	return buf_to_arena(&out, a);
}

static const char *job_of(const struct binding *b, struct arena *a)
{
	struct buf out = BUF_INIT;
	sql_job_text(b, JOB_OF_RELATION, &out);
	return buf_to_arena(&out, a);
}

static const char *filled(const char *part, const struct sql_piece *pieces, struct arena *a)
{
	struct buf out = BUF_INIT;
	sql_fill(&out, part, pieces);
	return buf_to_arena(&out, a);
}

/* The same as text that EXECUTE takes. */
static const char *statement(const char *part, const struct sql_piece *pieces, struct arena *a)
{
	struct buf out = BUF_INIT;
	install_add_quoted("sql", filled(part, pieces, a), &out);
	return buf_to_arena(&out, a);
}

/* ('a', 'b'): remedies that a test accepts. */
static const char *remedies(const struct watch_sql *q,
                            bool (*accepts)(const struct watch_sql *, int remedy), struct arena *a)
{
	struct buf out = BUF_INIT;
	buf_add(&out, "(''");
	for (int r = 0; r < REMEDY_COUNT; r++)
		if (accepts(q, r))
			buf_addf(&out, ", '%s'", remedy_names[r]);
	buf_add(&out, ")");
	return buf_to_arena(&out, a);
}

static bool writes_table(const struct watch_sql *q, int remedy)
{
	return q->nwrites[remedy] > 0;
}

static bool writes_by_list(const struct watch_sql *q, int remedy)
{
	return q->nwrites[remedy] > 0 && q->writes[remedy][0].returns;
}

/* As complete() in apply.c. */
static bool has_also(const struct watch_sql *q, int remedy)
{
	return watch_also(q->binding->watch, remedy);
}

/* ---- parts of the function ---- */

static const char *unreadable(const struct watch_sql *q, struct arena *a)
{
	if (!q->unreadable)
		return "";
	const struct sql_piece count[] = {{"sql", q->unreadable}, {NULL, NULL}};
	const struct sql_piece pieces[] = {{"count", statement(sql_postgres_install_count, count, a)},
	                                   {"most", arena_printf(a, "%d", UNREADABLE_MAX)},
	                                   {NULL, NULL}};
	return filled(sql_postgres_install_unreadable, pieces, a);
}

static const char *install_look(const struct watch_sql *q, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	struct buf out = BUF_INIT;
	sql_decided(q, &sql);
	install_add_quoted("sql", buf_text(&sql), &out);
	return buf_to_arena(&out, a);
}

/* Rows that another transaction holds are left alone, even if it only holds their sign of life. */
static const char *lock(const struct watch_sql *q, bool lock_signs, struct arena *a)
{
	bool signs = lock_signs && q->lock_signs;
	const char *sql = signs            ? q->lock_signs
	                  : q->lock_states ? q->lock_states
	                  : q->lock_leases ? q->lock_leases
	                                   : q->lock;
	int nbusy = signs            ? q->nbusy
	            : q->lock_states ? q->nbusy_states
	            : q->lock_leases ? LEASE_ROWS
	                             : 0;
	struct buf is_free = BUF_INIT;
	buf_add(&is_free, "true");
	for (int i = 0; i < nbusy; i++)
		buf_addf(&is_free, " AND NOT busy_%d", i + 1);
	const struct sql_piece pieces[] = {{"job", job_of(q->binding, a)},
	                                   {"sql", sql},
	                                   {"columns", columns_of(q->binding->watch, "busy", nbusy, a)},
	                                   {"free", buf_to_arena(&is_free, a)},
	                                   {NULL, NULL}};
	return statement(sql_postgres_install_lock, pieces, a);
}

/*
 * As read_again() in apply.c: rows that are gone or differ have changed, rows that others hold are
 * left alone.
 */
static const char *reread(const struct watch_sql *q, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	sql_facts(q, q->reread, &sql);
	const struct sql_piece pieces[] = {
		{"sql", buf_text(&sql)},
		{"facts", arena_printf(a, "%d", q->binding->watch->key.n + 1)},
		{NULL, NULL}};
	return statement(sql_postgres_install_reread, pieces, a);
}

/* As bar_held() in apply.c: a hold or an excuse that was set since the look is respected. */
static const char *hold_since(const struct binding *b, struct arena *a)
{
	struct buf out = BUF_INIT;
	struct hold_sql hold = {"h", "e ->> 'owner'", "(e ->> 'sign_us')::bigint",
	                        .in_words = watch_writes_hold(b->watch),
	                        .watch = install_literal(b->watch->name, a)};
	buf_add(&out, "(");
	hold_in_force_sql(dialect_of(b->engine), &hold, &out);
	buf_add(&out, " OR h.verdict = e ->> 'verdict' AND (extract(epoch FROM h.at) * "
	              "1000000)::bigint >= (e ->> 'now_us')::bigint)");
	return buf_to_arena(&out, a);
}

static const char *update(const struct watch_sql *q, const struct write_sql *w, struct arena *a)
{
	const struct sql_piece pieces[] = {
		{"columns", columns_of(q->binding->watch, "left", w->tells ? 2 : 0, a)},
		{"sql", w->sql},
		{"job", job_of(q->binding, a)},
		{NULL, NULL}};
	return statement(sql_postgres_install_written, pieces, a);
}

static void add_write(const struct watch_sql *q, int remedy, const struct write_sql *w,
                      struct arena *a, struct buf *out)
{
	struct buf own = BUF_INIT;
	install_add_quoted("sql", w->sql, &own);
	const char *sql = buf_to_arena(&own, a);
	const struct sql_piece pieces[] = {{"remedy", remedy_names[remedy]},
	                                   {"sql", w->returns ? update(q, w, a) : sql},
	                                   {"values", values_of(q->binding->watch, w, a)},
	                                   {"shared_key", install_literal(REFUSED_SHARED_KEY, a)},
	                                   {"key_written", install_literal(REFUSED_KEY_WRITTEN, a)},
	                                   {NULL, NULL}};
	buf_add(out, out->len ? "\n" : "");
	sql_fill(out, w->returns ? sql_postgres_install_update : sql_postgres_install_statement,
	         pieces);
}

static const char *writes(const struct watch_sql *q, struct arena *a)
{
	struct buf out = BUF_INIT;
	for (int r = 0; r < REMEDY_COUNT; r++) {
		bool possible =
			r == REMEDY_HOLD || may_do(q->binding->watch, (enum remedy)r); /* hold: by poison */
		for (int i = 0; possible && i < q->nwrites[r]; i++)
			add_write(q, r, &q->writes[r][i], a, &out);
	}
	return buf_to_arena(&out, a);
}

static const char *leases(const struct watch_sql *q, const char *writes_hold, struct arena *a)
{
	if (!q->free_leases)
		return "";
	struct buf sql = BUF_INIT;
	install_add_quoted("sql", q->free_leases, &sql);
	const struct sql_piece pieces[] = {{"writes_hold", writes_hold},
	                                   {"sql", buf_to_arena(&sql, a)},
	                                   {"keys_of_these", keys_of(q->binding->watch, "these", a)},
	                                   {NULL, NULL}};
	return filled(sql_postgres_install_leases, pieces, a);
}

static const char *left(const struct watch_sql *q, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	sql_judged(q, q->reread, &sql);
	const struct sql_piece pieces[] = {
		{"sign", sql_sign_name(q->binding->watch)}, {"sql", buf_text(&sql)}, {NULL, NULL}};
	return statement(sql_postgres_install_left, pieces, a);
}

/* Of the columns that are masked, those whose values other texts repeat. */
static const char *masked(const struct binding *b, struct arena *a)
{
	struct buf names = BUF_INIT, repeats = BUF_INIT;
	for (int i = 0; i < b->nmasked; i++)
		buf_addf(&names, "%slower(%s)", i ? ", " : "", install_literal(b->masked[i], a));
	sql_repeats("(v.text #>> '{}')", "e -> 'secrets'", &repeats);
	const struct sql_piece pieces[] = {
		{"names", buf_to_arena(&names, a)}, {"repeats", buf_to_arena(&repeats, a)}, {NULL, NULL}};
	return b->nmasked ? filled(sql_postgres_install_masked, pieces, a) : "";
}

static const char *body(const struct watch_sql *q, const struct install_options *o, struct arena *a)
{
	const struct binding *b = q->binding;
	const struct watch *w = b->watch;
	const char *writes_hold = watch_writes_hold(w) ? "true" : "false";
	int64_t limit = w->limit && w->limit < w->batch ? w->limit : w->batch;
	const struct sql_piece pieces[] = {
		{"table_key", install_literal(b->table_key, a)},
		{"watch", install_literal(w->name, a)},
		{"unreadable", unreadable(q, a)},
		{"look", install_look(q, a)},
		{"limit", arena_printf(a, "%lld", (long long)limit)},
		{"crash_budget_us", arena_printf(a, "%lld", (long long)w->crash_budget.within_us)},
		{"lock", lock(q, o->lock_signs, a)},
		{"keys_of_part", keys_of(w, "part", a)},
		{"reread", reread(q, a)},
		{"hold_in_force", hold_since(b, a)},
		{"writes_hold", writes_hold},
		{"writes", writes(q, a)},
		{"leases", leases(q, writes_hold, a)},
		{"left", left(q, a)},
		{"keys_of_these", keys_of(w, "these", a)},
		{"remedies_that_write", remedies(q, writes_table, a)},
		{"remedies_by_list", remedies(q, writes_by_list, a)},
		{"masked", masked(b, a)},
		{"remedies_with_also", remedies(q, has_also, a)},
		{"stays_running", w->stays_running ? "true" : "false"},
		{"shared_key", install_literal(REFUSED_SHARED_KEY, a)},
		{"runs_on", install_literal(REFUSED_RUNS_ON, a)},
		{NULL, NULL}};
	return filled(sql_postgres_install_body, pieces, a);
}

void install_function(const struct watch_sql *q, const struct install_options *o, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF name = BUF_INIT, quoted = BUF_INIT, settings = BUF_INIT;
	const struct dialect *d = dialect_of(q->binding->engine);
	assert(d->can_install && o->search_path);
	for (const struct dialect_setting *s = d->settings; s && s->set; s++)
		if (s->since == 0)
			buf_addf(&settings, "SET %s\n", s->set);
	install_name(q->binding->watch, &name);
	install_add_quoted("defib", body(q, o, &a), &quoted);
	const struct sql_piece pieces[] = {
		{"name", buf_text(&name)},
		{"search_path", o->search_path[0] ? arena_printf(&a, "%s, ", o->search_path) : ""},
		{"settings", buf_text(&settings)},
		{"body", buf_text(&quoted)},
		{NULL, NULL}};
	sql_fill(out, sql_postgres_install_function, pieces);
}
