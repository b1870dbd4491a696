/* SPDX-License-Identifier: Apache-2.0 */
/* relation_test.c: rows as parameters, exactly, with text that tries to break out. */
#include "base/test.h"
#include "store/relation.h"

static const char *const hostile[] = {
	"",
	"NULL",
	"null",
	"a\"b",
	"back\\slash",
	"{curly,\"x\"}",
	"'; DROP TABLE t; --",
	"a,b",
	" edge ",
	"line\nbreak",
	"ünï ✓ 😀",
	"[1,2]",
	"\\\"",
	"\t",
};
#define HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

static void fill(struct relation *r, enum store_engine engine)
{
	relation_init(r, engine);
	relation_column(r, "id", "bigint");
	relation_column(r, "the \"name\"", "text");
}

static void add(struct relation *r, int64_t id, const char *text)
{
	relation_int(r, id);
	relation_text(r, text);
	relation_end_row(r);
}

static void postgres_takes_one_array_a_column(void **state)
{
	struct relation r;
	struct store_param params[2];
	(void)state;
	fill(&r, STORE_POSTGRES);
	add(&r, -7, "a\"b\\");
	add(&r, INT64_MAX, NULL);
	add(&r, 0, "NULL");
	assert_int_equal(relation_nparams(&r), 2);
	relation_params(&r, params);
	assert_string_equal(params[0].text, "{-7,9223372036854775807,0}");
	assert_string_equal(params[1].text, "{\"a\\\"b\\\\\",NULL,\"NULL\"}");
	relation_release(&r);
}

static void postgres_select_unnests_with_types(void **state)
{
	struct relation r;
	struct buf sql = BUF_INIT;
	(void)state;
	fill(&r, STORE_POSTGRES);
	relation_column(&r, "owners", "text[]");
	relation_select(&r, 3, &sql);
	assert_string_equal(
		buf_text(&sql),
		"SELECT r.\"id\", r.\"the \"\"name\"\"\", r.\"owners\"::text[] AS \"owners\" "
		"FROM unnest($3::bigint[], $4::text[], $5::text[]) "
		"AS r(\"id\", \"the \"\"name\"\"\", \"owners\")");
	buf_release(&sql);
	relation_release(&r);
}

static void postgres_takes_a_column_of_json_as_one_document(void **state)
{
	struct relation r;
	struct store_param params[3];
	struct buf sql = BUF_INIT;
	(void)state;
	relation_init(&r, STORE_POSTGRES);
	relation_column(&r, "id", "bigint");
	relation_column(&r, "evidence", RELATION_JSON);
	relation_column(&r, "rule", "text");
	relation_int(&r, INT64_MIN);
	relation_text(&r, "{\"a\":1}");
	relation_text(&r, "x");
	relation_end_row(&r);
	relation_int(&r, 2);
	relation_text(&r, NULL);
	relation_text(&r, NULL);
	relation_end_row(&r);
	relation_params(&r, params);
	assert_string_equal(params[0].text, "{-9223372036854775808,2}");
	assert_string_equal(params[1].text, "[{\"a\":1},null]");
	assert_string_equal(params[2].text, "{\"x\",NULL}");
	relation_select(&r, 1, &sql);
	assert_string_equal(buf_text(&sql), "SELECT r.\"id\", NULLIF(r.\"evidence\", 'null') AS "
	                                    "\"evidence\", r.\"rule\" FROM ROWS FROM "
	                                    "(unnest($1::bigint[], $3::text[]), "
	                                    "jsonb_array_elements($2::jsonb)) AS r(\"id\", \"rule\", "
	                                    "\"evidence\")");
	buf_release(&sql);
	relation_release(&r);
}

static void postgres_needs_no_array_beside_a_document(void **state)
{
	AUTO_RELATION r = {0};
	AUTO_BUF sql = BUF_INIT;
	(void)state;
	relation_init(&r, STORE_POSTGRES);
	relation_column(&r, "evidence", RELATION_JSON);
	relation_select(&r, 1, &sql);
	assert_string_equal(buf_text(&sql),
	                    "SELECT NULLIF(r.\"evidence\", 'null') AS \"evidence\" FROM "
	                    "ROWS FROM (jsonb_array_elements($1::jsonb)) AS "
	                    "r(\"evidence\")");
}

static void add_brief(struct relation *r, const char *a, const char *b, int64_t c)
{
	relation_text(r, a);
	relation_text(r, b);
	relation_int(r, c);
	relation_end_row(r);
}

static struct relation brief(void)
{
	struct relation r;
	relation_init(&r, STORE_POSTGRES);
	r.brief = true;
	relation_column(&r, "a", "text");
	relation_column(&r, "b", "text");
	relation_column(&r, "c", "bigint");
	return r;
}

static void what_is_the_same_in_all_rows_travels_once(void **state)
{
	struct store_param params[3];
	(void)state;
	struct relation r = brief();
	add_brief(&r, NULL, "x,\"", 1);
	add_brief(&r, NULL, "x,\"", 1);
	add_brief(&r, NULL, "x,\"", 12);
	add_brief(&r, NULL, "x,\"", 1);
	relation_params(&r, params);
	assert_string_equal(params[0].text, "{NULL}");
	assert_string_equal(params[1].text, "{\"x,\\\"\"}");
	assert_string_equal(params[2].text, "{1,1,12,1}");
	relation_release(&r);
}

static void rows_that_are_all_the_same_are_still_as_many(void **state)
{
	struct store_param params[3];
	(void)state;
	struct relation r = brief();
	for (int i = 0; i < 3; i++)
		add_brief(&r, "k", NULL, 7);
	relation_params(&r, params);
	assert_string_equal(params[0].text, "{\"k\",\"k\",\"k\"}");
	assert_string_equal(params[1].text, "{NULL}");
	assert_string_equal(params[2].text, "{7}");
	relation_release(&r);
}

static void its_select_takes_one_value_for_all_rows(void **state)
{
	AUTO_BUF sql = BUF_INIT;
	(void)state;
	struct relation r;
	relation_init(&r, STORE_POSTGRES);
	r.brief = true;
	relation_column(&r, "a", "text[]");
	relation_select(&r, 2, &sql);
	assert_string_equal(buf_text(&sql),
	                    "SELECT (CASE cardinality($2::text[]) WHEN 1 THEN ($2::text[])[1] ELSE "
	                    "r.\"a\" END)::text[] AS \"a\" FROM unnest($2::text[]) AS r(\"a\")");
	relation_release(&r);
}

static void sqlite_takes_one_json_document(void **state)
{
	struct relation r;
	struct store_param param;
	struct buf sql = BUF_INIT;
	(void)state;
	fill(&r, STORE_SQLITE);
	add(&r, -7, "a\"b");
	add(&r, 2, NULL);
	assert_int_equal(relation_nparams(&r), 1);
	relation_params(&r, &param);
	assert_string_equal(param.text, "[[-7,\"a\\\"b\"],[2,null]]");
	relation_select(&r, 2, &sql);
	assert_string_equal(buf_text(&sql), "SELECT json_extract(value, '$[0]') AS \"id\", "
	                                    "json_extract(value, '$[1]') AS \"the \"\"name\"\"\" "
	                                    "FROM json_each(?2)");
	buf_release(&sql);
	relation_release(&r);
}

static void no_rows_is_an_empty_relation(void **state)
{
	struct relation r;
	struct store_param params[2];
	(void)state;
	fill(&r, STORE_POSTGRES);
	relation_params(&r, params);
	assert_string_equal(params[1].text, "{}");
	relation_release(&r);
	fill(&r, STORE_SQLITE);
	relation_params(&r, params);
	assert_string_equal(params[0].text, "[]");
	relation_release(&r);
}

/* Through a real database: what went in comes out, cell by cell. */
static void assert_round_trip(const char *url)
{
	struct store_options opt = {.url = url, .create = true};
	struct store *s = NULL;
	struct relation r;
	struct store_param params[2];
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	struct failure f = {0};
	assert_int_equal(store_open(&opt, &s, &f), DEFIB_OK);
	fill(&r, s->engine);
	for (size_t i = 0; i < HOSTILE; i++)
		add(&r, INT64_MAX - (int64_t)i, hostile[i]);
	add(&r, INT64_MIN, NULL);
	relation_params(&r, params);
	relation_select(&r, 1, &sql);
	assert_int_equal(store_exec(s, buf_text(&sql), params, relation_nparams(&r), &a, &rows, &f),
	                 DEFIB_OK);
	assert_int_equal(rows.nrows, HOSTILE + 1);
	for (size_t i = 0; i < HOSTILE; i++) {
		assert_int_equal(row_int(&rows, (int)i, 0, 0), INT64_MAX - (int64_t)i);
		assert_string_equal(row_text(&rows, (int)i, 1), hostile[i]);
	}
	assert_int_equal(row_int(&rows, HOSTILE, 0, 0), INT64_MIN);
	assert_null(row_text(&rows, HOSTILE, 1));
	arena_release(&a);
	buf_release(&sql);
	relation_release(&r);
	store_close(s);
}

static void hostile_text_survives_sqlite(void **state)
{
	(void)state;
	assert_round_trip("sqlite::memory:");
}

static void hostile_text_survives_postgres(void **state)
{
	(void)state;
	if (!getenv("DEFIB_TEST_PG")) {
		print_message("DEFIB_TEST_PG is not set: no PostgreSQL to test with\n");
		skip();
	}
	assert_round_trip(getenv("DEFIB_TEST_PG"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(postgres_takes_one_array_a_column),
		cmocka_unit_test(postgres_select_unnests_with_types),
		cmocka_unit_test(postgres_takes_a_column_of_json_as_one_document),
		cmocka_unit_test(postgres_needs_no_array_beside_a_document),
		cmocka_unit_test(what_is_the_same_in_all_rows_travels_once),
		cmocka_unit_test(rows_that_are_all_the_same_are_still_as_many),
		cmocka_unit_test(its_select_takes_one_value_for_all_rows),
		cmocka_unit_test(sqlite_takes_one_json_document),
		cmocka_unit_test(no_rows_is_an_empty_relation),
		cmocka_unit_test(hostile_text_survives_sqlite),
		cmocka_unit_test(hostile_text_survives_postgres),
	};
	return cmocka_run_group_tests_name("store/relation", tests, NULL, NULL);
}
