/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/queue.h"

#include "ledger/events.h"
#include "recover/browse.h"
#include "store/dialect.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a batch needs: most jobs use only the tables' defaults, and cost no more than that. */
enum batch { BATCH_PLAIN, BATCH_FULL, BATCH_UNIQUE };

static enum batch batch_of(const struct enqueue *jobs, int n)
{
	enum batch is = BATCH_PLAIN;
	for (int i = 0; i < n; i++) {
		if (jobs[i].unique_key)
			return BATCH_UNIQUE;
		if (jobs[i].delay_ms || jobs[i].priority || jobs[i].max_attempts || jobs[i].timeout_ms ||
		    jobs[i].tags)
			is = BATCH_FULL;
	}
	return is;
}

static void relation_more(struct relation *r, const struct enqueue *j)
{
	relation_int(r, j->delay_ms);
	relation_int(r, j->priority);
	relation_int(r, j->max_attempts ? j->max_attempts : 5);
	relation_number(r, j->timeout_ms != 0, j->timeout_ms);
	relation_text(r, j->unique_key);
	relation_text(r, j->tags);
}

static void jobs_relation(struct relation *r, enum store_engine engine, enum batch is,
                          const struct enqueue *jobs, int n)
{
	static const char *const plain[] = {"at",   "bigint",  "queue", "text", "kind",
	                                    "text", "payload", "jsonb", NULL};
	static const char *const full[] = {
		"at",         "bigint",   "queue",      "text",     "kind",    "text",         "payload",
		"jsonb",      "delay_ms", "bigint",     "priority", "integer", "max_attempts", "integer",
		"timeout_ms", "integer",  "unique_key", "text",     "tags",    "jsonb",        NULL};
	relation_make(r, engine, is == BATCH_PLAIN ? plain : full);
	for (int i = 0; i < n; i++) {
		relation_int(r, i);
		relation_text(r, jobs[i].queue);
		relation_text(r, jobs[i].kind);
		relation_text(r, jobs[i].payload);
		if (is != BATCH_PLAIN)
			relation_more(r, &jobs[i]);
		relation_end_row(r);
	}
}

/*
 * Ids are drawn first, so that both tables agree. The sequence is looked up once, in a subquery,
 * not for every row.
 */
#define DRAW_IDS                                                                                   \
	"WITH u AS MATERIALIZED (SELECT nextval((SELECT pg_get_serial_sequence('defib.job', "          \
	"'id')::regclass)) AS id, g.* FROM ("
#define TAGS "CASE WHEN u.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.tags)) END"

/* Around the SELECT of the batch. */
static const struct {
	const char *before, *after;
} inserts[] = {
	[BATCH_PLAIN] = {DRAW_IDS,
                     ") AS g ORDER BY g.at), j AS (INSERT INTO defib.job (id, queue, kind) SELECT "
                     "u.id, u.queue, u.kind FROM u), d AS (INSERT INTO defib.job_data (job, "
                     "payload) SELECT u.id, u.payload FROM u WHERE u.payload IS NOT NULL) "
                     "SELECT u.at, u.id FROM u"},
	[BATCH_FULL] = {DRAW_IDS,
                    ") AS g ORDER BY g.at), j AS (INSERT INTO defib.job (id, queue, kind, state, "
                    "run_at, priority, max_attempts, timeout_ms) SELECT u.id, u.queue, u.kind, "
                    "CASE WHEN u.delay_ms > 0 THEN 'scheduled' ELSE 'queued' END, "
                    "clock_timestamp() + u.delay_ms * interval '1 millisecond', u.priority, "
                    "u.max_attempts, u.timeout_ms FROM u), d AS (INSERT INTO defib.job_data (job, "
                    "payload, tags) SELECT u.id, u.payload, " TAGS " FROM u WHERE u.payload IS NOT "
                    "NULL OR u.tags IS NOT NULL) SELECT u.at, u.id FROM u"},
	[BATCH_UNIQUE] = {"SELECT u.at, defib.enqueue(u.queue, u.kind, u.payload, u.delay_ms, "
                      "u.priority, u.max_attempts, u.timeout_ms, u.unique_key, " TAGS ") FROM (",
                      ") AS u ORDER BY u.at"},
};

/* `wake`: also wake the workers, in the same round trip. */
static defib_err insert(struct store *s, bool wake, const char *sql,
                        const struct store_param *params, int nparams, struct arena *a,
                        struct store_rows *rows, struct failure *f)
{
	return wake ? store_exec_then(s, sql, params, nparams, wake_statement, a, rows, f)
	            : store_exec(s, sql, params, nparams, a, rows, f);
}

static defib_err insert_batch(struct store *s, enum batch is, bool wake, const struct enqueue *jobs,
                              int n, struct arena *a, int64_t *ids, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	struct store_rows rows;
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	jobs_relation(&r, s->engine, is, jobs, n);
	buf_add(&sql, inserts[is].before);
	relation_select(&r, 1, &sql);
	buf_add(&sql, inserts[is].after);
	relation_params(&r, params);
	defib_err err = insert(s, wake, buf_text(&sql), params, relation_nparams(&r), a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		ids[row_int(&rows, i, 0, 0)] = row_int(&rows, i, 1, 0);
	return err;
}

/* A job with defaults only: no list to unpack, no id to draw. */
static defib_err insert_one(struct store *s, bool wake, const struct enqueue *j, struct arena *a,
                            int64_t *id, struct failure *f)
{
	static const char bare[] = "INSERT INTO defib.job (queue, kind) VALUES ($1, $2) RETURNING id";
	static const char with_payload[] =
		"WITH u AS (INSERT INTO defib.job (queue, kind) VALUES ($1, $2) RETURNING id) INSERT INTO "
		"defib.job_data (job, payload) SELECT u.id, $3::jsonb FROM u RETURNING job";
	struct store_param params[] = {P_TEXT(j->queue), P_TEXT(j->kind), P_TEXT(j->payload)};
	struct store_rows rows;
	defib_err err =
		insert(s, wake, j->payload ? with_payload : bare, params, j->payload ? 3 : 2, a, &rows, f);
	if (!err && rows.nrows == 1)
		*id = row_int(&rows, 0, 0, 0);
	return err;
}

/* Whatever the database answered: without an id nothing was enqueued. */
static defib_err need_ids(const struct enqueue *jobs, int n, const int64_t *ids, struct failure *f)
{
	for (int i = 0; i < n; i++)
		if (ids[i] <= 0)
			return fail(f, DEFIB_DATABASE,
			            "the database gave no number to a job of kind %s in queue %s: nothing was "
			            "enqueued",
			            jobs[i].kind, jobs[i].queue);
	return DEFIB_OK;
}

/* *woke: the workers were woken with it; NULL: do not wake them. */
static defib_err put(struct store *s, const struct enqueue *jobs, int n, int64_t *ids, bool *woke,
                     struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	/* One statement is a transaction by itself; BEGIN and COMMIT are two more round trips. */
	enum batch is = batch_of(jobs, n);
	bool alone = store_dialect(s)->has_functions && is != BATCH_UNIQUE;
	bool own = !s->in_tx && !alone;
	bool wake = woke && alone;
	memset(ids, 0, (size_t)n * sizeof *ids);
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (!err && store_dialect(s)->has_functions)
		err = is == BATCH_PLAIN && n == 1 ? insert_one(s, wake, jobs, &a, ids, f)
		                                  : insert_batch(s, is, wake, jobs, n, &a, ids, f);
	for (int i = 0; !err && !store_dialect(s)->has_functions && i < n; i++)
		err = queue_statements_enqueue(s, &jobs[i], &a, &ids[i], f);
	if (!err)
		err = need_ids(jobs, n, ids, f);
	if (own)
		err = store_end(s, err, f);
	if (woke)
		*woke = wake;
	return err;
}

defib_err enqueue_jobs(struct store *s, const struct enqueue *jobs, int n, int64_t *ids,
                       struct failure *f)
{
	return put(s, jobs, n, ids, NULL, f);
}

defib_err enqueue_and_wake(struct store *s, const char *url, const struct enqueue *jobs, int n,
                           int64_t *ids, struct failure *f)
{
	bool woke = false;
	defib_err err = put(s, jobs, n, ids, &woke, f);
	if (!err && !woke)
		wake_send(s, url);
	return err;
}

defib_err cancel_job(struct store *s, int64_t id, char state[16], struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	bool own = !s->in_tx;
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (!err)
		err = queue_statements_cancel(s, id, &a, &rows, f);
	const char *text = !err && rows.nrows ? row_text(&rows, 0, 0) : NULL;
	snprintf(state, 16, "%s", text ? text : "");
	if (own)
		err = store_end(s, err, f);
	return err;
}

/* ---- cancel, by an operator ---- */

static const char *state_json(const char *state, bool with_end, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, "{\"state\":");
	buf_add_json(&out, state);
	buf_add(&out, with_end ? ",\"finished_at\":null}" : "}");
	return arena_strdup(a, buf_text(&out));
}

/* Its current state; NULL: there is no such job. */
static defib_err state_of(const struct queue_cancel *q, const char *job, struct arena *a,
                          const char **state, struct failure *f)
{
	const struct browse o = {.jobs = &job, .njobs = 1, .limit = 1};
	struct browsed *row;
	bool more;
	int n = 0;
	defib_err err = browse_jobs(q->session->store, &q->bound->sql, &q->bound->ledger, &o, a, &row,
	                            &n, &more, f);
	*state = !err && n ? row->state : NULL;
	return err;
}

/* In one transaction with its ledger entry, which is the last statement. */
static defib_err write_cancel(const struct queue_cancel *q, int64_t id, struct arena *a,
                              struct candidate *c, struct failure *f)
{
	const struct ledger_context ctx = {BUILTIN_NAME, q->batch, q->actor};
	struct store *s = q->session->store;
	char state[16];
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = cancel_job(s, id, state, f);
	c->outcome = state[0] ? OUTCOME_RECOVERED : OUTCOME_CHANGED;
	c->after = state_json(state, false, a);
	if (!err && state[0] && q->bound->ledger.ready) {
		const struct ledger_entry entry = {.job = c->facts.job,
		                                   .event = act_event(ACT_CANCEL),
		                                   .rule = RULE_BY_HAND,
		                                   .reason = q->reason ? q->reason : "by hand",
		                                   .before = c->before,
		                                   .after = c->after};
		err = ledger_append(s, &ctx, &entry, 1, a, f);
	}
	return store_end(s, err, f);
}

defib_err queue_cancel(const struct queue_cancel *q, const char *job, struct arena *a,
                       struct candidate *out, struct failure *f)
{
	static const char *const open[] = {"scheduled", "queued", "running", "held", NULL};
	const char *state = NULL;
	int64_t id;
	*out =
		(struct candidate){.facts = {.job = job}, .does = ACT_CANCEL, .outcome = OUTCOME_MISSING};
	if (!int_parse(job, &id))
		return DEFIB_OK;
	defib_err err = state_of(q, job, a, &state, f);
	if (err || !state)
		return err;
	out->before = state_json(state, true, a);
	if (word_index(open, state) < 0) {
		out->outcome = OUTCOME_REFUSED;
		out->refusal = arena_printf(a, "it is %s already", state);
		return DEFIB_OK;
	}
	out->outcome = OUTCOME_LEFT;
	return q->dry_run ? DEFIB_OK : write_cancel(q, id, a, out, f);
}

/* ---- waking workers ---- */

const char wake_statement[] = "SELECT pg_notify('defib', '')";

struct wake {
	int inotify; /* -1: the server notifies */
};

/* The file beside a database that is a file; false: it has a server. */
static bool wake_path(const char *url, struct buf *out)
{
	enum store_engine engine;
	struct failure ignored = {0};
	if (!store_engine_of(url, &engine, &ignored) || !dialect_of(engine)->is_file)
		return false;
	const char *path = strchr(url, ':') + 1;
	if (text_starts(path, "//"))
		path += 2;
	buf_addf(out, "%s.defib-wake", path);
	return true;
}

void wake_send(struct store *s, const char *url)
{
	AUTO_BUF path = BUF_INIT;
	if (wake_path(url, &path)) {
		int fd = open(buf_text(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (fd >= 0) {
			(void)futimens(fd, NULL);
			close(fd);
		}
	} else {
		AUTO_ARENA a = ARENA_INIT;
		struct failure ignored = {0};
		(void)!store_exec(s, wake_statement, NULL, 0, &a, NULL, &ignored);
	}
}

struct wake *wake_open(const char *url)
{
	struct wake *w = mem_alloc(sizeof *w);
	AUTO_BUF path = BUF_INIT;
	w->inotify = -1;
	if (wake_path(url, &path)) {
		int fd = open(buf_text(&path), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (fd >= 0)
			close(fd);
		w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (w->inotify >= 0 && inotify_add_watch(w->inotify, buf_text(&path), IN_ATTRIB) < 0) {
			close(w->inotify);
			w->inotify = -1;
		}
	}
	return w;
}

void wake_close(struct wake *w)
{
	if (!w)
		return;
	if (w->inotify >= 0)
		close(w->inotify);
	free(w);
}

void wake_listen(struct wake *w, struct store *s)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure ignored = {0};
	(void)w;
	if (store_can_notify(s))
		(void)!store_exec(s, "LISTEN defib", NULL, 0, &a, NULL, &ignored);
}

int wake_fd(struct wake *w, struct store *s)
{
	if (w->inotify >= 0)
		return w->inotify;
	return s ? store_fd(s) : -1;
}

bool wake_taken(struct wake *w, struct store *s)
{
	char events[1024] __attribute__((aligned(8)));
	bool any = false;
	if (w->inotify < 0)
		return s && store_notified(s);
	while (read(w->inotify, events, sizeof events) > 0)
		any = true;
	return any;
}
