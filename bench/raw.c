/* SPDX-License-Identifier: Apache-2.0
 * raw.c: what the database and the kernel can do by themselves, to compare with defib's speed.
 *
 *     raw work URL QUEUE BATCH           claim UPDATE, settle UPDATE: two commits per batch
 *     raw insert URL QUEUE BATCH JOBS    into the tables of the queue; BATCH 1: one by one
 *     raw spawn IN_HAND JOBS [FILE]      /bin/true by posix_spawn; FILE: a synced write per child
 *
 * URL is one of PostgreSQL, or sqlite:PATH (WAL, synchronous FULL: as durable as PostgreSQL). The
 * tables are those of defib with all their indexes; one session, one thread, everything prepared,
 * no leases, no detection of dead workers, no history. Prints the begin and end (CLOCK_BOOTTIME,
 * ns) and the number of jobs; `work` only the number.
 */
#include <fcntl.h>
#include <libpq-fe.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD "{\"to\":\"ada@example.org\"}"

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long begun; /* when everything was prepared */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "raw: %s\n", what);
	exit(1);
}

/* ---- PostgreSQL ---- */

static PGresult *pg(PGconn *conn, const char *name, int n, const char *const *values)
{
	PGresult *r = PQexecPrepared(conn, name, n, values, NULL, NULL, 0);
	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
		die(PQerrorMessage(conn));
	return r;
}

static PGconn *pg_open(const char *url)
{
	PGconn *conn = PQconnectdb(url);
	if (PQstatus(conn) != CONNECTION_OK)
		die(PQerrorMessage(conn));
	return conn;
}

static void pg_prepare(PGconn *conn, const char *name, const char *sql)
{
	PGresult *r = PQprepare(conn, name, sql, 0, NULL);
	if (PQresultStatus(r) != PGRES_COMMAND_OK)
		die(PQerrorMessage(conn));
	PQclear(r);
}

/* The ids and epochs of a claim as two array literals. */
static void pg_arrays(const PGresult *r, char *ids, char *epochs)
{
	for (int i = 0; i < PQntuples(r); i++) {
		ids += sprintf(ids, "%c%s", i ? ',' : '{', PQgetvalue(r, i, 0));
		epochs += sprintf(epochs, "%c%s", i ? ',' : '{', PQgetvalue(r, i, 1));
	}
	strcpy(ids, "}");
	strcpy(epochs, "}");
}

static int pg_work(const char *url, const char *queue, const char *batch)
{
	size_t room = 24 * (size_t)atoll(batch) + 8;
	char *ids = malloc(room), *epochs = malloc(room);
	PGconn *conn = pg_open(url);
	int done = 0;
	PQclear(PQexec(conn, "SET plan_cache_mode = force_custom_plan"));
	PQclear(PQexec(conn, "SET enable_seqscan = off"));
	pg_prepare(
		conn, "claim",
		"UPDATE defib.job j SET state = 'running', owner = 1, epoch = j.epoch + 1, attempts = "
		"j.attempts + 1, claimed_at = clock_timestamp() WHERE j.id = ANY (ARRAY(SELECT r.id "
		"FROM defib.job r WHERE r.state = 'queued' AND r.queue = $1 ORDER BY r.priority DESC, "
		"r.id LIMIT $2::int FOR NO KEY UPDATE SKIP LOCKED)) RETURNING j.id, j.epoch, (SELECT "
		"d.payload FROM defib.job_data d WHERE d.job = j.id)");
	pg_prepare(
		conn, "settle",
		"UPDATE defib.job j SET state = 'done', owner = NULL, finished_at = clock_timestamp() "
		"FROM unnest($1::bigint[], $2::bigint[]) AS g(id, epoch) WHERE j.id = g.id AND "
		"j.epoch = g.epoch AND j.state = 'running'");
	for (;;) {
		PGresult *r = pg(conn, "claim", 2, (const char *const[]){queue, batch});
		int n = PQntuples(r);
		if (n > 0)
			pg_arrays(r, ids, epochs);
		PQclear(r);
		if (n == 0)
			break;
		PQclear(pg(conn, "settle", 2, (const char *const[]){ids, epochs}));
		done += n;
	}
	PQfinish(conn);
	free(ids);
	free(epochs);
	return done;
}

static int pg_insert(const char *url, const char *queue, const char *batch, int jobs)
{
	PGconn *conn = pg_open(url);
	bool one = atoi(batch) == 1;
	int done = 0;
	pg_prepare(conn, "insert one",
	           "WITH u AS (INSERT INTO defib.job (queue, kind) VALUES ($1, $2) RETURNING id) "
	           "INSERT INTO defib.job_data (job, payload) SELECT id, $3::jsonb FROM u");
	pg_prepare(
		conn, "insert",
		"WITH u AS (INSERT INTO defib.job (queue, kind) SELECT $1, 'nothing' FROM "
		"generate_series(1, $2::int) RETURNING id) INSERT INTO defib.job_data (job, payload) "
		"SELECT id, $3::jsonb FROM u");
	begun = now_ns();
	for (; done < jobs; done += atoi(batch))
		PQclear(pg(conn, one ? "insert one" : "insert", 3,
		           (const char *const[]){queue, one ? "nothing" : batch, PAYLOAD}));
	PQfinish(conn);
	return done;
}

/* ---- SQLite ---- */

#define NOW_MS "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

static sqlite3 *lite_open(const char *path)
{
	sqlite3 *db;
	if (sqlite3_open(path, &db) || sqlite3_busy_timeout(db, 10000) ||
	    sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", NULL, NULL, NULL))
		die(sqlite3_errmsg(db));
	return db;
}

static sqlite3_stmt *lite(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt;
	if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL))
		die(sqlite3_errmsg(db));
	return stmt;
}

/* Runs it to its end; collects the ids and epochs of the returned rows. */
static int step_all(sqlite3 *db, sqlite3_stmt *stmt, long long (*rows)[2])
{
	int rc, n = 0;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		rows[n][0] = sqlite3_column_int64(stmt, 0);
		rows[n++][1] = sqlite3_column_int64(stmt, 1);
	}
	if (rc != SQLITE_DONE)
		die(sqlite3_errmsg(db));
	sqlite3_reset(stmt);
	return n;
}

static int lite_work(const char *path, const char *queue, int batch)
{
	sqlite3 *db = lite_open(path);
	long long(*rows)[2] = calloc((size_t)batch, sizeof *rows);
	sqlite3_stmt *begin = lite(db, "BEGIN IMMEDIATE"), *commit = lite(db, "COMMIT");
	sqlite3_stmt *claim = lite(
		db, "UPDATE defib_job SET state = 'running', owner = 1, epoch = epoch + 1, attempts = "
			"attempts + 1, claimed_at = " NOW_MS " WHERE id IN (SELECT id FROM defib_job WHERE "
			"state = 'queued' AND queue = ?1 ORDER BY priority DESC, id LIMIT ?2) RETURNING id, "
			"epoch, (SELECT d.payload FROM defib_job_data d WHERE d.job = id)");
	sqlite3_stmt *settle =
		lite(db, "UPDATE defib_job SET state = 'done', owner = NULL, finished_at = " NOW_MS
	             " WHERE id = ?1 AND epoch = ?2 AND +state = 'running'");
	int done = 0, n;
	sqlite3_bind_text(claim, 1, queue, -1, SQLITE_STATIC);
	sqlite3_bind_int(claim, 2, batch);
	for (;; done += n) {
		step_all(db, begin, NULL);
		n = step_all(db, claim, rows);
		step_all(db, commit, NULL);
		if (n == 0)
			break;
		step_all(db, begin, NULL);
		for (int i = 0; i < n; i++) {
			sqlite3_bind_int64(settle, 1, rows[i][0]);
			sqlite3_bind_int64(settle, 2, rows[i][1]);
			step_all(db, settle, NULL);
		}
		step_all(db, commit, NULL);
	}
	sqlite3_stmt *all[] = {begin, commit, claim, settle};
	for (int i = 0; i < 4; i++)
		sqlite3_finalize(all[i]);
	sqlite3_close(db);
	free(rows);
	return done;
}

static int lite_insert(const char *path, const char *queue, int batch, int jobs)
{
	sqlite3 *db = lite_open(path);
	sqlite3_stmt *begin = lite(db, "BEGIN IMMEDIATE"), *commit = lite(db, "COMMIT");
	sqlite3_stmt *job = lite(db, "INSERT INTO defib_job (queue, kind, created_at, run_at) VALUES "
	                             "(?1, 'nothing', " NOW_MS ", " NOW_MS ")");
	sqlite3_stmt *data = lite(db, "INSERT INTO defib_job_data (job, payload) VALUES (?1, ?2)");
	int done = 0;
	sqlite3_bind_text(job, 1, queue, -1, SQLITE_STATIC);
	sqlite3_bind_text(data, 2, PAYLOAD, -1, SQLITE_STATIC);
	begun = now_ns();
	for (; done < jobs; done += batch) {
		step_all(db, begin, NULL);
		for (int i = 0; i < batch; i++) {
			step_all(db, job, NULL);
			sqlite3_bind_int64(data, 1, sqlite3_last_insert_rowid(db));
			step_all(db, data, NULL);
		}
		step_all(db, commit, NULL);
	}
	sqlite3_stmt *all[] = {begin, commit, job, data};
	for (int i = 0; i < 4; i++)
		sqlite3_finalize(all[i]);
	sqlite3_close(db);
	return done;
}

/* ---- programs ---- */

static int spawn(int in_hand, int jobs, const char *path)
{
	extern char **environ;
	char *argv[] = {"/bin/true", NULL};
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	int started = 0, running = 0, done = 0;
	begun = now_ns();
	while (done < jobs) {
		pid_t pid;
		while (running < in_hand && started < jobs) {
			if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ))
				die("cannot spawn /bin/true");
			running++;
			started++;
		}
		if (wait(NULL) < 0)
			die("no child");
		running--;
		done++;
		if (fd >= 0 && (write(fd, "done\n", 5) != 5 || fdatasync(fd)))
			die("cannot write");
	}
	return done;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const char *file = argc > 2 && strncmp(argv[2], "sqlite:", 7) == 0 ? argv[2] + 7 : NULL;
	int jobs;
	if (argc == 5 && strcmp(verb, "work") == 0) {
		printf("%d\n",
		       file ? lite_work(file, argv[3], atoi(argv[4])) : pg_work(argv[2], argv[3], argv[4]));
		return 0;
	}
	if (argc == 6 && strcmp(verb, "insert") == 0)
		jobs = file ? lite_insert(file, argv[3], atoi(argv[4]), atoi(argv[5]))
		            : pg_insert(argv[2], argv[3], argv[4], atoi(argv[5]));
	else if ((argc == 4 || argc == 5) && strcmp(verb, "spawn") == 0)
		jobs = spawn(atoi(argv[2]), atoi(argv[3]), argc == 5 ? argv[4] : NULL);
	else
		return 2;
	printf("%lld %lld %d\n", begun, now_ns(), jobs);
	return 0;
}
