/* SPDX-License-Identifier: Apache-2.0
 * compile_test.c: the statements of a watch, word for word where users see them, and the parts that
 * matter elsewhere.
 */
#include "watch/compile.h"
#include "watch/compile_write.h"
#include "watch/lease_sql.h"

#include "base/text.h"
#include "watch/watch_test.h"

#define PAGES                                                                                      \
	"table: pages\nkey: id\nrunning: page_processing_status = 'Processing'\n"                      \
	"alive_at: updated_at\nstuck_after: 60m\n"                                                     \
	"requeue: page_processing_status = 'Queued', page_processing_error = :reason, "                \
	"updated_at = :now\n"
#define BASE "table: jobs\nkey: id\nrunning: status = 'running'\n"
#define PLAIN BASE "alive_at: updated_at\nstuck_after: 1h\n"

/* A watch, bound by hand to a table that no database has. */
struct bench {
	struct reading reading;
	struct binding binding;
	struct watch_sql sql;
};

static void bench_open(struct bench *x, enum store_engine engine, const char *keys,
                       enum time_type time)
{
	static struct store_column columns[] = {
		{"id", "bigint", "int8"},
		{"page_processing_status", "text", "text"},
		{"page_processing_error", "text", "text"},
		{"updated_at", "timestamptz", "timestamptz"},
		{"status", "text", "text"},
		{"Status", "text", "text"},
	};
	struct failure f = {0};
	reading_open_watch(&x->reading, engine == STORE_POSTGRES ? POSTGRES_URL : SQLITE_URL, keys);
	const struct watch *w = only_watch(&x->reading);
	x->binding = (struct binding){
		.watch = w, .engine = engine, .time = time, .ncolumns = 6, .columns = columns};
	for (int k = 0; k < w->key.n; k++)
		x->binding.key_type[k] = "bigint";
	for (int s = 0; s < SIGN_COUNT; s++) {
		if (!watch_sign(w, (enum sign)s)->text)
			continue;
		x->binding.sign_time[s] = time;
		x->binding.sign_type[s] = "timestamp with time zone";
	}
	x->binding.state = watch_uses_state(w) ? "st::text" : NULL;
	struct buf alive = BUF_INIT;
	sql_owner_alive(w, &alive);
	x->binding.owner_alive = alive.len ? arena_strdup(&x->reading.arena, buf_text(&alive)) : NULL;
	buf_release(&alive);
	if (watch_compile(&x->binding, &x->reading.arena, &x->sql, &f))
		fail_msg("%s", f.what);
}

static void on_postgres(struct bench *x, const char *keys)
{
	bench_open(x, STORE_POSTGRES, keys, TIME_TYPE_TIMESTAMPTZ);
}

static void on_sqlite(struct bench *x, const char *keys)
{
	bench_open(x, STORE_SQLITE, keys, TIME_TYPE_TEXT);
}

static void assert_holds(const char *sql, const char *part)
{
	if (!strstr(sql, part))
		fail_msg("no \"%s\" in:\n%s", part, sql);
}

static void assert_lacks(const char *sql, const char *part)
{
	if (strstr(sql, part))
		fail_msg("\"%s\" in:\n%s", part, sql);
}

static void look_reads_like_the_watch_on_postgres(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES);
	assert_string_equal(
		x.sql.look_first,
		"SELECT t.\"id\"::text AS defib_key1,\n"
		"  NULL AS defib_owner,\n"
		"  NULL AS defib_owner_alive,\n"
		"  NULL AS defib_kind,\n"
		"  NULL AS defib_attempts,\n"
		"  NULL AS defib_max_attempts,\n"
		"  NULL AS defib_epoch,\n"
		"  CASE WHEN isfinite((updated_at)) THEN (least(extract(epoch FROM (updated_at)), "
		"9000000000000) * 1000000)::bigint END AS defib_alive_us,\n"
		"  NULL AS defib_expires_us,\n"
		"  NULL AS defib_started_us,\n"
		"  NULL AS defib_state_us,\n"
		"  NULL AS defib_progress_us,\n"
		"  NULL AS defib_lost_us,\n"
		"  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS defib_now_us,\n"
		"  (page_processing_status = 'Processing') IS TRUE AS defib_running,\n"
		"  ((updated_at))::text AS defib_position,\n"
		"  NULL AS defib_steps_done,\n"
		"  NULL AS defib_late,\n"
		"  NULL AS defib_before\n"
		"FROM \"pages\" AS t\n"
		"WHERE (page_processing_status = 'Processing')\n"
		"  AND ((updated_at) < statement_timestamp() - 3600 * interval '1 second')\n"
		"ORDER BY (updated_at), t.\"id\"\n"
		"LIMIT $1::bigint");
	reading_release(&x.reading);
}

static void look_reads_like_the_watch_on_sqlite(void **state)
{
	struct bench x;
	(void)state;
	on_sqlite(&x, PAGES);
	const char *from = strstr(x.sql.look_first, "FROM \"pages\"");
	assert_non_null(from);
	assert_string_equal(from, "FROM \"pages\" AS t\n"
	                          "WHERE (page_processing_status = 'Processing')\n"
	                          "  AND (julianday(updated_at) < julianday('now') - 3600 / 86400.0)\n"
	                          "ORDER BY julianday(updated_at), t.\"id\"\n"
	                          "LIMIT ?1");
	reading_release(&x.reading);
}

static void a_requeue_is_one_update_from_the_jobs(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES);
	assert_int_equal(x.sql.nwrites[REMEDY_REQUEUE], 1);
	const struct write_sql *w = &x.sql.writes[REMEDY_REQUEUE][0];
	assert_holds(w->sql, "UPDATE \"pages\" AS t\nSET page_processing_status = 'Queued', "
	                     "page_processing_error = (defib_s.defib_reason), updated_at = "
	                     "(timestamptz 'epoch' + defib_s.defib_now_us * interval '1 microsecond')");
	assert_holds(w->sql,
	             "\nWHERE t.\"id\" = defib_s.defib_k1\nRETURNING t.\"id\"::text AS defib_key1, "
	             "jsonb_build_object('page_processing_status', ");
	assert_true(w->returns);
	assert_true(w->uses[STUCK_REASON] && w->uses[STUCK_NOW]);
	assert_false(w->uses[STUCK_OWNER] || w->uses[STUCK_EVIDENCE]);
	reading_release(&x.reading);
}

static void the_relation_of_a_write_has_just_what_it_uses(void **state)
{
	struct bench x;
	struct relation r;
	(void)state;
	on_postgres(&x, PAGES);
	write_relation(&x.binding, &x.sql.writes[REMEDY_REQUEUE][0], &r);
	assert_int_equal(r.ncols, 3);
	assert_string_equal(r.names[0], "defib_k1");
	assert_string_equal(r.types[0], "bigint");
	assert_string_equal(r.names[1], "defib_reason");
	assert_string_equal(r.names[2], "defib_now_us");
	relation_release(&r);
	reading_release(&x.reading);
}

static void remedies_without_an_action_write_nothing(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES "also: [DELETE FROM x]\n");
	assert_int_equal(x.sql.nwrites[REMEDY_HOLD], 0);
	assert_int_equal(x.sql.nwrites[REMEDY_REPORT], 0);
	assert_int_equal(x.sql.nwrites[REMEDY_REQUEUE], 2);
	reading_release(&x.reading);
}

static void the_next_page_starts_behind_the_last_row(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES);
	assert_holds(x.sql.look_next, "\n  AND ((updated_at), t.\"id\") > "
	                              "($2::timestamp with time zone, $3::bigint)\nORDER BY");
	reading_release(&x.reading);
	on_sqlite(&x, PAGES);
	assert_holds(x.sql.look_next,
	             "\n  AND (julianday(updated_at), t.\"id\") > (CAST(?2 AS NUMERIC), ?3)\nORDER BY");
	reading_release(&x.reading);
}

static void rows_are_locked_without_waiting_on_postgres_only(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES);
	assert_holds(x.sql.lock, "\nFOR NO KEY UPDATE OF t SKIP LOCKED");
	reading_release(&x.reading);
	on_sqlite(&x, PAGES);
	assert_null(x.sql.lock);
	reading_release(&x.reading);
}

static void thresholds_by_kind_start_with_the_least(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, BASE "kind: type\nalive_at: a\nstuck_after: {x: 60s, default: 1h}\n");
	assert_holds(x.sql.look_first,
	             "((a) < statement_timestamp() - 60 * interval '1 second' AND (a) < "
	             "statement_timestamp() - CASE (type) WHEN 'x' THEN 60 * interval '1 second' ELSE "
	             "3600 * interval '1 second' END)");
	reading_release(&x.reading);
}

static void a_limit_by_state_or_row_is_computed_for_each_row(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, BASE "state: st\nalive_at: a\nstuck_after: {state: {x: 60s}, default: 1h}\n");
	assert_holds(x.sql.look_first, "((a) < statement_timestamp() - 60 * interval '1 second' AND ");
	assert_holds(x.sql.look_first, "> CASE (st::text) WHEN 'x' THEN 60000000 ELSE 3600000000 END)");
	reading_release(&x.reading);
	on_postgres(&x, BASE "state: st\nstarted_at: s\nstate_since: c\n"
	                     "overdue_after: {state: {x: 60s}, default: 1h}\n");
	assert_holds(x.sql.look_first, "WHEN 'x' THEN NULL ELSE 3600000000 END)");
	assert_holds(x.sql.look_first, "WHEN 'x' THEN 60000000 ELSE NULL END)");
	reading_release(&x.reading);
}

static void each_reason_to_be_stuck_is_a_condition(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, BASE "alive_at: a\nstuck_after: 1h\nstarted_at: s\noverdue_after: 2h\n"
	                     "missing: orphan\nowner_alive: o\n");
	assert_holds(
		x.sql.look_first,
		"\n  AND (((a) < statement_timestamp() - 3600 * interval '1 second' AND (o) IS NOT TRUE)"
		"\n    OR ((s) < statement_timestamp() - 7200 * interval '1 second')"
		"\n    OR ((a) IS NULL AND (o) IS NOT TRUE)"
		"\n    OR ((o) IS FALSE))");
	reading_release(&x.reading);
}

/* EXISTS is never null: its result for a row that no worker has yet is not evidence. */
static void a_row_without_an_owner_has_no_worker_that_could_be_dead(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, BASE "owner: w\nowner_alive: EXISTS (SELECT 1)\n");
	assert_holds(x.sql.look_first,
	             "((CASE WHEN (w) IS NOT NULL THEN (EXISTS (SELECT 1)) END) IS FALSE)");
	assert_holds(x.sql.reread, "CASE WHEN (w) IS NOT NULL THEN (EXISTS (SELECT 1)) END");
	reading_release(&x.reading);
}

static void composite_keys_are_compared_column_by_column(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, "table: t\nkey: [a, 'b\"c']\nrunning: r\nexpires_at: e\nrequeue: 'r = :a'\n");
	assert_holds(x.sql.look_one, "WHERE t.\"a\" = $1::bigint AND t.\"b\"\"c\" = $2::bigint");
	assert_holds(x.sql.writes[REMEDY_REQUEUE][0].sql, "SET r = defib_s.defib_k1");
	assert_holds(x.sql.writes[REMEDY_REQUEUE][0].sql,
	             "WHERE t.\"a\" = defib_s.defib_k1 AND t.\"b\"\"c\" = defib_s.defib_k2");
	assert_int_equal(x.sql.cols.owner, 2);
	reading_release(&x.reading);
}

static void hostile_table_names_are_quoted(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, "table: 'x\"; DROP TABLE y'\nkey: id\nrunning: r\nexpires_at: e\n");
	assert_holds(x.sql.look_first, "FROM \"x\"\"; DROP TABLE y\" AS t");
	reading_release(&x.reading);
}

static void statements_read_the_relation_stuck(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x,
	            PLAIN "requeue: {sql: [DELETE FROM jobs USING stuck s WHERE jobs.id = s.id]}\n");
	const char *sql = x.sql.writes[REMEDY_REQUEUE][0].sql;
	assert_true(
		text_starts(sql, "WITH stuck AS (SELECT defib_k1 AS \"id\", defib_owner AS owner, "));
	assert_holds(sql, ")\n DELETE FROM jobs USING stuck s");
	assert_holds(sql, "defib_evidence AS evidence");
	reading_release(&x.reading);
}

static void a_statement_keeps_its_own_with(void **state)
{
	static const struct {
		const char *text, *start, *rest;
	} forms[] = {
		{"WITH a AS (SELECT 1) DELETE FROM b", "WITH stuck AS (", "), a AS (SELECT 1) DELETE"},
		{"with recursive a AS (SELECT 1) DELETE FROM b", "WITH RECURSIVE stuck AS (",
	     "), a AS (SELECT 1) DELETE"},
		{"/* why */ WITH a AS (SELECT 1) DELETE FROM b", "WITH stuck AS (",
	     "), a AS (SELECT 1) DELETE"},
		{"-- why\\nDELETE FROM withheld", "WITH stuck AS (", ")\n -- why\nDELETE FROM withheld"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		struct buf keys = BUF_INIT;
		struct bench x;
		buf_addf(&keys, PLAIN "requeue: {sql: [\"%s\"]}\n", forms[i].text);
		on_postgres(&x, buf_text(&keys));
		struct buf sql = BUF_INIT;
		for (const char *c = x.sql.writes[REMEDY_REQUEUE][0].sql; *c; c++)
			if (c[0] != ' ' || c[1] != ' ')
				buf_addch(&sql, *c);
		assert_true(text_starts(buf_text(&sql), forms[i].start));
		assert_holds(buf_text(&sql), forms[i].rest);
		buf_release(&sql);
		buf_release(&keys);
		reading_release(&x.reading);
	}
}

static void a_call_is_a_select_over_the_jobs(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PLAIN "requeue: {call: 'retry_job(:id, :now, NULL)'}\n");
	const struct write_sql *w = &x.sql.writes[REMEDY_REQUEUE][0];
	assert_true(text_starts(w->sql, "SELECT retry_job(defib_s.defib_k1, (timestamptz 'epoch' + "));
	assert_false(w->returns);
	reading_release(&x.reading);
}

static void a_parameter_in_a_string_is_not_replaced(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PLAIN "requeue: status = ':reason'\n");
	assert_holds(x.sql.writes[REMEDY_REQUEUE][0].sql, "SET status = ':reason'");
	assert_false(x.sql.writes[REMEDY_REQUEUE][0].uses[STUCK_REASON]);
	reading_release(&x.reading);
}

static void written_columns_are_kept_once_under_the_tables_own_name(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PLAIN "requeue: STATUS = 'a', UPDATED_AT = :now\nfail: sTATUS = 'b'\n"
	                      "hold: status = 'c'\nrollback: '\"Status\" = 1, nothing = 2'\n");
	assert_int_equal(x.sql.nbefore, 3);
	assert_string_equal(x.sql.before[0], "status");
	assert_string_equal(x.sql.before[1], "updated_at");
	assert_string_equal(x.sql.before[2], "Status");
	reading_release(&x.reading);
}

static void what_was_written_is_read_before_only_in_the_second_reading(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PAGES);
	assert_holds(x.sql.reread, "jsonb_build_object('page_processing_status', ");
	assert_lacks(x.sql.look_first, "jsonb_build_object");
	reading_release(&x.reading);
}

static void rules_with_a_condition_have_a_column_each(void **state)
{
	struct bench x;
	(void)state;
	on_postgres(&x, PLAIN "remedies: [{do: report}, {when: a = 1, do: hold}]\nshow: [domain]\n");
	assert_holds(x.sql.look_first, "  NULL AS defib_when_1,\n  (a = 1) IS TRUE AS defib_when_2,\n"
	                               "  t.\"domain\"::text,\n");
	assert_int_equal(x.sql.cols.show, x.sql.cols.when + 2);
	assert_int_equal(x.sql.cols.count, x.sql.cols.before + 1);
	reading_release(&x.reading);
}

static void assert_index(enum store_engine engine, const char *keys, const char *want)
{
	struct bench x;
	struct buf out = BUF_INIT;
	bench_open(&x, engine, keys, engine == STORE_POSTGRES ? TIME_TYPE_TIMESTAMPTZ : TIME_TYPE_TEXT);
	watch_index(&x.binding, true, &out);
	assert_string_equal(buf_text(&out), want);
	buf_release(&out);
	reading_release(&x.reading);
}

static void the_proposed_index_serves_the_look(void **state)
{
	(void)state;
	assert_index(STORE_POSTGRES, PAGES,
	             "CREATE INDEX CONCURRENTLY ON \"pages\" (updated_at, \"id\") WHERE "
	             "page_processing_status = 'Processing'");
	assert_index(STORE_SQLITE, PAGES,
	             "CREATE INDEX \"defib_pages\" ON \"pages\" (julianday(updated_at), \"id\") WHERE "
	             "page_processing_status = 'Processing'");
}

static void an_index_knows_no_alias_and_no_other_table(void **state)
{
	(void)state;
	assert_index(STORE_POSTGRES,
	             "table: jobs\nkey: id\nrunning: t.status = 'x'\nstuck_after: 1m\n"
	             "alive_at: (select h.at from h where h.id = t.id)\n",
	             "CREATE INDEX CONCURRENTLY ON \"jobs\" (\"id\") WHERE status = 'x'");
}

static void an_index_has_nothing_that_a_clock_or_the_whole_row_decides(void **state)
{
	(void)state;
	assert_index(STORE_POSTGRES,
	             "table: jobs\nkey: id\nrunning: vt < now()\nstuck_after: 1m\n"
	             "expires_at: started + interval '1 minute'\n",
	             "CREATE INDEX CONCURRENTLY ON \"jobs\" (\"id\")");
	assert_index(STORE_POSTGRES,
	             "table: jobs\nkey: id\nrunning: status = 'x'\nstuck_after: 1m\n"
	             "alive_at: (to_jsonb(t)->>'at')::timestamptz\n",
	             "CREATE INDEX CONCURRENTLY ON \"jobs\" (\"id\") WHERE status = 'x'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look_reads_like_the_watch_on_postgres),
		cmocka_unit_test(look_reads_like_the_watch_on_sqlite),
		cmocka_unit_test(a_requeue_is_one_update_from_the_jobs),
		cmocka_unit_test(the_relation_of_a_write_has_just_what_it_uses),
		cmocka_unit_test(remedies_without_an_action_write_nothing),
		cmocka_unit_test(the_next_page_starts_behind_the_last_row),
		cmocka_unit_test(rows_are_locked_without_waiting_on_postgres_only),
		cmocka_unit_test(thresholds_by_kind_start_with_the_least),
		cmocka_unit_test(a_limit_by_state_or_row_is_computed_for_each_row),
		cmocka_unit_test(each_reason_to_be_stuck_is_a_condition),
		cmocka_unit_test(a_row_without_an_owner_has_no_worker_that_could_be_dead),
		cmocka_unit_test(composite_keys_are_compared_column_by_column),
		cmocka_unit_test(hostile_table_names_are_quoted),
		cmocka_unit_test(statements_read_the_relation_stuck),
		cmocka_unit_test(a_statement_keeps_its_own_with),
		cmocka_unit_test(a_call_is_a_select_over_the_jobs),
		cmocka_unit_test(a_parameter_in_a_string_is_not_replaced),
		cmocka_unit_test(written_columns_are_kept_once_under_the_tables_own_name),
		cmocka_unit_test(what_was_written_is_read_before_only_in_the_second_reading),
		cmocka_unit_test(rules_with_a_condition_have_a_column_each),
		cmocka_unit_test(the_proposed_index_serves_the_look),
		cmocka_unit_test(an_index_knows_no_alias_and_no_other_table),
		cmocka_unit_test(an_index_has_nothing_that_a_clock_or_the_whole_row_decides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
