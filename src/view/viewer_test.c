/* SPDX-License-Identifier: Apache-2.0 */
/* viewer_test.c: what is masked, for whom, wherever it occurs. */
#include "view/viewer.h"

#include "base/test.h"
#include "recover/masked.h"

static struct arena arena;

static int fresh(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

static const char *const configured[] = {"password"};
static const struct text_list mask = {1, (const char **)configured};

static const struct watch *seen_by(enum role role)
{
	static const char *const masked[] = {"email"}, *const shown[] = {"title", "email"};
	static struct watch w;
	w = (struct watch){.owner = {.text = "t.worker"},
	                   .mask = {1, (const char **)masked},
	                   .show = {2, (const char **)shown}};
	return viewer_watch(&w, &mask, role, &arena);
}

static const char *text_seen(enum role role, const char *name, const char *text)
{
	struct buf out = BUF_INIT;
	masked_text(seen_by(role), NULL, name, text, &out);
	const char *copy = arena_strdup(&arena, buf_text(&out));
	buf_release(&out);
	return copy;
}

static void a_column_that_the_watch_masks_is_masked_for_all(void **state)
{
	(void)state;
	assert_string_equal(text_seen(ROLE_ADMIN, "email", "anna@example"), "****xample");
	assert_string_equal(text_seen(ROLE_VIEWER, "email", "anna@example"), "****xample");
}

static void owners_and_configured_members_are_masked_for_viewers(void **state)
{
	(void)state;
	assert_string_equal(text_seen(ROLE_OPERATOR, "worker", "host7-4711"), "host7-4711");
	assert_string_equal(text_seen(ROLE_VIEWER, "worker", "host7-4711"), "****7-4711");
	assert_string_equal(text_seen(ROLE_VIEWER, "password", "short"), "****");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "password"), "password");
}

static void json_in_a_text_is_masked_however_deep(void **state)
{
	(void)state;
	assert_string_equal(text_seen(ROLE_VIEWER, "title", " [{\"a\": {\"password\": \"hunter2\"}}]"),
	                    "[{\"a\":{\"password\":\"****unter2\"}}]");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"a\":\"{\\\"password\\\":1234567}\"}"),
	                    "{\"a\":\"{\\\"password\\\":\\\"****234567\\\"}\"}");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"p\\u0061ssword\": [1, 2]}"),
	                    "{\"password\":\"****\"}");
}

static void what_has_nothing_to_mask_is_left_as_it_is(void **state)
{
	(void)state;
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"n\": 1.50, \"word\": \"password\"}"),
	                    "{\"n\": 1.50, \"word\": \"password\"}");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "[ERROR] it broke"), "[ERROR] it broke");
}

/* A number that cannot be read must not reveal what is beside it. */
static void json_that_cannot_be_read_is_not_shown_in_part(void **state)
{
	(void)state;
	assert_string_equal(
		text_seen(ROLE_VIEWER, "title", "{\"password\":\"x\",\"n\":99999999999999999999999}"),
		"****");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"password\":\"x\"} and more"),
	                    "{\"password\":\"****\"} and more");
	/* Whatever its names are: they may be written with escapes. */
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"n\":99999999999999999999999}"), "****");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "{\"p\\u0061ssword\": \"x\""), "****");
	assert_string_equal(text_seen(ROLE_ADMIN, "title", "it said [\"a\", nonsense"), "it said ****");
}

/* Free text has no names: what follows a masked name is masked, and JSON in the text. */
static void words_are_masked_too(void **state)
{
	(void)state;
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "refused: {\"password\":\"hunter2\"} (2)"),
	                    "refused: {\"password\":\"****unter2\"} (2)");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "Key (password)=(hunter2) is there"),
	                    "Key (password)= ****");
	assert_string_equal(text_seen(ROLE_VIEWER, "title", "a password is short"),
	                    "a password is short");
}

static void known_values_are_masked_in_words_as_words(void **state)
{
	const struct watch *w = seen_by(ROLE_VIEWER);
	struct secrets secrets = {0};
	struct buf out = BUF_INIT;
	(void)state;
	secrets_owner(&secrets, w, "host7-4711");
	secrets_add(&secrets, w, "title", "shown to all");
	secrets_document(&secrets, w, "{\"a\": [{\"password\": \"hunter2\"}]}");
	masked_free_text(w, &secrets, "host7-4711 (not host7-47110) wrote hunter2, shown to all", &out);
	assert_string_equal(buf_text(&out),
	                    "****7-4711 (not host7-47110) wrote ****unter2, shown to all");
	secrets_release(&secrets);
	buf_release(&out);
}

static void a_document_is_exact_or_a_string(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;
	masked_exactly(seen_by(ROLE_ADMIN), NULL, "payload", "{\"n\": 1.50}", &out);
	masked_exactly(seen_by(ROLE_ADMIN), NULL, "payload", NULL, &out);
	masked_exactly(seen_by(ROLE_ADMIN), NULL, "payload", "not JSON", &out);
	masked_exactly(seen_by(ROLE_ADMIN), NULL, "email", "\"anna@example\"", &out);
	assert_string_equal(buf_text(&out), "{\"n\": 1.50}null\"not JSON\"\"****ample\\\"\"");
	buf_release(&out);
}

static void who_sees_all_gets_the_watch_itself(void **state)
{
	static const struct watch w;
	(void)state;
	assert_ptr_equal(viewer_watch(&w, &mask, ROLE_OPERATOR, &arena), &w);
	assert_null(viewer_watch(NULL, &mask, ROLE_ADMIN, &arena));
}

static void a_watch_that_is_gone_is_masked_for_viewers_too(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;
	masked_document(viewer_watch(NULL, &mask, ROLE_VIEWER, &arena), NULL,
	                "{\"owner\": \"host7-4711\", \"password\": null, \"n\": 1}", &out);
	assert_string_equal(buf_text(&out), "{\"owner\":\"****7-4711\",\"password\":null,\"n\":1}");
	buf_release(&out);
}

static bool hidden(enum role role, enum term_what what, enum term_op op, int column)
{
	const struct term t = {.what = what, .op = op, .column = column, .value = "x"};
	return viewer_hides(seen_by(ROLE_ADMIN), &mask, role, &t);
}

static void what_is_masked_cannot_be_searched(void **state)
{
	(void)state;
	assert_true(hidden(ROLE_VIEWER, TERM_OWNER, TERM_IS, 0));
	assert_true(hidden(ROLE_VIEWER, TERM_TEXT, TERM_HAS, 0));
	assert_true(hidden(ROLE_VIEWER, TERM_COLUMN, TERM_HAS, 0));
	assert_true(hidden(ROLE_VIEWER, TERM_COLUMN, TERM_IS, 1));
	/* A column that is not masked may repeat a value that is. */
	assert_true(hidden(ROLE_VIEWER, TERM_COLUMN, TERM_IS, 0));
	assert_false(hidden(ROLE_VIEWER, TERM_STATE, TERM_IS, 0));
	assert_false(hidden(ROLE_OPERATOR, TERM_OWNER, TERM_IS, 0));
	assert_false(hidden(ROLE_OPERATOR, TERM_COLUMN, TERM_IS, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_column_that_the_watch_masks_is_masked_for_all, fresh),
		cmocka_unit_test_setup(owners_and_configured_members_are_masked_for_viewers, fresh),
		cmocka_unit_test_setup(json_in_a_text_is_masked_however_deep, fresh),
		cmocka_unit_test_setup(what_has_nothing_to_mask_is_left_as_it_is, fresh),
		cmocka_unit_test_setup(json_that_cannot_be_read_is_not_shown_in_part, fresh),
		cmocka_unit_test_setup(words_are_masked_too, fresh),
		cmocka_unit_test_setup(known_values_are_masked_in_words_as_words, fresh),
		cmocka_unit_test_setup(a_document_is_exact_or_a_string, fresh),
		cmocka_unit_test_setup(who_sees_all_gets_the_watch_itself, fresh),
		cmocka_unit_test_setup(a_watch_that_is_gone_is_masked_for_viewers_too, fresh),
		cmocka_unit_test_setup(what_is_masked_cannot_be_searched, fresh),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_release(&arena);
	return failed;
}
