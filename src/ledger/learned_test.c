/* SPDX-License-Identifier: Apache-2.0 */
/* learned_test.c: what was learnt is stored, and counted once, whichever writer wins. */
#include "ledger/overrides.h"

#include "ledger/ledger_test.h"
#include "ledger/schema.h"

static void open_learned(struct place *p, enum store_engine engine)
{
	struct failure f = {0};
	open_place(p, engine);
	if (schema_install(p->store, SCHEMA_DAEMON, &f))
		fail_msg("%s", f.what);
	if (engine == STORE_SQLITE)
		run(p, "DELETE FROM defib_learned");
}

static bool write_rows(struct place *p, const char *was, const struct learned_row *rows, int n)
{
	struct failure f = {0};
	bool taken = false;
	if (learned_write(p->store, "pages", was, rows, n, &p->arena, &taken, &f))
		fail_msg("%s", f.what);
	return taken;
}

static int read_rows(struct place *p, const char *watch, struct learned_row **out)
{
	struct failure f = {0};
	int n = -1;
	if (learned_read(p->store, watch, &p->arena, out, &n, &f))
		fail_msg("%s", f.what);
	return n;
}

static void what_is_written_is_read_back_the_watch_itself_first(enum store_engine engine)
{
	static const struct learned_row rows[] = {{"crawl", "{\"a\": 1}"}, {"", "{\"cursor_us\": 5}"}};
	struct learned_row *out;
	struct place p;
	open_learned(&p, engine);
	assert_int_equal(read_rows(&p, "pages", &out), 0);
	assert_true(write_rows(&p, NULL, rows, 2));
	assert_int_equal(read_rows(&p, "pages", &out), 2);
	assert_string_equal(out[0].kind, "");
	assert_string_equal(out[0].document, "{\"cursor_us\": 5}");
	assert_string_equal(out[1].document, "{\"a\": 1}");
	assert_int_equal(read_rows(&p, "other", &out), 0);
	close_place(&p);
}

static void of_two_that_read_the_same_one_writes(enum store_engine engine)
{
	static const struct learned_row first[] = {{"", "{\"cursor_us\": 5}"}, {"a", "{\"n\": 1}"}};
	static const struct learned_row second[] = {{"", "{\"cursor_us\": 6}"}, {"a", "{\"n\": 9}"}};
	struct learned_row *out;
	struct place p;
	open_learned(&p, engine);
	assert_true(write_rows(&p, NULL, first, 2));
	assert_false(write_rows(&p, NULL, second, 2));
	assert_int_equal(read_rows(&p, "pages", &out), 2);
	assert_string_equal(out[1].document, "{\"n\": 1}");
	assert_true(write_rows(&p, out[0].document, second, 2));
	assert_false(write_rows(&p, "{\"cursor_us\": 5}", first, 2));
	read_rows(&p, "pages", &out);
	assert_string_equal(out[1].document, "{\"n\": 9}");
	close_place(&p);
}

static void a_kind_without_a_document_goes(enum store_engine engine)
{
	static const struct learned_row rows[] = {{"", "{\"c\": 1}"}, {"a", "{}"}, {"b", "{}"}};
	static const struct learned_row gone[] = {{"", "{\"c\": 2}"}, {"a", NULL}};
	struct learned_row *out;
	struct place p;
	open_learned(&p, engine);
	assert_true(write_rows(&p, NULL, rows, 3));
	assert_true(write_rows(&p, "{\"c\": 1}", gone, 2));
	assert_int_equal(read_rows(&p, "pages", &out), 2);
	assert_string_equal(out[1].kind, "b");
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(what_is_written_is_read_back_the_watch_itself_first)                                         \
	X(of_two_that_read_the_same_one_writes)                                                        \
	X(a_kind_without_a_document_goes)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
