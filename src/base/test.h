/* SPDX-License-Identifier: Apache-2.0
 * test.h: cmocka with the headers that it needs first, and how tests wait. Its macro `fail` is
 * removed, because ours is a function (fail.h); fail_msg does not depend on it.
 */
#ifndef BASE_TEST_H
#define BASE_TEST_H

#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef fail
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

/*
 * A limit that ends what hangs, and nothing that is only slow: on no machine does a step of a test
 * take so long.
 */
#define TEST_HANGS_MS 600000

/* Waits until the condition holds. */
#define EVENTUALLY(condition)                                                                      \
	for (int64_t from_ms = clock_boot_ms(); !(condition); poll(NULL, 0, 2))                        \
	assert_true(clock_boot_ms() - from_ms < TEST_HANGS_MS)

#endif
