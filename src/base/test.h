/* SPDX-License-Identifier: Apache-2.0
 * test.h: cmocka with the headers that it needs first. Its macro `fail` is removed, because ours is
 * a function (fail.h); fail_msg does not depend on it.
 */
#ifndef BASE_TEST_H
#define BASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef fail
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#endif
