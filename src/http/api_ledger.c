/* SPDX-License-Identifier: Apache-2.0
 * api_ledger.c: the ledger of a database: what `defib ledger --json` says, a page at a
 * time, or as a file of lines or of comma-separated values.
 *
 * Without `after` the newest entries come first. With it, entries come in the order of
 * their ids from there on, as on the command line; `order` says otherwise.
 */
#include "http/api_handlers.h"

#include "base/text.h"
#include "ledger/events.h"
#include "recover/masked.h"
#include "view/ledger.h"
#include "view/output.h"
#include "view/viewer.h"

#define PAGE 50
#define PAGE_MOST 1000
#define FILE_MOST 10000 /* entries of an export; `after` goes on */

/* The forms of an answer. */
struct ledger_form {
	const char *name, *type, *disposition;
	int64_t limit, most;
	void (*begin)(struct api_call *c);
	void (*entry)(struct api_call *c, const struct watch *w, const struct ledger_row *r, int i);
	void (*end)(struct api_call *c, const struct ledger_row *last, bool more);
};

/* ---- a page ---- */

static void page_begin(struct api_call *c)
{
	buf_add(&c->out->body, "{\"database\":");
	buf_add_json(&c->out->body, c->database->name);
	buf_add(&c->out->body, ",\"entries\":[");
}

static void page_entry(struct api_call *c, const struct watch *w, const struct ledger_row *r, int i)
{
	buf_add(&c->out->body, i ? ",\n" : "\n");
	entry_json(w, c->database->name, r, &c->out->body);
}

static void page_end(struct api_call *c, const struct ledger_row *last, bool more)
{
	buf_add(&c->out->body, "\n]");
	json_bool(&c->out->body, "more", more);
	json_number(&c->out->body, "next", more, last ? last->id : 0);
	buf_add(&c->out->body, "}\n");
}

/* ---- lines ---- */

static void nothing(struct api_call *c)
{
	(void)c;
}

static void line_entry(struct api_call *c, const struct watch *w, const struct ledger_row *r, int i)
{
	(void)i;
	entry_json(w, c->database->name, r, &c->out->body);
	buf_add(&c->out->body, "\n");
}

/* A file that is cut short says where to go on. */
static void file_end(struct api_call *c, const struct ledger_row *last, bool more)
{
	if (more)
		api_header(c, "Defib-Next", arena_printf(&c->arena, "%lld", (long long)last->id));
}

/* ---- comma-separated values ---- */

/* A spreadsheet takes what begins like this for a formula; an apostrophe makes it text. */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@\t\r", *text);
}

static void cell(struct buf *out, const char *text)
{
	buf_add(out, out->len && out->data[out->len - 1] != '\n' ? "," : "");
	if (!text)
		return;
	buf_add(out, is_formula(text) ? "\"'" : "\"");
	for (; *text; text++) {
		buf_addch(out, *text);
		if (*text == '"')
			buf_addch(out, '"');
	}
	buf_add(out, "\"");
}

static void csv_begin(struct api_call *c)
{
	buf_add(&c->out->body, "id,at,database,batch,watch,job,event,actor,verdict,rule,reason,"
	                       "evidence,before,after,epoch\r\n");
}

static void csv_entry(struct api_call *c, const struct watch *w, const struct ledger_row *r, int i)
{
	struct buf *out = &c->out->body, document = BUF_INIT, reason = BUF_INIT;
	struct secrets secrets = {0};
	entry_secrets(w, r, &secrets);
	entry_reason(w, r, &reason);
	const char *const texts[] = {r->at,    c->database->name,
	                             r->batch, r->watch,
	                             r->job,   r->event,
	                             r->actor, r->verdict,
	                             r->rule,  r->reason ? buf_text(&reason) : NULL},
					  *const documents[] = {r->evidence, r->before, r->after};
	(void)i;
	buf_addf(out, "%lld", (long long)r->id);
	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
		cell(out, texts[k]);
	for (size_t k = 0; k < sizeof documents / sizeof *documents; k++) {
		buf_clear(&document);
		masked_document(w, &secrets, documents[k], &document);
		cell(out, documents[k] ? buf_text(&document) : NULL);
	}
	buf_add(out, ",");
	if (r->has_epoch)
		buf_addf(out, "%lld", (long long)r->epoch);
	buf_add(out, "\r\n");
	buf_release(&document);
	buf_release(&reason);
	secrets_release(&secrets);
}

static const struct ledger_form forms[] = {
	{"json", "application/json", NULL, PAGE, PAGE_MOST, page_begin, page_entry, page_end},
	{"jsonl", "application/x-ndjson", "attachment; filename=\"ledger.jsonl\"", FILE_MOST, FILE_MOST,
     nothing, line_entry, file_end},
	{"csv", "text/csv; charset=utf-8", "attachment; filename=\"ledger.csv\"", FILE_MOST, FILE_MOST,
     csv_begin, csv_entry, file_end},
};

/* ---- what is asked for ---- */

static const struct ledger_form *form_given(struct api_call *c)
{
	const char *name = api_query(c, "format");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (text_eq(name ? name : "json", forms[i].name))
			return &forms[i];
	api_problem(c, 400, "format must be json, jsonl or csv, not \"%s\"", name);
	return NULL;
}

static bool event_given(struct api_call *c, const char *event)
{
	const char *near = NULL;
	if (!event || event_known(event, &near))
		return true;
	return api_problem(c, 400, "there is no event \"%s\"%s", event, hint_of(near, "", "").text);
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
	static const char *const takes[] = {"database", "watch", "job",   "event", "actor",  "batch",
	                                    "since",    "after", "limit", "order", "format", NULL};
	int64_t after = -1;
	*out = (struct ledger_filter){
		.watch = api_query(c, "watch"),
		.job = api_query(c, "job"),
		.event = api_query(c, "event"),
		.actor = api_query(c, "actor"),
		.batch = api_query(c, "batch"),
		.limit = form->limit,
	};
	if (!api_query_takes(c, takes) || !event_given(c, out->event) ||
	    !api_query_int(c, "after", 0, INT64_MAX, &after) ||
	    !api_query_int(c, "limit", 1, form->most, &out->limit) ||
	    !api_query_duration(c, "since", &out->since_us))
		return false;
	ledger_split_job(&c->setup->settings, &c->arena, out);
	return order_given(c, after, out);
}

/* ---- the whole ---- */

/* Each entry is masked as its own watch says; neighbours mostly have the same. */
static const struct watch *seen_as(struct api_call *c, const struct ledger_row *r,
                                   const struct ledger_row *before, const struct watch *last)
{
	if (before && text_eq(before->watch, r->watch))
		return last;
	const struct watch *w = r->watch ? settings_watch(&c->setup->settings, r->watch) : NULL;
	return api_seen(c, w);
}

static void add_entries(struct api_call *c, const struct ledger_form *form,
                        const struct ledger_row *rows, int n, bool more)
{
	const struct watch *w = NULL;
	c->out->type = form->type;
	if (form->disposition)
		api_header(c, "Content-Disposition", form->disposition);
	form->begin(c);
	for (int i = 0; i < n; i++) {
		w = seen_as(c, &rows[i], i ? &rows[i - 1] : NULL, w);
		form->entry(c, w, &rows[i], i);
	}
	form->end(c, n ? &rows[n - 1] : NULL, more);
}

void read_ledger(struct api_call *c)
{
	const struct ledger_form *form = form_given(c);
	struct store *s = c->session->store;
	struct ledger_filter filter;
	struct ledger_row *rows = NULL;
	struct failure f = {0};
	bool exists = false;
	int n = 0;
	if (!form || !filter_given(c, form, &filter))
		return;
	int64_t limit = filter.limit++; /* one more tells whether there is more */
	defib_err err = ledger_exists(s, &exists, &f);
	if (!err && exists && filter.up_to_id >= 0)
		err = ledger_read(s, &filter, &c->arena, &rows, &n, &f);
	if (err)
		read_failed(c, &f);
	else
		add_entries(c, form, rows, n > limit ? (int)limit : n, n > limit);
}
