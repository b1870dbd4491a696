/* SPDX-License-Identifier: Apache-2.0
 * api_read.c: the jobs of a watch, one page at a time, and everything known about one: what `defib
 * list --json` and `defib show --json` print, masked for the caller's role; and what was lost and
 * recovered in a database, as incidents that read as one line each.
 */
#include "base/clock.h"
#include "daemon/heartbeats.h"
#include "http/api.h"
#include "http/api_act.h"
#include "http/api_history.h"
#include "http/api_values.h"
#include "http/thread_sessions.h"
#include "insight/story.h"
#include "life/roster.h"
#include "view/installation.h"
#include "view/job.h"
#include "view/ledger.h"
#include "view/story.h"

#define PAGE 50
#define PAGE_MOST 500
#define COUNTED_MOST 1000 /* beyond this the count is marked as a minimum */
/* A page must be fast: a list that takes longer is answered from the rows read by then. */
#define WITHIN_MS 60
#define WINDOWS_MS 250

/* ---- what handlers share ---- */

/* A parameter that is true or false; false after a problem. */
static bool api_read_flag(struct api_call *c, const char *name, bool *out)
{
	const char *text = api_query(c, name);
	if (!text || bool_parse(text, out))
		return true;
	return api_problem(c, 400, "%s must be true or false, not \"%s\"", name, text);
}

/* ---- a list ---- */

struct page {
	struct term terms[TERMS_MAX];
	struct browse ask;
	struct browse_bound bound;
	struct cursor after;
	bool count, judged;
};

static bool api_read_add_term(struct api_call *c, struct page *p, const char *text)
{
	struct term *t = &p->terms[p->ask.nterms];
	if (p->ask.nterms == TERMS_MAX)
		return api_problem(c, 400, "at most %d terms", TERMS_MAX);
	if (!api_term_named(c, text, t))
		return false;
	t->reach = viewer_reach(c->watch, &settings_http(&c->setup->settings)->mask, c->role);
	if (viewer_hides(c->watch, &settings_http(&c->setup->settings)->mask, c->role, t))
		return api_problem(
			c, 403,
			"\"%s\" searches columns, and the role %s does not see all their values: "
			"a search would find them; search for key, kind, state, age or verdict",
			text, role_names[c->role]);
	p->ask.nterms++;
	return true;
}

/* ?where=TERM as on the command line, and those with form fields. */
static bool api_read_terms(struct api_call *c, struct page *p)
{
	static const struct {
		const char *name, *term;
	} fields[] = {{"where", ""},
	              {"state", "state="},
	              {"verdict", "verdict="},
	              {"text", "text~"},
	              {"any", "any~"}};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int at = 0;
		const char *value;
		while ((value = api_query_next(c, fields[i].name, &at)) != NULL)
			if (!api_read_add_term(c, p, arena_printf(&c->arena, "%s%s", fields[i].term, value)))
				return false;
	}
	p->ask.terms = p->terms;
	return true;
}

static bool read_after(struct api_call *c, struct page *p)
{
	const char *text = api_query(c, "after");
	const struct cursor *x = &p->after;
	if (!text)
		return true;
	if (!cursor_parse(text, &c->arena, &p->after))
		return api_problem(c, 400, "after is not a cursor; use `next` of the previous page");
	if (!text_eq(x->watch, c->watch->name) || x->sort != p->ask.sort || x->desc != p->ask.desc ||
	    x->nkeys != c->watch->key.n)
		return api_problem(c, 400, "this cursor belongs to another list or order");
	p->ask.after = &p->after.at;
	return true;
}

static bool api_read_page(struct api_call *c, struct page *p)
{
	const char *sort = api_query(c, "sort");
	int order = sort ? word_index(list_sort_names, sort) : 0;
	*p = (struct page){.ask = {.limit = PAGE, .facts = true},
	                   .bound = {.within_ms = WITHIN_MS, .for_ms = WINDOWS_MS}};
	p->ask.bound = &p->bound;
	if (!api_read_terms(c, p) || !api_read_flag(c, "desc", &p->ask.desc) ||
	    !api_read_flag(c, "count", &p->count) || !api_read_flag(c, "judged", &p->judged) ||
	    !api_query_int(c, "limit", 1, PAGE_MOST, &p->ask.limit))
		return false;
	if (order < 0)
		return api_problem(c, 400, "sort must be key, age or state, not \"%s\"", sort);
	p->ask.sort = sort ? (enum list_sort)order : browse_sort(p->terms, p->ask.nterms);
	return read_after(c, p);
}

static struct cursor cursor_at(const struct api_call *c, const struct page *p,
                               const struct browse_position *at)
{
	return (struct cursor){.watch = c->watch->name,
	                       .sort = p->ask.sort,
	                       .desc = p->ask.desc,
	                       .nkeys = c->watch->key.n,
	                       .at = *at};
}

/* Where the list continues: after its last job, or after the rows that were read. */
static void add_rest(struct api_call *c, const struct page *p, const struct browsed *last,
                     bool more)
{
	const struct browse_position *at = more ? &last->at : p->bound.cut ? &p->bound.end : NULL;
	struct buf *out = &c->out->body;
	AUTO_BUF cursor = BUF_INIT;
	if (at) {
		struct cursor next = cursor_at(c, p, at);
		cursor_text(&next, &cursor);
	}
	json_bool(out, "more", at != NULL);
	json_text(out, "next", at ? buf_text(&cursor) : NULL);
	json_number(out, "examined", p->bound.cut, p->bound.examined);
}

static void api_read_add_jobs(struct api_call *c, const struct page *p, const struct browsed *rows,
                              int n, bool ledger)
{
	struct viewer v = api_viewer(c, c->watch);
	struct buf *out = &c->out->body;
	AUTO_BUF cursor = BUF_INIT;
	struct candidate cand;
	buf_add(out, ",\"jobs\":[");
	for (int i = 0; i < n; i++) {
		struct cursor at = cursor_at(c, p, &rows[i].at);
		bool judged = p->judged && rows[i].judgement.verdict;
		if (judged)
			judged_candidate(v.watch, &rows[i].facts, ledger, &c->arena, &cand);
		buf_clear(&cursor);
		cursor_text(&at, &cursor);
		const struct listed_job job = {&rows[i], buf_text(&cursor), judged ? &cand : NULL};
		buf_add(out, i ? ",\n" : "\n");
		record_json(&job_record, &job, &v, out);
	}
	buf_add(out, "\n]");
}

/* The total number, up to a limit; counted only on request. */
static bool api_read_add_count(struct api_call *c, const struct page *p, struct api_watch *w)
{
	struct browse_bound bound = p->bound;
	bound.at_once = p->bound.cut || p->bound.by_key;
	struct browse all = {.terms = p->terms,
	                     .nterms = p->ask.nterms,
	                     .sort = browse_sort(p->terms, p->ask.nterms),
	                     .desc = p->ask.desc,
	                     .limit = COUNTED_MOST,
	                     .bound = &bound};
	struct browsed *rows = NULL;
	bool more = false;
	int n = 0;
	if (browse_jobs(&(struct look){c->session->store, &w->sql, &w->ledger, &c->arena}, &all, &rows,
	                &n, &more, &c->failure))
		return false;
	json_number(&c->out->body, "count", true, n);
	json_bool(&c->out->body, "count_capped", more || bound.cut);
	return true;
}

static void list_jobs(struct api_call *c)
{
	struct page *p = ARENA_NEW(&c->arena, struct page);
	struct buf *out = &c->out->body;
	struct browsed *rows = NULL;
	struct api_watch *w;
	bool more = false;
	int n = 0;
	if (!api_read_page(c, p) || !api_bound(c, &w) ||
	    browse_jobs(&(struct look){c->session->store, &w->sql, &w->ledger, &c->arena}, &p->ask,
	                &rows, &n, &more, &c->failure))
		return;
	struct viewer v = api_viewer(c, c->watch);
	record_json_open(&place_record, NULL, &v, out);
	json_text(out, "sort", list_sort_names[p->bound.by_key ? LIST_BY_KEY : p->ask.sort]);
	if (p->count && !api_read_add_count(c, p, w))
		return;
	api_read_add_jobs(c, p, rows, n, w->ledger.ready || c->setup->settings.ledger != LEDGER_OFF);
	add_rest(c, p, n ? &rows[n - 1] : NULL, more);
	buf_add(out, "}\n");
}

/* ---- one job ---- */

static void api_read_show_job(struct api_call *c)
{
	const char *job = api_job_named(c, c->watch, c->parts[1]);
	struct story_sheet *sheet = ARENA_NEW(&c->arena, struct story_sheet);
	struct viewer v = api_viewer(c, c->watch);
	struct api_watch *w;
	bool found = false;
	if (!job || !api_bound(c, &w) ||
	    story_read(c->session->store, &w->sql, &w->ledger, &c->setup->settings.workflows, job,
	               &c->arena, &sheet->story, &found, &c->failure))
		return;
	if (!found) {
		api_problem(c, 404, "there is no job %s/%s: table %s of database %s has no such row",
		            c->watch->name, job, c->watch->table, c->database->name);
		return;
	}
	bool will_have = w->ledger.ready || c->setup->settings.ledger != LEDGER_OFF;
	judged_candidate(v.watch, &sheet->story.row.facts, will_have, &c->arena, &sheet->is.cand);
	record_json(&story_record, sheet, &v, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* ---- workers ---- */

#define WORKERS_PAGE 100
#define WORKERS_MOST 1000
#define JOBS_MOST 1000

/* Without defib's own tables no worker is registered. */
static bool roster(struct api_call *c, int64_t id, int64_t limit, struct roster_row **rows, int *n)
{
	struct failure *f = &c->failure;
	defib_err err = roster_read(c->session->store, id, limit, &c->arena, rows, n, f);
	if (err && (f->reason == REASON_NO_NAME || f->reason == REASON_NO_SCHEMA)) {
		f->code = DEFIB_NOT_FOUND;
		fail_next(f, "defib init creates the tables of workers");
	}
	return !err;
}

/* An object that is still open. */
static void add_worker(struct api_call *c, const struct roster_row *w)
{
	AUTO_BUF beats = BUF_INIT;
	struct viewer v = api_viewer(c, NULL);
	if (c->api->beats)
		heartbeats_json(c->api->beats, c->database->name, w->id, clock_boot_ms(), &beats);
	const struct worker_view seen = {w, c->api->beats ? buf_text(&beats) : NULL};
	record_json_open(&worker_record, &seen, &v, &c->out->body);
}

static void api_read_workers(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct roster_row *rows;
	int64_t limit = WORKERS_PAGE;
	int n = 0, alive = 0;
	if (!api_query_int(c, "limit", 1, WORKERS_MOST, &limit) || !roster(c, 0, limit + 1, &rows, &n))
		return;
	bool more = n > limit;
	n = more ? (int)limit : n;
	struct viewer v = api_viewer(c, NULL);
	record_json_open(&database_record, NULL, &v, out);
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

static const char *roster_watch(const void *row)
{
	const struct roster_job *job = row;
	return job->watch ? job->watch : BUILTIN_NAME;
}

static const struct field roster_job_fields[] = {
	{"watch", .text = roster_watch},
	{"key", FIELD_AT(struct roster_job, job)},
	{0},
};
static const struct record roster_job_record = {.fields = roster_job_fields};

static bool add_jobs_of_worker(struct api_call *c, int64_t id)
{
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	struct roster_job *jobs;
	int n = 0;
	if (roster_jobs(c->session->store, id, JOBS_MOST + 1, &c->arena, &jobs, &n, &c->failure))
		return false;
	bool more = n > JOBS_MOST;
	n = more ? JOBS_MOST : n;
	buf_add(out, ",\"jobs\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? "," : "");
		record_json(&roster_job_record, &jobs[i], &v, out);
	}
	buf_add(out, "]");
	json_bool(out, "more", more);
	return true;
}

static void read_worker(struct api_call *c)
{
	struct roster_row *rows;
	int64_t id = 0;
	int n = 0;
	if (int_parse(c->parts[0], &id) && id > 0 && !roster(c, id, 1, &rows, &n))
		return;
	if (n == 0) {
		api_problem(c, 404, "there is no worker %s in database %s", c->parts[0], c->database->name);
		return;
	}
	add_worker(c, &rows[0]);
	if (add_jobs_of_worker(c, id))
		buf_add(&c->out->body, "}\n");
}

/* ---- incidents ---- */

#define ENTRIES_MOST 2000 /* of each watch: the latest */
#define WORKERS_MOST 1000 /* whose names and hosts are known */
#define INCIDENTS 10
#define INCIDENTS_MOST 100

struct gathering {
	struct incident_entry *entries;
	int n;
	bool more;
};

static bool api_read_add_watch(struct api_call *c, const char *watch, int64_t since_us,
                               struct gathering *g)
{
	struct incident_entry *found = NULL;
	bool more = false;
	int n = 0;
	if (incidents_read(c->session->store, watch, since_us, ENTRIES_MOST, &c->arena, &found, &n,
	                   &more, &c->failure))
		return false;
	struct incident_entry *all = ARENA_ARRAY(&c->arena, struct incident_entry, g->n + n + 1);
	for (int i = 0; i < g->n; i++)
		all[i] = g->entries[i];
	for (int i = 0; i < n; i++)
		all[g->n + i] = found[i];
	g->entries = all;
	g->n += n;
	g->more = g->more || more;
	return true;
}

static bool api_read_add_watches(struct api_call *c, int64_t since_us, struct gathering *g)
{
	const struct settings *s = &c->setup->settings;
	for (int i = 0; i < s->nwatches; i++)
		if (settings_database(s, &s->watches[i]) == c->database &&
		    !api_read_add_watch(c, s->watches[i].name, since_us, g))
			return false;
	return settings_watch(s, BUILTIN_NAME) || api_read_add_watch(c, BUILTIN_NAME, since_us, g);
}

static int by_id(const void *x, const void *y)
{
	const struct incident_worker *a = x, *b = y;
	return (a->id > b->id) - (a->id < b->id);
}

/* Without a registry of workers, owners are only texts. */
static void api_read_name_workers(struct api_call *c, struct gathering *g)
{
	struct failure ignored = {0};
	struct roster_row *rows = NULL;
	int n = 0;
	if (roster_read(c->session->store, 0, WORKERS_MOST, &c->arena, &rows, &n, &ignored))
		return;
	struct incident_worker *all = ARENA_ARRAY(&c->arena, struct incident_worker, n + 1);
	for (int i = 0; i < n; i++)
		all[i] = (struct incident_worker){rows[i].id, rows[i].name,
		                                  rows[i].known && rows[i].who.host[0]
		                                      ? arena_strdup(&c->arena, rows[i].who.host)
		                                      : NULL};
	qsort(all, (size_t)n, sizeof *all, by_id);
	incidents_name(g->entries, g->n, all, n);
}

static void list_incidents(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct gathering g = {0};
	struct ledger ledger = {0};
	struct incident *all = NULL;
	struct viewer v = api_viewer(c, NULL);
	int64_t since_us = DAY_US, limit = INCIDENTS;
	int n = 0;
	if (!api_query_duration(c, "since", &since_us) ||
	    !api_query_int(c, "limit", 1, INCIDENTS_MOST, &limit))
		return;
	if (ledger_open(c->session->store, false, &ledger, &c->failure) ||
	    (ledger.ready && !api_read_add_watches(c, since_us, &g)))
		return;
	if (g.n)
		api_read_name_workers(c, &g);
	incidents_group(g.entries, g.n, &c->arena, &all, &n);
	record_json_open(&database_record, NULL, &v, out);
	buf_add(out, ",\"incidents\":[");
	for (int i = 0; i < n && i < limit; i++) {
		buf_add(out, i ? ",\n" : "\n");
		record_json(&incident_record, &all[i], &v, out);
	}
	buf_add(out, "\n]");
	json_bool(out, "more", n > limit || g.more);
	buf_add(out, "}\n");
}

/* ---- the routes ---- */

const struct api_route api_read_routes[] = {
	API_GET("/watches/{watch}/jobs", ROLE_VIEWER, API_WATCH,
            "where state verdict text any sort desc limit after count judged",
            "jobs of a watch, a page at a time", list_jobs),
	API_GET("/watches/{watch}/jobs/{key}", ROLE_VIEWER, API_WATCH, "",
            "everything known about one job", api_read_show_job),
	API_GET("/ledger", ROLE_VIEWER, API_DATABASE,
            "watch job event actor batch since after limit order format",
            "decisions and actions, a page at a time or as a file", api_read_ledger),
	API_GET("/workers", ROLE_VIEWER, API_DATABASE, "limit", "registered workers, those alive first",
            api_read_workers),
	API_GET("/workers/{id}", ROLE_VIEWER, API_DATABASE, "", "one worker and its jobs", read_worker),
	API_GET("/incidents", ROLE_VIEWER, API_DATABASE, "since limit",
            "what was lost and recovered, as incidents, the latest first", list_incidents),
	{.method = NULL},
};
