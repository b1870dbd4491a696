/* SPDX-License-Identifier: Apache-2.0
 * api_work.c: a worker's jobs over HTTP: claim, settle, progress, and new jobs for a queue. Every
 * write carries key, epoch and worker. A refusal is reported per job and means that the lease is
 * lost, as for every other worker (worker/source.h).
 */
#include "http/api_work.h"

#include "base/clock.h"
#include "http/api.h"
#include "http/api_values.h"
#include "http/api_watches.h"
#include "http/api_worker.h"
#include "worker/token.h"
#include "worker/wake.h"

#include <assert.h>

#define CLAIM_MOST 100
#define SETTLE_MOST 500

/* ---- claim ---- */

/* A job, and the token of its claim. */
struct handed_job {
	struct claimed job;
	char token[TOKEN_SIZE];
};

static bool handed_timeout(const void *row, int64_t *out)
{
	*out = ((const struct handed_job *)row)->job.timeout_ms * 1000;
	return *out > 0;
}

/* A worker sees its job unmasked. */
#define AT(member) FIELD_AT(struct handed_job, job.member)
static const struct field handed_fields[] = {
	{"key", AT(key)},
	{"epoch", FIELD_NUMBER, AT(epoch)},
	{"token", FIELD_CHARS, FIELD_AT(struct handed_job, token),
     .about =
         "unique to this claim, also across failovers; the tokens of a job sort as text in the "
         "order of its claims"},
	{"attempt", FIELD_NUMBER, AT(attempt), .zero_null = true},
	{"max_attempts", FIELD_NUMBER, AT(max_attempts), .zero_null = true},
	{"priority", FIELD_NUMBER, AT(priority)},
	{"queue", AT(queue), .about = "queue or watch"},
	{"kind", AT(kind), .null = true},
	{"timeout_s", FIELD_SECONDS, .number = handed_timeout, .null = true},
	{"payload", FIELD_DATA, AT(payload), .null = true, .schema = ANY_SCHEMA},
	{"step", AT(step), .null = true, .about = "the last one that an earlier attempt reported"},
	{"workflow", AT(workflow), .null = true},
	{"undoing", FIELD_BOOL, AT(undoing),
     .about = "the job is being rolled back; its recorded steps are undone"},
	{"steps", FIELD_DATA, AT(steps), .null = true, .schema = "{type: [array, \"null\"]}",
     .about = "the recorded steps of a workflow"},
	{0},
};
#undef AT

const struct record claimed_record = {
	.name = "Claimed",
	.about = "a job that a worker claimed",
	.fields = handed_fields,
	.size = sizeof(struct handed_job),
};

static void claimed_json(const struct claimed *job, int64_t worker, struct buf *out)
{
	const struct viewer v = {.role = ROLE_ADMIN};
	struct handed_job handed = {.job = *job};
	token_of(job, worker, handed.token);
	record_json(&claimed_record, &handed, &v, out);
}

/* An admin acts for the worker: the jobs `keys`, which may be none, are recorded. */
static defib_err note_by_admin(struct api_call *c, int64_t worker, const char *act,
                               const char **keys, int n, struct failure *f)
{
	struct in_its_name what = {.worker = worker, .act = act, .jobs = keys, .n = n};
	if (!api_body_text(c, "watch", &what.watch))
		what.watch = NULL;
	return n ? api_worker_note(c, &what, f) : DEFIB_OK;
}

static defib_err note_claimed(struct api_call *c, int64_t worker, const struct claimed *jobs, int n,
                              struct failure *f)
{
	const char **keys = ARENA_ARRAY(&c->arena, const char *, n + 1);
	for (int i = 0; i < n; i++)
		keys[i] = jobs[i].key;
	return note_by_admin(c, worker, "claimed by an admin", keys, n, f);
}

/* Before it is done: a refused attempt is recorded too. */
static defib_err note_settled(struct api_call *c, int64_t worker, const struct settlement *all,
                              int n, struct failure *f)
{
	const char **keys = ARENA_ARRAY(&c->arena, const char *, n + 1);
	for (int i = 0; i < n; i++)
		keys[i] = all[i].key;
	return note_by_admin(c, worker, "settled by an admin", keys, n, f);
}

void call_claim(struct api_call *c)
{
	int64_t worker, most = 1;
	struct claimed *jobs = NULL;
	struct failure f = {0};
	int n = 0;
	bool own;
	if (!api_worker_allowed(c, &worker, &own) || !api_body_int(c, "n", 1, CLAIM_MOST, &most))
		return;
	struct source *source = api_source_named(c);
	if (!source)
		return;
	/* Make jobs available whose time has come: any worker does it for all. */
	defib_err err = source->ops->promote(source, c->session->store, &f);
	if (!err)
		err = source->ops->claim(source, c->session->store, worker, most, &c->arena, &jobs, &n, &f);
	if (!err && !own)
		err = note_claimed(c, worker, jobs, n, &f);
	if (err) {
		api_worker_failed(c, &f);
	} else {
		source_tokens(c->session->store, jobs, n);
		buf_add(&c->out->body, "{\"jobs\":[");
		for (int i = 0; i < n; i++) {
			buf_add(&c->out->body, i ? "," : "");
			claimed_json(&jobs[i], worker, &c->out->body);
		}
		buf_add(&c->out->body, "]}\n");
	}
	source->ops->free(source);
}

/* ---- settle ---- */

/*
 * Where claimed jobs came from; NULL after a problem. The queue's name does not matter for them, so
 * it may be omitted.
 */
static struct source *source_of_claim(struct api_call *c)
{
	const char *watch = NULL, *queue = NULL;
	if (!api_body_text(c, "watch", &watch) || !api_body_text(c, "queue", &queue))
		return NULL;
	if (!watch && !queue)
		json_object_set_new(c->body, "queue", json_string(""));
	return api_source_named(c);
}

static bool api_work_bad(struct api_call *c, size_t i, const char *what)
{
	return api_problem(c, 400, "results[%zu].%s", i, what);
}

/* A key is a text; a queue's key may be a number. */
static const char *key_of(struct api_call *c, const json_t *value)
{
	if (json_is_integer(value))
		return arena_printf(&c->arena, "%lld", (long long)json_integer_value(value));
	return json_string_value(value);
}

/* Absent or null: false. */
static bool api_work_read_flag(const json_t *object, const char *name, bool *out)
{
	const json_t *value = json_object_get(object, name);
	*out = json_is_true(value);
	return !value || json_is_null(value) || json_is_boolean(value);
}

/* {"name": "charge", "position": 1, "undo": false, "more": true, "saga": true} */
static bool api_work_read_step(const json_t *value, struct step_end *out)
{
	const json_t *position = json_object_get(value, "position");
	*out = (struct step_end){0};
	if (!value || json_is_null(value))
		return true;
	bool undo = false;
	bool flags = api_work_read_flag(value, "undo", &undo) &&
	             api_work_read_flag(value, "more", &out->more) &&
	             api_work_read_flag(value, "saga", &out->saga);
	out->side = undo ? STEP_SIDE_UNDO : STEP_SIDE_RUN;
	out->name = json_string_value(json_object_get(value, "name"));
	out->position = json_integer_value(position);
	return json_is_object(value) && out->name && json_is_integer(position) && flags;
}

static bool read_delay(const json_t *value, int64_t *ms)
{
	int64_t us;
	*ms = -1;
	if (!value || json_is_null(value))
		return true;
	if (!json_is_string(value) || !duration_parse(json_string_value(value), &us))
		return false;
	*ms = ms_from_us(us);
	return true;
}

static bool optional_text(const json_t *value, const char **out)
{
	*out = json_string_value(value);
	return *out || !value || json_is_null(value);
}

static bool read_result(struct api_call *c, size_t i, const json_t *item, struct settlement *s)
{
	const json_t *epoch = json_object_get(item, "epoch");
	const char *as = json_string_value(json_object_get(item, "as"));
	int index = as ? word_index(settle_names, as) : -1;
	*s = (struct settlement){.key = key_of(c, json_object_get(item, "key")),
	                         .epoch = json_integer_value(epoch),
	                         .as = index < 0 ? SETTLE_FAILED : (enum settle_as)index,
	                         .result = api_json_as_sent(c, json_object_get(item, "result"))};
	if (!s->key)
		return api_work_bad(c, i, "key is missing");
	if (!json_is_integer(epoch))
		return api_work_bad(c, i, "epoch is missing: the number that came with the claim");
	if (index < 0)
		return api_work_bad(
			c, i,
			"as must be done, failed, retry, permanent, timed_out, crashed, stopped or released");
	if (!optional_text(json_object_get(item, "error"), &s->error))
		return api_work_bad(c, i, "error must be a string");
	if (!read_delay(json_object_get(item, "delay"), &s->delay_ms))
		return api_work_bad(c, i, "delay must be a duration such as \"90s\"");
	if (!api_work_read_step(json_object_get(item, "step"), &s->step))
		return api_work_bad(c, i, "step must be {name, position, undo, more, saga}");
	return true;
}

static bool read_results(struct api_call *c, struct settlement **out, int *n)
{
	const json_t *list = json_object_get(c->body, "results");
	size_t i;
	json_t *item;
	*n = (int)json_array_size(list);
	if (*n == 0 || *n > SETTLE_MOST) {
		api_problem(c, 400, "results must be a list of 1 to %d results", SETTLE_MOST);
		return false;
	}
	*out = ARENA_ARRAY(&c->arena, struct settlement, *n);
	json_array_foreach(list, i, item)
	{
		if (!read_result(c, i, item, &(*out)[i]))
			return false;
	}
	return true;
}

static const char *settled_why(const void *row)
{
	return ((const struct settlement *)row)->accepted ? NULL : "lease_lost";
}

static const struct field settled_fields[] = {
	{"key", FIELD_AT(struct settlement, key)},
	{"epoch", FIELD_NUMBER, FIELD_AT(struct settlement, epoch)},
	{"accepted", FIELD_BOOL, FIELD_AT(struct settlement, accepted)},
	{"why", .text = settled_why, .null = true},
	{0},
};
static const struct record settled_record = {.fields = settled_fields};

/* If all are lost, the worker has no jobs left here, and the status says so too. */
static void answer_settled(struct api_call *c, const struct settlement *all, int n)
{
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	int accepted = 0;
	assert(all != NULL && n > 0);
	for (int i = 0; i < n; i++)
		accepted += all[i].accepted;
	buf_add(out, "{");
	if (accepted == 0) {
		c->out->status = 409;
		c->out->type = "application/problem+json";
		buf_add(out, "\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"detail\":"
		             "\"the lease is lost: another worker has these jobs, or had them\",");
	}
	buf_addf(out, "\"accepted\":%d,\"results\":[", accepted);
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? "," : "");
		record_json(&settled_record, &all[i], &v, out);
	}
	buf_add(out, "]}\n");
}

void call_settle(struct api_call *c)
{
	struct settlement *all = NULL;
	struct failure f = {0};
	int64_t worker;
	int n;
	bool own;
	if (!api_worker_allowed(c, &worker, &own) || !read_results(c, &all, &n))
		return;
	struct source *source = source_of_claim(c);
	if (!source)
		return;
	defib_err err = own ? DEFIB_OK : note_settled(c, worker, all, n, &f);
	if (err || source->ops->settle(source, c->session->store, worker, all, n, &c->arena, &f))
		api_worker_failed(c, &f);
	else
		answer_settled(c, all, n);
	source->ops->free(source);
}

/* ---- progress ---- */

void call_progress(struct api_call *c)
{
	const char *step = NULL, *text = NULL;
	const char *key = key_of(c, json_object_get(c->body, "key"));
	int64_t worker, epoch = 0;
	struct failure f = {0};
	bool own;
	if (!api_worker_allowed(c, &worker, &own) || !api_body_int(c, "epoch", 1, INT64_MAX, &epoch) ||
	    !api_body_text(c, "step", &step) || !api_body_text(c, "text", &text))
		return;
	if (!key || !epoch) {
		api_problem(c, 400, "key and epoch of the claim are required");
		return;
	}
	struct source *source = source_of_claim(c);
	if (!source)
		return;
	defib_err err =
		source->ops->progress(source, c->session->store, worker, key, epoch, step, text, &f);
	if (err == DEFIB_LEASE_LOST)
		api_failed_as(c, 409, &f);
	else if (err)
		api_worker_failed(c, &f);
	else
		c->out->status = 204;
	source->ops->free(source);
}

/*
 * ---- enqueue ----
 * One job, or many in one transaction. With a unique key it is safe to repeat the request: the
 * answer is the job that already waits or runs. With http.spool jobs are stored while the database
 * is unavailable (202 and a token), and later ones queue behind them.
 */

#define JOBS_MOST 1000

/* One job as it was sent; `at` names it in problems: "", or "jobs[3].". */
struct sent {
	struct api_call *call;
	const json_t *job;
	char at[32];
};

static const json_t *api_work_member(const struct sent *s, const char *name)
{
	const json_t *value = json_object_get(s->job, name);
	return json_is_null(value) ? NULL : value;
}

static bool api_work_text_of(const struct sent *s, const char *name, const char **out)
{
	const json_t *value = api_work_member(s, name);
	if (value && !json_is_string(value))
		return api_problem(s->call, 400, "%s%s must be a string", s->at, name);
	if (value)
		*out = json_string_value(value);
	return true;
}

static bool api_work_number_of(const struct sent *s, const char *name, int64_t least, int64_t most,
                               int64_t *out)
{
	const json_t *value = api_work_member(s, name);
	if (!value)
		return true;
	*out = json_integer_value(value);
	if (json_is_integer(value) && *out >= least && *out <= most)
		return true;
	return api_problem(s->call, 400, "%s%s must be a whole number from %lld to %lld", s->at, name,
	                   (long long)least, (long long)most);
}

static bool duration_of(const struct sent *s, const char *name, int64_t most_ms, int64_t *ms)
{
	const char *text = NULL;
	int64_t us = 0;
	if (!api_work_text_of(s, name, &text))
		return false;
	if (text && !duration_parse(text, &us))
		return api_problem(s->call, 400, "%s%s must be a duration such as \"90s\"", s->at, name);
	*ms = ms_from_us(us);
	AUTO_BUF limit = BUF_INIT;
	duration_text(most_ms * 1000, &limit);
	return *ms <= most_ms ||
	       api_problem(s->call, 400, "%s%s must be at most %s", s->at, name, buf_text(&limit));
}

static bool tags_of(const struct sent *s, const char **out)
{
	const json_t *tags = api_work_member(s, "tags");
	size_t i;
	json_t *item;
	bool good = !tags || json_is_array(tags);
	json_array_foreach(good ? tags : NULL, i, item)
	{
		good = good && json_is_string(item);
	}
	*out = good ? api_json_as_sent(s->call, tags) : NULL;
	return good || api_problem(s->call, 400, "%stags must be a list of strings", s->at);
}

static bool known_members(const struct sent *s)
{
	static const char *const names[] = {"kind",       "payload",      "delay",
	                                    "priority",   "max_attempts", "timeout",
	                                    "unique_key", "tags",         NULL};
	const char *name;
	json_t *value;
	if (!json_is_object(s->job))
		return api_problem(s->call, 400, "%s must be an object", s->at);
	json_object_foreach((json_t *)s->job, name, value)
	{
		if (word_index(names, name) < 0)
			return api_problem(s->call, 400, "a job has no member \"%s%s\"", s->at, name);
	}
	return true;
}

static bool api_work_read_job(const struct sent *s, struct enqueue *out)
{
	*out = (struct enqueue){.queue = s->call->parts[0]};
	if (!known_members(s) || !api_work_text_of(s, "kind", &out->kind) ||
	    !duration_of(s, "delay", DELAY_MOST_MS, &out->delay_ms) ||
	    !duration_of(s, "timeout", TIMEOUT_MOST_MS, &out->timeout_ms) ||
	    !api_work_number_of(s, "priority", PRIORITY_LEAST, PRIORITY_MOST, &out->priority) ||
	    !api_work_number_of(s, "max_attempts", 1, ATTEMPTS_MOST, &out->max_attempts) ||
	    !api_work_text_of(s, "unique_key", &out->unique_key) || !tags_of(s, &out->tags))
		return false;
	if (!out->kind || !*out->kind)
		return api_problem(s->call, 400, "%skind is missing", s->at);
	out->payload = api_json_as_sent(s->call, api_work_member(s, "payload"));
	return true;
}

/* The jobs of the body: the body itself, or its list. */
static bool api_work_read_jobs(struct api_call *c, struct enqueue **jobs, int *n, bool *many)
{
	json_t *list = json_object_get(c->body, "jobs");
	size_t i;
	json_t *item;
	*many = list != NULL;
	*n = list ? (int)json_array_size(list) : 1;
	*jobs = ARENA_ARRAY(&c->arena, struct enqueue, *n + 1);
	if (!list)
		return api_work_read_job(&(struct sent){.call = c, .job = c->body}, *jobs);
	if (!api_body_takes(c, "jobs"))
		return false;
	if (!json_is_array(list) || *n == 0 || *n > JOBS_MOST)
		return api_problem(c, 400, "jobs must be a list of 1 to %d jobs", JOBS_MOST);
	json_array_foreach(list, i, item)
	{
		struct sent s = {.call = c, .job = item};
		snprintf(s.at, sizeof s.at, "jobs[%zu].", i);
		if (!api_work_read_job(&s, &(*jobs)[i]))
			return false;
	}
	return true;
}

static void api_work_answer(struct api_call *c, const int64_t *ids, int n, bool many)
{
	struct buf *out = &c->out->body;
	c->out->status = 201;
	if (!many) {
		buf_addf(out, "{\"id\":%lld}\n", (long long)ids[0]);
		api_header(c, "Location",
		           arena_printf(&c->arena, "/api/v1/watches/queue/jobs/%lld?database=%s",
		                        (long long)ids[0], c->database->name));
		return;
	}
	buf_addf(out, "{\"enqueued\":%d,\"ids\":[", n);
	for (int i = 0; i < n; i++)
		buf_addf(out, "%s%lld", i ? "," : "", (long long)ids[i]);
	buf_add(out, "]}\n");
}

/* Enqueue after the stored jobs, or store with them: the answer says which. */
static void keep_or_enqueue(struct api_call *c, const struct enqueue *jobs, int n, bool many)
{
	struct stored_jobs q = http_spool_queue(&c->setup->settings, c->database, &c->arena);
	struct store *s = c->away ? NULL : c->session->store;
	struct stored_sent sent = {.ids = ARENA_ARRAY(&c->arena, int64_t, n)};
	struct failure f = {0};
	if (c->away)
		sent.why = *c->away;
	if (stored_jobs_send(&q, s, jobs, n, &sent, &f)) {
		if (store_unavailable(sent.why.code))
			api_failed_as(c, 503, &f); /* it could not be stored either */
		else
			api_worker_failed(c, &f);
	} else if (sent.stored) {
		c->out->status = 202;
		buf_addf(&c->out->body, "{\"spooled\":true,\"token\":\"%s\"}\n", sent.token);
	} else {
		wake_send(s, c->database->url);
		api_work_answer(c, sent.ids, n, many);
	}
}

void call_enqueue(struct api_call *c)
{
	struct failure f = {0};
	struct enqueue *jobs;
	bool many;
	int n;
	if (!api_work_read_jobs(c, &jobs, &n, &many))
		return;
	if (settings_http(&c->setup->settings)->spool) {
		keep_or_enqueue(c, jobs, n, many);
		return;
	}
	int64_t *ids = ARENA_ARRAY(&c->arena, int64_t, n);
	if (enqueue_jobs(c->session->store, jobs, n, ids, &f)) {
		api_worker_failed(c, &f);
		return;
	}
	wake_send(c->session->store, c->database->url);
	api_work_answer(c, ids, n, many);
}
