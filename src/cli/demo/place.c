/* SPDX-License-Identifier: Apache-2.0
 * demo/place.c: the place of the demonstration: a directory of its own, a new database in it or one
 * that was named, jobs and pages; and the removal of all that.
 *
 * In a database that was named, everything of ours carries the run's name: the queue, the table of
 * pages, the workers. Only the ledger keeps its entries.
 */
#include "cli/demo/place.h"

#include "cli/demo/demo.h"
#include "ledger/schema.h"
#include "store/dialect.h"
#include "worker/queue.h"
#include "worker/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAILS_A_SECOND 55
#define MAILS_AN_ORDER 40
#define PAGES_A_SECOND 3
#define NOWHERE_EVERY 5 /* orders that cannot be shipped, and are rolled back */

/*
 * The work: it takes a moment and leaves a file. If the file exists, the run fails, so that an
 * epoch that ran twice is noticed.
 */
static const char job_script[] =
	"#!/bin/sh\n"
	"# A job of the demonstration: some time, and an effect that can be counted.\n"
	"set -euC\n"
	"if [ \"$DEFIB_KIND\" = poison ]; then\n"
	"\tsleep 0.7\n"
	"\tkill -9 $PPID # its worker, each time\n"
	"\texec sleep 60\n"
	"fi\n"
	"step=${DEFIB_UNDO:+undo_}${DEFIB_WORKFLOW:+$DEFIB_STEP}\n"
	"if [ \"$step\" = ship ] && grep -q nowhere; then\n"
	"\techo 'there is no such address' >&2\n"
	"\texit 65\n"
	"fi\n"
	"sleep 0.$((100 + DEFIB_JOB_ID * 7919 % 200))\n"
	": >\"$DEMO_EFFECTS/job.$DEFIB_JOB_ID.${step:-job}.$DEFIB_EPOCH\"\n";

static const char config_text[] =
	"# Written by defib demo.\n"
	"databases:\n"
	"  - {name: demo, url: \"${DEFIB_DEMO_URL}\"}\n"
	"watches:\n"
	"  - name: %s\n"
	"    table: %s\n"
	"    key: id\n"
	"    running: status = 'Processing'\n"
	"    alive_at: updated_at\n"
	"    stuck_after: %lldms\n"
	"    every: 500ms\n"
	"    show: [url]\n"
	"    requeue: status = 'Queued', error = :reason, updated_at = :now\n"
	"    reason: Auto-reset from stuck Processing state\n"
	"workflows:\n"
	"  - name: order\n"
	"    saga: true\n"
	"    pass_environment: DEMO_EFFECTS\n"
	"    steps:\n"
	"      - {name: reserve, run: [%s/job], undo: [%s/job]}\n"
	"      - {name: charge, run: [%s/job], undo: [%s/job]}\n"
	"      - {name: ship, run: [%s/job]}\n";

/* ---- the directory ---- */

static defib_err write_file(const char *path, const char *text, mode_t mode, struct failure *f)
{
	size_t n = strlen(text);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;
	if (fd >= 0)
		ok = close(fd) == 0 && ok;
	return ok ? DEFIB_OK : fail(f, DEFIB_IO, "cannot write %s: %s", path, strerror(errno));
}

static defib_err make_folder(struct demo *d, struct failure *f)
{
	const char *tmp = getenv("TMPDIR");
	int n =
		snprintf(d->folder, sizeof d->folder, "%s/defib-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (n >= (int)sizeof d->folder || !mkdtemp(d->folder)) {
		fail(f, DEFIB_IO, "cannot create a directory in %s: %s", tmp && *tmp ? tmp : "/tmp",
		     strerror(errno));
		fail_next(f, "set TMPDIR to a writable directory");
		d->folder[0] = '\0';
		return f->code;
	}
	snprintf(d->run, sizeof d->run, "demo-%s", d->folder + strlen(d->folder) - 6);
	snprintf(d->effects, sizeof d->effects, "%s/effects", d->folder);
	if (mkdir(d->effects, 0700) != 0)
		return fail(f, DEFIB_IO, "cannot create %s: %s", d->effects, strerror(errno));
	return DEFIB_OK;
}

/* The queue has the run's name; the table's name needs no quotes. */
static void demo_place_name_things(struct demo *d)
{
	struct arena *a = &d->cli->arena;
	char *table = arena_printf(a, "demo_pages_%s", d->run + strlen("demo-"));
	for (char *p = table; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	d->queue = d->db ? d->run : "demo";
	d->pages = d->db ? table : "pages";
	d->url = d->db ? d->db : arena_printf(a, "sqlite:%s/demo.db", d->folder);
}

static defib_err write_files(struct demo *d, struct failure *f)
{
	struct arena *a = &d->cli->arena;
	const char *at = d->folder;
	const char *text = arena_printf(a, config_text, d->pages, d->pages, (long long)d->lease_ms, at,
	                                at, at, at, at);
	defib_err err = write_file(arena_printf(a, "%s/defib.yaml", at), text, 0600, f);
	return err ? err : write_file(arena_printf(a, "%s/job", at), job_script, 0700, f);
}

/* ---- the database ---- */

static defib_err open_store(const struct demo *d, struct store **out, struct failure *f)
{
	struct store_options o = {.url = d->url, .name = "demo", .create = !d->db};
	return store_open(&o, out, f);
}

defib_err demo_ask(struct demo *d, const char *sql, const struct store_param *params, int nparams,
                   struct arena *a, struct store_rows *rows, struct failure *f)
{
	if (d->store && d->store->lost) {
		store_close(d->store);
		d->store = NULL;
	}
	defib_err err = d->store ? DEFIB_OK : open_store(d, &d->store, f);
	return err ? err : dialect_exec(d->store, sql, params, nparams, a, rows, f);
}

/* Workers recover the jobs of any dead worker: we must not start that where others work. */
static defib_err check_alone(struct demo *d, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err =
		demo_ask(d, "SELECT count(*) FROM defib.job WHERE state IN ('running', 'cancelling')", NULL,
	             0, &a, &rows, f);
	int64_t running = err ? 0 : row_int(&rows, 0, 0, 0);
	if (running > 0) {
		err = fail(f, DEFIB_REFUSED, "%lld jobs are running in this database", (long long)running);
		fail_next(f, "the demonstration kills workers: use a database without running jobs");
	}
	return err;
}

static defib_err demo_place_read_clock(struct demo *d, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err =
		demo_ask(d, "SELECT {us {now}} / 1000, (SELECT coalesce(max(id), 0) FROM defib.ledger)",
	             NULL, 0, &a, &rows, f);
	if (!err) {
		d->begun_us = row_int(&rows, 0, 0, 0) * 1000;
		d->last_entry = row_int(&rows, 0, 1, 0);
	}
	return err;
}

static defib_err make_pages(struct demo *d, struct failure *f)
{
	static const char types[] = "CREATE TABLE %s (id bigint PRIMARY KEY, url text NOT NULL, "
								"status text NOT NULL, attempts bigint NOT NULL DEFAULT 0, "
								"error text, updated_at timestamptz NOT NULL DEFAULT now())";
	static const char untyped[] = "CREATE TABLE %s (id INTEGER PRIMARY KEY, url TEXT NOT NULL, "
								  "status TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, "
								  "error TEXT, updated_at INTEGER NOT NULL)";
	AUTO_ARENA a = ARENA_INIT;
	bool typed = dialect_of(d->engine)->has_time_types;
	d->npages = (int)(d->seconds * PAGES_A_SECOND);
	defib_err err =
		demo_ask(d, arena_printf(&a, typed ? types : untyped, d->pages), NULL, 0, &a, NULL, f);
	d->made = d->made || !err;
	struct store_param n = P_INT(d->npages);
	if (!err)
		err = demo_ask(
			d,
			arena_printf(&a,
		                 typed
		                     ? "INSERT INTO %s (id, url, status) SELECT n, "
		                       "'https://example.com/' || n, 'Queued' FROM "
		                       "generate_series(1, $1::bigint) n"
		                     : "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
		                       "WHERE n < ?1) INSERT INTO %s (id, url, status, updated_at) SELECT "
		                       "n, 'https://example.com/' || n, 'Queued', " SQLITE_NOW_MS " FROM n",
		                 d->pages),
			&n, 1, &a, NULL, f);
	return err;
}

defib_err demo_place_make(struct demo *d, struct failure *f)
{
	defib_err err = make_folder(d, f);
	if (err)
		return err;
	demo_place_name_things(d);
	if (!store_engine_of(d->url, &d->engine, f))
		return f->code;
	err = write_files(d, f);
	if (!err)
		err = open_store(d, &d->store, f);
	if (!err)
		err = schema_install(d->store, SCHEMA_QUEUE, f);
	if (!err && d->db)
		err = check_alone(d, f);
	if (!err)
		err = demo_place_read_clock(d, f);
	return err ? err : make_pages(d, f);
}

/* ---- jobs ---- */

static defib_err demo_place_add_jobs(struct demo *d, struct enqueue *jobs, int n, struct failure *f)
{
	struct failure mine = {0};
	d->ids = mem_grow(d->ids, sizeof *d->ids * (size_t)(d->nids + n));
	defib_err err = enqueue_jobs(d->store, jobs, n, d->ids + d->nids, &mine);
	if (err) {
		*f = mine;
		return err;
	}
	d->nids += n;
	d->made = true;
	return DEFIB_OK;
}

defib_err demo_place_fill(struct demo *d, struct failure *f)
{
	struct enqueue jobs[MAILS_AN_ORDER + 1];
	int64_t groups = d->seconds * MAILS_A_SECOND / MAILS_AN_ORDER;
	defib_err err = DEFIB_OK;
	for (int64_t g = 0; g < groups && !err; g++) {
		for (int i = 0; i <= MAILS_AN_ORDER; i++)
			jobs[i] = (struct enqueue){.queue = d->queue, .kind = "mail", .max_attempts = 20};
		struct enqueue *order = &jobs[MAILS_AN_ORDER];
		order->kind = "order";
		order->priority = 1;
		order->payload = g % NOWHERE_EVERY ? "{\"item\":\"lamp\",\"address\":\"home\"}"
		                                   : "{\"item\":\"lamp\",\"address\":\"nowhere\"}";
		err = demo_place_add_jobs(d, jobs, MAILS_AN_ORDER + 1, f);
	}
	wake_send(d->store, d->url);
	return err;
}

defib_err demo_poison(struct demo *d, struct failure *f)
{
	struct enqueue job = {.queue = d->queue, .kind = "poison", .priority = 10, .max_attempts = 20};
	defib_err err = demo_place_add_jobs(d, &job, 1, f);
	if (!err) {
		d->poison = d->ids[d->nids - 1];
		wake_send(d->store, d->url);
	}
	return err;
}

bool demo_is_ours(const struct demo *d, int64_t job)
{
	int low = 0, high = d->nids;
	while (low < high) {
		int middle = low + (high - low) / 2;
		if (d->ids[middle] < job)
			low = middle + 1;
		else
			high = middle;
	}
	return low < d->nids && d->ids[low] == job;
}

/* ---- removal ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

/* From a database that is used after us. */
static void demo_place_remove_rows(struct demo *d)
{
	static const char *const owned[] = {
		"DELETE FROM defib.job_data WHERE job IN (SELECT id FROM defib.job WHERE queue = $1)",
		"DELETE FROM defib.progress WHERE job IN (SELECT id FROM defib.job WHERE queue = $1)",
		("DELETE FROM defib.step WHERE watch = 'queue' AND job IN (SELECT CAST(id AS text) FROM "
	     "defib.job WHERE queue = $1)"),
		("DELETE FROM defib.step_attempt WHERE watch = 'queue' AND job IN (SELECT CAST(id AS text) "
	     "FROM defib.job WHERE queue = $1)"),
		"DELETE FROM defib.job WHERE queue = $1",
		"DELETE FROM defib.worker WHERE name LIKE $1 || '-%'",
	};

	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct store_param queue = P_TEXT(d->queue);
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof owned / sizeof *owned && !err; i++)
		err = demo_ask(d, owned[i], &queue, 1, &a, NULL, &f);
	if (!err)
		err = demo_ask(d, arena_printf(&a, "DROP TABLE IF EXISTS %s", d->pages), NULL, 0, &a, NULL,
		               &f);
	if (err)
		cli_message(f.what, arena_printf(&a, "left in the database: queue %s and table %s",
		                                 d->queue, d->pages));
}

void demo_place_remove(struct demo *d)
{
	store_close(d->lock);
	if (d->db && d->made)
		demo_place_remove_rows(d);
	store_close(d->store);
	d->lock = d->store = NULL;
	if (d->folder[0])
		(void)nftw(d->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(d->ids);
	free(d->entries);
}
