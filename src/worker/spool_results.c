/* SPDX-License-Identifier: Apache-2.0 */
/* spool_results.c: a result as a record, see spools.h. */

#include "worker/spool_results.h"

#include "worker/spools.h"
#include "worker/workflow.h"

#include <jansson.h>

static void spool_result_add_text(struct buf *out, const char *name, const char *text)
{
	if (!text)
		return;
	buf_add(out, ",\"");
	buf_add(out, name);
	buf_add(out, "\":");
	buf_add_json(out, text);
}

void spool_result_encode(const struct spool_result *r, struct buf *out)
{
	const struct settlement *e = &r->end;
	AUTO_BUF step = BUF_INIT;
	buf_add(out, "{\"worker\":");
	buf_addint(out, r->worker);
	buf_add(out, ",\"epoch\":");
	buf_addint(out, e->epoch);
	buf_add(out, ",\"delay_ms\":");
	buf_addint(out, e->delay_ms);
	spool_result_add_text(out, "as", settle_names[e->as]);
	spool_result_add_text(out, "source", r->source);
	spool_result_add_text(out, "key", e->key);
	spool_result_add_text(out, "token", r->token);
	spool_result_add_text(out, "result", e->result);
	spool_result_add_text(out, "error", e->error);
	if (e->step.side != STEP_SIDE_NONE) {
		step_end_json(&e->step, &step);
		spool_result_add_text(out, "step", buf_text(&step));
	}
	buf_add(out, "}");
}

static const char *spool_result_text_of(const json_t *record, const char *name, struct arena *a)
{
	const char *text = json_string_value(json_object_get(record, name));
	return text ? arena_strdup(a, text) : NULL;
}

static int64_t spool_result_number_of(const json_t *record, const char *name)
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
		.source = spool_result_text_of(record, "source", a),
		.worker = spool_result_number_of(record, "worker"),
		.token = spool_result_text_of(record, "token", a),
		.end = {.key = spool_result_text_of(record, "key", a),
	            .epoch = spool_result_number_of(record, "epoch"),
	            .result = spool_result_text_of(record, "result", a),
	            .error = spool_result_text_of(record, "error", a),
	            .delay_ms = delay_limited(spool_result_number_of(record, "delay_ms"))},
	};
	bool whole = out->source && out->end.key &&
	             as_named(json_string_value(json_object_get(record, "as")), &out->end.as) &&
	             step_end_parse(spool_result_text_of(record, "step", a), a, &out->end.step);
	out->source = out->source ? out->source : "";
	out->end.key = out->end.key ? out->end.key : "";
	return whole;
}
