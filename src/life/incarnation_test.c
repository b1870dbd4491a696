/* SPDX-License-Identifier: Apache-2.0 */
#include "life/incarnation.h"

#include "base/test.h"

#include <unistd.h>

#define GOOD                                                                                       \
	"web-1/01234567-89ab-cdef-0123-456789abcdef/4026531836/4026531834/4711/123456/"                \
	"00ff00ff00ff00ff"

static void self_survives_the_way_through_text(void **state)
{
	(void)state;
	struct incarnation self, back;
	char text[256], again[256];
	assert_int_equal(incarnation_self(&self, NULL), DEFIB_OK);
	incarnation_text(&self, text, sizeof text);
	assert_true(incarnation_parse(text, &back));
	incarnation_text(&back, again, sizeof again);
	assert_string_equal(text, again);
	assert_int_equal(back.pid, getpid());
	assert_true(back.start == self.start && back.time_ns == self.time_ns);
	assert_true(incarnation_same_host(&self, &back));
}

static void every_incarnation_has_its_own_nonce(void **state)
{
	(void)state;
	struct incarnation a, b;
	assert_int_equal(incarnation_self(&a, NULL), DEFIB_OK);
	assert_int_equal(incarnation_self(&b, NULL), DEFIB_OK);
	assert_string_not_equal(a.nonce, b.nonce);
}

static void the_longest_host_name_fits(void **state)
{
	(void)state;
	struct incarnation self, back;
	char text[256];
	assert_int_equal(incarnation_self(&self, NULL), DEFIB_OK);
	memset(self.host, 'h', sizeof self.host - 1);
	self.pid_ns = self.time_ns = UINT64_MAX;
	self.start = UINT64_MAX;
	incarnation_text(&self, text, sizeof text);
	assert_true(incarnation_parse(text, &back));
	assert_string_equal(self.host, back.host);
	assert_true(back.start == UINT64_MAX);
}

static void text_of_another_shape_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		"/////",
		"web-1",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/123456/00ff00ff00ff00ff/",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/123456/00ff00ff00ff00ff0",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/ 4711/123456/00ff00ff00ff00ff",
		"/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcde/1/2/4711/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/-1/2/4711/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/4711/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/-2/4711/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/0/123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/0123456/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/2147483648/1/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/18446744073709551616/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711//00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/12x/00ff00ff00ff00ff",
		"h/01234567-89ab-cdef-0123-456789abcdef/1/2/4711/12/00FF00ff00ff00ff",
	};
	struct incarnation out;
	assert_true(incarnation_parse(GOOD, &out));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(incarnation_parse(bad[i], &out));
}

static void another_boot_or_namespace_is_another_host(void **state)
{
	(void)state;
	struct incarnation a, b;
	assert_true(incarnation_parse(GOOD, &a));
	b = a;
	b.pid_ns++;
	assert_false(incarnation_same_host(&a, &b));
	b = a;
	b.boot_id[0] = 'f';
	assert_false(incarnation_same_host(&a, &b));
	b = a;
	b.host[0] = 'x'; /* a name proves nothing: containers choose theirs */
	assert_true(incarnation_same_host(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(self_survives_the_way_through_text),
		cmocka_unit_test(every_incarnation_has_its_own_nonce),
		cmocka_unit_test(the_longest_host_name_fits),
		cmocka_unit_test(text_of_another_shape_is_refused),
		cmocka_unit_test(another_boot_or_namespace_is_another_host),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
