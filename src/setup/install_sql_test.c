/* SPDX-License-Identifier: Apache-2.0
 * install_sql_test.c: which watches a function can recover, and its name.
 * tests/e2e/setup/test_install*.py show with a server what it does.
 */
#include "setup/install_sql.h"

#include "base/clock.h"
#include "base/test.h"

#include <string.h>

static struct watch by_age(void)
{
	struct watch w = {.name = "jobs", .alive_at = {.text = "beat"}};
	w.actions[REMEDY_REQUEUE].form = ACTION_SET;
	return w;
}

static void assert_refused(const struct watch *w, const char *because)
{
	struct failure f = {0};
	assert_int_equal(install_refusal(w, &f), DEFIB_REFUSED);
	if (!strstr(f.what, because))
		fail_msg("not because of %s: %s", because, f.what);
	assert_true(f.next[0] != '\0');
}

static void assert_taken(const struct watch *w)
{
	struct failure f = {0};
	assert_int_equal(install_refusal(w, &f), DEFIB_OK);
}

static void what_age_alone_judges_is_taken(void **state)
{
	(void)state;
	struct watch w = by_age();
	assert_taken(&w);
}

static void what_needs_more_than_age_is_refused(void **state)
{
	(void)state;
	struct watch w = by_age();
	w.beat_us = US_PER_S;
	assert_refused(&w, "beat");
	w = by_age();
	w.owner_alive.text = "true";
	assert_refused(&w, "owner_alive");
}

static void a_remedy_counts_only_where_a_rule_can_choose_it(void **state)
{
	(void)state;
	struct rule rules[] = {{.remedy = REMEDY_REQUEUE}};
	struct watch w = by_age();
	w.actions[REMEDY_ROLLBACK].form = ACTION_SET;
	w.actions[REMEDY_RETRY].form = ACTION_SET;
	w.actions[ACT_THEN].form = ACTION_SET;
	assert_taken(&w);
	w.rules = rules;
	w.nrules = 1;
	assert_taken(&w);
	rules[0].remedy = REMEDY_ROLLBACK;
	assert_refused(&w, "rollback");
	rules[0].remedy = REMEDY_RETRY;
	assert_refused(&w, "then:");
	w.actions[ACT_THEN].form = ACTION_NONE;
	assert_taken(&w);
}

static void the_longest_name_that_postgresql_keeps_whole_is_taken(void **state)
{
	(void)state;
	char name[57] = "";
	struct watch w = by_age();
	w.name = name;
	memset(name, 'a', 55);
	assert_taken(&w);
	memset(name, 'a', 56);
	assert_refused(&w, "too long");
}

static void a_name_is_quoted(void **state)
{
	(void)state;
	struct buf out = BUF_INIT;
	struct watch w = by_age();
	w.name = "a\"b c";
	install_name(&w, &out);
	assert_string_equal(buf_text(&out), "defib.\"recover_a\"\"b c\"");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_age_alone_judges_is_taken),
		cmocka_unit_test(what_needs_more_than_age_is_refused),
		cmocka_unit_test(a_remedy_counts_only_where_a_rule_can_choose_it),
		cmocka_unit_test(the_longest_name_that_postgresql_keeps_whole_is_taken),
		cmocka_unit_test(a_name_is_quoted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
