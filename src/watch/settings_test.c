/* SPDX-License-Identifier: Apache-2.0
 * settings_test.c: whole configurations: the examples of the language, the forms of each structured
 * value, presets, and what is rejected.
 */
#include "watch/settings.h"

#include "base/clock.h"
#include "base/text.h"
#include "embedded.h"
#include "watch/examples_test.h"
#include "watch/watch_test.h"

#define BASE "table: pages\nkey: id\nrunning: status = 'running'\nalive_at: updated_at\n"
#define PLAIN BASE "stuck_after: 60m\n"

static struct reading reading;

static int release(void **state)
{
	(void)state;
	reading_release(&reading);
	return 0;
}

static const struct watch *read_keys(const char *keys)
{
	reading_open_watch(&reading, SQLITE_URL, keys);
	return only_watch(&reading);
}

/* Reads keys that must be rejected, with these words. */
static void refuse(const char *keys, const char *words)
{
	reading_release(&reading); /* a test may refuse several */
	reading_open_watch(&reading, SQLITE_URL, keys);
	if (!reading_said(&reading, words, false)) {
		print_problems(&reading);
		fail_msg("nothing said: %s", words);
	}
}

static const struct watch *example(const char *name)
{
	reading_open(&reading, examples_yaml);
	assert_clean(&reading);
	const struct watch *w = settings_watch(&reading.settings, name);
	assert_non_null(w);
	return w;
}

static void all_examples_of_the_language_are_read(void **state)
{
	(void)state;
	reading_open(&reading, examples_yaml);
	assert_clean(&reading);
	assert_int_equal(reading.settings.nwatches, 9);
	assert_int_equal(reading.settings.ndatabases, 1);
}

static void the_first_example_has_what_it_says(void **state)
{
	const struct watch *w = example("pages");
	(void)state;
	assert_string_equal(w->running.text, "page_processing_status = 'Processing'");
	assert_int_equal(w->stuck_after.standard_us, 3600 * US_PER_S);
	assert_int_equal(w->every_us, 900 * US_PER_S);
	assert_int_equal(w->actions[REMEDY_REQUEUE].form, ACTION_SET);
	assert_string_equal(w->reason, "Auto-reset from stuck Processing state");
}

static void defaults_are_what_the_documentation_says(void **state)
{
	const struct watch *w = read_keys(PLAIN);
	(void)state;
	assert_true(w->enabled);
	assert_int_equal(w->every_us, 60 * US_PER_S);
	assert_int_equal(w->batch, 1000);
	assert_int_equal(w->limit, 0);
	assert_int_equal(w->statement_timeout_us, 5 * US_PER_S);
	assert_int_equal(w->missing, MISSING_ALIVE);
	assert_int_equal(w->time_type, TIME_TYPE_AUTO);
	assert_int_equal(w->crash_budget.max, 3);
	assert_int_equal(w->crash_budget.within_us, 72 * 3600 * US_PER_S);
	assert_false(w->crash_budget.given);
	assert_int_equal(w->startup.mode, STARTUP_RECOVER);
	assert_false(w->guard.off);
	assert_int_equal(w->nrules, 0);
	assert_false(w->work.given);
}

static void thresholds_by_kind_have_a_limit_for_every_kind(void **state)
{
	const struct watch *w = example("jobs");
	int64_t us = 0;
	(void)state;
	assert_true(threshold_for(&w->stuck_after, "scrape", &us));
	assert_int_equal(us, 300 * US_PER_S);
	assert_true(threshold_for(&w->stuck_after, "unheard of", &us));
	assert_int_equal(us, 1800 * US_PER_S);
	assert_true(threshold_for(&w->stuck_after, NULL, &us));
	assert_int_equal(us, 1800 * US_PER_S);
	assert_int_equal(threshold_least(&w->stuck_after), 300 * US_PER_S);
	assert_false(threshold_for(&w->overdue_after, "scrape", &us));
}

static void a_threshold_by_state_and_row_names_them_apart_from_kinds(void **state)
{
	const struct watch *w =
		read_keys(BASE "kind: type\nstates: {7: cancelling}\n"
	                   "stuck_after: {state: {cancelling: 5m, assigned: 2m}, kind: "
	                   "{scrape: 300s}, sql: timeout, default: 1h}\n");
	const struct threshold *t = &w->stuck_after;
	(void)state;
	assert_int_equal(t->standard_us, 3600 * US_PER_S);
	assert_int_equal(t->states.n, 2);
	assert_string_equal(t->states.names[0], "cancelling");
	assert_string_equal(t->states.values[0], "7");
	assert_string_equal(t->states.values[1], "assigned");
	assert_int_equal(t->states.us[1], 120 * US_PER_S);
	assert_int_equal(t->n, 1);
	assert_string_equal(t->kinds[0], "scrape");
	assert_string_equal(t->own.text, "timeout");
	assert_int_equal(threshold_least(t), 120 * US_PER_S);
	assert_false(threshold_plain(t));
}

static void kinds_may_have_the_names_of_parts(void **state)
{
	const struct watch *w =
		read_keys(BASE "kind: type\nstuck_after: {state: 5m, kind: 2m, default: 1h}\n");
	(void)state;
	assert_int_equal(w->stuck_after.n, 2);
	assert_int_equal(w->stuck_after.states.n, 0);
}

static void a_threshold_by_row_that_makes_no_sense_is_refused(void **state)
{
	(void)state;
	refuse(BASE "stuck_after: {state: {cancelling: 5m}}\n", "needs a default");
	refuse(BASE "stuck_after: {state: {cancelling: soon}, default: 1h}\n", "soon");
	refuse(BASE "stuck_after: {sql: timeout, kind: 5m, default: 1h}\n", "kind expects a map");
	refuse(BASE "stuck_after: {sql: 5m, default: 1h}\n", "sql expects an expression of the row");
	refuse(BASE "stuck_after: {sql: timeout, crawl: 5m, default: 1h}\n",
	       "write a kind as kind: {crawl: …}");
}

static void thresholds_by_kind_need_a_default(void **state)
{
	(void)state;
	refuse(BASE "kind: type\nstuck_after: {scrape: 300s}\n", "needs a default");
}

static void a_threshold_without_a_unit_is_refused(void **state)
{
	(void)state;
	refuse(BASE "stuck_after: 60\n", "stuck_after");
}

static void an_action_is_a_set_list_or_statements_or_a_call(void **state)
{
	const struct watch *w = read_keys(PLAIN "requeue: a = 1\n"
	                                        "fail: {sql: [DELETE FROM a, DELETE FROM b]}\n"
	                                        "rollback: {sql: DELETE FROM c}\n"
	                                        "hold: {call: 'f(:id)'}\n");
	(void)state;
	assert_int_equal(w->actions[REMEDY_REQUEUE].form, ACTION_SET);
	assert_int_equal(w->actions[REMEDY_FAIL].form, ACTION_SQL);
	assert_int_equal(w->actions[REMEDY_FAIL].n, 2);
	assert_string_equal(w->actions[REMEDY_FAIL].sql[1].text, "DELETE FROM b");
	assert_int_equal(w->actions[REMEDY_ROLLBACK].n, 1);
	assert_int_equal(w->actions[REMEDY_HOLD].form, ACTION_CALL);
	assert_string_equal(w->actions[REMEDY_HOLD].set.text, "f(:id)");
	assert_int_equal(w->actions[REMEDY_RETRY].form, ACTION_NONE);
}

static void an_action_of_two_forms_is_refused(void **state)
{
	(void)state;
	refuse(PLAIN "requeue: {sql: [DELETE FROM a], call: f()}\n", "expects a SET list");
}

static void an_action_of_an_unknown_form_is_refused(void **state)
{
	(void)state;
	refuse(PLAIN "requeue: {update: a = 1}\n", "expects a SET list");
}

static void a_retry_may_have_a_now_and_a_then(void **state)
{
	const struct watch *w = read_keys(PLAIN "retry: {now: a = 1, then: a = 2}\n");
	(void)state;
	assert_int_equal(w->actions[REMEDY_RETRY].form, ACTION_SET);
	assert_string_equal(w->actions[REMEDY_RETRY].set.text, "a = 1");
	assert_string_equal(w->actions[ACT_THEN].set.text, "a = 2");
}

static void a_retry_may_be_one_set_list(void **state)
{
	const struct watch *w = read_keys(PLAIN "retry: 'run_at = :retry_at'\n");
	(void)state;
	assert_string_equal(w->actions[REMEDY_RETRY].set.text, "run_at = :retry_at");
	assert_null(w->actions[ACT_THEN].set.text);
}

static void a_now_without_a_then_is_refused(void **state)
{
	(void)state;
	refuse(PLAIN "retry: {now: a = 1}\n", "now: and then:");
}

static void rules_are_read_with_all_their_terms(void **state)
{
	const struct watch *w =
		read_keys(PLAIN "kind: type\nattempts: n\nmax_attempts: 3\nfail: a = 1\nremedies:\n"
	                    "  - {verdict: silent, kind: crawl, attempts: exhausted, crashes: 2, when: "
	                    "b = 1, do: fail}\n"
	                    "  - {do: report}\n");
	(void)state;
	assert_int_equal(w->nrules, 2);
	assert_int_equal(w->rules[0].verdict, VERDICT_SILENT);
	assert_string_equal(w->rules[0].kind, "crawl");
	assert_int_equal(w->rules[0].attempts, ATTEMPTS_EXHAUSTED);
	assert_int_equal(w->rules[0].crashes, 2);
	assert_string_equal(w->rules[0].when.text, "b = 1");
	assert_int_equal(w->rules[0].remedy, REMEDY_FAIL);
	assert_int_equal(w->rules[1].verdict, VERDICT_NONE);
	assert_int_equal(w->rules[1].attempts, ATTEMPTS_ANY);
	assert_int_equal(w->rules[1].remedy, REMEDY_REPORT);
}

static void a_rule_must_say_what_to_do(void **state)
{
	(void)state;
	refuse(PLAIN "remedies: [{verdict: silent}]\n", "do");
}

static void an_unknown_remedy_is_refused_with_the_nearest(void **state)
{
	(void)state;
	refuse(PLAIN "remedies: [{do: reqeue}]\n", "requeue");
}

static void startup_recovers_rests_or_does_what_it_is_told(void **state)
{
	const struct watch *w = example("jobs");
	(void)state;
	assert_int_equal(w->startup.mode, STARTUP_DO);
	assert_int_equal(w->startup.remedy, REMEDY_FAIL);
	assert_true(text_starts(w->startup.reason, "Container restart: "));
	reading_release(&reading);
	assert_int_equal(read_keys(PLAIN "startup: off\n")->startup.mode, STARTUP_OFF);
	reading_release(&reading);
	assert_int_equal(read_keys(PLAIN "startup: recover\n")->startup.mode, STARTUP_RECOVER);
	reading_release(&reading);
	refuse(PLAIN "startup: maybe\n", "expects recover, off");
}

static void the_guard_can_be_off_or_have_values(void **state)
{
	(void)state;
	const struct watch *w = read_keys(PLAIN "guard: off\n");
	assert_true(w->guard.off);
	assert_int_equal(w->guard.brake_owners, 2);
	reading_release(&reading);
	w = read_keys(PLAIN "guard: {brake_share: 0.8, burst: 7}\n");
	assert_false(w->guard.off);
	assert_true(w->guard.brake_share == 0.8);
	assert_int_equal(w->guard.pace_burst, 7);
}

static void the_crash_budget_can_be_off_or_have_values(void **state)
{
	(void)state;
	const struct watch *w = read_keys(PLAIN "crash_budget: off\n");
	assert_int_equal(w->crash_budget.max, 0);
	assert_true(w->crash_budget.given);
	reading_release(&reading);
	w = read_keys(PLAIN "crash_budget: {max: 5, within: 1h}\n");
	assert_int_equal(w->crash_budget.max, 5);
	assert_int_equal(w->crash_budget.within_us, 3600 * US_PER_S);
}

static void coded_states_have_names(void **state)
{
	const struct watch *w = example("ocr");
	(void)state;
	assert_int_equal(w->states.n, 3);
	assert_string_equal(w->states.codes[2], "6");
	assert_string_equal(w->states.names[2], "OCR_PROCESSING");
}

static void the_work_part_is_read_with_its_pools(void **state)
{
	const struct watch *w = example("jobs");
	(void)state;
	assert_true(w->work.given && w->work.enabled);
	assert_int_equal(w->work.npools, 3);
	assert_string_equal(w->work.pools[1].kind, "crawl");
	assert_int_equal(w->work.pools[1].concurrency, 6);
	assert_int_equal(w->work.burst_limit, 5);
	assert_int_equal(w->work.poll_us, 5 * US_PER_S);
}

static void a_key_may_have_several_columns(void **state)
{
	const struct watch *w =
		read_keys("table: t\nkey: [task_name, task_instance]\nrunning: picked\nalive_at: hb\n"
	              "stuck_after: 5m\n");
	(void)state;
	assert_int_equal(w->key.n, 2);
	assert_string_equal(w->key.items[1], "task_instance");
}

static void an_unknown_key_is_refused_with_the_nearest(void **state)
{
	(void)state;
	refuse(PLAIN "stuck_afer: 5m\n", "stuck_after");
}

static void two_watches_of_one_name_are_refused(void **state)
{
	(void)state;
	reading_open(&reading,
	             "databases: [{name: a, url: 'sqlite:x'}]\n"
	             "watches:\n"
	             "  - {name: w, table: t, key: id, running: a, alive_at: b, stuck_after: 1m}\n"
	             "  - {name: w, table: t, key: id, running: a, alive_at: b, stuck_after: 1m}\n");
	assert_true(reading_said(&reading, "two watches are named \"w\"", false));
}

static void two_databases_of_one_name_are_refused(void **state)
{
	(void)state;
	reading_open(&reading, "databases: [{name: a, url: 'sqlite:x'}, {name: a, url: 'sqlite:y'}]\n");
	assert_true(reading_said(&reading, "two databases are named \"a\"", false));
}

static void watches_without_a_name_are_not_called_the_same(void **state)
{
	(void)state;
	reading_open(&reading, "databases: [{url: 'sqlite:x'}]\nwatches: [{table: t}, {table: t}]\n");
	assert_true(reading_said(&reading, "name", false));
	assert_false(reading_said(&reading, "two watches", false));
}

static void an_unknown_database_is_refused_with_the_nearest(void **state)
{
	(void)state;
	refuse(PLAIN "database: mian\n", "there is no database \"mian\"; did you mean \"main\"?");
}

static void a_url_of_no_known_engine_is_refused(void **state)
{
	(void)state;
	reading_open(&reading, "databases: [{name: a, url: 'mysql://x'}]\n");
	assert_int_equal(reading.reader.nerrors, 1);
}

static void no_database_at_all_is_refused(void **state)
{
	(void)state;
	reading_open(&reading, "watches: []\n");
	assert_true(reading_said(&reading, "no database", false));
}

static void what_is_no_list_is_refused(void **state)
{
	(void)state;
	reading_open(&reading, "databases: {name: a}\nwatches: [pages]\n");
	assert_true(reading_said(&reading, "expects a list of databases", false));
	assert_true(reading_said(&reading, "a watch is a map", false));
}

static void a_document_that_is_no_map_is_refused(void **state)
{
	(void)state;
	reading_open(&reading, "just text\n");
	assert_true(reading_said(&reading, "expects databases: and watches:", false));
}

static void a_watch_finds_its_database(void **state)
{
	(void)state;
	reading_open(&reading,
	             "databases: [{name: a, url: 'sqlite:x'}, {name: b, url: 'postgres://h/d'}]\n"
	             "watches:\n"
	             "  - {name: v, table: t, key: id, running: a, alive_at: b, stuck_after: 1m}\n"
	             "  - {name: w, database: b, table: t, key: id, running: a, alive_at: b, "
	             "stuck_after: 1m}\n");
	assert_clean(&reading);
	const struct settings *s = &reading.settings;
	assert_string_equal(settings_database(s, settings_watch(s, "v"))->name, "a");
	assert_int_equal(settings_database(s, settings_watch(s, "w"))->engine, STORE_POSTGRES);
	assert_null(settings_watch(s, "x"));
}

static void a_preset_gives_a_watch_its_keys(void **state)
{
	const struct watch *w = read_keys("preset: laravel\n");
	(void)state;
	assert_string_equal(w->name, "pages");
	assert_string_equal(w->table, "jobs");
	assert_string_equal(w->running.text, "reserved_at IS NOT NULL");
	assert_int_equal(w->time_type, TIME_TYPE_EPOCH);
	assert_int_equal(w->stuck_after.standard_us, 3600 * US_PER_S);
	assert_int_equal(w->actions[REMEDY_FAIL].n, 2);
}

static void keys_of_the_watch_override_those_of_its_preset(void **state)
{
	const struct watch *w =
		read_keys("preset: laravel\nstuck_after: 10m\ntable: queue.jobs\nfail: a = 1\n");
	(void)state;
	assert_int_equal(w->stuck_after.standard_us, 600 * US_PER_S);
	assert_string_equal(w->table, "queue.jobs");
	assert_int_equal(w->actions[REMEDY_FAIL].form, ACTION_SET);
	assert_string_equal(w->running.text, "reserved_at IS NOT NULL");
}

static void a_key_that_comes_from_a_preset_says_so(void **state)
{
	const struct watch *w = read_keys("preset: laravel\n");
	(void)state;
	assert_string_equal(w->running.at.file, "preset laravel");
	assert_string_equal(w->at.file, "t.yaml");
}

static void every_shipped_preset_is_a_whole_watch(void **state)
{
	(void)state;
	for (const struct embedded_file *file = embedded_files; file->name; file++) {
		struct buf keys = BUF_INIT;
		if (!text_starts(file->name, "presets/"))
			continue;
		buf_add(&keys, "preset: ");
		buf_addn(&keys, file->name + 8, strlen(file->name) - strlen("presets/.yaml"));
		buf_add(&keys, "\n");
		reading_release(&reading);
		reading_open_watch(&reading, POSTGRES_URL, buf_text(&keys));
		buf_release(&keys);
		print_problems(&reading);
		assert_int_equal(reading.reader.nproblems, 0);
	}
}

static void an_unknown_preset_is_refused_with_the_nearest(void **state)
{
	(void)state;
	refuse("preset: larvel\n", "there is no preset \"larvel\"; did you mean \"laravel\"?");
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_examples_of_the_language_are_read),
		TEST(the_first_example_has_what_it_says),
		TEST(defaults_are_what_the_documentation_says),
		TEST(thresholds_by_kind_have_a_limit_for_every_kind),
		TEST(a_threshold_by_state_and_row_names_them_apart_from_kinds),
		TEST(kinds_may_have_the_names_of_parts),
		TEST(a_threshold_by_row_that_makes_no_sense_is_refused),
		TEST(thresholds_by_kind_need_a_default),
		TEST(a_threshold_without_a_unit_is_refused),
		TEST(an_action_is_a_set_list_or_statements_or_a_call),
		TEST(an_action_of_two_forms_is_refused),
		TEST(an_action_of_an_unknown_form_is_refused),
		TEST(a_retry_may_have_a_now_and_a_then),
		TEST(a_retry_may_be_one_set_list),
		TEST(a_now_without_a_then_is_refused),
		TEST(rules_are_read_with_all_their_terms),
		TEST(a_rule_must_say_what_to_do),
		TEST(an_unknown_remedy_is_refused_with_the_nearest),
		TEST(startup_recovers_rests_or_does_what_it_is_told),
		TEST(the_guard_can_be_off_or_have_values),
		TEST(the_crash_budget_can_be_off_or_have_values),
		TEST(coded_states_have_names),
		TEST(the_work_part_is_read_with_its_pools),
		TEST(a_key_may_have_several_columns),
		TEST(an_unknown_key_is_refused_with_the_nearest),
		TEST(two_watches_of_one_name_are_refused),
		TEST(two_databases_of_one_name_are_refused),
		TEST(watches_without_a_name_are_not_called_the_same),
		TEST(an_unknown_database_is_refused_with_the_nearest),
		TEST(a_url_of_no_known_engine_is_refused),
		TEST(no_database_at_all_is_refused),
		TEST(what_is_no_list_is_refused),
		TEST(a_document_that_is_no_map_is_refused),
		TEST(a_watch_finds_its_database),
		TEST(a_preset_gives_a_watch_its_keys),
		TEST(keys_of_the_watch_override_those_of_its_preset),
		TEST(a_key_that_comes_from_a_preset_says_so),
		TEST(every_shipped_preset_is_a_whole_watch),
		TEST(an_unknown_preset_is_refused_with_the_nearest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
