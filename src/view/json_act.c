/* json_act.c: see json_act.h. */
#include "view/json_act.h"

#include "recover/masked.h"
#include "view/json.h"
#include "view/json_job.h"
#include "view/json_scan.h"

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
