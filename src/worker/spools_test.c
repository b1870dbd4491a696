/* SPDX-License-Identifier: Apache-2.0 */
/* spools_test.c: one spool per source, and results that are set aside. */
#include "store/spool_test.h"

#include "worker/spool_results.h"
#include "worker/spools.h"

#include <sys/stat.h>

static struct spools *spools;
static struct arena arena;

static int begin(void **state)
{
	spools = NULL;
	return setup(state);
}

static int end(void **state)
{
	spools_close(spools);
	arena_release(&arena);
	return teardown(state);
}

static void open_bounded(int64_t max_bytes)
{
	struct failure f = {0};
	spools_close(spools);
	if (spools_open(folder, max_bytes, &spools, &f))
		fail_msg("%s", f.what);
}

static void open_again(void)
{
	open_bounded(0);
}

static struct spool_result result(const char *source, const char *key)
{
	return (struct spool_result){
		.source = source,
		.worker = 7,
		.end = {.key = key, .epoch = 3, .as = SETTLE_DONE, .result = "{\"n\":1}", .delay_ms = -1}};
}

static void put(const char *source, const char *key, const char *why)
{
	struct spool_result r = result(source, key);
	assert_int_equal(spools_append_many(spools, source, &r, 1, why, NULL), DEFIB_OK);
}

/* Keys of a list, in order. */
static void assert_list(const char *source, enum spools_list list, const char *keys)
{
	struct spools_record all[16];
	struct buf text = BUF_INIT;
	int n = spools_peek_many(spools, source, list, all, 16, &arena);
	for (int i = 0; i < n; i++) {
		assert_true(all[i].whole);
		assert_string_equal(all[i].result.source, source);
		buf_add(&text, all[i].result.end.key);
	}
	assert_string_equal(buf_text(&text), keys);
	buf_release(&text);
}

static void take(const char *source, enum spools_list list, int n, const char *const *refused)
{
	struct spools_record all[16];
	assert_true(spools_peek_many(spools, source, list, all, n, &arena) == n);
	assert_int_equal(spools_take_many(spools, source, list, all, n, refused, NULL), DEFIB_OK);
}

/* ---- by source ---- */

static void each_source_has_a_spool_of_its_own(void **state)
{
	(void)state;
	open_again();
	put("mail", "a", NULL);
	put("rooms", "b", NULL);
	put("mail", "c", NULL);
	take("rooms", SPOOLS_WAITING, 1, NULL);
	open_again();
	assert_list("mail", SPOOLS_WAITING, "ac");
	assert_list("rooms", SPOOLS_WAITING, "");
	assert_int_equal(spools_waiting(spools, "mail"), 2);
	assert_string_equal(spools_source(spools, 0), "mail");
	assert_null(spools_source(spools, 1));
}

static void a_result_comes_back_as_it_was(void **state)
{
	(void)state;
	struct spools_record got;
	struct spool_result r = {
		.source = "mail",
		.database = "5e4f",
		.worker = 12345678901,
		.token = "t-1",
		.end = {.key = "[1,\"x\"]",
	            .epoch = 9,
	            .as = SETTLE_FAILED,
	            .error = "it\nbroke: \"\xc3\xa4\"",
	            .delay_ms = 250,
	            .step = {.side = STEP_SIDE_UNDO, .name = "pay", .more = true}}};
	open_again();
	assert_int_equal(spools_append_many(spools, "mail", &r, 1, "no\nright", NULL), DEFIB_OK);
	open_again();
	assert_int_equal(spools_peek_many(spools, "mail", SPOOLS_ASIDE, &got, 1, &arena), 1);
	assert_true(got.whole);
	assert_string_equal(got.why, "no right");
	assert_string_equal(got.result.database, "5e4f");
	assert_true(got.result.worker == 12345678901);
	assert_string_equal(got.result.token, "t-1");
	assert_string_equal(got.result.end.key, r.end.key);
	assert_int_equal(got.result.end.epoch, 9);
	assert_int_equal(got.result.end.as, SETTLE_FAILED);
	assert_string_equal(got.result.end.error, r.end.error);
	assert_null(got.result.end.result);
	assert_int_equal(got.result.end.delay_ms, 250);
	assert_int_equal(got.result.end.step.side, STEP_SIDE_UNDO);
	assert_string_equal(got.result.end.step.name, "pay");
	assert_true(got.result.end.step.more);
}

static void any_name_is_safe_and_itself_again(void **state)
{
	(void)state;
	char long_a[400], long_b[400];
	memset(long_a, 'x', sizeof long_a);
	memset(long_b, 'x', sizeof long_b);
	long_a[398] = 'a'; /* they differ beyond the length of a directory's name */
	long_b[398] = 'b';
	long_a[399] = long_b[399] = '\0';
	const char *names[] = {"../../etc",
	                       ".",
	                       "..",
	                       "a/b",
	                       "public.jobs",
	                       "j\xc3\xb6"
	                       "bs",
	                       "a%2Fb",
	                       "",
	                       " ",
	                       "A",
	                       "a",
	                       long_a,
	                       long_b};
	int n = (int)(sizeof names / sizeof *names);
	open_again();
	for (int i = 0; i < n; i++) {
		char key[8];
		snprintf(key, sizeof key, "%d", i);
		put(names[i], key, NULL);
	}
	open_again();
	for (int i = 0; i < n; i++) {
		struct spools_record got[2];
		assert_int_equal(spools_peek_many(spools, names[i], SPOOLS_WAITING, got, 2, &arena), 1);
		assert_int_equal(strtol(got[0].result.end.key, NULL, 10), i);
	}
}

static void one_sync_keeps_many(void **state)
{
	(void)state;
	struct spool_result all[100];
	char keys[100][8];
	open_again();
	put("mail", "first", NULL);
	for (int i = 0; i < 100; i++) {
		snprintf(keys[i], sizeof keys[i], "%d", i);
		all[i] = result("mail", keys[i]);
	}
	plan.syncs = 0;
	assert_int_equal(spools_append_many(spools, "mail", all, 100, NULL, NULL), DEFIB_OK);
	assert_int_equal(plan.syncs, 1);
	assert_int_equal(spools_waiting(spools, "mail"), 101);
}

static void the_folder_has_one_owner(void **state)
{
	(void)state;
	struct spools *second;
	struct failure f = {0};
	open_again();
	assert_int_equal(spools_open(folder, 0, &second, &f), DEFIB_REFUSED);
	assert_null(second);
	assert_non_null(strstr(f.next, "name of its own"));
}

static void the_bound_is_for_all_sources_together(void **state)
{
	(void)state;
	struct failure f = {0};
	struct spool_result r = result("rooms", "b");
	open_bounded(200);
	put("mail", "a", NULL);
	assert_int_equal(spools_append_many(spools, "rooms", &r, 1, NULL, &f), DEFIB_FULL);
	take("mail", SPOOLS_WAITING, 1, NULL);
	assert_int_equal(spools_append_many(spools, "rooms", &r, 1, NULL, &f), DEFIB_OK);
}

/* ---- aside ---- */

static void what_is_refused_is_set_aside_and_the_rest_is_taken(void **state)
{
	(void)state;
	static const char *const refused[] = {NULL, "not yours", NULL};
	struct spools_totals t;
	open_again();
	for (const char *key = "a\0b\0c\0d\0"; *key; key += 2)
		put("mail", key, NULL);
	take("mail", SPOOLS_WAITING, 3, refused);
	open_again();
	assert_list("mail", SPOOLS_WAITING, "d");
	assert_list("mail", SPOOLS_ASIDE, "b");
	spools_totals(spools, &t);
	assert_int_equal(t.waiting, 1);
	assert_int_equal(t.set_aside, 1);
	assert_string_equal(t.why, "not yours");
	assert_string_equal(t.why_source, "mail");
}

static void what_is_refused_again_goes_behind_the_others(void **state)
{
	(void)state;
	static const char *const refused[] = {"still not", NULL};
	struct spools_totals t;
	open_again();
	put("mail", "a", "not yours");
	put("mail", "b", "nor this");
	put("mail", "c", "nor that");
	take("mail", SPOOLS_ASIDE, 2, refused);
	assert_list("mail", SPOOLS_ASIDE, "ca");
	spools_totals(spools, &t);
	assert_string_equal(t.why, "nor that");
	take("mail", SPOOLS_ASIDE, 2, NULL);
	open_again();
	spools_totals(spools, &t);
	assert_int_equal(t.set_aside, 0);
	assert_null(t.why);
}

static void what_is_kept_is_known_by_its_claim(void **state)
{
	(void)state;
	open_again();
	put("mail", "a", NULL);
	put("mail", "b", "not yours");
	for (int i = 0; i < 2; i++) {
		assert_true(spools_holds(spools, "mail", 7, "a", 3));
		assert_true(spools_holds(spools, "mail", 7, "b", 3));
		assert_false(spools_holds(spools, "mail", 7, "a", 4));
		assert_false(spools_holds(spools, "mail", 8, "a", 3));
		assert_false(spools_holds(spools, "rooms", 7, "a", 3));
		open_again();
	}
	take("mail", SPOOLS_WAITING, 1, NULL);
	assert_false(spools_holds(spools, "mail", 7, "a", 3));
}

static void when_the_aside_list_cannot_be_written_nothing_moves(void **state)
{
	(void)state;
	static const char *const refused[] = {"not yours"};
	struct spools_record one;
	open_again();
	put("mail", "x", "so that it is there");
	put("mail", "a", NULL);
	assert_int_equal(spools_peek_many(spools, "mail", SPOOLS_WAITING, &one, 1, &arena), 1);
	plan = (typeof(plan)){.kind = FAULT_ERRNO, .nth = 1, .code = EIO};
	assert_int_equal(spools_take_many(spools, "mail", SPOOLS_WAITING, &one, 1, refused, NULL),
	                 DEFIB_IO);
	assert_list("mail", SPOOLS_WAITING, "a");
	assert_list("mail", SPOOLS_ASIDE, "x");
}

/* ---- what other processes left ---- */

static void what_cannot_be_understood_is_shown_and_can_be_set_aside(void **state)
{
	(void)state;
	static const char *const refused[] = {"cannot be read"};
	struct spools_record got;
	open_again();
	put("mail", "a", NULL);
	spools_close(spools);
	spools = NULL;
	struct spool *raw = opened();
	const struct spool_record eaten = {
		.id = "eaten", .database = "", .bytes = "{\"as\":\"eaten\"}", .n = 14};
	assert_int_equal(spool_append(raw, "mail", &eaten, 1, NULL), DEFIB_OK);
	spool_close(raw);
	open_again();
	take("mail", SPOOLS_WAITING, 1, NULL);
	assert_int_equal(spools_peek_many(spools, "mail", SPOOLS_WAITING, &got, 1, &arena), 1);
	assert_false(got.whole);
	assert_string_equal(got.result.end.key, "");
	take("mail", SPOOLS_WAITING, 1, refused);
	open_again();
	put("mail", "b", NULL);
	assert_int_equal(spools_aside(spools, "mail"), 1);
	assert_list("mail", SPOOLS_WAITING, "b");
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_source_has_a_spool_of_its_own),
		TEST(a_result_comes_back_as_it_was),
		TEST(any_name_is_safe_and_itself_again),
		TEST(one_sync_keeps_many),
		TEST(the_folder_has_one_owner),
		TEST(the_bound_is_for_all_sources_together),
		TEST(what_is_refused_is_set_aside_and_the_rest_is_taken),
		TEST(what_is_refused_again_goes_behind_the_others),
		TEST(what_is_kept_is_known_by_its_claim),
		TEST(when_the_aside_list_cannot_be_written_nothing_moves),
		TEST(what_cannot_be_understood_is_shown_and_can_be_set_aside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
