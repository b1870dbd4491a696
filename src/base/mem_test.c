/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include "base/test.h"

#include <sys/wait.h>
#include <unistd.h>

static void arena_memory_is_zeroed_and_aligned(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	for (size_t n = 0; n < 300; n += 7) {
		unsigned char *p = arena_alloc(&a, n);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, n);
	}
	arena_release(&a);
}

static void arena_memory_is_zeroed_again_after_clear(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	memset(arena_alloc(&a, 64), 0xff, 64);
	arena_clear(&a);
	assert_int_equal(a.used, 0);
	const unsigned char *p = arena_alloc(&a, 64);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(p[i], 0);
	arena_release(&a);
}

static void arena_holds_more_than_one_block(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	char *first = arena_strdup(&a, "first");
	char *large = arena_alloc(&a, 1 << 20);
	memset(large, 'x', 1 << 20);
	assert_string_equal(first, "first");
	assert_true(a.used >= 1 << 20);
	arena_release(&a);
	assert_null(a.head);
}

static void strndup_stops_at_the_limit_or_the_end(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
	assert_string_equal(arena_strndup(&a, "ab", 10), "ab");
	arena_release(&a);
}

static void printf_takes_any_length(void **state)
{
	(void)state;
	struct arena a = ARENA_INIT;
	const char *text = arena_printf(&a, "%09000d", 1);
	assert_int_equal(strlen(text), 9000);
	arena_release(&a);
}

static int end_with_the_number_asked(void *ctx, size_t bytes)
{
	int *asked = ctx;
	if (++*asked < 3)
		return 1; /* try again */
	_exit(bytes == SIZE_MAX ? *asked : 0);
}

static void refused_memory_asks_the_callback_again_and_again(void **state)
{
	(void)state;
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		struct arena a = ARENA_INIT;
		int asked = 0;
		mem_on_refused(end_with_the_number_asked, &asked);
		arena_alloc(&a, SIZE_MAX);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static int end_when_the_reserve_is_gone(void *ctx, size_t bytes)
{
	(void)ctx, (void)bytes;
	if (mem_short())
		_exit(5);
	return 0;
}

static void a_reserve_is_used_before_anything_ends(void **state)
{
	(void)state;
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		struct arena a = ARENA_INIT;
		mem_on_refused(end_when_the_reserve_is_gone, NULL);
		if (!mem_short() || !mem_reserve() || mem_short())
			_exit(1);
		arena_alloc(&a, SIZE_MAX);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_memory_is_zeroed_and_aligned),
		cmocka_unit_test(arena_memory_is_zeroed_again_after_clear),
		cmocka_unit_test(arena_holds_more_than_one_block),
		cmocka_unit_test(strndup_stops_at_the_limit_or_the_end),
		cmocka_unit_test(printf_takes_any_length),
		cmocka_unit_test(refused_memory_asks_the_callback_again_and_again),
		cmocka_unit_test(a_reserve_is_used_before_anything_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
