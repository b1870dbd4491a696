/* readings.c: see readings.h. */
#include "daemon/readings.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "daemon/watch_loop.h"
#include "insight/runs.h"
#include "ledger/counts.h"
#include "life/attendance.h"
#include "watch/depth_sql.h"

#define BUDGET_MS 250            /* of a round: leadership waits behind it */
#define SHARE 100                /* what took t is not asked again for so many t */
#define RUNS_MAX 5000            /* that one reading takes, the newest */
#define AHEAD_US (60 * US_PER_S) /* ends further in the future are no ends */
#define ENDED_US (60 * US_PER_S) /* workers whose end is shown */
#define WORKERS_MAX 200

void reading_release(struct reading *r)
{
	for (int i = 0; i < r->nkinds; i++)
		free(r->kinds[i]);
}

void readings_release(struct readings *r)
{
	free(r->workers);
}

static bool leads_any(struct watch_loop **posts, int n)
{
	for (int i = 0; i < n; i++)
		if (posts[i]->leads)
			return true;
	return false;
}

/* ---- one watch */

static defib_err read_depth(struct watch_loop *p, const struct binding *b, struct store *s,
                            struct arena *a, struct failure *f)
{
	const struct watch_metrics *m = &p->meter;
	struct depth_state states[DEPTH_STATES_MAX];
	int n = depth_states(p->watch, states);
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		const char *const *labels = LABELS(m->watch, m->database, states[i].name);
		struct buf sql = BUF_INIT;
		struct store_rows rows;
		depth_sql(b, &states[i], &sql);
		err = store_begin(s, TX_READ, f);
		if (!err) {
			err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
			store_rollback(s); /* nothing was written */
		}
		buf_release(&sql);
		if (err)
			return err;
		metrics_set(m->metrics, METRIC_QUEUE, (double)row_int(&rows, 0, 0, 0), labels);
		if (row_text(&rows, 0, 1) || row_int(&rows, 0, 0, 0) == 0)
			metrics_set(m->metrics, METRIC_QUEUE_OLDEST, (double)row_int(&rows, 0, 1, 0) / 1e6,
			            labels);
		else
			metrics_drop(m->metrics, METRIC_QUEUE_OLDEST, labels);
	}
	return err;
}

/* The kind as a label: the first few by their names, so that series stay bounded. */
static const char *kind_label(struct reading *r, const char *kind)
{
	if (!kind)
		return "";
	for (int i = 0; i < r->nkinds; i++)
		if (text_eq(r->kinds[i], kind))
			return kind;
	if (r->nkinds == READINGS_KINDS_MAX)
		return "other";
	r->kinds[r->nkinds++] = mem_strdup(kind);
	return kind;
}

static defib_err read_runs(struct watch_loop *p, const struct binding *b, struct store *s,
                           struct arena *a, struct failure *f)
{
	const struct watch_metrics *m = &p->meter;
	struct reading *r = &p->reading;
	struct run *runs = NULL;
	int64_t now = 0, last = 0;
	int n = 0;
	bool more;
	if (!runs_known(p->watch))
		return DEFIB_OK;
	defib_err err = runs_now(s, &now, f);
	/* What ended before we looked for the first time is nobody's rate. */
	if (!err && !r->runs_us)
		r->runs_us = now;
	if (!err)
		err = runs_read(s, b, r->runs_us, now + AHEAD_US, RUNS_MAX, a, &runs, &n, &last, &more, f);
	for (int i = 0; !err && i < n; i++)
		metrics_observe(m->metrics, METRIC_JOB, (double)runs[i].took_us / 1e6,
		                LABELS(m->watch, m->database, kind_label(r, runs[i].kind)));
	if (!err)
		r->runs_us = last;
	return err;
}

static void count_failure(struct metrics *m, const char *watch, const char *database,
                          const struct failure *f)
{
	metrics_add(m, METRIC_READ_FAILURES, 1, LABELS(watch, database));
	log_event(LOG_DEBUG, "a reading failed", LOG_STR("watch", watch), LOG_STR("database", database),
	          LOG_STR("because", f->what));
}

static void read_watch(struct watch_loop *p, const struct binding *b, struct store *s)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	const struct watch_metrics *m = &p->meter;
	int64_t start = clock_boot_ms();
	defib_err err = read_depth(p, b, s, &a, &f);
	if (!err)
		err = read_runs(p, b, s, &a, &f);
	if (err)
		count_failure(m->metrics, m->watch, m->database, &f);
	else
		metrics_set(m->metrics, METRIC_READ, (double)clock_wall_us() / 1e6,
		            LABELS(m->watch, m->database));
	arena_release(&a);
	int64_t now = clock_boot_ms(), rest = (now - start) * SHARE;
	p->reading.due_ms = now + (rest > READINGS_MS ? rest : READINGS_MS);
}

/* ---- the database as a whole */

void readings_begin(struct readings *r, struct watch_loop **posts, int n)
{
	/* What another leader counted meanwhile is not ours. */
	if (!leads_any(posts, n))
		r->begun = r->listed = r->kept_read = false;
	if (r->begun || !leads_any(posts, n))
		return;
	r->begun = true;
	r->due_ms = clock_boot_ms();
}

void readings_renew(struct readings *r, struct watch_loop **posts, int n)
{
	r->due_ms = 0;
	for (int i = 0; i < n; i++)
		posts[i]->reading.due_ms = 0;
}

/* What is kept and what was removed, whoever did it: the rounds leave it in the database. */
static defib_err read_kept(struct readings *r, struct store *s, struct metrics *m,
                           const char *database, struct failure *f)
{
	struct retention_state state;
	defib_err err = retention_read(s, &state, f);
	for (int i = 0; !err && i < RETENTION_COUNT; i++) {
		const struct retention_kept *k = &state.kept[i];
		const char *const *labels = LABELS(database, retention_names[i]);
		if (k->rows < 0)
			continue;
		metrics_set(m, METRIC_KEPT, (double)k->rows, labels);
		if (k->oldest_us >= 0)
			metrics_set(m, METRIC_KEPT_OLDEST, (double)k->oldest_us / 1e6, labels);
		else
			metrics_drop(m, METRIC_KEPT_OLDEST, labels);
		metrics_add(m, METRIC_PRUNED, r->kept_read ? (double)(k->removed - r->removed[i]) : 0,
		            labels);
		r->removed[i] = k->removed;
	}
	r->kept_read = r->kept_read || (!err && state.known);
	return err;
}

/* Holds and pending retries of every watch that we lead. */
static defib_err read_waiting(struct store *s, struct watch_loop **posts, int n, struct arena *a,
                              struct failure *f)
{
	struct waiting *all = NULL;
	int nall = 0;
	bool any = false;
	for (int i = 0; i < n; i++)
		any = any || (posts[i]->leads && posts[i]->last.ledger);
	defib_err err = any ? ledger_waiting_all(s, a, &all, &nall, f) : DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		const struct watch_metrics *m = &posts[i]->meter;
		const char *const *labels = LABELS(m->watch, m->database);
		struct waiting own = {0};
		if (!posts[i]->leads || !posts[i]->last.ledger)
			continue;
		for (int k = 0; k < nall; k++)
			if (text_eq(all[k].watch, posts[i]->watch->name))
				own = all[k];
		metrics_set(m->metrics, METRIC_ON_HOLD, (double)own.held, labels);
		metrics_set(m->metrics, METRIC_RETRIES_PENDING, (double)own.retries, labels);
	}
	return err;
}

static void read_database(struct readings *r, struct session *own, struct metrics *m,
                          const char *database, struct watch_loop **posts, int n)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct attendant *rows;
	int nrows = 0;
	defib_err err = attendance_read(own->store, ENDED_US, WORKERS_MAX, &a, &rows, &nrows, &f);
	if (!err)
		readings_workers(r, rows, nrows, m, database, posts, n);
	if (!err)
		err = read_kept(r, own->store, m, database, &f);
	if (!err)
		err = read_waiting(own->store, posts, n, &a, &f);
	if (err)
		count_failure(m, "", database, &f);
	arena_release(&a);
}

/* Watches whose turn it is, for as long as a round can spare; true: all had it. */
static bool read_watches(struct readings *r, struct session *own, struct watch_loop **posts, int n)
{
	int64_t start = clock_boot_ms();
	struct failure f = {0};
	for (int i = 0; i < n; i++) {
		struct watch_loop *p = posts[(r->next + i) % n];
		/* What its passes have asked of the database need not be asked again. */
		const struct binding *b = p->scanner ? scanner_binding(p->scanner) : NULL;
		if (!p->leads || !b || clock_boot_ms() < p->reading.due_ms)
			continue;
		if (session_ready(own, &f))
			return true; /* the database loop will see it too */
		if (clock_boot_ms() - start > BUDGET_MS) {
			r->next = (r->next + i) % n;
			return false;
		}
		read_watch(p, b, own->store);
	}
	return true;
}

void readings_take(struct readings *r, const struct session *session, struct metrics *m,
                   const char *database, struct watch_loop **posts, int n)
{
	struct failure f = {0};
	if (!m || !r->begun || clock_boot_ms() < r->due_ms)
		return;
	struct session own = learning_session(session);
	if (session_ready(&own, &f)) {
		count_failure(m, "", database, &f);
		r->due_ms = clock_boot_ms() + READINGS_MS;
		return;
	}
	read_database(r, &own, m, database, posts, n);
	bool all = read_watches(r, &own, posts, n);
	session_close(&own);
	r->due_ms = all ? clock_boot_ms() + READINGS_MS : clock_boot_ms();
}
