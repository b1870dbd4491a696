/* SPDX-License-Identifier: Apache-2.0 */
/* program_env_test.c: a program gets the named variables, and no others of ours. */
#include "base/program_env.h"

#include "base/test.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena = ARENA_INIT;

static const char *value_of(const struct program_env *e, const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name);
	for (char **entry = e->entries; *entry; entry++) {
		if (strncmp(*entry, name, n) == 0 && (*entry)[n] == '=') {
			assert_null(found); /* once */
			found = *entry + n + 1;
		}
	}
	return found;
}

static void secrets_of_ours_stay_with_us(void **state)
{
	static const char *const secrets[] = {"DEFIB_DB",    "DATABASE_URL",  "PGPASSWORD",   "PGHOST",
	                                      "DEFIB_TOKEN", "PAGERDUTY_KEY", "NOTIFY_SOCKET"};
	struct program_env e;
	(void)state;
	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
		setenv(secrets[i], "secret", 1);
	program_env_init(&e, &arena);
	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
		assert_null(value_of(&e, secrets[i]));
}

static void what_a_program_needs_to_run_is_there(void **state)
{
	struct program_env e;
	(void)state;
	setenv("PATH", "/usr/bin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("TZ", "Europe/Vienna", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	unsetenv("TMPDIR");
	program_env_init(&e, &arena);
	assert_string_equal(value_of(&e, "PATH"), "/usr/bin:/bin");
	assert_string_equal(value_of(&e, "HOME"), "/root");
	assert_string_equal(value_of(&e, "TZ"), "Europe/Vienna");
	assert_string_equal(value_of(&e, "LC_ALL"), "C.UTF-8");
	assert_null(value_of(&e, "TMPDIR"));
}

static void what_is_named_is_passed_or_set(void **state)
{
	static const char *const named[] = {"DATABASE_URL", "MODE=fast=er", "NOT_THERE", "HOME=/srv",
	                                    NULL};
	struct program_env e;
	(void)state;
	setenv("DATABASE_URL", "postgres://u:p@h/d", 1);
	unsetenv("NOT_THERE");
	program_env_init(&e, &arena);
	program_env_pass(&e, named);
	assert_string_equal(value_of(&e, "DATABASE_URL"), "postgres://u:p@h/d");
	assert_string_equal(value_of(&e, "MODE"), "fast=er");
	assert_string_equal(value_of(&e, "HOME"), "/srv");
	assert_null(value_of(&e, "NOT_THERE"));
}

static void a_long_list_is_kept_whole(void **state)
{
	struct program_env e;
	(void)state;
	program_env_init(&e, &arena);
	int before = e.n;
	for (int i = 0; i < 200; i++)
		program_env_put(&e, arena_printf(&arena, "N%d=%d", i, i));
	assert_int_equal(e.n, before + 200);
	assert_null(e.entries[e.n]);
	assert_string_equal(value_of(&e, "N0"), "0");
	assert_string_equal(value_of(&e, "N199"), "199");
}

static void names_are_told_from_other_text(void **state)
{
	(void)state;
	assert_true(program_env_entry_ok("DATABASE_URL"));
	assert_true(program_env_entry_ok("_x1=a b$c"));
	assert_true(program_env_entry_ok("EMPTY="));
	assert_false(program_env_entry_ok(""));
	assert_false(program_env_entry_ok("=x"));
	assert_false(program_env_entry_ok("1ST"));
	assert_false(program_env_entry_ok("A B"));
	assert_false(program_env_entry_ok("PG*"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_of_ours_stay_with_us),
		cmocka_unit_test(what_a_program_needs_to_run_is_there),
		cmocka_unit_test(what_is_named_is_passed_or_set),
		cmocka_unit_test(a_long_list_is_kept_whole),
		cmocka_unit_test(names_are_told_from_other_text),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_release(&arena);
	return failed;
}
