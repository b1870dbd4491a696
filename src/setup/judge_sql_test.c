/* SPDX-License-Identifier: Apache-2.0
 * judge_sql_test.c: what the database writes of a job is what evidence.c
 * and decide.c would have written.
 */
#include "setup/install_sql.h"

#include "base/clock.h"
#include "recover/evidence.h"
#include "setup/judge_sql.h"
#include "store/store_test.h"

#include <inttypes.h>
#include <string.h>

static void assert_reason(struct store *s, const struct watch *w, const struct facts *f,
                          const struct judgement *j)
{
	struct buf sql = BUF_INIT, wanted = BUF_INIT;
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct failure failure = {0};
	char measured[24];
	snprintf(measured, sizeof measured, "%" PRId64, j->measured_us);
	struct store_param params[] = {P_TEXT(j->measured ? measured : NULL), P_TEXT(f->owner),
	                               P_TEXT(f->kind), P_TEXT(verdict_names[j->verdict])};
	reason_text(w, w->reason, f, j, &wanted);
	buf_add(&sql, "SELECT ");
	sql_reason(w, &sql);
	buf_add(&sql,
	        " FROM (SELECT $1::bigint AS measured_us, $2::text AS owner, $3::text AS kind, "
	        "$4::text AS verdict, 'requeue' AS remedy, 'rule' AS cause, 1 AS crashes_now) AS f");
	if (store_exec(s, buf_text(&sql), params, 4, &a, &rows, &failure))
		fail_msg("%s", failure.what);
	assert_string_equal(row_text(&rows, 0, 0), buf_text(&wanted));
	arena_release(&a);
	buf_release(&sql);
	buf_release(&wanted);
}

static void a_reason_says_every_duration_as_the_scan_does(void **state)
{
	(void)state;
	need_env("DEFIB_TEST_PG");
	static const int64_t units[] = {
		1, 1000, US_PER_S, 60 * US_PER_S, 3600 * US_PER_S, 86400 * US_PER_S};
	static const int64_t times[] = {1, 2, 59, 61, 1000, 1441};
	struct store *s = open_plain();
	const struct watch w = {.reason = "silent for {silent}"};
	const struct facts f = {0};
	struct judgement j = {.verdict = VERDICT_SILENT, .measured = true};
	assert_reason(s, &w, &f, &j);
	for (size_t u = 0; u < sizeof units / sizeof *units; u++)
		for (size_t t = 0; t < sizeof times / sizeof *times; t++)
			for (int64_t beside = -1; beside <= 1; beside++) {
				j.measured_us = units[u] * times[t] + beside;
				assert_reason(s, &w, &f, &j);
			}
	store_close(s);
}

static void a_reason_fills_in_what_is_known_and_leaves_the_rest_as_written(void **state)
{
	(void)state;
	need_env("DEFIB_TEST_PG");
	static const char *const reasons[] = {"", "plain", "{verdict}{silent}{owner}{kind}",
	                                      "it's {what} {owner {kind}} 100% \\ $1 $$"};
	struct store *s = open_plain();
	const struct facts known = {.owner = "w'1", .kind = "{verdict}"}, unknown = {0};
	const struct judgement measured = {
		.verdict = VERDICT_OVERDUE, .measured = true, .measured_us = 5};
	const struct judgement orphan = {.verdict = VERDICT_ORPHAN};
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		const struct watch w = {.reason = reasons[i]};
		assert_reason(s, &w, &known, &measured);
		assert_reason(s, &w, &unknown, &orphan);
	}
	store_close(s);
}

static void a_reason_masks_the_owner_as_the_scan_does(void **state)
{
	(void)state;
	need_env("DEFIB_TEST_PG");
	struct store *s = open_plain();
	const char *masked[] = {"worker"};
	const struct judgement j = {.verdict = VERDICT_ORPHAN};
	const char *const owners[] = {"host-7/secret-name", "short", NULL};
	for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
		const struct watch w = {.reason = "left by {owner}",
		                        .owner = {.text = "t.worker"},
		                        .mask = {.items = masked, .n = 1}};
		const struct facts f = {.owner = owners[i]};
		assert_reason(s, &w, &f, &j);
	}
	store_close(s);
}

static void a_retry_waits_as_long_as_by_the_scan(void **state)
{
	(void)state;
	need_env("DEFIB_TEST_PG");
	static const struct backoff all[] = {
		{.base_us = 60 * US_PER_S, .cap_us = 3600 * US_PER_S, .factor = 2},
		{.base_us = 1, .cap_us = 86400 * US_PER_S, .factor = 1.5},
		{.base_us = 5 * US_PER_S, .cap_us = US_PER_S, .factor = 3},
		{.base_us = 5 * US_PER_S, .cap_us = 9 * US_PER_S, .factor = 1},
		{.base_us = 5 * US_PER_S, .cap_us = 9 * US_PER_S, .factor = 0.1},
	};
	static const int64_t attempts[] = {-3, 0, 1, 2, 5, 7, 40, 100000, INT64_MAX};
	struct store *s = open_plain();
	for (size_t b = 0; b < sizeof all / sizeof *all; b++)
		for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
			struct buf sql = BUF_INIT;
			buf_add(&sql, "SELECT ");
			sql_retry_us(&all[b], &sql);
			buf_addf(&sql,
			         " FROM (SELECT 'retry' AS remedy, 0 AS now_us, %" PRId64 " AS attempts) f",
			         attempts[i]);
			int64_t wanted = backoff_us(&all[b], attempts[i], 0), got = number(s, buf_text(&sql));
			/* power() may round its last bit another way than repeated multiplication. */
			assert_in_range(got - wanted + 1, 0, 2);
			buf_release(&sql);
		}
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reason_says_every_duration_as_the_scan_does),
		cmocka_unit_test(a_reason_fills_in_what_is_known_and_leaves_the_rest_as_written),
		cmocka_unit_test(a_reason_masks_the_owner_as_the_scan_does),
		cmocka_unit_test(a_retry_waits_as_long_as_by_the_scan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
