/* SPDX-License-Identifier: Apache-2.0 */
/* spool_ids_test.c: compared with a list, with hashes that collide and that fill one place. */
#include "store/spool_ids.h"

#include "base/test.h"

#include <stdlib.h>

#define MOST 300

struct pair {
	uint64_t hash;
	int64_t number;
};

static void assert_same(const struct spool_ids *ids, const struct pair *all, int n, uint64_t hash)
{
	size_t at = 0;
	int64_t sum = 0, listed = 0, number;
	while ((number = ids_next(ids, hash, &at)))
		sum += number;
	for (int i = 0; i < n; i++)
		listed += all[i].hash == hash ? all[i].number : 0;
	assert_int_equal(sum, listed);
	assert_int_equal(ids->n, n);
}

static void it_has_what_was_added_and_not_removed(void **state)
{
	(void)state;
	static const uint64_t spread[] = {1, 3, 7, UINT64_MAX};
	for (size_t k = 0; k < sizeof spread / sizeof *spread; k++) {
		struct spool_ids ids = {0};
		struct pair all[MOST];
		int n = 0;
		srand(7);
		for (int64_t step = 1; step < 5000; step++) {
			/* Few hashes, at the end of the table too, so that they go on at its beginning. */
			uint64_t hash = ((uint64_t)rand() % 40 * spread[k]) ^ UINT64_C(62);
			int one = n > 0 ? rand() % n : 0;
			if (n < MOST && (n == 0 || rand() % 5 < (step / 500 % 2 ? 2 : 3))) {
				ids_add(&ids, hash, step);
				all[n++] = (struct pair){hash, step};
			} else {
				ids_remove(&ids, all[one].hash, all[one].number);
				hash = all[one].hash;
				all[one] = all[--n];
			}
			assert_same(&ids, all, n, hash);
			assert_same(&ids, all, n, (uint64_t)rand() % 40 * spread[k]);
		}
		ids_remove(&ids, 1, 9999);
		assert_int_equal(ids.n, n);
		ids_release(&ids);
		assert_same(&ids, all, 0, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_what_was_added_and_not_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
