/* SPDX-License-Identifier: Apache-2.0 */
/* api_test.c: which route a request finds, and what is refused before one is run. */
#include "http/api.h"

#include "base/test.h"
#include "base/text.h"
#include "http/api_values.h"

static struct database databases[] = {
	{.name = "main", .url = "sqlite:/nowhere/main.db", .engine = STORE_SQLITE},
	{.name = "other", .url = "sqlite:/nowhere/other.db", .engine = STORE_SQLITE},
};
static struct watch watches[] = {
	{.name = "pages"},
	{.name = "a/b", .database = "other"},
};

static struct live_settings_box box;
static struct api api;
static struct api_call call;
static struct api_answer answer;
static struct api_request request;
static int64_t idle;

static int64_t idle_ms(void *ctx)
{
	(void)ctx;
	return idle;
}

static int before(void **state)
{
	static struct service http;
	static struct environment environment;
	struct live_settings *s = live_settings_new();
	(void)state;
	s->settings = (struct settings){
		.ndatabases = 2,
		.databases = databases,
		.nwatches = 2,
		.watches = watches,
		.sections = {[SECTION_HTTP] = &http, [SECTION_ENVIRONMENT] = &environment}};
	live_settings_box_init(&box, s);
	api = (struct api){.setups = &box, .overview = overview_new(), .name = "d", .idle_ms = idle_ms};
	request = (struct api_request){.role = ROLE_ADMIN, .actor = "web:test"};
	idle = 0;
	return 0;
}

static int after(void **state)
{
	(void)state;
	if (call.api)
		api_end(&call);
	api_answer_release(&answer);
	overview_free(api.overview);
	live_settings_box_release(&box);
	return 0;
}

static enum api_next ask(const char *method, const char *target)
{
	if (call.api)
		api_end(&call);
	request.method = method;
	request.target = target;
	return api_begin(&api, &request, &call, &answer);
}

static int status_of(const char *method, const char *target)
{
	assert_int_equal(ask(method, target), API_ANSWERED);
	return answer.status;
}

static const char *detail(void)
{
	static char text[512];
	json_t *o = json_loads(buf_text(&answer.body), 0, NULL);
	assert_string_equal(answer.type, "application/problem+json");
	assert_int_equal(json_integer_value(json_object_get(o, "status")), answer.status);
	utf8_copy(text, sizeof text, json_string_value(json_object_get(o, "detail")));
	json_decref(o);
	return text;
}

static const char *header(const char *name)
{
	for (int i = 0; i < answer.nheaders; i++)
		if (text_eq(answer.headers[i].name, name))
			return answer.headers[i].value;
	return NULL;
}

/* ---- routes ---- */

static void a_path_finds_its_route_and_parts(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/api/v1/watches/pages/jobs/%5B1,%22x%2Fy%22%5D"),
	                 API_NEEDS_DATABASE);
	assert_string_equal(call.route->path, "/watches/{watch}/jobs/{key}");
	assert_int_equal(call.nparts, 2);
	assert_string_equal(call.parts[0], "pages");
	assert_string_equal(call.parts[1], "[1,\"x/y\"]");
	assert_ptr_equal(call.watch, &watches[0]);
	assert_ptr_equal(call.database, &databases[0]);
}

static void a_watch_is_found_in_its_database(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/api/v1/watches/a%2Fb/jobs"), API_NEEDS_DATABASE);
	assert_ptr_equal(call.watch, &watches[1]);
	assert_ptr_equal(call.database, &databases[1]);
}

static void the_queue_is_found_in_any_database(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/api/v1/watches/queue/jobs"), API_NEEDS_DATABASE);
	assert_ptr_equal(call.database, &databases[0]);
	assert_int_equal(ask("GET", "/api/v1/watches/queue/jobs?database=other"), API_NEEDS_DATABASE);
	assert_ptr_equal(call.database, &databases[1]);
	assert_string_equal(call.watch->name, "queue");
}

static void what_is_not_there_is_not_found(void **state)
{
	static const char *const nowhere[] = {
		"/nobody", "/api",       "/api/v1",   "/api/v1/status/",       "/api/v2/status",
		"/status", "/healthz/x", "//healthz", "/api/v1/watches//jobs", "/HEALTHZ"};
	(void)state;
	for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
		assert_int_equal(status_of("GET", nowhere[i]), 404);
	assert_int_equal(status_of("GET", "/api/v1/watches/page/jobs"), 404);
	assert_string_equal(detail(), "there is no watch \"page\"; did you mean \"pages\"?");
	assert_int_equal(status_of("GET", "/api/v1/ledger?database=nope"), 404);
	assert_string_equal(detail(), "there is no database \"nope\"");
}

static void another_method_is_told_which_are_possible(void **state)
{
	(void)state;
	assert_int_equal(status_of("DELETE", "/healthz"), 405);
	assert_string_equal(header("Allow"), "GET, HEAD");
	assert_int_equal(status_of("HEAD", "/healthz"), 200);
	assert_int_equal(status_of("get", "/healthz"), 405);
}

static void an_address_that_cannot_be_meant_is_refused(void **state)
{
	(void)state;
	assert_int_equal(status_of("GET", "/api/v1/watches/../status"), 400);
	assert_int_equal(status_of("GET", "/api/v1/watches/%00/jobs"), 400);
	assert_int_equal(status_of("GET", "http://evil.example/healthz"), 400);
}

/* ---- roles and bodies ---- */

static void a_role_that_is_too_low_is_refused(void **state)
{
	(void)state;
	request.role = ROLE_NONE;
	assert_int_equal(status_of("GET", "/api/v1/status"), 401);
	assert_string_equal(header("WWW-Authenticate"), "Bearer realm=\"defib\"");
	assert_int_equal(status_of("GET", "/healthz"), 200);
	request.role = ROLE_VIEWER;
	assert_int_equal(status_of("GET", "/api/v1/status"), 200);
	assert_int_equal(status_of("POST", "/api/v1/watches/pages/scan"), 403);
	assert_non_null(strstr(detail(), "the token has viewer"));
}

static int status_of_body(const char *type, const char *body)
{
	request.content_type = type;
	request.body = body;
	request.nbody = strlen(body);
	return ask("POST", "/api/v1/watches/pages/scan") == API_NEEDS_DATABASE ? 200 : answer.status;
}

static void a_body_is_a_json_object(void **state)
{
	(void)state;
	assert_int_equal(status_of_body("application/json", "{\"fix\": true}"), 200);
	assert_int_equal(status_of_body("application/json; charset=utf-8", "{}"), 200);
	assert_int_equal(status_of_body("text/plain", "{}"), 415);
	assert_int_equal(status_of_body("application/jsonx", "{}"), 415);
	assert_int_equal(status_of_body(NULL, "{}"), 415);
	assert_int_equal(status_of_body("application/json", "[]"), 400);
	assert_int_equal(status_of_body("application/json", "{\"a\":1,\"a\":2}"), 400);
	assert_int_equal(status_of_body("application/json", "{\"a\":\n 1,}"), 400);
	assert_non_null(strstr(detail(), "line 2, column 4"));
}

static void who_takes_no_body_refuses_one(void **state)
{
	(void)state;
	request.content_type = "application/json";
	request.body = "{}";
	request.nbody = 2;
	assert_int_equal(status_of("GET", "/healthz"), 400);
}

/* ---- values ---- */

static void parameters_are_checked(void **state)
{
	int64_t n = 7, us = 0;
	int at = 0;
	(void)state;
	assert_int_equal(ask("GET", "/healthz?n=5&t=90s&n=6&n=x"), API_ANSWERED);
	assert_true(api_query_int(&call, "n", 1, 10, &n));
	assert_int_equal(n, 5);
	assert_true(api_query_duration(&call, "t", &us));
	assert_int_equal(us, 90000000);
	assert_true(api_query_int(&call, "absent", 1, 10, &n));
	assert_int_equal(n, 5);
	assert_string_equal(api_query_next(&call, "n", &at), "5");
	assert_string_equal(api_query_next(&call, "n", &at), "6");
	assert_string_equal(api_query_next(&call, "n", &at), "x");
	assert_null(api_query_next(&call, "n", &at));
	assert_true(api_query_takes(&call, "n t"));
	assert_false(api_query_int(&call, "n", 6, 10, &n));
	assert_string_equal(detail(), "n must be a whole number from 6 to 10");
	assert_false(api_query_duration(&call, "n", &us));
	assert_false(api_query_takes(&call, "t"));
}

static void members_are_checked(void **state)
{
	const char *text = "kept";
	int64_t n = 0;
	bool flag = false;
	(void)state;
	/* The route refuses them before a database is queried; the body is still available. */
	assert_int_equal(status_of_body("application/json", "{\"text\":\"x\",\"n\":3,\"flag\":true,"
	                                                    "\"nothing\":null}"),
	                 400);
	assert_true(api_body_takes(&call, "text n flag nothing"));
	assert_true(api_body_text(&call, "nothing", &text));
	assert_string_equal(text, "kept");
	assert_true(api_body_text(&call, "text", &text) && api_body_int(&call, "n", 0, 9, &n) &&
	            api_body_bool(&call, "flag", &flag));
	assert_string_equal(text, "x");
	assert_int_equal(n, 3);
	assert_true(flag);
	assert_false(api_body_text(&call, "n", &text));
	assert_false(api_body_int(&call, "text", 0, 9, &n));
	assert_false(api_body_int(&call, "n", 0, 2, &n));
	assert_false(api_body_bool(&call, "n", &flag));
	assert_false(api_body_takes(&call, "n flag nothing"));
	assert_string_equal(detail(), "there is no member \"text\" here");
}

static void a_failure_has_the_status_of_its_class(void **state)
{
	static const struct {
		defib_err code;
		int status;
	} rows[] = {{DEFIB_CONNECTION, 503}, {DEFIB_LOCKED, 503},  {DEFIB_REFUSED, 409},
	            {DEFIB_NOT_FOUND, 404},  {DEFIB_BAD_SQL, 500}, {DEFIB_LEASE_LOST, 409},
	            {DEFIB_USAGE, 400},      {DEFIB_TIMEOUT, 503}};
	(void)state;
	ask("GET", "/healthz");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct failure f = {0};
		fail(&f, rows[i].code, "what");
		assert_false(api_failed(&call, &f));
		assert_int_equal(answer.status, rows[i].status);
		assert_string_equal(detail(), "what");
	}
	assert_string_equal(header("Retry-After"), "1");
}

/* ---- probes ---- */

static void a_loop_that_hangs_is_not_healthy(void **state)
{
	(void)state;
	assert_int_equal(status_of("GET", "/healthz"), 200);
	idle = 60001;
	assert_int_equal(status_of("GET", "/healthz"), 503);
}

static void ready_is_when_all_is_cared_for(void **state)
{
	(void)state;
	assert_int_equal(status_of("GET", "/readyz"), 503);
	assert_non_null(strstr(buf_text(&answer.body), "\"database\":\"other\""));
	request.role = ROLE_NONE;
	assert_int_equal(status_of("GET", "/readyz"), 503);
	assert_string_equal(buf_text(&answer.body), "{\"ready\":false}\n");
	request.role = ROLE_VIEWER;
	overview_put_database(api.overview,
	                      &(struct overview_database){"main", true, true, NULL, 0, 0});
	overview_put_database(api.overview,
	                      &(struct overview_database){"other", true, true, NULL, 0, 0});
	overview_put_watch(api.overview, &(struct overview_watch){.name = "pages", .database = "main"});
	assert_int_equal(status_of("GET", "/readyz"), 503);
	assert_non_null(strstr(buf_text(&answer.body), "\"watch\":\"a/b\""));
	overview_put_watch(api.overview, &(struct overview_watch){.name = "a/b", .database = "other"});
	assert_int_equal(status_of("GET", "/readyz"), 200);
	overview_put_database(api.overview,
	                      &(struct overview_database){"other", true, false, "gone", 0, 0});
	assert_int_equal(status_of("GET", "/readyz"), 503);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_path_finds_its_route_and_parts),
		TEST(a_watch_is_found_in_its_database),
		TEST(the_queue_is_found_in_any_database),
		TEST(what_is_not_there_is_not_found),
		TEST(another_method_is_told_which_are_possible),
		TEST(an_address_that_cannot_be_meant_is_refused),
		TEST(a_role_that_is_too_low_is_refused),
		TEST(a_body_is_a_json_object),
		TEST(who_takes_no_body_refuses_one),
		TEST(parameters_are_checked),
		TEST(members_are_checked),
		TEST(a_failure_has_the_status_of_its_class),
		TEST(a_loop_that_hangs_is_not_healthy),
		TEST(ready_is_when_all_is_cared_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
