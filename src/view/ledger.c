/* SPDX-License-Identifier: Apache-2.0 */
#include "view/ledger.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "recover/evidence.h"

#include <assert.h>

void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out)
{
	secrets_entry(
		out, w,
		&(struct entry_texts){
			.reason = r->reason, .evidence = r->evidence, .before = r->before, .after = r->after});
}

/* Its reason, with values masked that its documents mask. */
static void entry_reason(const struct watch *w, const struct ledger_row *r, struct buf *out)
{
	AUTO_SECRETS secrets = {0};
	entry_secrets(w, r, &secrets);
	if (r->reason)
		masked_free_text(w, &secrets, r->reason, out);
}

/* "silent: no sign of life for 2h", or the part that exists. */
static bool entry_why(const void *row, const struct viewer *v, struct buf *out)
{
	const struct ledger_row *r = row;
	(void)v;
	buf_add(out, r->verdict ? r->verdict : "");
	buf_add(out, r->verdict && r->reason ? ": " : "");
	buf_add(out, r->reason ? r->reason : "");
	return out->len > 0;
}

static void row_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	entry_secrets(w, row, out);
}

#define AT(member) FIELD_AT(struct ledger_row, member)
/* What happened, and why. */
static const struct field decision_fields[] = {
	{"event", AT(event), .about = "see docs/ledger.md"},
	{"actor", AT(actor), .null = true, .about = "who did it, such as daemon or cli:anna"},
	{"verdict", AT(verdict), .null = true},
	{"rule", AT(rule), .null = true, .about = "the rule that chose the remedy"},
	{"reason", .mask = MASK_WORDS, AT(reason), .null = true},
	{"evidence", FIELD_DOCUMENT, MASK_VALUES, AT(evidence), .null = true},
	{"before", FIELD_DOCUMENT, MASK_VALUES, AT(before), .null = true,
     .about = "columns of the row"},
	{"after", FIELD_DOCUMENT, MASK_VALUES, AT(after), .null = true},
	{"epoch", FIELD_NUMBER, AT(epoch), FIELD_HAS(struct ledger_row, has_epoch)},
	{0},
};
static const struct record decision_record = {.fields = decision_fields,
                                              .size = sizeof(struct ledger_row)};

static const struct field history_fields[] = {
	{"id", FIELD_NUMBER, AT(id)},
	{"at", AT(at), .schema = SCHEMA_REF("Time")},
	{"batch", AT(batch)},
	{.type = FIELD_MEMBERS, .of = &decision_record},
	{0},
};

static const struct field entry_fields[] = {
	{"id", FIELD_NUMBER, AT(id), .about = "grows; an entry is never changed"},
	{"at", AT(at), .title = "AT", .schema = SCHEMA_REF("Time")},
	{"database", .words = field_database, .title = "DATABASE"},
	{"batch", AT(batch), .about = "what was written together, and is undone together"},
	{"watch", AT(watch), .title = "WATCH"},
	{"job", AT(job), .title = "JOB", .about = "its key; * is the watch as a whole"},
	{.type = FIELD_MEMBERS, .of = &decision_record},
	{AT(event), .title = "EVENT"},
	{.words = entry_why, .mask = MASK_WORDS, .title = "WHY"},
	{AT(actor), .title = "ACTOR"},
	{AT(batch), .title = "BATCH"},
	{0},
};
#undef AT

const struct record entry_record = {
	.name = "Entry",
	.about = "an entry of the ledger",
	.fields = entry_fields,
	.size = sizeof(struct ledger_row),
	.secrets = row_secrets,
};

const struct record history_entry_record = {
	.name = "HistoryEntry",
	.about = "an entry of the ledger, of one job",
	.fields = history_fields,
	.size = sizeof(struct ledger_row),
	.secrets = row_secrets,
};

void ledger_split_job(const struct settings *s, struct arena *a, struct ledger_filter *filter)
{
	const char *slash = filter->job && !filter->watch ? strchr(filter->job, '/') : NULL;
	if (!slash)
		return;
	const char *name = arena_strndup(a, filter->job, (size_t)(slash - filter->job));
	if (!settings_watch(s, name) && !text_eq(name, BUILTIN_NAME))
		return;
	filter->watch = name;
	filter->job = slash + 1;
}

/* ---- lines ---- */

/* Longer texts overflow their column, so that one long reason does not widen all lines. */
#define WIDTH_MAX 60

/* The database is shown if there are several. */
static bool ledger_has_column(const struct ledger_lines *l, const struct field *f)
{
	return f->title && (l->settings->ndatabases > 1 || f->words != field_database);
}

static void cell_of(const struct ledger_lines *l, const struct ledger_line *line,
                    const struct field *f, struct buf *out)
{
	struct viewer v =
		viewer_local(settings_watch(l->settings, line->row->watch), line->database->name);
	buf_clear(out);
	if (!field_words(&entry_record, f, line->row, &v, out) || !out->len)
		buf_add(out, "-");
}

void ledger_lines_measure(struct ledger_lines *l, const struct ledger_line *lines, int n)
{
	AUTO_BUF cell = BUF_INIT;
	for (int i = 0; i < n && !l->json; i++) {
		int column = 0;
		for (const struct field *f = entry_fields; !field_is_last(f); f++) {
			if (!ledger_has_column(l, f))
				continue;
			assert(column < LEDGER_COLUMNS_MAX);
			cell_of(l, &lines[i], f, &cell);
			int width = out_width(buf_text(&cell)), least = out_width(f->title);
			width = width < least || width > WIDTH_MAX ? least : width;
			if (width > l->widths[column])
				l->widths[column] = width;
			column++;
		}
	}
}

/* `line` NULL: the titles. The last column is not padded. */
static void ledger_add_line(const struct ledger_lines *l, const struct ledger_line *line,
                            struct buf *out)
{
	AUTO_BUF cell = BUF_INIT;
	int column = 0;
	for (const struct field *f = entry_fields; !field_is_last(f); f++) {
		if (!ledger_has_column(l, f))
			continue;
		bool last = field_is_last(f + 1);
		if (line)
			cell_of(l, line, f, &cell);
		out_padded(out, line ? buf_text(&cell) : f->title, last ? 0 : l->widths[column]);
		buf_add(out, last ? "\n" : "  ");
		column++;
	}
}

void ledger_lines_text(struct ledger_lines *l, const struct ledger_line *lines, int n,
                       struct buf *out)
{
	ledger_lines_measure(l, lines, n);
	if (n && !l->json && !l->begun) {
		ledger_add_line(l, NULL, out);
		l->begun = true;
	}
	for (int i = 0; i < n; i++) {
		const struct ledger_row *r = lines[i].row;
		struct viewer v =
			viewer_local(settings_watch(l->settings, r->watch), lines[i].database->name);
		if (l->json) {
			record_json(&entry_record, r, &v, out);
			buf_add(out, "\n");
		} else {
			ledger_add_line(l, &lines[i], out);
		}
	}
}

void entry_words(const struct watch *w, const struct ledger_row *r, struct buf *out)
{
	bool judged = r->verdict && !text_eq(r->verdict, verdict_names[VERDICT_NONE]);
	const struct event_name *e = event_named(r->event);
	buf_add(out, e ? e->phrase : r->event);
	if (judged)
		buf_addf(out, " (%s)", r->verdict);
	if (r->reason) {
		buf_add(out, ": ");
		entry_reason(w, r, out);
	}
}

static void add_scalar(const json_t *value, struct buf *out)
{
	char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	buf_add(out, text ? text : (json_is_string(value) ? json_string_value(value) : ""));
	free(text);
}

static void one_change(const struct watch *w, const char *column, const json_t *was,
                       const json_t *is, struct buf *out)
{
	AUTO_BUF value = BUF_INIT;
	buf_addf(out, "%s%s: ", out->len ? ", " : "", column);
	add_scalar(was, &value);
	shown_value(w, column, buf_text(&value), out);
	buf_clear(&value);
	add_scalar(is, &value);
	buf_add(out, " -> ");
	shown_value(w, column, buf_text(&value), out);
}

void changes_text(const struct watch *w, const char *was_row, const char *is_row, bool all,
                  struct buf *out)
{
	json_auto_t *before = was_row ? json_loads(was_row, JSON_DECODE_ANY, NULL) : NULL;
	json_auto_t *after = is_row ? json_loads(is_row, JSON_DECODE_ANY, NULL) : NULL;
	for (void *at = json_object_iter(before); at; at = json_object_iter_next(before, at)) {
		const char *column = json_object_iter_key(at);
		const json_t *was = json_object_iter_value(at), *is = json_object_get(after, column);
		if (is && !json_equal(was, is) && (all || watch_running_names(w, column)))
			one_change(w, column, was, is, out);
	}
}

/* ---- incidents ---- */

/* The same incident, with the name of the host as this viewer sees it. */
static struct incident seen_by(const struct incident *i, const struct viewer *v, struct buf *host)
{
	struct incident seen = *i;
	if (i->host)
		viewer_text(i->host, v->role, host);
	seen.host = i->host ? buf_text(host) : NULL;
	return seen;
}

static bool incident_what_words(const void *row, const struct viewer *v, struct buf *out)
{
	AUTO_BUF host = BUF_INIT;
	struct incident seen = seen_by(row, v, &host);
	incident_what(&seen, out);
	return true;
}

static bool incident_outcome_words(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	incident_outcome(row, out);
	return true;
}

/* "host b lost 3 workers at 03:12:07Z, 41 jobs recovered in 9ms, 1 held" */
static bool incident_sentence(const void *row, const struct viewer *v, struct buf *out)
{
	const struct incident *i = row;
	AUTO_BUF at = BUF_INIT, outcome = BUF_INIT;
	time_iso(i->from_us, &at);
	incident_outcome(i, &outcome);
	incident_what_words(row, v, out);
	buf_addf(out, " at %.8sZ%s%s", buf_text(&at) + 11, outcome.len ? ", " : "", buf_text(&outcome));
	return true;
}

/* As many as are kept. */
static const char *ledger_named_watch(const void *row, int i)
{
	const struct incident *x = row;
	return i < x->nwatches && i < INCIDENT_NAMES ? x->watches[i] : NULL;
}

static const char *named_worker(const void *row, int i)
{
	const struct incident *x = row;
	return i < x->nworkers && i < INCIDENT_NAMES ? x->workers[i] : NULL;
}

static bool incident_median(const void *row, int64_t *out)
{
	*out = ((const struct incident *)row)->median_us;
	return *out >= 0;
}

#define AT(member) FIELD_AT(struct incident, member)
static const struct field incident_fields[] = {
	{"database", .words = field_database},
	{"from", FIELD_TIME, AT(from_us)},
	{"to", FIELD_TIME, AT(to_us)},
	{"what", .words = incident_what_words, .about = "such as: host b lost 3 workers"},
	{"outcome", .words = incident_outcome_words, .about = "such as: 41 jobs recovered in 9ms"},
	{"sentence", .words = incident_sentence, .about = "both, with the time"},
	{"host", .mask = MASK_IDENTITY, AT(host), .null = true},
	{"watches", FIELD_TEXTS, .item = ledger_named_watch, .about = "the first of them"},
	{"workers", FIELD_TEXTS, MASK_IDENTITY, .item = named_worker, .about = "the first of them"},
	{"nworkers", FIELD_INT, AT(nworkers), .about = "all that were lost"},
	{"verdict", FIELD_WORD, AT(verdict), .names = verdict_names, .zero_null = true,
     .about = "of most of its jobs"},
	{"jobs", FIELD_NUMBER, AT(jobs), .about = "that were found stuck"},
	{"recovered", FIELD_NUMBER, AT(recovered)},
	{"failed", FIELD_NUMBER, AT(failed), .about = "of those recovered"},
	{"held", FIELD_NUMBER, AT(held)},
	{"reported", FIELD_NUMBER, AT(left), .about = "found stuck and left unchanged"},
	{"median_s", FIELD_SECONDS, .number = incident_median, .null = true,
     .about = "from loss to recovery"},
	{0},
};
#undef AT

const struct record incident_record = {
	.name = "Incident",
	.about = "what was lost at one time, and what became of its jobs",
	.fields = incident_fields,
	.size = sizeof(struct incident),
};
