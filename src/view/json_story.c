/* json_story.c: see json_story.h. */
#include "view/json_story.h"

#include "recover/masked.h"
#include "view/json.h"
#include "view/json_job.h"
#include "view/story_words.h"

static void json_document(const struct watch *w, const struct secrets *s, const char *name,
                          const char *text, struct buf *out)
{
	buf_addf(out, ",\"%s\":", name);
	masked_document(w, s, text, out);
}

static void add_row(const struct watch *w, const struct story *s, const struct secrets *secrets,
                    struct buf *out)
{
	struct buf value = BUF_INIT;
	buf_add(out, ",\"row\":{");
	for (int i = 0; i < s->ncolumns; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, s->names[i]);
		buf_add(out, ":");
		buf_clear(&value);
		if (s->values[i])
			masked_text(w, secrets, s->names[i], s->values[i], &value);
		if (s->values[i])
			buf_add_json(out, buf_text(&value));
		else
			buf_add(out, "null");
	}
	buf_add(out, "}");
	buf_release(&value);
}

static void add_steps(const struct watch *w, const struct story *s, const struct secrets *secrets,
                      struct buf *out)
{
	buf_add(out, ",\"steps\":[");
	for (int i = 0; i < s->nsteps; i++) {
		const struct story_step *step = &s->steps[i];
		buf_addf(out, "%s{\"position\":%lld", i ? "," : "", (long long)step->position);
		json_text(out, "step", step->name);
		json_text(out, "state", step->state);
		json_number(out, "epoch", true, step->epoch);
		json_document(w, secrets, "output", step->output, out);
		masked_member(w, secrets, "error", step->error, out);
		json_time(out, "started_at", step->has_started, step->started_us);
		json_time(out, "finished_at", true, step->finished_us);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void add_progress(const struct watch *w, const struct story_progress *p,
                         const struct secrets *secrets, struct buf *out)
{
	if (!p->there) {
		buf_add(out, ",\"progress\":null");
		return;
	}
	buf_addf(out, ",\"progress\":{\"epoch\":%lld", (long long)p->epoch);
	json_text(out, "step", p->step);
	masked_member(w, secrets, "progress", p->text, out);
	json_time(out, "at", true, p->at_us);
	buf_add(out, "}");
}

/* Only jobs of the built-in queue have it: elsewhere they are columns of the row. */
static void add_data(const struct watch *w, const struct story_data *d,
                     const struct secrets *secrets, struct buf *out)
{
	const struct {
		const char *name, *text;
	} parts[] = {{"payload", d->payload}, {"result", d->result}, {"tags", d->tags}};
	for (size_t i = 0; d->there && i < sizeof parts / sizeof *parts; i++) {
		buf_addf(out, ",\"%s\":", parts[i].name);
		masked_exactly(w, secrets, parts[i].name, parts[i].text, out);
	}
}

static void add_guards(const struct watch *w, const struct story *s, const struct secrets *secrets,
                       struct buf *out)
{
	buf_add(out, ",\"hold\":");
	if (s->has_hold) {
		buf_addf(out, "{\"holds\":%s", s->row.facts.held ? "true" : "false");
		json_text(out, "at", s->hold.at);
		json_text(out, "cause", s->hold.cause);
		masked_member(w, secrets, "reason", s->hold.reason, out);
		json_text(out, "batch", s->hold.batch);
	}
	buf_add(out, s->has_hold ? "},\"retry\":" : "null,\"retry\":");
	if (s->has_retry) {
		buf_addf(out, "{\"attempt\":%lld", (long long)s->retry.attempt);
		json_time(out, "due_at", true, s->retry.due_us);
		masked_member(w, secrets, "reason", s->retry.reason, out);
		json_text(out, "batch", s->retry.batch);
	}
	buf_add(out, s->has_retry ? "}" : "null");
}

static void add_entries(const struct watch *w, const struct story *s, const struct secrets *secrets,
                        struct buf *out)
{
	buf_add(out, ",\"ledger\":[");
	for (int i = 0; i < s->nentries; i++) {
		const struct ledger_row *r = &s->entries[i];
		buf_addf(out, "%s{\"id\":%lld", i ? "," : "", (long long)r->id);
		json_text(out, "at", r->at);
		json_text(out, "batch", r->batch);
		json_text(out, "event", r->event);
		json_text(out, "actor", r->actor);
		json_text(out, "verdict", r->verdict);
		json_text(out, "rule", r->rule);
		masked_member(w, secrets, "reason", r->reason, out);
		json_document(w, secrets, "evidence", r->evidence, out);
		json_document(w, secrets, "before", r->before, out);
		json_document(w, secrets, "after", r->after, out);
		json_number(out, "epoch", r->has_epoch, r->epoch);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

void story_json(const struct watch *w, const struct database *d, const struct story *s,
                const struct candidate *cand, struct buf *out)
{
	static const char *const moments[] = {"created_at", "started_at", "finished_at"};
	struct buf sentence = BUF_INIT;
	struct secrets secrets = {0};
	bool stuck = cand->judgement.verdict != VERDICT_NONE;
	story_sentence(w, s, cand, &sentence);
	browsed_json(w, d, &s->row, out);
	story_secrets(w, s, &secrets);
	json_text(out, "sentence", buf_text(&sentence));
	json_text(out, "law", cand->judgement.rule->id);
	json_text(out, "remedy", stuck ? remedy_names[cand->decision.remedy] : NULL);
	json_text(out, "rule", stuck ? cand->decision.rule : NULL);
	for (int m = 0; m < MOMENT_COUNT; m++)
		json_time(out, moments[m], s->has[m], s->at_us[m]);
	add_row(w, s, &secrets, out);
	add_steps(w, s, &secrets, out);
	add_progress(w, &s->progress, &secrets, out);
	add_data(w, &s->data, &secrets, out);
	add_guards(w, s, &secrets, out);
	claim_json(&s->claim, s->has_claim, out);
	add_entries(w, s, &secrets, out);
	buf_add(out, "}");
	secrets_release(&secrets);
	buf_release(&sentence);
}
