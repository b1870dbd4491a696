/* SPDX-License-Identifier: Apache-2.0 */
/* sql_test.c: quoting of names and literals, and what a statement's words say. */
#include "base/test.h"
#include "store/sql.h"
#include "store/store.h"

struct quoting {
	const char *in, *out;
};

static void assert_quoted(void (*quote)(struct buf *, const char *), const struct quoting *rows,
                          size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct buf out = BUF_INIT;
		quote(&out, rows[i].in);
		assert_string_equal(buf_text(&out), rows[i].out);
		buf_release(&out);
	}
}

static void identifier_is_quoted_whole(void **state)
{
	static const struct quoting rows[] = {
		{"id", "\"id\""},         {"a\"b", "\"a\"\"b\""}, {"a.b", "\"a.b\""},
		{"Ünï;--", "\"Ünï;--\""}, {"", "\"\""},           {"\"", "\"\"\"\""},
	};
	(void)state;
	assert_quoted(sql_ident, rows, sizeof(rows) / sizeof(rows[0]));
}

static void table_is_split_at_dots_outside_quotes(void **state)
{
	static const struct quoting rows[] = {
		{"jobs", "\"jobs\""},
		{"public.Jobs", "\"public\".\"Jobs\""},
		{"\"my.schema\".\"a\"\"b\"", "\"my.schema\".\"a\"\"b\""},
		{"a b;drop", "\"a b;drop\""},
		{"a.", "\"a\".\"\""},
		{"", "\"\""},
		{"x\"y.z", "\"x\"\"y\".\"z\""},
		{"\"open", "\"open\""},
		{"\"a\"b.c", "\"a\"\"b\".\"c\""},
	};
	(void)state;
	assert_quoted(sql_table, rows, sizeof(rows) / sizeof(rows[0]));
}

static void literal_doubles_single_quotes(void **state)
{
	static const struct quoting rows[] = {
		{"it's", "'it''s'"}, {"", "''"}, {"\\'", "'\\'''"}, {"\"", "'\"'"}};
	(void)state;
	assert_quoted(sql_literal, rows, sizeof(rows) / sizeof(rows[0]));
}

static void transaction_words_are_seen_behind_comments(void **state)
{
	(void)state;
	assert_true(sql_controls_transaction("COMMIT"));
	assert_true(sql_controls_transaction(" ; -- x\n /* y /* z */ */ Begin immediate"));
	assert_true(sql_controls_transaction("savepoint a"));
	assert_false(sql_controls_transaction("SELECT 'commit'"));
	assert_false(sql_controls_transaction("committed"));
	assert_false(sql_controls_transaction(""));
}

static void only_plain_queries_count_as_reads(void **state)
{
	(void)state;
	assert_true(sql_only_reads("SELECT 1"));
	assert_true(sql_only_reads("(SELECT updated_at FROM t) UNION SELECT 2"));
	assert_true(sql_only_reads("/* look */ with x as (select 1) select * from x"));
	assert_false(sql_only_reads("WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d"));
	assert_false(sql_only_reads("SELECT 1 INTO t"));
	assert_false(sql_only_reads("EXPLAIN ANALYZE update t set a = 1"));
	assert_false(sql_only_reads("UPDATE t SET a = 1"));
	assert_false(sql_only_reads("CALL p()"));
	assert_false(sql_only_reads(""));
}

static void comments_and_semicolons_are_blank(void **state)
{
	(void)state;
	assert_true(sql_is_blank(""));
	assert_true(sql_is_blank(" ; -- more\n/* and */ ;"));
	assert_true(sql_is_blank("-- to the end"));
	assert_false(sql_is_blank("; SELECT 1"));
	assert_false(sql_is_blank("- 1"));
}

static void pieces_take_their_places_once(void **state)
{
	static const struct sql_piece pieces[] = {
		{"a", "A {{b}}"}, {"b", "B"}, {"none", ""}, {NULL, NULL}};
	static const struct quoting rows[] = {
		{"SELECT '{}'", "SELECT '{}'"},
		{"{{a}}, {{b}}{{b}};", "A {{b}}, BB;"},
		{"x\n{{none}}\ny{{none}}\nz", "x\ny\nz"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf out = BUF_INIT;
		sql_fill(&out, rows[i].in, pieces);
		assert_string_equal(buf_text(&out), rows[i].out);
		buf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identifier_is_quoted_whole),
		cmocka_unit_test(table_is_split_at_dots_outside_quotes),
		cmocka_unit_test(literal_doubles_single_quotes),
		cmocka_unit_test(transaction_words_are_seen_behind_comments),
		cmocka_unit_test(only_plain_queries_count_as_reads),
		cmocka_unit_test(comments_and_semicolons_are_blank),
		cmocka_unit_test(pieces_take_their_places_once),
	};
	return cmocka_run_group_tests_name("store/sql", tests, NULL, NULL);
}
