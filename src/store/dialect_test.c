/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_test.c: texts become the engine's SQL. */
#include "store/dialect.h"
#include "store/store_test.h"

static void assert_becomes(enum store_engine engine, const char *text, const char *expected)
{
	struct buf out = BUF_INIT, again = BUF_INIT;
	dialect_add(dialect_of(engine), &out, text);
	assert_string_equal(buf_text(&out), expected);
	dialect_add(dialect_of(engine), &again, buf_text(&out));
	assert_string_equal(buf_text(&again), expected);
	buf_release(&out);
	buf_release(&again);
}

static void test_names_and_parameters_are_the_engines(void **state)
{
	static const char text[] = "SELECT 1 FROM defib.job AS defib_j WHERE id = $1::bigint";
	(void)state;
	assert_becomes(STORE_POSTGRES, text, text);
	assert_becomes(STORE_SQLITE, text, "SELECT 1 FROM defib_job AS defib_j WHERE id = ?1");
}

static void test_literals_stay(void **state)
{
	static const char text[] = "SELECT '{now} $1 defib.job', '{}', 'it''s::text'";
	(void)state;
	assert_becomes(STORE_POSTGRES, text, text);
	assert_becomes(STORE_SQLITE, text, text);
}

static void test_pieces_nest(void **state)
{
	static const char text[] = "{iso {now} - {span $2::bigint}}";
	(void)state;
	assert_becomes(STORE_POSTGRES, text,
	               "to_char(clock_timestamp() - $2::bigint * interval '1 microsecond' AT TIME ZONE "
	               "'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')");
	assert_becomes(STORE_SQLITE, text, SQLITE_NOW_MS " - ?2 / 1000");
}

static void test_a_piece_takes_its_arguments_in_order(void **state)
{
	(void)state;
	assert_becomes(STORE_POSTGRES, "({between_bytes batch|$1|$2})",
	               "(batch ~>=~ $1 AND batch ~<~ $2)");
	assert_becomes(STORE_POSTGRES, "{stamp_seconds {member e|a}|{member e|b}}",
	               "floor(extract(epoch FROM e->>'a' - e->>'b'))::bigint");
	assert_becomes(STORE_SQLITE, "({between_bytes batch|$1|$2})", "(batch >= ?1 AND batch < ?2)");
}

/* What one engine can express must have a form in every other. */
static void test_every_dialect_has_every_piece(void **state)
{
	(void)state;
	for (int e = STORE_POSTGRES; e <= STORE_SQLITE; e++) {
		const struct dialect *d = dialect_of((enum store_engine)e);
		int n = 0;
		for (const struct dialect_piece *p = dialect_postgres.pieces; p->name; p++)
			assert_non_null(dialect_text(d, p->name));
		while (d->pieces[n].name)
			n++;
		for (const struct dialect_piece *p = dialect_postgres.pieces; p->name; p++)
			n--;
		assert_int_equal(n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_parameters_are_the_engines),
		cmocka_unit_test(test_literals_stay),
		cmocka_unit_test(test_pieces_nest),
		cmocka_unit_test(test_a_piece_takes_its_arguments_in_order),
		cmocka_unit_test(test_every_dialect_has_every_piece),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
