/* SPDX-License-Identifier: Apache-2.0
 * lexer_test.c: what the lexer treats as a string, a name, a comment and a parameter, on each
 * engine; and that no text makes it fail.
 */
#include "watch/lexer.h"

#include "base/test.h"

#include <string.h>

static bool mark(void *ctx, const char *name, struct buf *out)
{
	(void)ctx;
	buf_addf(out, "<%s>", name);
	return true;
}

/* Renders with every parameter as <name>. */
static void assert_renders(enum store_engine engine, const char *text, const char *want)
{
	struct buf out = BUF_INIT;
	struct failure f = {0};
	assert_int_equal(sql_render(text, engine, mark, NULL, &out, &f), DEFIB_OK);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
}

static void on_postgres(const char *text, const char *want)
{
	assert_renders(STORE_POSTGRES, text, want);
}

static void on_sqlite(const char *text, const char *want)
{
	assert_renders(STORE_SQLITE, text, want);
}

static void on_both(const char *text, const char *want)
{
	on_postgres(text, want);
	on_sqlite(text, want);
}

static void parameters_are_found_and_the_rest_is_left_alone(void **state)
{
	(void)state;
	on_both("a = :reason, b=:now", "a = <reason>, b=<now>");
	on_both(":a:b", "<a><b>");
	on_both("(:id)", "(<id>)");
	on_both("a -:n", "a -<n>");
}

static void strings_hide_parameters(void **state)
{
	(void)state;
	on_both("a = ':now', b = :now", "a = ':now', b = <now>");
	on_both("'' || :a", "'' || <a>");
}

static void doubled_quotes_stay_inside_a_string(void **state)
{
	(void)state;
	on_both("'it''s :a' || :b", "'it''s :a' || <b>");
	on_both("'''' || :b", "'''' || <b>");
	on_both("\"a\"\":x\" = :b", "\"a\"\":x\" = <b>");
}

static void backslashes_escape_only_in_e_strings_of_postgres(void **state)
{
	(void)state;
	on_postgres("E'a\\' :x' || :y", "E'a\\' :x' || <y>");
	on_postgres("e'\\\\' || :y", "e'\\\\' || <y>");
	on_postgres("'a\\' || :y", "'a\\' || <y>");
	on_sqlite("'a\\' || :y", "'a\\' || <y>");
	/* A word that ends in e starts no such string. */
	on_postgres("date'\\' || :y", "date'\\' || <y>");
}

static void dollar_quotes_with_and_without_tags_hide_parameters(void **state)
{
	(void)state;
	on_postgres("$$ :x ' $$ || :y", "$$ :x ' $$ || <y>");
	on_postgres("$a$ $$ :x $b$ $a$ || :y", "$a$ $$ :x $b$ $a$ || <y>");
	on_postgres("$_1$:x$_1$:y", "$_1$:x$_1$<y>");
	/* A dollar inside a word opens nothing. */
	on_postgres("a$b$ = :x", "a$b$ = <x>");
}

static void sqlite_knows_no_dollar_quotes(void **state)
{
	(void)state;
	on_sqlite("$$ :x $$", "$$ <x> $$");
}

static void comments_hide_parameters(void **state)
{
	(void)state;
	on_both("-- :x\n:y", "-- :x\n<y>");
	on_both("/* :x */:y", "/* :x */<y>");
	on_both("a - - :y", "a - - <y>");
	on_both("a / :y * 2", "a / <y> * 2");
	on_both("/**/:y", "/**/<y>");
}

static void block_comments_nest_on_postgres_only(void **state)
{
	(void)state;
	on_postgres("/* /* :x */ :y */ :z", "/* /* :x */ :y */ <z>");
	on_sqlite("/* /* :x */ :y", "/* /* :x */ <y>");
	on_sqlite("/*/*/ :y", "/*/*/ <y>");
}

static void a_carriage_return_ends_a_line_comment_on_postgres(void **state)
{
	(void)state;
	on_postgres("-- :x\r:y", "-- :x\r<y>");
	on_sqlite("-- :x\r:y", "-- :x\r:y");
}

static void a_cast_is_no_parameter(void **state)
{
	(void)state;
	on_postgres("a::text", "a::text");
	on_postgres(":a::int + 1", "<a>::int + 1");
	on_postgres("f(a := :b)", "f(a := <b>)");
}

static void array_slices_are_no_parameters(void **state)
{
	(void)state;
	on_postgres("a[1:2]", "a[1:2]");
	on_postgres("a[:2]", "a[:2]");
	on_postgres("a[x : y]", "a[x : y]");
}

static void a_field_of_a_parameter_is_part_of_it(void **state)
{
	(void)state;
	on_both("a = :result.text, b = :result", "a = <result.text>, b = <result>");
	on_both(":now.", "<now>.");
	on_both(":now.5", "<now>.5");
}

static void brackets_and_backticks_quote_names_on_sqlite(void **state)
{
	(void)state;
	on_sqlite("[a :x] = `b :y` + :z", "[a :x] = `b :y` + <z>");
	on_sqlite("`a``:x` = :z", "`a``:x` = <z>");
	on_postgres("a[:x]", "a[<x>]");
}

static void names_may_hold_any_letters(void **state)
{
	(void)state;
	on_both("größe = :größe", "größe = <größe>");
}

static bool knows_none(void *ctx, const char *name, struct buf *out)
{
	(void)ctx;
	(void)name;
	(void)out;
	return false;
}

static void unknown_parameters_are_refused_by_name(void **state)
{
	struct buf out = BUF_INIT;
	struct failure f = {0};
	(void)state;
	assert_int_equal(sql_render("a = :b", STORE_SQLITE, knows_none, NULL, &out, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, ":b"));
	buf_release(&out);
}

static void assert_refused(enum store_engine engine, const char *text, const char *why)
{
	struct failure f = {0};
	assert_int_equal(sql_check(text, engine, &f), DEFIB_CONFIG);
	if (!strstr(f.what, why))
		fail_msg("%s: said \"%s\", not \"%s\"", text, f.what, why);
}

static void what_never_ends_is_refused(void **state)
{
	static const char *const both[] = {"a = 'x", "a = '", "\"a", "/* x", "a /*", "'a''"};
	static const char *const postgres[] = {"$$ x", "$a$ x $b$", "E'a\\'", "/* /* */"};
	static const char *const sqlite[] = {"[a", "`a"};
	(void)state;
	for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
		assert_refused(STORE_POSTGRES, both[i], "never closed");
		assert_refused(STORE_SQLITE, both[i], "never closed");
	}
	for (size_t i = 0; i < sizeof postgres / sizeof *postgres; i++)
		assert_refused(STORE_POSTGRES, postgres[i], "never closed");
	for (size_t i = 0; i < sizeof sqlite / sizeof *sqlite; i++)
		assert_refused(STORE_SQLITE, sqlite[i], "never closed");
}

static void parentheses_must_balance(void **state)
{
	(void)state;
	assert_refused(STORE_POSTGRES, "(a", "never closed");
	assert_refused(STORE_POSTGRES, "a)", "never opened");
	assert_refused(STORE_POSTGRES, "true) OR (true", "never opened");
	assert_refused(STORE_POSTGRES, "a[1", "never closed");
	assert_int_equal(sql_check("f(a, (b)) = ')'", STORE_POSTGRES, NULL), DEFIB_OK);
}

static void a_semicolon_may_only_end_the_text(void **state)
{
	(void)state;
	assert_refused(STORE_POSTGRES, "a = 1; DROP TABLE x", "more than one statement");
	assert_refused(STORE_SQLITE, "a;;", "more than one statement");
	assert_int_equal(sql_check("DELETE FROM x; -- done", STORE_SQLITE, NULL), DEFIB_OK);
	assert_int_equal(sql_check("a = ';'", STORE_SQLITE, NULL), DEFIB_OK);
}

static void empty_text_is_refused(void **state)
{
	(void)state;
	assert_refused(STORE_SQLITE, "", "empty");
	assert_refused(STORE_SQLITE, " -- nothing\n", "empty");
}

/* They would refer to the values that we bind. */
static void the_databases_own_parameters_are_refused(void **state)
{
	static const char *const sqlite[] = {"a = ?", "a = ?1", "a = $x", "a = @x"};
	(void)state;
	assert_refused(STORE_POSTGRES, "a = $1", "write :name");
	for (size_t i = 0; i < sizeof sqlite / sizeof *sqlite; i++)
		assert_refused(STORE_SQLITE, sqlite[i], "write :name");
	assert_int_equal(sql_check("a ? 'b' AND a @> '{}'", STORE_POSTGRES, NULL), DEFIB_OK);
}

static void assert_statements(enum store_engine engine, const char *script, const char *joined)
{
	struct buf one = BUF_INIT, all = BUF_INIT;
	while (sql_next_statement(&script, engine, &one))
		buf_addf(&all, "[%s]", buf_text(&one));
	assert_string_equal(buf_text(&all), joined);
	buf_release(&one);
	buf_release(&all);
}

static void a_script_is_split_at_its_semicolons_only(void **state)
{
	(void)state;
	assert_statements(STORE_SQLITE, "-- first\nA 'x;y'; B /* ; */ ;\n-- end\n",
	                  "[A 'x;y'][B /* ; */ ]");
	assert_statements(STORE_POSTGRES, "DO $$ a; b; $$; C", "[DO $$ a; b; $$][C]");
	assert_statements(STORE_POSTGRES, "", "");
}

static void a_trigger_is_one_statement_with_its_parts(void **state)
{
	(void)state;
	assert_statements(STORE_SQLITE,
	                  "CREATE TEMP TRIGGER a BEFORE DELETE ON b BEGIN SELECT CASE 1 WHEN 1 THEN 2 "
	                  "END; SELECT 3; END; C; create trigger d begin e;end ; F",
	                  "[CREATE TEMP TRIGGER a BEFORE DELETE ON b BEGIN SELECT CASE 1 WHEN 1 THEN 2 "
	                  "END; SELECT 3; END][C][create trigger d begin e;end ][F]");
	assert_statements(STORE_SQLITE, "CREATE TABLE trigger (end, a); END; B",
	                  "[CREATE TABLE trigger (end, a)][END][B]");
	assert_statements(STORE_POSTGRES, "CREATE TRIGGER a EXECUTE FUNCTION b(); C",
	                  "[CREATE TRIGGER a EXECUTE FUNCTION b()][C]");
}

static void empty_statements_do_not_end_a_script(void **state)
{
	(void)state;
	assert_statements(STORE_SQLITE, ";; A; ;B", "[A][B]");
}

static void assert_targets(enum store_engine engine, const char *set, const char *joined)
{
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct buf all = BUF_INIT;
	const char **names;
	int n = 0;
	if (sql_set_targets(set, engine, &a, &names, &n, &f))
		fail_msg("%s: %s", set, f.what);
	for (int i = 0; i < n; i++)
		buf_addf(&all, "%s|", names[i]);
	assert_string_equal(buf_text(&all), joined);
	buf_release(&all);
	arena_release(&a);
}

static void targets_of_a_set_list_are_its_columns(void **state)
{
	(void)state;
	assert_targets(STORE_SQLITE, "a = 1", "a|");
	assert_targets(STORE_SQLITE, "status = 'Queued', error = :reason, updated_at = :now",
	               "status|error|updated_at|");
	assert_targets(STORE_POSTGRES, " a /* x, y = 2 */ = 1 -- c\n, b = 2", "a|b|");
}

static void quoted_targets_lose_their_quotes(void **state)
{
	(void)state;
	assert_targets(STORE_POSTGRES, "\"B c\" = 1, \"d\"\"e\" = 2", "B c|d\"e|");
	assert_targets(STORE_SQLITE, "[a b] = 1, `c``d` = 2, [e[[f] = 3", "a b|c`d|e[[f|");
}

static void a_row_form_has_several_targets(void **state)
{
	(void)state;
	assert_targets(STORE_POSTGRES, "(a, b) = (1, 2), c = 3", "a|b|c|");
	assert_targets(STORE_POSTGRES, "(a, \"B\") = (SELECT x, y FROM z)", "a|B|");
}

static void commas_and_comparisons_in_values_start_no_target(void **state)
{
	(void)state;
	assert_targets(STORE_POSTGRES, "a = f(x, y), b = CASE WHEN c = 1 THEN 2 END", "a|b|");
	assert_targets(STORE_POSTGRES, "a = ARRAY[x, y], b = (c = d)", "a|b|");
	assert_targets(STORE_POSTGRES, "a = b = c, d = ', e = 1'", "a|d|");
}

static void what_is_no_set_list_is_refused(void **state)
{
	static const char *const texts[] = {"a",       "a, b",          "SET a = 1",          "a = 1,",
	                                    "= 1",     "1 + 2",         "UPDATE x SET a = 1", "t.a = 1",
	                                    "'a' = 1", "a = 1 WHERE (", "a = 1; b = 2"};
	struct arena a = ARENA_INIT;
	const char **names;
	int n;
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct failure f = {0};
		if (sql_set_targets(texts[i], STORE_POSTGRES, &a, &names, &n, &f) != DEFIB_CONFIG)
			fail_msg("taken for a SET list: %s", texts[i]);
	}
	arena_release(&a);
}

static void hostile_text_stays_what_it_is(void **state)
{
	(void)state;
	on_both("a = 'x''); DROP TABLE y; --:z'", "a = 'x''); DROP TABLE y; --:z'");
	on_both("\"t\"\"; DROP :x\" = :y", "\"t\"\"; DROP :x\" = <y>");
	on_both("\x01\xff:\xff", "\x01\xff<\xff>");
}

/* A small generator of its own: the same strings in every run. */
static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(*seed >> 33);
}

static bool put_back(void *ctx, const char *name, struct buf *out)
{
	(void)ctx;
	buf_addf(out, ":%s", name);
	return true;
}

static void random_text_comes_back_as_it_was(void **state)
{
	static const char alphabet[] = "'\"`[]()$:;-/*\\\n\r ,.=?@eEa1_\xc3";
	uint64_t seed = 20260102;
	(void)state;
	for (int round = 0; round < 20000; round++) {
		char text[41];
		size_t len = draw(&seed) % (sizeof text - 1);
		for (size_t i = 0; i < len; i++)
			text[i] = alphabet[draw(&seed) % (sizeof alphabet - 1)];
		text[len] = '\0';
		for (int engine = STORE_POSTGRES; engine <= STORE_SQLITE; engine++) {
			struct arena a = ARENA_INIT;
			struct buf out = BUF_INIT;
			const char **names, *at = text;
			int n;
			defib_err err = sql_render(text, (enum store_engine)engine, put_back, NULL, &out, NULL);
			assert_int_equal(err, DEFIB_OK);
			assert_string_equal(buf_text(&out), text);
			(void)!sql_set_targets(text, (enum store_engine)engine, &a, &names, &n, NULL);
			for (int most = 0; sql_next_statement(&at, (enum store_engine)engine, &out); most++)
				assert_true(most <= (int)len);
			buf_release(&out);
			arena_release(&a);
		}
	}
}

/* Each sub-select of `text` as its rows, in angle brackets; "apart" if no lock can name them. */
static void reads(const char *text, const char *want)
{
	AUTO_BUF all = BUF_INIT, rows = BUF_INIT;
	bool apart;
	while (sql_next_subselect(&text, STORE_POSTGRES, &rows, &apart))
		buf_addf(&all, "<%s>%s", buf_text(&rows), apart ? "apart" : "");
	assert_string_equal(buf_text(&all), want);
}

static void a_subselect_is_known_by_the_rows_that_it_reads(void **state)
{
	(void)state;
	reads("a = 1 AND (b OR c)", "");
	reads("(SELECT b.at FROM beats b WHERE b.job = t.id)",
	      "<SELECT 1 FROM beats b WHERE b.job = t.id>");
	reads("EXISTS (SELECT 1 FROM s WHERE s.id = t.id) AND t.a > (select max(x) from b)",
	      "<SELECT 1 FROM s WHERE s.id = t.id><SELECT 1 from b>");
	reads("(SELECT max(at) FROM b WHERE b.id IN (SELECT c FROM d) GROUP BY e)",
	      "<SELECT 1 FROM b WHERE b.id IN (SELECT c FROM d) >");
	reads("(SELECT at FROM b ORDER BY at DESC LIMIT 1)", "<SELECT 1 FROM b >");
	reads("(SELECT extract(epoch FROM now()))", "<>");
	reads("(SELECT a IS DISTINCT FROM b FROM c)", "<SELECT 1 FROM c>");
	reads("' (SELECT 1 FROM a)' = b", "");
}

static void rows_that_no_lock_can_name_are_apart(void **state)
{
	(void)state;
	reads("t.id IN (SELECT job FROM s)", "<SELECT 1 FROM s>apart");
	reads("t.id = ANY (SELECT job FROM s)", "<SELECT 1 FROM s>apart");
	reads("EXISTS (SELECT 1 FROM a UNION SELECT 1 FROM b)",
	      "<SELECT 1 FROM a UNION SELECT 1 FROM b>apart");
	reads("EXISTS (WITH x AS (SELECT 1) SELECT 1 FROM x)", "<SELECT 1 FROM x>apart");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_found_and_the_rest_is_left_alone),
		cmocka_unit_test(strings_hide_parameters),
		cmocka_unit_test(doubled_quotes_stay_inside_a_string),
		cmocka_unit_test(backslashes_escape_only_in_e_strings_of_postgres),
		cmocka_unit_test(dollar_quotes_with_and_without_tags_hide_parameters),
		cmocka_unit_test(sqlite_knows_no_dollar_quotes),
		cmocka_unit_test(comments_hide_parameters),
		cmocka_unit_test(block_comments_nest_on_postgres_only),
		cmocka_unit_test(a_carriage_return_ends_a_line_comment_on_postgres),
		cmocka_unit_test(a_cast_is_no_parameter),
		cmocka_unit_test(array_slices_are_no_parameters),
		cmocka_unit_test(a_field_of_a_parameter_is_part_of_it),
		cmocka_unit_test(brackets_and_backticks_quote_names_on_sqlite),
		cmocka_unit_test(names_may_hold_any_letters),
		cmocka_unit_test(unknown_parameters_are_refused_by_name),
		cmocka_unit_test(what_never_ends_is_refused),
		cmocka_unit_test(parentheses_must_balance),
		cmocka_unit_test(a_semicolon_may_only_end_the_text),
		cmocka_unit_test(empty_text_is_refused),
		cmocka_unit_test(the_databases_own_parameters_are_refused),
		cmocka_unit_test(a_script_is_split_at_its_semicolons_only),
		cmocka_unit_test(a_trigger_is_one_statement_with_its_parts),
		cmocka_unit_test(empty_statements_do_not_end_a_script),
		cmocka_unit_test(targets_of_a_set_list_are_its_columns),
		cmocka_unit_test(quoted_targets_lose_their_quotes),
		cmocka_unit_test(a_row_form_has_several_targets),
		cmocka_unit_test(commas_and_comparisons_in_values_start_no_target),
		cmocka_unit_test(what_is_no_set_list_is_refused),
		cmocka_unit_test(hostile_text_stays_what_it_is),
		cmocka_unit_test(a_subselect_is_known_by_the_rows_that_it_reads),
		cmocka_unit_test(rows_that_no_lock_can_name_are_apart),
		cmocka_unit_test(random_text_comes_back_as_it_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
