/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/spools.h"

#include "worker/spool_results.h"

#include <assert.h>

#define PEEK_BYTES (4 << 20) /* at once */

/* What is kept in memory for a source. */
struct spools_lane {
	char *source;
	struct spools_retry retry;
};

struct spools {
	struct spool *spool;
	struct spools_lane **lanes;
	int n;
};

defib_err spools_open(const char *folder, int64_t max_bytes, struct spools **out, struct failure *f)
{
	const struct spool_options o = {.folder = folder, .max_bytes = max_bytes};
	struct spool *spool;
	*out = NULL;
	defib_err err = spool_open(&o, &spool, f);
	if (err)
		return err;
	*out = mem_alloc(sizeof **out);
	(*out)->spool = spool;
	return DEFIB_OK;
}

void spools_close(struct spools *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->n; i++) {
		free(s->lanes[i]->source);
		free(s->lanes[i]);
	}
	free(s->lanes);
	spool_close(s->spool);
	free(s);
}

/* ---- in ---- */

/* Names one claim: the same for every record of it. */
static void claim_add(int64_t worker, const char *key, int64_t epoch, struct buf *out)
{
	buf_addint(out, worker);
	buf_addch(out, ' ');
	buf_addint(out, epoch);
	buf_addch(out, ' ');
	buf_add(out, key);
}

defib_err spools_append_many(struct spools *s, const char *source, const struct spool_result *all,
                             int n, const char *why, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct spool_record *records = ARENA_ARRAY(&a, struct spool_record, n);
	AUTO_BUF text = BUF_INIT;
	for (int i = 0; i < n; i++) {
		const struct spool_result *r = &all[i];
		buf_clear(&text);
		claim_add(r->worker, r->end.key, r->end.epoch, &text);
		size_t claim = text.len + 1;
		buf_addch(&text, '\0');
		spool_result_encode(r, &text);
		records[i].id = memcpy(arena_alloc(&a, text.len), text.data, text.len);
		records[i].database = r->database ? r->database : "";
		records[i].why = why;
		records[i].bytes = records[i].id + claim;
		records[i].n = text.len - claim;
	}
	return spool_append(s->spool, source, records, n, f);
}

/* ---- out ---- */

int spools_peek_many(struct spools *s, const char *source, enum spools_list list,
                     struct spools_record *out, int most, struct arena *a)
{
	struct spool_record *raw = ARENA_ARRAY(a, struct spool_record, most);
	int n = spool_peek(s->spool, source, list == SPOOLS_ASIDE, raw, most, PEEK_BYTES, a);
	for (int i = 0; i < n; i++) {
		out[i] = (struct spools_record){.raw = raw[i], .why = raw[i].why};
		out[i].whole =
			spool_result_decode(raw[i].bytes, raw[i].n, a, &out[i].result) && !raw[i].damaged;
		out[i].result.database = raw[i].database;
	}
	return n;
}

defib_err spools_take_many(struct spools *s, const char *source, enum spools_list list,
                           const struct spools_record *all, int n, const char *const *refused,
                           struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct spool_record *raw = ARENA_ARRAY(&a, struct spool_record, n);
	assert(n > 0);
	for (int i = 0; i < n; i++) {
		assert((all[i].raw.why != NULL) == (list == SPOOLS_ASIDE));
		raw[i] = all[i].raw;
	}
	return spool_finish(s->spool, source, raw, n, refused, f);
}

/* ---- asking ---- */

bool spools_holds(const struct spools *s, const char *source, int64_t worker, const char *key,
                  int64_t epoch)
{
	AUTO_BUF claim = BUF_INIT;
	claim_add(worker, key, epoch, &claim);
	return spool_holds(s->spool, source, buf_text(&claim));
}

int64_t spools_waiting(const struct spools *s, const char *source)
{
	return spool_count(s->spool, source, false);
}

int64_t spools_aside(const struct spools *s, const char *source)
{
	return spool_count(s->spool, source, true);
}

struct spools_retry *spools_retry(struct spools *s, const char *source)
{
	for (int i = 0; i < s->n; i++)
		if (text_eq(s->lanes[i]->source, source))
			return &s->lanes[i]->retry;
	struct spools_lane *l = mem_alloc(sizeof *l);
	l->source = mem_strdup(source);
	s->lanes = mem_grow(s->lanes, sizeof(struct spools_lane *) * (size_t)(s->n + 1));
	s->lanes[s->n++] = l;
	return &l->retry;
}

void spools_totals(const struct spools *s, struct spools_totals *out)
{
	const char *source;
	*out = (struct spools_totals){.bytes = spool_bytes(s->spool)};
	for (int i = 0; (source = spool_lane(s->spool, i)); i++) {
		int64_t aside = spools_aside(s, source);
		out->waiting += spools_waiting(s, source);
		out->set_aside += aside;
		if (aside > 0 && !out->why) {
			out->why = spool_why(s->spool, source);
			out->why_source = source;
		}
	}
}

const char *spools_source(const struct spools *s, int i)
{
	return spool_lane(s->spool, i);
}
