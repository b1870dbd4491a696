/* SPDX-License-Identifier: Apache-2.0
 * recover_test.h: what the tests of apply and scan share: a table of jobs on either engine, a watch
 * over it, and what must always hold.
 *
 * DEFIB_TEST_PG names the PostgreSQL server; each test has its own database there, with defib's
 * tables. SQLite is a file of its own.
 */
#ifndef RECOVER_RECOVER_TEST_H
#define RECOVER_RECOVER_TEST_H

#include "recover/scan.h"
#include "watch/copy_test.h"

struct rig {
	enum store_engine engine;
	struct place place;
	const char *url;
	struct store *other; /* a session beside the one that is tested */
	struct arena arena;
	struct settings settings;
};

static inline void rig_sql(struct rig *g, const char *sql)
{
	struct failure f = {0};
	if (run(g->other, sql, &f))
		fail_msg("%s: %s", sql, f.what);
}

/* How its database is made: place_open() or place_open_with_tables(). */
typedef void rig_place(struct place *p, enum store_engine engine);

static inline void rig_open(struct rig *g, enum store_engine engine, rig_place *open)
{
	g->engine = engine;
	open(&g->place, engine);
	g->url = g->place.url;
	g->other = open_with((struct store_options){.url = g->url, .create = true});
}

/* A session as a watch has it, not open yet. */
static inline struct session rig_session(const struct rig *g)
{
	struct store_options o = {.url = g->url, .name = "rig"};
	return (struct session){.options = patient(o), .open = store_open};
}

static inline void rig_close(struct rig *g)
{
	store_close(g->other);
	arena_release(&g->arena);
	place_close(&g->place);
}

/* The state of a test: `size` bytes of a struct that begins with its rig. */
static inline int rig_setup(void **state, enum store_engine engine, rig_place *open, size_t size,
                            void (*prepare)(struct rig *g))
{
	struct rig *g = *state = mem_alloc(size);
	if (!place_possible(engine))
		return 0;
	rig_open(g, engine, open);
	if (prepare)
		prepare(g);
	return 0;
}

static inline int rig_teardown(void **state)
{
	struct rig *g = *state;
	if (g->other)
		rig_close(g);
	free(g);
	return 0;
}

static inline struct rig *rig_of(void **state)
{
	struct rig *g = *state;
	if (!g->other)
		need_env("DEFIB_TEST_PG");
	return g;
}

/*
 * What BOTH() needs: `type` begins with a rig, which `prepare` makes ready; it may be NULL. `open`
 * makes its database.
 */
#define RIG_SETUP(type, open, prepare)                                                             \
	static int setup_postgres(void **state)                                                        \
	{                                                                                              \
		return rig_setup(state, STORE_POSTGRES, open, sizeof(type), prepare);                      \
	}                                                                                              \
	static int setup_sqlite(void **state)                                                          \
	{                                                                                              \
		return rig_setup(state, STORE_SQLITE, open, sizeof(type), prepare);                        \
	}

/* The same if the rig is all there is. */
#define RIG_IN(open, prepare)                                                                      \
	RIG_SETUP(struct rig, open, prepare)                                                           \
	static int teardown(void **state)                                                              \
	{                                                                                              \
		return rig_teardown(state);                                                                \
	}

#define RIG(prepare) RIG_IN(place_open_with_tables, prepare)

/* Stuck jobs 1…n: each silent since 2020, owned by w<id>, at its first attempt. */
static inline void rig_fill(struct rig *g, int n)
{
	char sql[512];
	rig_sql(g, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, owner TEXT, kind TEXT, "
	           "attempts INTEGER, flag INTEGER, beat_at INTEGER, error TEXT)");
	rig_sql(g, "CREATE TABLE beats (job INTEGER PRIMARY KEY, at INTEGER)");
	for (int i = 1; i <= n; i++) {
		snprintf(sql, sizeof sql,
		         "INSERT INTO jobs VALUES (%d, 'running', 'w%d', 'a', 1, 0, 1577836800, NULL)", i,
		         i);
		rig_sql(g, sql);
		snprintf(sql, sizeof sql, "INSERT INTO beats VALUES (%d, 1577836800)", i);
		rig_sql(g, sql);
	}
}

/* A watch over jobs; `more` are further lines of it, indented by four. */
static inline const struct watch *rig_watch(struct rig *g, const char *sign, const char *more)
{
	struct buf text = BUF_INIT;
	struct cfg_reader r;
	struct cfg_node *root;
	struct failure f = {0};
	buf_addf(&text,
	         "databases: [{name: rig, url: \"%s\"}]\nwatches:\n  - name: jobs\n    table: jobs\n"
	         "    key: id\n    running: status = 'running'\n    owner: owner\n    kind: kind\n"
	         "    attempts: attempts\n    max_attempts: 5\n    time_type: epoch\n"
	         "    alive_at: %s\n    stuck_after: 1h\n    reason: it was stuck\n%s",
	         g->url, sign, more);
	cfg_reader_init(&r, &g->arena);
	if (cfg_parse(buf_text(&text), "rig", &g->arena, &root, &f))
		fail_msg("%s", f.what);
	settings_read(&r, root, (const struct section *const[]){NULL}, &g->settings);
	for (int i = 0; i < r.nproblems; i++)
		fail_msg("%s", r.problems[i].text);
	cfg_reader_release(&r);
	buf_release(&text);
	return &g->settings.watches[0];
}

#define RIG_REQUEUE "    requeue: status = 'queued', error = :reason, owner = NULL\n"

static inline int64_t rig_requeued(struct rig *g)
{
	return number(g->other, "SELECT count(*) FROM jobs WHERE status = 'queued' AND owner IS NULL "
	                        "AND error = 'it was stuck'");
}

/* Entries that recover; 0 also if there is no ledger yet. */
static inline int64_t rig_entries(struct rig *g)
{
	static const char *const there[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM pg_tables WHERE schemaname = 'defib'",
		[STORE_SQLITE] = "SELECT count(*) FROM sqlite_master WHERE name = 'defib_ledger'",
	};
	static const char *const entries[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM defib.ledger WHERE event = 'REQUEUED'",
		[STORE_SQLITE] = "SELECT count(*) FROM defib_ledger WHERE event = 'REQUEUED'",
	};
	return number(g->other, there[g->engine]) ? number(g->other, entries[g->engine]) : 0;
}

/* Rows and ledger agree: each requeued row has one entry, no other row has any. */
static inline void rig_agrees(struct rig *g)
{
	static const char *const wrong[] = {
		[STORE_POSTGRES] = "SELECT count(*) FROM jobs j FULL JOIN (SELECT job, count(*) AS n FROM "
						   "defib.ledger WHERE event = 'REQUEUED' GROUP BY job) l "
						   "ON l.job = j.id::text WHERE coalesce(l.n, 0) <> "
						   "CASE WHEN j.status = 'queued' THEN 1 ELSE 0 END",
		[STORE_SQLITE] =
			"SELECT count(*) FROM jobs j LEFT JOIN (SELECT job, count(*) AS n FROM "
			"defib_ledger WHERE event = 'REQUEUED' GROUP BY job) l ON l.job = j.id "
			"WHERE coalesce(l.n, 0) <> CASE WHEN j.status = 'queued' THEN 1 ELSE 0 END",
	};
	int64_t entries = rig_entries(g);
	assert_int_equal(rig_requeued(g), entries);
	if (entries)
		assert_int_equal(number(g->other, wrong[g->engine]), 0);
}

#endif
