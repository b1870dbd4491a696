/* SPDX-License-Identifier: Apache-2.0
 * ledger_test.h: what the tests of the ledger share: its tables on a real database, SQLite in a
 * temporary directory and, if DEFIB_TEST_PG names a server, PostgreSQL, in a separate database,
 * because other tests have a ledger too.
 */
#ifndef LEDGER_LEDGER_TEST_H
#define LEDGER_LEDGER_TEST_H

#include "ledger/history.h"
#include "ledger/ledger.h"
#include "store/patient_test.h"

#include <unistd.h>

#define DAY (INT64_C(86400) * 1000000)

static char dir[64];
static char postgres_url[256];

struct place {
	enum store_engine engine;
	struct store *store;
	struct arena arena;
	struct ledger ledger;
	const char *table, *hold;
};

static const struct ledger_context context = {"pages", "batch-1", "test"};
/* Whose rows are held: a hold is refused to roles that may not write them. */
#define HELD_TABLE "public.pages (id)"

static inline void run(struct place *p, const char *sql)
{
	struct failure f = {0};
	if (store_exec(p->store, sql, NULL, 0, &p->arena, NULL, &f))
		fail_msg("%s", f.what);
}

/* A statement on the ledger's table (%s). */
static inline const char *on_table(struct place *p, const char *fmt)
{
	const char *at = strstr(fmt, "%s");
	return arena_printf(&p->arena, "%.*s%s%s", (int)(at - fmt), fmt, p->table, at + 2);
}

/* The first cell of a query on it. */
static inline const char *cell(struct place *p, const char *fmt)
{
	struct failure f = {0};
	struct store_rows rows;
	if (store_exec(p->store, on_table(p, fmt), NULL, 0, &p->arena, &rows, &f))
		fail_msg("%s", f.what);
	return rows.nrows ? row_text(&rows, 0, 0) : NULL;
}

static inline void open_store(struct place *p, enum store_engine engine)
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
	opt = patient(opt);
	if (store_open(&opt, &p->store, &f))
		fail_msg("%s", f.what);
}

static inline void erase(struct place *p)
{
	if (p->engine == STORE_POSTGRES) {
		run(p, "SET client_min_messages = warning");
		run(p, "DROP SCHEMA IF EXISTS defib CASCADE");
		run(p, "CREATE TABLE IF NOT EXISTS public.pages (id text)");
	} else {
		run(p, "DROP TABLE IF EXISTS defib_ledger");
		run(p, "DROP TABLE IF EXISTS defib_hold");
		run(p, "DROP TABLE IF EXISTS defib_retry");
		run(p, "DROP TABLE IF EXISTS defib_ledger_seal");
	}
}

static inline void open_place(struct place *p, enum store_engine engine)
{
	struct failure f = {0};
	open_store(p, engine);
	erase(p);
	if (ledger_open(p->store, true, &p->ledger, &f))
		fail_msg("%s", f.what);
	assert_true(p->ledger.ready);
}

static inline void close_place(struct place *p)
{
	erase(p);
	store_close(p->store);
	arena_release(&p->arena);
}

/* The only way to make entries old: otherwise the ledger refuses it. */
static inline void make_older(struct place *p, int days, const char *where)
{
	bool postgres = p->engine == STORE_POSTGRES;
	run(p, postgres ? "ALTER TABLE defib.ledger DISABLE TRIGGER USER"
	                : "DROP TRIGGER defib_ledger_no_update");
	run(p, arena_printf(&p->arena,
	                    postgres ? "UPDATE defib.ledger SET at = at - interval '%d days' WHERE %s"
	                             : "UPDATE defib_ledger SET at = strftime('%%Y-%%m-%%dT%%H:%%M:"
	                               "%%fZ', at, '-%d days') WHERE %s",
	                    days, where));
	run(p, postgres ? "ALTER TABLE defib.ledger ENABLE TRIGGER USER"
	                : "CREATE TRIGGER defib_ledger_no_update BEFORE UPDATE ON defib_ledger BEGIN "
	                  "SELECT RAISE(ABORT, 'refused'); END");
}

static inline void append(struct place *p, const struct ledger_entry *entries, int n, bool commit)
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

static inline void hold(struct place *p, const struct hold *holds, int n)
{
	struct failure f = {0};
	assert_int_equal(store_begin(p->store, TX_WRITE, &f), DEFIB_OK);
	if (ledger_hold(p->store, &context, HELD_TABLE, holds, n, &p->arena, &f))
		fail_msg("%s", f.what);
	assert_int_equal(store_commit(p->store, &f), DEFIB_OK);
}

static inline void history(struct place *p, const char *const *jobs, int n, int64_t within_us,
                           struct history *out)
{
	struct failure f = {0};
	if (ledger_history(p->store, "pages", HELD_TABLE, jobs, n, within_us, &p->arena, out, &f))
		fail_msg("%s", f.what);
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
#define ROWS_OF(behaviour)                                                                         \
	cmocka_unit_test(behaviour##_on_sqlite), cmocka_unit_test(behaviour##_on_postgres),

/* CREATE or DROP our own database, if there is a server. */
static inline int change_database(const char *how)
{
	const char *server = getenv("DEFIB_TEST_PG");
	struct store_options opt = patient((struct store_options){.url = server, .name = "server"});
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

static inline int make_places(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/defib-ledger-XXXXXX");
	return mkdtemp(dir) ? change_database("CREATE") : -1;
}

static inline int remove_places(void **state)
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

#endif
