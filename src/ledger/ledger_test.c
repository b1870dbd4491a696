/*
 * ledger_test.c: the ledger on a real database, SQLite in a temporary
 * directory and, where DEFIB_TEST_PG names a server, PostgreSQL.
 */
#include "ledger/ledger.h"

#include "base/test.h"

#include <unistd.h>

#define DAY (INT64_C(86400) * 1000000)

static char dir[64];
static char postgres_url[256]; /* of a database of our own: other tests have a ledger too */

struct place {
	enum store_engine engine;
	struct store *store;
	struct arena arena;
	struct ledger ledger;
	const char *table, *hold;
};

static const struct ledger_context context = {"pages", "batch-1", "test"};

static void run(struct place *p, const char *sql)
{
	struct failure f = {0};
	if (store_exec(p->store, sql, NULL, 0, &p->arena, NULL, &f))
		fail_msg("%s", f.what);
}

/* The first cell of a query on the ledger's table (%s). */
static const char *cell(struct place *p, const char *fmt)
{
	struct failure f = {0};
	struct store_rows rows;
	const char *at = strstr(fmt, "%s");
	const char *sql = arena_printf(&p->arena, "%.*s%s%s", (int)(at - fmt), fmt, p->table, at + 2);
	if (store_exec(p->store, sql, NULL, 0, &p->arena, &rows, &f))
		fail_msg("%s", f.what);
	return rows.nrows ? row_text(&rows, 0, 0) : NULL;
}

static void open_store(struct place *p, enum store_engine engine)
{
	struct failure f = {0};
	struct store_options opt = {.create = true, .name = "t", .url = postgres_url};
	char url[128];
	*p = (struct place){.engine = engine, .arena = ARENA_INIT};
	p->table = engine == STORE_POSTGRES ? "defib.ledger" : "defib_ledger";
	p->hold = engine == STORE_POSTGRES ? "defib.hold" : "defib_hold";
	if (engine == STORE_SQLITE) {
		snprintf(url, sizeof url, "sqlite:%s/l.db", dir);
		opt.url = url;
	} else if (!*postgres_url) {
		print_message("DEFIB_TEST_PG is not set: no server to test with\n");
		skip();
	}
	if (store_open(&opt, &p->store, &f))
		fail_msg("%s", f.what);
}

static void erase(struct place *p)
{
	if (p->engine == STORE_POSTGRES) {
		run(p, "SET client_min_messages = warning");
		run(p, "DROP SCHEMA IF EXISTS defib CASCADE");
	} else {
		run(p, "DROP TABLE IF EXISTS defib_ledger");
		run(p, "DROP TABLE IF EXISTS defib_hold");
		run(p, "DROP TABLE IF EXISTS defib_retry");
	}
}

static void open_place(struct place *p, enum store_engine engine)
{
	struct failure f = {0};
	open_store(p, engine);
	erase(p);
	if (ledger_open(p->store, true, &p->ledger, &f))
		fail_msg("%s", f.what);
	assert_true(p->ledger.ready);
}

static void close_place(struct place *p)
{
	erase(p);
	store_close(p->store);
	arena_release(&p->arena);
}

static void append(struct place *p, const struct ledger_entry *entries, int n, bool commit)
{
	struct failure f = {0};
	assert_int_equal(store_begin(p->store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_append(p->store, &context, entries, n, &p->arena, &f))
		fail_msg("%s", f.what);
	if (commit)
		assert_int_equal(store_commit(p->store, &f), DEFIB_OK);
	else
		store_rollback(p->store);
}

static void hold(struct place *p, const struct hold *holds, int n)
{
	struct failure f = {0};
	assert_int_equal(store_begin(p->store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_hold(p->store, &context, holds, n, &p->arena, &f))
		fail_msg("%s", f.what);
	assert_int_equal(store_commit(p->store, &f), DEFIB_OK);
}

static void history(struct place *p, const char *const *jobs, int n, int64_t within_us,
                    struct history *out)
{
	struct failure f = {0};
	if (ledger_history(p->store, "pages", jobs, n, within_us, &p->arena, out, &f))
		fail_msg("%s", f.what);
}

/* ---- behaviours, each on both engines ---- */

static void it_is_made_once_and_found_again(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	struct ledger again;
	open_place(&p, engine);
	assert_true(p.ledger.made);
	assert_int_equal(ledger_open(p.store, true, &again, &f), DEFIB_OK);
	assert_true(again.ready);
	assert_false(again.made);
	close_place(&p);
}

static void it_is_not_made_unasked(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	open_store(&p, engine);
	erase(&p);
	assert_int_equal(ledger_open(p.store, false, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_string_equal(p.ledger.off_because, "it is not there yet");
	close_place(&p);
}

static void entries_are_kept_as_they_were_given(enum store_engine engine)
{
	static const char *const hostile = "o'x\"; -- {größe} \\ ,";
	struct ledger_entry e[] = {{.job = "1",
	                            .event = "REQUEUED",
	                            .verdict = "silent",
	                            .rule = "rule-1",
	                            .reason = hostile,
	                            .evidence = "{\"a\": [1, null]}",
	                            .before = "{}"},
	                           {.job = hostile, .event = "HELD"}};
	struct place p;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_string_equal(
		cell(&p, "SELECT count(*) FROM %s WHERE batch = 'batch-1' AND actor = 'test'"), "2");
	assert_string_equal(cell(&p, "SELECT reason FROM %s WHERE job = '1'"), hostile);
	assert_string_equal(cell(&p, "SELECT evidence FROM %s WHERE job = '1'"), "{\"a\": [1, null]}");
	assert_string_equal(cell(&p, "SELECT job FROM %s WHERE event = 'HELD' AND verdict IS NULL "
	                             "AND evidence IS NULL"),
	                    hostile);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE at IS NOT NULL"), "2");
	close_place(&p);
}

static void ids_rise_in_the_order_of_entries(enum store_engine engine)
{
	struct ledger_entry e[] = {{.job = "b", .event = "FAILED"}, {.job = "a", .event = "FAILED"}};
	struct place p;
	open_place(&p, engine);
	append(&p, e, 2, true);
	assert_string_equal(cell(&p, "SELECT job FROM %s ORDER BY id LIMIT 1"), "b");
	close_place(&p);
}

static void a_batch_is_known_once_it_is_committed(enum store_engine engine)
{
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct place p;
	struct failure f = {0};
	bool found = true;
	open_place(&p, engine);
	append(&p, &e, 1, false);
	assert_int_equal(ledger_has_batch(p.store, "batch-1", &p.arena, &found, &f), DEFIB_OK);
	assert_false(found);
	append(&p, &e, 1, true);
	assert_int_equal(ledger_has_batch(p.store, "batch-1", &p.arena, &found, &f), DEFIB_OK);
	assert_true(found);
	assert_int_equal(ledger_has_batch(p.store, "batch-2", &p.arena, &found, &f), DEFIB_OK);
	assert_false(found);
	close_place(&p);
}

static void recoveries_are_counted_within_the_time(enum store_engine engine)
{
	static const char *const jobs[] = {"1", "2", "3"};
	struct ledger_entry e[] = {{.job = "1", .event = "REQUEUED"},
	                           {.job = "1", .event = "RETRY_SCHEDULED"},
	                           {.job = "1", .event = "HELD"},
	                           {.job = "2", .event = "FAILED"},
	                           {.job = "9", .event = "REQUEUED"}};
	struct history h[3];
	struct place p;
	open_place(&p, engine);
	append(&p, e, 5, true);
	history(&p, jobs, 3, DAY, h);
	assert_int_equal(h[0].recoveries, 2);
	assert_int_equal(h[1].recoveries, 0);
	assert_int_equal(h[2].recoveries, 0);
	run(&p, engine == STORE_POSTGRES
	            ? "UPDATE defib.ledger SET at = at - interval '2 days' WHERE event = 'REQUEUED'"
	            : "UPDATE defib_ledger SET at = strftime('%Y-%m-%dT%H:%M:%fZ', at, '-2 days') "
	              "WHERE event = 'REQUEUED'");
	history(&p, jobs, 3, DAY, h);
	assert_int_equal(h[0].recoveries, 1);
	history(&p, jobs, 3, 3 * DAY, h);
	assert_int_equal(h[0].recoveries, 2);
	close_place(&p);
}

static void another_watch_does_not_count(enum store_engine engine)
{
	static const char *const jobs[] = {"1"};
	struct ledger_entry e = {.job = "1", .event = "REQUEUED"};
	struct history h;
	struct place p;
	struct failure f = {0};
	open_place(&p, engine);
	append(&p, &e, 1, true);
	hold(&p, &(struct hold){.job = "1", .cause = "rule"}, 1);
	assert_int_equal(ledger_history(p.store, "other", jobs, 1, DAY, &p.arena, &h, &f), DEFIB_OK);
	assert_int_equal(h.recoveries, 0);
	assert_false(h.held);
	close_place(&p);
}

static void a_hold_remembers_owner_and_sign(enum store_engine engine)
{
	static const char *const jobs[] = {"2", "1", "3"};
	struct hold holds[] = {{.job = "1",
	                        .cause = "poison",
	                        .owner = "w-1",
	                        .has_sign = true,
	                        .sign_us = 1767323045000001},
	                       {.job = "2", .cause = "rule"}};
	struct history h[3];
	struct place p;
	open_place(&p, engine);
	hold(&p, holds, 2);
	history(&p, jobs, 3, DAY, h);
	assert_true(h[0].held && !h[0].hold_owner && !h[0].hold_has_sign);
	assert_true(h[1].held && h[1].hold_has_sign);
	assert_string_equal(h[1].hold_owner, "w-1");
	assert_int_equal(h[1].hold_sign_us, 1767323045000001);
	assert_false(h[2].held);
	close_place(&p);
}

static void a_second_hold_replaces_the_first(enum store_engine engine)
{
	static const char *const jobs[] = {"1"};
	struct history h;
	struct place p;
	open_place(&p, engine);
	hold(&p, &(struct hold){.job = "1", .cause = "rule", .owner = "w-1"}, 1);
	hold(&p, &(struct hold){.job = "1", .cause = "poison", .owner = "w-2"}, 1);
	history(&p, jobs, 1, DAY, &h);
	assert_string_equal(h.hold_owner, "w-2");
	close_place(&p);
}

static void nothing_to_write_or_ask_is_no_statement(enum store_engine engine)
{
	struct place p;
	struct failure f = {0};
	struct history none;
	open_place(&p, engine);
	assert_int_equal(ledger_append(p.store, &context, NULL, 0, &p.arena, &f), DEFIB_OK);
	assert_int_equal(ledger_hold(p.store, &context, NULL, 0, &p.arena, &f), DEFIB_OK);
	assert_int_equal(ledger_history(p.store, "pages", NULL, 0, DAY, &p.arena, &none, &f), DEFIB_OK);
	close_place(&p);
}

/* ---- */

static void a_read_only_file_is_said_to_be_one(void **state)
{
	struct place p;
	struct failure f = {0};
	struct ledger l;
	struct store *s = NULL;
	char url[128];
	(void)state;
	open_store(&p, STORE_SQLITE);
	erase(&p);
	snprintf(url, sizeof url, "sqlite:%s/l.db", dir);
	struct store_options opt = {.url = url, .name = "t", .read_only = true};
	assert_int_equal(store_open(&opt, &s, &f), DEFIB_OK);
	assert_int_equal(ledger_open(s, true, &l, &f), DEFIB_READ_ONLY);
	assert_false(l.ready);
	store_close(s);
	close_place(&p);
}

static void a_role_that_may_not_create_works_without_and_is_told_why(void **state)
{
	struct place p;
	struct failure f = {0};
	(void)state;
	open_store(&p, STORE_POSTGRES);
	erase(&p);
	run(&p, "SET ROLE pg_monitor"); /* a role of every server that may create nothing */
	assert_int_equal(ledger_open(p.store, true, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_non_null(strstr(p.ledger.off_because, "permission denied"));
	run(&p, "RESET ROLE");
	close_place(&p);
}

static void a_role_that_may_not_write_to_it_works_without_and_is_told_why(void **state)
{
	struct place p;
	struct failure f = {0};
	(void)state;
	open_place(&p, STORE_POSTGRES);
	run(&p, "SET ROLE pg_monitor");
	assert_int_equal(ledger_open(p.store, true, &p.ledger, &f), DEFIB_OK);
	assert_false(p.ledger.ready);
	assert_non_null(strstr(p.ledger.off_because, "grant USAGE"));
	run(&p, "RESET ROLE");
	close_place(&p);
}

#define ON_BOTH(behaviour)                                                                         \
	static void behaviour##_on_sqlite(void **state)                                                \
	{                                                                                              \
		(void)state;                                                                               \
		behaviour(STORE_SQLITE);                                                                   \
	}                                                                                              \
	static void behaviour##_on_postgres(void **state)                                              \
	{                                                                                              \
		(void)state;                                                                               \
		behaviour(STORE_POSTGRES);                                                                 \
	}
#define BEHAVIOURS(X)                                                                              \
	X(it_is_made_once_and_found_again)                                                             \
	X(it_is_not_made_unasked)                                                                      \
	X(entries_are_kept_as_they_were_given)                                                         \
	X(ids_rise_in_the_order_of_entries)                                                            \
	X(a_batch_is_known_once_it_is_committed)                                                       \
	X(recoveries_are_counted_within_the_time)                                                      \
	X(another_watch_does_not_count)                                                                \
	X(a_hold_remembers_owner_and_sign)                                                             \
	X(a_second_hold_replaces_the_first)                                                            \
	X(nothing_to_write_or_ask_is_no_statement)
BEHAVIOURS(ON_BOTH)

/* CREATE or DROP the database of our own, where there is a server. */
static int change_database(const char *how)
{
	const char *server = getenv("DEFIB_TEST_PG");
	struct store_options opt = {.url = server, .name = "server"};
	struct store *s = NULL;
	struct failure f = {0};
	char sql[128];
	if (!server)
		return 0;
	snprintf(sql, sizeof sql, "%s DATABASE ledger_test_%d", how, (int)getpid());
	snprintf(postgres_url, sizeof postgres_url, "%.*s/ledger_test_%d",
	         (int)(strrchr(server, '/') - server), server, (int)getpid());
	defib_err err = store_open(&opt, &s, &f);
	if (!err)
		err = store_exec(s, sql, NULL, 0, NULL, NULL, &f);
	if (err)
		print_error("%s\n", f.what);
	store_close(s);
	return err ? -1 : 0;
}

static int make_places(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/defib-ledger-XXXXXX");
	return mkdtemp(dir) ? change_database("CREATE") : -1;
}

static int remove_places(void **state)
{
	static const char *const files[] = {"l.db", "l.db-wal", "l.db-shm"};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		unlink(path);
	}
	return rmdir(dir) || change_database("DROP");
}

int main(void)
{
#define ROWS(behaviour)                                                                            \
	cmocka_unit_test(behaviour##_on_sqlite), cmocka_unit_test(behaviour##_on_postgres),
	const struct CMUnitTest tests[] = {
		BEHAVIOURS(ROWS) cmocka_unit_test(a_read_only_file_is_said_to_be_one),
		cmocka_unit_test(a_role_that_may_not_create_works_without_and_is_told_why),
		cmocka_unit_test(a_role_that_may_not_write_to_it_works_without_and_is_told_why),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
