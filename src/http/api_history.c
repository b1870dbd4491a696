/* SPDX-License-Identifier: Apache-2.0
 * api_history.c: what happened: the ledger, reports, trends, alerts.
 *
 * The ledger of a database is what `defib ledger --json` prints, one page at a time, or as a file
 * of lines or of comma-separated values.
 *
 * Without `after` the newest entries come first. With it, entries come in the order of their ids
 * from there on, as on the command line, unless `order` says otherwise.
 */
#include "http/api_history.h"

#include "alert/options.h"
#include "alert/sinks.h"
#include "base/clock.h"
#include "http/api.h"
#include "http/api_values.h"
#include "http/api_watches.h"
#include "insight/series.h"
#include "ledger/digest_store.h"
#include "ledger/events.h"
#include "view/alert.h"
#include "view/ledger.h"
#include "view/report.h"
#include "view/report_forms.h"
#include "view/stats.h"

#include <assert.h>

#define PAGE 50
#define PAGE_MOST 1000
#define FILE_MOST 10000 /* entries of an export; `after` continues */
/* A search that takes longer is answered from the entries read by then. */
#define WITHIN_MS 500
#define WINDOWS_MS 500

/* The forms of an answer. */
struct ledger_form {
	const char *name, *type, *disposition;
	int64_t limit, most;
	void (*begin)(struct api_call *c);
	void (*entry)(struct api_call *c, const struct viewer *v, const struct ledger_row *r, int i);
	void (*end)(struct api_call *c, int64_t next, bool more);
};

/* ---- a page ---- */

static void page_begin(struct api_call *c)
{
	struct viewer v = api_viewer(c, NULL);
	record_json_open(&database_record, NULL, &v, &c->out->body);
	buf_add(&c->out->body, ",\"entries\":[");
}

static void page_entry(struct api_call *c, const struct viewer *v, const struct ledger_row *r,
                       int i)
{
	buf_add(&c->out->body, i ? ",\n" : "\n");
	record_json(&entry_record, r, v, &c->out->body);
}

static void page_end(struct api_call *c, int64_t next, bool more)
{
	buf_add(&c->out->body, "\n]");
	json_bool(&c->out->body, "more", more);
	json_number(&c->out->body, "next", more, next);
	buf_add(&c->out->body, "}\n");
}

/* ---- lines ---- */

static void nothing(struct api_call *c)
{
	(void)c;
}

static void line_entry(struct api_call *c, const struct viewer *v, const struct ledger_row *r,
                       int i)
{
	(void)i;
	record_json(&entry_record, r, v, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* A truncated file says where to continue. */
static void file_end(struct api_call *c, int64_t next, bool more)
{
	if (more)
		api_header(c, "Defib-Next", arena_printf(&c->arena, "%lld", (long long)next));
}

/* ---- comma-separated values ---- */

static void csv_begin(struct api_call *c)
{
	record_csv_names(&entry_record, &c->out->body);
}

static void csv_entry(struct api_call *c, const struct viewer *v, const struct ledger_row *r, int i)
{
	(void)i;
	record_csv(&entry_record, r, v, &c->out->body);
}

static const struct ledger_form forms[] = {
	{"json", "application/json", NULL, PAGE, PAGE_MOST, page_begin, page_entry, page_end},
	{"jsonl", "application/x-ndjson", "attachment; filename=\"ledger.jsonl\"", FILE_MOST, FILE_MOST,
     nothing, line_entry, file_end},
	{"csv", "text/csv; charset=utf-8", "attachment; filename=\"ledger.csv\"", FILE_MOST, FILE_MOST,
     csv_begin, csv_entry, file_end},
};

/* ---- the filter ---- */

static const struct ledger_form *form_given(struct api_call *c)
{
	const char *name = api_query(c, "format");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (text_eq(name ? name : "json", forms[i].name))
			return &forms[i];
	api_problem(c, 400, "format must be json, jsonl or csv, not \"%s\"", name);
	return NULL;
}

static bool order_given(struct api_call *c, int64_t after, struct ledger_filter *filter)
{
	static const char *const orders[] = {"asc", "desc", NULL};
	const char *text = api_query(c, "order");
	int order = text ? word_index(orders, text) : after < 0;
	if (order < 0)
		return api_problem(c, 400, "order must be asc or desc, not \"%s\"", text);
	filter->newest_first = order == 1;
	if (after >= 0 && filter->newest_first)
		filter->up_to_id = after > 1 ? after - 1 : -1; /* there is nothing below the first */
	else if (after >= 0)
		filter->after_id = after;
	return true;
}

static bool filter_given(struct api_call *c, const struct ledger_form *form,
                         struct ledger_filter *out)
{
	int64_t after = -1;
	*out = (struct ledger_filter){
		.watch = api_query(c, "watch"),
		.job = api_query(c, "job"),
		.event = api_query(c, "event"),
		.actor = api_query(c, "actor"),
		.batch = api_query(c, "batch"),
		.limit = form->limit,
	};
	if (!api_event_known(c, out->event) || !api_query_int(c, "after", 0, INT64_MAX, &after) ||
	    !api_query_int(c, "limit", 1, form->most, &out->limit) ||
	    !api_query_duration(c, "since", &out->since_us))
		return false;
	ledger_split_job(&c->setup->settings, &c->arena, out);
	return order_given(c, after, out);
}

/* ---- the whole ---- */

/* Each entry is masked as its own watch says; neighbours usually have the same watch. */
static void api_history_add_entries(struct api_call *c, const struct ledger_form *form,
                                    const struct ledger_row *rows, int n)
{
	struct viewer v = {0};
	c->out->type = form->type;
	if (form->disposition)
		api_header(c, "Content-Disposition", form->disposition);
	form->begin(c);
	for (int i = 0; i < n; i++) {
		const char *watch = rows[i].watch;
		if (i == 0 || !text_eq(rows[i - 1].watch, watch))
			v = api_viewer(c, watch ? settings_watch(&c->setup->settings, watch) : NULL);
		form->entry(c, &v, &rows[i], i);
	}
}

void api_read_ledger(struct api_call *c)
{
	const struct ledger_form *form = form_given(c);
	struct store *s = c->session->store;
	struct ledger_bound bound = {.within_ms = WITHIN_MS, .for_ms = WINDOWS_MS};
	struct ledger_filter filter;
	struct ledger_row *rows = NULL;
	bool exists = false;
	int n = 0;
	if (!form || !filter_given(c, form, &filter))
		return;
	int64_t limit = filter.limit++; /* one more shows whether there are more */
	defib_err err = ledger_exists(s, &exists, &c->failure);
	if (!err && exists && filter.up_to_id >= 0)
		err = ledger_search(s, &filter, &bound, &c->arena, &rows, &n, &c->failure);
	if (err)
		return;
	assert(limit >= 0 && (rows || n == 0));
	bool full = n > limit;
	n = full ? (int)limit : n;
	api_history_add_entries(c, form, rows, n);
	form->end(c, full ? rows[n - 1].id : bound.end_id, full || bound.cut);
}

/*
 * ---- reports, trends and alerts ----
 * GET /report is what `defib report` prints, for the watches of one database, in any of its forms.
 * For viewers, owners are masked, as everywhere.
 */

#define WEEK_US (INT64_C(7) * 86400 * 1000000)

/* The page contains its style and loads nothing: no script, nothing from elsewhere. */
#define PAGE_POLICY "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

static bool api_history_read_form(struct api_call *c, enum report_form *form)
{
	const char *name = api_query(c, "format");
	int at = name ? report_form_named(name) : (int)REPORT_JSON;
	if (at < 0)
		return api_problem(c, 400, "format must be text, markdown, html or json, not \"%s\"", name);
	*form = (enum report_form)at;
	return true;
}

static bool api_history_read_period(struct api_call *c, struct period *p)
{
	int64_t since = WEEK_US;
	return api_query_duration(c, "since", &since) &&
	       (report_period(since, clock_wall_us(), p) ||
	        api_problem(c, 400, "since must be from 1m to 366d"));
}

/* Watches of this database that the daemon serves, or the requested one. */
static bool api_history_add_sources(struct api_call *c, struct report_source *out, int *n)
{
	const struct settings *all = &c->setup->settings;
	const char *only = api_query(c, "watch");
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		bool wanted = only ? text_eq(only, w->name) : c->setup->chosen[i];
		if (!wanted || settings_database(all, w) != c->database)
			continue;
		const struct watch *seen = api_seen(c, w);
		out[(*n)++] = (struct report_source){seen, c->database, c->session};
	}
	/* Besides other watches, the queue is in the report only if it is used. */
	struct failure ignored = {0};
	bool used = false;
	if (!only && all->nwatches > 0 && !settings_watch(all, BUILTIN_NAME) &&
	    queue_in_use(c->session->store, &used, &ignored))
		used = false;
	if (used || (*n == 0 && (only ? text_eq(only, BUILTIN_NAME) : all->nwatches == 0))) {
		const struct watch *queue = builtin_watch(c->database->engine, &c->arena);
		const struct watch *seen = api_seen(c, queue);
		out[(*n)++] = (struct report_source){seen, c->database, c->session};
	}
	if (only && *n == 0)
		return api_problem(c, 404, "there is no watch \"%s\" in database %s", only,
		                   c->database->name);
	return true;
}

static void get_report(struct api_call *c)
{
	const struct settings *all = &c->setup->settings;
	struct report_source *sources = ARENA_ARRAY(&c->arena, struct report_source, all->nwatches + 1);
	struct report report;
	struct period period;
	enum report_form form = REPORT_JSON;
	int n = 0;
	if (!api_history_read_form(c, &form) || !api_history_read_period(c, &period) ||
	    !api_history_add_sources(c, sources, &n))
		return;
	report_gather(sources, n, &period, all->ledger == LEDGER_OFF, &c->arena, &report);
	if (report.nlost) {
		c->failure = report.lost[0].failure;
		return;
	}
	c->out->type = report_type(form);
	if (form == REPORT_HTML)
		api_header(c, "Content-Security-Policy", PAGE_POLICY);
	report_render(form, &report, &c->out->body);
}

/* The available periods; parts begin at whole hours, so that they do not shift. */
static const struct span {
	const char *name;
	int buckets;
	int64_t bucket_s;
	bool times; /* also how long recoveries took, which reads the evidence of each */
} spans[] = {
	{"24h", 24, 3600, true},
	{"7d", 28, INT64_C(6) * 3600, false},
};

static const struct span *span_asked(struct api_call *c)
{
	const char *name = api_query(c, "since");
	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
		if (text_eq(name ? name : spans[0].name, spans[i].name))
			return &spans[i];
	api_problem(c, 400, "since must be 24h or 7d, not \"%s\"", name);
	return NULL;
}

/* Up to the end of the current part. */
static struct period period_of(const struct span *span, int64_t now_us)
{
	int64_t part_us = span->bucket_s * US_PER_S;
	int64_t to_us = (now_us / part_us + 1) * part_us;
	return (struct period){to_us - span->buckets * part_us, to_us};
}

/* A watch in parts of a period. */
struct trend {
	const char *watch;
	const struct digest_bucket *buckets;
	int n;
	struct digest_times times;
};

static void counts_json(const void *row, bool recovered, struct buf *out)
{
	const struct trend *t = row;
	buf_add(out, "[");
	for (int i = 0; i < t->n; i++)
		buf_addf(out, "%s%lld", i ? "," : "",
		         (long long)(recovered ? t->buckets[i].recovered : t->buckets[i].detected));
	buf_add(out, "]");
}

static void detected_json(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	counts_json(row, false, out);
}

static void recovered_json(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	counts_json(row, true, out);
}

static bool trend_median(const void *row, int64_t *out)
{
	*out = ((const struct trend *)row)->times.median_us;
	return ((const struct trend *)row)->times.n > 0;
}

static bool trend_worst(const void *row, int64_t *out)
{
	*out = ((const struct trend *)row)->times.worst_us;
	return ((const struct trend *)row)->times.n > 0;
}

static const struct field trend_fields[] = {
	{"watch", FIELD_AT(struct trend, watch)},
	{"detected", FIELD_JSON, .json = detected_json,
     .schema = "{type: array, items: {type: integer}}", .about = "found stuck, by part"},
	{"recovered", FIELD_JSON, .json = recovered_json,
     .schema = "{type: array, items: {type: integer}}", .about = "recovered, by part"},
	{"median_s", FIELD_SECONDS, .number = trend_median, .null = true,
     .about = "from loss to recovery"},
	{"worst_s", FIELD_SECONDS, .number = trend_worst, .null = true},
	{0},
};

const struct record trend_record = {
	.name = "Trend",
	.about = "what happened to a watch, in parts of a period",
	.fields = trend_fields,
	.size = sizeof(struct trend),
};

/* False after a problem. */
static bool api_history_add_watch(struct api_call *c, const char *watch, const struct span *span,
                                  const struct period *p, int *n)
{
	struct store *store = c->session->store;
	struct viewer v = api_viewer(c, NULL);
	struct digest_bucket *buckets;
	struct trend trend = {.watch = watch, .n = span->buckets};
	if (digest_trend(store, watch, p, span->buckets, &c->arena, &buckets, &c->failure) ||
	    (span->times && digest_times(store, watch, p, &trend.times, &c->failure)))
		return false;
	trend.buckets = buckets;
	buf_add(&c->out->body, (*n)++ ? ",\n" : "\n");
	record_json(&trend_record, &trend, &v, &c->out->body);
	return true;
}

static bool api_history_add_watches(struct api_call *c, const struct span *span,
                                    const struct period *p)
{
	const struct settings *s = &c->setup->settings;
	int n = 0;
	for (int i = 0; i < s->nwatches; i++)
		if (settings_database(s, &s->watches[i]) == c->database &&
		    !api_history_add_watch(c, s->watches[i].name, span, p, &n))
			return false;
	return settings_watch(s, BUILTIN_NAME) || api_history_add_watch(c, BUILTIN_NAME, span, p, &n);
}

static const struct field period_fields[] = {
	{"database", .words = field_database},
	{"from", FIELD_TIME, FIELD_AT(struct period, from_us)},
	{"to", FIELD_TIME, FIELD_AT(struct period, to_us)},
	{0},
};
static const struct record period_record = {.fields = period_fields};

static void show_trend(struct api_call *c)
{
	const struct span *span = span_asked(c);
	struct buf *out = &c->out->body;
	struct ledger ledger = {0};
	if (!span || ledger_open(c->session->store, false, &ledger, &c->failure))
		return;
	struct period p = period_of(span, clock_wall_us());
	struct viewer v = api_viewer(c, NULL);
	record_json_open(&period_record, &p, &v, out);
	buf_addf(out, ",\"bucket_s\":%lld,\"watches\":[", (long long)span->bucket_s);
	if (!ledger.ready || api_history_add_watches(c, span, &p))
		buf_add(out, "\n]}\n");
}

/* ---- numbers over time ---- */

/* The watch that was asked for, if any, is one of this database. */
static bool watch_is_here(struct api_call *c, const char *watch)
{
	const struct settings *s = &c->setup->settings;
	const struct watch *w = settings_watch(s, watch);
	if (w ? settings_database(s, w) == c->database : text_eq(watch, BUILTIN_NAME))
		return true;
	return api_problem(c, 404, "there is no watch \"%s\" in database %s", watch, c->database->name);
}

static void show_series(struct api_call *c)
{
	const char *watch = api_query(c, "watch"), *since = api_query(c, "since");
	int range = since ? series_range_named(since) : SERIES_HOUR;
	struct series series;
	if (range < 0) {
		api_problem(c, 400, "since must be 1h, 24h or 7d, not \"%s\"", since);
		return;
	}
	if ((watch && !watch_is_here(c, watch)) ||
	    series_read(c->session->store, (enum series_range)range, watch, clock_wall_us() / US_PER_S,
	                &c->arena, &series, &c->failure))
		return;
	series_view(c->database->name, watch, &series, &c->out->body);
}

/* ---- alerts ---- */

#define DELIVERIES 100
#define DELIVERIES_MAX 1000

static void add_sinks(struct api_call *c, const struct sink_list *s, struct buf *out)
{
	struct viewer v = api_viewer(c, NULL);
	buf_add(out, ",\"sinks\":[");
	for (int i = 0; i < s->n; i++) {
		buf_add(out, i ? "," : "");
		record_json(&sink_record, &(struct sink_view){&s->items[i], NULL}, &v, out);
	}
	buf_add(out, "]");
}

static void get_alerts(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	struct alert_status *list = NULL;
	int n = 0;
	if (alerts_read(c->session->store, &c->setup->settings, c->database, &c->arena, &list, &n,
	                &c->failure))
		return;
	buf_add(out, "{\"alerts\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n" : "\n");
		record_json(&alert_record, &list[i], &v, out);
	}
	buf_add(out, "\n]");
	add_sinks(c, settings_sinks(&c->setup->settings), out);
	buf_add(out, "}\n");
}

static void get_deliveries(struct api_call *c)
{
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	struct delivery_row *list = NULL;
	int64_t limit = DELIVERIES;
	int n = 0;
	if (!api_query_int(c, "limit", 1, DELIVERIES_MAX, &limit) ||
	    deliveries_of(c->session->store, (int)limit, &c->arena, &list, &n, &c->failure))
		return;
	buf_add(out, "{\"deliveries\":[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n" : "\n");
		record_json(&delivery_record, &list[i], &v, out);
	}
	buf_add(out, "\n]}\n");
}

static void api_history_test_sinks(struct api_call *c)
{
	const struct sink_list *sinks = settings_sinks(&c->setup->settings);
	const char *name = NULL;
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	if (!api_body_text(c, "sink", &name))
		return;
	if (name && !alert_sink_named(sinks, name)) {
		api_problem(c, 404, "there is no sink \"%s\" in the configuration", name);
		return;
	}
	buf_add(out, "{\"sinks\":[");
	for (int i = 0, n = 0; i < sinks->n; i++) {
		struct sink_answer answer = {0};
		if (name && !text_eq(sinks->items[i].name, name))
			continue;
		sink_test(&sinks->items[i], message_source(&c->setup->settings), clock_wall_us(), &answer);
		buf_add(out, n++ ? ",\n" : "\n");
		record_json(&sink_record, &(struct sink_view){&sinks->items[i], &answer}, &v, out);
	}
	buf_add(out, "\n]}\n");
}

const struct api_route api_history_routes[] = {
	API_GET("/report", ROLE_VIEWER, API_DATABASE, "since format watch",
            "what happened in a period: recoveries by day, trend, causes, false positives, advice",
            get_report),
	API_GET("/trend", ROLE_VIEWER, API_DATABASE, "since",
            "jobs found stuck and recovered, by hour or six hours", show_trend),
	API_GET(
		"/series", ROLE_VIEWER, API_DATABASE, "watch since",
		"numbers over time, of a watch or of all: waiting, running, ended, recovered, detection",
		show_series),
	API_GET("/alerts", ROLE_VIEWER, API_DATABASE, "", "state of each alert rule, by watch",
            get_alerts),
	API_GET("/deliveries", ROLE_VIEWER, API_DATABASE, "limit",
            "messages to sinks and their delivery, newest first", get_deliveries),
	{"POST", "/alerts/test", ROLE_ADMIN, API_DATABASE, "sink", true, false,
     "send a test message to a sink, or to all, and return their answers", api_history_test_sinks},
	{.method = NULL},
};
