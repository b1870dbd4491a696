/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/mistakes.h"

#include "ledger/events.h"
#include "ledger/jobs.h"
#include "recover/decide.h"
#include "recover/judge.h"

void mistakes_text(int64_t mistakes, int64_t recoveries, struct buf *out)
{
	buf_addf(out, "%lld of %lld", (long long)mistakes, (long long)recoveries);
	if (recoveries)
		buf_addf(out, " (%.1f %%)", 100 * (double)mistakes / (double)recoveries);
}

/* For which of them late_when is true. */
static defib_err ask_table(struct store *s, const struct binding *b, const struct recovered *all,
                           int n, struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX];
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	key_list(b, "t.", &sql);
	from_keys(b, &sql);
	buf_addf(&sql, "\nWHERE (%s)", b->watch->late_when.text);
	jobs_keys(b, JOBS_OF(all, job, n, a), n, a, &r);
	relation_params(&r, params);
	*rows = (struct store_rows){0};
	defib_err err = DEFIB_OK;
	if (r.nrows)
		err = store_read(s, buf_text(&sql), params, relation_nparams(&r), a, rows, f);
	if (store_blames_sql(err))
		fail_prefix(f, "watch %s, late_when", b->watch->name);
	return err;
}

static const char *evidence_of(const struct recovered *r, struct arena *a)
{
	AUTO_BUF text = BUF_INIT;
	buf_add(&text, "{\"recovered_as\":");
	buf_add_json(&text, r->event);
	buf_add(&text, ",\"recovered_at\":");
	buf_add_json(&text, r->at);
	if (r->owner) {
		buf_add(&text, ",\"owner\":");
		buf_add_json(&text, r->owner);
	}
	buf_add(&text, "}");
	return arena_strdup(a, buf_text(&text));
}

static defib_err mistakes_note_one(struct store *s, const struct binding *b, const char *actor,
                                   const struct recovered *all, int n,
                                   const struct store_rows *rows, struct arena *a, int64_t *noted,
                                   struct failure *f)
{
	struct ledger_entry *entries = ARENA_ARRAY(a, struct ledger_entry, rows->nrows + 1);
	struct ledger_context ctx = {b->watch->name, "late", actor};
	struct job_index index;
	int count = 0;
	job_index_init(&index, JOBS_OF(all, job, n, a), n, a);
	for (int i = 0; i < rows->nrows; i++) {
		const char *const *key = &rows->cells[(size_t)i * (size_t)rows->ncols];
		int at = job_index_find(&index, job_text(key, b->watch->key.n, a));
		if (at < 0)
			continue;
		entries[count++] = (struct ledger_entry){
			.job = all[at].job,
			.event = ENTRY_LATE_COMPLETION,
			.rule = LATE_RULE,
			.reason = "late_when holds: its old worker finished it after all",
			.evidence = evidence_of(&all[at], a),
		};
	}
	return mistakes_note(s, &ctx, entries, count, LATE_WITHIN_US, a, noted, f);
}

defib_err late_check(struct store *s, const struct binding *b, const char *actor, int64_t *noted,
                     struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct recovered *all = NULL;
	struct store_rows rows;
	int n = 0;
	*noted = 0;
	if (!b->watch->late_when.text)
		return DEFIB_OK;
	defib_err err =
		mistakes_candidates(s, b->watch->name, LATE_WITHIN_US, LATE_JOBS, &a, &all, &n, f);
	if (!err && n)
		err = ask_table(s, b, all, n, &a, &rows, f);
	if (!err && n && rows.nrows)
		err = mistakes_note_one(s, b, actor, all, n, &rows, &a, noted, f);
	return err;
}

/* ---- near misses ---- */

defib_err near_misses(const struct look *l, const struct gone_suspect *gone, int ngone, int64_t *n,
                      struct failure *f)
{
	struct facts *facts;
	*n = 0;
	ngone = ngone < NEAR_MISSES_MAX ? ngone : NEAR_MISSES_MAX;
	defib_err err = look_each(l, JOBS_OF(gone, job, ngone, l->arena), ngone, &facts, f);
	for (int i = 0; !err && i < ngone; i++) {
		bool well =
			facts[i].running && judge(l->sql->binding->watch, &facts[i]).verdict == VERDICT_NONE;
		*n += well && is_near_miss(&gone[i], &facts[i]);
	}
	return err;
}
