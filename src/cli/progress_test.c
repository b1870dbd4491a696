/* SPDX-License-Identifier: Apache-2.0 */
/* progress_test.c: the progress line as text. */
#include "cli/progress.h"

#include "base/test.h"

static void expect(const struct progress_of *p, int64_t n, int64_t ms, const char *text)
{
	AUTO_BUF out = BUF_INIT;
	progress_text(p, n, ms, &out);
	assert_string_equal(buf_text(&out), text);
}

static void a_known_total_has_a_bar_a_rate_and_a_rest(void **state)
{
	const struct progress_of p = {.name = "pages", .done = "requeued", .total = 4800};
	(void)state;
	expect(&p, 2400, 2000,
	       "pages: [############------------] 2,400 of 4,800 requeued, 1,200/s, 3s left");
	expect(&p, 4800, 4000, "pages: [########################] 4,800 of 4,800 requeued, 1,200/s");
}

static void an_unknown_total_has_no_bar(void **state)
{
	const struct progress_of p = {.name = "main", .done = "entries"};
	(void)state;
	expect(&p, 1000, 2000, "main: 1,000 entries, 500/s");
}

static void more_than_expected_is_not_more_than_all(void **state)
{
	const struct progress_of p = {.name = "pages", .done = "held", .total = 10};
	(void)state;
	expect(&p, 12, 1000, "pages: [########################] 12 of 12 held, 12/s");
}

static void nothing_yet_promises_nothing(void **state)
{
	const struct progress_of p = {.name = "pages", .done = "held", .total = 10};
	(void)state;
	expect(&p, 0, 1500, "pages: [------------------------] 0 of 10 held");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_total_has_a_bar_a_rate_and_a_rest),
		cmocka_unit_test(an_unknown_total_has_no_bar),
		cmocka_unit_test(more_than_expected_is_not_more_than_all),
		cmocka_unit_test(nothing_yet_promises_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
