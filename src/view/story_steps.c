/* SPDX-License-Identifier: Apache-2.0 */
#include "view/story_steps.h"

#include "base/clock.h"
#include "recover/evidence.h"
#include "view/output.h"
#include "view/story.h"

/* ---- their fields ---- */

#define AT(member) FIELD_AT(struct story_attempt, member)
#define HAS(member) FIELD_HAS(struct story_attempt, member)
static const struct field attempt_fields[] = {
	{"undo", FIELD_BOOL, AT(undo), .about = "it was to undo the step"},
	{"attempt", FIELD_NUMBER, AT(number), .zero_null = true,
     .about = "its number; null if it is not known"},
	{"epoch", FIELD_NUMBER, AT(epoch), HAS(has_epoch)},
	{"worker", .mask = MASK_OWNER, AT(worker), .null = true, .about = "its name"},
	{"outcome", AT(outcome),
     .schema = "{enum: [done, failed, retry, permanent, timed_out, crashed, stopped, released, "
               "lost, running]}",
     .about = "lost means that it ended with its worker; error is then the reason in the ledger"},
	{"error", .mask = MASK_WORDS, AT(error), .null = true},
	{"started_at", FIELD_TIME, AT(started_us), HAS(has_started)},
	{"ended_at", FIELD_TIME, AT(ended_us), HAS(has_ended), .about = "null while it is running"},
	{0},
};
#undef AT
#undef HAS

const struct record attempt_record = {
	.name = "StepAttempt",
	.about = "an attempt at a step of a workflow",
	.fields = attempt_fields,
	.size = sizeof(struct story_attempt),
};

#define AT(member) FIELD_AT(struct story_step, member)
#define HAS(member) FIELD_HAS(struct story_step, member)
static const struct field step_fields[] = {
	{"position", FIELD_NUMBER, AT(position), .about = "in the workflow; the first is 0"},
	{"step", AT(name), .about = "its name"},
	{"state", AT(state),
     .schema = "{enum: [done, undone, undo_failed, again, running, unfinished]}",
     .about = "running, or not finished by any attempt (unfinished), if nothing is recorded"},
	{"epoch", FIELD_NUMBER, AT(epoch), HAS(has_finished), .about = "of the last record"},
	{"output", FIELD_DOCUMENT, MASK_VALUES, AT(output), .null = true, .schema = ANY_SCHEMA},
	{"error", .mask = MASK_WORDS, AT(error), .null = true, .about = "of its undo"},
	{"started_at", FIELD_TIME, AT(started_us), HAS(has_started),
     .about = "of the attempt that finished the step, or its undo"},
	{"finished_at", FIELD_TIME, AT(finished_us), HAS(has_finished)},
	{"attempts", FIELD_LIST, AT(attempts), FIELD_N(struct story_step, nattempts),
     .of = &attempt_record,
     .about = "oldest first; of those that did not finish the step, the newest 20"},
	{0},
};
#undef AT
#undef HAS

const struct record step_record = {
	.name = "Step",
	.about = "a step of a workflow",
	.fields = step_fields,
	.size = sizeof(struct story_step),
};

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
