/* SPDX-License-Identifier: Apache-2.0 */
/* spool_results.c: a result as a record, see spools.h. */
#include "worker/spools.h"

#include "worker/workflow.h"

#include <jansson.h>

static void add_text(struct buf *out, const char *name, const char *text)
{
	if (!text)
		return;
	buf_addf(out, ",\"%s\":", name);
	buf_add_json(out, text);
}

void spool_result_encode(const struct spool_result *r, struct buf *out)
{
	const struct settlement *e = &r->end;
	AUTO_BUF step = BUF_INIT;
	buf_addf(out, "{\"worker\":%lld,\"epoch\":%lld,\"delay_ms\":%lld,\"as\":\"%s\"",
	         (long long)r->worker, (long long)e->epoch, (long long)e->delay_ms,
	         settle_names[e->as]);
	add_text(out, "source", r->source);
	add_text(out, "key", e->key);
	add_text(out, "token", r->token);
	add_text(out, "result", e->result);
	add_text(out, "error", e->error);
	if (e->step.side != STEP_SIDE_NONE) {
		step_end_json(&e->step, &step);
		add_text(out, "step", buf_text(&step));
	}
	buf_add(out, "}");
}

static const char *text_of(const json_t *record, const char *name, struct arena *a)
{
	const char *text = json_string_value(json_object_get(record, name));
	return text ? arena_strdup(a, text) : NULL;
}

static int64_t number_of(const json_t *record, const char *name)
{
	return json_integer_value(json_object_get(record, name));
}

static bool as_named(const char *name, enum settle_as *out)
{
	for (int i = 0; name && settle_names[i]; i++)
		if (text_eq(settle_names[i], name)) {
			*out = (enum settle_as)i;
			return true;
		}
	return false;
}

bool spool_result_decode(const char *bytes, size_t n, struct arena *a, struct spool_result *out)
{
	json_auto_t *record = json_read_bytes(bytes, n, 0);
	*out = (struct spool_result){
		.source = text_of(record, "source", a),
		.worker = number_of(record, "worker"),
		.token = text_of(record, "token", a),
		.end = {.key = text_of(record, "key", a),
	            .epoch = number_of(record, "epoch"),
	            .result = text_of(record, "result", a),
	            .error = text_of(record, "error", a),
	            .delay_ms = number_of(record, "delay_ms")},
	};
	bool whole = out->source && out->end.key &&
	             as_named(json_string_value(json_object_get(record, "as")), &out->end.as) &&
	             step_end_parse(text_of(record, "step", a), a, &out->end.step);
	out->source = out->source ? out->source : "";
	out->end.key = out->end.key ? out->end.key : "";
	return whole;
}
