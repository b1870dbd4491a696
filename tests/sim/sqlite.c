/* SPDX-License-Identifier: Apache-2.0
 * sqlite.c: the real statements, on SQLite in memory. What the model has executed is executed here
 * by the code that workers use (life/registry.c, worker/source_queue.c, recover/scan.c). Results
 * and rows must equal those of the model, statement by statement: so what the simulator finds out
 * about the model holds for the SQL.
 *
 * All sessions are one, because one statement is executed at a time. A VFS makes SQLite's clock the
 * simulated one. Which ends a table refuses is simulated: they are not sent.
 */
#include "sim.h"

#include "ledger/schema.h"
#include "life/registry.h"
#include "recover/scan.h"
#include "worker/queue.h"
#include "worker/source.h"
#include "worker/source_queue.h"

#include <sqlite3.h>

#define JULIAN_1970_MS INT64_C(210866760000000) /* of the Julian day 2440587.5 */

static struct {
	sqlite3_vfs vfs;
	const struct sim *sim; /* whose clock it shows */
	sqlite3 *db;
	struct session session;
	struct source *sources[POOLS];
	struct arena arena; /* of the watch and the scanner */
	struct scan_options scan;
	struct scanner *scanner;
	sqlite3 *fresh, *copies[COPIES]; /* without rows; the copies of standbys */
	sqlite3_int64 changes;           /* when rows were last compared */
} lite;

/* As NOW_MS of store/dialect_sqlite.c computes it, which sometimes loses a millisecond. */
int64_t sqlite_clock_us(int64_t us)
{
	int64_t ms = us / 1000 + JULIAN_1970_MS;
	double days = (double)ms / 86400000.0;
	return (int64_t)((days - 2440587.5) * 86400000) * 1000;
}

static int show_clock(sqlite3_vfs *vfs, sqlite3_int64 *ms)
{
	const struct sim *s = lite.sim;
	(void)vfs;
	*ms = (s ? s->now + s->clock_us + 1700000000 * SECOND : 0) / 1000 + JULIAN_1970_MS;
	return SQLITE_OK;
}

static void differ(struct sim *s, const char *what)
{
	broken(s, what);
}

static void must(defib_err err, const struct failure *f)
{
	if (err) {
		(void)fprintf(stderr, "simulator: SQLite: %s\n", f->what);
		abort();
	}
}

static void must_sql(int rc, const char *what)
{
	if (rc != SQLITE_OK) {
		(void)fprintf(stderr, "simulator: SQLite: %s: %s\n", what, sqlite3_errmsg(lite.db));
		abort();
	}
}

/* ---- the whole database, copied ---- */

static void copy_all(sqlite3 *from, sqlite3 *to)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	must_sql(b ? SQLITE_OK : sqlite3_errcode(to), "a copy");
	(void)sqlite3_backup_step(b, -1);
	must_sql(sqlite3_backup_finish(b), "a copy");
}

void sqlite_keep(struct sim *s, int copy)
{
	if (s->store == KEEP_SQLITE && s->mean_us[FAULT_fail_over])
		copy_all(lite.db, lite.copies[copy]);
}

/* Ids of workers continue where the model's do: PostgreSQL assigns them by timeline. */
void sqlite_restore(struct sim *s, int copy)
{
	char sql[160];
	if (s->store != KEEP_SQLITE)
		return;
	copy_all(lite.copies[copy], lite.db);
	int64_t last = s->db.ids + IDS_A_TIMELINE * (s->timeline - 1);
	(void)snprintf(sql, sizeof sql,
	               "DELETE FROM sqlite_sequence WHERE name = 'defib_worker';"
	               "INSERT INTO sqlite_sequence VALUES ('defib_worker', %lld)",
	               (long long)last);
	must_sql(sqlite3_exec(lite.db, sql, NULL, NULL, NULL), sql);
	sqlite_compare(s);
}

/* ---- a session ---- */

static int know_handle(sqlite3 *db, char **error, const void *api)
{
	(void)error;
	(void)api;
	lite.db = db;
	return SQLITE_OK;
}

static void open_session(void)
{
	struct failure f = {0};
	lite.vfs = *sqlite3_vfs_find(NULL);
	lite.vfs.zName = "simulated";
	lite.vfs.xCurrentTimeInt64 = show_clock;
	(void)sqlite3_vfs_register(&lite.vfs, 1);
	(void)sqlite3_auto_extension((void (*)(void))know_handle);
	lite.session = (struct session){.options = {.url = "sqlite::memory:"}, .open = store_open};
	must(session_ready(&lite.session, &f), &f);
	must(schema_install(lite.session.store, SCHEMA_QUEUE, &f), &f);
	sqlite3 *db = lite.db;
	for (int i = 0; i < COPIES; i++)
		must_sql(sqlite3_open(":memory:", &lite.copies[i]), "a copy");
	must_sql(sqlite3_open(":memory:", &lite.fresh), "a copy");
	lite.db = db;
	copy_all(lite.db, lite.fresh);
	for (int i = 0; i < POOLS; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "q%d", i);
		lite.sources[i] = source_queue(name, NULL);
	}
	struct watch *w = builtin_watch(STORE_SQLITE, &lite.arena);
	w->crash_budget.max =
		INT32_MAX; /* a job that is lost often is still recovered: runs must end */
	lite.scan = (struct scan_options){.fix = true, .actor = "worker", .dead_only = true};
	lite.scanner = scanner_new(&lite.session, w, &lite.scan);
}

void sqlite_begin(struct sim *s)
{
	if (s->store != KEEP_SQLITE)
		return;
	lite.sim = s;
	if (!lite.db)
		open_session();
	copy_all(lite.fresh, lite.db);
	lite.changes = sqlite3_total_changes64(lite.db);
}

/* ---- rows ---- */

static const char *state_of(const struct row *r)
{
	if (r->state == ROW_READY)
		return "queued";
	if (r->state == ROW_RUNNING)
		return r->cancel ? "cancelling" : "running";
	return r->cancel ? "cancelled" : "done";
}

static const struct row *job_row(const struct sim *s, int64_t id)
{
	for (int i = 0; i < JOBS; i++)
		if (s->db.jobs[i].state != ROW_NONE && s->db.jobs[i].id == id)
			return &s->db.jobs[i];
	return NULL;
}

static bool same_job(struct sim *s, const struct store_rows *rows, int i)
{
	static const char *const causes[] = {"", "error", "lost"};
	const struct row *r = job_row(s, row_int(rows, i, 0, 0));
	bool same = r && text_eq(row_text(rows, i, 1), state_of(r)) &&
	            row_int(rows, i, 2, 0) == (r->state == ROW_RUNNING ? r->owner : 0) &&
	            row_int(rows, i, 3, -1) == r->epoch && row_int(rows, i, 4, -1) == r->attempts &&
	            row_int(rows, i, 5, -1) == r->crashes &&
	            text_eq(row_text(rows, i, 6), causes[r->cause]);
	if (!same)
		say(s, "SQLite: job %s, %s, owner %s, epoch %s, attempts %s, crashes %s, cause %s",
		    row_text(rows, i, 0), row_text(rows, i, 1), row_text(rows, i, 2), row_text(rows, i, 3),
		    row_text(rows, i, 4), row_text(rows, i, 5), row_text(rows, i, 6));
	if (!same && r)
		say(s, "model:  job %d, %s, owner %lld, epoch %lld, attempts %lld, crashes %lld, cause %s",
		    (int)(r - s->db.jobs), state_of(r), (long long)r->owner, (long long)r->epoch,
		    (long long)r->attempts, (long long)r->crashes, causes[r->cause]);
	return same;
}

static bool same_worker(struct sim *s, const struct store_rows *rows, int i)
{
	const struct member *m = member_of(s, row_int(rows, i, 0, 0));
	bool same = m && row_bool(rows, i, 1) == m->alive && row_int(rows, i, 2, 0) == m->stamp_us;
	if (!same)
		say(s, "SQLite: worker %s, %s, renewed at %s; model: %s at %lld", row_text(rows, i, 0),
		    row_bool(rows, i, 1) ? "alive" : "not alive", row_text(rows, i, 2),
		    !m         ? "none"
		    : m->alive ? "alive"
		               : "not alive",
		    m ? (long long)m->stamp_us : 0);
	return same;
}

void sqlite_compare(struct sim *s)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};
	int njobs = 0;
	if (s->store != KEEP_SQLITE)
		return;
	must(store_exec(lite.session.store,
	                "SELECT id, state, coalesce(owner, 0), epoch, attempts, crashes, "
	                "coalesce(cause, '') FROM defib_job ORDER BY id",
	                NULL, 0, &a, &rows, &f),
	     &f);
	for (int i = 0; i < JOBS; i++)
		njobs += s->db.jobs[i].state != ROW_NONE;
	bool same = rows.nrows == njobs;
	for (int i = 0; i < rows.nrows && same; i++)
		same = same_job(s, &rows, i);
	if (!same)
		differ(s, "SQLite has other jobs than the model");
	must(store_exec(lite.session.store,
	                "SELECT id, state = 'alive', renewed_at * 1000 FROM defib_worker ORDER BY id",
	                NULL, 0, &a, &rows, &f),
	     &f);
	same = rows.nrows == s->db.nworkers;
	for (int i = 0; i < rows.nrows && same; i++)
		same = same_worker(s, &rows, i);
	if (!same)
		differ(s, "SQLite has other workers than the model");
	lite.changes = sqlite3_total_changes64(lite.db);
}

/* ---- life ---- */

static void do_register(struct sim *s, const struct call *c)
{
	struct incarnation who = who_of(c->host, c->pid, c->nonce);
	struct failure f = {0};
	int64_t id = 0;
	must(registry_register(lite.session.store, "worker", &who, s->lease_ms, "queue", &id, &f), &f);
	/* A new one has a nonce that was drawn, and takes the id that the model gave. */
	struct store_param ids[] = {P_INT(c->worker), P_INT(id)};
	if (id >= WORKER_NONCES)
		must(store_exec(lite.session.store, "UPDATE defib_worker SET id = $1 WHERE id = $2", ids, 2,
		                NULL, NULL, &f),
		     &f);
	else if (id != c->worker)
		differ(s, "SQLite gave a worker another id than the model");
}

static void do_renew(struct sim *s, const struct call *c)
{
	struct incarnation who = who_of(c->host, c->pid, c->nonce);
	struct failure f = {0};
	int64_t owned = 0;
	defib_err err =
		registry_renew(lite.session.store, c->worker, &who, c->holding, NULL, &owned, &f);
	bool refused = err == DEFIB_LEASE_LOST;
	must(refused ? DEFIB_OK : err, &f);
	if (refused != c->refused || (!refused && owned != c->owned))
		differ(s, "SQLite answered a renewal otherwise than the model");
	/* It changes only the stamp, which is compared with the next write. */
	lite.changes += !refused;
}

static bool is_same(const struct incarnation *a, const struct incarnation *b)
{
	char texts[2][256];
	incarnation_text(a, texts[0], sizeof texts[0]);
	incarnation_text(b, texts[1], sizeof texts[1]);
	return text_eq(texts[0], texts[1]);
}

static void do_look(struct sim *s, const struct call *c)
{
	AUTO_ARENA a = ARENA_INIT;
	struct registered *rows = NULL;
	struct failure f = {0};
	struct store *store = lite.session.store;
	int n = 0;
	must(c->action.whole ? registry_alive(store, &a, &rows, &n, &f)
	                     : registry_near(store, c->worker, PART_SIDE, &a, &rows, &n, &f),
	     &f);
	bool same = n == c->n;
	for (int i = 0; i < n && same; i++) {
		const struct registered *x = &rows[i], *y = &c->rows[i];
		same = x->id == y->id && x->expired == y->expired && x->lease_us == y->lease_us &&
		       x->stamp_us == y->stamp_us && x->now_us == y->now_us && is_same(&x->who, &y->who);
	}
	for (int i = 0; !same && i < n + c->n; i++) {
		const struct registered *x = i < n ? &rows[i] : &c->rows[i - n];
		say(s, "%s lists worker %lld, renewed at %lld, now %lld%s", i < n ? "SQLite" : "model",
		    (long long)x->id, (long long)x->stamp_us, (long long)x->now_us,
		    x->expired ? ", expired" : "");
	}
	if (!same)
		differ(s, "SQLite listed other workers than the model");
}

static void do_declare(struct sim *s, const struct call *c)
{
	struct failure f = {0};
	bool won = false;
	must(registry_declare_dead(lite.session.store, c->action.worker, &c->action.death, &won, &f),
	     &f);
	if (won != c->yes)
		differ(s, "SQLite answered a declaration of death otherwise than the model");
}

static void do_left(struct sim *s, const struct call *c)
{
	struct failure f = {0};
	bool any = false;
	must(registry_left_jobs(lite.session.store, &any, &f), &f);
	if (any != c->yes)
		differ(s, "SQLite found jobs of nobody otherwise than the model");
}

/* Locks belong to the simulated server: SQLite has none. */
static void do_life(struct sim *s, const struct call *c)
{
	switch (c->action.what) {
	case LIFE_REGISTER:
		do_register(s, c);
		break;
	case LIFE_RENEW:
		do_renew(s, c);
		break;
	case LIFE_LOOK:
		do_look(s, c);
		break;
	case LIFE_DECLARE:
		do_declare(s, c);
		break;
	case LIFE_LEFT:
		do_left(s, c);
		break;
	default:
		break;
	}
}

/* ---- turns ---- */

/* Its id stays the same while it exists. A job that a failover lost has none. */
static struct settlement settlement_of(const struct sim *s, struct arena *a, const struct end *e)
{
	return (struct settlement){.key = arena_printf(a, "%lld", (long long)s->db.jobs[e->job].id),
	                           .epoch = e->epoch,
	                           .as = e->as};
}

/* Refused ends were not sent. */
static int settlements(const struct sim *s, struct arena *a, const struct call *c,
                       struct settlement *out, bool *accepted)
{
	int n = 0;
	for (int i = 0; i < c->nends && !c->undrained; i++)
		if (!c->ends[i].refused) {
			accepted[n] = c->ends[i].accepted;
			out[n++] = settlement_of(s, a, &c->ends[i]);
		}
	return n;
}

static bool names(const struct sim *s, const struct settlement *all, int n, int pool,
                  const struct end *named, int nnamed)
{
	int found = 0;
	for (int i = 0; i < n; i++) {
		const struct row *r = job_row(s, strtoll(all[i].key, NULL, 10));
		int job = r ? (int)(r - s->db.jobs) : -1;
		/* Queues share a table, and their workers' jobs; the pools of the simulation do not. */
		if (r && job % POOLS != pool)
			continue;
		bool there = false;
		for (int k = 0; k < nnamed; k++)
			there = there || (named[k].job == job && named[k].epoch == all[i].epoch);
		if (!there)
			return false;
		found++;
	}
	return found == nnamed;
}

static bool claims_same(const struct sim *s, const struct turn_part *p, const struct call *c)
{
	bool same = p->nclaims == c->nclaims;
	for (int i = 0; i < p->nclaims && same; i++) {
		const struct row *r = &s->db.jobs[c->claims[i].job];
		same = strtoll(p->claims[i].key, NULL, 10) == r->id &&
		       p->claims[i].epoch == c->claims[i].epoch &&
		       p->claims[i].alone == c->claims[i].alone && p->claims[i].attempt == r->attempts;
	}
	return same;
}

/* A failed job becomes ready after its wait, which is 0 here. */
static void promote(int pool)
{
	struct failure f = {0};
	struct source *src = lite.sources[pool];
	must(src->ops->promote(src, lite.session.store, &f), &f);
}

/* One by one, because each may belong to another worker. */
static void settle_spooled(struct sim *s, const struct call *c, bool aside)
{
	for (int i = 0; i < c->nspool; i++) {
		AUTO_ARENA a = ARENA_INIT;
		struct failure f = {0};
		const struct end *e = &c->spool[i];
		struct source *src = lite.sources[e->job % POOLS];
		struct settlement one = settlement_of(s, &a, e);
		if (e->aside != aside || e->refused)
			continue;
		must(src->ops->settle(src, lite.session.store, e->worker, &one, 1, &a, &f), &f);
		promote(e->job % POOLS);
		if (one.accepted != e->accepted)
			differ(s, "SQLite took an end of the spool otherwise than the model");
	}
}

static void do_part(struct sim *s, const struct call *c)
{
	AUTO_ARENA a = ARENA_INIT;
	struct settlement ends[SPOOL_MOST];
	bool accepted[SPOOL_MOST] = {0};
	if (c->drain && !c->undrained)
		settle_spooled(s, c, false);
	struct turn_part p = {.pool = c->pool,
	                      .worker = c->nends > 0 ? c->ends[0].worker : 0,
	                      .ends = ends,
	                      .nends = settlements(s, &a, c, ends, accepted),
	                      .claimer = c->claimer,
	                      .room = c->room,
	                      .promote = true,
	                      .cancels = c->cancels,
	                      .compares = c->compares};
	must(source_turn(lite.sources[c->pool], lite.session.store, &p, &a), &p.f);
	for (int i = 0; i < p.nends; i++)
		if (ends[i].accepted != accepted[i])
			differ(s, "SQLite took an end otherwise than the model");
	if (p.gone != c->gone)
		differ(s, "SQLite says otherwise than the model whether a claimer is alive");
	else if (!claims_same(s, &p, c))
		differ(s, "SQLite gave other claims than the model");
	else if (!names(s, p.cancelling, p.ncancelling, c->pool, c->cancelling, c->ncancelling))
		differ(s, "SQLite named other jobs to stop than the model");
	else if (!names(s, p.has, p.nhas, c->pool, c->has, c->nhas))
		differ(s, "SQLite named other jobs of a worker than the model");
	promote(c->pool);
}

/* The scan of recover/scan.c, without the sweeper's guard. */
static void do_recover(const struct call *c)
{
	char owner[32];
	struct scan_result result;
	(void)snprintf(owner, sizeof owner, "%lld", (long long)c->dead);
	lite.scan.owner = c->dead ? owner : NULL;
	lite.scan.mass = c->mass;
	must(scanner_pass(lite.scanner, &result), &result.failure);
	lite.scan.owner = NULL;
}

void sqlite_execute(struct sim *s, struct call *c)
{
	model_execute(s, c);
	if (c->failed || s->broken)
		return;
	if (c->kind == CALL_LIFE)
		do_life(s, c);
	else if (c->kind == CALL_PART)
		do_part(s, c);
	else if (c->kind == CALL_ASIDE)
		settle_spooled(s, c, true);
	else if (c->kind == CALL_RECOVER)
		do_recover(c);
	if (sqlite3_total_changes64(lite.db) != lite.changes)
		sqlite_compare(s);
}

/* ---- statements outside the sessions of workers ---- */

void sqlite_cancel(struct sim *s, int job)
{
	struct failure f = {0};
	char state[16];
	if (s->store != KEEP_SQLITE || s->db.jobs[job].state == ROW_NONE)
		return;
	must(cancel_job(lite.session.store, s->db.jobs[job].id, state, &f), &f);
	sqlite_compare(s);
}

/* A key is free again when its job has ended: the simulated client knows what was acknowledged. */
void sqlite_enqueue(struct sim *s, int job)
{
	char queue[16], key[16];
	struct failure f = {0};
	int64_t id = 0;
	if (s->store != KEEP_SQLITE || s->db.jobs[job].state == ROW_FINAL)
		return;
	(void)snprintf(queue, sizeof queue, "q%d", job % POOLS);
	(void)snprintf(key, sizeof key, "%d", job);
	struct enqueue one = {
		.queue = queue, .kind = "job", .max_attempts = 1000000, .unique_key = key};
	must(enqueue_jobs(lite.session.store, &one, 1, &id, &f), &f);
	if (id != s->db.jobs[job].id)
		differ(s, "SQLite enqueued another job than the model");
	sqlite_compare(s);
}

void sqlite_leave(struct sim *s, const struct process *p)
{
	struct incarnation who = who_of(p->host, p->pid, p->nonce);
	struct failure f = {0};
	if (s->store != KEEP_SQLITE)
		return;
	must(registry_leave(lite.session.store, p->worker, &who, &f), &f);
	sqlite_compare(s);
}
