/* SPDX-License-Identifier: Apache-2.0 */
#include "view/story.h"

#include "base/clock.h"
#include "recover/evidence.h"
#include "recover/held.h"
#include "view/job.h"
#include "view/ledger.h"
#include "view/story_steps.h"

#include <time.h>

/* ---- the sentence ---- */

/* The error in the row itself: a column named error, or …_error. */
static const char *story_error_of(const struct story *s)
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
	const char *name = story_error_of(s);
	for (int i = 0; name && i < s->ncolumns; i++)
		if (s->names[i] == name) {
			buf_add(out, before);
			masked_text(w, NULL, name, s->values[i], out);
		}
}

static void held_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	const struct facts *f = &s->row.facts;
	if (hold_in_force(f->hold) && s->has_hold)
		buf_addf(out, "has been held since %s: %s%s%s", s->hold.at, hold_cause_words(s->hold.cause),
		         s->hold.reason ? " (" : "", s->hold.reason ? s->hold.reason : "");
	if (hold_in_force(f->hold) && s->has_hold && s->hold.reason)
		buf_add(out, ")");
	if (!hold_in_force(f->hold) || !s->has_hold)
		buf_add(out, "is held");
	if (!hold_in_force(f->hold))
		add_error(w, s, ": ", out);
	buf_add(out, "; automation leaves it alone; release it with: defib release ");
	job_qualified(w, s->row.job, out);
}

static void excused_sentence(const struct watch *w, const struct candidate *cand, struct buf *out)
{
	buf_add(out, "is excused ");
	excuse_words(w, &cand->facts, out);
	buf_add(out, "; it is not stuck although ");
	evidence_sentence(&cand->judgement, out);
	buf_add(out, ", until that changes; end it with: defib release ");
	job_qualified(w, cand->facts.job, out);
}

static void retry_sentence(const struct story *s, struct buf *out)
{
	const struct facts *f = &s->row.facts;
	bool due = s->retry.due_us <= f->now_us;
	buf_add(out, due ? "waits for a retry that was due " : "waits for its retry, due ");
	when_text(s->retry.due_us, f->now_us, out);
	if (s->retry.reason)
		buf_addf(out, ": %s", s->retry.reason);
	if (due)
		buf_add(out, "; the next scan with --fix carries it out");
}

static void stuck_sentence(const struct candidate *cand, struct buf *out)
{
	const struct decision *d = &cand->decision;
	if (cand->judgement.waited) {
		waits_words(&cand->judgement, out);
	} else {
		buf_add(out, "is stuck: ");
		evidence_sentence(&cand->judgement, out);
	}
	if (cand->judgement.waited && !d->act) {
		buf_addf(out, "; that is reported for its watch, by %s", d->rule);
		return;
	}
	buf_addf(out, "; it will be %s at the next scan with --fix, by %s",
	         act_kinds[d->remedy].becomes, d->rule);
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
		limit_text(j->limit_us, &j->limit_from, out);
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
		when_text(at, s->row.facts.now_us, out);
		buf_add(out, " ");
	}
	buf_add(out, "it ");
	entry_words(w, last, out);
	buf_addf(out, " (by %s)", last->actor);
}

/* An attempt failed and another follows: the job itself has not failed. */
static void waiting_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	AUTO_BUF attempts = BUF_INIT;
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
}

static void resting_sentence(const struct watch *w, const struct story *s, struct buf *out)
{
	AUTO_BUF ago = BUF_INIT;
	bool ended = s->has[MOMENT_FINISHED];
	if (ended)
		when_text(s->at_us[MOMENT_FINISHED], s->row.facts.now_us, &ago);
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
}

static void whole_sentence(const struct watch *w, const struct story *s,
                           const struct candidate *cand, struct buf *out)
{
	buf_add(out, "Job ");
	job_qualified(w, s->row.job, out);
	buf_add(out, " ");
	if (held_now(w, &s->row.facts, s->row.state))
		held_sentence(w, s, out);
	else if (s->has_retry)
		retry_sentence(s, out);
	else if (cand->judgement.verdict != VERDICT_NONE)
		stuck_sentence(cand, out);
	else if (shown_excused(&cand->facts, &cand->judgement))
		excused_sentence(w, cand, out);
	else if (cand->facts.running)
		running_sentence(w, cand, out);
	else if (cand->judgement.waited && !s->failed && !s->has[MOMENT_FINISHED])
		waits_words(&cand->judgement, out);
	else if (s->failed && s->ready && !s->has[MOMENT_FINISHED])
		waiting_sentence(w, s, out);
	else
		resting_sentence(w, s, out);
	buf_add(out, ".");
}

/* Values of the story that must not appear in free text either. */
static void story_secrets(const struct watch *w, const struct story *s, struct secrets *out)
{
	for (int i = 0; i < s->ncolumns; i++) {
		secrets_add(out, w, s->names[i], s->values[i]);
		secrets_document(out, w, s->values[i]);
	}
	secrets_facts(out, w, &s->row.facts);
	secrets_document(out, w, s->data.payload);
	secrets_document(out, w, s->data.result);
	for (int i = 0; i < s->nsteps; i++)
		secrets_document(out, w, s->steps[i].output);
	for (int i = 0; i < s->nentries; i++)
		entry_secrets(w, &s->entries[i], out);
}

/* One sentence: the state of the job, and what comes next. */
static void story_sentence(const struct watch *w, const struct story *s,
                           const struct candidate *cand, struct buf *out)
{
	AUTO_SECRETS secrets = {0};
	AUTO_BUF plain = BUF_INIT;
	story_secrets(w, s, &secrets);
	whole_sentence(w, s, cand, &plain);
	masked_free_text(w, &secrets, buf_text(&plain), out);
}

/* ---- its fields ---- */

#define SHEET(row) ((const struct story_sheet *)(row))

static const void *sheet_row(const void *row, int i)
{
	(void)i;
	return &SHEET(row)->story.row;
}

static bool sheet_sentence(const void *row, const struct viewer *v, struct buf *out)
{
	whole_sentence(v->watch, &SHEET(row)->story, &SHEET(row)->is.cand, out);
	return true;
}

static const char *sheet_verdict_rule(const void *row)
{
	return SHEET(row)->is.cand.judgement.rule->id;
}

static const char *sheet_remedy(const void *row)
{
	const struct candidate *c = &SHEET(row)->is.cand;
	return c->judgement.verdict ? remedy_names[c->decision.remedy] : NULL;
}

static const char *sheet_rule(const void *row)
{
	const struct candidate *c = &SHEET(row)->is.cand;
	return c->judgement.verdict ? c->decision.rule : NULL;
}

static bool sheet_column(const void *row, const struct viewer *v, int i, struct field_pair *out)
{
	const struct story *s = &SHEET(row)->story;
	(void)v;
	if (i >= s->ncolumns)
		return false;
	*out = (struct field_pair){s->names[i], s->values[i]};
	return true;
}

static bool sheet_holds(const void *row, int64_t *out)
{
	*out = hold_in_force(SHEET(row)->story.row.facts.hold);
	return true;
}

static const void *sheet_explanation(const void *row, int i)
{
	(void)i;
	return SHEET(row)->explain ? &SHEET(row)->is : NULL;
}

static void sheet_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	story_secrets(w, &SHEET(row)->story, out);
}

#define AT(member) FIELD_AT(struct story_sheet, story.member)
#define HAS(member) FIELD_HAS(struct story_sheet, story.member)
static const struct field progress_fields[] = {
	{"epoch", FIELD_NUMBER, FIELD_AT(struct story_progress, epoch)},
	{"step", .mask = MASK_WORDS, FIELD_AT(struct story_progress, step), .null = true},
	{"progress", .mask = MASK_WORDS, FIELD_AT(struct story_progress, text), .null = true},
	{"at", FIELD_TIME, FIELD_AT(struct story_progress, at_us)},
	{0},
};
static const struct record progress_record = {.fields = progress_fields,
                                              .size = sizeof(struct story_progress)};

static const struct field hold_fields[] = {
	{"holds", FIELD_BOOL, .number = sheet_holds, .about = "false: it is over"},
	{"at", AT(hold.at)},
	{"cause", AT(hold.cause)},
	{"reason", .mask = MASK_WORDS, AT(hold.reason), .null = true},
	{"batch", AT(hold.batch), .null = true},
	{0},
};
static const struct record hold_record = {.fields = hold_fields,
                                          .size = sizeof(struct story_sheet)};

static const struct field retry_fields[] = {
	{"attempt", FIELD_NUMBER, AT(retry.attempt)},
	{"due_at", FIELD_TIME, AT(retry.due_us)},
	{"reason", .mask = MASK_WORDS, AT(retry.reason), .null = true},
	{"batch", AT(retry.batch), .null = true},
	{0},
};
static const struct record retry_record = {.fields = retry_fields,
                                           .size = sizeof(struct story_sheet)};

static const struct field story_fields[] = {
	{.type = FIELD_MEMBERS, .of = &browsed_record, .part = sheet_row},
	{"sentence", .mask = MASK_WORDS, .words = sheet_sentence,
     .about = "its state, and what comes next"},
	{"verdict_rule", .text = sheet_verdict_rule, .about = "the rule that fires"},
	{"remedy", .text = sheet_remedy, .null = true,
     .schema = "{oneOf: [{$ref: \"#/components/schemas/Remedy\"}, {type: \"null\"}]}",
     .about = "what a scan would do; null: it is not stuck"},
	{"rule", .text = sheet_rule, .null = true, .about = "the rule that chose the remedy"},
	{"created_at", FIELD_TIME, AT(at_us[MOMENT_CREATED]), HAS(has[MOMENT_CREATED])},
	{"started_at", FIELD_TIME, AT(at_us[MOMENT_STARTED]), HAS(has[MOMENT_STARTED])},
	{"finished_at", FIELD_TIME, AT(at_us[MOMENT_FINISHED]), HAS(has[MOMENT_FINISHED])},
	{"row", FIELD_MAP, MASK_VALUES, .pair = sheet_column, .about = "every column"},
	{"steps", FIELD_LIST, AT(steps), FIELD_N(struct story_sheet, story.nsteps), .of = &step_record},
	{"progress", FIELD_RECORD, AT(progress), HAS(progress.there), .of = &progress_record,
     .about = "what its worker last reported"},
	{"payload", FIELD_DATA, MASK_VALUES, AT(data.payload), HAS(data.there), .optional = true,
     .about = "of a job of the built-in queue", .schema = ANY_SCHEMA},
	{"result", FIELD_DATA, MASK_VALUES, AT(data.result), HAS(data.there), .optional = true,
     .about = "of a job of the built-in queue", .schema = ANY_SCHEMA},
	{"tags", FIELD_DATA, MASK_VALUES, AT(data.tags), HAS(data.there), .optional = true,
     .about = "of a job of the built-in queue", .schema = ANY_SCHEMA},
	{"hold", FIELD_RECORD, HAS(has_hold), .of = &hold_record},
	{"retry", FIELD_RECORD, HAS(has_retry), .of = &retry_record},
	{"claim", FIELD_RECORD, AT(claim), HAS(has_claim), .of = &claim_record},
	{"ledger", FIELD_LIST, AT(entries), FIELD_N(struct story_sheet, story.nentries),
     .of = &history_entry_record, .about = "oldest first"},
	{"explanation", FIELD_RECORD, .part = sheet_explanation, .of = &explained_record,
     .optional = true, .about = "of `defib show`"},
	{0},
};
#undef AT
#undef HAS

const struct record story_record = {
	.name = "Story",
	.about = "everything that is known about one job",
	.fields = story_fields,
	.size = sizeof(struct story_sheet),
	.secrets = sheet_secrets,
};

#define VALUE_MAX 400

/* ---- the story in order of time ---- */

struct happening {
	const char *at; /* ISO, which sorts as text */
	const char *what;
	const struct ledger_row *entry; /* NULL: none */
};

static int story_by_time(const void *a, const void *b)
{
	const struct happening *x = a, *y = b;
	int order = strcmp(x->at, y->at);
	if (order == 0 && x->entry && y->entry)
		order = (x->entry->id > y->entry->id) - (x->entry->id < y->entry->id);
	return order;
}

static struct happening happened(struct story_sheet *x, int64_t us, const char *what)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(us, &iso);
	struct happening h = {arena_strdup(x->arena, buf_text(&iso)), what, NULL};
	return h;
}

static const char *started_words(struct story_sheet *x)
{
	AUTO_BUF text = BUF_INIT;
	const struct facts *f = &x->story.row.facts;
	buf_add(&text, "started");
	if (f->has_attempts) {
		buf_add(&text, ", attempt ");
		attempts_words(f, &text);
	}
	if (f->owner) {
		buf_add(&text, ", worker ");
		shown_owner(x->watch, f->owner, &text);
	}
	return arena_strdup(x->arena, buf_text(&text));
}

static const char *entry_line(struct story_sheet *x, const struct ledger_row *r)
{
	AUTO_BUF text = BUF_INIT, change = BUF_INIT;
	entry_words(x->watch, r, &text);
	changes_text(x->watch, r->before, r->after, false, &change);
	if (change.len)
		buf_addf(&text, " (%s)", buf_text(&change));
	buf_addf(&text, "  [%s by %s", r->event, r->actor);
	if (r->rule)
		buf_addf(&text, ", %s", r->rule);
	buf_addf(&text, ", batch %s]", r->batch);
	return arena_strdup(x->arena, buf_text(&text));
}

/* Its record, and the attempts that this does not describe; returns how many. */
static int step_happenings(struct story_sheet *x, const struct story_step *s, struct happening *out)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_SECRETS secrets = {0};
	int n = 0;
	story_secrets(x->watch, &x->story, &secrets);
	if (s->has_finished) {
		step_words(x->watch, s, &secrets, &text);
		out[n++] = happened(x, s->finished_us, arena_strdup(x->arena, buf_text(&text)));
	}
	for (int i = 0; i < s->nattempts; i++) {
		const struct story_attempt *one = &s->attempts[i];
		if (one->recorded)
			continue;
		buf_clear(&text);
		attempt_words(x->watch, s, one, &secrets, &text);
		out[n++] = happened(x, one->has_ended ? one->ended_us : one->started_us,
		                    arena_strdup(x->arena, buf_text(&text)));
	}
	return n;
}

/* All of it, sorted; returns how many. */
static int happenings(struct story_sheet *x, struct happening **out)
{
	const struct story *s = &x->story;
	const char *const moments[] = {"created", started_words(x), "finished"};
	int n = 0, most = MOMENT_COUNT + s->nsteps + s->nentries + 2;
	for (int i = 0; i < s->nsteps; i++)
		most += s->steps[i].nattempts;
	*out = ARENA_ARRAY(x->arena, struct happening, most);
	for (int m = 0; m < MOMENT_COUNT; m++)
		if (s->has[m])
			(*out)[n++] = happened(x, s->at_us[m], moments[m]);
	for (int i = 0; i < s->nsteps; i++)
		n += step_happenings(x, &s->steps[i], *out + n);
	if (s->progress.there)
		(*out)[n++] = happened(x, s->progress.at_us,
		                       arena_printf(x->arena, "progress: %s%s%s",
		                                    s->progress.step ? s->progress.step : "",
		                                    s->progress.step && s->progress.text ? ", " : "",
		                                    s->progress.text ? s->progress.text : ""));
	for (int i = 0; i < s->nentries; i++)
		(*out)[n++] =
			(struct happening){s->entries[i].at, entry_line(x, &s->entries[i]), &s->entries[i]};
	if (s->has_retry)
		(*out)[n++] =
			happened(x, s->retry.due_us,
		             s->retry.due_us > s->row.facts.now_us ? "retry is due then" : "retry was due");
	qsort(*out, (size_t)n, sizeof **out, story_by_time);
	return n;
}

static void log_lines(const struct story_sheet *x, const struct ledger_row *r, struct buf *out)
{
	const struct {
		const char *name, *text;
	} documents[] = {{"evidence", r->evidence}, {"before", r->before}, {"after", r->after}};
	AUTO_BUF line = BUF_INIT;
	AUTO_SECRETS secrets = {0};
	story_secrets(x->watch, &x->story, &secrets);
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		if (!documents[i].text)
			continue;
		buf_clear(&line);
		masked_document(x->watch, &secrets, documents[i].text, &line);
		buf_addf(out, "      %-8s ", documents[i].name);
		out_padded(out, buf_text(&line), 0);
		buf_add(out, "\n");
	}
}

static void print_timeline(struct story_sheet *x, struct buf *out)
{
	struct happening *all;
	int n = happenings(x, &all);
	AUTO_SECRETS secrets = {0};
	AUTO_BUF what = BUF_INIT;
	story_secrets(x->watch, &x->story, &secrets);
	if (n > 0)
		buf_add(out, "\nTimeline\n");
	for (int i = 0; i < n; i++) {
		buf_addf(out, "  %s  ", all[i].at);
		buf_clear(&what);
		masked_free_text(x->watch, &secrets, all[i].what, &what);
		out_padded(out, buf_text(&what), 0);
		buf_add(out, "\n");
		if (all[i].entry && x->logs)
			log_lines(x, all[i].entry, out);
	}
	if (x->story.nentries == STORY_ENTRIES_MAX)
		buf_addf(out, "  (the latest %d entries of the ledger; all: defib ledger --job …)\n",
		         STORY_ENTRIES_MAX);
}

/* ---- the whole row ---- */

static void print_value(const char *value, struct buf *out)
{
	size_t len = strlen(value);
	AUTO_BUF count = BUF_INIT;
	if (len <= VALUE_MAX) {
		out_padded(out, value, 0);
		buf_add(out, "\n");
		return;
	}
	size_t at = VALUE_MAX;
	while (at > 0 && ((unsigned char)value[at] & 0xc0) == 0x80)
		at--;
	char *begin = strndup(value, at);
	buf_add_count(&count, (int64_t)len);
	out_padded(out, begin ? begin : "", 0);
	buf_addf(out, "… (%s bytes; --raw has all)\n", buf_text(&count));
	free(begin);
}

static void story_add_shown(const struct watch *w, const struct secrets *s, const char *column,
                            const char *text, struct buf *out)
{
	masked_text(w, s, column, text, out);
	if (!text_eq(buf_text(out), text))
		return;
	buf_clear(out);
	shown_value(w, column, text, out);
}

static void story_print_row(const struct story_sheet *x, struct buf *out)
{
	const struct story *s = &x->story;
	AUTO_BUF value = BUF_INIT;
	AUTO_SECRETS secrets = {0};
	int width = 0;
	story_secrets(x->watch, s, &secrets);
	for (int i = 0; i < s->ncolumns; i++)
		width = out_width(s->names[i]) > width ? out_width(s->names[i]) : width;
	buf_addf(out, "\nRow of %s\n", x->watch->table);
	for (int i = 0; i < s->ncolumns; i++) {
		buf_clear(&value);
		if (s->values[i])
			story_add_shown(x->watch, &secrets, s->names[i], s->values[i], &value);
		buf_add(out, "  ");
		out_padded(out, s->names[i], width);
		buf_add(out, "  ");
		print_value(s->values[i] ? buf_text(&value) : "null", out);
	}
	for (int i = 0; i < s->nsteps; i++) {
		buf_add(out, i ? "" : "\nSteps\n");
		buf_addf(out, "  %s (%s)  ", s->steps[i].name, s->steps[i].state);
		buf_clear(&value);
		if (s->steps[i].output)
			masked_text(x->watch, &secrets, "output", s->steps[i].output, &value);
		print_value(s->steps[i].output ? buf_text(&value) : "no output", out);
	}
}

/* ---- all of it ---- */

void story_explain(struct story_sheet *x, bool will_have)
{
	const struct story *s = &x->story;
	x->is = (struct explained){.has_hold = s->has_hold,
	                           .has_retry = s->has_retry,
	                           .has_claim = s->has_claim,
	                           .claim = s->claim,
	                           .hold = s->hold,
	                           .retry = s->retry};
	judged_candidate(x->watch, &x->story.row.facts, will_have, x->arena, &x->is.cand);
}

void story_text(struct story_sheet *x, struct buf *out)
{
	const struct story *s = &x->story;
	AUTO_BUF sentence = BUF_INIT, seen = BUF_INIT, state = BUF_INIT;
	struct fact_sheet facts = {.arena = x->arena}, verdict = {.arena = x->arena};
	AUTO_SECRETS secrets = {0};
	story_sentence(x->watch, s, &x->is.cand, &sentence);
	out_padded(&seen, buf_text(&sentence), 0);
	out_color(out, x->color, COLOR_BOLD, buf_text(&seen));
	buf_add(out, "\n\nFacts\n");
	if (s->row.state) {
		state_words(x->watch, s->row.state, &state);
		fact_line(&facts, "state", "%s", buf_text(&state));
	}
	fact_lines(&facts, x->watch, &s->row.facts);
	if (s->has_claim)
		fact_claim(&facts, &s->claim, s->row.facts.now_us);
	story_secrets(x->watch, s, &secrets);
	fact_print(&facts, x->watch, &secrets, out);
	buf_add(out, "\nVerdict\n");
	verdict_lines(x->watch, &x->is, &verdict);
	fact_print(&verdict, x->watch, &secrets, out);
	print_timeline(x, out);
	if (x->whole_row)
		story_print_row(x, out);
}
