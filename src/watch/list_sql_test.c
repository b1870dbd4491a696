/* SPDX-License-Identifier: Apache-2.0
 * list_sql_test.c: the statement of a list: every value is a parameter, pages by comparison, and
 * the state that `running` tests.
 */
#include "watch/list_sql.h"

#include "watch/stats_sql.h"
#include "watch/watch_test.h"

#define JOBS(running)                                                                              \
	"table: jobs\nkey: id\nrunning: " running "\nalive_at: updated_at\nstuck_after: 1h\n"          \
	"requeue: status = 'queued'\nshow: [url]\n"
#define PLAIN JOBS("status = 'running'")

struct bench {
	struct reading reading;
	struct binding binding;
	struct list_statement list;
};

static void bench_open(struct bench *x, enum store_engine engine, const char *keys)
{
	static struct store_column columns[] = {
		{"id", "bigint", "int8"},
		{"status", "text", "text"},
		{"Phase", "text", "text"},
		{"url", "text", "text"},
		{"updated_at", "timestamptz", "timestamptz"},
	};
	enum time_type time = engine == STORE_POSTGRES ? TIME_TYPE_TIMESTAMPTZ : TIME_TYPE_TEXT;
	*x = (struct bench){0};
	reading_open_watch(&x->reading, engine == STORE_POSTGRES ? POSTGRES_URL : SQLITE_URL, keys);
	x->binding = (struct binding){.watch = only_watch(&x->reading),
	                              .engine = engine,
	                              .time = time,
	                              .ncolumns = 5,
	                              .columns = columns,
	                              .key_type = {"bigint"},
	                              .sign_type = {"timestamp with time zone"},
	                              .sign_time = {time}};
}

static void bench_close(struct bench *x)
{
	buf_release(&x->list.sql);
	reading_release(&x->reading);
}

/* The statement of these terms, ended by NULL. */
static const char *list(struct bench *x, struct list_query *l, const char *const *texts)
{
	static struct term terms[8];
	struct failure f = {0};
	l->terms = terms;
	for (l->nterms = 0; texts[l->nterms]; l->nterms++)
		if (term_parse(x->binding.watch, texts[l->nterms], &x->reading.arena, &terms[l->nterms],
		               NULL, &f))
			fail_msg("%s", f.what);
	buf_release(&x->list.sql);
	list_sql(&x->binding, l, &x->list);
	return buf_text(&x->list.sql);
}
#define TERMS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void holds(const char *sql, const char *part)
{
	if (!strstr(sql, part))
		fail_msg("no \"%s\" in:\n%s", part, sql);
}

static void values_are_parameters_and_never_text(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 10, .ledger = true};
	(void)state;
	for (int engine = 0; engine < 2; engine++) {
		bench_open(&x, (enum store_engine)engine, PLAIN "kind: url\nowner: url\n");
		const char *sql =
			list(&x, &l, TERMS("state=x'y", "kind!=x'y", "owner~x'y", "url=x'y", "text~x'y"));
		assert_null(strstr(sql, "x'y"));
		assert_int_equal(x.list.nparams, 6);
		for (int i = 0; i < 5; i++)
			assert_string_equal(x.list.params[i].text, "x'y");
		assert_int_equal(x.list.params[5].number, 10);
		bench_close(&x);
	}
}

static void a_page_begins_behind_the_last_row_and_counts_none(void **state)
{
	struct bench x;
	struct list_query l = {
		.sort = LIST_BY_AGE, .after = true, .after_sort = "then", .after_key = {"7"}, .limit = 5};
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	const char *sql = list(&x, &l, TERMS("running"));
	holds(sql, "AND ((updated_at), t.\"id\") > ($1::timestamp with time zone, $2::bigint)");
	holds(sql, "WHERE (updated_at) IS NOT NULL\n  AND (status = 'running')");
	holds(sql, "ORDER BY (updated_at), t.\"id\"\nLIMIT $3::bigint");
	assert_null(strstr(sql, "OFFSET"));
	l.desc = true;
	sql = list(&x, &l, TERMS("running"));
	holds(sql, ") < ($1");
	holds(sql, "ORDER BY (updated_at) DESC, t.\"id\" DESC");
	bench_close(&x);
}

static void rows_without_a_sort_value_are_a_part_of_their_own(void **state)
{
	struct bench x;
	struct list_query l = {
		.sort = LIST_BY_AGE, .unsorted = true, .after = true, .after_key = {"7"}, .limit = 5};
	(void)state;
	bench_open(&x, STORE_SQLITE, PLAIN);
	const char *sql = list(&x, &l, TERMS("running"));
	holds(sql, " IS NULL\n  AND (status = 'running')\n  AND (t.\"id\") > (?1)");
	holds(sql, "ORDER BY t.\"id\"\nLIMIT ?2");
	bench_close(&x);
}

static void the_state_is_what_running_asks_about(void **state)
{
	static const struct {
		const char *keys, *state;
	} cases[] = {
		{JOBS("status = 'running'"), "t.\"status\""},
		{JOBS("t.status IN ('a', 'b')"), "t.\"status\""},
		{JOBS("(STATUS = 'a' OR url IS NULL)"), "t.\"status\""},
		{JOBS("'\"Phase\" = 1'"), "t.\"Phase\""},
		{JOBS("lower(status) = 'running'"), NULL},
		{JOBS("\"true\""), NULL},
		{JOBS("lower(status) = 'x'") "state: upper(status)\n", "(upper(status))"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bench x;
		struct buf out = BUF_INIT;
		bench_open(&x, STORE_POSTGRES, cases[i].keys);
		assert_int_equal(state_sql(&x.binding, &out), cases[i].state != NULL);
		if (cases[i].state)
			assert_string_equal(buf_text(&out), cases[i].state);
		buf_release(&out);
		bench_close(&x);
	}
}

static void a_named_state_is_asked_by_its_code(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 1};
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN "states: {6: BUSY, 3: FREE}\n");
	list(&x, &l, TERMS("state=busy"));
	assert_int_equal(x.list.nparams, 3);
	assert_string_equal(x.list.params[1].text, "6");
	holds(list(&x, &l, TERMS("state!=BUSY")), "IS DISTINCT FROM $1::text AND ");
	bench_close(&x);
}

static void without_a_ledger_nothing_was_held_or_recovered(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 1};
	(void)state;
	bench_open(&x, STORE_SQLITE, PLAIN);
	holds(list(&x, &l, TERMS("recovered")), "AND false");
	l.ledger = true;
	l.recovered = LIST_ENTRY ".event = 'X'";
	holds(list(&x, &l, TERMS("recovered")),
	      "FROM defib_ledger AS defib_l WHERE defib_l.watch = ?1 AND defib_l.event = 'X'");
	holds(list(&x, &l, TERMS("held")), "FROM defib_hold AS defib_l");
	bench_close(&x);
}

static void an_age_is_of_what_since_says(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 1};
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	holds(list(&x, &l, TERMS("age>10m")),
	      "(updated_at) < statement_timestamp() - 600 * interval '1 second'");
	bench_close(&x);
	bench_open(&x, STORE_POSTGRES, PLAIN "since: made_at\n");
	holds(list(&x, &l, TERMS("age<1h")),
	      "(made_at) > statement_timestamp() - 3600 * interval '1 second'");
	bench_close(&x);
}

static void a_window_ends_with_a_row_and_is_asked_for_by_key(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 10, .after = true, .after_key = {"7"}};
	struct list_statement end;
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	list_window_sql(&x.binding, &l, 500, &end);
	holds(buf_text(&end.sql),
	      "AND (t.\"id\") > ($1::bigint)\nORDER BY t.\"id\"\nLIMIT 2 OFFSET $2::bigint");
	assert_int_equal(end.params[1].number, 499);
	buf_release(&end.sql);
	l.window = (const char *const[]){"507"};
	holds(list(&x, &l, TERMS("text~a")),
	      "AND (t.\"id\") > ($2::bigint)\n  AND (t.\"id\") <= ($3::bigint)\nORDER BY");
	l.desc = true;
	holds(list(&x, &l, TERMS("text~a")), "AND (t.\"id\") >= ($3::bigint)");
	bench_close(&x);
}

static void a_window_of_another_order_is_an_end_of_the_table(void **state)
{
	struct bench x;
	struct list_query l = {.sort = LIST_BY_AGE, .desc = true, .after = true};
	struct list_statement end;
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	list_window_sql(&x.binding, &l, 500, &end);
	holds(buf_text(&end.sql), "\nWHERE true\nORDER BY t.\"id\" DESC\nLIMIT 2 OFFSET $1::bigint");
	buf_release(&end.sql);
	bench_close(&x);
}

/* In key order, the rows that an earlier page read in the order of age are left out. */
static void the_rest_of_another_order_is_a_condition(void **state)
{
	struct bench x;
	struct list_query age = {
		.sort = LIST_BY_AGE, .after = true, .after_sort = "then", .after_key = {"7"}};
	struct list_query l = {.limit = 10, .by_key = true, .rest_of = &age};
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	holds(list(&x, &l, TERMS("running")),
	      "AND ((updated_at) IS NULL OR ((updated_at), t.\"id\") > ($1::timestamp with time zone, "
	      "$2::bigint))\nORDER BY t.\"id\"\n");
	age.unsorted = true;
	holds(list(&x, &l, TERMS("running")),
	      "AND ((updated_at) IS NULL AND (t.\"id\") > ($1::bigint))");
	bench_close(&x);
}

static void jobs_of_the_queue_are_as_old_as_their_keys_say(void **state)
{
	const struct term running = {.what = TERM_RUNNING}, kind = {.what = TERM_KIND};
	struct bench x, queue;
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	bench_open(&queue, STORE_POSTGRES,
	           "table: defib.job\nkey: id\nrunning: status = 'running'\nalive_at: updated_at\n"
	           "stuck_after: 1h\nrequeue: status = 'queued'\nkey_rises: true\n");
	assert_int_equal(list_cheapest_sort(&x.binding, LIST_BY_AGE, &kind, 1), LIST_BY_AGE);
	assert_int_equal(list_cheapest_sort(&queue.binding, LIST_BY_AGE, &kind, 1), LIST_BY_KEY);
	assert_int_equal(list_cheapest_sort(&queue.binding, LIST_BY_AGE, &running, 1), LIST_BY_AGE);
	assert_int_equal(list_cheapest_sort(&queue.binding, LIST_BY_STATE, NULL, 0), LIST_BY_STATE);
	bench_close(&queue);
	bench_close(&x);
}

static void a_held_job_is_found_by_its_key_whatever_stands_among_the_holds(void **state)
{
	struct bench x;
	struct list_query l = {.limit = 1, .ledger = true};
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	holds(list(&x, &l, TERMS("held")), "t.\"id\" = ANY (ARRAY(SELECT CASE WHEN defib_l.job ~ ");
	assert_null(strstr(list(&x, &l, TERMS("held")), "'held'"));
	assert_null(strstr(list(&x, &l, TERMS("held")), " OR ("));
	x.binding.key_type[0] = "numeric(10,0)";
	holds(list(&x, &l, TERMS("held")), "IN (SELECT defib_l.job FROM defib.hold AS defib_l");
	bench_close(&x);
}

static void a_large_table_is_counted_by_a_sample(void **state)
{
	const struct stats_sample all = {.share = 0};
	struct stats_sample part = stats_sample(STORE_POSTGRES, 10 * SAMPLE_PAGES, 0);
	struct bench x;
	struct buf out = BUF_INIT;
	(void)state;
	assert_true(stats_sample(STORE_POSTGRES, SAMPLE_PAGES, 0).share == 0);
	assert_true(stats_sample(STORE_SQLITE, SAMPLE_ROWS, 1).share == 0);
	bench_open(&x, STORE_POSTGRES, PLAIN);
	assert_true(states_sql(&x.binding, &part, &out));
	holds(buf_text(&out), "FROM \"jobs\" AS t TABLESAMPLE SYSTEM (10.000000000) REPEATABLE (1)");
	buf_clear(&out);
	assert_true(states_sql(&x.binding, &all, &out));
	assert_null(strstr(buf_text(&out), "TABLESAMPLE"));
	bench_close(&x);
	part = stats_sample(STORE_SQLITE, INT64_C(1000) + 100 * SAMPLE_ROWS, 1001);
	assert_true(part.share > 0.0099 && part.share < 0.0101);
	bench_open(&x, STORE_SQLITE, PLAIN);
	buf_clear(&out);
	assert_true(states_sql(&x.binding, &part, &out));
	holds(buf_text(&out), "SELECT 1001 + i * 20000 AS defib_at");
	holds(buf_text(&out), "t.rowid >= defib_at AND t.rowid < defib_at + 200");
	bench_close(&x);
	buf_release(&out);
}

static void ends_are_counted_where_the_watch_says_how(void **state)
{
	const struct stats_sample all = {.share = 0};
	struct bench x;
	struct buf out = BUF_INIT;
	(void)state;
	bench_open(&x, STORE_POSTGRES, PLAIN);
	assert_false(ends_sql(&x.binding, &all, &out));
	bench_close(&x);
	bench_open(&x, STORE_POSTGRES, PLAIN "stats: {failed: err IS NOT NULL, where: a > 1}\n");
	assert_true(ends_sql(&x.binding, &all, &out));
	holds(buf_text(&out), "SELECT (err IS NOT NULL) IS TRUE AS failed, false AS ended");
	holds(buf_text(&out), "\nWHERE (a > 1)");
	buf_release(&out);
	bench_close(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_parameters_and_never_text),
		cmocka_unit_test(a_page_begins_behind_the_last_row_and_counts_none),
		cmocka_unit_test(rows_without_a_sort_value_are_a_part_of_their_own),
		cmocka_unit_test(the_state_is_what_running_asks_about),
		cmocka_unit_test(a_named_state_is_asked_by_its_code),
		cmocka_unit_test(without_a_ledger_nothing_was_held_or_recovered),
		cmocka_unit_test(an_age_is_of_what_since_says),
		cmocka_unit_test(a_window_ends_with_a_row_and_is_asked_for_by_key),
		cmocka_unit_test(a_window_of_another_order_is_an_end_of_the_table),
		cmocka_unit_test(the_rest_of_another_order_is_a_condition),
		cmocka_unit_test(jobs_of_the_queue_are_as_old_as_their_keys_say),
		cmocka_unit_test(a_held_job_is_found_by_its_key_whatever_stands_among_the_holds),
		cmocka_unit_test(a_large_table_is_counted_by_a_sample),
		cmocka_unit_test(ends_are_counted_where_the_watch_says_how),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
