/* SPDX-License-Identifier: Apache-2.0
 * queue.c: the calls of defib.h that enqueue and cancel jobs.
 */
#include "lib/lib.h"

#include "base/json.h"
#include "store/store.h"
#include "worker/queue.h"

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
	if (job.priority < -32768 || job.priority > 32766)
		return fail(f, DEFIB_USAGE, "a priority is from -32768 to 32766");
	if (job.delay_ms < 0 || job.max_attempts < 0 || job.max_attempts > INT32_MAX ||
	    job.timeout_ms < 0 || job.timeout_ms > INT32_MAX)
		return fail(f, DEFIB_USAGE,
		            "a delay, a time limit or a number of attempts is out of range");
	*out = (struct enqueue){.queue = job.queue,
	                        .kind = job.kind,
	                        .payload = job.payload,
	                        .delay_ms = job.delay_ms,
	                        .priority = job.priority,
	                        .max_attempts = job.max_attempts,
	                        .timeout_ms = job.timeout_ms,
	                        .unique_key = job.unique_key,
	                        .tags = job.tags};
	return job.tags ? read_tags(job.tags, f) : DEFIB_OK;
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
