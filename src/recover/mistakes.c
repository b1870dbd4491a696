/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/mistakes.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "recover/decide.h"
#include "recover/look.h"
#include "watch/compile.h"

void mistakes_text(int64_t mistakes, int64_t recoveries, struct buf *out)
{
	buf_addf(out, "%lld of %lld", (long long)mistakes, (long long)recoveries);
	if (recoveries)
		buf_addf(out, " (%.1f %%)", 100 * (double)mistakes / (double)recoveries);
}

static void keys_of(const struct binding *b, const struct recovered *all, int n, struct arena *a,
                    struct relation *r)
{
	keys_relation(b, r);
	for (int i = 0; i < n; i++) {
		const char *key[WATCH_KEYS_MAX];
		if (!job_key(all[i].job, b->watch->key.n, a, key))
			continue;
		for (int k = 0; k < b->watch->key.n; k++)
			relation_text(r, key[k]);
		relation_end_row(r);
	}
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
	keys_of(b, all, n, a, &r);
	relation_params(&r, params);
	*rows = (struct store_rows){0};
	defib_err err = DEFIB_OK;
	if (r.nrows)
		err = store_read(s, buf_text(&sql), params, relation_nparams(&r), a, rows, f);
	if (err == DEFIB_BAD_SQL)
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

static defib_err note(struct store *s, const struct binding *b, const char *actor,
                      const struct recovered *all, int n, const struct store_rows *rows,
                      struct arena *a, int64_t *noted, struct failure *f)
{
	struct ledger_entry *entries = ARENA_ARRAY(a, struct ledger_entry, rows->nrows + 1);
	struct ledger_context ctx = {b->watch->name, "late", actor};
	const char **jobs = ARENA_ARRAY(a, const char *, n + 1);
	struct job_index index;
	int count = 0;
	for (int i = 0; i < n; i++)
		jobs[i] = all[i].job;
	job_index_init(&index, jobs, n, a);
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
		err = note(s, b, actor, all, n, &rows, &a, noted, f);
	return err;
}

/* ---- near misses ---- */

static int by_job(const void *job, const void *suspect)
{
	return strcmp(job, ((const struct gone_suspect *)suspect)->job);
}

defib_err near_misses(struct store *s, const struct watch_sql *q, const struct ledger *l,
                      const struct gone_suspect *gone, int ngone, struct arena *a, int64_t *n,
                      struct failure *f)
{
	struct facts *facts = NULL;
	int nfacts = 0;
	*n = 0;
	ngone = ngone < NEAR_MISSES_MAX ? ngone : NEAR_MISSES_MAX;
	const char **jobs = ARENA_ARRAY(a, const char *, ngone + 1);
	for (int i = 0; i < ngone; i++)
		jobs[i] = gone[i].job;
	defib_err err = look_jobs(s, q, l, jobs, ngone, a, &facts, &nfacts, f);
	for (int i = 0; !err && i < nfacts; i++) {
		const struct gone_suspect *was =
			bsearch(facts[i].job, gone, (size_t)ngone, sizeof *gone, by_job);
		bool well = facts[i].running && judge(q->binding->watch, &facts[i]).verdict == VERDICT_NONE;
		*n += was && well && heard_again(was, &facts[i]);
	}
	return err;
}
