/* SPDX-License-Identifier: Apache-2.0
 * log_test.c: stderr is redirected to a pipe while one event is written.
 */
#include "base/log.h"

#include "base/test.h"

#include <unistd.h>

static char line[1024];

static int pipe_out, saved_stderr;

/* Output to stderr from here to capture_end goes to `line`. */
static void capture_begin(void)
{
	int ends[2];
	saved_stderr = dup(STDERR_FILENO);
	assert_int_equal(pipe(ends), 0);
	assert_true(saved_stderr >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
	close(ends[1]);
	pipe_out = ends[0];
}

static void capture_end(void)
{
	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	ssize_t n = read(pipe_out, line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	close(pipe_out);
}

/* The time differs at every run: check its form and continue after it. */
static const char *behind_time(const char *lead)
{
	size_t skip = strlen(lead) + strlen("2026-01-02T03:04:05.123Z");
	assert_memory_equal(line, lead, strlen(lead));
	assert_true(strlen(line) > skip);
	assert_int_equal(line[skip - 1], 'Z');
	return line + skip;
}

static void logfmt_quotes_what_is_more_than_a_word(void **state)
{
	(void)state;
	log_setup(LOG_INFO, LOG_LOGFMT);
	capture_begin();
	log_event(LOG_WARN, "stuck jobs reset", LOG_INT("total", 5), LOG_STR("watch", "pages"),
	          LOG_STR("why", "a \"b\""), LOG_STR("none", ""));
	capture_end();
	assert_string_equal(behind_time("ts="),
	                    " level=warn msg=\"stuck jobs reset\" total=5 watch=pages"
	                    " why=\"a \\\"b\\\"\" none=\"\"\n");
}

static void json_is_one_object_a_line(void **state)
{
	(void)state;
	log_setup(LOG_INFO, LOG_JSON);
	capture_begin();
	log_event(LOG_ERROR, "a\nb", LOG_INT("n", -1), LOG_STR("k", "v"));
	capture_end();
	assert_string_equal(behind_time("{\"ts\":\""),
	                    "\",\"level\":\"error\",\"msg\":\"a\\nb\",\"n\":-1,\"k\":\"v\"}\n");
}

static void plain_is_for_a_person(void **state)
{
	(void)state;
	log_setup(LOG_INFO, LOG_PLAIN);
	capture_begin();
	log_event(LOG_WARN, "stuck jobs reset", LOG_INT("total", 5));
	capture_end();
	assert_string_equal(line, "defib: warn: stuck jobs reset total=5\n");
}

static void an_event_may_have_no_fields(void **state)
{
	(void)state;
	log_setup(LOG_INFO, LOG_PLAIN);
	capture_begin();
	log_event(LOG_INFO, "ready");
	capture_end();
	assert_string_equal(line, "defib: info: ready\n");
}

static void lower_levels_are_not_written(void **state)
{
	(void)state;
	log_setup(LOG_WARN, LOG_PLAIN);
	capture_begin();
	log_event(LOG_INFO, "ready");
	capture_end();
	assert_string_equal(line, "");
	assert_false(log_enabled(LOG_INFO));
	assert_true(log_enabled(LOG_CRITICAL));
}

static void levels_are_read_by_name(void **state)
{
	(void)state;
	enum log_level level = LOG_DEBUG;
	assert_true(log_level_parse("critical", &level));
	assert_int_equal(level, LOG_CRITICAL);
	assert_false(log_level_parse("loud", &level));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logfmt_quotes_what_is_more_than_a_word),
		cmocka_unit_test(json_is_one_object_a_line),
		cmocka_unit_test(plain_is_for_a_person),
		cmocka_unit_test(an_event_may_have_no_fields),
		cmocka_unit_test(lower_levels_are_not_written),
		cmocka_unit_test(levels_are_read_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
