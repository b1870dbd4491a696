/* story_words.c: see story_words.h. */
#include "view/story_words.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/events.h"
#include "recover/evidence.h"
#include "view/job_words.h"
#include "view/json_job.h"
#include "view/json_ledger.h"
#include "view/judged_job.h"
#include "watch/terms.h"

#include <jansson.h>
#include <time.h>

void entry_words(const struct watch *w, const struct ledger_row *r, struct buf *out)
{
	bool judged = r->verdict && !text_eq(r->verdict, verdict_names[VERDICT_NONE]);
	const struct event_name *e = event_named(r->event);
	buf_add(out, e ? e->phrase : r->event);
	if (judged)
		buf_addf(out, " (%s)", r->verdict);
	if (r->reason) {
		buf_add(out, ": ");
		entry_reason(w, r, out);
	}
}

static void add_scalar(const json_t *value, struct buf *out)
{
	char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	buf_add(out, text ? text : json_string_value(value));
	free(text);
}

static void one_change(const struct watch *w, const char *column, const json_t *was,
                       const json_t *is, struct buf *out)
{
	struct buf value = BUF_INIT;
	buf_addf(out, "%s%s: ", out->len ? ", " : "", column);
	add_scalar(was, &value);
	shown_value(w, column, buf_text(&value), out);
	buf_clear(&value);
	add_scalar(is, &value);
	buf_add(out, " -> ");
	shown_value(w, column, buf_text(&value), out);
	buf_release(&value);
}

void change_words(const struct watch *w, const struct ledger_row *r, bool all, struct buf *out)
{
	json_t *before = r->before ? json_loads(r->before, JSON_DECODE_ANY, NULL) : NULL;
	json_t *after = r->after ? json_loads(r->after, JSON_DECODE_ANY, NULL) : NULL;
	for (void *at = json_object_iter(before); at; at = json_object_iter_next(before, at)) {
		const char *column = json_object_iter_key(at);
		const json_t *was = json_object_iter_value(at), *is = json_object_get(after, column);
		if (is && !json_equal(was, is) && (all || strstr(w->running.text, column)))
			one_change(w, column, was, is, out);
	}
	json_decref(before);
	json_decref(after);
}

/* ---- the sentence */

/* The row's own word on what went wrong: a column named error, or …_error. */
static const char *error_of(const struct story *s)
{
	for (int i = 0; i < s->ncolumns; i++) {
		const char *name = s->names[i], *end = strrchr(name, '_');
		if (s->values[i] && *s->values[i] && strcasecmp(end ? end + 1 : name, "error") == 0)
			return s->names[i];
	}
	return NULL;
}

static void add_error(const struct watch *w, const struct story *s, const char *before,
                      struct buf *out)
{
	const char *name = error_of(s);
	for (int i = 0; name && i < s->ncolumns; i++)
		if (s->names[i] == name) {
			buf_add(out, before);
			masked_text(w, NULL, name, s->values[i], out);
		}
}

static bool is_held(const struct watch *w, const struct story *s)
{
	const char *name = state_named(w, s->row.state);
	name = name ? name : s->row.state;
	return s->row.facts.held || (name && strcasecmp(name, "held") == 0);
}

static void held_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	const struct facts *f = &s->row.facts;
	if (f->held && s->has_hold)
		buf_addf(out, "is held since %s: %s%s%s", s->hold.at, hold_cause_words(s->hold.cause),
		         s->hold.reason ? " (" : "", s->hold.reason ? s->hold.reason : "");
	if (f->held && s->has_hold && s->hold.reason)
		buf_add(out, ")");
	if (!f->held || !s->has_hold)
		buf_add(out, "is held");
	if (!f->held)
		add_error(w, s, ": ", out);
	buf_add(out, "; automation leaves it alone; release it with: defib release ");
	job_qualified(w, s->row.job, out);
}

static void retry_sentence(const struct story *s, struct buf *out)
{
	const struct facts *f = &s->row.facts;
	bool due = s->retry.due_us <= f->now_us;
	buf_add(out, due ? "waits for a retry that was due " : "waits for its retry, due ");
	when_words(s->retry.due_us, f->now_us, out);
	if (s->retry.reason)
		buf_addf(out, ": %s", s->retry.reason);
	if (due)
		buf_add(out, "; the next scan with --fix carries it out");
}

static void stuck_sentence(const struct candidate *cand, struct buf *out)
{
	const struct decision *d = &cand->decision;
	buf_add(out, "is stuck: ");
	evidence_sentence(&cand->judgement, out);
	buf_addf(out, "; it will be %s at the next scan with --fix, by %s",
	         remedy_participle(d->remedy), d->rule);
}

static void running_sentence(const struct watch *w, const struct candidate *cand, struct buf *out)
{
	const struct judgement *j = &cand->judgement;
	buf_add(out, "is running");
	if (cand->facts.owner) {
		buf_add(out, " on ");
		shown_owner(w, cand->facts.owner, out);
	}
	buf_add(out, " and not stuck: ");
	if (j->measured && j->sign == SIGN_ALIVE) {
		buf_add(out, "its last sign of life is ");
		duration_text(j->measured_us > 0 ? j->measured_us : 0, out);
		buf_add(out, " old (limit ");
		duration_text(j->limit_us, out);
		buf_add(out, ")");
	} else {
		evidence_sentence(j, out);
	}
}

/* What the ledger last did to it. */
static void last_entry(const struct watch *w, const struct story *s, struct buf *out)
{
	int64_t at;
	if (s->nentries == 0)
		return;
	const struct ledger_row *last = &s->entries[s->nentries - 1];
	buf_add(out, "; ");
	if (time_parse(last->at, &at)) {
		when_words(at, s->row.facts.now_us, out);
		buf_add(out, " ");
	}
	buf_add(out, "it ");
	entry_words(w, last, out);
	buf_addf(out, " (by %s)", last->actor);
}

/* An attempt failed and another follows: the job itself has not. */
static void waiting_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	struct buf attempts = BUF_INIT;
	attempts_words(&s->row.facts, &attempts);
	buf_add(out, "waits for its retry");
	if (attempts.len)
		buf_addf(out, " after attempt %s", buf_text(&attempts));
	if (s->row.state) {
		buf_add(out, "; its state is ");
		state_words(w, s->row.state, out);
	}
	add_error(w, s, "; its last error: ", out);
	last_entry(w, s, out);
	buf_release(&attempts);
}

static void resting_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	struct buf ago = BUF_INIT;
	bool ended = s->has[MOMENT_FINISHED];
	if (ended)
		when_words(s->at_us[MOMENT_FINISHED], s->row.facts.now_us, &ago);
	if (s->failed)
		buf_addf(out, ended ? "failed %s" : "has failed%s", buf_text(&ago));
	else if (ended)
		buf_addf(out, "ended %s", buf_text(&ago));
	else
		buf_add(out, "is not running");
	if (s->failed)
		add_error(w, s, ": ", out);
	if (s->row.state && (!s->failed || state_named(w, s->row.state))) {
		buf_add(out, "; its state is ");
		state_words(w, s->row.state, out);
	}
	if (!s->failed && !ended && s->nentries == 0)
		add_error(w, s, "; its last error: ", out);
	if (!ended)
		last_entry(w, s, out);
	buf_release(&ago);
}

static void whole_sentence(const struct watch *w, const struct story *s,
                           const struct candidate *cand, struct buf *out)
{
	buf_add(out, "Job ");
	job_qualified(w, s->row.job, out);
	buf_add(out, " ");
	if (is_held(w, s))
		held_sentence(w, s, out);
	else if (s->has_retry)
		retry_sentence(s, out);
	else if (cand->judgement.verdict != VERDICT_NONE)
		stuck_sentence(cand, out);
	else if (cand->facts.running)
		running_sentence(w, cand, out);
	else if (s->failed && s->ready && !s->has[MOMENT_FINISHED])
		waiting_sentence(w, s, out);
	else
		resting_sentence(w, s, out);
	buf_add(out, ".");
}

void story_secrets(const struct watch *w, const struct story *s, struct secrets *out)
{
	for (int i = 0; i < s->ncolumns; i++) {
		secrets_add(out, w, s->names[i], s->values[i]);
		secrets_document(out, w, s->values[i]);
	}
	secrets_owner(out, w, s->row.facts.owner);
	secrets_document(out, w, s->data.payload);
	for (int i = 0; i < s->nentries; i++) {
		secrets_document(out, w, s->entries[i].evidence);
		secrets_document(out, w, s->entries[i].before);
		secrets_document(out, w, s->entries[i].after);
	}
}

void story_sentence(const struct watch *w, const struct story *s, const struct candidate *cand,
                    struct buf *out)
{
	struct secrets secrets = {0};
	struct buf plain = BUF_INIT;
	story_secrets(w, s, &secrets);
	whole_sentence(w, s, cand, &plain);
	masked_words(w, &secrets, buf_text(&plain), out);
	secrets_release(&secrets);
	buf_release(&plain);
}
