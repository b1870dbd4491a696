/* SPDX-License-Identifier: Apache-2.0 */
/* certain_test.c: what is certain about a row, and that everything else proves nothing. */
#include "watch/certain.h"

#include "base/test.h"

static void two_values_of_one_column_are_apart(void **state)
{
	static const struct {
		const char *one, *other;
		bool apart;
	} rows[] = {
		{"status = 'a'", "status = 'b'", true},
		{"status = 'a'", "status = 'a'", false},
		{"status = 'a'", "STATUS = 'A'", false}, /* a type may ignore case */
		{"t.status = 'a'", "\"status\" = 'b'", true},
		{"status = 1", "status = 2", true},
		{"status = ''", "status = 'a'", true},
		{"a = 'x' AND b = 'y'", "b = 'z'", true},
		{"a = 'x' AND n < 3", "n < 4 AND a = 'z'", true},
		/* Nothing is known: */
		{"a = 'x'", "b = 'y'", false},
		{"a = 'it''s'", "a = 'its'", false},
		{"\"a\"\"b\" = 'x'", "\"a\"\"b\" = 'y'", false},
		{"a = b", "a = 'x'", false},
		{"a <> 'x'", "a = 'y'", false},
		{"a = E'x'", "a = 'x'", false},
		{"a = $$x$$", "a = 'x'", false},
		{"a = 'x' || 'y'", "a = 'y'", false},
		{"(a = 'x')", "a = 'y'", false},
		{"f(a = 'x' AND b = 'y')", "b = 'z'", false},
		{"a = 'x' OR b = 'x'", "a = 'y'", false},
		{"NOT a = 'x'", "a = 'y'", false},
		{"a = 'x' AND n BETWEEN 1 AND 2", "a = 'y'", false},
		{"u.a = 'x'", "a = 'y'", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (certain_apart(rows[i].one, rows[i].other, STORE_POSTGRES) != rows[i].apart ||
		    certain_apart(rows[i].other, rows[i].one, STORE_SQLITE) != rows[i].apart)
			fail_msg("%s and %s: not %s", rows[i].one, rows[i].other,
			         rows[i].apart ? "apart" : "unknown");
	}
}

static void a_set_list_ends_what_it_contradicts(void **state)
{
	(void)state;
	assert_true(certain_ends("status = 'running'", "status = 'done', at = now()", STORE_POSTGRES));
	assert_true(certain_ends("status = 'running' AND n > 1", "status = 'done'", STORE_POSTGRES));
	assert_false(certain_ends("status = 'running'", "status = 'running'", STORE_POSTGRES));
	assert_false(certain_ends("status = 'running'", "n = n + 1", STORE_POSTGRES));
	assert_false(certain_ends("status = 'running'", "status = f('done')", STORE_POSTGRES));
}

static void a_set_list_makes_what_it_says_in_full(void **state)
{
	const char *five = "a = 1 AND b = 2 AND c = 3 AND d = 4 AND e = 5";
	(void)state;
	assert_true(certain_makes("status = 'a'", "n = n + 1, status = 'a'", STORE_POSTGRES));
	assert_true(certain_makes(five, "e = 5, d = 4, c = 3, b = 2, a = 1", STORE_POSTGRES));
	assert_false(certain_makes(five, "e = 6, d = 4, c = 3, b = 2, a = 1", STORE_POSTGRES));
	assert_false(certain_makes(five, "e = 5, d = 4, c = 3, b = 2, a = 2", STORE_POSTGRES));
	assert_false(certain_makes(five, "d = 4, c = 3, b = 2, a = 1", STORE_POSTGRES));
	assert_false(certain_makes("status = 'a' AND n < 3", "status = 'a'", STORE_POSTGRES));
	assert_false(certain_makes("n < 3", "n = 1", STORE_POSTGRES));
	assert_false(certain_makes("status = 'a' OR n = 1", "status = 'a'", STORE_POSTGRES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_values_of_one_column_are_apart),
		cmocka_unit_test(a_set_list_ends_what_it_contradicts),
		cmocka_unit_test(a_set_list_makes_what_it_says_in_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
