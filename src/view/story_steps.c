/* SPDX-License-Identifier: Apache-2.0 */
#include "view/story.h"

#include "base/clock.h"
#include "recover/evidence.h"
#include "view/output.h"

/* ---- as JSON ---- */

static void add_attempts(const struct watch *w, const struct story_step *step,
                         const struct secrets *secrets, struct buf *out)
{
	AUTO_BUF worker = BUF_INIT;
	buf_add(out, ",\"attempts\":[");
	for (int i = 0; i < step->nattempts; i++) {
		const struct story_attempt *one = &step->attempts[i];
		buf_addf(out, "%s{\"undo\":%s", i ? "," : "", one->undo ? "true" : "false");
		json_number(out, "attempt", one->number > 0, one->number);
		json_number(out, "epoch", one->has_epoch, one->epoch);
		buf_clear(&worker);
		if (one->worker)
			shown_owner(w, one->worker, &worker);
		json_text(out, "worker", one->worker ? buf_text(&worker) : NULL);
		json_text(out, "outcome", one->outcome);
		masked_member(w, secrets, "error", one->error, out);
		json_time(out, "started_at", one->has_started, one->started_us);
		json_time(out, "ended_at", one->has_ended, one->ended_us);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

void steps_json(const struct watch *w, const struct story *s, const struct secrets *secrets,
                struct buf *out)
{
	buf_add(out, ",\"steps\":[");
	for (int i = 0; i < s->nsteps; i++) {
		const struct story_step *step = &s->steps[i];
		buf_addf(out, "%s{\"position\":%lld", i ? "," : "", (long long)step->position);
		json_text(out, "step", step->name);
		json_text(out, "state", step->state);
		json_number(out, "epoch", step->has_finished, step->epoch);
		buf_add(out, ",\"output\":");
		masked_document(w, secrets, step->output, out);
		masked_member(w, secrets, "error", step->error, out);
		json_time(out, "started_at", step->has_started, step->started_us);
		json_time(out, "finished_at", step->has_finished, step->finished_us);
		add_attempts(w, step, secrets, out);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

/* ---- as text ---- */

void attempt_words(const struct watch *w, const struct story_step *s,
                   const struct story_attempt *one, const struct secrets *secrets, struct buf *out)
{
	static const struct {
		const char *outcome, *words;
	} all[] = {
		{"done", "finished"},
		{"failed", "failed"},
		{"retry", "failed, to be retried"},
		{"permanent", "failed permanently"},
		{"timed_out", "timed out"},
		{"crashed", "crashed"},
		{"stopped", "was stopped"},
		{"released", "was released"},
		{STORY_LOST, "was lost with its worker"},
		{STORY_RUNNING, "is running"},
	};
	buf_addf(out, "step %s: %s", s->name, one->undo ? "undo, attempt" : "attempt");
	if (one->number)
		buf_addf(out, " %lld", (long long)one->number);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (text_eq(all[i].outcome, one->outcome))
			buf_addf(out, " %s", all[i].words);
	if (one->has_started && one->has_ended) {
		buf_add(out, " after ");
		duration_text(one->ended_us > one->started_us ? one->ended_us - one->started_us : 0, out);
	}
	if (one->worker) {
		buf_add(out, ", worker ");
		shown_owner(w, one->worker, out);
	}
	/* Why a worker was lost is in the entry of the ledger beside it. */
	if (one->error && !text_eq(one->outcome, STORY_LOST)) {
		buf_add(out, ": ");
		masked_free_text(w, secrets, one->error, out);
	}
}

void step_words(const struct watch *w, const struct story_step *s, const struct secrets *secrets,
                struct buf *out)
{
	buf_addf(out, "step %s: %s", s->name, s->state);
	if (s->attempt)
		buf_addf(out, ", attempt %lld", (long long)s->attempt);
	if (s->has_started) {
		buf_add(out, ", took ");
		duration_text(s->finished_us - s->started_us, out);
	}
	if (s->error) {
		buf_add(out, ": ");
		masked_free_text(w, secrets, s->error, out);
	}
}
