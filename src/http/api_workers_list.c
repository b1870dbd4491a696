/* SPDX-License-Identifier: Apache-2.0
 * api_workers_list.c: registered workers: who lives, who ended lately and why, what each has in
 * hand.
 */
#include "http/api_read.h"

#include "base/clock.h"
#include "base/text.h"
#include "daemon/heartbeats.h"
#include "life/roster.h"
#include "view/output.h"
#include "view/status.h"
#include "watch/builtin.h"

#define PAGE 100
#define PAGE_MOST 1000
#define JOBS_MOST 1000

/* PostgreSQL's names for a missing table and a missing schema; SQLite has only words. */
static bool no_tables(const struct failure *f)
{
	return text_eq(f->sqlstate, "42P01") || text_eq(f->sqlstate, "3F000") ||
	       strstr(f->what, "no such table") != NULL;
}

/* Where there are no tables of ours, nobody is registered. */
static bool roster(struct api_call *c, int64_t id, int64_t limit, struct roster_row **rows, int *n)
{
	struct failure f = {0};
	defib_err err = roster_read(c->session->store, id, limit, &c->arena, rows, n, &f);
	if (err && no_tables(&f)) {
		f.code = DEFIB_NOT_FOUND;
		fail_next(&f, "defib init creates the tables of workers");
	}
	return !err || read_failed(c, &f);
}

/* An object that is still open. */
static void add_worker(struct api_call *c, const struct roster_row *w)
{
	struct buf *out = &c->out->body;
	worker_json(w, c->role, &c->arena, out);
	if (c->api->beats)
		heartbeats_json(c->api->beats, c->database->name, w->id, clock_boot_ms(), out);
}

void read_workers(struct api_call *c)
{
	static const char *const takes[] = {"database", "limit", NULL};
	struct buf *out = &c->out->body;
	struct roster_row *rows;
	int64_t limit = PAGE;
	int n = 0, alive = 0;
	if (!api_query_takes(c, takes) || !api_query_int(c, "limit", 1, PAGE_MOST, &limit) ||
	    !roster(c, 0, limit + 1, &rows, &n))
		return;
	bool more = n > limit;
	n = more ? (int)limit : n;
	buf_add(out, "{\"database\":");
	buf_add_json(out, c->database->name);
	buf_add(out, ",\"workers\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n" : "\n");
		add_worker(c, &rows[i]);
		buf_add(out, "}");
		alive += text_eq(rows[i].state, "alive");
	}
	buf_add(out, "\n]");
	json_number(out, "alive", true, alive);
	json_bool(out, "more", more);
	buf_add(out, "}\n");
}

static bool add_jobs(struct api_call *c, int64_t id)
{
	struct buf *out = &c->out->body;
	struct roster_job *jobs;
	struct failure f = {0};
	int n = 0;
	if (roster_jobs(c->session->store, id, JOBS_MOST + 1, &c->arena, &jobs, &n, &f))
		return read_failed(c, &f);
	bool more = n > JOBS_MOST;
	n = more ? JOBS_MOST : n;
	buf_add(out, ",\"jobs\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",{\"watch\":" : "{\"watch\":");
		buf_add_json(out, jobs[i].watch ? jobs[i].watch : BUILTIN_NAME);
		json_text(out, "key", jobs[i].job);
		buf_add(out, "}");
	}
	buf_add(out, "]");
	json_bool(out, "more", more);
	return true;
}

void read_worker(struct api_call *c)
{
	static const char *const takes[] = {"database", NULL};
	struct roster_row *rows;
	int64_t id = 0;
	int n = 0;
	if (!api_query_takes(c, takes))
		return;
	if (!int_parse(c->parts[0], &id) || id <= 0)
		n = 0;
	else if (!roster(c, id, 1, &rows, &n))
		return;
	if (n == 0) {
		api_problem(c, 404, "there is no worker %s in database %s", c->parts[0], c->database->name);
		return;
	}
	add_worker(c, &rows[0]);
	if (add_jobs(c, id))
		buf_add(&c->out->body, "}\n");
}
