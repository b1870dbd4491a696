/* SPDX-License-Identifier: Apache-2.0
 * options_test.c: a table with every type of row, read from valid and invalid documents: what is
 * set, reported, shown and documented.
 */
#include "config/options.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct work {
	int64_t batch;
	struct sql_text ready;
};

struct watch {
	const char *name, *url, *token, *label;
	struct sql_text running;
	bool enabled;
	int64_t limit, tries, every_us, slack_us, kinds;
	double factor;
	struct text_list key, show;
	int remedy;
	struct work work;
};

static const char *const remedies[] = {"requeue", "fail", "hold", NULL};

static const struct opt_row work_rows[] = {
	{.name = "batch",
     .type = OPT_INT,
     .offset = offsetof(struct work, batch),
     .standard = "10",
     .min = 1,
     .max = 1000,
     .help = "jobs a claim"},
	{.name = "ready",
     .type = OPT_SQL,
     .offset = offsetof(struct work, ready),
     .required = true,
     .help = "a | b"},
	{0},
};

/* Counts the kinds of a map, so that a test sees what a custom reader got. */
static void read_kinds(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	int64_t *kinds = target, us;
	*kinds = node ? 0 : -1;
	if (!node || node->kind != CFG_MAP) {
		if (node && cfg_duration(r, node, &us))
			cfg_show(r, NULL, node->at, node->text);
		return;
	}
	for (int i = 0; i < node->n; i++) {
		size_t mark = cfg_enter(r, node->keys[i]);
		*kinds += cfg_duration(r, node->items[i], &us);
		cfg_leave(r, mark);
		cfg_show(r, node->keys[i], node->items[i]->at, node->items[i]->text);
	}
}

#define ROW(field) .name = #field, .offset = offsetof(struct watch, field)
static const struct opt_row rows[] = {
	{ROW(name), .type = OPT_TEXT, .help = "what it is called"},
	{ROW(url), .type = OPT_TEXT},
	{ROW(token), .type = OPT_TEXT},
	{ROW(label), .type = OPT_TEXT, .standard = "none"},
	{ROW(running), .type = OPT_SQL},
	{ROW(enabled), .type = OPT_BOOL, .standard = "true"},
	{ROW(limit), .type = OPT_INT},
	{ROW(tries), .type = OPT_INT, .min = -5, .max = 5, .standard = "-1"},
	{.name = "stuck_after",
     .offset = offsetof(struct watch, every_us),
     .type = OPT_DURATION,
     .standard = "60m"},
	{.name = "slack", .offset = offsetof(struct watch, slack_us), .type = OPT_DURATION},
	{ROW(factor), .type = OPT_NUMBER, .standard = "2"},
	{ROW(key), .type = OPT_TEXT_LIST, .standard = "[id, part]"},
	{ROW(show), .type = OPT_TEXT_LIST},
	{ROW(remedy), .type = OPT_CHOICE, .choices = remedies, .standard = "fail"},
	{ROW(work), .type = OPT_MAP, .rows = work_rows, .help = "workers"},
	{ROW(kinds), .type = OPT_CUSTOM, .read = read_kinds, .standard = "1h"},
	{0},
};

static struct arena arena;
static struct cfg_reader reader;
static struct watch watch;

static const char *fake_env(const char *name)
{
	static const char *const vars[][2] = {
		{"MINUTES", "15"},
		{"EMPTY", ""},
		{"DATABASE_URL", "postgres://joe:hush@db/x"},
	};
	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
		if (strcmp(vars[i][0], name) == 0)
			return vars[i][1];
	return NULL;
}

static int fresh(void **state)
{
	(void)state;
	cfg_reader_release(&reader);
	arena_clear(&arena);
	cfg_reader_init(&reader, &arena);
	reader.getenv = fake_env;
	memset(&watch, 0, sizeof(watch));
	return 0;
}

static int release(void **state)
{
	(void)state;
	cfg_reader_release(&reader);
	arena_release(&arena);
	return 0;
}

static void read_text(const char *text)
{
	struct cfg_node *map = NULL;
	struct failure f = {0};
	if (cfg_parse(text, "d.yaml", &arena, &map, &f))
		fail_msg("%s; %s", f.what, f.next);
	size_t mark = cfg_enter(&reader, "watches");
	cfg_enter(&reader, "pages");
	cfg_read(&reader, rows, map, &watch);
	cfg_leave(&reader, mark);
}

static void read_right(const char *text)
{
	read_text(text);
	if (reader.nproblems)
		fail_msg("%s", reader.problems[0].text);
}

/* Reads, and expects exactly this one problem, as printed. */
static void assert_problem(const char *text, const char *expected)
{
	fresh(NULL);
	read_text(text);
	struct buf line = BUF_INIT;
	if (reader.nproblems) {
		cfg_mark_text(reader.problems[0].at, &line);
		buf_addf(&line, ": %s", reader.problems[0].text);
	}
	assert_string_equal(buf_text(&line), expected);
	assert_int_equal(reader.nproblems, 1);
	assert_int_equal(reader.nerrors, 1);
	buf_release(&line);
}

static const struct cfg_shown *shown(const char *path)
{
	for (int i = 0; i < reader.nshown; i++)
		if (strcmp(reader.shown[i].path, path) == 0)
			return &reader.shown[i];
	fail_msg("%s is not shown", path);
	return NULL;
}

static void assert_shown(const char *path, const char *value, const char *origin)
{
	assert_string_equal(shown(path)->value, value);
	assert_string_equal(shown(path)->origin, origin);
}

static void what_is_absent_gets_its_default(void **state)
{
	(void)state;
	cfg_read(&reader, rows, NULL, &watch);
	assert_int_equal(reader.nproblems, 0);
	assert_null(watch.name);
	assert_string_equal(watch.label, "none");
	assert_true(watch.enabled);
	assert_int_equal(watch.tries, -1);
	assert_int_equal(watch.every_us, 3600 * US_PER_S);
	assert_true(watch.factor == 2);
	assert_int_equal(watch.key.n, 2);
	assert_string_equal(watch.key.items[1], "part");
	assert_int_equal(watch.remedy, 1);
	assert_int_equal(watch.work.batch, 10);
	assert_int_equal(watch.kinds, -1);
	assert_shown("stuck_after", "60m", "default");
	assert_shown("work.batch", "10", "default");
	assert_shown("kinds", "1h", "default");
}

static void every_type_is_read(void **state)
{
	(void)state;
	read_right("name: 42\nrunning: status = 'x'\nenabled: off\nlimit: 7\ntries: -5\n"
	           "stuck_after: 1h30m\nfactor: 1.5\nkey: id\nshow: [a, 2]\nremedy: hold\n"
	           "work: {batch: 1000, ready: s = 1}\nkinds: {a: 1s, b: 2s}\n");
	assert_string_equal(watch.name, "42");
	assert_string_equal(watch.running.text, "status = 'x'");
	assert_int_equal(watch.running.at.line, 2);
	assert_int_equal(watch.running.at.col, 10);
	assert_false(watch.enabled);
	assert_int_equal(watch.limit, 7);
	assert_int_equal(watch.tries, -5);
	assert_int_equal(watch.every_us, 5400 * US_PER_S);
	assert_true(watch.factor == 1.5);
	assert_int_equal(watch.key.n, 1);
	assert_string_equal(watch.key.items[0], "id");
	assert_string_equal(watch.show.items[1], "2");
	assert_null(watch.show.items[2]); /* a list of words is an argv */
	assert_int_equal(watch.remedy, 2);
	assert_int_equal(watch.work.batch, 1000);
	assert_string_equal(watch.work.ready.text, "s = 1");
	assert_int_equal(watch.kinds, 2);
	assert_shown("watches.pages.enabled", "false", "d.yaml:3:10");
	assert_shown("watches.pages.show", "a, 2", "d.yaml:9:7");
	assert_shown("watches.pages.work.ready", "s = 1", "d.yaml:11:28");
	assert_shown("watches.pages.kinds.b", "2s", "d.yaml:12:19");
}

static void null_means_not_given(void **state)
{
	(void)state;
	read_right("name:\nstuck_after: ~\nwork: null\nkinds:\nrunning:\n");
	assert_null(watch.name);
	assert_int_equal(watch.every_us, 3600 * US_PER_S);
	assert_int_equal(watch.work.batch, 10);
	assert_int_equal(watch.kinds, -1);
}

static void an_unknown_key_names_the_nearest(void **state)
{
	(void)state;
	assert_problem("name: x\n\nstuckafter: 5m\n",
	               "d.yaml:3:1: unknown key \"stuckafter\" in watches.pages; "
	               "did you mean \"stuck_after\"?");
	assert_problem(
		"work: {ready: x, zzzzzzz: 1}\n",
		"d.yaml:1:18: unknown key \"zzzzzzz\" in watches.pages.work; known keys: batch, ready");
}

static void an_unknown_key_at_the_top_is_in_the_file(void **state)
{
	(void)state;
	struct cfg_node *map = cfg_map(&arena);
	cfg_put(&arena, map, "nmae", cfg_scalar(&arena, "x"));
	cfg_read(&reader, rows, map, &watch);
	assert_string_equal(reader.problems[0].text,
	                    "unknown key \"nmae\" in the file; did you mean \"name\"?");
}

/* {document, problem} */
static const char *const wrong[][2] = {
	{"stuck_after: soon", "d.yaml:1:14: watches.pages.stuck_after expects a duration such as 90s, "
                          "15m or 1h30m, got \"soon\""},
	{"stuck_after: -5s", "d.yaml:1:14: watches.pages.stuck_after expects a duration such as 90s, "
                         "15m or 1h30m, got \"-5s\""},
	{"stuck_after: 101000d", "d.yaml:1:14: watches.pages.stuck_after expects a duration such as "
                             "90s, 15m or 1h30m, got \"101000d\""},
	{"stuck_after: 60", "d.yaml:1:14: watches.pages.stuck_after expects a duration such as 90s, "
                        "15m or 1h30m (a number and its unit), got \"60\""},
	{"stuck_after: [1s]", "d.yaml:1:14: watches.pages.stuck_after expects a duration such as 90s, "
                          "15m or 1h30m, got a list"},
	{"enabled: maybe", "d.yaml:1:10: watches.pages.enabled expects true or false, got \"maybe\""},
	{"limit: many",
     "d.yaml:1:8: watches.pages.limit expects a whole number of at least 0, got \"many\""},
	{"limit: -1",
     "d.yaml:1:8: watches.pages.limit expects a whole number of at least 0, got \"-1\""},
	{"tries: 6", "d.yaml:1:8: watches.pages.tries expects a whole number from -5 to 5, got \"6\""},
	{"factor: nan", "d.yaml:1:9: watches.pages.factor expects a number of at least 0, such as 2 or "
                    "1.5, got \"nan\""},
	{"factor: -1", "d.yaml:1:9: watches.pages.factor expects a number of at least 0, such as 2 or "
                   "1.5, got \"-1\""},
	{"factor: 1e999", "d.yaml:1:9: watches.pages.factor expects a number of at least 0, such as 2 "
                      "or 1.5, got \"1e999\""},
	{"remedy: requue", "d.yaml:1:9: watches.pages.remedy expects one of requeue, fail or hold, "
                       "got \"requue\""},
	{"name: {a: b}", "d.yaml:1:7: watches.pages.name expects text, got a map"},
	{"key: [a, [b]]", "d.yaml:1:10: watches.pages.key expects text or a list of texts such as "
                      "[one, two], got a list"},
	{"key: {a: b}", "d.yaml:1:6: watches.pages.key expects text or a list of texts such as "
                    "[one, two], got a map"},
	{"work: 5", "d.yaml:1:7: watches.pages.work expects a map of keys and values, got \"5\""},
	{"work: {}", "d.yaml:1:7: \"ready\" is missing in watches.pages.work; add it"},
	{"- a", "d.yaml:1:1: watches.pages expects a map of keys and values, got a list"},
	{"kinds: {a: 1s, b: x}", "d.yaml:1:19: watches.pages.kinds.b expects a duration such as 90s, "
                             "15m or 1h30m, got \"x\""},
	{"running: a = 1 # b", "d.yaml:1:10: watches.pages.running: YAML takes the text after ' #' as "
                           "a comment; quote the value"},
	{"running: a = ${X:-1}", "d.yaml:1:10: watches.pages.running: environment values are not put "
                             "into SQL"},
	{"running: '  '", "d.yaml:1:10: watches.pages.running expects SQL, got \"  \""},
	{"running: [a]", "d.yaml:1:10: watches.pages.running expects SQL, got a list"},
	{"name: ${NOPE}", "d.yaml:1:7: watches.pages.name: the environment variable NOPE is not set; "
                      "set it, or write ${NOPE:-default}"},
	{"name: ${NOPE", "d.yaml:1:7: watches.pages.name: ${ has no closing }; write ${NAME}, or $${ "
                     "for a literal ${"},
	{"name: ${1x}",
     "d.yaml:1:7: watches.pages.name: ${1x… is not valid; write ${NAME} or ${NAME:-default}"},
	{"url: ${DB-postgres://u:hush@h}",
     "d.yaml:1:6: watches.pages.url: ${DB… is not valid; write ${NAME} or ${NAME:-default}"},
	{"name: ${A:-${B}}", "d.yaml:1:7: watches.pages.name: ${A has a ${ inside its default; "
                         "variables cannot be nested"},
	{"stuck_after: ${DATABASE_URL}m",
     "d.yaml:1:14: watches.pages.stuck_after expects a duration such as 90s, 15m or 1h30m, "
     "got \"postgres://joe:***@db/xm\" (from DATABASE_URL)"},
	{"limit: |\n  two\n  lines\n",
     "d.yaml:1:8: watches.pages.limit expects a whole number of at least 0, got \"two lines \""},
};

static void a_wrong_value_says_what_was_expected_and_where(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_problem(wrong[i][0], wrong[i][1]);
}

static void a_long_value_is_quoted_in_part(void **state)
{
	(void)state;
	char text[400] = "limit: ";
	for (size_t n = 7; n < 300; n += 2)
		memcpy(text + n, "é", 3);
	read_text(text);
	const char *said = reader.problems[0].text;
	assert_non_null(strstr(said, "é…\""));
	assert_in_range(strlen(said), 60, 160);
}

static void all_problems_are_collected(void **state)
{
	(void)state;
	read_text("limit: x\nenabled: x\nfoo: 1\n");
	assert_int_equal(reader.nerrors, 3);
	assert_int_equal(reader.nproblems, 3);
}

static void more_problems_than_fit_are_still_counted(void **state)
{
	(void)state;
	for (int i = 0; i < CFG_PROBLEMS_MAX + 5; i++)
		cfg_problem(&reader, (struct cfg_mark){0}, "problem %d", i);
	cfg_warning(&reader, (struct cfg_mark){0}, "one too many");
	assert_int_equal(reader.nproblems, CFG_PROBLEMS_MAX);
	assert_int_equal(reader.nerrors, CFG_PROBLEMS_MAX + 5);
}

static void a_warning_is_no_error(void **state)
{
	(void)state;
	cfg_warning(&reader, (struct cfg_mark){0}, "well");
	assert_int_equal(reader.nerrors, 0);
	assert_true(reader.problems[0].warning);
}

static void variables_come_from_the_environment(void **state)
{
	(void)state;
	read_right("name: a${MINUTES}b${NOPE:-c d}\nlabel: ${EMPTY:-full}\ntoken: x${EMPTY}y\n"
	           "stuck_after: ${MINUTES:-60}m\nslack: ${NOPE:-60}s\n"
	           "show: ['${MINUTES}', \"$${MINUTES} $5\"]\nkinds: ${MINUTES}m\n");
	assert_string_equal(watch.name, "a15bc d");
	assert_string_equal(watch.label, "full");
	assert_string_equal(watch.token, "xy");
	assert_int_equal(watch.every_us, 900 * US_PER_S);
	assert_int_equal(watch.slack_us, 60 * US_PER_S);
	assert_string_equal(watch.show.items[0], "15");
	assert_string_equal(watch.show.items[1], "${MINUTES} $5");
	assert_shown("watches.pages.name", "a15bc d", "d.yaml:1:7 (from MINUTES) (default of NOPE)");
	assert_shown("watches.pages.stuck_after", "15m", "d.yaml:4:14 (from MINUTES)");
	assert_shown("watches.pages.slack", "60s", "d.yaml:5:8 (default of NOPE)");
	assert_string_equal(shown("watches.pages.kinds")->origin, "d.yaml:7:8 (from MINUTES)");
}

static void sql_may_open_a_dollar_quote_before_a_brace(void **state)
{
	(void)state;
	read_right("running: \"j = $${}$$\"\n");
	assert_string_equal(watch.running.text, "j = $${}$$");
}

static void quoted_sql_may_be_followed_by_a_comment(void **state)
{
	(void)state;
	read_right("running: \"a = '#1'\" # why\nname: x # why\n");
	assert_string_equal(watch.running.text, "a = '#1'");
}

static void the_command_line_is_taken_as_it_is(void **state)
{
	(void)state;
	struct cfg_node *map = cfg_map(&arena);
	cfg_put(&arena, map, "name", cfg_scalar(&arena, "p${w"));
	cfg_read(&reader, rows, map, &watch);
	assert_int_equal(reader.nproblems, 0);
	assert_string_equal(watch.name, "p${w");
	assert_shown("name", "p${w", "command line");
}

static void secrets_are_not_shown(void **state)
{
	(void)state;
	read_right("url: ${DATABASE_URL}\ntoken: hush\n");
	assert_string_equal(watch.url, "postgres://joe:hush@db/x");
	assert_string_equal(watch.token, "hush");
	assert_shown("watches.pages.url", "postgres://joe:***@db/x", "d.yaml:1:6 (from DATABASE_URL)");
	assert_shown("watches.pages.token", "***", "d.yaml:2:8");
	cfg_show(&reader, "api_PASSWORD", (struct cfg_mark){0}, "hush");
	assert_shown("api_PASSWORD", "***", "command line");
}

static void a_secret_is_not_quoted_in_a_problem(void **state)
{
	(void)state;
	static const struct opt_row secret_rows[] = {{.name = "secret", .type = OPT_INT}, {0}};
	struct cfg_node *map = cfg_map(&arena);
	int64_t value = 0;
	cfg_put(&arena, map, "secret", cfg_scalar(&arena, "hush"));
	cfg_read(&reader, secret_rows, map, &value);
	assert_string_equal(reader.problems[0].text,
	                    "secret expects a whole number of at least 0, got \"***\"");
}

static void a_watch_named_after_a_secret_is_still_shown(void **state)
{
	(void)state;
	struct cfg_node *map = cfg_map(&arena);
	cfg_put(&arena, map, "name", cfg_scalar(&arena, "x"));
	size_t mark = cfg_enter(&reader, "token_refresh");
	cfg_read(&reader, rows, map, &watch);
	cfg_leave(&reader, mark);
	assert_shown("token_refresh.name", "x", "command line");
}

static void a_custom_reader_converts_with_the_same_words(void **state)
{
	(void)state;
	struct cfg_node *n = cfg_scalar(&arena, "x");
	int64_t us;
	cfg_enter(&reader, "tries");
	assert_false(cfg_duration(&reader, n, &us));
	assert_string_equal(reader.problems[0].text,
	                    "tries expects a duration such as 90s, 15m or 1h30m, got \"x\"");
	assert_true(cfg_duration(&reader, cfg_scalar(&arena, "12s"), &us));
	assert_int_equal(us, 12000000);
	const char *text;
	assert_false(cfg_text(&reader, NULL, &text));
	assert_string_equal(reader.problems[1].text, "tries expects text, got nothing");
}

static void read_quietly(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	const char *text;
	(void)target;
	if (node)
		assert_true(cfg_text(r, cfg_get(node, "a"), &text));
}

static void what_a_custom_reader_does_not_show_is_shown_as_written(void **state)
{
	(void)state;
	static const struct opt_row quiet_rows[] = {
		{.name = "rule", .type = OPT_CUSTOM, .read = read_quietly}, {0}};
	struct cfg_node *map = NULL;
	struct failure f;
	assert_int_equal(cfg_parse("rule: {a: '${MINUTES}m', token: t, b: [x, '${'], c: }", "d.yaml",
	                           &arena, &map, &f),
	                 DEFIB_OK);
	char nothing;
	cfg_read(&reader, quiet_rows, map, &nothing);
	assert_int_equal(reader.nshown, 4);
	assert_shown("rule.a", "15m", "d.yaml:1:11 (from MINUTES)");
	assert_shown("rule.token", "***", "d.yaml:1:33");
	assert_shown("rule.b.2", "${", "d.yaml:1:43");
}

static void the_reference_has_a_line_for_each_row(void **state)
{
	(void)state;
	static const struct opt_row some[] = {
		{.name = "name", .type = OPT_TEXT, .required = true, .help = "what it is called"},
		{.name = "remedy", .type = OPT_CHOICE, .choices = remedies, .standard = "fail"},
		{.name = "work", .type = OPT_MAP, .rows = work_rows, .help = "workers"},
		{0},
	};
	struct buf out = BUF_INIT;
	cfg_reference(some, 0, &out);
	assert_string_equal(buf_text(&out),
	                    "| key | type | default | meaning |\n"
	                    "|---|---|---|---|\n"
	                    "| `name` | text | required | what it is called |\n"
	                    "| `remedy` | one of `requeue`, `fail`, `hold` | `fail` |  |\n"
	                    "| `work` | map |  | workers |\n"
	                    "| `work.batch` | whole number, 1 to 1000 | `10` | jobs a claim |\n"
	                    "| `work.ready` | SQL | required | a \\| b |\n");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_absent_gets_its_default, fresh),
		cmocka_unit_test_setup(every_type_is_read, fresh),
		cmocka_unit_test_setup(null_means_not_given, fresh),
		cmocka_unit_test_setup(an_unknown_key_names_the_nearest, fresh),
		cmocka_unit_test_setup(an_unknown_key_at_the_top_is_in_the_file, fresh),
		cmocka_unit_test_setup(a_wrong_value_says_what_was_expected_and_where, fresh),
		cmocka_unit_test_setup(a_long_value_is_quoted_in_part, fresh),
		cmocka_unit_test_setup(all_problems_are_collected, fresh),
		cmocka_unit_test_setup(more_problems_than_fit_are_still_counted, fresh),
		cmocka_unit_test_setup(a_warning_is_no_error, fresh),
		cmocka_unit_test_setup(variables_come_from_the_environment, fresh),
		cmocka_unit_test_setup(sql_may_open_a_dollar_quote_before_a_brace, fresh),
		cmocka_unit_test_setup(quoted_sql_may_be_followed_by_a_comment, fresh),
		cmocka_unit_test_setup(the_command_line_is_taken_as_it_is, fresh),
		cmocka_unit_test_setup(secrets_are_not_shown, fresh),
		cmocka_unit_test_setup(a_secret_is_not_quoted_in_a_problem, fresh),
		cmocka_unit_test_setup(a_watch_named_after_a_secret_is_still_shown, fresh),
		cmocka_unit_test_setup(a_custom_reader_converts_with_the_same_words, fresh),
		cmocka_unit_test_setup(what_a_custom_reader_does_not_show_is_shown_as_written, fresh),
		cmocka_unit_test_setup(the_reference_has_a_line_for_each_row, fresh),
	};
	return cmocka_run_group_tests(tests, NULL, release);
}
