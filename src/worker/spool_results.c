/* SPDX-License-Identifier: Apache-2.0 */
/* spool_results.c: results, see spools.h. */
#include "worker/spools.h"

#include "base/hash.h"
#include "worker/workflow.h"

#include <jansson.h>

#define PEEK_BYTES (4 << 20) /* at once */

static void ids_push(struct spool_list *l, uint64_t id)
{
	if (l->first + l->n == l->cap && l->first > l->n) {
		memmove(l->ids, l->ids + l->first, sizeof *l->ids * (size_t)l->n);
		l->first = 0;
	}
	if (l->first + l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->ids = mem_grow(l->ids, sizeof *l->ids * (size_t)l->cap);
	}
	l->ids[l->first + l->n++] = id;
}

static void ids_pop(struct spool_list *l, int n)
{
	n = n < l->n ? n : l->n;
	l->first += n;
	l->n -= n;
}

bool list_has(const struct spool_list *l, int from, uint64_t id)
{
	for (int i = from; i < l->n; i++)
		if (l->ids[l->first + i] == id)
			return true;
	return false;
}

const char *list_result(const struct spool_list *l, const struct spool_record *r, size_t *n)
{
	const char *end = l->aside ? memchr(r->bytes, '\n', r->n) : NULL;
	size_t skip = end ? (size_t)(end - r->bytes) + 1 : 0;
	*n = r->n - skip;
	return r->bytes + skip;
}

struct loading {
	struct spool_list *list;
	char **source;
};

static void load_record(void *ctx, const char *bytes, size_t n)
{
	struct loading *to = ctx;
	AUTO_ARENA a = ARENA_INIT;
	struct spool_result r;
	struct spool_record raw = {.bytes = bytes, .n = n};
	const char *result = list_result(to->list, &raw, &n);
	(void)spool_result_decode(result, n, &a, &r);
	if (!*to->source && r.source[0])
		*to->source = mem_strdup(r.source);
	ids_push(to->list, spool_result_id(r.worker, r.end.key, r.end.epoch));
}

static defib_err load(struct spool_list *l, char **source, struct failure *f)
{
	struct loading loading = {l, source};
	l->first = l->n = 0;
	return spool_walk(l->spool, load_record, &loading, f);
}

defib_err list_open(struct spool_list *l, const char *path, char **source, struct failure *f)
{
	struct spool_options o = {.folder = path, .max_bytes = INT64_MAX, .owned = true};
	defib_err err = spool_open(&o, &l->spool, f);
	return err ? err : load(l, source, f);
}

void list_close(struct spool_list *l)
{
	spool_close(l->spool);
	free(l->ids);
}

int64_t list_count(const struct spool_list *l)
{
	return l->spool ? spool_count(l->spool) : 0;
}

int64_t list_bytes(const struct spool_list *l)
{
	return l->spool ? spool_bytes(l->spool) : 0;
}

struct spool_record list_record(const struct spool_list *l, const char *why, const char *bytes,
                                size_t n, struct arena *a)
{
	size_t len = l->aside ? strnlen(why, SPOOL_WHY_MOST) : 0;
	char *text = arena_alloc(a, len + 1 + n + 1);
	for (size_t i = 0; i < len; i++)
		text[i] = (unsigned char)why[i] < ' ' ? ' ' : why[i];
	if (l->aside)
		text[len++] = '\n';
	memcpy(text + len, bytes, n);
	return (struct spool_record){.bytes = text, .n = len + n};
}

defib_err list_append(struct spool_list *l, const struct spool_record *all, const uint64_t *ids,
                      int n, struct failure *f)
{
	defib_err err = n > 0 ? spool_append_many(l->spool, all, n, f) : DEFIB_OK;
	for (int i = 0; !err && i < n; i++)
		ids_push(l, ids[i]);
	return err;
}

int list_peek(struct spool_list *l, struct spools_record *out, int most, struct arena *a)
{
	struct spool_record *raw = ARENA_ARRAY(a, struct spool_record, most);
	int n = l->spool ? spool_peek_many(l->spool, raw, most, PEEK_BYTES, a) : 0;
	for (int i = 0; i < n; i++) {
		size_t len;
		const char *result = list_result(l, &raw[i], &len);
		out[i] = (struct spools_record){.raw = raw[i]};
		if (l->aside)
			out[i].why = arena_strndup(a, raw[i].bytes, raw[i].n - len - (raw[i].n > len));
		out[i].whole = spool_result_decode(result, len, a, &out[i].result);
	}
	return n;
}

defib_err list_take(struct spool_list *l, const struct spools_record *all, int n, struct failure *f)
{
	char *unused = NULL;
	struct spool_record *raw = mem_alloc(sizeof *raw * (size_t)n);
	for (int i = 0; i < n; i++)
		raw[i] = all[i].raw;
	defib_err err = spool_take_many(l->spool, raw, n, f);
	free(raw);
	if (!err)
		ids_pop(l, n);
	if (!err && l->n != list_count(l)) /* damaged since the open */
		err = load(l, &unused, f);
	free(unused);
	return err;
}

defib_err list_drop_repeated(struct spool_list *l, const struct spool_list *other, int from,
                             struct failure *f)
{
	defib_err err = DEFIB_OK;
	const char *bytes;
	size_t n;
	while (!err && l->n > 0 && list_has(other, from, l->ids[l->first]) &&
	       spool_peek(l->spool, &bytes, &n)) {
		err = spool_take(l->spool, f);
		if (!err)
			ids_pop(l, 1);
	}
	return err;
}

void list_why(struct spool_list *l, char out[SPOOL_WHY_MOST + 1])
{
	struct spool_record r = {0};
	size_t len;
	out[0] = '\0';
	if (list_count(l) == 0 || !spool_peek(l->spool, &r.bytes, &r.n))
		return;
	(void)list_result(l, &r, &len);
	size_t n = r.n - len > 0 ? r.n - len - 1 : 0;
	snprintf(out, SPOOL_WHY_MOST + 1, "%.*s", (int)(n < SPOOL_WHY_MOST ? n : SPOOL_WHY_MOST),
	         r.bytes);
}

/* ---- one result ---- */

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

/* Ids are not chosen to collide; anyone who did would only delay their own job. */
uint64_t spool_result_id(int64_t worker, const char *key, int64_t epoch)
{
	uint64_t hash = fnv1a(FNV_START, &worker, sizeof worker);
	hash = fnv1a(hash, &epoch, sizeof epoch);
	return fnv1a(hash, key, strlen(key));
}
