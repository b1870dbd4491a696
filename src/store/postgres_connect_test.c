/* SPDX-License-Identifier: Apache-2.0
 * postgres_connect_test.c: hosts that never answer, lists of hosts, passwords that must not be
 * shown, and poolers.
 */
#include "base/text.h"
#include "store/store_test.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <sys/socket.h>
#include <unistd.h>

/* A listener that accepts connections and never sends anything. */
static int silent_server(int *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static defib_err open_url(const char *url, int64_t connect_ms, struct failure *f)
{
	struct store_options opt =
		patient((struct store_options){.url = url, .connect_ms = connect_ms});
	struct store *s = NULL;
	defib_err err = store_open(&opt, &s, f);
	store_close(s);
	return err;
}

static void silent_host_ends_in_timeout(void **state)
{
	struct failure f = {0};
	char url[128];
	int port;
	int fd = silent_server(&port);
	(void)state;
	snprintf(url, sizeof(url), "postgres://u:s3cret@127.0.0.1:%d/db", port);
	int64_t before = clock_boot_ms();
	assert_int_equal(open_url(url, 100, &f), DEFIB_TIMEOUT);
	assert_true(clock_boot_ms() - before >= 100);
	assert_null(strstr(f.what, "s3cret"));
	assert_non_null(strstr(f.what, "127.0.0.1"));
	close(fd);
}

static void closed_port_is_connection_without_the_password(void **state)
{
	struct failure f = {0};
	char url[128];
	int port;
	(void)state;
	close(silent_server(&port));
	snprintf(url, sizeof(url), "postgres://u:s3cret@127.0.0.1:%d/db", port);
	assert_int_equal(open_url(url, TEST_HANGS_MS, &f), DEFIB_CONNECTION);
	assert_null(strstr(f.what, "s3cret"));
	assert_null(strchr(f.what, '\n'));
	assert_int_equal(open_url("postgres://u:s3cret@[h/db", TEST_HANGS_MS, &f), DEFIB_CONFIG);
	assert_null(strstr(f.what, "s3cret"));
	assert_int_equal(open_url("postgres://u:s3cret@h/db?sslmod=require", TEST_HANGS_MS, &f),
	                 DEFIB_CONFIG);
	assert_null(strstr(f.what, "s3cret"));
}

static const char *part(const PQconninfoOption *options, const char *name)
{
	for (; options->keyword; options++)
		if (text_eq(options->keyword, name))
			return options->val && *options->val ? options->val : NULL;
	return NULL;
}

/* The test server's URL with other hosts in front of its own. */
static void url_behind(const char *hosts, const char *ports, const char *more, struct buf *out)
{
	PQconninfoOption *options = PQconninfoParse(getenv("DEFIB_TEST_PG"), NULL);
	assert_non_null(options);
	const char *user = part(options, "user"), *db = part(options, "dbname");
	buf_addf(out, "postgres:///%s?host=%s,%s&port=%s,%s%s%s%s", db ? db : "", hosts,
	         part(options, "host"), ports, part(options, "port") ? part(options, "port") : "5432",
	         user ? "&user=" : "", user ? user : "", more);
	PQconninfoFree(options);
}

/* Both a server that is there, and one port for each of them. */
static void the_first_of_several_hosts_is_taken(void **state)
{
	PQconninfoOption *options;
	struct failure f = {0};
	AUTO_BUF url = BUF_INIT;
	int port;
	(void)state;
	need_env("DEFIB_TEST_PG");
	options = PQconninfoParse(getenv("DEFIB_TEST_PG"), NULL);
	assert_non_null(options);
	close(silent_server(&port));
	buf_addf(&url, "postgres:///%s?host=%s,127.0.0.1&port=%s,%d&user=%s", part(options, "dbname"),
	         part(options, "host"), part(options, "port"), port, part(options, "user"));
	PQconninfoFree(options);
	assert_int_equal(open_url(buf_text(&url), TEST_HANGS_MS, &f), DEFIB_OK);
}

/* The slower the machine, the more time the next host needs for its part. */
static void silent_first_host_leaves_time_for_the_next(void **state)
{
	struct buf url = BUF_INIT;
	struct failure f = {0};
	defib_err err = DEFIB_TIMEOUT;
	char ports[16];
	int port;
	(void)state;
	need_env("DEFIB_TEST_PG");
	int fd = silent_server(&port);
	snprintf(ports, sizeof(ports), "%d", port);
	url_behind("127.0.0.1", ports, "&target_session_attrs=read-write", &url);
	for (int64_t ms = 1000; err == DEFIB_TIMEOUT && ms < TEST_HANGS_MS; ms *= 4)
		err = open_url(buf_text(&url), ms, &f);
	assert_int_equal(err, DEFIB_OK);
	buf_release(&url);
	close(fd);
}

/* Callers keep it as the reason why a database is unavailable. */
static void host_that_failed_leaves_no_failure_behind_a_session(void **state)
{
	struct buf url = BUF_INIT;
	struct failure f = {0};
	char ports[16];
	int port;
	(void)state;
	need_env("DEFIB_TEST_PG");
	close(silent_server(&port));
	snprintf(ports, sizeof(ports), "%d", port);
	url_behind("127.0.0.1", ports, "&target_session_attrs=read-write", &url);
	assert_int_equal(open_url(buf_text(&url), TEST_HANGS_MS, &f), DEFIB_OK);
	assert_int_equal(f.code, DEFIB_OK);
	assert_string_equal(f.what, "");
	buf_release(&url);
}

static void session_of_the_wrong_kind_is_not_taken(void **state)
{
	struct buf url = BUF_INIT;
	struct failure f = {0};
	char ports[16];
	int port;
	(void)state;
	need_env("DEFIB_TEST_PG");
	close(silent_server(&port));
	snprintf(ports, sizeof(ports), "%d", port);
	url_behind("127.0.0.1", ports, "&target_session_attrs=standby", &url);
	assert_int_equal(open_url(buf_text(&url), TEST_HANGS_MS, &f), DEFIB_CONNECTION);
	buf_clear(&url);
	url_behind("127.0.0.1", ports, "&target_session_attrs=prefer-standby", &url);
	assert_int_equal(open_url(buf_text(&url), TEST_HANGS_MS, &f), DEFIB_OK);
	buf_release(&url);
}

/* DEFIB_TEST_PG_POOLED names the same database through a transaction pooler. */
static struct store *open_pooled(int64_t statement_ms)
{
	need_env("DEFIB_TEST_PG_POOLED");
	struct store *s = open_with((struct store_options){.url = getenv("DEFIB_TEST_PG_POOLED"),
	                                                   .statement_ms = statement_ms});
	assert_true(s->pooled);
	return s;
}

static const char timeout_sql[] =
	"SELECT setting FROM pg_settings WHERE name = 'statement_timeout'";

static void pooled_session_leaves_no_settings_behind(void **state)
{
	(void)state;
	struct store *one = open_pooled(123456);
	struct store *other = open_pooled(654321);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(number(one, timeout_sql), 123456);
		assert_int_equal(number(other, timeout_sql), 654321);
	}
	assert_int_equal(number(one, "SELECT count(*) FROM pg_prepared_statements"), 0);
	store_close(one);
	store_close(other);
}

static void pooled_session_keeps_transactions_whole(void **state)
{
	(void)state;
	struct store *s = open_pooled(123456);
	assert_int_equal(run(s, "DROP TABLE IF EXISTS store_pooled", NULL), DEFIB_OK);
	assert_int_equal(run(s, "CREATE TABLE store_pooled (id int PRIMARY KEY)", NULL), DEFIB_OK);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(number(s, timeout_sql), 123456);
	assert_int_equal(run(s, "INSERT INTO store_pooled VALUES (1)", NULL), DEFIB_OK);
	store_rollback(s);
	assert_int_equal(run(s, "INSERT INTO store_pooled VALUES (1)", NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_pooled VALUES (1)", NULL), DEFIB_CONSTRAINT);
	assert_int_equal(number(s, "SELECT count(*) FROM store_pooled"), 1);
	assert_int_equal(run(s, "DROP TABLE store_pooled", NULL), DEFIB_OK);
	store_close(s);
}

static void pooled_session_describes(void **state)
{
	struct arena a = ARENA_INIT;
	struct store_column *cols;
	int n;
	(void)state;
	struct store *s = open_pooled(0);
	assert_int_equal(store_describe(s, "SELECT now() AS t", &a, &cols, &n, NULL), DEFIB_OK);
	assert_string_equal(cols[0].base, "timestamptz");
	assert_int_equal(store_describe(s, "SELECT nope", &a, &cols, &n, NULL), DEFIB_BAD_SQL);
	assert_int_equal(number(s, "SELECT 1"), 1);
	arena_release(&a);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_host_ends_in_timeout),
		cmocka_unit_test(closed_port_is_connection_without_the_password),
		cmocka_unit_test(the_first_of_several_hosts_is_taken),
		cmocka_unit_test(silent_first_host_leaves_time_for_the_next),
		cmocka_unit_test(host_that_failed_leaves_no_failure_behind_a_session),
		cmocka_unit_test(session_of_the_wrong_kind_is_not_taken),
		cmocka_unit_test(pooled_session_leaves_no_settings_behind),
		cmocka_unit_test(pooled_session_keeps_transactions_whole),
		cmocka_unit_test(pooled_session_describes),
	};
	return cmocka_run_group_tests_name("store/postgres_connect", tests, NULL, NULL);
}
