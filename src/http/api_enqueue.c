/* SPDX-License-Identifier: Apache-2.0
 * api_enqueue.c: jobs into a queue: one, or many in one transaction. A unique key makes it
 * safe to send the same again: the answer is the job that waits or runs already.
 *
 * With http.spool they are kept while the database is away (202 and a token), and what comes
 * later stands behind them.
 */
#include "http/api_handlers.h"

#include "base/clock.h"
#include "base/text.h"
#include "daemon/service.h"
#include "worker/queue.h"

#define JOBS_MOST 1000
#define PRIORITY_LEAST (-32768)
#define PRIORITY_MOST 32766

/* One job as it was sent; `at` names it in problems: "", or "jobs[3].". */
struct sent {
	struct api_call *call;
	const json_t *job;
	char at[32];
};

static const json_t *member(const struct sent *s, const char *name)
{
	const json_t *value = json_object_get(s->job, name);
	return json_is_null(value) ? NULL : value;
}

static bool text_of(const struct sent *s, const char *name, const char **out)
{
	const json_t *value = member(s, name);
	if (value && !json_is_string(value))
		return api_problem(s->call, 400, "%s%s must be a string", s->at, name);
	if (value)
		*out = json_string_value(value);
	return true;
}

static bool number_of(const struct sent *s, const char *name, int64_t least, int64_t most,
                      int64_t *out)
{
	const json_t *value = member(s, name);
	if (!value)
		return true;
	*out = json_integer_value(value);
	if (json_is_integer(value) && *out >= least && *out <= most)
		return true;
	return api_problem(s->call, 400, "%s%s must be a whole number from %lld to %lld", s->at, name,
	                   (long long)least, (long long)most);
}

static bool duration_of(const struct sent *s, const char *name, int64_t *ms)
{
	const char *text = NULL;
	int64_t us = 0;
	if (!text_of(s, name, &text))
		return false;
	if (text && !duration_parse(text, &us))
		return api_problem(s->call, 400, "%s%s must be a duration such as \"90s\"", s->at, name);
	*ms = us / 1000;
	return true;
}

static bool tags_of(const struct sent *s, const char **out)
{
	const json_t *tags = member(s, "tags");
	size_t i;
	json_t *item;
	bool good = !tags || json_is_array(tags);
	json_array_foreach(good ? tags : NULL, i, item)
	{
		good = good && json_is_string(item);
	}
	*out = good ? json_as_sent(s->call, tags) : NULL;
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
		const char *const *known = names;
		while (*known && !text_eq(*known, name))
			known++;
		if (!*known)
			return api_problem(s->call, 400, "a job has no member \"%s%s\"", s->at, name);
	}
	return true;
}

static bool read_job(const struct sent *s, struct enqueue *out)
{
	*out = (struct enqueue){.queue = s->call->parts[0]};
	if (!known_members(s) || !text_of(s, "kind", &out->kind) ||
	    !duration_of(s, "delay", &out->delay_ms) || !duration_of(s, "timeout", &out->timeout_ms) ||
	    !number_of(s, "priority", PRIORITY_LEAST, PRIORITY_MOST, &out->priority) ||
	    !number_of(s, "max_attempts", 1, INT32_MAX, &out->max_attempts) ||
	    !text_of(s, "unique_key", &out->unique_key) || !tags_of(s, &out->tags))
		return false;
	if (!out->kind || !*out->kind)
		return api_problem(s->call, 400, "%skind is missing", s->at);
	out->payload = json_as_sent(s->call, member(s, "payload"));
	return true;
}

/* The jobs of the body: itself, or those of its list. */
static bool read_jobs(struct api_call *c, struct enqueue **jobs, int *n, bool *many)
{
	static const char *const list_only[] = {"jobs", NULL};
	json_t *list = json_object_get(c->body, "jobs");
	size_t i;
	json_t *item;
	*many = list != NULL;
	*n = list ? (int)json_array_size(list) : 1;
	*jobs = ARENA_ARRAY(&c->arena, struct enqueue, *n + 1);
	if (!list)
		return read_job(&(struct sent){.call = c, .job = c->body}, *jobs);
	if (!api_body_takes(c, list_only))
		return false;
	if (!json_is_array(list) || *n == 0 || *n > JOBS_MOST)
		return api_problem(c, 400, "jobs must be a list of 1 to %d jobs", JOBS_MOST);
	json_array_foreach(list, i, item)
	{
		struct sent s = {.call = c, .job = item};
		snprintf(s.at, sizeof s.at, "jobs[%zu].", i);
		if (!read_job(&s, &(*jobs)[i]))
			return false;
	}
	return true;
}

static void answer(struct api_call *c, const int64_t *ids, int n, bool many)
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

/* Behind what waits already, or kept with it: the answer says which. */
static void keep_or_enqueue(struct api_call *c, const struct enqueue *jobs, int n, bool many)
{
	struct stored_jobs q = http_spool_queue(&c->setup->settings, c->database, &c->arena);
	struct store *s = c->away ? NULL : c->session->store;
	struct stored_sent sent = {.ids = ARENA_ARRAY(&c->arena, int64_t, n)};
	struct failure f = {0};
	if (c->away)
		sent.why = *c->away;
	if (stored_jobs_send(&q, s, jobs, n, &sent, &f)) {
		if (store_away(sent.why.code))
			api_failed_as(c, 503, &f); /* it could not be kept either */
		else
			worker_failed(c, &f);
	} else if (sent.kept) {
		c->out->status = 202;
		buf_addf(&c->out->body, "{\"spooled\":true,\"token\":\"%s\"}\n", sent.token);
	} else {
		wake_send(s, c->database->url);
		answer(c, sent.ids, n, many);
	}
}

void call_enqueue(struct api_call *c)
{
	struct failure f = {0};
	struct enqueue *jobs;
	bool many;
	int n;
	if (!read_jobs(c, &jobs, &n, &many))
		return;
	if (settings_http(&c->setup->settings)->spool) {
		keep_or_enqueue(c, jobs, n, many);
		return;
	}
	int64_t *ids = ARENA_ARRAY(&c->arena, int64_t, n);
	if (enqueue_jobs(c->session->store, jobs, n, ids, &f)) {
		worker_failed(c, &f);
		return;
	}
	wake_send(c->session->store, c->database->url);
	answer(c, ids, n, many);
}
