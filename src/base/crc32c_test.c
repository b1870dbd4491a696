/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "base/test.h"

/* The check value of every catalogue, and a test pattern of RFC 3720. */
static void known_values_come_out(void **state)
{
	(void)state;
	unsigned char ff[32];
	memset(ff, 0xff, sizeof ff);
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, ff, sizeof ff), 0x62a8ab43);
}

static void it_can_be_continued(void **state)
{
	(void)state;
	const char *digits = "123456789";
	for (size_t cut = 0; cut <= 9; cut++) {
		uint32_t first = crc32c(0, digits, cut);
		assert_int_equal(crc32c(first, digits + cut, 9 - cut), 0xe3069283);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values_come_out),
		cmocka_unit_test(it_can_be_continued),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
