/* SPDX-License-Identifier: Apache-2.0 */
#include "life/registry.h"

#include "embedded.h"
#include "guard/doubt.h"
#include "store/dialect.h"

#include <assert.h>

#define REGISTERED_CHANNEL "defib_worker"

/* A statement with a few parameters, and the first cell of its result. */
static defib_err one(struct store *s, const char *sql, const struct store_param *params, int n,
                     bool *found, int64_t *value, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, params, n, &a, &rows, f);
	*found = row_text(&rows, 0, 0) != NULL;
	if (value)
		*value = row_int(&rows, 0, 0, 0);
	return err;
}

static defib_err lost(struct failure *f, int64_t id)
{
	return fail(f, DEFIB_LEASE_LOST, "worker %lld was declared dead", (long long)id);
}

defib_err registry_register(struct store *s, const char *name, const struct incarnation *who,
                            int64_t lease_ms, const char *serves, int64_t *id, struct failure *f)
{
	const struct dialect *d = store_dialect(s);
	char text[256];
	bool found = false, notified;
	struct failure unheard = {0};
	incarnation_text(who, text, sizeof text);
	struct store_param params[] = {P_TEXT(name), P_TEXT(text), P_INT(lease_ms), P_TEXT(serves)};
	defib_err err =
		one(s,
	        d->has_functions ? "SELECT defib.register($1::text, $2::text, $3::integer, $4::text)"
	                         : sql_sqlite_turn_register,
	        params, 4, &found, id, f);
	if (!err && !found)
		return lost(f, 0);
	/* A worker that misses it finds the new one a little later. */
	if (!err && d->can_notify)
		(void)!one(s, "SELECT pg_notify('" REGISTERED_CHANNEL "', '')", NULL, 0, &notified, NULL,
		           &unheard);
	return err;
}

/* The row belongs to this incarnation, by the parameter after the id; NULL: not checked. */
#define IS_OURS "($2::text IS NULL OR incarnation = $2)"

static const char *registry_text_of(const struct incarnation *who, char *text, size_t size)
{
	if (who)
		incarnation_text(who, text, size);
	return who ? text : NULL;
}

defib_err registry_renew(struct store *s, int64_t id, const struct incarnation *who,
                         int64_t holding, const char *info, int64_t *owned, struct failure *f)
{
	static const char update[] =
		"UPDATE defib.worker SET renewed_at = {now}, expires_at = {now} + {span_ms lease_ms}, "
		"holding = $3, info = coalesce($4, info) WHERE id = $1 AND " IS_OURS
		" AND state = 'alive' RETURNING id";
	static const char call[] = "SELECT defib.renew(id, $3::integer, $4::jsonb) FROM defib.worker "
							   "WHERE id = $1 AND " IS_OURS;
	char text[256];
	struct store_param params[] = {P_INT(id), P_TEXT(registry_text_of(who, text, sizeof text)),
	                               P_INT(holding), P_TEXT(info)};
	bool found = false, calls = store_dialect(s)->has_functions;
	defib_err err = one(s, calls ? call : update, params, 4, &found, calls ? owned : NULL, f);
	if (!err && !found)
		return lost(f, id);
	if (!err && !calls)
		err = one(s,
		          "SELECT (SELECT count(*) FROM defib.job WHERE owner = $1) + "
		          "(SELECT count(*) FROM defib.lease WHERE owner = $1)",
		          params, 1, &found, owned, f);
	return err;
}

defib_err registry_leave(struct store *s, int64_t id, const struct incarnation *who,
                         struct failure *f)
{
	const char *sql =
		store_dialect(s)->has_functions
			? "SELECT defib.leave(id) FROM defib.worker WHERE id = $1 AND " IS_OURS
			: "UPDATE defib.worker SET state = 'left', ended_at = {now} WHERE id = $1 AND " IS_OURS
			  " AND state = 'alive'";
	char text[256];
	struct store_param params[] = {P_INT(id), P_TEXT(registry_text_of(who, text, sizeof text))};
	return dialect_exec(s, sql, params, 2, NULL, NULL, f);
}

/* The columns of a worker, and their tables. */
#define COLUMNS                                                                                    \
	"id, expires_at < {now}, serves, expires_at < {now} AND {server_up_less lease_ms + 10000}, "   \
	"{us renewed_at}, {us {now}}, CAST(lease_ms AS bigint) * 1000, incarnation FROM defib.worker " \
	"WHERE state = 'alive'"

#define M(member) ROW_MEMBER(struct registered, member)
static const struct row_member members[] = {M(id),       M(expired), M(serves),  M(excused),
                                            M(stamp_us), M(now_us),  M(lease_us)};
#undef M

static int registry_by_id(const void *a, const void *b)
{
	int64_t x = ((const struct registered *)a)->id, y = ((const struct registered *)b)->id;
	return (x > y) - (x < y);
}

/* In the order of ids, without duplicates. */
static defib_err registry_read_rows(struct store *s, const char *sql,
                                    const struct store_param *params, int nparams, struct arena *a,
                                    struct registered **out, int *n, struct failure *f)
{
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, params, nparams, a, &rows, f);
	int once = 0;
	*out = ROWS_READ(&rows, members, struct registered, a, n);
	for (int i = 0; i < *n; i++)
		/* Workers in other languages may register any text: they belong to no host we can see. */
		if (!incarnation_parse(row_text(&rows, i, rows.ncols - 1), &(*out)[i].who))
			(*out)[i].who = (struct incarnation){0};
	qsort(*out, (size_t)*n, sizeof **out, registry_by_id);
	for (int i = 0; i < rows.nrows; i++)
		if (once == 0 || (*out)[once - 1].id != (*out)[i].id)
			(*out)[once++] = (*out)[i];
	*n = once;
	return err;
}

defib_err registry_alive(struct store *s, struct arena *a, struct registered **out, int *n,
                         struct failure *f)
{
	return registry_read_rows(s, "SELECT " COLUMNS, NULL, 0, a, out, n, f);
}

defib_err registry_near(struct store *s, int64_t self, int side, struct arena *a,
                        struct registered **out, int *n, struct failure *f)
{
	static const char *const parts[] = {"id < $1 ORDER BY id DESC", "id > $1 ORDER BY id",
	                                    "id = $1", "true ORDER BY id", "true ORDER BY id DESC"};
	struct store_param params[] = {P_INT(self), P_INT(side)};
	AUTO_BUF sql = BUF_INIT;
	for (int i = 0; i < 5; i++)
		buf_addf(&sql, "%sSELECT * FROM (SELECT " COLUMNS " AND %s LIMIT $2) AS part%d",
		         i ? " UNION ALL " : "", parts[i], i);
	return registry_read_rows(s, buf_text(&sql), params, 2, a, out, n, f);
}

/*
 * Inside a transaction, after the row was locked: is the worker still alive on record, and was it
 * not heard from meanwhile? The time since then is measured to the transaction's start, because the
 * wait for the lock may have been a wait for its own renewal. A clock that jumped would make that
 * time longer. It is also measured to the time of the decision: the deciding process may have been
 * stopped since, and the statement delayed, while the worker came back.
 */
static defib_err registry_still(struct store *s, int64_t id, const struct death *d, bool *yes,
                                struct failure *f)
{
	bool timed = d->unheard_ms && d->clock_us;
	struct store_param params[] = {P_INT(id), P_INT(d->stamp_us), P_INT(d->unheard_ms),
	                               P_INT(timed ? d->clock_us - d->unheard_ms * 1000 : 0)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	*yes = false;
	defib_err err = dialect_exec(
		s,
		"SELECT {us {now_transaction}} FROM defib.worker WHERE id = $1 AND state = 'alive' AND "
		"($2::bigint = 0 OR {us renewed_at} = $2) AND "
		"($3 = 0 OR renewed_at < {now_transaction} - {span_ms $3}) AND "
		"($4::bigint = 0 OR {us renewed_at} < $4)",
		params, 4, &a, &rows, f);
	if (!err && rows.nrows > 0) {
		struct clocks expected = {0, d->clock_us}, is = {0, row_int(&rows, 0, 0, 0)};
		*yes = !d->clock_us || !absence_jump_us(&expected, &is);
	}
	return err;
}

static defib_err write_dead(struct store *s, int64_t id, const char *cause, int64_t ago_us,
                            struct failure *f)
{
	struct store_param params[] = {P_INT(id), P_TEXT(cause), P_INT(ago_us)};
	return dialect_exec(
		s,
		"UPDATE defib.worker SET state = 'dead', ended_at = CASE WHEN $3::bigint < 0 THEN "
		"renewed_at ELSE {now} - {span $3} END, cause = $2 WHERE id = $1",
		params, 3, NULL, NULL, f);
}

defib_err registry_declare_dead(struct store *s, int64_t id, const struct death *death, bool *won,
                                struct failure *f)
{
	struct store_param param = P_INT(id);
	bool found, yes = false;
	*won = false;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	/* Waits for the lock: its own last renewal may be under way, and an exit is seen only once. */
	if (store_dialect(s)->has_row_locks)
		err = one(s, "SELECT id FROM defib.worker WHERE id = $1 FOR UPDATE", &param, 1, &found,
		          NULL, f);
	if (!err)
		err = registry_still(s, id, death, &yes, f);
	if (!err && yes)
		err = write_dead(s, id, death->cause, death->ago_us, f);
	if (!err && yes) {
		err = store_commit(s, f);
		*won = !err;
		return err;
	}
	store_rollback(s);
	return err;
}

void registry_announce_death(struct store *s)
{
	bool notified;
	struct failure unheard = {0};
	/* Where it is not heard, they find out by their next look. */
	if (store_dialect(s)->can_notify)
		(void)!one(s, "SELECT pg_notify('" REGISTERED_CHANNEL "', 'dead')", NULL, 0, &notified,
		           NULL, &unheard);
}

defib_err registry_hold_lock(struct store *s, int64_t id, bool *held, struct failure *f)
{
	struct store_param params[] = {P_INT(REGISTRY_LOCK_CLASS), P_INT(worker_nonce(id))};
	int64_t unused;
	*held = true;
	if (!store_has_session_locks(s))
		return DEFIB_OK;
	/*
	 * A session on a standby ends with its first write, even if the standby is promoted meanwhile,
	 * and others would take that for the end of its worker.
	 */
	return one(s,
	           "SELECT 1 WHERE CASE WHEN pg_is_in_recovery() THEN false "
	           "ELSE pg_try_advisory_lock_shared($1::integer, $2::integer) END",
	           params, 2, held, &unused, f);
}

defib_err registry_listen(struct store *s, struct failure *f)
{
	defib_err err = DEFIB_OK;
	if (store_can_notify(s))
		err = store_exec(s, "LISTEN " REGISTERED_CHANNEL, NULL, 0, NULL, NULL, f);
	return err;
}

/*
 * Any role that can connect may take such locks. Those of roles that cannot register a worker do
 * not count: who held a live worker's lock and let it go would have it declared dead. The locks of
 * the frequent readers only make others read less often. -1 among the nonces: one of these two
 * is ours.
 */
static const char locks_sql[] =
	"SELECT l.objid::bigint FROM pg_locks l CROSS JOIN LATERAL pg_stat_get_activity(l.pid) s "
	"WHERE l.locktype = 'advisory' AND l.classid = $1::bigint::oid AND l.objsubid = 2 AND "
	"l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
	"AND has_table_privilege(s.usesysid, 'defib.worker', 'INSERT')";
static const char lead_sql[] =
	" UNION ALL SELECT -1 WHERE CASE WHEN pg_try_advisory_lock($2::integer, 0) THEN true "
	"ELSE pg_try_advisory_lock($2::integer, 1) END";

defib_err registry_locks_held(struct store *s, struct arena *a, int64_t **nonces, int *n,
                              bool *leads, struct failure *f)
{
	struct store_param params[] = {P_INT(REGISTRY_LOCK_CLASS), P_INT(REGISTRY_LEADER_LOCK)};
	struct store_rows rows;
	bool ask = !*leads;
	assert(store_has_session_locks(s));
	defib_err err = store_exec(s, arena_printf(a, "%s%s", locks_sql, ask ? lead_sql : ""), params,
	                           ask ? 2 : 1, a, &rows, f);
	if (err)
		return err;
	*n = 0;
	*nonces = ARENA_ARRAY(a, int64_t, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++) {
		int64_t nonce = row_int(&rows, i, 0, 0);
		*leads = *leads || nonce < 0;
		if (nonce >= 0)
			(*nonces)[(*n)++] = nonce;
	}
	return DEFIB_OK;
}

defib_err registry_left_jobs(struct store *s, bool *any, struct failure *f)
{
	return one(
		s,
		"SELECT 1 FROM defib.job j WHERE (j.state = 'running' OR j.state = 'cancelling') AND "
		"NOT EXISTS (SELECT 1 FROM defib.worker w WHERE w.id = j.owner AND "
		"w.state = 'alive') LIMIT 1",
		NULL, 0, any, NULL, f);
}

defib_err registry_database(struct store *s, struct arena *a, const char **id, struct failure *f)
{
	struct store_rows rows;
	defib_err err = dialect_exec(s, "SELECT value FROM defib.meta WHERE name = 'database'", NULL, 0,
	                             a, &rows, f);
	*id = !err && row_text(&rows, 0, 0) ? row_text(&rows, 0, 0) : "";
	return err;
}
