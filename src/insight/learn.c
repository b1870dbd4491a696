/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/learn.h"

#include "ledger/overrides.h"
#include "recover/census.h"
#include "recover/look.h"
#include "watch/stats_sql.h"

#include <jansson.h>

/* Ends further in the future than clocks can differ are invalid; one would hide all later ones. */
#define AHEAD_US (INT64_C(60) * 1000000)

struct learned_kind *learned_find(struct learned *l, const char *kind, struct arena *a)
{
	if (!l->kinds) {
		l->kinds = ARENA_ARRAY(a, struct learned_kind, LEARN_KINDS_MAX + 2);
		l->kinds[l->n++].kind = "";
	}
	for (int i = 0; i < l->n; i++)
		if (text_eq(l->kinds[i].kind, kind ? kind : ""))
			return &l->kinds[i];
	if (l->n > LEARN_KINDS_MAX && !text_eq(kind, LEARN_OTHER))
		return learned_find(l, LEARN_OTHER, a);
	l->kinds[l->n].kind = arena_strdup(a, kind);
	return &l->kinds[l->n++];
}

/* The "" row belongs to the watch: it has the cursor too. */
static int64_t read_cursor(const char *document)
{
	json_auto_t *root = json_loads(document, 0, NULL);
	int64_t us = json_integer_value(json_object_get(root, "cursor_us"));
	return us >= 0 && us <= ROW_INT_MOST ? us : 0;
}

static defib_err learn_read_known(struct store *s, const char *watch, struct arena *a,
                                  struct learned *out, struct failure *f)
{
	struct learned_row *rows;
	int n = 0;
	defib_err err = learned_read(s, watch, a, &rows, &n, f);
	for (int i = 0; !err && i < n; i++) {
		struct learned_kind *k = learned_find(out, rows[i].kind, a);
		struct run_times times;
		run_times_read(&times, rows[i].document);
		run_times_fade(&times, out->now_us);
		run_times_merge(&k->times, &times);
		if (*k->kind)
			continue;
		out->was = rows[i].document;
		out->cursor_us = read_cursor(rows[i].document);
	}
	return err;
}

/* A read-only database does not prevent learning for the duration of the call. */
static defib_err forgive(defib_err err, struct learned *l, struct failure *f)
{
	if (err != DEFIB_PERMISSION && err != DEFIB_LOCKED && err != DEFIB_READ_ONLY)
		return err;
	l->not_stored = *f;
	fail_clear(f);
	return DEFIB_OK;
}

defib_err learn_recall(struct store *s, const char *watch, struct arena *a, struct learned *out,
                       struct failure *f)
{
	bool there = false;
	*out = (struct learned){0};
	defib_err err = census_now(s, &out->now_us, f);
	if (!err)
		err = forgive(daemon_table_open(s, "learned", false, &there, f), out, f);
	return err || !there ? err : learn_read_known(s, watch, a, out, f);
}

static void add_runs(struct learned *l, const struct finished_run *runs, int n, struct arena *a)
{
	for (int i = 0; i < n; i++) {
		struct learned_kind *k = learned_find(l, runs[i].kind, a);
		run_times_add(&k->times, runs[i].took_us, l->now_us);
		k->changed = true;
	}
	l->observed = n;
}

static const char *learn_document_of(const struct learned *l, const struct learned_kind *k,
                                     struct arena *a)
{
	AUTO_BUF text = BUF_INIT;
	buf_add(&text, "{");
	if (!*k->kind)
		buf_addf(&text, "\"cursor_us\":%lld,", (long long)l->cursor_us);
	run_times_json(&k->times, &text);
	buf_add(&text, "}");
	return arena_strdup(a, buf_text(&text));
}

/* Store what changed, and always the cursor's row; delete what has faded to nothing. */
static defib_err keep_it(struct store *s, const char *watch, struct learned *l, struct arena *a,
                         struct failure *f)
{
	struct learned_row *rows = ARENA_ARRAY(a, struct learned_row, l->n);
	int n = 0;
	for (int i = 0; i < l->n; i++) {
		const struct learned_kind *k = &l->kinds[i];
		bool gone = *k->kind && run_times_n(&k->times) <= 0;
		if (gone)
			rows[n++] = (struct learned_row){k->kind, NULL};
		else if (k->changed || !*k->kind)
			rows[n++] = (struct learned_row){k->kind, learn_document_of(l, k, a)};
	}
	bool taken = false;
	defib_err err = learned_write(s, watch, l->was, rows, n, a, &taken, f);
	l->stored = !err; /* if not taken, another process counted the same runs meanwhile */
	return err;
}

defib_err learn_observe(struct store *s, const struct binding *b, bool keep, struct arena *a,
                        struct learned *out, struct failure *f)
{
	const char *watch = b->watch->name;
	struct runs_page page = {.limit = LEARN_ROWS};
	bool there = false;
	*out = (struct learned){0};
	defib_err err = census_now(s, &out->now_us, f);
	if (!err)
		err = forgive(daemon_table_open(s, "learned", keep, &there, f), out, f);
	if (!err && there) {
		err = forgive(learn_read_known(s, watch, a, out, f), out, f);
		there = !out->not_stored.code;
	}
	learned_find(out, "", a);
	page.after_us = out->cursor_us;
	page.until_us = out->now_us + AHEAD_US;
	if (!err)
		err = runs_read(s, b, &page, a, f);
	if (err)
		return err;
	out->sampled = page.more;
	out->stored = there;
	add_runs(out, page.runs, page.n, a);
	if (page.last_us == out->cursor_us)
		return DEFIB_OK;
	out->cursor_us = page.last_us;
	out->stored = false;
	return there && keep ? forgive(keep_it(s, watch, out, a, f), out, f) : DEFIB_OK;
}

/* ---- runs that ended ---- */

bool runs_known(const struct watch *w)
{
	return w->stats.started_at.text && w->stats.finished_at.text;
}

defib_err runs_read(struct store *s, const struct binding *b, struct runs_page *page,
                    struct arena *a, struct failure *f)
{
	struct store_param params[] = {P_INT(page->after_us), P_INT(page->until_us),
	                               P_INT(page->limit)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	int keys = b->watch->key.n;
	page->n = 0;
	page->last_us = page->after_us;
	page->more = false;
	bool known = runs_sql(b, &sql);
	defib_err err = known ? store_read(s, buf_text(&sql), params, 3, a, &rows, f) : DEFIB_OK;
	if (err || !known)
		return err;
	page->more = rows.nrows == page->limit;
	page->runs = ARENA_ARRAY(a, struct finished_run, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++) {
		int64_t started = row_int(&rows, i, keys + 1, 0), ended = row_int(&rows, i, keys + 2, 0);
		page->last_us = ended > page->last_us ? ended : page->last_us;
		if (ended < started)
			continue;
		page->runs[page->n++] = (struct finished_run){
			.job = job_text(&rows.cells[(size_t)i * (size_t)rows.ncols], keys, a),
			.kind = row_text(&rows, i, keys),
			.finished_us = ended,
			.took_us = ended - started,
		};
	}
	return DEFIB_OK;
}
