/* SPDX-License-Identifier: Apache-2.0 */
/* masked_test.c: free text loses what is masked, and nothing else. */
#include "recover/masked.h"

#include "base/test.h"

#include <string.h>

static const char *const columns[] = {"email"};
static const struct watch masking = {.name = "w", .mask = {1, (const char **)columns}};

static void text_without_secrets_stays_as_it_is(void **state)
{
	static const char *const texts[] = {
		"",
		"x",
		"it failed at 3 [x] {y} (z), \"w\": no reply",
		"no email was given",
		"the list [1, 2] and {\"n\": 1} are short",
		"größe {",
	};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		AUTO_BUF out = BUF_INIT;
		masked_free_text(&masking, NULL, texts[i], &out);
		assert_string_equal(buf_text(&out), texts[i]);
	}
}

static void text_around_a_secret_stays(void **state)
{
	static const struct {
		const char *text, *before, *after;
	} rows[] = {
		{"refused: email=bob@example.org is taken", "refused: ", ""},
		{"sent {\"email\": \"bob@example.org\", \"n\": 1} twice", "sent {", "} twice"},
		{"sent [{\"email\": \"bob@example.org\"}] twice", "sent [", "] twice"},
		{"cut off {\"email\": \"bob@example.org", "cut off ", ""},
		{"mail to bob@example.org bounced", "mail to ", " bounced"},
	};
	AUTO_SECRETS s = {0};
	(void)state;
	secrets_add(&s, &masking, "email", "bob@example.org");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		AUTO_BUF out = BUF_INIT;
		masked_free_text(&masking, &s, rows[i].text, &out);
		const char *shown = buf_text(&out);
		size_t n = strlen(shown), after = strlen(rows[i].after);
		if (strstr(shown, "bob") || !text_starts(shown, rows[i].before) || n < after ||
		    strcmp(shown + n - after, rows[i].after) != 0)
			fail_msg("%s: %s", rows[i].text, shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_without_secrets_stays_as_it_is),
		cmocka_unit_test(text_around_a_secret_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
