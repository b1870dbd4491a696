/* SPDX-License-Identifier: Apache-2.0 */
/* act.c: see act.h. */
#include "view/act.h"

#include "base/text.h"
#include "recover/masked.h"
#include "view/job.h"
#include "view/json.h"
#include "view/scan.h"
#include "view/terminal.h"

void act_begin_json(const char *verb, bool dry_run, struct buf *out)
{
	buf_add(out, "{\"act\":");
	buf_add_json(out, verb);
	json_bool(out, "dry_run", dry_run);
	buf_add(out, ",\"watches\":[");
}

void act_group_begin_json(const struct watch *w, const struct database *d, struct buf *out)
{
	scan_begin_json(w, d, out);
}

void act_detail(const struct watch *w, const struct candidate *c, struct buf *out)
{
	struct candidate plain = *c;
	plain.refusal = NULL;
	candidate_words(w, &plain, out);
}

void act_job_json(const struct watch *w, const struct candidate *c, enum outcome good,
                  struct buf *out)
{
	struct buf job = BUF_INIT, detail = BUF_INIT;
	job_qualified(w, c->facts.job, &job);
	act_detail(w, c, &detail);
	buf_add(out, "{\"job\":");
	buf_add_json(out, buf_text(&job));
	json_text(out, "outcome", c->outcome == good ? "done" : outcome_names[c->outcome]);
	json_text(out, "detail", detail.len ? buf_text(&detail) : NULL);
	masked_member(w, NULL, "refusal", c->refusal, out);
	masked_member(w, NULL, "warning", c->refusal ? NULL : c->warning, out);
	buf_add(out, "}");
	buf_release(&job);
	buf_release(&detail);
}

void act_group_end_json(const struct by_hand_result *r, struct buf *out)
{
	buf_add(out, "]");
	for (int i = 0; i < OUTCOME_COUNT; i++)
		json_number(out, outcome_names[i], true, r->outcomes[i]);
	json_text(out, "batch", r->batch[0] ? r->batch : NULL);
	json_text(out, "error", r->failure.code ? r->failure.what : NULL);
	buf_add(out, "}");
}

/* What became of a job, where another word says it better than the outcome's own. */
static const char *const otherwise[OUTCOME_COUNT] = {
	[OUTCOME_LEFT] = "left as it is",
	[OUTCOME_CHANGED] = "changed since",
	[OUTCOME_LOCKED] = "locked by another transaction",
	[OUTCOME_MISSING] = "not found",
};

enum outcome act_good(const struct act_words *r)
{
	return r->dry_run ? OUTCOME_LEFT : r->good;
}

static void outcome_text(const struct act_words *r, enum outcome o, struct buf *out)
{
	if (o == act_good(r))
		buf_addf(out, "%s%s", r->dry_run ? "would be " : "", r->done);
	else
		buf_add(out, otherwise[o] ? otherwise[o] : outcome_names[o]);
}

void act_question(struct buf *out, const char *verb, int64_t n, const struct watch *w,
                  const struct database *d)
{
	buf_addf(out, "%s%s ", out->len ? "; " : "", verb);
	out_count(out, n);
	buf_addf(out, " job%s of watch %s in database %s (", n == 1 ? "" : "s", w->name, d->name);
	url_redact(d->url, out);
	buf_add(out, ")");
}

void act_job_text(const struct act_words *r, const struct watch *w, const struct candidate *c,
                  bool color, struct buf *out)
{
	bool good = c->outcome == act_good(r);
	struct buf part = BUF_INIT;
	job_qualified(w, c->facts.job, &part);
	buf_add(out, "  ");
	out_padded(out, buf_text(&part), 0);
	buf_clear(&part);
	outcome_text(r, c->outcome, &part);
	buf_add(out, "  ");
	out_color(out, color, good ? COLOR_GREEN : COLOR_YELLOW, buf_text(&part));
	if (c->refusal) {
		buf_add(out, ": ");
		out_padded(out, c->refusal, 0);
	}
	if (good && c->warning) {
		buf_add(out, ": ");
		out_padded(out, c->warning, 0);
	}
	buf_clear(&part);
	act_detail(w, c, &part);
	buf_add(out, part.len ? "  " : "");
	out_padded(out, buf_text(&part), 0);
	buf_release(&part);
}

void act_counts_text(const struct act_words *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out)
{
	struct buf counts = BUF_INIT;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (result->outcomes[i]) {
			buf_add(&counts, counts.len ? ", " : "");
			out_count(&counts, result->outcomes[i]);
			buf_add(&counts, " ");
			outcome_text(r, (enum outcome)i, &counts);
		}
	if (counts.len)
		buf_addf(out, "%s/%s: %s\n", d->name, w->name, buf_text(&counts));
	buf_release(&counts);
}
