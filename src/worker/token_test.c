/* SPDX-License-Identifier: Apache-2.0 */
/* token_test.c: tokens differ across failovers, and sort like claims. */
#include "base/test.h"
#include "worker/source.h"
#include "worker/token.h"

#include <string.h>

static const char *token(int64_t timeline, int64_t epoch, uint64_t nonce)
{
	static char texts[4][TOKEN_SIZE];
	static int next;
	char *out = texts[next++ % 4];
	token_write(timeline, epoch, 41, nonce, out);
	return out;
}

static void a_token_says_timeline_epoch_worker_and_nonce(void **state)
{
	(void)state;
	assert_string_equal(token(2, 12, 0x9f3c52d1a07be866),
	                    "00000002-000000000000000c-41-9f3c52d1a07be866");
}

static void the_same_epoch_of_two_timelines_has_two_tokens(void **state)
{
	(void)state;
	assert_string_not_equal(token(1, 7, 0), token(2, 7, 0));
}

static void where_no_timeline_is_known_the_nonce_differs(void **state)
{
	(void)state;
	assert_string_not_equal(token(0, 7, token_nonce()), token(0, 7, token_nonce()));
}

static void tokens_of_a_job_sort_as_its_claims_do(void **state)
{
	(void)state;
	assert_true(strcmp(token(1, 9, 9), token(1, 10, 1)) < 0);
	assert_true(strcmp(token(1, 255, 9), token(1, 256, 1)) < 0);
	assert_true(strcmp(token(1, 1000, 9), token(2, 7, 1)) < 0);
	assert_true(strcmp(token(9, 1, 9), token(10, 1, 1)) < 0);
}

static void the_largest_numbers_fit(void **state)
{
	(void)state;
	char out[TOKEN_SIZE];
	token_write(INT64_MAX, INT64_MAX, INT64_MAX, UINT64_MAX, out);
	assert_int_equal(strlen(out), 16 + 1 + 16 + 1 + 19 + 1 + 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_says_timeline_epoch_worker_and_nonce),
		cmocka_unit_test(the_same_epoch_of_two_timelines_has_two_tokens),
		cmocka_unit_test(where_no_timeline_is_known_the_nonce_differs),
		cmocka_unit_test(tokens_of_a_job_sort_as_its_claims_do),
		cmocka_unit_test(the_largest_numbers_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
