/* SPDX-License-Identifier: Apache-2.0 */
/* side_record.c: see side_record.h. */
#include "worker/side_record.h"

#include <jansson.h>

/* Every member of a job; what is NULL or 0 is left out. */
static const struct {
	const char *name;
	size_t offset;
	bool text;
} members[] = {
	{"queue", offsetof(struct enqueue, queue), true},
	{"kind", offsetof(struct enqueue, kind), true},
	{"payload", offsetof(struct enqueue, payload), true},
	{"delay_ms", offsetof(struct enqueue, delay_ms), false},
	{"priority", offsetof(struct enqueue, priority), false},
	{"max_attempts", offsetof(struct enqueue, max_attempts), false},
	{"timeout_ms", offsetof(struct enqueue, timeout_ms), false},
	{"unique_key", offsetof(struct enqueue, unique_key), true},
	{"tags", offsetof(struct enqueue, tags), true},
};
#define NMEMBERS (sizeof members / sizeof *members)
_Static_assert(sizeof(struct enqueue) == NMEMBERS * 8, "a member of a job is missing here");

static void job_write(const struct enqueue *job, struct buf *out)
{
	const char *comma = "{";
	for (size_t i = 0; i < NMEMBERS; i++) {
		const char *at = (const char *)job + members[i].offset;
		const char *text = members[i].text ? *(const char *const *)at : NULL;
		int64_t number = members[i].text ? 0 : *(const int64_t *)at;
		if (!text && !number)
			continue;
		buf_addf(out, "%s\"%s\":", comma, members[i].name);
		if (text)
			buf_add_json(out, text);
		else
			buf_addf(out, "%lld", (long long)number);
		comma = ",";
	}
	buf_add(out, "}");
}

void side_record_write(const struct side_put *put, struct buf *out)
{
	buf_add(out, "{\"token\":");
	buf_add_json(out, put->token);
	buf_addf(out, ",\"at_ms\":%lld,\"database\":", (long long)put->at_ms);
	buf_add_json(out, put->database);
	buf_add(out, ",\"jobs\":[");
	for (int i = 0; i < put->n; i++) {
		buf_add(out, i ? "," : "");
		job_write(&put->jobs[i], out);
	}
	buf_add(out, "]}");
}

static const char *text_of(const json_t *object, const char *name, struct arena *a)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? arena_strdup(a, text) : NULL;
}

static bool job_read(const json_t *object, struct arena *a, struct enqueue *job)
{
	for (size_t i = 0; i < NMEMBERS; i++) {
		char *at = (char *)job + members[i].offset;
		if (members[i].text)
			*(const char **)at = text_of(object, members[i].name, a);
		else
			*(int64_t *)at = json_integer_value(json_object_get(object, members[i].name));
	}
	return job->queue && job->kind;
}

bool side_record_read(const char *bytes, size_t n, struct arena *a, struct side_put *put)
{
	json_t *record = json_loadb(bytes, n, 0, NULL);
	const json_t *jobs = json_object_get(record, "jobs");
	*put = (struct side_put){.token = text_of(record, "token", a),
	                         .database = text_of(record, "database", a),
	                         .at_ms = json_integer_value(json_object_get(record, "at_ms")),
	                         .n = (int)json_array_size(jobs)};
	bool good = put->token && put->database && put->n > 0;
	put->jobs = ARENA_ARRAY(a, struct enqueue, put->n);
	for (int i = 0; good && i < put->n; i++)
		good = job_read(json_array_get(jobs, (size_t)i), a, &put->jobs[i]);
	json_decref(record);
	return good;
}

void side_put_count_delays(struct side_put *put, int64_t now_ms)
{
	/* A clock that was set back must not make anybody wait longer than he asked for. */
	int64_t waited_ms = now_ms > put->at_ms ? now_ms - put->at_ms : 0;
	for (int i = 0; i < put->n; i++) {
		int64_t *delay_ms = &put->jobs[i].delay_ms;
		*delay_ms = *delay_ms > waited_ms ? *delay_ms - waited_ms : 0;
	}
}
