/* SPDX-License-Identifier: Apache-2.0
 * tables_test.h: the tables of the systems that the language of watches was made for, as sources of
 * jobs, with their own columns and values.
 */
#ifndef WORKER_TABLES_TEST_H
#define WORKER_TABLES_TEST_H

#include "watch/examples_test.h"
#include "watch/watch_test.h"
#include "worker/source.h"
#include "worker/source_table.h"
#include "worker/source_test.h"

static struct reading reading;

static inline void read_yaml(const char *yaml)
{
	reading_release(&reading);
	reading_open(&reading, yaml);
	assert_clean(&reading);
}

static inline const struct watch *named(const char *name)
{
	for (int i = 0; i < reading.settings.nwatches; i++)
		if (strcmp(reading.settings.watches[i].name, name) == 0)
			return &reading.settings.watches[i];
	fail_msg("no watch %s", name);
	return NULL;
}

static inline void open_source(struct bench *b, const char *watch, const char *kind)
{
	struct failure f = {0};
	if (b->source)
		b->source->ops->free(b->source);
	if (source_table(named(watch), kind, b->rig.other, &b->source, &f))
		fail_msg("%s", f.what);
}

/* Of work: the lists that every watch with work has. */
#define ENDS "done: \"status = 'done'\", failed: \"status = 'failed'\", "
/* Of work: hands a lab back, so that a claim list may be given. */
#define HANDS_BACK "release: \"status = 'running'\", "

/* A watch of ours over the table of the labs: `more` are lines of it. */
static inline void labs_with(const char *more)
{
	struct buf yaml = BUF_INIT;
	buf_addf(
		&yaml,
		"databases: [{name: main, url: 'sqlite:jobs.db'}]\nwatches:\n  - name: labs\n"
		"    table: labs\n    key: id\n    running: status = 'ending'\n    alive_at: updated_at\n"
		"    stuck_after: 10m\n    remedies: [{do: report}]\n%s",
		more);
	read_yaml(buf_text(&yaml));
	buf_release(&yaml);
}

/* ---- the tables ---- */

static inline void run_all(struct bench *b, const char *const *sql)
{
	for (; *sql; sql++)
		bench_sql(b, *sql);
}

static inline void open_sitemaps(struct bench *b)
{
	static const char *const sql[] = {
		"CREATE TABLE sitemap_files (id PG(bigint|INTEGER) PRIMARY KEY, domain TEXT, "
		"sitemap_import_status TEXT, sitemap_import_error TEXT, updated_at " TIME ")",
		"INSERT INTO sitemap_files VALUES (1, 'c', 'Queued', NULL, '2026-01-03 00:00:00')",
		"INSERT INTO sitemap_files VALUES (2, 'a', 'Queued', 'old', '2026-01-01 00:00:00')",
		"INSERT INTO sitemap_files VALUES (3, 'b', 'Queued', NULL, '2026-01-02 00:00:00')",
		"INSERT INTO sitemap_files VALUES (4, 'd', 'Complete', NULL, '2025-01-02 00:00:00')",
		NULL};
	run_all(b, sql);
	read_yaml(examples_yaml);
	open_source(b, "sitemaps", NULL);
}

static inline void open_jobs(struct bench *b, const char *kind)
{
	static const char *const sql[] = {
		"CREATE TABLE jobs (id TEXT PRIMARY KEY, type TEXT, status TEXT, error TEXT, "
		"created_at " TIME ", updated_at " TIME ", completed_at " TIME ")",
		"INSERT INTO jobs VALUES ('a', 'crawl', 'queued', NULL, '2026-01-01 00:00:00', '2026-01-01 "
		"00:00:00', NULL)",
		"INSERT INTO jobs VALUES ('b', 'scrape', 'queued', NULL, '2026-01-02 00:00:00', "
		"'2026-01-02 "
		"00:00:00', NULL)",
		NULL};
	run_all(b, sql);
	read_yaml(examples_yaml);
	open_source(b, "jobs", kind);
}

static inline void fill_labs(struct bench *b)
{
	static const char *const sql[] = {
		"CREATE TABLE labs (id PG(bigint|INTEGER) PRIMARY KEY, owner_id TEXT, status TEXT, origin "
		"TEXT, error TEXT, updated_at " TIME ", finished_at " TIME ")",
		"INSERT INTO labs VALUES (1, 'secret', 'ending', 'auto', NULL, '2026-01-01 00:00:00', "
		"NULL)",
		"INSERT INTO labs VALUES (2, 'secret', 'ending', 'auto', NULL, '2026-01-02 00:00:00', "
		"NULL)",
		"INSERT INTO labs VALUES (3, 'secret', 'ending', 'user', NULL, '2026-01-05 00:00:00', "
		"NULL)",
		"INSERT INTO labs VALUES (4, 'secret', 'ending', NULL, NULL, '2026-01-03 00:00:00', NULL)",
		"INSERT INTO labs VALUES (5, 'secret', 'ending', 'user', NULL, '2026-01-04 00:00:00', "
		"NULL)",
		"INSERT INTO labs VALUES (6, 'secret', 'running', 'user', NULL, '2026-01-01 00:00:00', "
		"NULL)",
		NULL};
	run_all(b, sql);
}

static inline void open_labs(struct bench *b)
{
	fill_labs(b);
	read_yaml(examples_yaml);
	open_source(b, "labs", NULL);
}

static inline void open_ocr(struct bench *b)
{
	static const char *const sql[] = {
		"CREATE TABLE extraction_queue (id PG(bigint|INTEGER) PRIMARY KEY, document_number TEXT, "
		"status_id INTEGER, file_content TEXT, boosted_file_content TEXT, document_source TEXT, "
		"ocr_attempts INTEGER DEFAULT 0, ocr_max_attempts INTEGER, ocr_worker_id TEXT, ocr_error "
		"TEXT, "
		"ocr_started_at " TIME ", ocr_completed_at " TIME ", ocr_last_error_at " TIME
		", updated_at " TIME ")",
		"INSERT INTO extraction_queue (id, status_id, document_source, ocr_error, updated_at) "
		"VALUES "
		"(1, 3, 'index', 'old', '2026-01-01 00:00:00')",
		NULL};
	run_all(b, sql);
	read_yaml(examples_yaml);
	open_source(b, "ocr", NULL);
}

static inline struct scan_result scan(struct bench *b, const char *watch)
{
	struct session session = rig_session(&b->rig);
	struct scan_options o = {.fix = true, .actor = "test"};
	struct scan_result r;
	if (scan_watch(&session, named(watch), &o, &r))
		fail_msg("%s", r.failure.what);
	store_close(session.store);
	return r;
}

#endif
