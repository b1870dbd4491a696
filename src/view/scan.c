/* SPDX-License-Identifier: Apache-2.0 */
#include "view/scan.h"

#include "ledger/seen.h"

#include <inttypes.h>

#include "recover/evidence.h"
#include "view/job.h"
#include "view/ledger.h"

void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out)
{
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->name);
	json_text(out, "database", d->name);
	buf_add(out, ",\"jobs\":[");
}

#define CAND(row) ((const struct candidate *)(row))

static void candidate_key(const void *row, const struct viewer *v, struct buf *out)
{
	key_value_json(v->watch, CAND(row)->facts.job, out);
}

static bool blocker_seconds(const void *row, int64_t *out)
{
	*out = CAND(row)->blocker_s;
	return CAND(row)->blocker_pid != 0;
}

static void candidate_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_facts(out, w, &CAND(row)->facts);
}

#define AT(member) FIELD_AT(struct candidate, member)
#define HAS(member) FIELD_HAS(struct candidate, member)
static const struct field candidate_fields[] = {
	{"key", FIELD_JSON, .json = candidate_key, .schema = KEY_SCHEMA},
	{"verdict", FIELD_WORD, AT(judgement.verdict), .names = verdict_names,
     .schema = SCHEMA_REF("Verdict")},
	{"remedy", FIELD_WORD, AT(decision.remedy), .names = remedy_names,
     .schema = SCHEMA_REF("Remedy")},
	{"rule", FIELD_CHARS, AT(decision.rule), .null = true,
     .about = "the rule that chose the remedy"},
	{"outcome", FIELD_WORD, AT(outcome), .names = outcome_names, .schema = SCHEMA_REF("Outcome")},
	{"evidence", FIELD_DOCUMENT, MASK_VALUES, AT(evidence), .null = true,
     .about = "what was compared with what"},
	{"silent_s", FIELD_SECONDS, AT(judgement.measured_us), HAS(judgement.measured),
     .about = "silence, or run time"},
	{"owner", FIELD_TEXT, MASK_OWNER, AT(facts.owner), .null = true},
	{"attempt", FIELD_NUMBER, AT(facts.attempts), HAS(facts.has_attempts)},
	{"locked_by_pid", FIELD_NUMBER, AT(blocker_pid), .zero_null = true, .optional = true,
     .about = "the session that has locked its row"},
	{"locked_for_s", FIELD_NUMBER, .number = blocker_seconds, .optional = true},
	{"refusal", .mask = MASK_WORDS, AT(refusal), .optional = true, .about = "why it was refused"},
	{0},
};
#undef AT
#undef HAS

const struct record candidate_record = {
	.name = "ScannedJob",
	.about = "a stuck job, and what was done with it",
	.fields = candidate_fields,
	.size = sizeof(struct candidate),
	.secrets = candidate_secrets,
};

void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out)
{
	const struct viewer v = viewer_local(w, NULL);
	record_json(&candidate_record, c, &v, out);
}

/* ---- a scan ---- */

static const char *scan_ledger_off(const void *row)
{
	const struct scan_result *r = row;
	return !r->ledger && r->ledger_off[0] ? r->ledger_off : NULL;
}

static const char *scan_error_class(const void *row)
{
	const struct failure *f = &((const struct scan_result *)row)->failure;
	return f->code ? defib_err_name(f->code) : NULL;
}

/* ---- rows that wait ---- */

static bool waiting_says(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	late_sentence(row, out);
	return out->len > 0;
}

static bool waiting_workers(const void *row, int64_t *out)
{
	*out = ((const struct waiting_result *)row)->workers;
	return *out >= 0;
}

#define AT(member) FIELD_AT(struct waiting_result, member)
#define HAS(member) FIELD_HAS(struct waiting_result, member)
static const struct field waiting_fields[] = {
	{"late", FIELD_NUMBER, AT(late), .about = "rows that are due for longer than late_after"},
	{"unstarted", FIELD_NUMBER, AT(unstarted), .about = "of them, those that nobody starts"},
	{"unknown", FIELD_NUMBER, AT(unknown), .about = "of them, those of which that is not known"},
	{"at_least", FIELD_BOOL, AT(capped), .about = "the counts are lower bounds"},
	{"waited_s", FIELD_SECONDS, AT(waited_us), .about = "how long the oldest has waited"},
	{"limit_s", FIELD_SECONDS, AT(limit_us)},
	{"kind", FIELD_CHARS, AT(kind), .null = true, .about = "of the oldest"},
	{"last_claim", FIELD_TIME, AT(last_us), .zero_null = true,
     .about = "when a job of this kind was last claimed, as far as it is known"},
	{"running", FIELD_NUMBER, AT(running), .about = "jobs of this kind that run and are not stuck"},
	{"owners", FIELD_NUMBER, AT(owners), .about = "the workers that have them"},
	{"workers", FIELD_NUMBER, .number = waiting_workers, .null = true,
     .about = "live workers of defib that serve the watch"},
	{"moved_on", FIELD_NUMBER, AT(moved_on), .about = "schedules that moved on without a run"},
	{"per_minute", FIELD_REAL, AT(trend.per_minute), HAS(trend.known),
     .about = "how the number of late rows changes; known to a daemon"},
	{"drain_s", FIELD_SECONDS, AT(trend.drain_us), .zero_null = true,
     .about = "until none is left, if it goes on like this"},
	{"woken", FIELD_BOOL, AT(woken), .about = "workers were notified, as `wake` says"},
	{"says", .words = waiting_says, .null = true, .about = "all of it in a sentence"},
	{0},
};
#undef AT
#undef HAS

const struct record waiting_record = {
	.name = "WaitingRows",
	.about = "rows of a watch that wait to be started",
	.fields = waiting_fields,
	.size = sizeof(struct waiting_result),
};

#define AT(member) FIELD_AT(struct scan_result, member)
static const struct field scan_fields[] = {
	{"running", FIELD_NUMBER, AT(running)},
	{"found", FIELD_NUMBER, AT(found), .about = "stuck jobs that were examined"},
	{.type = FIELD_COUNTS, AT(outcomes), .names = outcome_names, .n = OUTCOME_COUNT},
	{"excused", FIELD_NUMBER, AT(excused), .about = "by an operator: not among the found"},
	{"running_capped", FIELD_BOOL, AT(running_capped), .about = "the count is a lower bound"},
	{"never_seen_running", FIELD_BOOL, AT(never_seen),
     .about = "none is running, and no record says that one ever was"},
	{"row_security", FIELD_BOOL, AT(row_security), .about = "then: it applies to this role"},
	{"stuck", FIELD_NUMBER, AT(stuck), .about = "more than found if there is a limit"},
	{"limited", FIELD_BOOL, AT(limited), .about = "it stopped at the limit"},
	{"remembered", FIELD_NUMBER, AT(seen.remembered), FIELD_HAS(struct scan_result, seen.asked),
     .about = "values since when they are the same; null: the watch does not ask for that"},
	{"waiting", FIELD_RECORD, AT(waiting), FIELD_HAS(struct scan_result, waiting.asked),
     .of = &waiting_record, .about = "null: the watch does not say which rows wait"},
	{"batch", FIELD_CHARS, AT(batch), .null = true, .about = "to undo it; null: nothing was done"},
	{"ledger_off", .text = scan_ledger_off, .null = true,
     .about = "why the ledger was not written"},
	{"took_ms", FIELD_MS, AT(took_us)},
	{"error", FIELD_FAILURE, AT(failure)},
	{"error_class", .text = scan_error_class, .null = true},
	{0},
};
#undef AT

void scan_seen_text(const struct seen_result *r, bool fix, struct buf *out)
{
	if (r->off && r->why[0])
		buf_addf(out, "nothing can be remembered (%s): progress and time in a state are not known",
		         r->why);
	else if (!fix && (r->off || r->first))
		buf_add(out, "progress and time in a state are not known yet: that takes two looks by a "
		             "daemon or by scan --fix, which remember what they see");
	else if (r->first)
		buf_addf(out, "first look at %" PRId64 " values; the next one can tell which are the same",
		         r->remembered);
	else if (r->bounded)
		buf_addf(out,
		         "more than %d jobs are running: progress and time in a state are only known "
		         "of the first %d by key",
		         SEEN_MOST, SEEN_MOST);
}

const struct record scan_record = {
	.name = "ScannedWatch",
	.about = "what a scan found and did",
	.fields = scan_fields,
	.size = sizeof(struct scan_result),
};

struct scan_counts {
	int64_t running, found, outcomes[OUTCOME_COUNT];
};

#define AT(member) FIELD_AT(struct scan_counts, member)
static const struct field counts_fields[] = {
	{"running", FIELD_NUMBER, AT(running)},
	{"found", FIELD_NUMBER, AT(found)},
	{.type = FIELD_COUNTS, AT(outcomes), .names = outcome_names, .n = OUTCOME_COUNT},
	{0},
};
#undef AT

void scan_counts_json(int64_t running, int64_t found, const int64_t *outcomes, struct buf *out)
{
	static const struct record counts_record = {.fields = counts_fields,
	                                            .size = sizeof(struct scan_counts)};
	const struct viewer v = viewer_local(NULL, NULL);
	struct scan_counts counts = {.running = running, .found = found};
	memcpy(counts.outcomes, outcomes, sizeof counts.outcomes);
	record_json_members(&counts_record, &counts, &v, out);
}

void scan_end_json(const struct scan_result *r, struct buf *out)
{
	const struct viewer v = viewer_local(NULL, NULL);
	buf_add(out, "]");
	record_json_members(&scan_record, r, &v, out);
	buf_add(out, "}");
}

/* ---- one job as text ---- */

static void scan_add_shown(const struct watch *w, const struct candidate *c, struct buf *out)
{
	for (int i = 0; i < w->show.n; i++) {
		if (!c->facts.show[i])
			continue;
		buf_addf(out, "%s%s=", out->len ? " " : "", w->show.items[i]);
		shown_value(w, w->show.items[i], c->facts.show[i], out);
	}
	if (c->facts.owner) {
		buf_add(out, out->len ? " owner=" : "owner=");
		shown_owner(w, c->facts.owner, out);
	}
	if (c->facts.has_attempts)
		buf_addf(out, "%sattempt=%lld", out->len ? " " : "", (long long)c->facts.attempts);
	if (c->outcome == OUTCOME_LOCKED && c->blocker_pid)
		buf_addf(out, "%slocked by pid %lld for %llds", out->len ? " " : "",
		         (long long)c->blocker_pid, (long long)c->blocker_s);
	if (c->refusal) {
		AUTO_SECRETS secrets = {0};
		secrets_facts(&secrets, w, &c->facts);
		buf_add(out, out->len ? " " : "");
		masked_free_text(w, &secrets, c->refusal, out);
	}
}

/* Shown columns, owner, attempt, who has it locked, and "status: running -> queued". */
static void candidate_words(const struct watch *w, const struct candidate *c, struct buf *out)
{
	AUTO_BUF change = BUF_INIT;
	scan_add_shown(w, c, out);
	changes_text(w, c->before, c->after, false, &change);
	if (change.len)
		buf_addf(out, "%s%s", out->len ? "  " : "", buf_text(&change));
}

static enum color outcome_color(enum outcome o, bool fix)
{
	if (o == OUTCOME_RECOVERED)
		return COLOR_GREEN;
	return fix || o != OUTCOME_LEFT ? COLOR_YELLOW : COLOR_BOLD;
}

void scan_job_row(struct scan_rows *r, const struct watch *w, const struct candidate *c)
{
	AUTO_BUF because = BUF_INIT, detail = BUF_INIT, action = BUF_INIT;
	r->seen++;
	if (r->n < SCAN_ROWS_MAX) {
		evidence_sentence(&c->judgement, &because);
		candidate_words(w, c, &detail);
		if (c->outcome == OUTCOME_REFUSED || (r->fix && c->outcome != OUTCOME_RECOVERED))
			buf_addf(&action, "%s", outcome_names[c->outcome]);
		else
			buf_addf(&action, "%s", remedy_names[c->decision.remedy]);
		r->items[r->n++] = (struct scan_row){
			arena_strdup(&r->arena, c->facts.job),       verdict_names[c->judgement.verdict],
			arena_strdup(&r->arena, buf_text(&because)), arena_strdup(&r->arena, buf_text(&action)),
			arena_strdup(&r->arena, buf_text(&detail)),  c->outcome,
		};
	}
}

static void rows_header(int job, int verdict, int because, bool color, struct buf *out)
{
	AUTO_BUF titles = BUF_INIT;
	buf_addf(&titles, "  %-*s  %-*s  %-*s  REMEDY", job, "JOB", verdict, "VERDICT", because, "WHY");
	out_color(out, color, COLOR_DIM, buf_text(&titles));
	buf_add(out, "\n");
}

void scan_rows_text(const struct scan_rows *r, bool color, struct buf *out)
{
	int job = (int)strlen("JOB"), because = (int)strlen("WHY"), verdict = (int)strlen("VERDICT");
	for (int i = 0; i < r->n; i++) {
		int width = out_width(r->items[i].job);
		job = width > job ? width : job;
		width = out_width(r->items[i].because);
		because = width > because ? width : because;
		width = out_width(r->items[i].verdict);
		verdict = width > verdict ? width : verdict;
	}
	if (r->n)
		rows_header(job, verdict, because, color, out);
	for (int i = 0; i < r->n; i++) {
		const struct scan_row *row = &r->items[i];
		AUTO_BUF word = BUF_INIT;
		buf_add(out, "  ");
		out_padded(out, row->job, job);
		out_padded(&word, row->verdict, verdict);
		buf_add(out, "  ");
		out_color(out, color, COLOR_RED, buf_text(&word));
		buf_add(out, "  ");
		out_padded(out, row->because, because);
		buf_add(out, "  -> ");
		out_color(out, color, outcome_color(row->outcome, r->fix), row->action);
		buf_add(out, row->detail[0] ? "  " : "");
		out_padded(out, row->detail, 0);
		buf_add(out, "\n");
	}
	if (r->seen > r->n) {
		buf_add(out, "  … and ");
		buf_add_count(out, r->seen - r->n);
		buf_add(out, " more (--json lists all)\n");
	}
}

void scan_head_text(const struct watch *w, const struct database *d, const struct scan_result *s,
                    bool fix, bool color, struct buf *out)
{
	out_title(out, color, d->name, w->name);
	buf_add(out, ": ");
	int64_t stuck = s->stuck > s->found ? s->stuck : s->found;
	if (stuck == 0 && !s->failure.code && s->waiting.unstarted)
		buf_add(out, "nothing of what runs is stuck");
	else if (stuck == 0 && !s->failure.code)
		buf_add(out, "nothing stuck");
	else
		buf_add_count(out, stuck),
			buf_addf(out, "%s stuck",
		             stuck > s->found && stuck >= ROWS_COUNT_MAX ? " or more" : "");
	if (w->only_waits) {
		buf_addf(out, "; only rows that wait are watched");
	} else if (s->running_known && s->running == 0 && stuck == 0) {
		buf_addf(out, "; no row of %s is running", w->table);
	} else {
		buf_add(out, stuck ? " of " : ", ");
		buf_add_count(out, s->running > stuck ? s->running : stuck);
		buf_addf(out, "%s running", s->running_capped ? " or more" : "");
	}
	if (stuck > s->found) {
		buf_add(out, ", ");
		buf_add_count(out, s->found);
		buf_add(out, " examined");
	}
	for (int i = OUTCOME_RECOVERED; i < OUTCOME_COUNT; i++) {
		int64_t n = s->outcomes[i] - (i == OUTCOME_HELD ? s->held_before : 0);
		if (n && (fix || i == OUTCOME_REFUSED)) {
			buf_add(out, ", ");
			buf_add_count(out, n);
			buf_addf(out, " %s", outcome_names[i]);
		}
	}
	if (s->held_before) {
		buf_add(out, ", ");
		buf_add_count(out, s->held_before);
		buf_add(out, " already on hold");
	}
	if (s->excused) {
		buf_add(out, ", ");
		buf_add_count(out, s->excused);
		buf_add(out, " excused");
	}
	buf_addf(out, " (%.1f ms)\n", (double)s->took_us / 1000);
	if (s->waiting.late) {
		AUTO_BUF late = BUF_INIT;
		late_sentence(&s->waiting, &late);
		buf_add(out, "  ");
		out_color(out, color && s->waiting.unstarted, COLOR_YELLOW, buf_text(&late));
		buf_add(out, "\n");
	}
}

/* ---- acts by hand ---- */

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

/* Everything about the job except why it was refused, which is shown with the outcome. */
static void act_detail(const struct watch *w, const struct candidate *c, struct buf *out)
{
	struct candidate plain = *c;
	plain.refusal = NULL;
	candidate_words(w, &plain, out);
}

#define ACTED(row) (((const struct acted_job *)(row))->candidate)

static bool acted_name(const void *row, const struct viewer *v, struct buf *out)
{
	job_qualified(v->watch, ACTED(row)->facts.job, out);
	return true;
}

static const char *acted_outcome(const void *row)
{
	const struct acted_job *x = row;
	return ACTED(x)->outcome == x->good ? "done" : outcome_names[ACTED(x)->outcome];
}

static bool acted_detail(const void *row, const struct viewer *v, struct buf *out)
{
	act_detail(v->watch, ACTED(row), out);
	return out->len > 0;
}

static bool acted_refusal(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	refusal_sentence(ACTED(row), out);
	return ACTED(row)->refusal != NULL;
}

static const char *acted_next(const void *row)
{
	const struct acted_job *x = row;
	return refusal_next(ACTED(x), x->caller);
}

static const char *acted_warning(const void *row)
{
	const struct candidate *c = ACTED(row);
	return c->refusal ? NULL : c->warning;
}

static void acted_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_facts(out, w, &ACTED(row)->facts);
}

static const struct field acted_fields[] = {
	{"job", .words = acted_name, .about = "as commands name it: pages/17"},
	{"outcome", .text = acted_outcome, .schema = SCHEMA_REF("Outcome")},
	{"detail", .mask = MASK_WORDS, .words = acted_detail, .null = true},
	{"refusal", .mask = MASK_WORDS, .words = acted_refusal, .null = true},
	{"next", .text = acted_next, .null = true, .about = "what can be done about the refusal"},
	{"warning", .mask = MASK_WORDS, .text = acted_warning, .null = true,
     .about = "a side effect to know of"},
	{0},
};

const struct record acted_record = {
	.name = "ActedJob",
	.about = "a job that was acted on",
	.fields = acted_fields,
	.size = sizeof(struct acted_job),
	.secrets = acted_secrets,
};

void act_job_json(const struct watch *w, const struct candidate *c, enum outcome good,
                  enum caller caller, struct buf *out)
{
	const struct viewer v = viewer_local(w, NULL);
	record_json(&acted_record, &(struct acted_job){c, good, caller}, &v, out);
}

static const struct field by_hand_fields[] = {
	{.type = FIELD_COUNTS,
     FIELD_AT(struct by_hand_result, outcomes),
     .names = outcome_names,
     .n = OUTCOME_COUNT},
	{"batch", FIELD_CHARS, FIELD_AT(struct by_hand_result, batch), .null = true},
	{"error", FIELD_FAILURE, FIELD_AT(struct by_hand_result, failure)},
	{0},
};

void act_group_end_json(const struct by_hand_result *r, struct buf *out)
{
	static const struct record by_hand_record = {.fields = by_hand_fields,
	                                             .size = sizeof(struct by_hand_result)};
	const struct viewer v = viewer_local(NULL, NULL);
	buf_add(out, "]");
	record_json_members(&by_hand_record, r, &v, out);
	buf_add(out, "}");
}

/* The outcome of a job, where its name is unclear. */
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
	buf_add_count(out, n);
	buf_addf(out, " job%s of watch %s in database %s (", n == 1 ? "" : "s", w->name, d->name);
	url_redact(d->url, out);
	buf_add(out, ")");
}

void act_rows_init(struct act_rows *r, int most)
{
	*r = (struct act_rows){.most = most};
	table_init(&r->table);
	r->table.whole = true;
	table_columns(&r->table, "JOB OUTCOME DETAIL");
}

void act_job_row(struct act_rows *rows, const struct act_words *r, const struct watch *w,
                 const struct candidate *c)
{
	bool good = c->outcome == act_good(r);
	AUTO_BUF part = BUF_INIT, refusal = BUF_INIT;
	if (rows->seen[!good]++ >= rows->most)
		return;
	refusal_text(c, &refusal);
	const char *why = c->refusal ? buf_text(&refusal) : good ? c->warning : NULL;
	job_qualified(w, c->facts.job, &part);
	table_take(&rows->table, COLOR_NONE, &part);
	outcome_text(r, c->outcome, &part);
	if (why) {
		AUTO_SECRETS secrets = {0};
		secrets_facts(&secrets, w, &c->facts);
		buf_add(&part, ": ");
		masked_free_text(w, &secrets, why, &part);
	}
	table_take(&rows->table, good ? COLOR_GREEN : COLOR_YELLOW, &part);
	act_detail(w, c, &part);
	table_take(&rows->table, COLOR_NONE, &part);
}

void act_rows_text(const struct act_rows *rows, const char *where, bool color, struct buf *out)
{
	int64_t unseen = 0;
	for (int i = 0; i < 2; i++)
		unseen += rows->seen[i] > rows->most ? rows->seen[i] - rows->most : 0;
	if (rows->table.n)
		table_print(&rows->table, color, out);
	if (unseen) {
		buf_add(out, "… and ");
		buf_add_count(out, unseen);
		buf_addf(out, " more%s\n", where);
	}
}

void act_rows_release(struct act_rows *r)
{
	table_release(&r->table);
}

void act_counts_text(const struct act_words *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out)
{
	AUTO_BUF counts = BUF_INIT;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (result->outcomes[i]) {
			buf_add(&counts, counts.len ? ", " : "");
			buf_add_count(&counts, result->outcomes[i]);
			buf_add(&counts, " ");
			outcome_text(r, (enum outcome)i, &counts);
		}
	if (counts.len)
		buf_addf(out, "%s/%s: %s\n", d->name, w->name, buf_text(&counts));
}

/* ---- background acts ---- */

static int64_t others_total(const json_t *others)
{
	int64_t n = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)others, name, value) n += json_integer_value(value);
	return n;
}

int64_t background_handled(const struct background_act *act)
{
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	return act->done + others_total(others);
}

void background_sentence(const struct background_act *act, struct buf *out)
{
	const struct act_kind *kind = act_kind_named(act->act);
	json_auto_t *others = json_loads(act->others ? act->others : "{}", 0, NULL);
	const char *name;
	json_t *value;
	buf_add_count(out, act->done);
	if (act->total >= 0) {
		buf_add(out, " of ");
		buf_add_count(out, act->total);
	}
	buf_addf(out, " %s", kind ? kind->done : act->act);
	json_object_foreach(others, name, value)
	{
		buf_add(out, ", ");
		buf_add_count(out, json_integer_value(value));
		buf_addf(out, " %s", name);
	}
}

static enum color state_color(const char *state)
{
	if (text_eq(state, BACKGROUND_FAILED))
		return COLOR_RED;
	if (text_eq(state, BACKGROUND_CANCELLED))
		return COLOR_YELLOW;
	return text_eq(state, BACKGROUND_DONE) ? COLOR_GREEN : COLOR_NONE;
}

static void terms_text(const struct background_act *act, struct buf *out)
{
	json_auto_t *list = json_loads(act->terms, 0, NULL);
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		buf_add(out, i ? ", " : "");
		out_visible(out, json_string_value(item) ? json_string_value(item) : "?");
	}
	if (!json_array_size(list))
		buf_add(out, "all jobs");
}

#define ACT(row) ((const struct background_act *)(row))

static bool background_watch(const void *row, const struct viewer *v, struct buf *out)
{
	buf_addf(out, "%s/%s", v->database, ACT(row)->watch);
	return true;
}

static bool background_total(const void *row, int64_t *out)
{
	*out = ACT(row)->total;
	return *out >= 0;
}

static bool background_handled_number(const void *row, int64_t *out)
{
	*out = background_handled(row);
	return true;
}

static const char *background_others(const void *row)
{
	return ACT(row)->others ? ACT(row)->others : "{}";
}

static bool background_jobs(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	background_sentence(row, out);
	return true;
}

static bool background_where(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	terms_text(row, out);
	return true;
}

static const char *background_batch(const void *row)
{
	return ACT(row)->done > 0 ? ACT(row)->id : NULL;
}

static enum color background_color(const void *row)
{
	return state_color(ACT(row)->state);
}

#define AT(member) FIELD_AT(struct background_act, member)
static const struct field background_fields[] = {
	{"id", AT(id), .title = "ID", .about = "also the batch in the ledger"},
	{"database", .words = field_database},
	{"watch", AT(watch)},
	{.words = background_watch, .title = "WATCH"},
	{"act", AT(act), .title = "ACT"},
	{.words = background_jobs, .label = "jobs"},
	/* What operators typed may name what is masked for a viewer. */
	{.mask = MASK_OPERATORS, .words = background_where, .label = "where"},
	{"where", FIELD_DATA, MASK_OPERATORS, AT(terms), .instead = "[]",
     .schema = "{type: array, items: {type: string}}", .about = "empty for viewers"},
	{"from_step", AT(step), .null = true, .label = "from step"},
	{"override_guard", FIELD_BOOL, AT(overrides)},
	{"reason", .mask = MASK_OPERATORS, AT(reason), .null = true, .label = "reason",
     .about = "null for viewers"},
	{"actor", AT(actor), .label = "by"},
	{"state", AT(state), .title = "STATE", .paint = background_color,
     .schema = "{enum: [waiting, running, done, cancelled, failed]}"},
	{"total", FIELD_NUMBER, .number = background_total, .null = true,
     .about = "jobs that matched when it was ordered; null: more than 100,000"},
	{"handled", FIELD_NUMBER, .number = background_handled_number},
	{"done", FIELD_NUMBER, AT(done)},
	{"others", FIELD_DATA, .text = background_others,
     .schema = "{type: object, additionalProperties: {type: integer}}",
     .about = "outcomes of the others, such as refused, and their numbers"},
	{.words = background_jobs, .title = "JOBS"},
	{.type = FIELD_TIME, AT(at_us), .zero_null = true, .title = "ORDERED", .label = "ordered"},
	{.type = FIELD_TIME, AT(ended_us), .zero_null = true, .label = "ended"},
	{AT(actor), .title = "BY"},
	{"refusal", .mask = MASK_OPERATORS, AT(refusal), .null = true, .label = "refused",
     .about = "the first one; null for viewers"},
	{"error", .mask = MASK_WORDS, AT(error), .null = true, .label = "error",
     .about = "why it failed"},
	{"at", FIELD_TIME, AT(at_us), .zero_null = true, .about = "when it was ordered"},
	{"updated_at", FIELD_TIME, AT(updated_us), .zero_null = true},
	{"ended_at", FIELD_TIME, AT(ended_us), .zero_null = true},
	{"batch", .text = background_batch, .null = true,
     .about = "to undo it; null: nothing was done"},
	{0},
};
#undef AT

const struct record background_record = {
	.name = "BackgroundAct",
	.about = "an act on all jobs that match, which a daemon carries out",
	.fields = background_fields,
	.size = sizeof(struct background_act),
};

void undo_line(bool undoable, const char *batch, struct buf *out)
{
	if (undoable)
		buf_addf(out, "undo with: defib undo %s\n", batch);
	else
		buf_addf(out,
		         "batch %s cannot be undone: it released or excused jobs, or the watch's own SQL "
		         "ran (sql:, call: or also:)\n",
		         batch);
}

void background_text(const struct background_act *act, const struct database *d, int64_t now_us,
                     bool undoable, bool color, struct buf *out)
{
	const struct viewer v = {.database = d->name, .role = ROLE_ADMIN, .now_us = now_us};
	out_title(out, color, d->name, act->watch);
	buf_addf(out, ": %s, ", act->act);
	out_color(out, color, state_color(act->state), act->state);
	buf_add(out, "\n");
	record_sheet(&background_record, act, &v, 10, out);
	if (!act->ended_us)
		buf_addf(out, "cancel with: defib act cancel %s\n", act->id);
	if (act->done)
		undo_line(undoable, act->id, out);
}

/* ---- a watch that never had a running row ---- */

void unseen_hint(bool secured, struct buf *out)
{
	buf_add(out, "no record shows that one ever was");
	if (secured)
		buf_add(out, "; row-level security applies to this role and may hide rows");
	buf_add(out, ": check `running` in the watch, or run defib doctor");
}
