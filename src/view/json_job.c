/* json_job.c: see json_job.h. */
#include "view/json_job.h"

#include "base/clock.h"
#include "ledger/causes.h"
#include "recover/evidence.h"
#include "recover/masked.h"
#include "view/job_words.h"
#include "view/json.h"
#include "watch/terms.h"

void job_qualified(const struct watch *w, const char *job, struct buf *out)
{
	buf_addf(out, "%s/%s", w->name, job);
}

void key_json(const struct watch *w, const char *job, struct buf *out)
{
	buf_add(out, ",\"key\":");
	if (w->key.n == 1)
		buf_add_json(out, job);
	else
		buf_add(out, job); /* a composite key is a JSON array already */
}

static void json_shown(const struct watch *w, const struct facts *f, struct buf *out)
{
	struct buf value = BUF_INIT;
	buf_add(out, ",\"show\":{");
	for (int i = 0; i < w->show.n; i++) {
		buf_add(out, i ? "," : "");
		buf_add_json(out, w->show.items[i]);
		buf_add(out, ":");
		buf_clear(&value);
		if (f->show[i])
			masked_text(w, NULL, w->show.items[i], f->show[i], &value);
		if (f->show[i])
			buf_add_json(out, buf_text(&value));
		else
			buf_add(out, "null");
	}
	buf_add(out, "}");
	buf_release(&value);
}

void browsed_json(const struct watch *w, const struct database *d, const struct browsed *row,
                  struct buf *out)
{
	const struct facts *f = &row->facts;
	const struct judgement *j = &row->judgement;
	struct buf text = BUF_INIT;
	job_qualified(w, row->job, &text);
	buf_add(out, "{\"job\":");
	buf_add_json(out, buf_text(&text));
	json_text(out, "database", d->name);
	json_text(out, "watch", w->name);
	key_json(w, row->job, out);
	json_text(out, "state", row->state);
	json_text(out, "state_name", state_named(w, row->state));
	json_text(out, "kind", f->kind);
	json_seconds(out, "age_s", row->has_since, f->now_us - row->since_us);
	buf_addf(out, ",\"running\":%s", f->running ? "true" : "false");
	json_text(out, "verdict", j->verdict ? verdict_names[j->verdict] : NULL);
	json_seconds(out, "measured_s", j->measured, j->measured_us);
	json_seconds(out, "limit_s", j->measured, j->limit_us);
	buf_clear(&text);
	if (f->owner)
		shown_owner(w, f->owner, &text);
	json_text(out, "owner", f->owner ? buf_text(&text) : NULL);
	json_number(out, "attempts", f->has_attempts, f->attempts);
	json_number(out, "max_attempts", f->has_max_attempts, f->max_attempts);
	json_number(out, "epoch", f->has_epoch, f->epoch);
	json_text(out, "held", f->held ? (f->hold_cause ? f->hold_cause : HOLD_BY_HAND) : NULL);
	buf_clear(&text);
	if (f->held && f->hold_reason)
		hold_reason_words(w, f, &text);
	json_text(out, "hold_reason", f->held && f->hold_reason ? buf_text(&text) : NULL);
	buf_clear(&text);
	if (row->has_retry)
		time_iso(row->retry_us, &text);
	json_text(out, "retry_at", row->has_retry ? buf_text(&text) : NULL);
	json_shown(w, f, out);
	buf_release(&text);
}

void claim_json(const struct claim *c, bool there, struct buf *out)
{
	buf_add(out, ",\"claim\":");
	if (!there) {
		buf_add(out, "null");
		return;
	}
	buf_add(out, "{\"application\":");
	buf_add_json(out, c->application);
	json_number(out, "pid", true, c->pid);
	json_text(out, "program", c->program);
	json_text(out, "host", c->host);
	json_time(out, "since", true, c->at_us);
	buf_add(out, "}");
}
