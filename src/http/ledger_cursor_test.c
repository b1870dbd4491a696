/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_cursor_test.c: what a client hands back is read as it was said, or refused. */
#include "base/test.h"
#include "http/ledger_cursor.h"

#include <string.h>

static void round_trip(const char *text)
{
	struct ledger_cursor c;
	struct buf out = BUF_INIT;
	assert_true(ledger_cursor_parse(&c, text));
	ledger_cursor_text(&c, &out);
	assert_string_equal(buf_text(&out), text);
	buf_release(&out);
	ledger_cursor_release(&c);
}

static void what_was_said_is_read_back(void **state)
{
	(void)state;
	round_trip("");
	round_trip("main=123");
	round_trip("main=0,other-1=45,c.d_e=9223372036854775807");
	round_trip("a%20b%2C%3D%C3%A9=7");
}

static void names_of_any_kind_are_kept(void **state)
{
	(void)state;
	struct ledger_cursor c = {0}, again;
	struct buf out = BUF_INIT;
	ledger_cursor_at(&c, "a, b=1\n%é")->id = 5;
	ledger_cursor_text(&c, &out);
	assert_null(strpbrk(buf_text(&out), " \n,"));
	assert_true(ledger_cursor_parse(&again, buf_text(&out)));
	assert_int_equal(again.n, 1);
	assert_string_equal(again.places[0].database, "a, b=1\n%é");
	buf_release(&out);
	ledger_cursor_release(&c);
	ledger_cursor_release(&again);
}

static void anything_else_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"main",     "=5",      "main=",      "main=x",
		"main=-1",  "main=+1", "a=1,",       ",a=1",
		"a=1,,b=2", "a=1,a=2", "a b=1",      "a%2=1",
		"a%=1",     "a%zz=1",  "a%00=1",     "main=99999999999999999999",
		"a=1=2",    "a=1;b=2", "a=1\r\nx: y"};
	struct ledger_cursor c;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (ledger_cursor_parse(&c, bad[i]))
			fail_msg("taken for a cursor: %s", bad[i]);
		assert_int_equal(c.n, 0);
	}
}

static void more_databases_than_there_is_room_for_are_refused(void **state)
{
	(void)state;
	struct ledger_cursor c;
	struct buf text = BUF_INIT;
	for (int i = 0; i < LEDGER_CURSOR_MAX; i++)
		buf_addf(&text, "%sd%d=%d", i ? "," : "", i, i);
	assert_true(ledger_cursor_parse(&c, buf_text(&text)));
	assert_null(ledger_cursor_at(&c, "one more"));
	ledger_cursor_release(&c);
	buf_add(&text, ",more=1");
	assert_false(ledger_cursor_parse(&c, buf_text(&text)));
	buf_release(&text);
}

static void a_database_that_was_not_seen_is_not_named(void **state)
{
	(void)state;
	struct ledger_cursor c = {0};
	struct buf text = BUF_INIT;
	assert_int_equal(ledger_cursor_at(&c, "a")->id, -1);
	ledger_cursor_at(&c, "b")->id = 3;
	ledger_cursor_text(&c, &text);
	assert_string_equal(buf_text(&text), "b=3");
	buf_release(&text);
	ledger_cursor_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_said_is_read_back),
		cmocka_unit_test(names_of_any_kind_are_kept),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(more_databases_than_there_is_room_for_are_refused),
		cmocka_unit_test(a_database_that_was_not_seen_is_not_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
