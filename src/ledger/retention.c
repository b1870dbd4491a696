/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/retention.h"

#include "base/clock.h"
#include "base/log.h"
#include "embedded.h"
#include "ledger/prune.h"
#include "ledger/schema.h"
#include "store/dialect.h"
#include "watch/lease_sql.h"

#include <inttypes.h>

#define TURN_MS 200        /* that a loop can spare */
#define COUNTED_MAX 100000 /* beyond that the planner's estimate is used */
#define LEDGER_LATE_US                                                                             \
	(24 * 3600 * US_PER_S) /* so that a quiet ledger is not pruned every minute */

const char *const retention_names[] = {
#define X(id, name, help) name,
	RETENTION_RULES(X)
#undef X
		NULL};
const char *const retention_words[] = {
#define X(id, name, help) help,
	RETENTION_RULES(X)
#undef X
		NULL};

/* The time before which a row is old, from the first parameter. */
#define OLD "({now_statement} - {span $1::bigint})"

/* The job is not held, and has no pending retry. */
#define NOT_WAITING                                                                                \
	" AND NOT EXISTS (SELECT 1 FROM defib.hold h WHERE h.watch = t.watch AND h.job = t.job) AND "  \
	"NOT "                                                                                         \
	"EXISTS (SELECT 1 FROM defib.retry r WHERE r.watch = t.watch AND r.job = t.job)"

static const struct keep_rule {
	const char *table;
	size_t age;        /* its member in the policy */
	const char *time;  /* the column that gives a row's age */
	const char *is;    /* which rows of the table are meant, as in the index */
	const char *over;  /* further conditions besides age */
	const char *index; /* of exactly these rows */
} rules[RETENTION_COUNT] = {
	[RETAIN_DONE] = {"job", offsetof(struct retention, done_us), "finished_at", "t.state = 'done'",
                     "", "job_done_at"},
	[RETAIN_FAILED] = {"job", offsetof(struct retention, failed_us), "finished_at",
                       "(t.state = 'failed' OR t.state = 'timed_out' OR t.state = 'cancelled' OR "
                       "t.state = 'rolled_back')",
                       "", "job_failed_at"},
	[RETAIN_LEASES] = {"lease", offsetof(struct retention, leases_us), "claimed_at",
                       "t.owner IS NULL",
                       " AND (t.run_at IS NULL OR t.run_at < " OLD ")" NOT_WAITING,
                       "lease_free_at"},
	[RETAIN_STEPS] =
		{"step", offsetof(struct retention, leases_us), "finished_at", "t.watch <> 'queue'",
         " AND NOT EXISTS (SELECT 1 FROM defib.step o WHERE o.watch = t.watch AND o.job = "
         "t.job AND o.finished_at >= " OLD ") AND NOT EXISTS (SELECT 1 FROM defib.lease l WHERE "
         "l.watch = t.watch AND l.job = t.job AND l.owner IS NOT NULL)" NOT_WAITING,
         "step_at"},
	/* Each is history on its own: none of them decides what runs. */
	[RETAIN_ATTEMPTS] = {"step_attempt", offsetof(struct retention, leases_us), "ended_at",
                         "t.watch <> 'queue'", "", "step_attempt_at"},
	[RETAIN_WORKERS] =
		{"worker", offsetof(struct retention, workers_us), "ended_at", "t.state <> 'alive'",
         " AND NOT EXISTS (SELECT 1 FROM defib.job j WHERE j.owner = t.id AND (j.state = "
         "'running' OR j.state = 'cancelling')) AND NOT EXISTS (SELECT 1 FROM "
         "defib.lease l WHERE l.owner = t.id)",
         "worker_ended_at"},
	[RETAIN_PROGRAMS] = {"program", offsetof(struct retention, workers_us), "ended_at",
                         "t.ended_at IS NOT NULL",
                         " AND NOT EXISTS (SELECT 1 FROM defib.claimed_by c WHERE c.application = "
                         "t.application AND c.watch = t.watch)",
                         "program_pkey"},
	[RETAIN_TOKENS] = {"enqueued", offsetof(struct retention, tokens_us), "at", "true", "",
                       "enqueued_at"},
	[RETAIN_MESSAGES] = {"delivery", offsetof(struct retention, messages_us), "ended_at",
                         "t.ended IS NOT NULL", "", "delivery_ended_at"},
	[RETAIN_ACTS] = {"act", offsetof(struct retention, messages_us), "ended_at",
                     "t.ended_at IS NOT NULL", "", "act_ended_at"},
	[RETAIN_LEARNED] = {"learned", offsetof(struct retention, learned_us), "at", "t.kind <> ''", "",
                        "learned_pkey"},
	/* While the watch is scanned, a scan removes them. */
	[RETAIN_SEEN] = {"seen", offsetof(struct retention, learned_us), "at", "true",
                     " AND NOT EXISTS (SELECT 1 FROM defib.seen o WHERE o.watch = t.watch AND "
                     "o.what = 'look' AND o.at >= " OLD ")",
                     "seen_at"},
	[RETAIN_LEDGER] = {"ledger", offsetof(struct retention, ledger_us), "at", "true", "",
                       "ledger_pkey"},
};

/* What belongs to a job of the built-in queue and is removed with it. */
static const struct {
	const char *table, *column, *more;
	bool text; /* the column is the job's text */
} parts_of_job[] = {
	{"job_data", "job", "", false},
	{"progress", "job", "", false},
	{"step", "job", " AND watch = 'queue'", true},
	{"step_attempt", "job", " AND watch = 'queue'", true},
	{"hold", "job", " AND watch = 'queue'", true},
	{"retry", "job", " AND watch = 'queue'", true},
	{"job", "id", "", false},
};

struct retention_work {
	struct store *store;
	const struct retention *policy;
	const char *actor;
	bool force;
	int64_t until_ms;
	struct arena arena;
	struct retention_round *out;
};

static int64_t age_of(const struct retention *p, const struct keep_rule *r)
{
	return *(const int64_t *)((const char *)p + r->age);
}

/* "FROM table t WHERE …": the old rows, with both parameters in order. */
static const char *old_rows(const struct keep_rule *r, const char *more, struct arena *a)
{
	return arena_printf(a, "FROM defib.%s t WHERE %s AND t.%s < " OLD "%s%s ORDER BY t.%s LIMIT $2",
	                    r->table, r->is, r->time, r->over, more, r->time);
}

/* ---- one step ---- */

/* A list of ids as one parameter. */
static const char *id_list(const struct dialect *d, const struct store_rows *rows, struct arena *a)
{
	struct buf out = BUF_INIT;
	for (int i = 0; i < rows->nrows; i++)
		buf_addf(&out, "%c%s", i ? ',' : d->list[0], row_text(rows, i, 0));
	buf_addch(&out, d->list[1]);
	return buf_to_arena(&out, a);
}

static defib_err remove_jobs(struct retention_work *x, const struct keep_rule *r, int64_t *n,
                             struct failure *f)
{
	struct store *s = x->store;
	struct store_param params[] = {P_INT(age_of(x->policy, r)), P_INT(RETENTION_STEP)};
	struct store_rows rows;
	const char *choose =
		arena_printf(&x->arena, "SELECT t.id %s{skip_locked}", old_rows(r, "", &x->arena));
	defib_err err = dialect_exec(s, choose, params, 2, &x->arena, &rows, f);
	*n = err ? 0 : rows.nrows;
	if (err || *n == 0)
		return err;
	struct store_param ids = P_TEXT(id_list(store_dialect(s), &rows, &x->arena));
	for (size_t i = 0; i < sizeof parts_of_job / sizeof *parts_of_job && !err; i++) {
		const char *sql = arena_printf(&x->arena, "DELETE FROM defib.%s WHERE %s %s%s",
		                               parts_of_job[i].table, parts_of_job[i].column,
		                               parts_of_job[i].text ? "{among_text $1}" : "{among $1}",
		                               parts_of_job[i].more);
		err = dialect_exec(s, sql, &ids, 1, &x->arena, NULL, f);
	}
	return err;
}

/* Run a statement over the rows that are old by the rule; *n is how many it changed. */
static defib_err run_rule(struct retention_work *x, const struct keep_rule *r, const char *sql,
                          int64_t *n, struct failure *f)
{
	struct store_param params[] = {P_INT(age_of(x->policy, r)), P_INT(RETENTION_STEP)};
	struct store_rows rows = {0};
	defib_err err = dialect_exec(x->store, sql, params, 2, &x->arena, &rows, f);
	*n = err ? 0 : rows.affected;
	return err;
}

static defib_err remove_rows(struct retention_work *x, const struct keep_rule *r, const char *more,
                             int64_t *n, struct failure *f)
{
	const char *sql = arena_printf(
		&x->arena, "DELETE FROM defib.%s WHERE {row} {in_query SELECT t.{row} %s{skip_locked}}",
		r->table, old_rows(r, more, &x->arena));
	return run_rule(x, r, sql, n, f);
}

/* All steps of a job, or none: half a record would be wrong. */
static defib_err remove_steps(struct retention_work *x, const struct keep_rule *r, int64_t *n,
                              struct failure *f)
{
	const char *sql = arena_printf(
		&x->arena, "DELETE FROM defib.step WHERE (watch, job) IN (SELECT t.watch, t.job %s)",
		old_rows(r, "", &x->arena));
	return run_rule(x, r, sql, n, f);
}

/*
 * Leases are removed if their epoch is not above the floor that an earlier transaction stored, so
 * that a concurrent claim of such a job begins above it. Higher ones raise the floor, and are
 * removed the next time.
 */
static defib_err remove_leases(struct retention_work *x, const struct keep_rule *r, int64_t *n,
                               struct failure *f)
{
	int64_t raised = 0;
	defib_err err = remove_rows(
		x, r, arena_printf(&x->arena, " AND t.epoch <= %s", sql_leases_lease_floor), n, f);
	if (err)
		return err;
	const char *sql =
		arena_printf(&x->arena,
	                 "INSERT INTO defib.meta (name, value) SELECT 'lease_floor', CAST(o.top AS "
	                 "text) FROM (SELECT "
	                 "max(e.epoch) AS top FROM (SELECT t.epoch %s) e) o WHERE o.top > %s"
	                 " ON CONFLICT (name) DO "
	                 "UPDATE SET value = excluded.value",
	                 old_rows(r, "", &x->arena), sql_leases_lease_floor);
	return run_rule(x, r, sql, &raised, f);
}

static defib_err step_inside(struct retention_work *x, enum retention_rule rule, int64_t *n,
                             struct failure *f)
{
	const struct keep_rule *r = &rules[rule];
	switch (rule) {
	case RETAIN_DONE:
	case RETAIN_FAILED:
		return remove_jobs(x, r, n, f);
	case RETAIN_LEASES:
		return remove_leases(x, r, n, f);
	case RETAIN_STEPS:
		return remove_steps(x, r, n, f);
	default:
		return remove_rows(x, r, "", n, f);
	}
}

/* ---- the ledger ---- */

static defib_err prune_ledger(struct retention_work *x, int64_t *n, struct failure *f)
{
	struct prune_plan plan;
	int64_t age = 0, keep = x->policy->ledger_us;
	bool over;
	/* The age of its first entry. */
	defib_err err =
		dialect_int(x->store, "SELECT {stamp_age_us at} FROM defib.ledger ORDER BY id LIMIT 1",
	                NULL, 0, &age, f);
	if (err || age < keep + (x->force ? 0 : LEDGER_LATE_US))
		return err;
	err = prune_cutoff(x->store, keep, &x->arena, &plan, f);
	struct ledger_context ctx = {
		"", arena_printf(&x->arena, "retention-%" PRId64, clock_wall_us() / US_PER_S), x->actor};
	if (!err)
		err = prune_part(x->store, &plan, &ctx, RETENTION_STEP, n, &over, f);
	return err;
}

/* ---- a round ---- */

static defib_err retention_step(struct retention_work *x, enum retention_rule rule, int64_t *n,
                                struct failure *f)
{
	*n = 0;
	if (rule == RETAIN_LEDGER)
		return prune_ledger(x, n, f);
	defib_err err = store_begin(x->store, TX_WRITE, f);
	if (err)
		return err;
	return store_end(x->store, step_inside(x, rule, n, f), f);
}

/* How many rows are kept. For very many the planner's estimate is sufficient. */
static defib_err retained_rows(struct retention_work *x, const struct keep_rule *r, int64_t *n,
                               struct failure *f)
{
	const char *estimate = store_dialect(x->store)->ask.rows_of_index;
	struct store_param index = P_TEXT(r->index), most = P_INT(COUNTED_MAX);
	defib_err err = estimate ? dialect_int(x->store, estimate, &index, 1, n, f) : DEFIB_OK;
	if (err || *n > COUNTED_MAX)
		return err;
	const char *sql = arena_printf(
		&x->arena, "SELECT count(*) FROM (SELECT 1 FROM defib.%s t WHERE %s LIMIT $1) AS few",
		r->table, r->is);
	return dialect_int(x->store, sql, &most, 1, n, f);
}

/* The row of the rule in `kept`; the oldest row is found by its index. */
static defib_err note_rule(struct retention_work *x, enum retention_rule rule, struct failure *f)
{
	const struct keep_rule *r = &rules[rule];
	struct store *s = x->store;
	int64_t n = 0;
	const char *oldest = arena_printf(&x->arena, "(SELECT min(t.%s) FROM defib.%s t WHERE %s)",
	                                  r->time, r->table, r->is);
	if (rule == RETAIN_LEDGER)
		oldest = "(SELECT {stamp_instant t.at} FROM defib.ledger t ORDER BY t.id LIMIT 1)";
	defib_err err = retained_rows(x, r, &n, f);
	if (err)
		return err;
	struct store_param params[] = {P_TEXT(retention_names[rule]), P_INT(x->out->removed[rule]),
	                               P_INT(n)};
	const char *sql = arena_printf(
		&x->arena,
		"INSERT INTO defib.kept AS k (rule, at, removed, rows, oldest) VALUES ($1, {now}, $2, $3, "
		"%s) ON "
		"CONFLICT (rule) DO UPDATE SET at = excluded.at, removed = k.removed + excluded.removed, "
		"rows = excluded.rows, oldest = excluded.oldest",
		oldest);
	return dialect_write(s, sql, params, 3, &x->arena, NULL, f);
}

static defib_err do_rule(struct retention_work *x, enum retention_rule rule, struct failure *f)
{
	int64_t n = 0;
	bool there = false;
	defib_err err = schema_has(x->store, rules[rule].table, &there, f);
	if (err || !there)
		return err;
	if (age_of(x->policy, &rules[rule]) == 0)
		return note_rule(x, rule, f);
	/* At least one step, so that the last rule gets its turn even if time is short. */
	do {
		err = retention_step(x, rule, &n, f);
		x->out->removed[rule] += n;
	} while (!err && n >= RETENTION_STEP && clock_boot_ms() < x->until_ms);
	x->out->more = x->out->more || n >= RETENTION_STEP;
	return err ? err : note_rule(x, rule, f);
}

/* *there is false, without a failure, if this role may not create the tables. */
static defib_err retention_ready(struct store *s, bool *there, struct failure *f)
{
	defib_err err = schema_has(s, "kept", there, f);
	if (!err && !*there) {
		err = schema_install(s, SCHEMA_DAEMON, f);
		*there = !err;
	}
	if (err == DEFIB_PERMISSION) {
		fail_clear(f);
		err = DEFIB_OK;
	}
	return err;
}

static defib_err retention_claim(struct retention_work *x, struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.kept AS k (rule, at) VALUES ('', {now}) ON CONFLICT (rule) DO UPDATE "
		"SET at = excluded.at WHERE $2::bigint = 1 OR k.at <= {now} - {span $1::bigint}";
	struct store_param params[] = {P_INT(x->policy->every_us), P_INT(x->force)};
	struct store_rows rows = {0};
	defib_err err = dialect_write(x->store, sql, params, 2, &x->arena, &rows, f);
	x->out->claimed = !err && rows.affected > 0;
	return err;
}

/* The rest is continued soon, with pauses that leave the database most of its time. */
static defib_err due_soon(struct retention_work *x, int64_t pause_us, struct failure *f)
{
	struct store_param ago = P_INT(x->policy->every_us - pause_us);
	return dialect_write(x->store,
	                     "UPDATE defib.kept SET at = {now} - {span $1::bigint} WHERE rule = ''",
	                     &ago, 1, &x->arena, NULL, f);
}

defib_err retention_round(struct store *s, const struct retention *p, const char *actor, bool force,
                          int64_t budget_ms, struct retention_round *out, struct failure *f)
{
	int64_t begun_ms = clock_boot_ms();
	struct retention_work x = {.store = s, .policy = p, .actor = actor, .force = force, .out = out};
	bool there = false;
	*out = (struct retention_round){0};
	x.until_ms = begun_ms + budget_ms;
	defib_err err = retention_ready(s, &there, f);
	if (!err && there)
		err = retention_claim(&x, f);
	for (int rule = 0; !err && out->claimed && rule < RETENTION_COUNT; rule++) {
		err = do_rule(&x, (enum retention_rule)rule, f);
		/* A rule that this role may not apply is left to a role that may. */
		if (err == DEFIB_PERMISSION) {
			fail_clear(f);
			err = DEFIB_OK;
		}
		arena_clear(&x.arena);
	}
	if (!err && out->more)
		err = due_soon(&x, (clock_boot_ms() - begun_ms) * 4000, f);
	arena_release(&x.arena);
	return err;
}

bool retention_due(const struct retention_tick *t, const struct retention *p)
{
	return p->enabled && clock_boot_ms() >= t->due_ms;
}

void retention_turn(struct retention_tick *t, struct session *session, const struct retention *p,
                    const char *actor)
{
	int64_t begun_ms = clock_boot_ms();
	struct retention_round round = {0};
	struct failure f = {0};
	defib_err err = session_ready(session, &f);
	if (!err)
		err = retention_round(session->store, p, actor, false, TURN_MS, &round, &f);
	int64_t now = clock_boot_ms();
	/*
	 * Another process may do rounds; asking twice as often as a round is due detects when it stops.
	 */
	t->due_ms = now + (round.more ? (now - begun_ms) * 4 : p->every_us / 2000);
	for (int i = 0; i < RETENTION_COUNT; i++)
		if (round.removed[i])
			log_event(LOG_DEBUG, "removed expired rows", LOG_STR("what", retention_words[i]),
			          LOG_INT("rows", round.removed[i]));
	if (err && err != DEFIB_CONNECTION && !t->logged)
		log_event(LOG_WARN, "cannot remove expired rows", LOG_STR("because", f.what));
	t->logged = err != DEFIB_OK;
}

/* ---- reading ---- */

defib_err retention_look(struct store *s, const struct retention *p, int64_t old[RETENTION_COUNT],
                         struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	defib_err err = DEFIB_OK;
	for (int i = 0; i < RETENTION_COUNT && !err; i++) {
		struct store_param params[] = {P_INT(age_of(p, &rules[i])), P_INT(RETENTION_SEEN_MAX)};
		bool there = false;
		old[i] = 0;
		err = schema_has(s, rules[i].table, &there, f);
		if (err || !there || params[0].number == 0)
			continue;
		if (i == RETAIN_LEDGER) {
			struct prune_plan plan;
			err = prune_plan(s, params[0].number, &a, &plan, f);
			old[i] = plan.count;
			continue;
		}
		const char *sql = arena_printf(&a, "SELECT count(*) FROM (SELECT 1 %s) AS old",
		                               old_rows(&rules[i], "", &a));
		err = dialect_int(s, sql, params, 2, &old[i], f);
	}
	return err;
}

defib_err retention_read(struct store *s, struct retention_state *out, struct failure *f)
{
	static const char sql[] = "SELECT rule, {us {now}} - {us at}, removed, rows, {us {now}} - {us "
							  "oldest} FROM defib.kept";
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {0};
	bool there = false;
	*out = (struct retention_state){0};
	for (int i = 0; i < RETENTION_COUNT; i++)
		out->counts[i] = (struct retention_count){0, -1, -1};
	defib_err err = schema_has(s, "kept", &there, f);
	if (!err && there)
		err = dialect_exec(s, sql, NULL, 0, &a, &rows, f);
	for (int i = 0; !err && there && i < rows.nrows; i++) {
		const char *name = row_text(&rows, i, 0);
		if (!name) { /* SQLite permits it */
			row_set_aside("defib.kept", NULL, "rule is null");
			continue;
		}
		out->known = out->known || !*name;
		out->ago_us = *name ? out->ago_us : row_limited(&rows, i, 1, 0);
		for (int k = 0; k < RETENTION_COUNT; k++)
			if (text_eq(retention_names[k], name))
				out->counts[k] = (struct retention_count){row_limited(&rows, i, 2, 0),
				                                          row_limited(&rows, i, 3, -1),
				                                          row_limited(&rows, i, 4, -1)};
	}
	return err;
}
