/* SPDX-License-Identifier: Apache-2.0 */
/* record_test.c: every record in every form, and what a viewer sees of it. */
#include "view/record_docs.h"

#include "base/test.h"
#include "insight/incidents.h"
#include "insight/report.h"
#include "insight/tally.h"
#include "ledger/background.h"
#include "view/alert.h"
#include "view/installation.h"
#include "view/job.h"
#include "view/ledger.h"
#include "view/report.h"
#include "view/report_forms.h"
#include "view/scan.h"
#include "view/stats.h"
#include "view/status.h"
#include "view/story.h"
#include "view/story_steps.h"

#define SECRET "hunter2-swordfish"
#define WORDS "lost " SECRET " again"
#define DOCUMENT "{\"password\": \"" SECRET "\", \"note\": \"" WORDS "\"}"
#define PLAIN "{\"password\": \"" SECRET "\"}"
#define NAMED "password=" SECRET /* masked by its name, where no values are known */

/* ---- who reads ---- */

static const char *const shown[] = {"password"}, *const hidden[] = {"password", "worker"};

/* Masks nothing, or a column and owners. */
static const struct watch *a_watch(bool masking)
{
	static const struct watch open = {.name = "jobs",
	                                  .table = "jobs",
	                                  .key = {1, (const char **)shown},
	                                  .owner = {.text = "t.worker"},
	                                  .running = {.text = "true"},
	                                  .show = {1, (const char **)shown}};
	static struct watch masked;
	masked = open;
	masked.mask = (struct text_list){2, (const char **)hidden};
	return masking ? &masked : &open;
}

static struct viewer reader(bool masking)
{
	return (struct viewer){.watch = a_watch(masking),
	                       .database = "main",
	                       .role = masking ? ROLE_VIEWER : ROLE_ADMIN,
	                       .now_us = 1};
}

/* ---- a row of each record, with the secret in every field that is masked ---- */

static const struct judge_rule rule = {"silent", VERDICT_SILENT, "it is silent"};
static const struct facts facts = {.job = "17",
                                   .owner = SECRET,
                                   .hold = HOLD_STATE_OPERATOR,
                                   .hold_cause = HOLD_BY_HAND,
                                   .hold_reason = WORDS,
                                   .excused = VERDICT_SILENT,
                                   .excused_by = "cli:anna",
                                   .excuse_reason = WORDS,
                                   .running = true,
                                   .show = {SECRET}};
static const struct ledger_row entry = {.id = 1,
                                        .at = "2026-01-02T03:04:05.000Z",
                                        .batch = "b",
                                        .watch = "jobs",
                                        .job = "17",
                                        .event = "REQUEUED",
                                        .actor = "daemon",
                                        .verdict = "silent",
                                        .rule = "default",
                                        .reason = WORDS,
                                        .evidence = DOCUMENT,
                                        .before = DOCUMENT,
                                        .after = DOCUMENT};
static const struct story_attempt attempt = {
	.outcome = "failed", .error = NAMED, .worker = SECRET, .number = 1};
static const struct story_step step = {.name = "charge",
                                       .state = "done",
                                       .output = PLAIN,
                                       .error = NAMED,
                                       .nattempts = 1,
                                       .attempts = (struct story_attempt *)&attempt};
static const struct claim claim = {.application = "app", .pid = 7};

static const struct browsed *a_job(void)
{
	static struct browsed job;
	job = (struct browsed){.job = "17",
	                       .state = "running",
	                       .facts = facts,
	                       .judgement = {.rule = &rule}}; /* excused */
	return &job;
}

static const struct candidate *a_candidate(void)
{
	static struct candidate c;
	c = (struct candidate){.facts = facts,
	                       .judgement = {.verdict = VERDICT_SILENT, .rule = &rule},
	                       .decision = {.remedy = REMEDY_REQUEUE, .rule = "default"},
	                       .outcome = OUTCOME_REFUSED,
	                       .refusal = WORDS,
	                       .reason = WORDS,
	                       .evidence = DOCUMENT};
	return &c;
}

static const void *a_story(void)
{
	static const char *values[] = {SECRET};
	static struct story_sheet sheet;
	sheet = (struct story_sheet){
		.story = {.row = *a_job(),
	              .ncolumns = 1,
	              .names = (const char **)shown,
	              .values = values,
	              .nsteps = 1,
	              .steps = (struct story_step *)&step,
	              .progress = {.there = true, .step = WORDS, .text = WORDS},
	              .data = {true, DOCUMENT, DOCUMENT, "[\"" WORDS "\"]"},
	              .nentries = 1,
	              .entries = (struct ledger_row *)&entry,
	              .has_hold = true,
	              .hold = {.at = "2026-01-02", .cause = HOLD_BY_HAND, .reason = WORDS},
	              .has_retry = true,
	              .retry = {.attempt = 1, .reason = WORDS}},
		.is = {.cand = *a_candidate()},
	};
	return &sheet;
}

static const void *a_report(bool masking)
{
	static struct digest_count owners[] = {{.name = SECRET, .n = 1}};
	static struct held_job holds[] = {
		{.job = "17", .at = "2026-01-02", .cause = "by hand", .reason = WORDS, .owner = SECRET}};
	static const struct database database = {.name = "main"};
	static struct report_watch watches[1];
	static struct report_view view;
	watches[0] = (struct report_watch){.watch = a_watch(masking),
	                                   .database = &database,
	                                   .owners = {owners, 1},
	                                   .nholds = 1,
	                                   .holds = holds};
	view = (struct report_view){.report = {.nwatches = 1, .watches = watches}};
	return &view;
}

/* NULL: nothing of the record is masked, and an empty row will do. */
static const void *row_of(const struct record *r, bool masking)
{
	static struct listed_job job;
	static struct explained explained;
	static struct acted_job acted;
	static struct roster_row roster;
	static struct worker_view worker;
	static const struct incident incident = {.host = SECRET,
	                                         .workers = {SECRET},
	                                         .nworkers = 1,
	                                         .watches = {"jobs"},
	                                         .nwatches = 1,
	                                         .verdict = VERDICT_DEAD};
	static const struct background_act act = {.id = "1",
	                                          .watch = "jobs",
	                                          .act = "requeue",
	                                          .terms = "[\"" NAMED "\"]",
	                                          .reason = WORDS,
	                                          .actor = "cli:anna",
	                                          .state = "failed",
	                                          .refusal = WORDS,
	                                          .error = NAMED};
	static const struct held_job held = {
		.job = "17", .at = "2026-01-02", .cause = "by hand", .reason = WORDS, .owner = SECRET};
	if (r == &job_record) {
		job = (struct listed_job){a_job(), "cursor", a_candidate()};
		return &job;
	}
	if (r == &explained_record) {
		explained = (struct explained){.cand = *a_candidate(), .guard = WORDS};
		explained.cand.judgement.verdict = VERDICT_NONE; /* excused */
		return &explained;
	}
	if (r == &acted_record) {
		acted = (struct acted_job){a_candidate(), OUTCOME_RECOVERED, CALLER_COMMAND};
		return &acted;
	}
	if (r == &worker_record) {
		roster = (struct roster_row){.name = SECRET,
		                             .state = "alive",
		                             .known = true,
		                             .who = {.host = SECRET, .pid = 4711},
		                             .serves = "queue",
		                             .info = PLAIN};
		worker = (struct worker_view){&roster, "[1.0]"};
		return &worker;
	}
	return r == &story_record                                 ? a_story()
	       : r == &report_record                              ? a_report(masking)
	       : r == &candidate_record                           ? a_candidate()
	       : r == &entry_record || r == &history_entry_record ? (const void *)&entry
	       : r == &step_record                                ? (const void *)&step
	       : r == &attempt_record                             ? (const void *)&attempt
	       : r == &claim_record                               ? (const void *)&claim
	       : r == &incident_record                            ? (const void *)&incident
	       : r == &background_record                          ? (const void *)&act
	       : r == &held_record                                ? (const void *)&held
	                                                          : NULL;
}

/* ---- all forms ---- */

static void in_every_form(const struct record *r, const void *row, bool masking, struct buf *out)
{
	struct viewer v = reader(masking);
	AUTO(table_release) struct table t = {0};
	record_json(r, row, &v, out);
	buf_add(out, "\n");
	record_csv_names(r, out);
	record_csv(r, row, &v, out);
	record_sheet(r, row, &v, 12, out);
	table_init(&t);
	t.whole = true;
	record_columns(r, &v, &t);
	if (t.ncols) {
		record_row(r, row, &v, &t);
		table_print(&t, false, out);
	}
}

/* How many fields of it are masked, and shown to programs. */
static int masked_fields(const struct record *r)
{
	int n = 0;
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		/* A number cannot be the secret; that it is hidden is tested below. */
		n += f->name && f->mask != MASK_NOTHING && f->type != FIELD_INT;
		n += f->of ? masked_fields(f->of) : 0;
	}
	return n;
}

static int occurrences(const char *text, const char *part)
{
	int n = 0;
	for (; (text = strstr(text, part)) != NULL; text++)
		n++;
	return n;
}

static void every_masked_field_is_masked_in_every_form(void **state)
{
	(void)state;
	for (const struct record *const *r = view_records; *r; r++) {
		AUTO_BUF open = BUF_INIT, seen = BUF_INIT, json = BUF_INIT;
		const void *row = row_of(*r, false);
		struct viewer all = reader(false);
		if (masked_fields(*r) == 0)
			continue;
		if (!row)
			fail_msg("%s has masked fields: it needs a row here", (*r)->name);
		in_every_form(*r, row, false, &open);
		record_json(*r, row, &all, &json);
		/* Else the row lacks a value that would have to be masked. */
		if (occurrences(buf_text(&json), SECRET) < masked_fields(*r))
			fail_msg("%s: the secret is not in all %d masked fields:\n%s", (*r)->name,
			         masked_fields(*r), buf_text(&json));
		in_every_form(*r, row_of(*r, true), true, &seen);
		if (strstr(buf_text(&seen), SECRET))
			fail_msg("%s shows what is masked:\n%s", (*r)->name, buf_text(&seen));
	}
}

/* A field that no mask covers must not reach the secret by another way. */
static void every_text_of_a_job_is_masked(void **state)
{
	const char *const forms[] = {"****rdfish", "running", "jobs/17"};
	AUTO_BUF out = BUF_INIT;
	(void)state;
	in_every_form(&job_record, row_of(&job_record, true), true, &out);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		assert_non_null(strstr(buf_text(&out), forms[i]));
}

static void processes_are_for_operators(void **state)
{
	struct viewer viewer = reader(true), admin = reader(false);
	AUTO_BUF out = BUF_INIT;
	(void)state;
	record_json(&worker_record, row_of(&worker_record, true), &viewer, &out);
	assert_non_null(strstr(buf_text(&out), "\"pid\":null"));
	buf_clear(&out);
	record_json(&worker_record, row_of(&worker_record, true), &admin, &out);
	assert_non_null(strstr(buf_text(&out), "\"pid\":4711"));
	buf_clear(&out);
	record_json(&background_record, row_of(&background_record, true), &viewer, &out);
	assert_non_null(strstr(buf_text(&out), "\"where\":[],"));
	assert_non_null(strstr(buf_text(&out), "\"reason\":null"));
}

/* ---- the tables themselves ---- */

static void check_field(const struct record *r, const struct field *f)
{
	static const enum field_is wanted[] = {
		[FIELD_TEXT] = IS_TEXT,      [FIELD_CHARS] = IS_CHARS,   [FIELD_FAILURE] = IS_OTHER,
		[FIELD_STATE] = IS_TEXT,     [FIELD_WORD] = IS_INT,      [FIELD_BOOL] = IS_BOOL,
		[FIELD_NUMBER] = IS_NUMBER,  [FIELD_INT] = IS_INT,       [FIELD_REAL] = IS_REAL,
		[FIELD_SECONDS] = IS_NUMBER, [FIELD_MS] = IS_NUMBER,     [FIELD_TIME] = IS_NUMBER,
		[FIELD_DOCUMENT] = IS_TEXT,  [FIELD_DATA] = IS_TEXT,     [FIELD_TEXTS] = IS_OTHER,
		[FIELD_COUNTS] = IS_OTHER,   [FIELD_MAP] = IS_OTHER,     [FIELD_RECORD] = IS_OTHER,
		[FIELD_LIST] = IS_OTHER,     [FIELD_MEMBERS] = IS_OTHER, [FIELD_JSON] = IS_OTHER,
	};
	const char *name = f->name ? f->name : f->title ? f->title : f->label;
	bool computed =
		f->text || f->words || f->number || f->real || f->part || f->item || f->pair || f->json;
	bool itself = f->type == FIELD_MEMBERS || f->type == FIELD_RECORD;
	if (computed ? f->is != IS_COMPUTED : f->is == IS_COMPUTED && !itself)
		fail_msg("%s.%s needs a member or a function, not both", r->name, name);
	if (f->is != IS_COMPUTED && f->is != wanted[f->type])
		fail_msg("%s.%s is another type than its member", r->name, name);
	if (f->type == FIELD_JSON && f->name && !f->schema)
		fail_msg("%s.%s needs a schema", r->name, name);
	if ((f->type == FIELD_DOCUMENT || f->type == FIELD_MAP) && f->mask == MASK_NOTHING)
		fail_msg("%s.%s: values of users are masked", r->name, name);
}

static void check_fields(const struct record *r)
{
	for (const struct field *f = r->fields; !field_is_last(f); f++) {
		check_field(r, f);
		if (f->of)
			check_fields(f->of);
	}
}

static void every_field_has_the_type_of_its_member(void **state)
{
	(void)state;
	for (const struct record *const *r = view_records; *r; r++)
		check_fields(*r);
}

static void names_of_records_are_unique(void **state)
{
	(void)state;
	for (const struct record *const *r = view_records; *r; r++)
		for (const struct record *const *other = view_records; other < r; other++)
			assert_string_not_equal((*r)->name, (*other)->name);
}

/* ---- forms ---- */

struct pair {
	const char *text;
	int64_t us;
	bool has;
};

static const struct field pair_fields[] = {
	{"text", FIELD_AT(struct pair, text), .null = true, .title = "TEXT", .label = "text"},
	{"took_s", FIELD_SECONDS, FIELD_AT(struct pair, us), FIELD_HAS(struct pair, has),
     .title = "TOOK", .label = "took"},
	{"extra", FIELD_AT(struct pair, text), FIELD_HAS(struct pair, has), .optional = true},
	{0},
};
static const struct record pair_record = {
	.name = "Pair", .about = "a test", .fields = pair_fields, .size = sizeof(struct pair)};

static void a_null_is_null_and_an_option_is_left_out(void **state)
{
	const struct pair none = {.us = 5}, some = {"a", 1500000, true};
	struct viewer v = reader(false);
	AUTO_BUF out = BUF_INIT;
	(void)state;
	record_json(&pair_record, &none, &v, &out);
	assert_string_equal(buf_text(&out), "{\"text\":null,\"took_s\":null}");
	buf_clear(&out);
	record_json(&pair_record, &some, &v, &out);
	assert_string_equal(buf_text(&out), "{\"text\":\"a\",\"took_s\":1.500,\"extra\":\"a\"}");
}

static void csv_quotes_texts_and_disarms_formulas(void **state)
{
	const struct pair row = {"=cmd|\"x\"", 0, false};
	struct viewer v = reader(false);
	AUTO_BUF out = BUF_INIT;
	(void)state;
	record_csv_names(&pair_record, &out);
	record_csv(&pair_record, &row, &v, &out);
	assert_string_equal(buf_text(&out), "text,took_s,extra\r\n\"'=cmd|\"\"x\"\"\",,\r\n");
}

static void a_sheet_has_only_lines_with_a_value(void **state)
{
	const struct pair row = {NULL, 2000000, true};
	struct viewer v = reader(false);
	AUTO_BUF out = BUF_INIT;
	(void)state;
	record_sheet(&pair_record, &row, &v, 6, &out);
	assert_string_equal(buf_text(&out), "  took   2s\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_masked_field_is_masked_in_every_form),
		cmocka_unit_test(every_text_of_a_job_is_masked),
		cmocka_unit_test(processes_are_for_operators),
		cmocka_unit_test(every_field_has_the_type_of_its_member),
		cmocka_unit_test(names_of_records_are_unique),
		cmocka_unit_test(a_null_is_null_and_an_option_is_left_out),
		cmocka_unit_test(csv_quotes_texts_and_disarms_formulas),
		cmocka_unit_test(a_sheet_has_only_lines_with_a_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
