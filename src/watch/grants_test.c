/* SPDX-License-Identifier: Apache-2.0 */
/* grants_test.c: which GRANTs follow from a watch. */
#include "watch/grants.h"
#include "watch/watch.h"

#include "base/text.h"
#include "watch/watch_test.h"

#define BASE                                                                                       \
	"table: app.jobs\nkey: id\nrunning: status = 'running'\nalive_at: at\nstuck_after: 1h\n"

static void assert_grants(const char *keys, enum watch_use use, const char *expected)
{
	struct reading r;
	struct buf out = BUF_INIT;
	reading_open_watch(&r, POSTGRES_URL, keys);
	watch_grants(only_watch(&r), use, "\"r\"", &r.arena, &out);
	assert_string_equal(buf_text(&out), expected);
	buf_release(&out);
	reading_release(&r);
}

#define OWN "GRANT USAGE ON SCHEMA \"app\" TO \"r\";\nGRANT SELECT ON \"app\".\"jobs\" TO \"r\";\n"

static void who_only_reads_gets_no_right_to_write(void **state)
{
	(void)state;
	assert_grants(BASE "requeue: status = 'queued'\n", WATCH_READ, OWN);
}

static void the_columns_of_set_lists_are_named_and_no_others(void **state)
{
	(void)state;
	assert_grants(BASE "requeue: status = 'queued', \"B c\" = f(x, y)\nfail: status = 'failed'\n",
	              WATCH_RECOVER,
	              OWN "GRANT UPDATE (\"status\", \"B c\") ON \"app\".\"jobs\" TO \"r\";\n");
}

/* Locking a row requires the privilege to update any of its columns. */
static void a_remedy_without_a_set_list_needs_a_column_to_lock_by(void **state)
{
	(void)state;
	assert_grants(BASE "requeue: {call: \"give_back(:id)\"}\n", WATCH_RECOVER,
	              OWN "GRANT UPDATE (\"id\") ON \"app\".\"jobs\" TO \"r\";\n");
}

static void other_tables_are_found_where_statements_name_them(void **state)
{
	(void)state;
	assert_grants(
		BASE
		"owner: (SELECT b.w FROM beats b, lanes l JOIN x.\"W s\" w ON true WHERE b.id = t.id)\n"
		"requeue: status = 'queued'\n"
		"also: ['INSERT INTO audit (job) SELECT id FROM stuck', 'DELETE FROM beats b USING "
		"stuck s WHERE b.id = s.id']\n",
		WATCH_RECOVER,
		OWN "GRANT UPDATE (\"status\") ON \"app\".\"jobs\" TO \"r\";\n"
			"GRANT SELECT, DELETE ON beats TO \"r\";\nGRANT SELECT ON lanes TO \"r\";\n"
			"GRANT SELECT ON x.\"W s\" TO \"r\";\nGRANT INSERT ON audit TO \"r\";\n");
}

static void a_state_in_another_table_is_also_locked(void **state)
{
	(void)state;
	static const char states[] = BASE "owner: (SELECT b.w FROM beats b WHERE b.id = t.id)\n"
									  "attempts: (SELECT n.n FROM tries n WHERE n.id = t.id)\n"
									  "requeue: status = 'queued'\n";
	assert_grants(states, WATCH_RECOVER,
	              OWN "GRANT UPDATE (\"status\") ON \"app\".\"jobs\" TO \"r\";\n"
	                  "GRANT SELECT ON beats TO \"r\";\nGRANT SELECT, UPDATE ON tries TO "
	                  "\"r\";\n");
	assert_grants(states, WATCH_READ,
	              OWN "GRANT SELECT ON beats TO \"r\";\nGRANT SELECT ON tries TO \"r\";\n");
}

/* FROM has other uses, and a statement may name its own parts. */
static void what_only_looks_like_a_table_is_left_out(void **state)
{
	(void)state;
	assert_grants(BASE "kind: extract(epoch FROM at) || trim(both FROM name)\n"
	                   "attempts: CASE WHEN a IS DISTINCT FROM b THEN 1 ELSE 0 END\n"
	                   "max_attempts: (SELECT count(*) FROM generate_series(1, 3) n)\n"
	                   "requeue: status = 'queued'\n"
	                   "also: ['WITH old AS (SELECT id FROM stuck) INSERT INTO audit SELECT id "
	                   "FROM old ON CONFLICT DO NOTHING']\n",
	              WATCH_RECOVER,
	              OWN "GRANT UPDATE (\"status\") ON \"app\".\"jobs\" TO \"r\";\n"
	                  "GRANT INSERT ON audit TO \"r\";\n");
}

static void names_behind_a_comma_that_follows_the_tables_are_columns(void **state)
{
	(void)state;
	assert_grants(BASE
	              "owner: (SELECT b.w FROM beats b WHERE b.id = t.id GROUP BY b.w, grp ORDER BY "
	              "b.at, ord LIMIT 1)\n",
	              WATCH_READ, OWN "GRANT SELECT ON beats TO \"r\";\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_only_reads_gets_no_right_to_write),
		cmocka_unit_test(the_columns_of_set_lists_are_named_and_no_others),
		cmocka_unit_test(a_remedy_without_a_set_list_needs_a_column_to_lock_by),
		cmocka_unit_test(other_tables_are_found_where_statements_name_them),
		cmocka_unit_test(a_state_in_another_table_is_also_locked),
		cmocka_unit_test(what_only_looks_like_a_table_is_left_out),
		cmocka_unit_test(names_behind_a_comma_that_follows_the_tables_are_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
