/* SPDX-License-Identifier: Apache-2.0
 * postgres_silent_test.c: a session whose server stops answering. DEFIB_TEST_PG names a server on
 * this host: the tests stop one of its processes.
 */
#include "store/postgres.h"
#include "store/store_test.h"

#include <errno.h>
#include <signal.h>

#define GIVES_UP_MS 200

static struct store *admin; /* NULL without a server */

static void need_server(void)
{
	need_env("DEFIB_TEST_PG");
}

static pid_t backend_of(struct store *s)
{
	return (pid_t)number(s, "SELECT pg_backend_pid()");
}

/* Stops the session's backend: nothing will ever answer. Only from now on is it not waited for. */
static void stop(struct store *s, pid_t pid)
{
	((struct pg *)s)->call_ms = GIVES_UP_MS;
	if (kill(pid, SIGSTOP) != 0) {
		print_message("cannot stop the server's process %d: %s\n", (int)pid, strerror(errno));
		skip();
	}
}

/*
 * Continue it, and wait until it has seen that its client is gone: until then it may still write.
 */
static void resume(pid_t pid)
{
	char sql[96];
	kill(pid, SIGCONT);
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", (int)pid);
	EVENTUALLY(number(admin, sql) == 0);
}

static int open_admin(void **state)
{
	(void)state;
	if (getenv("DEFIB_TEST_PG")) {
		admin = open_plain();
		assert_int_equal(run(admin, "CREATE SCHEMA IF NOT EXISTS silent_test", NULL), DEFIB_OK);
		assert_int_equal(run(admin, "CREATE TABLE IF NOT EXISTS silent_test.t (id int)", NULL),
		                 DEFIB_OK);
	}
	return 0;
}

static int close_admin(void **state)
{
	(void)state;
	if (admin) {
		assert_int_equal(run(admin, "DROP SCHEMA silent_test CASCADE", NULL), DEFIB_OK);
		store_close(admin);
	}
	return 0;
}

static void stopped_server_ends_a_read_in_timeout(void **state)
{
	struct failure f = {0};
	(void)state;
	need_server();
	struct store *s = open_plain();
	pid_t pid = backend_of(s);
	stop(s, pid);
	int64_t before = clock_boot_ms();
	defib_err err = run(s, "SELECT 1", &f);
	int64_t took = clock_boot_ms() - before;
	store_close(s);
	resume(pid);
	assert_int_equal(err, DEFIB_TIMEOUT);
	assert_true(took >= GIVES_UP_MS);
}

static void stopped_server_leaves_a_write_unknown(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	pid_t pid = backend_of(s);
	/* Once before, so that it is prepared and only execution is left. */
	assert_int_equal(run(s, "INSERT INTO silent_test.t SELECT count(*) FROM silent_test.t", NULL),
	                 DEFIB_OK);
	stop(s, pid);
	defib_err err = run(s, "INSERT INTO silent_test.t SELECT count(*) FROM silent_test.t", NULL);
	bool lost = s->lost;
	store_close(s);
	resume(pid);
	assert_true(lost);
	assert_int_equal(err, DEFIB_UNKNOWN_OUTCOME);
}

static void stopped_server_leaves_a_commit_unknown(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	pid_t pid = backend_of(s);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO silent_test.t VALUES (1)", NULL), DEFIB_OK);
	stop(s, pid);
	int64_t before = clock_boot_ms();
	defib_err err = store_commit(s, NULL);
	int64_t took = clock_boot_ms() - before;
	bool lost = s->lost && !s->in_tx;
	store_close(s);
	resume(pid);
	assert_true(lost);
	assert_int_equal(err, DEFIB_UNKNOWN_OUTCOME);
	assert_true(took >= GIVES_UP_MS);
}

static void stopped_server_does_not_hold_up_rollback(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	pid_t pid = backend_of(s);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	stop(s, pid);
	store_rollback(s);
	bool lost = s->lost;
	store_close(s);
	resume(pid);
	assert_true(lost);
}

/* A session with a lock, whose backend is stopped and does not answer. */
static void fall_silent(struct session *s, bool in_tx, pid_t *pid)
{
	assert_int_equal(session_ready(s, NULL), DEFIB_OK);
	*pid = backend_of(s->store);
	assert_int_equal(run(s->store, "SELECT pg_advisory_lock_shared(7)", NULL), DEFIB_OK);
	if (in_tx)
		assert_int_equal(store_begin(s->store, TX_WRITE, NULL), DEFIB_OK);
	stop(s->store, *pid);
	assert_int_equal(run(s->store, "SELECT 1", NULL), DEFIB_TIMEOUT);
	assert_true(s->store->lost);
}

/* Whether the connection is still open, although no statement uses it any more. */
static bool keeps_connection(const struct session *s)
{
	return ((const struct pg *)s->store)->unanswering != NULL;
}

static struct session keeping_session(void)
{
	struct store_options o = {.url = getenv("DEFIB_TEST_PG"), .keeps_locks = true};
	return (struct session){.options = patient(o), .open = store_open};
}

static defib_err refuse(const struct store_options *o, struct store **out, struct failure *f)
{
	(void)o;
	*out = NULL;
	fail(f, DEFIB_CONNECTION, "sorry, too many clients already");
	snprintf(f->sqlstate, sizeof f->sqlstate, "53300");
	return DEFIB_CONNECTION;
}

static int64_t lock_holders(void)
{
	return number(admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7");
}

static void a_session_that_does_not_answer_keeps_its_lock_until_the_next_has_it(void **state)
{
	pid_t pid;
	(void)state;
	need_server();
	struct session s = keeping_session();
	fall_silent(&s, false, &pid);
	assert_true(keeps_connection(&s));
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 2);
	kill(pid, SIGCONT);
	/* It answers, and nobody reads that: it waits for its client. */
	char sql[96];
	snprintf(sql, sizeof sql,
	         "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND state = 'idle'", (int)pid);
	EVENTUALLY(number(admin, sql) == 1);
	assert_int_equal(lock_holders(), 1);
	assert_int_equal(run(s.store, "SELECT pg_advisory_lock_shared(7)", NULL), DEFIB_OK);
	assert_int_equal(lock_holders(), 2);
	session_close_former(&s);
	resume(pid);
	assert_int_equal(lock_holders(), 1);
	session_close(&s);
}

static void a_session_that_does_not_answer_keeps_no_transaction_open(void **state)
{
	pid_t pid;
	(void)state;
	need_server();
	struct session s = keeping_session();
	fall_silent(&s, true, &pid);
	/* The server would end it too, but only when it has been idle in its transaction for long. */
	assert_false(keeps_connection(&s));
	resume(pid);
	assert_int_equal(lock_holders(), 0);
	session_close(&s);
}

static void a_server_that_refuses_a_session_gets_the_former_one_back(void **state)
{
	struct failure f = {0};
	pid_t pid;
	(void)state;
	need_server();
	struct session s = keeping_session();
	fall_silent(&s, false, &pid);
	s.options.url = "postgres://127.0.0.1:1/nobody_listens_here";
	assert_int_not_equal(session_ready(&s, &f), DEFIB_OK);
	assert_non_null(s.former); /* no server said anything: the lock may still be needed */
	s.open = refuse;
	assert_int_not_equal(session_ready(&s, &f), DEFIB_OK);
	resume(pid);
	assert_int_equal(lock_holders(), 0);
	session_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_server_ends_a_read_in_timeout),
		cmocka_unit_test(stopped_server_leaves_a_write_unknown),
		cmocka_unit_test(stopped_server_leaves_a_commit_unknown),
		cmocka_unit_test(stopped_server_does_not_hold_up_rollback),
		cmocka_unit_test(a_session_that_does_not_answer_keeps_its_lock_until_the_next_has_it),
		cmocka_unit_test(a_session_that_does_not_answer_keeps_no_transaction_open),
		cmocka_unit_test(a_server_that_refuses_a_session_gets_the_former_one_back),
	};
	return cmocka_run_group_tests_name("store/postgres_silent", tests, open_admin, close_admin);
}
