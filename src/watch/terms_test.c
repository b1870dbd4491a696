/* SPDX-License-Identifier: Apache-2.0
 * terms_test.c: what may follow --where, what it means, and the answer to a typo.
 */
#include "watch/terms.h"

#include "base/clock.h"
#include "watch/watch_test.h"

#define PLAIN                                                                                      \
	"table: jobs\nkey: id\nrunning: status = 'running'\nalive_at: updated_at\nstuck_after: 1h\n"   \
	"requeue: status = 'queued'\n"
#define FULL PLAIN "kind: type\nowner: worker\nshow: [url, domain]\nstates: {6: BUSY, 3: FREE}\n"

static defib_err parse(struct reading *r, const char *keys, const char *text, struct term *out,
                       bool *unknown, struct failure *f)
{
	reading_open_watch(r, POSTGRES_URL, keys);
	return term_parse(only_watch(r), text, &r->arena, out, unknown, f);
}

static void good(const char *keys, const char *text, enum term_what what, enum term_op op,
                 const char *value)
{
	struct reading r;
	struct term t;
	struct failure f = {0};
	if (parse(&r, keys, text, &t, NULL, &f))
		fail_msg("%s: %s", text, f.what);
	assert_int_equal(t.what, what);
	assert_int_equal(t.op, op);
	if (value)
		assert_string_equal(t.value, value);
	reading_release(&r);
}

/* Rejected, with these words in the message; `other`: another watch may know it. */
static void refused(const char *keys, const char *text, const char *words, bool other)
{
	struct reading r;
	struct term t;
	struct failure f = {0};
	bool unknown = !other;
	assert_int_equal(parse(&r, keys, text, &t, &unknown, &f), DEFIB_USAGE);
	if (!strstr(f.what, words) && !strstr(f.next, words))
		fail_msg("%s: no \"%s\" in: %s; %s", text, words, f.what, f.next);
	assert_int_equal(unknown, other);
	reading_release(&r);
}

static void words_take_their_operators(void **state)
{
	(void)state;
	good(FULL, "state=BUSY", TERM_STATE, TERM_IS, "BUSY");
	good(FULL, "state!=6", TERM_STATE, TERM_IS_NOT, "6");
	good(FULL, "kind~scr", TERM_KIND, TERM_HAS, "scr");
	good(FULL, "owner = host 7", TERM_OWNER, TERM_IS, "host 7");
	good(FULL, "url=https://x/?a=b", TERM_COLUMN, TERM_IS, "https://x/?a=b");
	good(FULL, "text~a=b", TERM_TEXT, TERM_HAS, "a=b");
	good(FULL, "any~a=b", TERM_ANY, TERM_HAS, "a=b");
	good(PLAIN, "any~x", TERM_ANY, TERM_HAS, "x");
	good(FULL, "age>10m", TERM_AGE, TERM_OVER, NULL);
	good(FULL, "verdict!=dead", TERM_VERDICT, TERM_IS_NOT, NULL);
}

static void some_words_stand_alone(void **state)
{
	(void)state;
	good(PLAIN, "stuck", TERM_STUCK, TERM_IS, NULL);
	good(PLAIN, "running", TERM_RUNNING, TERM_IS, NULL);
	good(PLAIN, "held", TERM_HELD, TERM_IS, NULL);
	good(PLAIN, "recovered", TERM_RECOVERED, TERM_IS, NULL);
	refused(PLAIN, "stuck=yes", "write stuck", false);
	refused(PLAIN, "state", "write state=NAME", false);
}

static void values_are_read(void **state)
{
	struct reading r;
	struct term t;
	struct failure f = {0};
	(void)state;
	assert_int_equal(parse(&r, FULL, "age<1h30m", &t, NULL, &f), DEFIB_OK);
	assert_int_equal(t.us, 5400 * US_PER_S);
	reading_release(&r);
	assert_int_equal(parse(&r, FULL, "verdict=overdue", &t, NULL, &f), DEFIB_OK);
	assert_int_equal(t.verdict, VERDICT_OVERDUE);
	reading_release(&r);
	assert_int_equal(parse(&r, FULL, "domain~x", &t, NULL, &f), DEFIB_OK);
	assert_int_equal(t.column, 1);
	reading_release(&r);
}

static void slips_get_the_nearest_word(void **state)
{
	(void)state;
	refused(FULL, "statt=x", "did you mean \"state\"?", true);
	refused(FULL, "domian=x", "did you mean \"domain\"?", true);
	refused(FULL, "verdict=silnt", "did you mean \"silent\"?", false);
	refused(FULL, "verdict=none", "a verdict is dead, silent", false);
	refused(FULL, "age>10", "a duration such as", false);
	refused(FULL, "age=10m", "write age>10m", false);
	refused(FULL, "text=x", "write text~words", false);
	refused(FULL, "id) OR (1=1", "has no \"id) OR (1\"", true);
	refused(FULL, "", "has no \"\"", true);
	refused(FULL, "=x", "has no \"\"", true);
	refused(FULL, " =x", "has no \"\"", true);
	refused(FULL, "  =x", "has no \"\"", true);
}

static void a_watch_knows_only_what_it_says(void **state)
{
	(void)state;
	refused(PLAIN, "kind=x", "add kind: to the watch", true);
	refused(PLAIN, "owner=x", "add owner: to the watch", true);
	refused(PLAIN, "text~x", "add text: to the watch", true);
	good(PLAIN "text: payload\n", "text~x", TERM_TEXT, TERM_HAS, "x");
}

static void codes_have_names(void **state)
{
	struct reading r;
	(void)state;
	reading_open_watch(&r, POSTGRES_URL, FULL);
	assert_string_equal(state_named(only_watch(&r), "6"), "BUSY");
	assert_null(state_named(only_watch(&r), "7"));
	assert_null(state_named(only_watch(&r), NULL));
	reading_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_take_their_operators),
		cmocka_unit_test(some_words_stand_alone),
		cmocka_unit_test(values_are_read),
		cmocka_unit_test(slips_get_the_nearest_word),
		cmocka_unit_test(a_watch_knows_only_what_it_says),
		cmocka_unit_test(codes_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
