/* SPDX-License-Identifier: Apache-2.0 */
/* hash_test.c: compared with the published examples, and every length around a block. */
#include "base/hash.h"

#include "base/test.h"

static const char *hash(const char *text, size_t n)
{
	static char out[SHA256_HEX];
	sha256_hex(text, n, out);
	return out;
}

static void the_published_examples(void **state)
{
	(void)state;
	assert_string_equal(hash("", 0),
	                    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_string_equal(hash("abc", 3),
	                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
	                    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* 55 and 56 bytes: the length fits into the same block, or needs another one. */
static void lengths_around_a_block(void **state)
{
	char text[129];
	(void)state;
	memset(text, 'a', sizeof text);
	assert_string_equal(hash(text, 55),
	                    "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
	assert_string_equal(hash(text, 64),
	                    "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
	assert_string_equal(hash(text, 128),
	                    "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e");
}

static void a_quick_hash_continues_where_it_ended(void **state)
{
	(void)state;
	assert_true(fnv1a(FNV_START, "", 0) == FNV_START);
	assert_true(fnv1a(FNV_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(fnv1a(fnv1a(FNV_START, "foo", 3), "bar", 3) == fnv1a(FNV_START, "foobar", 6));
}

/* Wherever it is, also in what is behind the last eight. */
static void a_changed_byte_changes_the_hash_by_words(void **state)
{
	(void)state;
	char text[] = "twenty bytes of text";
	uint64_t before = fnv1a_words(FNV_START, text, sizeof text - 1);
	for (size_t i = 0; i < sizeof text - 1; i++) {
		text[i] ^= 4;
		assert_true(fnv1a_words(FNV_START, text, sizeof text - 1) != before);
		text[i] ^= 4;
	}
	assert_true(fnv1a_words(FNV_START, text, sizeof text - 1) == before);
	assert_true(fnv1a_words(FNV_START, "foobar", 6) == fnv1a(FNV_START, "foobar", 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quick_hash_continues_where_it_ended),
		cmocka_unit_test(a_changed_byte_changes_the_hash_by_words),
		cmocka_unit_test(the_published_examples),
		cmocka_unit_test(lengths_around_a_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
