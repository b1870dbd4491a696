/* SPDX-License-Identifier: Apache-2.0
 * lib.c: what every call of defib.h does: check the caller's arguments once, so that inner rooms
 * can rely on them, and return public types.
 */
#include "lib/lib.h"

#include "base/log.h"
#include "ledger/schema.h"
#include "lib/advice.h"
#include "store/postgres_connect.h"
#include "store/sqlite.h"
#include "worker/queue.h"
#include "worker/wake.h"

#include <jansson.h>

defib_err lib_begin(struct failure *f)
{
	return mem_reserve() ? DEFIB_OK : fail(f, DEFIB_MEMORY, "out of memory; nothing was done");
}

defib_err lib_answer(defib_err err, struct failure *f, defib_message *message)
{
	if (message) {
		snprintf(message->what, sizeof message->what, "%s", err ? f->what : "");
		snprintf(message->next, sizeof message->next, "%s", err ? failure_next(f) : "");
	}
	return err;
}

defib_err lib_options(void *to, size_t known, const void *from, const char *what, struct failure *f)
{
	size_t given = 0;
	if (from)
		memcpy(&given, from, sizeof given);
	if (given < sizeof given)
		return fail(f, DEFIB_USAGE, "%s: the first member must be the struct's size", what);
	/* A newer program may know more than we do; it must not have set those members. */
	for (size_t i = known; i < given; i++)
		if (((const char *)from)[i] != 0)
			return fail(f, DEFIB_USAGE, "%s: sets options that this version does not know", what);
	memset(to, 0, known);
	memcpy(to, from, given < known ? given : known);
	return DEFIB_OK;
}

bool lib_is_json(const char *text)
{
	json_t *json = text ? json_read(text, JSON_DECODE_ANY) : NULL;
	json_decref(json);
	return json != NULL;
}

defib_err defib_log(const char *level, int json)
{
	enum log_level least;
	if (!log_level_parse(level, &least))
		return DEFIB_USAGE;
	log_setup(least, json ? LOG_JSON : LOG_LOGFMT);
	return DEFIB_OK;
}

void defib_set_log(void (*line)(void *ctx, const char *level, const char *text), void *ctx)
{
	log_divert(line, ctx);
}

void defib_set_out_of_memory(int (*refused)(void *ctx, size_t bytes), void *ctx)
{
	mem_on_refused(refused, ctx);
}

/* ---- a session ---- */

/*
 * The session of defib.h, which reconnects by itself, and the call that reads its
 * ledger.
 */

defib_err defib_open(const char *url, unsigned flags, defib_db **out, defib_message *message)
{
	struct failure f = {0};
	*out = NULL;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	defib_db *db = mem_alloc(sizeof *db);
	db->url = mem_strdup(url ? url : "");
	/*
	 * Jobs are enqueued and cancelled here with one plan each; a scan needs a session of its own.
	 */
	db->session = (struct session){
		.options = {.url = db->url, .create = (flags & DEFIB_OPEN_CREATE) != 0, .plan_once = true},
		.open = store_open,
	};
	defib_err err = session_ready(&db->session, &f);
	if (err)
		defib_close(db);
	else
		*out = db;
	return lib_answer(err, &f, message);
}

defib_err lib_ready(defib_db *db, struct failure *f)
{
	defib_err err = lib_begin(f);
	return err ? err : session_ready(&db->session, f);
}

void defib_close(defib_db *db)
{
	if (!db)
		return;
	session_close(&db->session);
	free(db->url);
	free(db);
}

defib_err defib_init_schema(defib_db *db, defib_message *message)
{
	struct failure f = {0};
	defib_err err = lib_ready(db, &f);
	if (!err)
		err = schema_install(db->session.store, SCHEMA_QUEUE, &f);
	return lib_answer(err, &f, message);
}

/* ---- the ledger ---- */

static void tell_entry(const struct ledger_row *row,
                       void (*entry)(void *ctx, const defib_ledger_entry *entry), void *ctx)
{
	defib_ledger_entry one = {
		.size = sizeof one,
		.id = row->id,
		.at = row->at,
		.batch = row->batch,
		.watch = row->watch,
		.job = row->job,
		.event = row->event,
		.actor = row->actor,
		.verdict = row->verdict,
		.rule = row->rule,
		.reason = row->reason,
		.evidence = row->evidence,
		.before = row->before,
		.after = row->after,
	};
	entry(ctx, &one);
}

static defib_err lib_read_entries(struct store *s, const struct ledger_filter *filter,
                                  struct arena *a, struct ledger_row **rows, int *n,
                                  struct failure *f)
{
	bool exists = false;
	*n = 0;
	defib_err err = ledger_exists(s, &exists, f);
	return err || !exists ? err : ledger_read(s, filter, a, rows, n, f);
}

defib_err defib_ledger_read(defib_db *db, const defib_ledger_filter *filter,
                            void (*entry)(void *ctx, const defib_ledger_entry *entry), void *ctx,
                            defib_message *message)
{
	struct failure f = {0};
	AUTO_ARENA a = ARENA_INIT;
	struct ledger_row *rows = NULL;
	defib_ledger_filter o, all = DEFIB_LEDGER_FILTER_INIT;
	int n = 0;
	defib_err err = lib_options(&o, sizeof o, filter ? filter : &all, "defib_ledger_filter", &f);
	if (!err && (!entry || o.limit < 0))
		err = fail(&f, DEFIB_USAGE, "a callback is required, and the limit must not be negative");
	if (!err)
		err = lib_ready(db, &f);
	if (!err) {
		struct ledger_filter by = {
			.watch = o.watch,
			.job = o.job,
			.event = o.event,
			.actor = o.actor,
			.batch = o.batch,
			.after_id = o.after_id,
			.limit = o.limit,
			.newest_first = o.newest_first != 0,
		};
		err = lib_read_entries(db->session.store, &by, &a, &rows, &n, &f);
	}
	for (int i = 0; !err && i < n; i++)
		tell_entry(&rows[i], entry, ctx);
	return lib_answer(err, &f, message);
}

/* ---- jobs of the built-in queue ---- */

static defib_err read_tags(const char *text, struct failure *f)
{
	json_t *tags = json_read(text, 0), *tag;
	bool good = json_is_array(tags);
	size_t i;
	json_array_foreach(tags, i, tag) good = good && json_is_string(tag);
	json_decref(tags);
	return good ? DEFIB_OK : fail(f, DEFIB_USAGE, "the tags are not a JSON array of texts");
}

static defib_err read_spec(const defib_job_spec *given, struct enqueue *out, struct failure *f)
{
	defib_job_spec job = {0};
	defib_err err = lib_options(&job, sizeof job, given, "defib_job_spec", f);
	if (err)
		return err;
	if (!job.queue || !job.kind)
		return fail(f, DEFIB_USAGE, "a job needs a queue and a kind");
	if (job.payload && !lib_is_json(job.payload))
		return fail(f, DEFIB_USAGE, "the payload is not JSON");
	*out = (struct enqueue){.queue = job.queue,
	                        .kind = job.kind,
	                        .payload = job.payload,
	                        .delay_ms = job.delay_ms,
	                        .priority = job.priority,
	                        .max_attempts = job.max_attempts,
	                        .timeout_ms = job.timeout_ms,
	                        .unique_key = job.unique_key,
	                        .tags = job.tags};
	err = enqueue_check(out, f);
	return err || !job.tags ? err : read_tags(job.tags, f);
}

/* `url`: wake the workers of that database; NULL: the caller commits first. */
static defib_err enqueue_into(struct store *s, const char *url, const defib_job_spec *given,
                              int64_t *id, struct failure *f)
{
	struct enqueue job;
	int64_t number = 0;
	defib_err err = read_spec(given, &job, f);
	if (!err)
		err = url ? enqueue_and_wake(s, url, &job, 1, &number, f)
		          : enqueue_jobs(s, &job, 1, &number, f);
	if (!err && id)
		*id = number;
	return err;
}

defib_err defib_enqueue(defib_db *db, const defib_job_spec *job, int64_t *id,
                        defib_message *message)
{
	struct failure f = {0};
	defib_err err = lib_ready(db, &f);
	if (!err)
		err = enqueue_into(db->session.store, db->url, job, id, &f);
	return lib_answer(err, &f, message);
}

/* The caller's array: its structs may be shorter or longer than ours. */
static defib_err read_specs(const defib_job_spec *given, int n, struct enqueue *out,
                            struct failure *f)
{
	size_t size = n > 0 ? given->size : 0;
	for (int i = 0; i < n; i++) {
		const defib_job_spec *at = (const void *)((const char *)given + (size_t)i * size);
		struct failure why = {0};
		if (at->size != size)
			return fail(f, DEFIB_USAGE, "job %d of %d: its size differs from that of the first", i,
			            n);
		if (read_spec(at, &out[i], &why))
			return fail(f, why.code, "job %d of %d: %s", i, n, why.what);
	}
	return DEFIB_OK;
}

defib_err defib_enqueue_many(defib_db *db, const defib_job_spec *jobs, int n, int64_t *ids,
                             defib_message *message)
{
	struct failure f = {0};
	AUTO_ARENA a = ARENA_INIT;
	if (lib_begin(&f))
		return lib_answer(f.code, &f, message);
	struct enqueue *all = ARENA_ARRAY(&a, struct enqueue, n > 0 ? n : 0);
	int64_t *numbers = ARENA_ARRAY(&a, int64_t, n > 0 ? n : 0);
	defib_err err = n < 0 || (n > 0 && !jobs)
	                    ? fail(&f, DEFIB_USAGE, "the array of %d jobs is NULL", n)
	                    : read_specs(jobs, n, all, &f);
	if (!err && n > 0)
		err = lib_ready(db, &f);
	if (!err && n > 0)
		err = enqueue_and_wake(db->session.store, db->url, all, n, numbers, &f);
	if (!err && n > 0 && ids)
		memcpy(ids, numbers, (size_t)n * sizeof *ids);
	return lib_answer(err, &f, message);
}

defib_err defib_enqueue_pg(struct pg_conn *conn, const defib_job_spec *job, int64_t *id,
                           defib_message *message)
{
	struct failure f = {0};
	AUTO_STORE lent = NULL;
	defib_err err = lib_begin(&f);
	if (!err)
		err = postgres_borrow(conn, &lent, &f);
	if (!err)
		err = enqueue_into(lent, NULL, job, id, &f);
	return lib_answer(err, &f, message);
}

defib_err defib_enqueue_sqlite(struct sqlite3 *handle, const defib_job_spec *job, int64_t *id,
                               defib_message *message)
{
	struct failure f = {0};
	AUTO_STORE lent = NULL;
	defib_err err = lib_begin(&f);
	if (!err)
		err = sqlite_borrow(handle, &lent, &f);
	if (!err)
		err = enqueue_into(lent, NULL, job, id, &f);
	return lib_answer(err, &f, message);
}

defib_err defib_notify(defib_db *db, defib_message *message)
{
	struct failure f = {0};
	defib_err err = lib_ready(db, &f);
	if (!err)
		wake_send(db->session.store, db->url);
	return lib_answer(err, &f, message);
}

defib_err defib_cancel(defib_db *db, int64_t id, defib_message *message)
{
	struct failure f = {0};
	char state[16] = "";
	defib_err err = lib_ready(db, &f);
	if (!err)
		err = cancel_job(db->session.store, id, state, &f);
	if (!err && !state[0])
		err = fail(&f, DEFIB_NOT_FOUND, "no job %lld is waiting or running", (long long)id);
	if (!err)
		wake_send(db->session.store, db->url);
	return lib_answer(err, &f, message);
}
