/* SPDX-License-Identifier: Apache-2.0 */
/* auth_test.c: who owns a token, which requests are meant for us, and who must wait. */
#include "http/auth.h"

#include "base/test.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <unistd.h>

#define SEES "0123456789abcdef-sees"
#define ACTS "0123456789abcdef-acts"

static const char *env(const char *name)
{
	if (text_eq(name, "SEES"))
		return SEES;
	if (text_eq(name, "ACTS"))
		return ACTS;
	if (text_eq(name, "SHORT"))
		return "hunter2";
	return text_eq(name, "BLANK") ? "0123456789 abcdef" : NULL;
}

static struct service_token two[] = {
	{.name = "bert", .role = ROLE_VIEWER, .env = "SEES"},
	{.name = "anna", .role = ROLE_OPERATOR, .env = "ACTS"},
};
static const struct service with_two = {.ntokens = 2, .tokens = two};

static struct auth *load(const struct service *s)
{
	struct failure f = {0};
	struct auth *a = NULL;
	assert_int_equal(auth_load(s, env, &a, &f), DEFIB_OK);
	return a;
}

static void a_token_is_told_by_its_secret(void **state)
{
	struct auth *a = load(&with_two);
	struct identity who;
	(void)state;
	assert_int_equal(auth_who(a, "Bearer " ACTS, &who), AUTH_KNOWN);
	assert_int_equal(who.role, ROLE_OPERATOR);
	assert_string_equal(who.actor, "web:anna");
	assert_int_equal(auth_who(a, "bearer " SEES, &who), AUTH_KNOWN);
	assert_int_equal(who.role, ROLE_VIEWER);
	auth_free(a);
}

static void what_is_near_a_secret_is_wrong(void **state)
{
	static const char *const wrong[] = {
		"",   "Bearer",           "Bearer ",       "Bearer 0123456789abcdef", "Basic " ACTS,
		ACTS, "Bearer " ACTS "x", "Bearer  " ACTS,
	};
	struct auth *a = load(&with_two);
	struct identity who;
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(auth_who(a, wrong[i], &who), AUTH_WRONG);
		assert_int_equal(who.role, ROLE_NONE);
	}
	assert_int_equal(auth_who(a, NULL, &who), AUTH_ABSENT);
	assert_int_equal(who.role, ROLE_NONE);
	auth_free(a);
}

static void without_tokens_everybody_is_admin(void **state)
{
	struct auth *a = load(&(struct service){0});
	struct identity who;
	(void)state;
	assert_false(auth_has_tokens(a));
	assert_int_equal(auth_who(a, NULL, &who), AUTH_KNOWN);
	assert_int_equal(who.role, ROLE_ADMIN);
	assert_string_equal(who.actor, "web:loopback");
	auth_free(a);
}

static void assert_refused(struct service_token t, const char *what)
{
	struct service_token tokens[] = {two[0], t};
	struct service s = {.ntokens = 2, .tokens = tokens};
	struct failure f = {0};
	struct auth *a = NULL;
	assert_int_equal(auth_load(&s, env, &a, &f), DEFIB_CONFIG);
	assert_null(a);
	assert_string_equal(f.what, what);
}

static void secrets_that_cannot_be_used_are_refused(void **state)
{
	(void)state;
	assert_refused((struct service_token){.name = "x", .env = "SHORT"},
	               "token x: a secret must have 16 to 256 characters; this one has 7");
	assert_refused((struct service_token){.name = "x", .env = "NONE"},
	               "token x: the environment variable NONE is not set");
	assert_refused((struct service_token){.name = "x", .env = "BLANK"},
	               "token x: a secret must consist of visible ASCII characters");
	assert_refused((struct service_token){.name = "x", .env = "SEES"},
	               "token x: it has the same secret as another (web:bert)");
	assert_refused((struct service_token){.name = "x", .file = "/nowhere/token"},
	               "token x: /nowhere/token: No such file or directory");
}

static void a_file_gives_its_first_line(void **state)
{
	char path[] = "/tmp/defib-token-XXXXXX";
	struct service_token t = {.name = "f", .role = ROLE_ADMIN, .file = path};
	struct identity who;
	int fd = mkstemp(path);
	(void)state;
	assert_true(fd >= 0 && dprintf(fd, ACTS "\r\nrest\n") > 0);
	struct auth *a = load(&(struct service){.ntokens = 1, .tokens = &t});
	assert_int_equal(auth_who(a, "Bearer " ACTS, &who), AUTH_KNOWN);
	assert_int_equal(who.role, ROLE_ADMIN);
	auth_free(a);
	close(fd);
	unlink(path);
}

/* ---- where a request comes from ---- */

static int status_of(struct asked_from q)
{
	static const char *names[] = {"defib.example", "jobs.example:8080"};
	const struct text_list hosts = {2, names};
	int status = 0;
	q.method = q.method ? q.method : "GET";
	q.listen = q.listen ? q.listen : "10.1.2.3";
	const char *why = auth_from_here(&q, &hosts, &status);
	assert_true((status == 200) == (why == NULL));
	return status;
}

static void our_own_names_are_taken(void **state)
{
	static const char *const ours[] = {
		"10.1.2.3:80", "10.1.2.3", "localhost:9",   "LOCALHOST",          "127.0.0.1:1",
		"127.8.8.8",   "[::1]:9",  "defib.example", "Defib.Example:8443", "jobs.example:8080"};
	(void)state;
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		assert_int_equal(status_of((struct asked_from){.host = ours[i]}), 200);
}

/* A name of 255 characters is the longest; nothing is written behind it. */
static void the_longest_name_fits_and_no_longer_one(void **state)
{
	static const struct {
		int length, status;
	} rows[] = {{255, 200}, {256, 421}, {257, 421}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char host[300] = "";
		const char *names[] = {host};
		const struct text_list hosts = {1, names};
		int status = 0;
		memset(host, 'a', (size_t)rows[i].length);
		(void)auth_from_here(
			&(struct asked_from){.method = "GET", .host = host, .listen = "10.1.2.3"}, &hosts,
			&status);
		assert_int_equal(status, rows[i].status);
	}
}

static void names_that_may_mean_anybody_are_refused(void **state)
{
	static const char *const others[] = {
		"evil.example",           "10.1.2.4", "localhost.evil.example",
		"127.0.0.1.evil.example", "",         "localhost:80@evil",
		"jobs.example:81",        "[::1",     "localhost:x"};
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_int_equal(status_of((struct asked_from){.host = others[i]}), 421);
	assert_int_equal(status_of((struct asked_from){.host = NULL}), 400);
}

static void behind_all_addresses_any_literal_is_ours_but_no_name(void **state)
{
	(void)state;
	assert_int_equal(status_of((struct asked_from){.host = "10.9.9.9:80", .listen = "0.0.0.0"}),
	                 200);
	assert_int_equal(status_of((struct asked_from){.host = "[fd00::1]", .listen = "::"}), 200);
	assert_int_equal(status_of((struct asked_from){.host = "evil.example", .listen = "::"}), 421);
}

static void an_origin_must_be_our_own(void **state)
{
	static const struct {
		const char *origin;
		int status;
	} rows[] = {
		{"http://localhost:80", 200}, {"https://localhost:80", 200},
		{"http://localhost", 403},    {"http://localhost:81", 403},
		{"http://evil.example", 403}, {"null", 403},
		{"ftp://localhost:80", 403},  {"", 403},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(
			status_of((struct asked_from){.host = "localhost:80", .origin = rows[i].origin}),
			rows[i].status);
}

static void a_page_of_another_site_changes_nothing(void **state)
{
	static const struct {
		const char *method, *site;
		int status;
	} rows[] = {
		{"POST", "cross-site", 403},  {"POST", "same-site", 403}, {"DELETE", "cross-site", 403},
		{"POST", "same-origin", 200}, {"POST", "none", 200},      {"GET", "cross-site", 200},
		{"HEAD", "same-site", 200},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(status_of((struct asked_from){.method = rows[i].method,
		                                               .host = "localhost",
		                                               .fetch_site = rows[i].site}),
		                 rows[i].status);
}

/* ---- failed logins ---- */

static uint64_t who_is(const char *text)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return failed_logins_who((const struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return failed_logins_who((const struct sockaddr *)&six);
}

static void ten_wrong_tokens_make_an_address_wait(void **state)
{
	static struct failed_logins s;
	uint64_t bad = who_is("10.0.0.1"), good = who_is("10.0.0.2");
	(void)state;
	for (int i = 0; i < FAILED_LOGINS_MAX; i++) {
		assert_int_equal(failed_logins_wait_s(&s, bad, 1000), 0);
		failed_logins_add(&s, bad, 1000);
	}
	assert_int_equal(failed_logins_wait_s(&s, bad, 1000), 10);
	assert_int_equal(failed_logins_wait_s(&s, bad, 10500), 1);
	assert_int_equal(failed_logins_wait_s(&s, bad, 10999), 1);
	assert_int_equal(failed_logins_wait_s(&s, good, 1000), 0);
	/* One more per period, not ten. */
	assert_int_equal(failed_logins_wait_s(&s, bad, 11000), 0);
	failed_logins_add(&s, bad, 11000);
	assert_int_equal(failed_logins_wait_s(&s, bad, 11000), 10);
	assert_int_equal(failed_logins_wait_s(&s, bad, 1000000), 0);
}

static void a_network_of_version_six_counts_as_one(void **state)
{
	(void)state;
	assert_true(who_is("2001:db8::1") == who_is("2001:db8::ffff"));
	assert_true(who_is("2001:db8::1") != who_is("2001:db8:0:1::1"));
	assert_true(who_is("::1") != 0);
	assert_true(who_is("::ffff:10.0.0.1") == who_is("10.0.0.1"));
	assert_true(who_is("::ffff:10.0.0.1") != who_is("::ffff:10.0.0.2"));
}

static void many_addresses_push_out_only_the_oldest(void **state)
{
	static struct failed_logins s;
	uint64_t last = 0;
	(void)state;
	for (uint64_t i = 1; i <= 50 * (uint64_t)FAILED_LOGIN_ROWS; i++) {
		last = (UINT64_C(1) << 32) | i;
		for (int j = 0; j < FAILED_LOGINS_MAX; j++)
			failed_logins_add(&s, last, (int64_t)i);
	}
	assert_true(failed_logins_wait_s(&s, last, 50 * FAILED_LOGIN_ROWS) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_told_by_its_secret),
		cmocka_unit_test(what_is_near_a_secret_is_wrong),
		cmocka_unit_test(without_tokens_everybody_is_admin),
		cmocka_unit_test(secrets_that_cannot_be_used_are_refused),
		cmocka_unit_test(a_file_gives_its_first_line),
		cmocka_unit_test(our_own_names_are_taken),
		cmocka_unit_test(the_longest_name_fits_and_no_longer_one),
		cmocka_unit_test(names_that_may_mean_anybody_are_refused),
		cmocka_unit_test(behind_all_addresses_any_literal_is_ours_but_no_name),
		cmocka_unit_test(an_origin_must_be_our_own),
		cmocka_unit_test(a_page_of_another_site_changes_nothing),
		cmocka_unit_test(ten_wrong_tokens_make_an_address_wait),
		cmocka_unit_test(a_network_of_version_six_counts_as_one),
		cmocka_unit_test(many_addresses_push_out_only_the_oldest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
