/* SPDX-License-Identifier: Apache-2.0 */
#include "view/installation.h"

#include "base/clock.h"
#include "recover/masked.h"
#include "view/output.h"

static const struct {
	const char *name;
	enum color color;
} levels[FINDING_LEVELS] = {
	[FINDING_OK] = {"ok", COLOR_GREEN},
	[FINDING_WARN] = {"warn", COLOR_YELLOW},
	[FINDING_FAIL] = {"FAIL", COLOR_RED},
};

void finding_json(const struct finding *f, struct buf *out)
{
	buf_addf(out, "{\"level\":\"%s\"", levels[f->level].name);
	json_text(out, "check", f->check);
	json_text(out, "database", f->database);
	json_text(out, "watch", f->watch);
	json_text(out, "text", f->text);
	json_text(out, "fix", f->fix);
	buf_add(out, "}");
}

void finding_text(const struct finding *f, bool color, struct buf *out)
{
	AUTO_BUF level = BUF_INIT;
	out_padded(&level, levels[f->level].name, 6);
	out_color(out, color, levels[f->level].color, buf_text(&level));
	out_padded(out, f->text, 0);
	if (f->fix) {
		buf_add(out, "\n      fix: ");
		out_padded(out, f->fix, 0);
	}
	buf_add(out, "\n");
}

void config_json(const struct cfg_shown *shown, int n, struct buf *out)
{
	buf_add(out, "[");
	for (int i = 0; i < n; i++) {
		buf_add(out, i ? ",\n  {\"path\":" : "\n  {\"path\":");
		buf_add_json(out, shown[i].path);
		json_text(out, "value", shown[i].value);
		json_text(out, "origin", shown[i].origin);
		buf_add(out, "}");
	}
	buf_add(out, n ? "\n]" : "]");
}

/* ---- retention ---- */

/* What retention keeps and has removed in one database; "" if there is nothing. */
void retention_text(const struct database *d, const struct retention_state *st, struct buf *out)
{
	for (int i = 0; i < RETENTION_COUNT; i++) {
		const struct retention_kept *k = &st->kept[i];
		if (k->rows <= 0 && k->removed <= 0)
			continue;
		buf_addf(out, "  kept         %s: ", d->name);
		buf_addf(out, "%s: ", retention_words[i]);
		buf_add_count(out, k->rows);
		if (k->oldest_us >= 0) {
			buf_add(out, ", the oldest ");
			duration_text(k->oldest_us / US_PER_S * US_PER_S, out);
			buf_add(out, " old");
		}
		buf_add(out, "; ");
		buf_add_count(out, k->removed);
		buf_add(out, " removed so far\n");
	}
}

void retention_json(const struct database *d, const struct retention_state *st, struct buf *out)
{
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	buf_addf(out, ",\"last_round_s\":%.3f,\"kept\":{", (double)st->ago_us / 1e6);
	for (int i = 0; i < RETENTION_COUNT; i++) {
		const struct retention_kept *k = &st->kept[i];
		buf_addf(out, "%s\"%s\":{\"rows\":%lld,\"removed\":%lld,\"oldest_s\":", i ? "," : "",
		         retention_names[i], (long long)(k->rows > 0 ? k->rows : 0), (long long)k->removed);
		if (k->oldest_us >= 0)
			buf_addf(out, "%.3f}", (double)k->oldest_us / 1e6);
		else
			buf_add(out, "null}");
	}
	buf_add(out, "}}");
}

/* ---- workers ---- */

/* The lines as an array; null if they are unknown. */
static void add_serves(const char *serves, struct buf *out)
{
	buf_add(out, serves ? ",\"serves\":[" : ",\"serves\":null");
	for (int n = 0; serves && *serves; n++) {
		size_t len = strcspn(serves, "\n");
		char *name = strndup(serves, len);
		buf_add(out, n ? "," : "");
		buf_add_json(out, name ? name : "");
		free(name);
		serves += len + (serves[len] == '\n');
	}
	buf_add(out, serves ? "]" : "");
}

void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out)
{
	bool process = w->known && role >= ROLE_OPERATOR;
	buf_addf(out, "{\"id\":%lld", (long long)w->id);
	json_text(out, "name", viewer_text(w->name, role, a));
	json_text(out, "host", w->known ? viewer_text(w->who.host, role, a) : NULL);
	json_number(out, "pid", process, w->who.pid);
	json_text(out, "state", w->state);
	json_bool(out, "expired", w->expired);
	json_time(out, "started_at", true, w->started_us);
	json_time(out, "renewed_at", true, w->renewed_us);
	json_time(out, "expires_at", true, w->expires_us);
	json_seconds(out, "lease_s", true, w->lease_us);
	json_time(out, "ended_at", w->has_ended, w->ended_us);
	json_text(out, "cause", w->cause);
	json_number(out, "holding", true, w->holding);
	add_serves(w->serves, out);
	buf_add(out, ",\"info\":");
	masked_document(NULL, NULL, w->info, out);
}

void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out)
{
	int64_t aside = json_integer_value(json_object_get(spool, "set_aside"));
	const char *why = json_string_value(json_object_get(spool, "why"));
	const char *unserved = json_string_value(json_object_get(spool, "unserved"));
	AUTO_BUF text = BUF_INIT;
	if (aside) {
		buf_add_count(&text, aside);
		buf_addf(&text, " result%s set aside, the database refuses to record %s: %s",
		         aside == 1 ? " is" : "s are", aside == 1 ? "it" : "them", why ? why : "?");
	}
	if (unserved)
		buf_addf(&text, "%sresults in its spool wait for a worker that serves %s",
		         aside ? "; " : "", unserved);
	buf_addf(out, "  worker       %s: %s: ", d->name, name);
	out_padded(out, buf_text(&text), 0);
	buf_add(out, "\n");
}

void worker_spool_json(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out)
{
	char *text = json_dumps(spool, JSON_COMPACT);
	buf_add(out, "{\"database\":");
	buf_add_json(out, d->name);
	buf_add(out, ",\"worker\":");
	buf_add_json(out, name);
	buf_addf(out, ",\"spool\":%s}", text ? text : "{}");
	free(text);
}
