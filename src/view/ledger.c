/* SPDX-License-Identifier: Apache-2.0 */
#include "view/ledger.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "recover/evidence.h"

void entry_secrets(const struct watch *w, const struct ledger_row *r, struct secrets *out)
{
	secrets_document(out, w, r->evidence);
	secrets_document(out, w, r->before);
	secrets_document(out, w, r->after);
}

void entry_reason(const struct watch *w, const struct ledger_row *r, struct buf *out)
{
	AUTO_SECRETS secrets = {0};
	entry_secrets(w, r, &secrets);
	if (r->reason)
		masked_free_text(w, &secrets, r->reason, out);
}

void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out)
{
	const struct {
		const char *name, *text;
	} texts[] = {{"at", r->at},       {"database", database},  {"batch", r->batch},
	             {"watch", r->watch}, {"job", r->job},         {"event", r->event},
	             {"actor", r->actor}, {"verdict", r->verdict}, {"rule", r->rule}},
	  documents[] = {{"evidence", r->evidence}, {"before", r->before}, {"after", r->after}};
	AUTO_BUF reason = BUF_INIT;
	AUTO_SECRETS secrets = {0};
	entry_secrets(w, r, &secrets);
	buf_addf(out, "{\"id\":%lld", (long long)r->id);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		json_text(out, texts[i].name, texts[i].text);
	entry_reason(w, r, &reason);
	json_text(out, "reason", r->reason ? buf_text(&reason) : NULL);
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		buf_addf(out, ",\"%s\":", documents[i].name);
		masked_document(w, &secrets, documents[i].text, out);
	}
	json_number(out, "epoch", r->has_epoch, r->epoch);
	buf_add(out, "}");
}

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

/* Longer texts overflow their column, so that one long reason does not widen all lines. */
#define WIDTH_MAX 60

static void json_line(const struct ledger_lines *l, const struct ledger_line *line, struct buf *out)
{
	const struct watch *w = settings_watch(l->settings, line->row->watch);
	AUTO_BUF entry = BUF_INIT;
	entry_json(w, line->database->name, line->row, &entry);
	json_visible(out, buf_text(&entry));
	buf_add(out, "\n");
}

/* "silent: no sign of life for 2h", or the part that exists. */
static void add_why(struct buf *out, const struct watch *w, const struct ledger_row *r)
{
	if (r->verdict)
		buf_add(out, r->verdict);
	if (r->verdict && r->reason)
		buf_add(out, ": ");
	entry_reason(w, r, out);
}

static const char *or_dash(const char *text)
{
	return text && *text ? text : "-";
}

/* The padded columns; the batch ends the line. */
static void cells_of(const struct ledger_lines *l, const struct ledger_line *line, struct buf *why,
                     const char *cells[LEDGER_COLUMNS])
{
	const struct ledger_row *r = line->row;
	bool several = l->settings->ndatabases > 1;
	buf_clear(why);
	add_why(why, settings_watch(l->settings, r->watch), r);
	const char *const all[LEDGER_COLUMNS] = {r->at,
	                                         several ? line->database->name : NULL,
	                                         or_dash(r->watch),
	                                         or_dash(r->job),
	                                         r->event,
	                                         or_dash(buf_text(why)),
	                                         or_dash(r->actor)};
	memcpy(cells, all, sizeof all);
}

static const char *const titles[LEDGER_COLUMNS] = {"AT",    "DATABASE", "WATCH", "JOB",
                                                   "EVENT", "WHY",      "ACTOR"};

static void add_titles(const struct ledger_lines *l, struct buf *out)
{
	for (int k = 0; k < LEDGER_COLUMNS; k++) {
		if (l->widths[k])
			out_padded(out, titles[k], l->widths[k]);
		buf_add(out, l->widths[k] ? "  " : "");
	}
	buf_add(out, "BATCH\n");
}

void ledger_lines_measure(struct ledger_lines *l, const struct ledger_line *lines, int n)
{
	const char *cells[LEDGER_COLUMNS];
	AUTO_BUF why = BUF_INIT;
	for (int i = 0; i < n && !l->json; i++) {
		cells_of(l, &lines[i], &why, cells);
		for (int k = 0; k < LEDGER_COLUMNS; k++) {
			int width = cells[k] ? out_width(cells[k]) : 0;
			int least = cells[k] ? (int)strlen(titles[k]) : 0;
			width = width < least || width > WIDTH_MAX ? least : width;
			if (width > l->widths[k])
				l->widths[k] = width;
		}
	}
}

void ledger_lines_text(struct ledger_lines *l, const struct ledger_line *lines, int n,
                       struct buf *out)
{
	const char *cells[LEDGER_COLUMNS];
	AUTO_BUF why = BUF_INIT;
	ledger_lines_measure(l, lines, n);
	if (n && !l->json && !l->begun) {
		add_titles(l, out);
		l->begun = true;
	}
	for (int i = 0; i < n; i++) {
		if (l->json) {
			json_line(l, &lines[i], out);
			continue;
		}
		cells_of(l, &lines[i], &why, cells);
		for (int k = 0; k < LEDGER_COLUMNS; k++) {
			if (!cells[k])
				continue;
			out_padded(out, cells[k], l->widths[k]);
			buf_add(out, "  ");
		}
		out_padded(out, or_dash(lines[i].row->batch), 0);
		buf_add(out, "\n");
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

/* As many as are kept, masked. */
static int named(const char *const *names, int n, enum role role, struct arena *a, const char **out)
{
	int kept = n < INCIDENT_NAMES ? n : INCIDENT_NAMES;
	for (int i = 0; i < kept; i++)
		out[i] = viewer_text(names[i], role, a);
	return kept;
}

/* "host b lost 3 workers at 03:12:07Z, 41 jobs recovered in 9ms, 1 held" */
static void add_sentence(const struct incident *i, const char *what, const char *outcome,
                         struct buf *out)
{
	AUTO_BUF at = BUF_INIT, text = BUF_INIT;
	time_iso(i->from_us, &at);
	buf_addf(&text, "%s at %.8sZ%s%s", what, buf_text(&at) + 11, *outcome ? ", " : "", outcome);
	json_text(out, "sentence", buf_text(&text));
}

void incident_json(const struct incident *i, const char *database, enum role role, struct arena *a,
                   struct buf *out)
{
	AUTO_BUF what = BUF_INIT, outcome = BUF_INIT;
	struct incident seen = *i;
	const char *workers[INCIDENT_NAMES];
	seen.host = viewer_text(i->host, role, a);
	int nworkers = named(i->workers, i->nworkers, role, a, workers);
	int nwatches = i->nwatches < INCIDENT_NAMES ? i->nwatches : INCIDENT_NAMES;
	incident_what(&seen, &what);
	incident_outcome(&seen, &outcome);
	buf_add(out, "{\"database\":");
	buf_add_json(out, database);
	json_time(out, "from", true, i->from_us);
	json_time(out, "to", true, i->to_us);
	json_text(out, "what", buf_text(&what));
	json_text(out, "outcome", buf_text(&outcome));
	add_sentence(&seen, buf_text(&what), buf_text(&outcome), out);
	json_text(out, "host", seen.host);
	json_texts(out, "watches", i->watches, nwatches);
	json_texts(out, "workers", workers, nworkers);
	json_number(out, "nworkers", true, i->nworkers);
	json_text(out, "verdict", i->verdict ? verdict_names[i->verdict] : NULL);
	json_number(out, "jobs", true, i->jobs);
	json_number(out, "recovered", true, i->recovered);
	json_number(out, "failed", true, i->failed);
	json_number(out, "held", true, i->held);
	json_number(out, "reported", true, i->left);
	json_seconds(out, "median_s", i->median_us >= 0, i->median_us);
	buf_add(out, "}");
}
