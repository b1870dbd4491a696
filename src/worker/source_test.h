/* SPDX-License-Identifier: Apache-2.0
 * source_test.h: what the tests of both sources share: a database with defib's tables on either
 * engine, workers made by hand, and helpers for claiming and settling.
 */
#ifndef WORKER_SOURCE_TEST_H
#define WORKER_SOURCE_TEST_H

#include "ledger/schema.h"
#include "recover/recover_test.h"
#include "worker/source.h"

struct bench {
	struct rig rig;
	struct store *two; /* a second session */
	struct source *source;
	struct arena arena;
};

/* Runs SQL that says PG(…|…): the first part on PostgreSQL, the second on SQLite. */
static inline const char *bench_text(struct bench *b, const char *sql)
{
	struct buf out = BUF_INIT;
	while (*sql) {
		if (strncmp(sql, "PG(", 3) != 0) {
			buf_addch(&out, *sql++);
			continue;
		}
		const char *bar = strchr(sql, '|'), *end = strchr(sql, ')');
		assert_true(bar && end && bar < end);
		if (b->rig.engine == STORE_POSTGRES)
			buf_addn(&out, sql + 3, (size_t)(bar - sql - 3));
		else
			buf_addn(&out, bar + 1, (size_t)(end - bar - 1));
		sql = end + 1;
	}
	const char *text = arena_strdup(&b->arena, buf_text(&out));
	buf_release(&out);
	return text;
}

static inline void bench_sql(struct bench *b, const char *sql)
{
	rig_sql(&b->rig, bench_text(b, sql));
}

static inline int64_t bench_number(struct bench *b, const char *sql)
{
	return number(b->rig.other, bench_text(b, sql));
}

#define LEASES "PG(defib.lease|defib_lease)"
#define WORKERS "PG(defib.worker|defib_worker)"
#define LEDGER "PG(defib.ledger|defib_ledger)"
#define JOBS_TABLE "PG(defib.job|defib_job)"
/* Times of the user's tables. */
#define TIME "PG(timestamptz|TEXT)"

static inline void bench_prepare(struct rig *g)
{
	struct bench *b = (struct bench *)g;
	b->two = open_with((struct store_options){.url = g->url});
}

static inline struct bench *bench_of(void **state)
{
	struct bench *b = *state;
	if (!b->rig.other)
		need_env("DEFIB_TEST_PG");
	return b;
}

static inline int bench_setup(void **state, enum store_engine engine)
{
	return rig_setup(state, engine, place_open_with_tables, sizeof(struct bench), bench_prepare);
}

static inline int setup_postgres(void **state)
{
	return bench_setup(state, STORE_POSTGRES);
}

static inline int setup_sqlite(void **state)
{
	return bench_setup(state, STORE_SQLITE);
}

static inline int teardown(void **state)
{
	struct bench *b = *state;
	if (b->source)
		b->source->ops->free(b->source);
	store_close(b->two);
	arena_release(&b->arena);
	return rig_teardown(state);
}

#define SQLITE_NOW "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* A worker that is alive, without renewals for as long as a test takes; its name is w<id>. */
static inline int64_t bench_worker(struct bench *b)
{
	bench_sql(
		b, b->rig.engine == STORE_POSTGRES
			   ? "INSERT INTO defib.worker (name, incarnation, expires_at) SELECT 'w' || count(*) "
				 "+ 1, 'i' || count(*) + 1, now() + interval '1 hour' FROM defib.worker"
			   : "INSERT INTO defib_worker (name, incarnation, started_at, renewed_at, expires_at) "
				 "SELECT "
				 "'w' || (count(*) + 1), 'i' || (count(*) + 1), " SQLITE_NOW ", " SQLITE_NOW
				 ", " SQLITE_NOW " + 3600000 FROM defib_worker");
	return bench_number(b, "SELECT max(id) FROM " WORKERS);
}

static inline void bench_dies(struct bench *b, int64_t worker)
{
	char sql[128];
	snprintf(sql, sizeof sql, "UPDATE " WORKERS " SET state = 'dead' WHERE id = %lld",
	         (long long)worker);
	bench_sql(b, sql);
}

/* Claims with the first session. */
static inline int bench_claim(struct bench *b, int64_t worker, int64_t n, struct claimed **out)
{
	struct failure f = {0};
	int got = 0;
	if (b->source->ops->claim(b->source, b->rig.other, worker, n, &b->arena, out, &got, &f))
		fail_msg("%s", f.what);
	return got;
}

/* Claims one job, which must be there. */
static inline struct claimed bench_one(struct bench *b, int64_t worker)
{
	struct claimed *jobs;
	assert_int_equal(bench_claim(b, worker, 1, &jobs), 1);
	return jobs[0];
}

static inline bool bench_settle(struct bench *b, int64_t worker, const struct claimed *job,
                                enum settle_as as, const char *result, const char *error)
{
	struct failure f = {0};
	struct settlement s = {.key = job->key,
	                       .epoch = job->epoch,
	                       .as = as,
	                       .result = result,
	                       .error = error,
	                       .delay_ms = -1};
	if (b->source->ops->settle(b->source, b->two, worker, &s, 1, &b->arena, &f))
		fail_msg("%s", f.what);
	return s.accepted;
}

static inline int64_t bench_late(struct bench *b)
{
	return bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'LATE_COMPLETION'");
}

#endif
