/* job_words.c: see job_words.h. */
#include "cli/job_words.h"

#include "base/clock.h"
#include "cli/select.h"
#include "recover/evidence.h"

void when_words(int64_t us, int64_t now_us, struct buf *out)
{
	int64_t ahead = us - now_us;
	if (ahead > -US_PER_S && ahead < US_PER_S) {
		buf_add(out, "just now");
		return;
	}
	buf_add(out, ahead > 0 ? "in " : "");
	duration_text(ahead > 0 ? ahead : -ahead, out);
	buf_add(out, ahead > 0 ? "" : " ago");
}

void verdict_words(const struct judgement *j, struct buf *out)
{
	if (j->verdict == VERDICT_NONE)
		return;
	buf_add(out, verdict_names[j->verdict]);
	if (!j->measured)
		return;
	buf_add(out, " ");
	duration_text(j->measured_us, out);
	buf_add(out, " (limit ");
	duration_text(j->limit_us, out);
	buf_add(out, ")");
}

void attempts_words(const struct facts *f, struct buf *out)
{
	if (f->has_attempts)
		buf_addf(out, "%lld", (long long)f->attempts);
	if (f->has_attempts && f->has_max_attempts)
		buf_addf(out, " of %lld", (long long)f->max_attempts);
}

void note_words(const struct browsed *row, struct buf *out)
{
	if (row->facts.held)
		buf_addf(out, "held: %s", row->facts.hold_cause ? row->facts.hold_cause : "by hand");
	if (!row->has_retry)
		return;
	int64_t wait = row->retry_us - row->facts.now_us;
	buf_add(out, out->len ? ", retry due" : "retry due");
	if (wait > 0) {
		buf_add(out, " in ");
		duration_text(wait, out);
	} else {
		buf_add(out, " now");
	}
}

void state_words(const struct watch *w, const char *state, struct buf *out)
{
	const char *name = state_named(w, state);
	if (name)
		buf_addf(out, "%s (%s)", name, state);
	else
		buf_add(out, state ? state : "");
}

void json_text(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, ",\"%s\":", name);
	if (value)
		buf_add_json(out, value);
	else
		buf_add(out, "null");
}

void json_number(struct buf *out, const char *name, bool has, int64_t value)
{
	if (has)
		buf_addf(out, ",\"%s\":%lld", name, (long long)value);
	else
		buf_addf(out, ",\"%s\":null", name);
}

void json_seconds(struct buf *out, const char *name, bool has, int64_t us)
{
	if (has)
		buf_addf(out, ",\"%s\":%.3f", name, (double)us / 1e6);
	else
		buf_addf(out, ",\"%s\":null", name);
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
			mask_value(w, w->show.items[i], f->show[i], &value);
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
	buf_add(out, ",\"key\":");
	if (w->key.n == 1)
		buf_add_json(out, row->job);
	else
		buf_add(out, row->job); /* a composite key is a JSON array already */
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
	json_text(out, "held", f->held ? (f->hold_cause ? f->hold_cause : "by hand") : NULL);
	buf_clear(&text);
	if (row->has_retry)
		time_iso(row->retry_us, &text);
	json_text(out, "retry_at", row->has_retry ? buf_text(&text) : NULL);
	json_shown(w, f, out);
	buf_release(&text);
}
