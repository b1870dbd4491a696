/* job_words.c: see job_words.h. */
#include "view/job_words.h"

#include "base/clock.h"
#include "ledger/causes.h"
#include "recover/masked.h"
#include "watch/terms.h"

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

void hold_reason_words(const struct watch *w, const struct facts *f, struct buf *out)
{
	struct secrets secrets = {0};
	secrets_facts(&secrets, w, f);
	masked_words(w, &secrets, f->hold_reason, out);
	secrets_release(&secrets);
}

void note_words(const struct watch *w, const struct browsed *row, struct buf *out)
{
	const struct facts *f = &row->facts;
	if (f->held)
		buf_addf(out, "held: %s", f->hold_cause ? f->hold_cause : HOLD_BY_HAND);
	if (f->held && f->hold_reason) {
		buf_add(out, ", ");
		hold_reason_words(w, f, out);
	}
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
